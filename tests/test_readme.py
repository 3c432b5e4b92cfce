"""The README is true: its Python examples run, and its figures are those of bench/results.

python bench/report.py   # writes the figures
"""

from __future__ import annotations

import doctest
import importlib.util
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_examples() -> None:
    """Each example gives what it says."""
    assert doctest.testfile(str(ROOT / "README.md"), module_relative=False).failed == 0


def test_figures() -> None:
    """Each figure stands in a result file."""
    spec = importlib.util.spec_from_file_location("report", ROOT / "bench" / "report.py")
    assert spec is not None
    assert spec.loader is not None
    report = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(report)
    readme = (ROOT / "README.md").read_text()
    assert report.insert(readme) == readme
