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
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from numbatok.measure import Rounds, interleave

__all__ = ["RESULTS", "Ratio", "Rounds", "environment", "interleave", "ratio", "save", "write_section"]

RESULTS = Path(__file__).parent / "results"


class Ratio(NamedTuple):
    """The ratio of two contestants over the rounds: its median, least and greatest value."""

    median: float
    least: float
    greatest: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.least:.2f}-{self.greatest:.2f})"


def ratio(seconds: Rounds, slower: str, faster: str) -> Ratio:
    """Give how many times the time of ``faster`` the other one took, round by round."""
    values = [one / other for one, other in zip(seconds[slower], seconds[faster], strict=True)]
    return Ratio(statistics.median(values), min(values), max(values))


PACKAGES = ("numbatok", "numba", "llvmlite", "numpy", "tiktoken")


def environment(packages: Sequence[str] = PACKAGES) -> dict[str, Any]:
    """Give what a reader needs to place a result: versions, processor, cores, commit."""
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


def write_section(path: Path, name: str, section: Mapping[str, Any]) -> None:
    """Put a section into a file of results, in the place of an older one of that name; a row takes one line."""
    results = json.loads(path.read_text()) if path.exists() else {}
    results[name] = section
    path.parent.mkdir(parents=True, exist_ok=True)
    sections = ",\n".join(f"{json.dumps(key)}: {_lines(value)}" for key, value in results.items())
    path.write_text("{\n" + sections + "\n}\n")


def _lines(section: Mapping[str, Any]) -> str:
    parts = []
    for key, value in section.items():
        text = json.dumps(value)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            text = "[\n  " + ",\n  ".join(json.dumps(_short(row)) for row in value) + "\n ]"
        parts.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}"


def _short(value: Any) -> Any:
    """Round every float to four digits: no clock here gives more."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, list):
        return [_short(one) for one in value]
    return {key: _short(one) for key, one in value.items()} if isinstance(value, dict) else value


def save(name: str, results: Mapping[str, Any]) -> Path:
    """Write results with their environment to bench/results/NAME.json."""
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"environment": environment(), **results}, indent=1) + "\n")
    return path
