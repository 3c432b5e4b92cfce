"""What the doctests of the package may use without importing it."""

from __future__ import annotations

from typing import Any

import pytest

import numbatok


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace: dict[str, Any]) -> None:
    doctest_namespace["numbatok"] = numbatok
