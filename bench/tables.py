"""Markdown tables of the results: one function for each work, from what stands in bench/results and nothing else.

Invariant: the same results give the same text. A figure is a median over the rounds, with the least and the greatest
one behind it; the best one of a column is bold.

    >>> speed({"bytes": 2_000_000, "seconds": [0.02, 0.01, 0.04]})
    Figure(median=100.0, least=50.0, greatest=200.0)
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from bench.corpora import STRING_SIZES
from bench.peers import PEERS
from bench.unseen import SIZES

Row = dict[str, Any]
Section = dict[str, Any]
MEGA = 1e6
SMALL, LARGE = SIZES
FASTER, SHORTER = max, min
SPLIT, MERGE, FIRST_PASS, WARM_PASS, COUNT = "split", "merge", "first pass", "warm pass", "warm count"
CACHE_FIRST = "cache first (the package)"
"""What the study times, beside its variants."""


class Figure(NamedTuple):
    """A median with the least and the greatest value of the rounds."""

    median: float
    least: float
    greatest: float

    def __str__(self) -> str:
        spread = f" ({digits(self.least)}–{digits(self.greatest)})" if self.least != self.greatest else ""
        return digits(self.median) + spread


def digits(value: float) -> str:
    """Write a number with three digits, and no more behind the point than that takes."""
    places = 0 if value >= 99.5 else 1 if value >= 9.95 else 2
    return f"{value:,.{places}f}"


def figure(values: Iterable[float]) -> Figure:
    """Give the figure of some values."""
    told = list(values)
    return Figure(statistics.median(told), min(told), max(told))


def speed(row: Row) -> Figure:
    """Give MB/s."""
    return figure(row["bytes"] / seconds / MEGA for seconds in row["seconds"])


def milliseconds(row: Row, key: str = "seconds") -> Figure:
    """Give milliseconds."""
    return figure(seconds * 1e3 for seconds in row[key])


def label(row: Row, rows: Sequence[Row]) -> str:
    """Name a contestant: the peer, and the form of its text if it was measured with two."""
    forms = {other["form"] for other in rows if other["peer"] == row["peer"]}
    name: str = row["peer"]
    return f"{name} (str)" if row["form"] == "str" and len(forms) > 1 else name


def cell(row: Row, rows: Sequence[Row], value: Figure) -> str:
    """Give the text of a cell: marked if it was measured on a sample, once, or to a list where others made an array."""
    longest = max(other["bytes"] for other in rows if other["case"] == row["case"])
    sample = "ˢ" if row["bytes"] < longest else ""
    once = "¹" if row.get("once") else ""
    listed = "ˡ" if row["op"] in ("list", "lists") and any(other["op"] in ("array", "arrays") for other in rows) else ""
    return f"{value}{sample}{once}{listed}"


def grid(
    head: str,
    rows: Sequence[Row],
    column: Callable[[Row], str],
    value: Callable[[Row], Figure],
    best: Callable[..., float] = FASTER,
) -> list[str]:
    """Give a table: a line for each contestant, in the order of PEERS, a column for each value of ``column``.

    No lines for no rows.
    """
    if not rows:
        return []
    columns = list(dict.fromkeys(map(column, rows)))
    lines: dict[str, dict[str, tuple[float, str]]] = {}
    order = list(PEERS)
    for row in sorted(rows, key=lambda row: order.index(row["peer"]) if row["peer"] in order else len(order)):
        told = value(row)
        lines.setdefault(label(row, rows), {})[column(row)] = told.median, cell(row, rows, told)
    made = [f"| {head} | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
    for name, cells in lines.items():
        texts = []
        for one in columns:
            winner = best(line[one][0] for line in lines.values() if one in line)
            median, text = cells.get(one, (None, "–"))
            texts.append(f"**{text}**" if median == winner else text)
        made.append(f"| {name} | " + " | ".join(texts) + " |")
    return [*made, ""]


def chosen(section: Section, *ops: str, threads: int | None = None, **fields: Any) -> list[Row]:
    """Give the rows of some operations, a number of threads, and other fields."""
    wanted = fields | ({"threads": threads} if threads else {})
    return [
        row
        for row in section["rows"]
        if row.get("op") in ops and all(row.get(name) == value for name, value in wanted.items())
    ]


def titled(title: str, lines: list[str]) -> list[str]:
    """Give a title and its table; nothing for a table without rows."""
    return [f"{title}:", "", *lines] if lines else []


def on_threads(number: int) -> str:
    """Write a number of threads."""
    return f"{number} thread{'s' * (number > 1)}"


def case_name(row: Row) -> str:
    """Name a column after its text."""
    return str(row["case"]).removesuffix(", chunks")


def whole_tables(section: Section) -> list[str]:
    """One text in one call."""
    titles = {"array": "To a NumPy array", "list": "To a list", "decode": "Ids to text", "count": "Counting only"}
    parts = []
    for op, title in titles.items():
        rows = chosen(section, op, threads=1)
        parts += titled(f"{title}, one thread, warm, MB/s", grid(title, rows, case_name, speed))
    threads = section["threads"][-1]
    rows = chosen(section, "arrays", threads=threads)
    title = f"One text in one batch call, {threads} threads, warm, MB/s"
    return parts + titled(title, grid("To a NumPy array", rows, case_name, speed))


def scaling(row: Row, rows: Sequence[Row]) -> Figure:
    """Give how many times faster than on one thread, round by round."""
    key = ("peer", "form", "case", "op")
    one = next(other for other in rows if other["threads"] == 1 and all(other[k] == row[k] for k in key))
    return figure(first / more for first, more in zip(one["seconds"], row["seconds"], strict=False))


def chunk_tables(section: Section) -> list[str]:
    """Chunks of 64 KiB in one call, from one thread to all."""
    parts = []
    for op, title in {"arrays": "Chunks to a NumPy array", "lists": "Chunks to lists"}.items():
        for threads in section["threads"]:
            rows = chosen(section, op, threads=threads)
            parts += titled(f"{title}, {on_threads(threads)}, warm, MB/s", grid(title, rows, case_name, speed))
        most = chosen(section, op, threads=section["threads"][-1])
        everything = chosen(section, op)
        alone = {(row["peer"], row["form"], row["case"]) for row in everything if row["threads"] == 1}
        rows = [row for row in most if (row["peer"], row["form"], row["case"]) in alone]
        if section["threads"][-1] > 1 and rows:
            table = grid(title, rows, case_name, lambda row, told=everything: scaling(row, told))
            parts += titled(f"{title}, {section['threads'][-1]} threads, times one thread", table)
    return parts


def string_tables(section: Section) -> list[str]:
    """Single strings, microseconds each."""
    parts = []
    for op, title in {"list": "To a list", "array": "To a NumPy array"}.items():
        rows = chosen(section, op)
        micro = [row | {"seconds": [seconds * 1e3 / row["texts"] for seconds in row["seconds"]]} for row in rows]
        columns = [f"strings of {size:,} bytes" for size in STRING_SIZES]
        micro.sort(key=lambda row: columns.index(row["case"]))
        table = grid(title, micro, case_name, milliseconds, SHORTER)
        parts += titled(f"{title}, one call a string, microseconds a string", table)
    return parts


def tiny_tables(section: Section) -> list[str]:
    """A batch of very short strings, milliseconds."""
    rows = chosen(section, "lists", "arrays")

    def column(row: Row) -> str:
        return f"{row['op']}, {on_threads(row['threads'])}"

    # every column has one operation, so none of its cells needs the mark of a list
    table = [line.replace("ˡ", "") for line in grid("10,000 tiny strings", rows, column, milliseconds, SHORTER)]
    return titled("10,000 strings of 1 to 20 bytes in one call, milliseconds", table)


def kind(row: Row) -> str:
    """Give the kind of a hostile text."""
    return str(row["case"]).rpartition(", ")[0]


def growth(row: Row, rows: Sequence[Row]) -> Figure:
    """Give how many times longer the large text took than the small one, round by round; 4 is linear."""
    name = row["case"].removesuffix(LARGE) + SMALL
    small = next(other for other in rows if other["case"] == name and other["peer"] == row["peer"])
    return figure(large / one for large, one in zip(row["seconds"], small["seconds"], strict=False))


def hostile_tables(section: Section) -> list[str]:
    """Hostile texts: time of the small one, growth to the large one."""
    rows = section["rows"]
    small = [row for row in rows if row["case"].endswith(SMALL)]
    both = {(row["peer"], kind(row)) for row in small}
    large = [row for row in rows if row["case"].endswith(LARGE) and (row["peer"], kind(row)) in both]

    tables = titled("1 MB, one thread, milliseconds", grid("hostile text", small, kind, milliseconds, SHORTER))
    grown = grid("hostile text", large, kind, lambda row: growth(row, rows), SHORTER)
    return tables + titled("4 MB, times the time of 1 MB (4 is linear)", grown)


def fresh_tables(section: Section) -> list[str]:
    """First passes in fresh processes, and their memory."""
    parts = []
    for threads in dict.fromkeys((1, section["threads"][-1])):
        for tiny, title in {False: "the first call of a process", True: "after a tiny call"}.items():
            rows = chosen(section, "arrays", "lists", threads=threads, after_tiny_call=tiny)
            table = grid("first pass", rows, case_name, speed)
            parts += titled(f"First pass, {title}, {on_threads(threads)}, MB/s", table)

    def memory(row: Row) -> Figure:
        return figure(extra / (4 * row["ids"]) for extra in row["extra_peak"])

    rows = chosen(section, "arrays", "lists", threads=1, after_tiny_call=True)
    table = grid("memory", rows, case_name, memory, SHORTER)
    return parts + titled("Peak memory of that pass beyond what was there before, times the size of the ids", table)


def start_tables(section: Section) -> list[str]:
    """Importing, loading, and the first call."""
    steps = {"import": "import", "load": "load the vocabulary", "seconds": "first call"}
    made = ["| start, milliseconds | " + " | ".join(steps.values()) + " | memory, MB |", "|---|" + "---:|" * 4]
    for row in section["rows"]:
        told = [str(milliseconds(row, key)) if key in row else "–" for key in steps]
        memory = digits(statistics.median(row["resident"]) / MEGA) if "resident" in row else "–"
        made.append(f"| {row['peer']} | " + " | ".join([*told, memory]) + " |")
    return [*made, ""]


def parts(seconds: dict[str, list[float]]) -> dict[str, float]:
    """Give the seconds of each part of a first pass (see study.py), medians over the rounds."""
    split, merge, total, warm, counted = (
        statistics.median(seconds[name]) for name in (SPLIT, MERGE, FIRST_PASS, WARM_PASS, COUNT)
    )
    output = max(0.0, warm - counted)
    return {"split": split, "cache": total - split - merge - output, "merge": merge, "output": output}


def study_tables(section: Section) -> list[str]:
    """Where the time of a first pass goes, and the ways to merge."""
    rows = section["rows"]
    names, told = [row["text"] for row in rows], [parts(row["seconds"]) for row in rows]
    rule = "|---|" + "---:|" * len(names)
    made = ["| part of a first pass | " + " | ".join(names) + " |", rule]
    for part in told[0]:
        made.append(f"| {part} | " + " | ".join(f"{100 * one[part] / sum(one.values()):.0f} %" for one in told) + " |")
    made.append("| byte mapping | " + " | ".join("no such step" for _ in names) + " |")
    made.append("| whole pass, ms | " + " | ".join(digits(1e3 * sum(one.values())) for one in told) + " |")
    made += ["", "| split and merge, MB/s | " + " | ".join(names) + " |", rule]
    for name in rows[0]["seconds"]:
        if name not in (SPLIT, MERGE, FIRST_PASS, WARM_PASS, COUNT):
            speeds = (speed({"bytes": row["bytes"], "seconds": row["seconds"][name]}) for row in rows)
            made.append(f"| {name} | " + " | ".join(map(str, speeds)) + " |")
    return [*made, ""]
