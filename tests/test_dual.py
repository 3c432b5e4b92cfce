"""The dual cursor gives the pieces of one cursor, on every kind of text and wherever the middle falls.

enc.split(text, cursors=2) == enc.split(text)
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from cases import JIT_OFF, PATHOLOGICAL, REPRESENTATIVES

from numbatok import Encoding

DATA = Path(__file__).parent / "data"
TEXTS = sorted([*DATA.glob("*.txt"), *(DATA / "fixtures").iterdir()])
ROUNDS = 20 if JIT_OFF else 2_000


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_texts(enc: Encoding, path: Path) -> None:
    """Whole texts, and every length around the least one that is cut, split the same."""
    data = path.read_bytes()[: 1_000 if JIT_OFF else None].decode(errors="ignore").encode()
    assert enc.split(data, cursors=2) == enc.split(data)
    for size in range(250, 264):
        text = data[:size].decode(errors="ignore")
        assert enc.split(text, cursors=2) == enc.split(text)


def test_random_texts(enc: Encoding) -> None:
    """Random texts of representative characters and words split the same, with and without a cut near the middle."""
    rng = random.Random(4)
    parts = [*REPRESENTATIVES, "word", "12", "'ll", "  ", "\n\n"]
    for _ in range(ROUNDS):
        text = "".join(rng.choices(parts, k=rng.randrange(60, 400)))
        assert enc.split(text, cursors=2) == enc.split(text)


@pytest.mark.parametrize("name", PATHOLOGICAL)
def test_texts_without_a_cut(enc: Encoding, name: str) -> None:
    """Where no place near the middle is safe one cursor does it all."""
    text = PATHOLOGICAL[name](400)
    assert enc.split(text, cursors=2) == enc.split(text)


@pytest.mark.parametrize("place", [0, 10, 149, 150, 151, 290, 299])
def test_invalid_bytes(enc: Encoding, place: int) -> None:
    """Bytes that are not UTF-8, left or right of the middle, are refused at the same piece."""
    data = bytearray(b"one two " * 40)[:300]
    data[place] = 0xFF
    with pytest.raises(ValueError, match="not UTF-8") as single:
        enc.split(data)
    with pytest.raises(ValueError, match="not UTF-8") as dual:
        enc.split(data, cursors=2)
    assert str(single.value) == str(dual.value)


def test_number_of_cursors(enc: Encoding) -> None:
    """Other numbers of cursors are refused."""
    with pytest.raises(ValueError, match="cursors is 3"):
        enc.split("text", cursors=3)
