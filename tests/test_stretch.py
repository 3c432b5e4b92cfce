"""Short rows that share a stretch: each has the pieces that it has alone, whatever its neighbours end and begin with.

ends of a row within a stretch == ends of the row alone, for every family of splits whose rows may share one
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator

import numba
import numpy as np
import pytest
from cases import JIT_OFF, token_glued_text
from test_encodings import reference
from test_rows import ENDINGS, SPLITS
from test_split_families import CHARACTERS, FRAGMENTS
from toys import split_model

import numbatok
from numbatok.batch import encode_batch
from numbatok.bpe import Model, address
from numbatok.ragged import Rows
from numbatok.split.scan import O200K, fill_ends
from numbatok.split.stretch import (
    MARKS_SLACK,
    ROW_LIMIT,
    STRETCH_BYTES,
    STRETCH_ROWS,
    STRETCH_SLACK,
    fill_stretch,
    gather_stretch,
    may_join,
)
from numbatok.table import tables_at

JOINING = {name: split for name, split in SPLITS.items() if split.family <= O200K}
SEPARATOR = "\x0b"
STRETCH = np.zeros(STRETCH_BYTES + STRETCH_SLACK, np.uint8)
MARKS = np.zeros(2 * (STRETCH_ROWS + MARKS_SLACK), np.uint64)
PLACES, ENDS = np.zeros(STRETCH_ROWS, np.uint64), np.zeros(STRETCH_BYTES + 64, np.uint64)


@numba.njit(nogil=True)
def split_stretch(tables, base, offsets, rows, memory, places, ends, marks):
    """Gather rows and split the stretch; gives the rows in it, the row behind, pieces, and rows that end."""
    t = tables_at(np.uint64(tables))
    at = np.uint64(memory)
    found, row, size = gather_stretch(
        t, np.uint64(base), np.uint64(offsets), np.uint64(0), np.uint64(rows), at, np.uint64(places)
    )
    room = np.uint64(STRETCH_BYTES)
    pieces, whole = fill_stretch(t, at, at + size, np.uint64(ends), room, np.uint64(marks))
    return found, row, pieces, whole


@numba.njit(nogil=True)
def split_alone(tables, at, stop, ends):
    """Split one row by itself."""
    return fill_ends(tables_at(np.uint64(tables)), np.uint64(at), np.uint64(stop), np.uint64(ends), np.uint64(1_000))


@numba.njit(nogil=True)
def row_joins(tables, at, width):
    """Tell whether a row may join."""
    return may_join(tables_at(np.uint64(tables)), np.uint64(at), np.uint64(width))


def offsets_of(rows: list[bytes]) -> np.ndarray:
    """Give the offsets of rows that are one behind the other."""
    return np.cumsum([0, *map(len, rows)])


def pieces_alone(model: Model, row: bytes) -> list[int]:
    """Give the ends of the pieces of a row by itself."""
    data = np.frombuffer(row, np.uint8)
    count = split_alone(model.address, address(data), address(data) + len(row), address(ENDS))
    return (ENDS[: int(count)] - np.uint64(address(data))).tolist()


def stretch_of(model: Model, rows: list[bytes]) -> tuple[int, int, int, int]:
    """Split rows as a stretch: what split_stretch gives."""
    data, offsets = np.frombuffer(b"".join(rows) or b"-", np.uint8), offsets_of(rows)
    memory = (address(STRETCH), address(PLACES), address(ENDS), address(MARKS))
    found, behind, pieces, whole = split_stretch(model.address, address(data), address(offsets), len(rows), *memory)
    return int(found), int(behind), int(pieces), int(whole)


def pieces_together(model: Model, rows: list[bytes]) -> tuple[int, dict[int, list[int]]]:
    """Give the row behind a stretch, and the ends of the pieces of each row in it."""
    found, behind, pieces, whole = stretch_of(model, rows)
    assert found == whole
    ends = (ENDS[:pieces] - np.uint64(address(STRETCH))).astype(int).tolist()
    marks = [0, *MARKS[1 : 2 * found : 2].tolist()]
    assert marks[-1] == pieces
    split, start = {}, 0
    for place, row in enumerate(PLACES[:found].tolist()):
        split[row] = [end - start for end in ends[marks[place] : marks[place + 1]]]
        start += len(rows[row]) + 1
    return behind, split


def check(model: Model, texts: list[str]) -> int:
    """Split texts as rows, as many stretches as it takes, and each alone; gives how many were in a stretch."""
    rows, at, together = [text.encode() for text in texts], 0, 0
    while at < len(rows):
        behind, split = pieces_together(model, rows[at : at + 2_000])
        for place, ends in split.items():
            row = at + place
            assert ends == pieces_alone(model, rows[row]), f"row {texts[row]!a}, between {texts[row - 1 : row + 2]!a}"
        together += len(split)
        at += max(behind, 1)
    return together


@pytest.mark.parametrize("name", JOINING)
def test_what_rows_end_and_begin_with(name: str) -> None:
    """Rows with every ending before rows with every beginning, alone or with random fragments between."""
    rng, model = random.Random(name), split_model(JOINING[name])
    texts = []
    for ending, beginning in itertools.product([*ENDINGS, *CHARACTERS], repeat=2):
        for size in range(1 if JIT_OFF else 4):
            middle = "".join(rng.choice(rng.choice([CHARACTERS, FRAGMENTS])) for _ in range(size))
            texts += [f"{middle}{ending}", f"{beginning}{middle}"]
    assert check(model, texts[:: 7 if JIT_OFF else 1]) > len(texts[:: 7 if JIT_OFF else 1]) // 2


def tuples(most: int) -> Iterator[str]:
    """Give every tuple of up to ``most`` representative characters."""
    for size in range(1, most + 1):
        yield from map("".join, itertools.product(CHARACTERS, repeat=size))


@pytest.mark.parametrize("name", JOINING)
def test_tuples(name: str) -> None:
    """Rows that are tuples of representative characters, in random order: each with many neighbours."""
    rng, model = random.Random(name), split_model(JOINING[name])
    texts = list(tuples(3))[:: 97 if JIT_OFF else 1]
    for _ in range(1 if JIT_OFF else 3):
        rng.shuffle(texts)
        check(model, texts)


@pytest.mark.campaign
@pytest.mark.parametrize("name", JOINING)
def test_all_pairs_of_rows(name: str) -> None:
    """Every pair of rows of up to two representative characters, and random rows for a while."""
    rng, model = random.Random(name), split_model(JOINING[name])
    short = list(tuples(2))
    for one in short:
        check(model, [text for other in short for text in (one, other)])
    for _ in range(300):
        check(model, ["".join(rng.choices(CHARACTERS + FRAGMENTS, k=rng.randrange(1, 9))) for _ in range(10_000)])


def test_rows_that_may_join() -> None:
    """A row joins if it has no separator; and unless the split is GPT-2's, no blank behind a newline at its end."""
    rng = random.Random(5)
    plain, strict = split_model(JOINING["gpt2"]), split_model(JOINING["o200k"])
    for _ in range(200 if JIT_OFF else 20_000):
        text = "".join(rng.choices("a \n\r\t\x0b\x0cé\u3000", (9, 3, 1, 1, 1, 1, 1, 1, 1), k=rng.randrange(1, 20)))
        row = text.encode()
        tail = row[len(row.rstrip(b" \t\n\r\x0b\x0c" + bytes(range(128, 256)))) :]
        data = np.frombuffer(row + rng.choice([b"\n\x0b ", b"x", b" \n"]) * 64, np.uint8)
        assert row_joins(plain.address, address(data), len(row)) == (SEPARATOR not in text), row
        expected = SEPARATOR not in text and (row[-1] in b"\n\r" or not set(tail) & set(b"\n\r\x0c"))
        assert row_joins(strict.address, address(data), len(row)) == expected, row


def test_where_a_stretch_ends() -> None:
    """It ends before a row that is too long or does not join, at the last row, and where it is full."""
    model, limit = split_model(JOINING["gpt2"]), int(ROW_LIMIT)
    assert pieces_together(model, [b"x" * limit, b"", b"y"]) == (3, {0: [limit], 2: [1]})
    assert pieces_together(model, [b"x", b"y" * (limit + 1), b"z"]) == (1, {0: [1]})
    assert pieces_together(model, [b"x", b"a\x0bb", b"z"]) == (1, {0: [1]})
    assert pieces_together(model, [b"", b"", b""]) == (3, {})
    assert pieces_together(model, []) == (0, {})
    behind, split = pieces_together(model, [b"a"] * 5_000)
    assert behind == len(split) == STRETCH_ROWS
    assert pieces_together(model, [b""] * 5_000) == (STRETCH_ROWS, {})
    behind, split = pieces_together(model, [b"a b" * 20] * 5_000)
    assert behind == len(split) < STRETCH_BYTES // 60
    rows = [b"good", b"a b\xff d", b"good"]
    assert stretch_of(model, rows) == (3, 3, 3, 1)  # what is not UTF-8 ends the splitting


def test_text_that_changes_while_it_is_gathered() -> None:
    """A separator that comes into a row behind the look at it does not come into a stretch.

    Here the copy itself writes over the row: the stretch begins 16 bytes before it.
    """
    model = split_model(JOINING["gpt2"])
    for middle, expected in ((b"abcdefg", 1), (b"abc" + SEPARATOR.encode() + b"efg", 0)):
        memory = np.frombuffer(bytes(16) + middle + b"x" * 9 + b"y" * 200, np.uint8).copy()
        words = (address(memory) + 16, address(np.array([0, 16, 100])), 1, address(memory), address(PLACES))
        assert int(split_stretch(model.address, *words, address(ENDS), address(MARKS))[0]) == expected


def seconds_of(enc: numbatok.Encoding, rows: list[str]) -> float:
    """Give the least time of three to count the ids of rows."""
    turns = []
    for _ in range(3):
        start = time.perf_counter()
        enc.count_batch(rows, threads=1)
        turns.append(time.perf_counter() - start)
    return min(turns)


@pytest.mark.skipif(JIT_OFF, reason="the steps of machine code are told by the time that they take")
@pytest.mark.parametrize("row", ["", " ", "\n", "\xa0", "\u3000" * 20, "\t\u3000"])
def test_rows_of_nothing(row: str) -> None:
    """Rows that are empty, or nothing but whitespace, take time like others, and that grows with their number."""
    for name in ("gpt2", "cl100k_base", "o200k_base"):
        enc = numbatok.get_encoding(name)
        assert enc.count_batch([row] * 5_000, threads=1).tolist() == [len(enc.encode_ordinary(row))] * 5_000
        few = seconds_of(enc, [row] * 20_000)
        assert few < 40 * seconds_of(enc, ["word"] * 20_000)  # 140 where a step went over all rows of a stretch
        assert seconds_of(enc, [row] * 320_000) < 100 * few  # 256 if it grew with the square


def random_rows(rng: random.Random, ranks: dict[bytes, int], count: int) -> list[str]:
    """Give short rows: text glued from tokens, fragments, empty ones, long ones and such as do not join."""
    kinds = [
        lambda: token_glued_text(rng, ranks, rng.randrange(1, 6)),
        lambda: "".join(rng.choices(CHARACTERS + FRAGMENTS, k=rng.randrange(8))),
        lambda: "".join(rng.choices("abcdefgh ", k=rng.choice([3, 20, 61, 62, 63, 64, 200]))),
        lambda: rng.choice(["", "", SEPARATOR, "a\n  ", "\n", " \n", "it's", "/", "x" * 62]),
    ]
    return [rng.choices(kinds, (4, 3, 2, rng.choice([0, 0, 1])))[0]() for _ in range(count)]


@pytest.mark.parametrize("name", ["gpt2", "cl100k_base", "o200k_base"][: 1 if JIT_OFF else 3])
@pytest.mark.parametrize("seed", range(1 if JIT_OFF else 12))
def test_ids_of_rows(name: str, seed: int) -> None:
    """Rows in a batch have the ids and the counts that tiktoken gives each, with a cold cache and a warm one."""
    rng, theirs = random.Random(seed), reference(name)
    model = numbatok.get_encoding(name)._model
    mine = numbatok.Encoding._from_model(name, numbatok.get_encoding(name)._pat_str, model)
    texts = random_rows(rng, theirs._mergeable_ranks, 20 if JIT_OFF else 1_500)
    expected = theirs.encode_ordinary_batch(texts, num_threads=1)
    for _ in range(2):
        assert mine.count_batch(texts, threads=1).tolist() == [len(ids) for ids in expected]
        assert mine.encode_ordinary_batch(texts, num_threads=1) == expected
    data = np.frombuffer("".join(texts).encode(), np.uint8)
    rows = Rows(address(data), offsets_of([text.encode() for text in texts]), data)
    assert [row.tolist() for row in encode_batch(mine._pool, rows, 1).rows()] == expected


def test_rows_that_are_not_text() -> None:
    """Invalid bytes in short rows give the ids that they give alone, wherever they are."""
    rng, enc = random.Random(3), numbatok.get_encoding("gpt2")
    for _ in range(1 if JIT_OFF else 30):
        rows = [rng.choice([b"some words", b"and more", b"", b"!"]) for _ in range(12)]
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(12)
            rows[at] += rng.choice([b"\xff", b"\xe4\xb8", b"\x80", b"a\xf0\x9f\x98", b"\xc3 x"])
        assert [row.tolist() for row in enc.encode_batch_flat(rows, threads=1).rows()] == [
            enc.encode_flat(row).tolist() for row in rows
        ]
        assert enc.count_batch(rows, threads=1).tolist() == [enc.count(row) for row in rows]
