"""The tables of the README, made from bench/results: ``python bench/report.py`` rewrites them in place.

Invariant: a figure in the README stands in a result file; a test compares the two.

    python bench/gpt2.py CORPUS... && python bench/report.py
"""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parent.parent
START, END = "<!-- figures: bench/report.py -->\n", "<!-- end of figures -->\n"
COLUMNS = {
    "encode, warm": "encode, warm",
    "encode, first pass": "encode, first pass",
    "encode to list, warm": "encode to a list",
    "count, warm": "count",
    "decode of an array": "decode an array",
    "decode of a list": "decode a list",
    "two threads against one": "two threads against one",
}


def tables() -> str:
    """Give the Markdown of all figures."""
    result = json.loads((ROOT / "bench" / "results" / "gpt2.json").read_text())
    ratios, environment = result["ratios"], result["environment"]
    corpora = [subject for subject in ratios if COLUMNS.keys() <= ratios[subject].keys()]
    lines = ["| GPT-2, times tiktoken | " + " | ".join(COLUMNS.values()) + " |", "|---|" + "---:|" * len(COLUMNS)]
    for corpus in corpora:
        cells = (f"{ratios[corpus][name]['median']:.1f}" for name in COLUMNS)
        lines.append(f"| {corpus} | " + " | ".join(cells) + " |")
    versions = environment["versions"]
    short, load, start = ratios["20 bytes"], ratios["load"], ratios["start"]["start to first ids against import numba"]
    lines += [
        "",
        f"A text of 20 bytes: {short['ordinary']['median']:.2f} times as fast (`encode_ordinary`), "
        f"{short['encode']['median']:.2f} times (`encode`). Loading the tables: {load['tables']['median']:.1f} times "
        f"as fast, {load['tables and cache']['median']:.1f} times with the seeded cache. From the start of a process "
        f"to the first ids, kernels cached: {start['median']:.2f} times the time of `import numba`.",
        "",
        f"Medians of ratios within one process run ({environment['cpu']}, {environment['cores']} cores, Python "
        f"{environment['python']}, numba {versions['numba']}, tiktoken {versions['tiktoken']}); spreads are in "
        "`bench/results/gpt2.json`.",
    ]
    return "\n".join(lines) + "\n"


def insert(readme: str) -> str:
    """Give the README with the figures of today between its markers."""
    before, rest = readme.split(START)
    after = rest.split(END)[1]
    return f"{before}{START}\n{tables()}\n{END}{after}"


def write() -> None:
    """Write the figures into the README."""
    path = ROOT / "README.md"
    path.write_text(insert(path.read_text()))


if __name__ == "__main__":
    write()
