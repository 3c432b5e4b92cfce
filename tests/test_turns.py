"""Merging new pieces by turns: the cache then holds each of them, with the ids that merging it alone gives.

Invariant: merge_ahead is called on batches as encoding makes them, and what is looked up afterwards is compared with
merging by the book. Batches hold more and fewer new pieces than there are lanes, the same piece several times, pieces
that are known already, and such as are too long for a lane.

    Turns(model).merge([b"ab", b"abc"])  ->  the ids that the cache holds for each piece
"""

import itertools
import random
from collections.abc import Callable, Sequence

import numba
import numpy as np
import pytest
from cases import JIT_OFF, token_glued_text
from mergelists import Book, Toy, from_pairs, from_tokens, model_of
from test_encodings import reference
from toys import GPT2

import numbatok
from numbatok import worker
from numbatok._llvm import store64
from numbatok.bpe import MISSING, Model
from numbatok.cache import SHORT_IDS, SHORT_KEY
from numbatok.lookup import BATCH, prepare, recall, worker_at
from numbatok.merge import SHORT_LIMIT
from numbatok.ring import RECORD_BYTES, RING_BYTES
from numbatok.table import tables_at
from numbatok.turns import LANES, LANES_BYTES, merge_ahead
from numbatok.worker import Worker

U0, U4, U8, U16 = (np.uint64(value) for value in (0, 4, 8, 16))
KEY_STRIDE = np.uint64(24)
LIMIT, KEY = int(SHORT_LIMIT), int(SHORT_KEY)
CANARY = 0xCA
SEEDS = 4 if JIT_OFF else 150
Ids = list[int]


@pytest.fixture(autouse=True)
def _not_seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave caches empty, so that every piece is new; a seeded one is what the encodings have."""
    monkeypatch.setattr(worker, "UNSEEDED", 0)


@numba.njit(nogil=True)
def start_batch(record, base, edges):
    """Prepare a batch of pieces as splitting does."""
    w, pieces = worker_at(np.uint64(record)), len(edges) - 1
    for index in range(pieces):
        store64(w.ends + np.uint64(index) * U8, np.uint64(base + edges[index + 1]))
    w.pieces = np.uint64(pieces)
    prepare(w, np.uint64(base + edges[0]), np.uint64(base + edges[pieces]))


@numba.njit(nogil=True)
def merge_from(record, index):
    """Merge the new pieces of the batch from ``index`` on."""
    w = worker_at(np.uint64(record))
    merge_ahead(w, tables_at(w.tables), np.uint64(index), np.uint64(w.pieces))


@numba.njit(nogil=True)
def recall_all(record, out, counts):
    """Write the ids that the cache has for each piece of the batch, one row of ids behind the other."""
    w, total = worker_at(np.uint64(record)), U0
    for index in range(len(counts)):
        made = recall(w, np.uint64(index), np.uint64(out) + total * U4)
        counts[index] = np.int64(made)
        total += made


class Turns:
    """A worker with an empty cache, whose lanes have nothing to write behind them."""

    def __init__(self, model: Model) -> None:
        self.holder = Worker(model)
        self.lanes = np.full(LANES_BYTES + 256, CANARY, np.uint8)
        self.holder.record["lanes"] = self.lanes.ctypes.data

    def merge(self, pieces: Sequence[bytes], index: int = 0) -> list[Ids]:
        """Merge a batch from a piece on; gives what the cache then has for each piece, nothing if it has it not."""
        text, edges = np.frombuffer(b"".join(pieces) + b" ", np.uint8), np.cumsum([0, *map(len, pieces)])
        start_batch(self.holder.address, text.ctypes.data, edges)
        merge_from(self.holder.address, index)
        assert (self.lanes[LANES_BYTES:] == CANARY).all()
        out, counts = np.zeros(len(text) + 64, np.uint32), np.zeros(len(pieces), np.int64)
        recall_all(self.holder.address, out.ctypes.data, counts)
        ends = np.cumsum([0, *counts.tolist()]).tolist()
        return [out[first:last].tolist() for first, last in itertools.pairwise(ends)]


def random_pieces(rng: random.Random, letters: bytes, toy: Toy, count: int, longest: int) -> list[bytes]:
    """Make pieces of all widths: noise, glued tokens, one letter; some of them come again."""
    pieces: list[bytes] = []
    for _ in range(count):
        width = rng.choice([rng.randint(1, KEY), rng.randint(1, longest), KEY, KEY + 1, min(longest, LIMIT)])
        noise = bytes(rng.choices(letters, k=width))
        glued = b"".join(rng.choices(toy.tokens[256:] or [letters], k=width))[:width]
        again = rng.choice(pieces) if pieces else noise
        pieces.append(rng.choice([noise, glued, noise[:1] * width, again]))
    return pieces


def random_toy(rng: random.Random, letters: bytes) -> Toy:
    """Give a vocabulary of one of two kinds."""
    size, longest = rng.choice([1, 3, 10, 40, 100]), rng.choice([3, 8, 30])
    if rng.random() < 0.4:
        return from_tokens(rng, letters, size, longest)
    return from_pairs(rng, letters, size, longest, shuffled=rng.random() < 0.5)


COUNTS = [1, 2, LANES - 1, LANES, LANES + 1, 2 * LANES, 3 * LANES + 1, 60, BATCH]


@pytest.mark.parametrize("part", range(1 if JIT_OFF else 5))
def test_random_batches(part: int) -> None:
    """Every piece of up to 64 bytes has the ids of the book in the cache, whatever else is in the batch."""
    for seed in range(part, SEEDS, 1 if JIT_OFF else 5):
        rng, letters = random.Random(seed), b"abc\x00\xff"[: 1 + seed % 5]
        toy = random_toy(rng, letters)
        turns, book = Turns(model_of(toy)), Book(toy)
        for count in rng.sample(COUNTS[: 4 if JIT_OFF else None], 3):
            pieces = random_pieces(rng, letters, toy, count, LIMIT)
            for _ in range(2):
                for piece, ids in zip(pieces, turns.merge(pieces), strict=True):
                    assert ids == book(piece), piece


@pytest.mark.parametrize("seed", range(2 if JIT_OFF else 20))
def test_what_is_not_merged(seed: int) -> None:
    """Pieces before the given one, and those that no lane takes, are left alone; what is known stays as it is."""
    rng, letters = random.Random(seed), b"abcdefgh"
    toy = from_pairs(rng, letters, 30, 8, shuffled=True)
    turns, book = Turns(model_of(toy)), Book(toy)
    count = 12 if JIT_OFF else 100
    pieces = list(dict.fromkeys(bytes(rng.choices(letters, k=rng.randint(9, 2 * LIMIT))) for _ in range(count)))
    index = len(pieces) // 2
    for place, (piece, ids) in enumerate(zip(pieces, turns.merge(pieces, index), strict=True)):
        assert ids == (book(piece) if place >= index and len(piece) <= LIMIT else []), piece
    for piece, ids in zip(pieces, turns.merge(pieces), strict=True):
        assert ids == (book(piece) if len(piece) <= LIMIT else []), piece
    assert turns.merge(pieces, len(pieces)) == turns.merge(pieces)


def test_every_number_of_new_pieces() -> None:
    """From none to three times the lanes, among pieces that are known."""
    rng, letters = random.Random(1), b"abcdefghijklmnop"
    toy = from_pairs(rng, letters, 60, 8, shuffled=True)
    turns, book, known = Turns(model_of(toy)), Book(toy), [b"abcabc", b"hgfedcba" * 4]
    for new in range(0, 3 * LANES + 1, 7 if JIT_OFF else 1):
        pieces = [bytes(rng.choices(letters, k=rng.randint(1, LIMIT))) for _ in range(new)] + 5 * known
        rng.shuffle(pieces)
        assert turns.merge(pieces) == [book(piece) for piece in pieces]


def test_every_width_and_number_of_ids() -> None:
    """Pieces of 1 to 64 bytes without any merge have an id a byte; with merges, any number of them."""
    toy = from_pairs(random.Random(2), b"ab", 6, 64, shuffled=False)
    turns, book = Turns(model_of(toy)), Book(toy)
    for letters in (b"cd", b"abcd", b"ab", b"a"):
        rng = random.Random(letters)
        pieces = [bytes(rng.choices(letters, k=width)) for width in range(1, LIMIT + 1, 9 if JIT_OFF else 1)]
        assert turns.merge(pieces) == [book(piece) for piece in pieces]
        assert {len(book(piece)) > int(SHORT_IDS) for piece in pieces} == {True, False} or letters == b"a"


@pytest.mark.parametrize("left", [RECORD_BYTES, RECORD_BYTES + 8, 3_000])
def test_end_of_the_ring(left: int) -> None:
    """Records of a batch go on from the end of the ring at its beginning, and nothing is written behind it."""
    rng, letters = random.Random(left), b"abcdefgh"
    toy = from_pairs(rng, letters, 30, 8, shuffled=True)
    turns, book = Turns(model_of(toy)), Book(toy)
    memory = np.full(RING_BYTES + 4_096, CANARY, np.uint8)
    turns.holder.record["ring"], turns.holder.record["head"] = memory.ctypes.data, 2 * RING_BYTES - left
    pieces = [bytes(rng.choices(letters, k=rng.randint(5, LIMIT))) for _ in range(20 if JIT_OFF else BATCH)]
    assert turns.merge(pieces) == [book(piece) for piece in pieces]
    assert (memory[RING_BYTES:] == CANARY).all()


# ---- other vocabularies ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2 if JIT_OFF else 25))
def test_whole_vocabularies(seed: int) -> None:
    """A piece that is a token is that token, also one that merges do not reach, and is found so in the same batch."""
    rng, letters = random.Random(seed), b"abc"
    toy = from_tokens(rng, letters, 40, rng.choice([4, 12, LIMIT]))
    words = [bytes(rng.choices(letters, k=rng.randint(17, LIMIT))) for _ in range(10)]  # no merge makes these
    toy = Toy([*toy.tokens, *(word for word in dict.fromkeys(words) if word not in toy.tokens)], toy.pairs)
    turns, book, ids = Turns(model_of(toy, whole=True)), Book(toy), {token: i for i, token in enumerate(toy.tokens)}
    pieces = [*rng.choices(toy.tokens[256:], k=8 if JIT_OFF else 60), *random_pieces(rng, letters, toy, 20, LIMIT)]
    pieces = [piece for piece in pieces if len(piece) <= LIMIT]
    rng.shuffle(pieces)
    assert turns.merge(pieces) == [[ids[piece]] if piece in ids else book(piece) for piece in pieces]
    assert any(piece in ids and book(piece) != [ids[piece]] for piece in pieces)


@pytest.mark.parametrize("seed", range(2 if JIT_OFF else 25))
def test_incomplete_vocabularies(seed: int) -> None:
    """Bytes without a token stand as what marks them, and merge to tokens that have them as parts."""
    rng, letters = random.Random(seed), b"abcd"
    toy = from_tokens(rng, letters, 20, 6)
    ranks = {token: rank for rank, token in enumerate(toy.tokens) if token not in (b"c", b"d", b"\x00")}
    turns, book, ids = Turns(Model.from_ranks(ranks, {}, GPT2)), Book(toy), {t: i for i, t in enumerate(toy.tokens)}
    pieces = random_pieces(rng, letters + b"\x00", toy, 10 if JIT_OFF else 90, LIMIT)
    for piece, found in zip(pieces, turns.merge(pieces), strict=True):
        expected = [ids[piece]] if piece in ids else book(piece)
        assert found == [MISSING + one if toy.tokens[one] not in ranks else one for one in expected], piece


# ---- whole encodings -------------------------------------------------------------------------------------------------


def words_of_noise(rng: random.Random, letters: str) -> str:
    """Give words of 1 to 70 letters that no cache has met."""
    return " ".join("".join(rng.choices(letters, k=rng.choice([3, 7, 14, 15, 16, 30, 63, 64, 70]))) for _ in range(800))


TEXTS: dict[str, Callable[[random.Random, dict[bytes, int]], str]] = {
    "latin": lambda rng, ranks: words_of_noise(rng, "etaoinshrdlu"),
    "wide": lambda rng, ranks: words_of_noise(rng, "жд中文のअกé"),
    "control characters": lambda rng, ranks: "1".join(words_of_noise(rng, "\x01\x02\x03\x04").split(" ")),
    "glued": lambda rng, ranks: token_glued_text(rng, ranks, 8_000),
}


@pytest.mark.skipif(JIT_OFF, reason="thousands of new pieces: left to the compiled run")
@pytest.mark.parametrize("name", ["gpt2", "cl100k_base", "o200k_base"])
@pytest.mark.parametrize("kind", TEXTS)
def test_encodings_with_cold_caches(name: str, kind: str) -> None:
    """Texts full of new pieces have tiktoken's ids with a cache that holds nothing, and again with a warm one."""
    enc, rng = numbatok.get_encoding(name), random.Random(kind)
    text = TEXTS[kind](rng, enc._mergeable_ranks)
    expected = reference(name).encode_ordinary(text)
    cold = numbatok.Encoding._from_model("cold", enc._pat_str, enc._model)
    counting = numbatok.Encoding._from_model("cold", enc._pat_str, enc._model)
    for _ in range(2):
        assert counting.count(text) == len(expected)
        assert cold.encode_flat(text).tolist() == expected
    assert counting.encode_ordinary(text) == expected
