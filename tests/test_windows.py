"""Merging by windows that overlap: the ids of merging a long piece in one go, whatever the merges and the text.

Invariant: the reference does one merge a round over the whole piece and knows of no windows. Vocabularies are such as
no training gives: ranks lower than those of their parts, several ways to one token, tokens longer than any window. A
copy of the loop counts how often windows disagree, so that it is known that all ways through it were taken.

    toy, text = repeats(512), b"a" * 3_000
    Windows(model_of(toy)).merge([text])[0] == Book(toy)(text)
"""

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numba
import numpy as np
import oracle
import pytest
from cases import JIT_OFF
from mergelists import Book, Toy, chain, from_pairs, from_tokens, model_of, repeats
from test_encodings import reference
from test_merge import merge_all

import numbatok
from bench.hostile import KINDS, hostile
from numbatok import worker
from numbatok.bpe import Model
from numbatok.invalid import merge_whole
from numbatok.lookup import SLACK, worker_at
from numbatok.merge import SHORT_LIMIT
from numbatok.ring import LONG_KEY
from numbatok.spread import (
    OVERLAP,
    character_start,
    comes_again,
    first_behind,
    fitting_overlap,
    join_lanes,
    merge_lanes,
)
from numbatok.table import tables_at
from numbatok.windows import TOO_LONG, WINDOW_SCRATCH, merge_by_windows, step_on
from numbatok.worker import Worker, WorkerPool

U0, U4 = np.uint64(0), np.uint64(4)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
LIMIT, LARGEST_SHORT = int(SHORT_LIMIT), int(LONG_KEY)
CANARY = 0xCA
JOINED, NOT_JOINED, GROWN, STARTED_OVER, KINDS_OF_STEP = 3, 4, 5, 6, 7
STAYED = np.array([0, 0, 0, 0, 1, 0, 0, 0, 2])
"""A window goes on behind the last 2, 4 or 8 tokens; windows merged by turns have borders in common with the one before
or not; a window is merged again in a larger one, and if that begins with another token, the piece is started over."""
SEEDS = 3 if JIT_OFF else 160


@pytest.fixture(autouse=True)
def _not_seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave new caches empty: toys need none, and entering a vocabulary takes seconds with the JIT off."""
    if JIT_OFF:
        monkeypatch.setattr(worker, "UNSEEDED", 0)


# ---- many pieces at once ---------------------------------------------------------------------------------------------


@numba.njit(nogil=True)
def merge_rows(record, base, offsets, out, keep, counts):
    """Merge each row, longer than a window, as a piece; with ``keep`` 0 to the same place. Gives the row it stopped at.

    Contract: addresses as int64; ``out`` takes an id a byte and SLACK.
    """
    w = worker_at(np.uint64(record))
    t, total = tables_at(w.tables), U0
    for row in range(len(counts)):
        at, width = np.uint64(base + offsets[row]), np.uint64(offsets[row + 1] - offsets[row])
        made = merge_by_windows(w, t, at, width, np.uint64(out) + (total & keep) * U4, keep)
        if made == TOO_LONG:
            return row
        counts[row] = np.int64(made)
        total += made
    return len(counts)


@numba.njit(nogil=True)
def count_steps(record, base, width, steps):
    """Go through a piece as merge_by_windows does, and count its steps of each kind; gives the number of ids."""
    w = worker_at(np.uint64(record))
    t, start, stop = tables_at(w.tables), np.uint64(base), np.uint64(base + width)
    at, wide, made, total, lane, lanes, least, overlap = start, U0, U0, U0, U0, U0, SHORT_LIMIT, OVERLAP
    while at + wide < stop:
        if least == SHORT_LIMIT:
            lane = first_behind(w, lane, lanes, at + wide)
            if lane == lanes:
                lane, lanes = U0, U0
                first = character_start(at + wide - overlap) if made else at
                if not comes_again(first, stop):
                    lanes = merge_lanes(w, t, first, stop, SHORT_LIMIT - overlap)
                    overlap = fitting_overlap(w)
            if lane < lanes:
                before = lane
                lane, at, wide, made, total = join_lanes(w, t, before, lanes, at, wide, made, total, w.sink, U0)
                steps[JOINED] += np.int64(lane - before)
                steps[NOT_JOINED] += lane < lanes
                if lane > before:
                    continue
        known, count = total, made
        at, wide, least, made, total = step_on(w, t, start, at, wide, least, stop, made, total, w.sink, U0)
        if total > known:
            steps[STAYED[np.int64(count - (total - known))]] += 1
        elif count:
            steps[STARTED_OVER if known and not total else GROWN] += 1
    return total + made


class Windows:
    """A worker of a model, and its kernels for many pieces."""

    def __init__(self, model: Model, scratch: int = 0) -> None:
        self.holder = Worker(model)
        if scratch:
            self.holder._set_scratch(scratch)

    def merge(self, pieces: Sequence[bytes], keep: bool = True) -> list[Any]:
        """Give the ids of each piece, or without ``keep`` their number; nothing is written behind the room for them."""
        assert min(map(len, pieces)) > LIMIT
        text = np.frombuffer(b"".join(pieces), np.uint8)
        offsets, counts = np.cumsum([0, *map(len, pieces)], dtype=np.int64), np.zeros(len(pieces), np.int64)
        out = np.full(4 * (len(text) + SLACK + 16), CANARY, np.uint8)

        def run() -> int:
            target = out.ctypes.data if keep else int(self.holder.record["sink"][0])  # the sink grows too
            args = (self.holder.address, text.ctypes.data, offsets, target, ALL if keep else U0, counts)
            return int(merge_rows(*args))

        while (row := run()) < len(pieces):
            needed = int(self.holder.record["needed"][0])
            assert int(self.holder.record["scratch_size"][0]) // WINDOW_SCRATCH < needed <= len(pieces[row])
            self.holder.grow_scratch(needed)
        assert (out[4 * (len(text) + SLACK) :] == CANARY).all()
        if not keep:
            return counts.tolist()
        ids, ends = out.view(np.uint32), np.cumsum([0, *counts.tolist()]).tolist()
        return [ids[first:last].tolist() for first, last in itertools.pairwise(ends)]

    def steps(self, pieces: Sequence[bytes]) -> Any:
        """Give the number of steps of each kind, and check that going so gives as many ids as the kernel does."""
        steps = np.zeros(KINDS_OF_STEP, np.int64)
        for piece in pieces:
            text = np.frombuffer(piece, np.uint8)
            made = count_steps(self.holder.address, text.ctypes.data, len(piece), steps)
            assert int(made) == self.merge([piece], keep=False)[0]
        return steps


def check(toy: Toy, pieces: Sequence[bytes], windows: Windows | None = None) -> None:
    """Assert that pieces have the ids of merging by the book, with the ring empty and filled, and their number."""
    windows, book = windows or Windows(model_of(toy)), Book(toy)
    expected = [book(piece) for piece in pieces]
    for _ in range(2):
        for piece, found, ids in zip(pieces, windows.merge(pieces), expected, strict=True):
            assert found == ids, piece
        assert windows.merge(pieces, keep=False) == [*map(len, expected)]
    assert Windows(windows.holder.model).merge(pieces[:3], keep=False) == [*map(len, expected[:3])]


# ---- toy vocabularies ------------------------------------------------------------------------------------------------


def texts(rng: random.Random, letters: bytes, toy: Toy, longest: int) -> Iterator[bytes]:
    """Give texts over a few letters: noise, glued tokens, periodic ones, and those with one letter that is off."""
    tokens = [token for token in toy.tokens[256:] if len(token) < longest] or [letters]
    for width in (LIMIT + 1, LIMIT + 2, 95, 127, 128, 129, 191, 192, 193, rng.randint(65, longest), longest):
        yield bytes(rng.choices(letters, k=width))
        yield b"".join(rng.choices(tokens, k=width))[:width]
        period = bytes(rng.choices(letters, k=rng.randint(1, 12)))
        periodic = (period * width)[:width]
        yield periodic
        place = rng.randrange(width)
        yield periodic[:place] + bytes(rng.choices(letters, k=1)) + periodic[place + 1 :]


def random_toy(rng: random.Random, letters: bytes) -> Toy:
    """Give a vocabulary of one of several kinds."""
    size, longest = rng.choice([2, 4, 8, 20, 60]), rng.choice([3, 6, 12, 40, 100])
    if rng.random() < 0.3:
        return from_tokens(rng, letters, size, longest)
    return from_pairs(rng, letters, size, longest, shuffled=rng.random() < 0.7)


def test_the_book_is_the_oracle() -> None:
    """The reference of this file gives what the oracle gives."""
    for seed in range(30):
        rng, letters = random.Random(seed), b"abc"[: 1 + seed % 3]
        toy = random_toy(rng, letters)
        text = bytes(rng.choices(letters, k=rng.randint(1, 120)))
        assert Book(toy)(text) == oracle.merge_list(list(text), toy.pairs)


@pytest.mark.parametrize("part", range(1 if JIT_OFF else 8))
def test_random_vocabularies(part: int) -> None:
    """Merges in any order, by several pairs to one token, of a few letters, on texts of 65 to 3,000 bytes."""
    for seed in range(part, SEEDS, 1 if JIT_OFF else 8):
        rng, letters = random.Random(seed), b"abc"[: 1 + seed % 3]
        toy = random_toy(rng, letters)
        found = texts(rng, letters, toy, rng.choice([400, 400, 1_500, 3_000]))
        check(toy, list(itertools.islice(found, 3)) if JIT_OFF else list(found))


LONG: dict[str, Callable[[], Toy]] = {
    "doubled to 512": lambda: repeats(512),
    "doubled to 2048": lambda: repeats(2048),
    "grows behind": lambda: chain(b"b", b"a", 600, backwards=False, falling=False),
    "grows behind, falling": lambda: chain(b"b", b"a", 600, backwards=False, falling=True),
    "grows before": lambda: chain(b"b", b"a", 600, backwards=True, falling=False),
    "grows before, falling": lambda: chain(b"b", b"a", 600, backwards=True, falling=True),
}


@pytest.mark.skipif(JIT_OFF, reason="tokens longer than windows: left to the compiled run")
@pytest.mark.parametrize("name", LONG)
def test_tokens_longer_than_windows(name: str) -> None:
    """Tokens of hundreds of bytes: windows of 64, 192 and 512 bytes are too small, and larger ones are tried."""
    toy, rng = LONG[name](), random.Random(7)
    pieces = [b"a" * width for width in (65, 191, 193, 511, 512, 513, 1_024, 2_999)]
    for distance in (30, 100, 200, 500, 700):
        pieces += [(b"b" + b"a" * distance) * 4, (b"a" * distance + b"b") * 4, b"a" * distance + b"b" + b"a" * 700]
        pieces.append(b"b".join(b"a" * rng.randrange(2 * distance) for _ in range(6)) + b"a" * 65)
    windows = Windows(model_of(toy))
    steps = windows.steps(pieces)
    assert steps[GROWN] > 0, "no window was too small"
    assert (steps[STARTED_OVER] > 0) == ("before" in name)
    check(toy, pieces, windows)


def runs(rng: random.Random, tokens: Sequence[bytes]) -> bytes:
    """Glue tokens, whole and their beginnings repeated, to a piece of up to 700 bytes."""
    source, width, text = rng.sample(tokens, rng.choice([1, 2, 2, 20])), rng.choice([70, 130, 200, 400, 700]), b""
    while len(text) < width:
        token = rng.choice(source)
        text += token if rng.random() < 0.6 else token[: rng.randint(1, len(token))] * rng.randint(1, 9)
    return text[:width]


@pytest.mark.skipif(JIT_OFF, reason="thousands of windows: left to the compiled run")
@pytest.mark.parametrize("name", ["gpt2", "cl100k_base", "o200k_base"])
def test_runs(name: str) -> None:
    """Real tokens of one or two characters glued to pieces: here windows often disagree. All ways are taken often."""
    enc, rng = numbatok.get_encoding(name), random.Random(name)
    tokens = [token for token in enc._mergeable_ranks if len(token) >= 4 and len(set(token)) <= 2]
    pieces = [runs(rng, tokens) for _ in range(8_000)]
    pieces += [b"\n\n\n//" + b"-" * width for width in range(65, 300)]  # were wrong: o200k_base, 75
    windows = Windows(enc._model)
    steps = windows.steps(pieces)
    assert (steps[: GROWN + 1] > 5).all(), steps
    ids = merge_all(windows.holder, pieces)
    assert windows.merge(pieces) == ids
    assert Windows(enc._model).merge(pieces, keep=False) == [*map(len, ids)]


# ---- scratch memory --------------------------------------------------------------------------------------------------


@pytest.mark.skipif(JIT_OFF, reason="large windows: left to the compiled run")
def test_scratch_grows_with_the_window() -> None:
    """A window that the scratch memory does not take is told by its width, and with more of it the ids are the same."""
    toy = repeats(2_048)
    pieces = [b"a" * 9_000, b"a" * 2_100, b"ab" * 2_000 + b"a" * 5_000]
    small = Windows(model_of(toy), scratch=LARGEST_SHORT * WINDOW_SCRATCH)
    assert small.merge(pieces) == [Book(toy)(piece) for piece in pieces]
    assert int(small.holder.record["scratch_size"][0]) > 2_048 * WINDOW_SCRATCH
    small = Windows(small.holder.model, scratch=LARGEST_SHORT * WINDOW_SCRATCH)
    assert small.merge(pieces, keep=False) == [len(Book(toy)(piece)) for piece in pieces]


@pytest.mark.skipif(JIT_OFF, reason="large windows: left to the compiled run")
def test_encodings_grow_the_scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The public calls go on with more memory where a window needs it: alone, among other pieces, and to count."""
    monkeypatch.setattr(worker, "SCRATCH_BYTES", LARGEST_SHORT * WINDOW_SCRATCH)
    toy = repeats(2_048)
    model, book = model_of(toy), Book(toy)
    text = "a" * 9_000 + " b " + "a" * 100 + "1" + "a" * 4_097 + " b"
    expected = [token for piece in oracle.split(text) for token in book(piece.encode())]
    for call in ("encode_ordinary", "encode_flat", "count", "encode_batch_flat", "merge_whole"):
        toy_encoding = numbatok.Encoding._from_model("toy", oracle.GPT2_PATTERN, model)
        if call == "count":
            assert toy_encoding.count(text) == len(expected)
            assert toy_encoding.count_batch([text, text]).tolist() == [len(expected)] * 2
        elif call == "encode_batch_flat":
            assert toy_encoding.encode_batch_flat([text, "x", text]).tokens.tolist() == [*expected, 120, *expected]
        elif call == "merge_whole":
            assert merge_whole(b"a" * 9_000, WorkerPool(model)).tolist() == book(b"a" * 9_000)
        else:
            assert list(getattr(toy_encoding, call)(text)) == expected


# ---- the ring --------------------------------------------------------------------------------------------------------


def test_windows_and_pieces_are_kept_apart() -> None:
    """A token that merging does not reach is the id of the piece; a window of its bytes has those of merging."""
    word = bytes(random.Random(5).choices(b"xyz", k=40))
    toy = Toy([*(bytes([byte]) for byte in range(256)), word, b"qr"], {(ord("q"), ord("r")): (0, 257)})
    book = Book(toy)
    for first in (True, False):
        mine = numbatok.Encoding._from_model("toy", oracle.GPT2_PATTERN, model_of(toy, whole=True))
        for turn in range(6):
            if (turn % 2 == 0) == first:
                assert mine.encode_ordinary(word) == [256]
                assert mine.encode_ordinary(b"x " + b"1" + word) == [*b"x 1", 256]
            else:
                for more in (LIMIT, 30, 100, 700):  # the last window has the word at its end, or is the word
                    for text in (word + b"y" * more, b"y" * more + word, word * 20, b"y" * LIMIT + word * 13):
                        assert mine.encode_ordinary(text) == book(text)
                        assert mine.count(text) == len(book(text))


@pytest.mark.skipif(JIT_OFF, reason="megabytes of text: left to the compiled run")
def test_ring_that_goes_round() -> None:
    """Windows that were overwritten in the ring are merged again."""
    rng = random.Random(8)
    toy = from_pairs(rng, b"abc", 20, 12, shuffled=True)
    windows, book = Windows(model_of(toy)), Book(toy)
    pieces = [bytes(rng.choices(b"abc", k=1_500)) for _ in range(4)]
    expected = [book(piece) for piece in pieces]
    noise = bytes(rng.choices(b"abc", k=400_000))
    for _ in range(14):
        assert windows.merge(pieces) == expected
        start = rng.randrange(1_000)
        windows.merge([bytes(noise[start:])], keep=False)
        noise = noise[200_000:] + bytes(rng.choices(b"abc", k=200_000))


# ---- real vocabularies -----------------------------------------------------------------------------------------------


@pytest.mark.skipif(JIT_OFF, reason="long texts: left to the compiled run")
@pytest.mark.parametrize("name", ["gpt2", "cl100k_base", "o200k_base"])
@pytest.mark.parametrize("kind", KINDS)
def test_hostile_texts(name: str, kind: str) -> None:
    """Long runs of all kinds have tiktoken's ids: of 20 kB and 70 kB, and pieces cut to lengths around the limits."""
    ours, theirs = numbatok.get_encoding(name), reference(name)
    long = [hostile(kind, size, turn).decode() for turn, size in enumerate((20_000, 70_000))]
    short = [long[0][:size] for size in (63, 64, 65, 66, 100, 127, 128, 129, 191, 192, 193, 511, 512, 513, 514, 1_100)]
    for text in (*long, *short):
        expected = theirs.encode_ordinary(text)
        for _ in range(2):
            assert ours.encode_ordinary(text) == expected
            assert ours.count(text) == len(expected)
    fresh = numbatok.Encoding._from_model("fresh", ours._pat_str, ours._model)
    assert [fresh.count(text) for text in short] == [len(theirs.encode_ordinary(text)) for text in short]


@pytest.mark.parametrize("size", [65, 70, 100, 127, 128, 129, 200, 511, 512, 513])
def test_pieces_that_are_kept(enc: numbatok.Encoding, ranks: dict[bytes, int], size: int) -> None:
    """A piece longer than a window and short enough for the ring: counted first, then encoded, then counted again."""
    rng = random.Random(size)
    for _ in range(2 if JIT_OFF else 10):
        text = "".join(rng.choices("abcdefghij", k=size))
        expected = oracle.merge(text.encode(), ranks)
        for _ in range(2):
            assert enc.count(text) == len(expected)
            assert enc.encode_ordinary(text) == expected
            assert enc.encode_flat(text.upper() + "." + text).tolist()[-len(expected) :] == expected
