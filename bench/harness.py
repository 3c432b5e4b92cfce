"""Timing that can be trusted: the contestants in turn, in one process, medians and spreads of ratios, results as JSON.

Invariant: nothing is timed before the outputs were found equal, and no absolute time is a result: what counts is the
ratio between two contestants of the same round.

    >>> rounds = interleave({"a": lambda: sum(range(1000)), "b": lambda: sum(range(10))}, rounds=3)
    >>> ratio(rounds, "a", "b").median > 1
    True
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

RESULTS = Path(__file__).parent / "results"
Rounds = dict[str, list[float]]


class Ratio(NamedTuple):
    """The ratio of two contestants over the rounds: its median, least and greatest value."""

    median: float
    least: float
    greatest: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.least:.2f}-{self.greatest:.2f})"


def interleave(
    contestants: Mapping[str, Callable[[], Any]], rounds: int = 9, before: Mapping[str, Callable[[], Any]] | None = None
) -> Rounds:
    """Time each contestant once a round, in turn; ``before`` runs untimed ahead of its contestant."""
    seconds: Rounds = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            if before and name in before:
                before[name]()
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def ratio(seconds: Rounds, slower: str, faster: str) -> Ratio:
    """Give how many times the time of ``faster`` the other one took, round by round."""
    values = [one / other for one, other in zip(seconds[slower], seconds[faster], strict=True)]
    return Ratio(statistics.median(values), min(values), max(values))


def environment() -> dict[str, Any]:
    """Give what a reader needs to place a result: versions, processor, cores, commit."""
    packages = ("numbatok", "numba", "llvmlite", "numpy", "tiktoken")
    return {
        "date": time.strftime("%Y-%m-%d"),
        "commit": _commit(),
        "python": platform.python_version(),
        "versions": {name: metadata.version(name) for name in packages},
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
    }


def _commit() -> str:
    told = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=RESULTS.parent, capture_output=True, text=True, check=False
    )
    return told.stdout.strip() or "unknown"


def _cpu() -> str:
    import llvmlite.binding

    return f"{llvmlite.binding.get_host_cpu_name()} ({platform.machine()})"


def save(name: str, results: Mapping[str, Any]) -> Path:
    """Write results with their environment to bench/results/NAME.json."""
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"environment": environment(), **results}, indent=1) + "\n")
    return path
