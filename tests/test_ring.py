"""The ring of records: what is found is what was kept, whatever was written since, and nothing leaves the ring.

Invariant: a record is found exactly as it was written for as long as less than the ring was written behind it, and not
at all after that. The kernels are tried against a model in Python that keeps every record for ever, and the encoder
against tiktoken while its ring goes round.

    ring = Ring()
    place = ring.keep(b"sixteen or more bytes", [7, 8])
    ring.find(b"sixteen or more bytes")  ->  [7, 8]
"""

import collections
import itertools
import random
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numba
import numpy as np
import pytest
import tiktoken
from cases import JIT_OFF

import numbatok
from numbatok import worker
from numbatok.batch import encode_one
from numbatok.lookup import WORKER, worker_at
from numbatok.ring import (
    FINDER_BYTES,
    LONG_IDS_MOST,
    LONG_KEY_BYTES,
    PIECE,
    RECORD_BYTES,
    RING_BYTES,
    copy_ids,
    copy_words,
    find_record,
    finder_line,
    keep_record,
    long_digest,
    next_key,
    note_place,
    same_piece,
)
from numbatok.split.patterns import GPT2_PATTERNS

WORD = 1 << 64
GOLDEN, MIXER = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93
LINE_BYTES, WORDS_IN_LINE = 64, 8
CANARY = 0xA5
WIDTHS = [*range(16, 34), 40, 63, 64, 65, 80] if JIT_OFF else [*range(16, 81), 255, 256, LONG_KEY_BYTES]

digest_at = numba.njit(lambda at, width: long_digest(np.uint64(at), np.uint64(width)))
same_at = numba.njit(lambda one, other, width: same_piece(np.uint64(one), np.uint64(other), np.uint64(width)))
note = numba.njit(lambda line, digest, place: note_place(np.uint64(line), np.uint64(digest), np.uint64(place)))
copy_to = numba.njit(lambda target, source, width: copy_words(np.uint64(target), np.uint64(source), np.uint64(width)))


@numba.njit(nogil=True)
def keep(record, at, width, ids, count, noted):
    """Make a record of a piece as the encoder does, and note its place if ``noted``; gives the place."""
    w = worker_at(np.uint64(record))
    digest = long_digest(np.uint64(at), np.uint64(width))
    copy_words(next_key(w), np.uint64(at), np.uint64(width))
    place = keep_record(w, np.uint64(width), PIECE, np.uint64(ids), np.uint64(count))
    if noted:
        note_place(finder_line(w, digest), digest, place)
    return np.int64(place)


@numba.njit(nogil=True)
def find(record, at, width, out):
    """Write the ids of a piece to ``out`` if a record has it; gives their number."""
    w, digest = worker_at(np.uint64(record)), long_digest(np.uint64(at), np.uint64(width))
    ids, count = find_record(w, finder_line(w, digest), digest, np.uint64(at), np.uint64(width), PIECE)
    copy_ids(np.uint64(out), ids, count)
    return np.int64(count)


class Ring:
    """A finder and a ring at the addresses of a worker record, with canaries behind the ring."""

    def __init__(self, head: int = RING_BYTES) -> None:
        self.memory = np.zeros(FINDER_BYTES + RING_BYTES + 4096, np.uint8)
        self.memory[-4096:] = CANARY
        self.record = np.zeros(1, WORKER)
        self.record["finder"] = self.memory.ctypes.data
        self.record["ring"] = self.memory.ctypes.data + FINDER_BYTES
        self.record["head"] = head
        self.out = np.zeros(LONG_IDS_MOST + 16, np.uint32)

    @property
    def head(self) -> int:
        """The place where the next record goes."""
        return int(self.record["head"][0])

    @property
    def bytes(self) -> Any:
        """The memory of the ring, without the canaries."""
        return self.memory[FINDER_BYTES : FINDER_BYTES + RING_BYTES]

    def keep(self, piece: bytes, ids: Sequence[int], noted: bool = True) -> int:
        """Make a record; gives its place."""
        text, array = np.frombuffer(piece, np.uint8), np.array([*ids, 0, 0, 0], np.uint32)
        return int(keep(self.record.ctypes.data, text.ctypes.data, len(piece), array.ctypes.data, len(ids), noted))

    def find(self, piece: bytes) -> list[int]:
        """Give the ids of a piece; none if no record has it."""
        text = np.frombuffer(piece, np.uint8)
        made = find(self.record.ctypes.data, text.ctypes.data, len(piece), self.out.ctypes.data)
        return self.out[:made].tolist()

    def whole(self) -> bool:
        """Tell whether nothing was written behind the ring."""
        return bool((self.memory[-4096:] == CANARY).all())


def address(array: Any, skipped: int = 0) -> int:
    """Give the address of an element of an array of bytes."""
    return int(array.ctypes.data) + skipped


def record_size(width: int, count: int) -> int:
    """Give the bytes of a record: a word, the piece up to a multiple of 8, the ids up to a multiple of 16."""
    return 8 + -(-width // 8) * 8 + -(-count // 4) * 16


def word_model(digest: int, place: int) -> int:
    """Give the word of the finder for a record: 16 bits of the hash, and the place in words."""
    return (digest & 0xFFFF) << 48 | place >> 3


def random_record(rng: random.Random, number: int) -> tuple[bytes, list[int]]:
    """Give a piece that is like no other, and ids; the longest of both among them."""
    width = rng.choice((16, 17, rng.randint(16, 64), rng.randint(16, LONG_KEY_BYTES), LONG_KEY_BYTES))
    count = rng.choice((1, 4, 5, rng.randint(1, 12), rng.randint(1, LONG_IDS_MOST), LONG_IDS_MOST))
    return number.to_bytes(8, "little") + rng.randbytes(width - 8), rng.choices(range(1 << 21), k=count)


# ---- digests and compares --------------------------------------------------------------------------------------------


def digest_model(piece: bytes) -> int:
    """Give what long_digest gives, by numbers of Python."""

    def fold(one: int, other: int) -> int:
        high, low = divmod(one * other, WORD)
        return high ^ low

    def word(at: int) -> int:
        return int.from_bytes(piece[at : at + 8], "little")

    last, digest = len(piece) - 16, len(piece)
    for at in range(0, last, 16):
        digest = fold(word(at) ^ GOLDEN, word(at + 8) ^ digest)
    return fold(word(last) ^ MIXER, word(last + 8) ^ digest)


@pytest.mark.parametrize("width", WIDTHS)
def test_digest(width: int) -> None:
    """A digest is that of the model, does not see the neighbours of a piece, and changes with each of its bytes."""
    rng = random.Random(width)
    for alignment in (0, 1, 7, 8, 13):
        memory = np.frombuffer(bytearray(rng.randbytes(width + 64)), np.uint8)
        piece = memory[24 + alignment : 24 + alignment + width]
        expected = digest_model(piece.tobytes())
        assert int(digest_at(address(piece), width)) == expected
        memory[: 24 + alignment] ^= 0xFF
        memory[24 + alignment + width :] ^= 0xFF
        assert int(digest_at(address(piece), width)) == expected
    for place in range(width):
        piece[place] ^= 1 << rng.randrange(8)
        assert int(digest_at(address(piece), width)) == digest_model(piece.tobytes()) != expected
        piece[:] = np.frombuffer(piece.tobytes(), np.uint8)
        expected = digest_model(piece.tobytes())


def test_digest_of_equal_bytes() -> None:
    """Pieces of one byte repeated, which differ in nothing but their width, have digests that differ."""
    for byte in (0, 32, 255):
        memory = np.full(LONG_KEY_BYTES, byte, np.uint8)
        widths = range(16, LONG_KEY_BYTES + 1, 31 if JIT_OFF else 1)
        assert len({int(digest_at(address(memory), width)) for width in widths}) == len(widths)


@pytest.mark.parametrize("width", WIDTHS)
def test_same_piece(width: int) -> None:
    """Equal pieces between other neighbours are the same; with any one byte changed, in either, they are not."""
    rng = random.Random(width)
    data = rng.randbytes(width)
    one, other = (np.frombuffer(bytearray(rng.randbytes(width + 48)), np.uint8) for _ in range(2))
    pieces = one[11 : 11 + width], other[16 : 16 + width]
    for piece in pieces:
        piece[:] = np.frombuffer(data, np.uint8)
    assert same_at(address(pieces[0]), address(pieces[1]), width)
    for piece, place in itertools.product(pieces, range(width)):
        piece[place] ^= 1 << rng.randrange(8)
        assert not same_at(address(pieces[0]), address(pieces[1]), width)
        piece[place] = data[place]
    assert same_at(address(pieces[0]), address(pieces[1]), width)


@pytest.mark.parametrize("width", [1, 7, *WIDTHS])
def test_copy_words(width: int) -> None:
    """All bytes of a piece are copied, and no other."""
    memory = np.frombuffer(bytearray(random.Random(width).randbytes(2 * width + 64)), np.uint8)
    expected = bytearray(memory.tobytes())
    expected[width + 40 : 2 * width + 40] = expected[3 : 3 + width]
    copy_to(address(memory, width + 40), address(memory, 3), width)
    assert memory.tobytes() == bytes(expected)


# ---- records ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 3, 4, 5, 12, LONG_IDS_MOST - 1, LONG_IDS_MOST])
@pytest.mark.parametrize("width", [16, 17, 24, 31, 32, 33, LONG_KEY_BYTES - 1, LONG_KEY_BYTES])
def test_record(width: int, count: int) -> None:
    """A record is found with its ids, has the size it should, and touches nothing beyond the room for a record."""
    rng, ring = random.Random(width * count), Ring(5 * RING_BYTES + 4096)
    ring.bytes[:] = CANARY
    piece, ids = rng.randbytes(width), rng.choices(range(1 << 21), k=count)
    assert ring.find(piece) == []
    place = ring.keep(piece, ids)
    assert place == 5 * RING_BYTES + 4096
    assert ring.head == place + record_size(width, count)
    assert ring.find(piece) == ids
    for near in (piece[:-1] + bytes([piece[-1] ^ 1]), bytes([piece[0] ^ 1]) + piece[1:], piece + b"x"):
        assert ring.find(near) == []
    assert (ring.bytes[:4096] == CANARY).all()
    assert (ring.bytes[4096 + RECORD_BYTES :] == CANARY).all()
    assert ring.whole()


def test_empty_ring() -> None:
    """A new finder has nothing, whatever is in the ring: its places are 0, which never stand."""
    rng, ring = random.Random(1), Ring()
    piece = bytes(16)
    assert ring.find(piece) == []
    ring.bytes[:8] = np.frombuffer((16 | 1 << 32).to_bytes(8, "little"), np.uint8)  # a record of 16 zeros at place 0
    finder = ring.memory[:FINDER_BYTES].view(np.uint64)
    finder[:] = word_model(digest_model(piece), 0)
    assert ring.find(piece) == []
    finder[:] = word_model(digest_model(piece), RING_BYTES)
    assert ring.find(piece) == [0], "the record was made wrongly"
    finder[:] = word_model(digest_model(piece) ^ 1, RING_BYTES)
    assert ring.find(piece) == [], "the word is of another hash"
    assert all(ring.find(rng.randbytes(width)) == [] for width in range(16, 80))


def test_hashes_that_collide() -> None:
    """Where the finder names a record for another piece of the same hash, the bytes and the width decide."""
    ring, piece = Ring(), b"a piece of more than sixteen bytes"
    place = ring.keep(piece, [1, 2, 3])
    finder = ring.memory[:FINDER_BYTES].view(np.uint64)
    for other in (b"b" + piece[1:], piece[:-1] + b"x", piece[:20] + b"-" + piece[21:], piece + b"!", piece[:-1]):
        digest = digest_model(other)
        first = (digest >> 49) * WORDS_IN_LINE
        finder[first : first + WORDS_IN_LINE] = word_model(digest, place)
        assert ring.find(other) == []
    assert ring.find(piece) == [1, 2, 3]


@pytest.mark.parametrize("place", [RING_BYTES, 7 * RING_BYTES + 4096, 9 * RING_BYTES - RECORD_BYTES])
def test_a_record_stands_until_the_ring_comes_round(place: int) -> None:
    """A record is found until the room for the next one reaches it, to the byte, and never again."""
    ring, piece = Ring(place), b"words and more words"
    assert ring.keep(piece, [5, 6, 7, 8, 9]) == place
    last = place + RING_BYTES - RECORD_BYTES
    for head, found in ((last - 8, True), (last, True), (last + 1, False), (last + 8, False), (place * 50, False)):
        ring.record["head"] = head
        assert bool(ring.find(piece)) == found
    for head in (last + RECORD_BYTES, last + 8 * RING_BYTES, (1 << 63) + RING_BYTES):
        ring.record["head"] = head
        assert ring.find(piece) == []


def test_writing_up_to_a_record_leaves_it_whole() -> None:
    """At the last head where a record still stands, the longest record is written right before it, and not into it."""
    place = 3 * RING_BYTES + 8 * RECORD_BYTES
    ring = Ring(place)
    ids = list(range(100, 100 + LONG_IDS_MOST))
    ring.keep(b"the one that is watched", ids)
    before = ring.bytes[8 * RECORD_BYTES : 9 * RECORD_BYTES].copy()
    ring.record["head"] = place + RING_BYTES - RECORD_BYTES
    assert ring.find(b"the one that is watched") == ids
    ring.keep(b"x" * LONG_KEY_BYTES, [1] * LONG_IDS_MOST, noted=False)
    assert np.array_equal(ring.bytes[8 * RECORD_BYTES : 9 * RECORD_BYTES], before)
    assert ring.find(b"the one that is watched") == []


@pytest.mark.parametrize(("width", "count"), [(16, 1), (17, 4), (100, 33), (LONG_KEY_BYTES, LONG_IDS_MOST)])
def test_no_record_leaves_the_ring(width: int, count: int) -> None:
    """From every head near the end that can be, a record stays within the ring and the next one has room."""
    piece, ids, ring = b"p" * width, [3] * count, Ring()
    most, step = RING_BYTES - RECORD_BYTES, 104 if JIT_OFF else 8
    for offset in (*range(most - 2 * RECORD_BYTES, most, step), most):
        ring.record["head"] = head = 6 * RING_BYTES + offset
        assert ring.keep(piece, ids) == head
        assert ring.find(piece) == ids
        end = head + record_size(width, count)
        assert end <= 7 * RING_BYTES
        room = end % RING_BYTES + RECORD_BYTES <= RING_BYTES
        assert ring.head == (end if room else 7 * RING_BYTES)
    assert ring.whole()
    ring.keep(piece, ids)
    assert ring.find(piece) == ids


PLACES = {
    "all stand": [8 * place for place in range(2, 10)],
    "some are empty": [0, 0, 0, 8, 16, 24, 800, 808],
    "all are empty": [0] * 8,
    "far apart": [8, 1 << 20, 1 << 30, 1 << 40, (1 << 51) - 8, (1 << 51) - 16, 1 << 50, 1 << 48],
}


@pytest.mark.parametrize("name", PLACES)
def test_the_oldest_place_of_a_line_goes(name: str) -> None:
    """Whatever the order in a line and the hashes, a new place takes the lowest one; the other lines do not change."""
    rng, places = random.Random(6), PLACES[name]
    memory = np.zeros(4 * WORDS_IN_LINE, np.uint64)
    lines = memory[-memory.ctypes.data % LINE_BYTES // 8 :][: 3 * WORDS_IN_LINE]
    for _ in range(50):
        order = rng.sample(places, len(places))
        words = np.arange(3 * WORDS_IN_LINE, dtype=np.uint64)
        words[WORDS_IN_LINE:-WORDS_IN_LINE] = [word_model(place and rng.getrandbits(64), place) for place in order]
        lines[:] = words
        digest = rng.getrandbits(64)
        note(address(lines, LINE_BYTES), np.uint64(digest), 7 * RING_BYTES)
        words[WORDS_IN_LINE + order.index(min(order))] = word_model(digest, 7 * RING_BYTES)
        assert lines.tolist() == words.tolist()


def test_a_line_keeps_the_newest() -> None:
    """Of twelve pieces of one line the eight that came last are found; one that is kept again is one of those."""
    ring, lines = Ring(), collections.defaultdict(list)
    for number in range(120_000):
        piece = number.to_bytes(16, "little")
        lines[digest_model(piece) >> 49].append(piece)
    crowd = max(lines.values(), key=len)[: WORDS_IN_LINE + 4]
    assert len(crowd) == WORDS_IN_LINE + 4
    for piece in crowd:
        ring.keep(piece, [piece[0]])
    assert [piece for piece in crowd if ring.find(piece) == [piece[0]]] == crowd[4:]
    ring.keep(crowd[0], [1, 2, 3])
    assert ring.find(crowd[0]) == [1, 2, 3]
    assert [piece for piece in crowd[1:] if ring.find(piece)] == crowd[5:]


def test_against_a_model() -> None:
    """Round and round: what is found is always right, recent records are found, and those that are gone are not."""
    rng, kept = random.Random(2), []
    ring = Ring(RING_BYTES + 8 * (RING_BYTES // 8 - 3 * RECORD_BYTES))  # soon at the end
    gone = found = 0
    for number in range(300 if JIT_OFF else 60_000):
        piece, ids = random_record(rng, number)
        kept.append((ring.keep(piece, ids), piece, ids))
        for index in sorted({number, max(0, number - rng.randrange(40)), rng.randrange(number + 1)}):
            place, piece, ids = kept[index]
            answer = ring.find(piece)
            stands = place + RING_BYTES >= ring.head + RECORD_BYTES
            assert answer in ((ids, []) if stands else ([],))
            assert answer or number - index > 40, "a record of just now is gone"
            gone += not stands
            found += bool(answer)
    assert found > number
    assert JIT_OFF or gone > 3_000
    assert JIT_OFF or ring.head > 3 * RING_BYTES
    assert ring.whole()


# ---- the encoder while its ring goes round ---------------------------------------------------------------------------


@pytest.fixture
def cold(enc: numbatok.Encoding, monkeypatch: pytest.MonkeyPatch) -> numbatok.Encoding:
    """Give an encoding with the same tables and a cache of its own, which holds no vocabulary."""
    monkeypatch.setattr(worker, "UNSEEDED", 0)
    return numbatok.Encoding._from_model("fresh", GPT2_PATTERNS[0], enc._model)


def only_worker(enc: numbatok.Encoding) -> worker.Worker:
    """Give the one worker of an encoding."""
    holder = enc._pool.take()
    enc._pool.give_back(holder)
    return holder


def head_of(holder: worker.Worker) -> int:
    """Give the place where the next record of a worker goes."""
    return int(holder.record["head"][0])


def go_round(holder: worker.Worker) -> None:
    """Leave a worker as if its ring had been written all over: every place is gone, and other bytes are there."""
    ring = holder._cache[-RING_BYTES:]
    assert ring.ctypes.data == int(holder.record["ring"][0])
    ring[:] = np.tile(np.frombuffer(bytes(range(1, 251)), np.uint8), RING_BYTES // 250 + 1)[:RING_BYTES]
    holder.record["head"] += RING_BYTES


def controls(rng: random.Random, count: int, width: int) -> Iterator[str]:
    """Give pieces of control characters: as many ids as bytes, and nothing to merge, which is fast."""
    letters = "".join(map(chr, (*range(1, 9), *range(14, 28))))
    return ("".join(rng.choices(letters, k=width)) for _ in range(count))


def pieces_of_many_kinds() -> list[str]:
    """Give pieces that are kept in the ring: spilled ones of 5 to 15 bytes, and long ones of 16 to LONG_KEY_BYTES."""
    rng = random.Random(3)
    spilled = [piece for width in (5, 8, 12, 13, 15) for piece in controls(rng, 2 if JIT_OFF else 20, width)]
    yi = ["".join(map(chr, rng.choices(range(0xA000, 0xA48D), k=5))) for _ in range(2 if JIT_OFF else 20)]
    widths = (16, 17, 31, 33, 64, 65) if JIT_OFF else (16, 17, 24, 31, 32, 33, 64, 65, 200, 256, 500, 511, 512)
    words = ["".join(rng.choices(("the", "and", "ing", "qu", "or", "x"), k=width))[:width] for width in widths]
    return [*spilled, *yi, *words, *(piece for width in widths[:-3] for piece in controls(rng, 2, width))]


def test_places_that_are_gone(cold: numbatok.Encoding, oracle_encoding: tiktoken.Encoding) -> None:
    """A piece whose record was overwritten is merged again, and kept again; one whose record stands is not."""
    pieces, holder = pieces_of_many_kinds(), only_worker(cold)
    expected = [oracle_encoding.encode_ordinary(piece) for piece in pieces]
    for turn in range(3):
        for remembered in (False, True, True):
            for piece, ids in zip(pieces, expected, strict=True):
                head = head_of(holder)
                assert cold.encode_ordinary(piece) == ids
                assert cold._pool._idle == [holder]
                assert (head_of(holder) == head) == remembered, (turn, piece)
        text = "".join(f"{piece}." if piece.isalpha() else f"{piece}1" for piece in pieces)
        assert cold.encode_ordinary(text) == oracle_encoding.encode_ordinary(text)
        assert cold.count(text) == len(oracle_encoding.encode_ordinary(text))
        go_round(holder)


def test_what_is_too_large_for_a_record(cold: numbatok.Encoding, oracle_encoding: tiktoken.Encoding) -> None:
    """The longest key and the most ids make a record; one byte or one id more makes none."""
    holder, rng = only_worker(cold), random.Random(8)
    out = np.zeros(LONG_IDS_MOST + 16, np.uint32)

    def remembered(piece: str) -> list[int]:
        text = np.frombuffer(piece.encode(), np.uint8)
        return out[: find(holder.address, address(text), len(text), address(out))].tolist()

    for width in range(LONG_IDS_MOST - 2, LONG_IDS_MOST + 9):
        (piece,) = controls(rng, 1, width)
        ids = cold.encode_ordinary(piece)
        assert len(ids) == width
        assert remembered(piece) == (ids if width <= LONG_IDS_MOST else [])
    for width in range(LONG_KEY_BYTES - 2, LONG_KEY_BYTES + 9):
        piece = "".join(rng.choices(("the", "and", "ing"), k=width))[:width]
        ids = oracle_encoding.encode_ordinary(piece)
        assert len(ids) <= LONG_IDS_MOST
        assert cold.count(piece) == len(ids)  # counting remembers as well
        assert remembered(piece) == (ids if width <= LONG_KEY_BYTES else [])
        assert cold.encode_ordinary(piece) == ids


@pytest.mark.skipif(
    JIT_OFF, reason="16 MB of records take minutes in plain Python; the test before this one is the same"
)
def test_ring_goes_round(cold: numbatok.Encoding, oracle_encoding: tiktoken.Encoding) -> None:
    """More than two rings of long pieces: those of before, those overwritten and those of just now have right ids."""
    rng, early, holder = random.Random(4), pieces_of_many_kinds(), only_worker(cold)
    first = ".".join(piece for piece in early if piece.isalpha())
    first += "1".join(piece for piece in early if not piece.isalpha())
    size = record_size(256, 256)
    expected, latest = oracle_encoding.encode_ordinary(first), ""
    for _ in range(2 * RING_BYTES // size // 2_500 + 1):
        assert cold.encode_ordinary(first) == expected
        text = "1".join(controls(rng, 2_500, 256))
        ids = oracle_encoding.encode_ordinary(text)
        for _ in range(2):
            assert cold.encode_flat(text).tolist() == ids
        assert cold.encode_ordinary(latest) == oracle_encoding.encode_ordinary(latest)
        latest = text[-100_000:]
    assert head_of(holder) > 3 * RING_BYTES
    assert cold._pool._idle == [holder]
    head = head_of(holder)
    assert cold.encode_ordinary(text) == ids
    assert head_of(holder) == head, "what was just written is remembered"


def test_text_that_changes_while_it_is_encoded(cold: numbatok.Encoding, oracle_encoding: tiktoken.Encoding) -> None:
    """Nothing wrong is remembered: here the text lies where the ring is written, so that remembering it changes it."""
    holder, out, changed = only_worker(cold), np.zeros(LONG_KEY_BYTES + 16, np.uint32), 0
    ring = holder._cache[-RING_BYTES:]
    for piece in pieces_of_many_kinds():
        data, expected = np.frombuffer(piece.encode(), np.uint8), oracle_encoding.encode_ordinary(piece)
        start = head_of(holder) % RING_BYTES + 16
        text = ring[start : start + len(data)]
        text[:] = data
        encode_one(holder, (address(text), len(text), ring), address(out))
        changed += not np.array_equal(text, data)
        assert cold.encode_ordinary(piece) == expected
    assert changed > 10


def test_long_text_that_changes_poisons_no_cache(cold: numbatok.Encoding, oracle_encoding: tiktoken.Encoding) -> None:
    """Pieces of the ring that another thread rewrites while they are encoded leave no wrong ids behind."""
    rng = np.random.default_rng(5)
    for width in (9, 20, 40, 100):
        words = rng.integers(
            1, 9, (2, 50 if JIT_OFF else 10_000, width), np.uint8
        )  # control characters: an id for each
        words[1, :, :-1] = rng.integers(97, 123, words[1, :, :-1].shape, np.uint8)
        words[:, :, -1] = ord("1")
        text, started, stop = words[0].copy(), threading.Event(), threading.Event()

        def disturb(text: Any = text, words: Any = words, started: Any = started, stop: Any = stop) -> None:
            while not stop.is_set():
                np.copyto(text, words[1])
                np.copyto(text, words[0])
                started.set()

        thread = threading.Thread(target=disturb)
        thread.start()
        started.wait()
        for _ in range(5):
            cold.encode_flat(text.reshape(-1))
        stop.set()
        thread.join()
        mixed = np.where(rng.integers(0, 2, words[0].shape, bool), *words)
        for whole in (*words, mixed):
            assert cold.encode_flat(whole.reshape(-1)).tolist() == oracle_encoding.encode_ordinary(
                bytes(whole).decode()
            )
