"""The goals that the project has set itself, each with what was measured for it.

Invariant: a ratio compares numbatok with the best peer whose ids are right, in the same cell (text, operation, threads)
of the same run, round by round. Cells of all encodings go into one geometric mean; the worst one is told beside it.

    >>> str(Goal("list", 1.0, [Cell("gpt2, prose", 2.0), Cell("gpt2, code", 0.5)]))
    '| list | at least 1 | 1.00 | 0.50 (gpt2, code) |'
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from bench.peers import PEERS
from bench.tables import LARGE, SMALL, Row, Section, chosen, digits, growth, scaling, speed
from bench.vocabulary import EMBEDDED

OURS = "numbatok"
Results = dict[str, dict[str, Section]]
"""Encoding -> work -> section."""


class Cell(NamedTuple):
    """A ratio, or another value, and where it was measured."""

    place: str
    value: float


class Goal(NamedTuple):
    """A goal: at least ``wanted``, or at most if it is negative; a goal about every cell tells the worst one only."""

    name: str
    wanted: float
    cells: list[Cell]
    every: bool = False

    def __str__(self) -> str:
        worst = (max if self.wanted < 0 else min)(self.cells, key=lambda cell: cell.value)
        mean = "" if self.every else digits(statistics.geometric_mean(cell.value for cell in self.cells))
        side = "at most" if self.wanted < 0 else "at least"
        return f"| {self.name} | {side} {abs(self.wanted):g} | {mean} | {digits(worst.value)} ({worst.place}) |"


def pace(row: Row) -> float:
    """Give the seconds a byte."""
    return statistics.median(row["seconds"]) / float(row["bytes"])


def times(row: Row, other: Row) -> float:
    """Give how many times faster ``row`` is than ``other``, by the median of the rounds."""
    size = row["bytes"] / other["bytes"]
    pairs = zip(row["seconds"], other["seconds"], strict=False)
    return statistics.median(size * theirs / ours for ours, theirs in pairs)


def cells(encoding: str, rows: Iterable[Row], peers: Callable[[Row], bool] = lambda row: True) -> list[Cell]:
    """Compare numbatok with the best of some peers in each cell."""
    told = []
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["case"], row["threads"], row.get("after_tiny_call")), []).append(row)
    for (case, *_), group in groups.items():
        ours = [row for row in group if row["peer"] == OURS]
        others = [row for row in group if row["peer"] != OURS and peers(row)]
        if ours and others and not str(case).endswith("-32k"):
            told.append(Cell(f"{encoding}, {case}", times(ours[0], min(others, key=pace))))
    return told


def is_tiktoken(row: Row) -> bool:
    """Tell whether a row is tiktoken's."""
    return bool(row["peer"] == "tiktoken")


def per_work(results: Results, work: str, make: Callable[[str, Section], list[Cell]]) -> list[Cell]:
    """Collect cells over the encodings that have a work."""
    return [cell for encoding, works in results.items() if work in works for cell in make(encoding, works[work])]


def parallel(section: Section, rows: Iterable[Row]) -> list[Row]:
    """Give the rows on all threads; none where one thread is all."""
    return [row for row in rows if row["threads"] == section["threads"][-1] > 1]


def own(encoding: str, rows: Iterable[Row], value: Callable[[Row], float]) -> list[Cell]:
    """Give a value of numbatok's own rows, of those with its first form of text."""
    rows = [row for row in rows if row["peer"] == OURS and row["form"] == PEERS[OURS].forms[0]]
    return [Cell(f"{encoding}, {row['case']}", value(row)) for row in rows]


def throughput_goals(results: Results) -> list[Goal]:
    """Warm text, lists, decoding."""

    def of(work: str, *ops: str, **fields: Any) -> list[Cell]:
        return per_work(results, work, lambda encoding, told: cells(encoding, chosen(told, *ops, **fields)))

    def over_tiktoken(work: str, *ops: str) -> list[Cell]:
        return per_work(results, work, lambda name, told: cells(name, chosen(told, *ops, threads=1), is_tiktoken))

    array = of("whole", "array", threads=1)
    return [
        Goal("one thread to NumPy, warm, times the best peer", 1.25, array),
        Goal("the same, every cell", 1.0, array, every=True),
        Goal("the same, times tiktoken", 25, over_tiktoken("whole", "array")),
        Goal("to a list, times the best peer", 1.0, of("whole", "list", threads=1)),
        Goal("strings to a list, times the best peer", 1.0, of("strings", "list", threads=1)),
        Goal("10,000 tiny strings to lists, times tiktoken", 3, over_tiktoken("tiny", "lists")),
        Goal("decode, times the best peer", 3, of("whole", "decode", threads=1)),
    ]


def fresh_goals(results: Results) -> list[Goal]:
    """First passes, threads, memory."""
    ops = ("arrays", "lists")

    def first(tiny: bool) -> list[Cell]:
        fields = {"threads": 1, "after_tiny_call": tiny}
        return per_work(results, "fresh", lambda name, told: cells(name, chosen(told, *ops, **fields)))

    def most(told: Section) -> list[Row]:
        return parallel(told, chosen(told, *ops, after_tiny_call=True))

    def more(name: str, told: Section) -> list[Cell]:
        alone = chosen(told, *ops, threads=1, after_tiny_call=True)
        return own(name, most(told), lambda row: scaling(row, alone).median)

    def warm_more(name: str, told: Section) -> list[Cell]:
        rows = [row for row in chosen(told, "arrays") if row["case"].startswith("mixed")]
        return own(name, parallel(told, rows), lambda row: scaling(row, rows).median)

    def memory(name: str, told: Section) -> list[Cell]:
        rows = [row for row in chosen(told, *ops, threads=1, after_tiny_call=True) if row["case"].startswith("mixed")]
        return own(name, rows, lambda row: statistics.median(row["extra_peak"]) / (4 * row["ids"]))

    fresh = per_work(results, "fresh", lambda name, told: cells(name, most(told)))
    chunked = per_work(results, "chunks", lambda name, told: cells(name, parallel(told, chosen(told, "arrays"))))
    return [
        Goal("fresh text, one thread, first call, times the best peer", 1.5, first(False)),
        Goal("fresh text, one thread, after a tiny call, times the best peer", 1.5, first(True)),
        Goal("both, every cell", 1.0, first(False) + first(True), every=True),
        Goal("fresh text, all threads, times one", 1.7, per_work(results, "fresh", more), every=True),
        Goal("fresh text, all threads, times the best peer", 2.5, fresh),
        Goal("mixed, chunks, all threads, times one", 1.85, per_work(results, "chunks", warm_more), every=True),
        Goal("chunks, all threads, times the best peer", 1.0, chunked, every=True),
        Goal("peak extra memory over the size of the ids, mixed", -2.2, per_work(results, "fresh", memory), every=True),
    ]


def hostile_goals(results: Results) -> list[Goal]:
    """Hostile texts."""

    def small(told: Section) -> list[Row]:
        return [row for row in told["rows"] if row["case"].endswith(SMALL)]

    def grown(name: str, told: Section) -> list[Cell]:
        rows = [row for row in told["rows"] if row["case"].endswith(LARGE)]
        return own(name, rows, lambda row: growth(row, told["rows"]).median)

    ahead = per_work(results, "hostile", lambda name, told: cells(name, small(told)))
    paces = per_work(results, "hostile", lambda name, told: own(name, small(told), lambda row: speed(row).median))
    return [
        Goal("hostile texts of 1 MB, times the best peer, each", 1.0, ahead, every=True),
        Goal("hostile texts of 1 MB, MB/s, each", 30, paces, every=True),
        Goal("hostile texts of 4 MB, times 1 MB, each", -4.6, per_work(results, "hostile", grown), every=True),
    ]


def goal_table(results: Results) -> list[str]:
    """Give the table of all goals that something was measured for; they are about the embedded encodings."""
    results = {name: works for name, works in results.items() if name in EMBEDDED}
    goals = throughput_goals(results) + fresh_goals(results) + hostile_goals(results)
    lines = [str(goal) for goal in goals if goal.cells]
    head = ["| goal | wanted | geometric mean | worst cell |", "|---|---|---:|---|"]
    return [*head, *lines, ""] if lines else []
