"""The documents made of the results: docs/performance.md with its plots, and the figures of README.md.

Invariant: everything between the markers is made from the files of bench/results alone, so it can be made again and
compared; what stands outside of them is written by hand and kept.

    python -m bench report
"""

from __future__ import annotations

import json
from pathlib import Path

from bench import report
from bench.goals import Results, goal_table
from bench.tables import (
    Row,
    Section,
    chosen,
    chunk_tables,
    fresh_tables,
    hostile_tables,
    start_tables,
    string_tables,
    study_tables,
    tiny_tables,
    whole_tables,
)

ROOT = Path(__file__).parent.parent
DOCUMENT, PLOTS = ROOT / "docs" / "performance.md", ROOT / "docs" / "plots"
START, END = "<!-- figures: python -m bench report -->\n", "<!-- end of figures -->\n"
WORKS = {
    "whole": ("One text in one call", whole_tables),
    "chunks": ("Chunks of 64 KiB that end with a line", chunk_tables),
    "fresh": ("Text not seen before", fresh_tables),
    "strings": ("Single strings", string_tables),
    "tiny": ("Tiny strings", tiny_tables),
    "hostile": ("Hostile texts", hostile_tables),
    "start": ("Start", start_tables),
}
STUDY_FILE, RECORD_FILES = "study.json", "record-*.json"


def load(folder: Path) -> Results:
    """Read the records of all encodings."""
    paths = sorted(folder.glob(RECORD_FILES))
    return {path.stem.removeprefix("record-"): json.loads(path.read_text()) for path in paths}


def place(section: Section) -> str:
    """Give the line that says where and with what a section was measured."""
    env = section["environment"]
    versions = env["versions"]
    kernel = f"numba {versions['numba']}, NumPy {versions['numpy']}, Python {env['python']}"
    rounds = f", {section['rounds']} rounds" if "rounds" in section else ""
    return f"*{env['cpu']}, {env['cores']} cores; {kernel}; commit {env['commit']}, {env['date']}{rounds}.*"


def verdict_lines(section: Section) -> list[str]:
    """Give a line for each peer that is missing, does not have the encoding, or failed on some text."""
    lines = [f"* {name} is not installed." for name, version in section["peers"].items() if version is None]
    failed: dict[tuple[str, str], dict[str, str]] = {}
    for told in section["verdicts"]:
        if "case" not in told:
            lines.append(f"* {told['peer']}: {told['detail']}.")
            continue
        failed.setdefault((told["peer"], told["verdict"]), {}).setdefault(told["case"], told["detail"])
    for (peer, verdict), cases in failed.items():
        some = "; ".join(list(cases)[:NAMED]) + (f"; {len(cases) - NAMED} more" if len(cases) > NAMED else "")
        lines.append(f"* {peer} {WORDS[verdict]}: {some} (first: {next(iter(cases.values()))}). Not timed there.")
    return [*lines, ""] if lines else []


WORDS = {"differs": "gives other ids, or other text", "error": "raises an error", "lost": "crashes or hangs"}
NAMED = 6
"""Texts that a line names; it counts the others."""


def encoding_part(name: str, works: dict[str, Section]) -> list[str]:
    """Give all tables of one encoding."""
    lines = [f"## {name}", ""]
    for file, (caption, _) in plotted(name, works).items():
        lines += [f"![{caption}](plots/{file})", ""]
    for work, (title, tables) in WORKS.items():
        if work in works:
            lines += [f"### {name}: {title}", "", place(works[work]), "", *verdict_lines(works[work])]
            lines += tables(works[work])
    return lines


def tables(folder: Path) -> str:
    """Give the Markdown of all results."""
    results = load(folder)
    lines = ["## The goals", "", *goal_table(results)] if results else []
    for name, works in results.items():
        lines += encoding_part(name, works)
    if (folder / STUDY_FILE).exists():
        section = json.loads((folder / STUDY_FILE).read_text())["study"]
        lines += ["## The GPT-2 study", "", place(section), "", *study_tables(section)]
    return "\n".join(lines)


def insert(document: str, folder: Path) -> str:
    """Give the document with the figures of today between its markers."""
    before, rest = document.split(START)
    after = rest.split(END)[1]
    return f"{before}{START}\n{tables(folder)}\n{END}{after}"


def plotted(name: str, works: dict[str, Section]) -> dict[str, tuple[str, list[Row]]]:
    """Give the plots of an encoding: file name -> title and rows."""
    plots = {}
    if "whole" in works:
        rows = chosen(works["whole"], "array", threads=1)
        plots[f"{name}-whole.svg"] = f"{name}: to a NumPy array, one thread, warm", rows
    if "fresh" in works:
        rows = chosen(works["fresh"], "arrays", "lists", threads=1, after_tiny_call=True)
        plots[f"{name}-fresh.svg"] = f"{name}: text not seen before, one thread", rows
    return plots


def write_documents(folder: Path) -> None:
    """Write README.md, docs/performance.md and the plots."""
    from bench.plots import plot_bars

    report.write()
    DOCUMENT.write_text(insert(DOCUMENT.read_text(), folder))
    for name, works in load(folder).items():
        for file, (title, rows) in plotted(name, works).items():
            plot_bars(title, rows, PLOTS / file)
