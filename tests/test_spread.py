"""Windows merged by turns: each lane holds what merging its window alone gives, and windows are joined where they may.

Invariant: the rule by which windows are joined is checked on its own, with the reference only: whenever two windows
have two borders in common, the whole is what is before the first of them in one and what is behind it in the other.
Then the lanes, what repeats, and real vocabularies at lengths around all limits.

    Lanes(model_of(toy)).merge(b"ab" * 100, stride=48)  ->  start, width and borders and ids of each window
"""

import itertools
import random

import numba
import numpy as np
import pytest
from cases import JIT_OFF
from mergelists import Book, Toy, from_tokens, model_of, repeats
from test_encodings import reference
from test_merge import merge_all
from test_windows import Windows, check, random_toy

import numbatok
from bench.hostile import KINDS, hostile
from numbatok import worker
from numbatok._llvm import load32
from numbatok.bpe import Model
from numbatok.lookup import worker_at
from numbatok.merge import SHORT_LIMIT
from numbatok.spread import MOST, OVERLAP, lane_at, lane_window, merge_lanes
from numbatok.table import tables_at
from numbatok.turns import LANE_TOKENS, LANES_BYTES
from numbatok.windows import repeat_ids, same_bytes_behind
from numbatok.worker import Worker

U4 = np.uint64(4)
LIMIT, LANES, STRIDE = int(SHORT_LIMIT), int(MOST), int(SHORT_LIMIT - OVERLAP)
CANARY = 0xCA
ALPHABETS = [b"a", b"ab", b"abc", "aé".encode(), "é中".encode(), "a中😀".encode()]
NAMES = ["gpt2", "cl100k_base", "o200k_base"]
# One window, two, the last one of a byte more than the overlap, all lanes, one more; the same with a copy of the piece.
LENGTHS = sorted({LIMIT + STRIDE * k + off for k in (0, 1, 2, LANES - 1, LANES) for off in (-1, 0, 1, 17)} | {511, 513})


@pytest.fixture(autouse=True)
def _not_seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave new caches empty: toys need none, and entering a vocabulary takes seconds with the JIT off."""
    if JIT_OFF:
        monkeypatch.setattr(worker, "UNSEEDED", 0)


@numba.njit(nogil=True)
def spread_windows(record, base, width, stride, windows, ids):
    """Merge windows of a text; fills rows of start, width and borders, and rows of tokens where they start."""
    w = worker_at(np.uint64(record))
    t, at = tables_at(w.tables), np.uint64(base)
    count = merge_lanes(w, t, at, at + np.uint64(width), np.uint64(stride))
    for lane in range(np.int64(count)):
        start, size, alive = lane_window(w, np.uint64(lane))
        windows[lane, 0], windows[lane, 1], windows[lane, 2] = start - at, size, alive
        for place in range(np.int64(size)):
            ids[lane, place] = load32(lane_at(w, np.uint64(lane)) + LANE_TOKENS + np.uint64(place) * U4)
    return count


repeat = numba.njit(lambda target, period, count: repeat_ids(target, period, count))
same = numba.njit(lambda at, distance, stop: same_bytes_behind(at, distance, stop))


class Lanes:
    """A worker whose lanes have nothing to write behind them."""

    def __init__(self, model: Model) -> None:
        self.holder = Worker(model)
        self.lanes = np.full(LANES_BYTES + 256, CANARY, np.uint8)
        self.holder.record["lanes"] = self.lanes.ctypes.data

    def merge(self, text: bytes, stride: int) -> list[tuple[int, int, list[int], list[int]]]:
        """Give start, width, places of tokens and tokens of each window."""
        bytes_of = np.frombuffer(text, np.uint8)
        windows, ids = np.zeros((LANES, 3), np.uint64), np.zeros((LANES, LIMIT), np.uint32)
        count = spread_windows(self.holder.address, bytes_of.ctypes.data, len(text), stride, windows, ids)
        assert (self.lanes[LANES_BYTES:] == CANARY).all()
        found = []
        for (start, width, alive), tokens in zip(windows[: int(count)].tolist(), ids.tolist(), strict=False):
            places = [place for place in range(LIMIT) if alive >> place & 1]
            found.append((start, width, places, [tokens[place] for place in places]))
        return found


def borders(toy: Toy, ids: list[int], start: int) -> list[int]:
    """Give where tokens start, and where the last one ends."""
    return list(itertools.accumulate((len(toy.tokens[token]) for token in ids), initial=start))


def noise(rng: random.Random, letters: bytes, width: int) -> bytes:
    """Give noise, with a part of it repeated."""
    text = bytes(rng.choices(letters, k=width))
    return text if rng.random() < 0.6 else (text[: rng.randint(1, 20)] * width)[:width]


def test_two_common_borders_are_enough() -> None:
    """What windows.py proves, by the reference alone: no text with two common borders merges to anything else."""
    joined = 0
    for seed in range(60 if JIT_OFF else 4_000):
        rng = random.Random(seed)
        if seed % 20 == 0:
            letters = rng.choice(ALPHABETS)
            toy = random_toy(rng, letters)
            book = Book(toy)
        text = noise(rng, letters, rng.randint(4, 60))
        behind = rng.randrange(1, len(text) - 2)
        edge = rng.randrange(behind + 1, len(text))
        one, other = book(text[:edge]), book(text[behind:])
        ones, others = borders(toy, one, 0), borders(toy, other, behind)
        common = sorted({*ones} & {*others})
        if len(common) < 2:
            continue
        for place in common[:-1]:
            assert book(text) == one[: ones.index(place)] + other[others.index(place) :]
        joined += behind not in common
    assert joined > (5 if JIT_OFF else 500), "too few windows that do not begin at a border"


@pytest.mark.parametrize("part", range(1 if JIT_OFF else 4))
def test_lanes(part: int) -> None:
    """Windows begin at characters, cover the text or fill the lanes, and hold what merging them alone gives, twice."""
    for seed in range(part, 4 if JIT_OFF else 60, 4):
        rng = random.Random(seed)
        letters = ALPHABETS[seed % len(ALPHABETS)]
        toy = random_toy(rng, letters)
        lanes, book = Lanes(model_of(toy)), Book(toy)
        for stride in (32, 40, STRIDE, 52):
            width = rng.choice([1, 2, 63, 64, 65, stride + 64, 300, 64 + stride * (LANES - 1), 64 + stride * LANES])
            text = noise(rng, letters, width) if seed % 3 else "é中a😀".encode()[seed % 4 :] * (width // 8 + 1)
            first = lanes.merge(text, stride)
            assert first == lanes.merge(text, stride)  # those of 64 bytes from the ring
            assert first[0][0] == 0
            assert first[-1][0] + first[-1][1] == len(text) or len(first) == LANES
            for (start, size, places, ids), behind in itertools.zip_longest(first, first[1:]):
                window = text[start : start + size]
                assert ids == book(window)
                assert places == borders(toy, ids, 0)[:-1]
                if behind is not None:
                    place = start + stride
                    while place > start + stride - 3 and 0x80 <= text[place] < 0xC0:
                        place -= 1
                    assert (size, behind[0]) == (LIMIT, place)


def test_repeated_ids() -> None:
    """Ids are repeated with any period, and no more than three others are written behind them."""
    for period, count in itertools.product(range(1, 12), (0, 1, 2, 3, 4, 5, 7, 30, 64, 65)):
        ids = np.arange(100, 200, dtype=np.uint32)
        ids[:period] = np.arange(period)
        repeat(np.uint64(ids.ctypes.data + 4 * period), np.uint64(period), np.uint64(count))
        assert ids[: period + count].tolist() == [index % period for index in range(period + count)]
        assert ids[period + count + 3 :].tolist() == list(range(100 + period + count + 3, 200))
        if JIT_OFF and count > 5:
            break


def test_how_far_text_repeats() -> None:
    """The first byte that differs is found at any place, and nothing from the end on is read."""
    for distance, width in itertools.product((1, 3, 8, 9, 64), range(65, 90)):
        for place in {*range(distance, width, 7), width - 1}:
            text = np.frombuffer(bytes(range(distance)) * (width // distance + 2), np.uint8)[: width + 16].copy()
            start = np.uint64(text.ctypes.data)
            assert same(start, np.uint64(distance), start + np.uint64(width)) == width - distance
            text[place] ^= 0x80
            assert same(start, np.uint64(distance), start + np.uint64(width)) == place - distance


def test_what_repeats() -> None:
    """Texts of any period, repeated from a few to hundreds of times, between others that do not repeat."""
    for seed in range(2 if JIT_OFF else 40):
        rng = random.Random(seed)
        letters = rng.choice(ALPHABETS)
        toy = repeats(rng.choice([4, 64, 256])) if seed % 10 == 0 else random_toy(rng, letters)
        pieces = []
        for _ in range(2 if JIT_OFF else 12):
            unit = bytes(rng.choices(letters, k=rng.randint(1, rng.choice([2, 9, 33, 70]))))
            text = unit * (rng.choice([70, 200, 600, 2_500]) // len(unit) + 1)
            before, behind = (bytes(rng.choices(letters, k=rng.choice([0, 1, 30, 300]))) for _ in range(2))
            pieces.append(before + text[: len(text) - rng.randrange(len(unit))] + behind + text)
        check(toy, pieces)


# ---- real vocabularies -----------------------------------------------------------------------------------------------


def long_texts(rng: random.Random, kind: str, tokens: list[bytes]) -> list[str]:
    """Make texts of a hostile kind of all LENGTHS, some with a character that is off, and of glued tokens."""
    source = hostile(kind, 8_000, rng.randrange(1_000)).decode()
    found = []
    for length in LENGTHS:
        start = rng.randrange(300)
        text = source[start : start + length]
        place = rng.randrange(len(text))
        found += [text, text[:place] + rng.choice("xé中😀 \n") + text[place:]]
    glued = b"".join(rng.choices(tokens, k=200)).decode(errors="ignore")
    return [*found, "".join(filter(str.isalpha, glued))]


@pytest.mark.skipif(JIT_OFF, reason="long texts: left to the compiled run")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_lengths(name: str, kind: str) -> None:
    """Hostile texts, alone and among short pieces that are new, have tiktoken's ids; counted before and after."""
    ours, theirs, rng = numbatok.get_encoding(name), reference(name), random.Random(f"{name} {kind}")
    tokens = [token for token in ours._mergeable_ranks if len(token) >= 4]
    for text in long_texts(rng, kind, tokens):
        words = " ".join("".join(rng.choices("abcdefgh", k=rng.randint(3, 20))) for _ in range(9))
        for whole in (text, f"{words}\n{text} {words}{text[:100]}"):
            expected = theirs.encode_ordinary(whole)
            assert ours.count(whole) == len(expected)
            assert ours.encode_flat(whole).tolist() == expected
            assert ours.encode_ordinary(whole) == expected
            assert ours.count(whole) == len(expected)


@pytest.mark.skipif(JIT_OFF, reason="thousands of windows: left to the compiled run")
@pytest.mark.parametrize("name", NAMES)
def test_cut_characters(name: str) -> None:
    """Bytes that begin and end inside a character, and bytes that are no text, merge as in one go."""
    enc, rng = numbatok.get_encoding(name), random.Random(name)
    windows, pieces = Windows(enc._model), []
    for _ in range(1_500):
        text = "".join(rng.choices("aé中字😀ก한ж", k=rng.choice([40, 100, 300]))).encode()
        pieces.append(text[rng.randrange(4) : len(text) - rng.randrange(4)])
    pieces += [rng.randbytes(rng.randint(65, 700)) for _ in range(500)]
    pieces = [piece for piece in pieces if len(piece) > LIMIT]
    ids = merge_all(windows.holder, pieces)
    assert windows.merge(pieces) == ids == windows.merge(pieces)
    assert windows.merge(pieces, keep=False) == [*map(len, ids)]


def test_windows_of_turns_and_others_are_kept_apart() -> None:
    """The same 64 bytes as a window merged by turns, as one that begins at a token, and as a piece."""
    rng = random.Random(11)
    toy = from_tokens(rng, b"abc", 30, 8)
    book, unit = Book(toy), bytes(rng.choices(b"abc", k=LIMIT))
    mine = Windows(model_of(toy))
    for _ in range(3):
        for text in (unit + b"b", unit * 3, b"c" + unit * 2, unit + unit[:STRIDE] + unit):
            assert mine.merge([text])[0] == book(text)
            assert mine.merge([text], keep=False)[0] == len(book(text))
