"""One pattern of many names: leftmost, then longest, as trying all of them would find."""

from __future__ import annotations

import random
import re

import pytest

from numbatok.names import DEEPEST, any_of


@pytest.mark.parametrize("seed", range(200))
def test_against_trying_all(seed: int) -> None:
    """Random names over few letters, which begin with each other, and characters that patterns know."""
    rng = random.Random(seed)
    letters = rng.choice(["ab", "ab<|", "a.*+?()[]\\^$ \n-", "é中a"])
    names = {"".join(rng.choices(letters, k=rng.randint(1, 5))) for _ in range(rng.randint(1, 12))}
    text = "".join(rng.choices(letters + "x", k=200))
    flat = re.compile("|".join(map(re.escape, sorted(sorted(names), key=len, reverse=True))))
    found = [match.span() for match in re.compile(any_of(names)).finditer(text)]
    assert found == [match.span() for match in flat.finditer(text)]


def test_names_that_begin_with_each_other() -> None:
    """Deeper than patterns may be nested: the rest is written out."""
    names = ["a" * size for size in range(1, 4 * DEEPEST)]
    match = re.compile(any_of(names)).match("a" * 1_000)
    assert match is not None
    assert match.end() == 4 * DEEPEST - 1
