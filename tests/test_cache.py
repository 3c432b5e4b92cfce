"""The pre-token cache never changes an id: cold, warm, cleared, full of other text, with pieces that fight for a set.

Invariant: what an entry gives is what merging its key gives, whatever was encoded before. Every test therefore encodes
the same text several times with the cache in another state, and compares with tiktoken each time. The ring, where the
ids of long pieces and of spilled ones are, has tests of its own in test_ring.py.

    cold = fresh(enc)       an encoding with the same tables and an empty cache of its own
    check(enc, reference, text)     ids, several times
"""

import collections
import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import oracle
import pytest
import tiktoken
from cases import JIT_OFF
from toys import toy_model

import numbatok
from numbatok import worker
from numbatok._llvm import copy16
from numbatok.batch import encode_one
from numbatok.cache import (
    ENTRY_BYTES,
    SHORT_IDS,
    SHORT_KEY,
    SPILLED,
    WAYS,
    entry_count,
    find_entry,
    first_entry,
    short_key,
)
from numbatok.lookup import worker_at
from numbatok.ring import LONG_IDS, LONG_KEY
from numbatok.split.patterns import GPT2_PATTERNS

LOWER = "abcdefghijklmnopqrstuvwxyz"
CONTROLS = "".join(map(chr, (*range(1, 9), *range(14, 28))))  # a piece of them has an id for each
KEY, IDS = int(LONG_KEY), int(LONG_IDS)
DATA = Path(__file__).parent / "data"
U0 = np.uint64(0)

Words = Callable[[random.Random, int], Iterator[str]]
Check = Callable[..., None]


def fresh(enc: numbatok.Encoding) -> numbatok.Encoding:
    """Give an encoding with the same tables whose cache has seen nothing."""
    return numbatok.Encoding._from_model("fresh", GPT2_PATTERNS[0], enc._model)


@pytest.fixture(autouse=True)
def _not_seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the JIT off leave new caches empty: entering the vocabulary takes seconds there, for every worker."""
    if JIT_OFF:
        monkeypatch.setattr(worker, "UNSEEDED", 0)


@pytest.fixture
def check(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding) -> Check:
    """Give a check that a text has tiktoken's ids, by default three times: new, from the cache, and again."""
    cold = fresh(enc)

    def same_ids(text: str, times: int = 3) -> None:
        expected = oracle_encoding.encode_ordinary(text)
        for _ in range(times):
            assert cold.encode_ordinary(text) == expected
        assert cold.count(text) == len(expected)

    return same_ids


def sample_text() -> str:
    """Give text of many kinds: prose and fifteen languages."""
    whole = "".join((DATA / name).read_bytes().decode() for name in ("languages.txt", "shakespeare.txt"))
    return whole[:1_500] if JIT_OFF else whole


def random_words(rng: random.Random, count: int, least: int = 1, most: int = 14) -> Iterator[str]:
    """Give random lower-case words, each with a space before it: pieces that are hardly ever tokens."""
    return (" " + "".join(rng.choices(LOWER, k=rng.randint(least, most))) for _ in range(count))


# ---- states of the cache ---------------------------------------------------------------------------------------------


def test_cold_warm_and_cleared(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding) -> None:
    """A new cache, a warm one and a cleared one give the same ids."""
    text, cold = sample_text(), fresh(enc)
    expected = oracle_encoding.encode_ordinary(text)
    for _ in range(3):
        assert cold.encode_ordinary(text) == expected
        assert cold.encode_ordinary(text) == expected
        cold.clear_cache()


def test_full_of_other_text(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding) -> None:
    """The same text before, between and after 200,000 distinct random words has the same ids, and so have the words."""
    rng, text, cold = random.Random(21), sample_text(), fresh(enc)
    expected = oracle_encoding.encode_ordinary(text)
    assert cold.encode_ordinary(text) == expected
    words = list(dict.fromkeys(random_words(rng, 100 if JIT_OFF else 205_000, 5, 14)))
    assert JIT_OFF or len(words) > 200_000
    for _ in range(2):
        for first in range(0, len(words), 50_000):
            some = "".join(words[first : first + 50_000])
            assert cold.encode_ordinary(some) == oracle_encoding.encode_ordinary(some)
            assert cold.encode_ordinary(text) == expected


def test_workers_do_not_share_a_cache(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding) -> None:
    """Two workers of one pool that are warm with different texts give the same ids for both texts."""
    rng, cold = random.Random(22), fresh(enc)
    texts = ["".join(random_words(rng, 30)) for _ in range(2)]
    expected = [oracle_encoding.encode_ordinary(text) for text in texts]
    pool, first = cold._pool, cold._pool.take()
    assert cold.encode_ordinary(texts[0]) == expected[0]  # by a second worker
    pool.give_back(first)
    for _ in range(4):
        assert [cold.encode_ordinary(text) for text in texts] == expected
        pool._idle.reverse()


# ---- pieces that meet in a set ---------------------------------------------------------------------------------------


@numba.njit(nogil=True)
def find_sets(text, base, offsets, sets):
    """Write the number of the set where each row, a short piece, is looked for."""
    stop = np.uint64(base + len(text))
    for row in range(len(sets)):
        low, high = short_key(np.uint64(base + offsets[row]), np.uint64(offsets[row + 1] - offsets[row]), stop)
        sets[row] = np.int64(first_entry(U0, low, high)) // (ENTRY_BYTES * np.int64(WAYS))


@numba.njit(nogil=True)
def look_up(record, text, base, offsets, ids, counts):
    """Write the ids that the entries have for each row, and the number that they say: 0 if none holds the row."""
    w, stop = worker_at(np.uint64(record)), np.uint64(base + len(text))
    for row in range(len(counts)):
        low, high = short_key(np.uint64(base + offsets[row]), np.uint64(offsets[row + 1] - offsets[row]), stop)
        first = first_entry(w.entries, low, high)
        entry = find_entry(first, low, high)
        if entry:
            counts[row] = np.int64(entry_count(entry))
            copy16(np.uint64(ids[row].ctypes.data), entry + np.uint64(16))


def as_rows(pieces: list[bytes]) -> tuple[Any, int, Any]:
    """Give pieces as one array of bytes, its address and the offsets of the rows."""
    text = np.frombuffer(b"".join(pieces), np.uint8)
    return text, text.ctypes.data, np.cumsum([0, *map(len, pieces)], dtype=np.int64)


def entries_of(holder: worker.Worker, pieces: list[bytes]) -> tuple[list[list[int]], list[int]]:
    """Give what the entries of a worker hold for short pieces: ids, and numbers of ids."""
    ids, counts = np.zeros((len(pieces), int(SHORT_IDS)), np.uint32), np.zeros(len(pieces), np.int64)
    look_up(holder.address, *as_rows(pieces), ids, counts)
    return ids.tolist(), counts.tolist()


def seed(holder: worker.Worker) -> worker.Worker:
    """Let a worker enter the vocabulary into its cache, as the first call of a new one does."""
    holder.record["unseeded"], nothing = 1, np.zeros(16, np.uint8)
    encode_one(holder, (nothing.ctypes.data, 0, nothing), 0)
    return holder


def crowds(pieces: Iterator[str], least: int, wanted: int) -> list[list[str]]:
    """Find lists of ``least`` pieces or more that meet in one set, by brute force."""
    distinct = list(dict.fromkeys(pieces))
    sets = np.zeros(len(distinct), np.int64)
    find_sets(*as_rows([piece.encode() for piece in distinct]), sets)
    met = collections.defaultdict(list)
    for number, piece in zip(sets.tolist(), distinct, strict=True):
        met[number].append(piece)
    return sorted((crowd for crowd in met.values() if len(crowd) >= least), key=len, reverse=True)[:wanted]


def few_ids(rng: random.Random, count: int) -> Iterator[str]:
    """Give words of five to seven letters, nearly all of at most four ids."""
    return random_words(rng, count, 5, 7)


def many_ids(rng: random.Random, count: int) -> Iterator[str]:
    """Give words of five Yi syllables: 15 bytes, and more than ten ids, which are kept in the ring."""
    return ("".join(map(chr, rng.choices(range(0xA000, 0xA48D), k=5))) for _ in range(count))


def both_kinds(rng: random.Random, count: int) -> Iterator[str]:
    """Give words of few ids and words of many by turns."""
    return itertools.chain.from_iterable(zip(few_ids(rng, count // 2), many_ids(rng, count // 2), strict=True))


@pytest.mark.parametrize("words", [few_ids, many_ids, both_kinds])
def test_pieces_that_meet(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, words: Words) -> None:
    """Pieces that are too many for their set, by turns, in runs and at random, never get each other's ids."""
    rng = random.Random(23)
    found = crowds(words(rng, 60_000 if JIT_OFF else 200_000), int(WAYS) + 1, 2 if JIT_OFF else 40)
    assert len(found) >= 2
    met = set()
    for crowd in found:
        cold = fresh(enc)
        for turns in (crowd * 3, crowd[::-1] * 2, [one for one in crowd for _ in range(3)], rng.choices(crowd, k=50)):
            text = ".".join(turns)
            assert cold.encode_ordinary(text) == oracle_encoding.encode_ordinary(text)
        _, counts = entries_of(cold._pool._idle[0], [piece.encode() for piece in crowd])
        assert 0 in counts, "the set has room for all: none was overwritten"
        met.update(counts)
    assert bool(met & set(range(1, 5))) == (words is not many_ids)
    assert words is few_ids or SPILLED in met


@pytest.mark.parametrize("words", [few_ids, many_ids, both_kinds])
def test_a_set_that_is_just_full(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, words: Words) -> None:
    """Four pieces of one set are all kept, beside each other; a fifth takes the place of one, and all stay right."""
    crowd = crowds(words(random.Random(24), 60_000 if JIT_OFF else 200_000), int(WAYS) + 1, 1)[0][: int(WAYS) + 1]
    cold = fresh(enc)
    holder = cold._pool.take()
    cold._pool.give_back(holder)
    holder.record["unseeded"] = 0  # no seed in the way
    pieces = [piece.encode() for piece in crowd]
    for number in range(1, len(crowd) + 1):
        assert cold.encode_ordinary(crowd[number - 1]) == oracle_encoding.encode_ordinary(crowd[number - 1])
        held = entries_of(holder, pieces[:number])[1]
        assert np.count_nonzero(held) == min(number, int(WAYS))
        assert held[-1], "the newest is always kept"
        for piece, count in zip(crowd, held, strict=False):
            made = len(oracle_encoding.encode_ordinary(piece))
            assert count in (0, made if made <= SHORT_IDS else SPILLED)
    for piece in crowd * 2:
        assert cold.encode_ordinary(piece) == oracle_encoding.encode_ordinary(piece)


def test_keys_that_differ_in_one_byte(check: Check) -> None:
    """Pieces of one length that differ in one byte at each place are kept apart, of the short and of the long form."""
    widths = (2, 7, 8, 9, 14, 15, 16, 17, 23, 24, 25, 31, 32, 33, 47, 48, 49, 63, 64, 65)
    for width in (*widths, *([] if JIT_OFF else (KEY - 1, KEY, KEY + 1))):
        word = ("qjzxvkwy" * (width // 8 + 1))[:width]
        places = sorted({*range(0, width, 9 if JIT_OFF else 1), width - 1})
        check(" ".join(word[:at] + "b" + word[at + 1 :] for at in places), times=2)


def test_keys_of_zero_bytes(check: Check) -> None:
    """Pieces of NUL characters only: their words are all zero, so nothing but the width tells them apart."""
    for width in (1, 2, 3, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, IDS, IDS + 1, KEY - 1, KEY, KEY + 1):
        check("a".join("\0" * n for n in range(max(1, width - 40), width + 1, 13 if JIT_OFF else 1)))
        check("\0" * width)


# ---- widths and numbers of ids ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("letters", [LOWER, "é中ſʰ", "!?*#😀", "0123²٢"], ids=["latin", "wide", "other", "numbers"])
def test_keys_of_every_width(check: Check, letters: str) -> None:
    """Pieces of 1 to 100 characters, all in one text and each alone."""
    rng, step = random.Random(24), 9 if JIT_OFF else 1
    pieces = [" " + "".join(rng.choices(letters, k=width)) for width in range(1, 101, step)]
    check("".join(pieces))
    for piece in pieces[1:]:
        check(piece + "\n")


def piece_of_ids(reference: tiktoken.Encoding, rng: random.Random, count: int, letters: str) -> str:
    """Make a piece of exactly ``count`` ids by adding letters, and starting again where a merge skips the number."""
    while True:
        piece = ""
        while (made := len(reference.encode_ordinary(piece))) < count:
            piece += rng.choice(letters)
        if made == count:
            return piece


@pytest.mark.parametrize(
    "letters",
    [LOWER, "qxzj", "éñßø", "中文字符", CONTROLS],
    ids=["latin", "rare", "accents", "han", "controls"],
)
def test_pieces_of_every_number_of_ids(check: Check, oracle_encoding: tiktoken.Encoding, letters: str) -> None:
    """Pieces of 1 to 50 ids, and around the limits of an entry and of a record, alone and in one text."""
    rng, limits = random.Random(25), {int(SHORT_IDS), int(SHORT_IDS) + 1, 12, 13, IDS - 1, IDS, IDS + 1}
    pieces = [
        piece_of_ids(oracle_encoding, rng, count, letters)
        for count in sorted(limits | {*range(1, 51, 7 if JIT_OFF else 1)})
    ]
    for piece in pieces:
        check(piece)
    check("a".join(pieces) if letters == CONTROLS else ".".join(pieces))
    assert letters != CONTROLS or [len(piece.encode()) for piece in pieces[-3:]] == [IDS - 1, IDS, IDS + 1]


def test_short_pieces_of_every_number_of_ids(check: Check, oracle_encoding: tiktoken.Encoding) -> None:
    """Pieces of 1 to 16 bytes that have an id for each byte: kept in the entry, spilled, and with a long key."""
    rng = random.Random(31)
    for width in range(1, 17):
        pieces = ["".join(rng.choices(CONTROLS, k=width)) for _ in range(3 if JIT_OFF else 30)]
        assert all(len(oracle_encoding.encode_ordinary(piece)) == width for piece in pieces)
        check("a".join(pieces * 2))
        for piece in pieces[:3]:
            check(piece)


def test_short_pieces_of_many_ids(check: Check, enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding) -> None:
    """Short pieces with more ids than an entry holds, three times each: spilled, then found in the ring."""
    pieces = [*many_ids(random.Random(26), 5 if JIT_OFF else 500), "\U00010d40" * 3, "\u1c89" * 5]
    spilled = [piece for piece in pieces if len(oracle_encoding.encode_ordinary(piece)) > SHORT_IDS]
    assert len(spilled) > len(pieces) // 2
    assert all(len(piece.encode()) <= SHORT_KEY for piece in spilled)
    for piece in spilled[:50]:
        check(piece)
        check(f"{piece} {piece}.{piece}")
    check("a".join(spilled))  # all one piece
    check(".".join(spilled))
    check(" ".join(itertools.chain.from_iterable(zip(spilled, random_words(random.Random(27), 1_000), strict=False))))
    cold = fresh(enc)
    cold.encode_ordinary(".".join(spilled))
    _, counts = entries_of(cold._pool._idle[0], [piece.encode() for piece in spilled])
    assert set(counts) <= {0, int(SPILLED)}, "0: another one took its place"
    assert np.count_nonzero(counts) > 0.9 * len(spilled)


def test_around_the_longest_key(check: Check) -> None:
    """Pieces around the longest key of a record, and far above it."""
    rng = random.Random(28)
    for width in (*range(KEY - 2, KEY + 3), *([] if JIT_OFF else (700, 5_000))):
        check(" ".join("".join(rng.choices(LOWER, k=width - 1)) for _ in range(3)))
        check(".".join("".join(rng.choices(LOWER, k=width)) for _ in range(3)))


# ---- the seed --------------------------------------------------------------------------------------------------------


def test_seeded_by_merging(enc: numbatok.Encoding, ranks: dict[bytes, int]) -> None:
    """A new worker has nearly all tokens of at most 15 bytes, each with the ids that merging it gives."""
    tokens = sorted(token for token in ranks if len(token) <= SHORT_KEY)[:: 53 if JIT_OFF else 1]
    seeded = seed(worker.Worker(enc._model))
    rows, counts = entries_of(seeded, tokens)
    assert np.count_nonzero(counts) > 0.99 * len(tokens)
    for token, row, count in zip(tokens, rows, counts, strict=True):
        assert count <= SHORT_IDS
        assert not count or row[:count] == oracle.merge(token, ranks), token


def test_tokens_as_pieces(check: Check, enc: numbatok.Encoding, ranks: dict[bytes, int]) -> None:
    """Every token of at most 15 bytes that is a piece of its own encodes to what the oracle's merge gives."""
    short = [token.decode() for token in ranks if len(token) <= SHORT_KEY and b"\xef\xbf\xbd" not in _repaired(token)]
    pieces = [text for text in short if oracle.split(text) == [text]][:: 97 if JIT_OFF else 1]
    assert JIT_OFF or len(pieces) > 45_000
    expected = list(itertools.chain.from_iterable(oracle.merge(piece.encode(), ranks) for piece in pieces))
    for _ in range(2):
        assert fresh(enc).encode_batch_flat(pieces).tokens.tolist() == expected


def _repaired(token: bytes) -> bytes:
    return token.decode(errors="replace").encode()


def test_token_that_no_merge_reaches() -> None:
    """A token whose parts never meet is not what its bytes encode to, though the vocabulary has it: "ab" goes first."""
    a, b, c = b"abc"
    lefts, rights = np.array([a, b, a], np.uint32), np.array([b, c, 257], np.uint32)
    merged = np.array([256, 257, 258], np.uint32)
    toy = numbatok.Encoding._from_model("toy", GPT2_PATTERNS[0], toy_model(lefts, rights, merged))
    assert toy.decode_bytes([258]) == b"abc"
    for _ in range(3):
        assert toy.encode_ordinary("abc") == [256, c]
        assert toy.encode_ordinary("xbc") == [ord("x"), 257]
