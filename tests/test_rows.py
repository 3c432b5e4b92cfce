"""Rows in one buffer: each gives what it gives alone, whatever lies behind it, and wherever a batch of pieces ends.

ends of a row within a buffer == ends of the row alone, for every family of splits
"""

from __future__ import annotations

import itertools
import random

import numba
import numpy as np
import pytest
from cases import JIT_OFF
from test_split_families import CHARACTERS, FRAGMENTS, PATTERNS
from toys import split_model

import numbatok
from numbatok.batch import encode_batch
from numbatok.bpe import Model, address
from numbatok.ragged import Rows
from numbatok.split import patterns
from numbatok.split.scan import fill_row
from numbatok.table import tables_at

SPLITS = {
    **{name: patterns.split_of(pattern) for name, pattern in PATTERNS.items()},
    "deepseek": patterns.split_of(patterns.DEEPSEEK_PATTERNS),
    "starcoder": patterns.DIGITS_THEN_GPT2,
    "kimi": patterns.split_of(patterns.KIMI_PATTERN),
}
ENDINGS = ["", " ", "  ", "\n", " \n ", "\t", "'", "'l", "'v", "!", " !", "/", "a", "A", "1", "12", "中"]
ENDINGS += ["ʰ", "\u3000", "\u0301"]


@numba.njit(nogil=True)
def row_ends(tables, base, offsets, rows, limit, ends):
    """Write the piece ends of all rows, reading up to ``limit`` behind each (0: up to its end); gives their number."""
    t, base, count = tables_at(np.uint64(tables)), np.uint64(base), 0
    for row in range(rows):
        at, stop = base + np.uint64(offsets[row]), base + np.uint64(offsets[row + 1])
        end = np.uint64(limit) if limit else stop
        target = np.uint64(ends + 8 * count)
        count += np.int64(fill_row(t, at, stop, end, target, stop - at))
    return count


def check(model: Model, texts: list[str]) -> None:
    """Split texts as rows of one buffer, with and without a look at what lies behind them."""
    rows = [text.encode() for text in texts]
    data = np.frombuffer(b"".join(rows) + bytes(80), np.uint8)
    offsets = np.cumsum([0, *map(len, rows)])
    base, found = address(data), []
    for limit in (base + len(data), 0):
        ends = np.zeros(len(data) + 64, np.uint64)
        count = row_ends(model.address, base, offsets, len(rows), limit, address(ends))
        found.append((ends[:count] - np.uint64(base)).tolist())
    if found[0] != found[1]:
        wrong = next(end for end, other in zip(*found, strict=False) if end != other)
        row = int(np.searchsorted(offsets, wrong)) - 1
        raise AssertionError(f"row {texts[row]!a}, before {texts[row + 1 : row + 2]!a}")


@pytest.mark.parametrize("name", SPLITS)
def test_what_lies_behind_a_row_does_not_matter(name: str) -> None:
    """Rows of random fragments with every ending, before rows with every beginning."""
    rng = random.Random(name)
    model = split_model(SPLITS[name])
    texts = []
    for ending, beginning in itertools.product(ENDINGS, repeat=2):
        for size in range(1 if JIT_OFF else 8):
            middle = "".join(rng.choice(rng.choice([CHARACTERS, FRAGMENTS])) for _ in range(3 * size))
            texts += [f"some word{middle}{ending}", f"{beginning} and more words"]
    check(model, texts)


@pytest.mark.parametrize("name", SPLITS)
def test_tuples_at_the_end_of_a_row(name: str) -> None:
    """Every tuple of up to three representative characters at the end of a row, before each single one."""
    model = split_model(SPLITS[name])
    step = 97 if JIT_OFF else 7
    tuples = ["".join(one) for n in (1, 2, 3) for one in itertools.product(CHARACTERS, repeat=n)][::step]
    check(model, [text for one in tuples for text in (f"two words {one}", CHARACTERS[len(one) * 5 % 31] + "x")])
    for behind in CHARACTERS[:: 10 if JIT_OFF else 2]:
        check(model, [text for one in tuples[::5] for text in (f"a few words{one}", behind)])


@pytest.mark.parametrize("name", ["gpt2", "cl100k_base", "o200k_base"][: 1 if JIT_OFF else 3])
@pytest.mark.parametrize("most", [3, 30, 300])
def test_rows_of_a_buffer(name: str, most: int) -> None:
    """Rows of all sizes, empty ones among them, give the ids and counts of each alone."""
    rng, enc = random.Random(most), numbatok.get_encoding(name)
    sizes = [rng.randrange(most) for _ in range(20 if JIT_OFF else 2_000)]
    texts = ["".join(rng.choices(FRAGMENTS + CHARACTERS, k=size)) for size in sizes]
    rows = [text.encode() for text in texts]
    data = np.frombuffer(b"".join(rows), np.uint8)
    ragged = encode_batch(enc._pool, Rows(address(data), np.cumsum([0, *map(len, rows)]), data), 1)
    assert [row.tolist() for row in ragged.rows()] == [enc.encode_ordinary(text) for text in texts]
    assert enc.count_batch(texts, threads=1).tolist() == np.diff(ragged.offsets).tolist()
