"""The pre-token cache never changes an id: cold, warm, cleared, full of other text, with pieces that fight for a slot.

Invariant: what a slot gives is what merging its key gives, whatever was encoded before. Every test therefore encodes
the same text several times with the cache in another state, and compares with tiktoken each time.

    enc = fresh(enc)        an encoding with the same tables and an empty cache of its own
    check(enc, reference, text)     ids, several times
"""

import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numba
import numpy as np
import oracle
import pytest
import tiktoken
from cases import JIT_OFF
from toys import toy_model

import numbatok
from numbatok import worker
from numbatok.cache import (
    LONG_IDS,
    LONG_KEY,
    SHORT_BITS,
    SHORT_IDS,
    SHORT_KEY,
    copy_short,
    short_hit,
    short_key,
    short_slot,
)
from numbatok.encoder import seed_cache, worker_at
from numbatok.split.patterns import GPT2_PATTERNS

LOWER = "abcdefghijklmnopqrstuvwxyz"
DATA = Path(__file__).parent / "data"
U0 = np.uint64(0)

Check = Callable[..., None]


def fresh(enc: numbatok.Encoding) -> numbatok.Encoding:
    """Give an encoding with the same tables whose cache has seen nothing."""
    return numbatok.Encoding._from_model("fresh", GPT2_PATTERNS[0], enc._model)


@pytest.fixture(autouse=True)
def _not_seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the JIT off leave new caches empty: entering the vocabulary takes seconds there, for every worker."""
    if JIT_OFF:
        monkeypatch.setattr(worker, "seed_cache", lambda address: None)


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


# ---- pieces that meet in a slot --------------------------------------------------------------------------------------


@numba.njit(nogil=True)
def slot_number(text, base, width):
    """Give the number of the short slot of the first ``width`` bytes; ``text`` has 16 bytes or more."""
    low, high = short_key(np.uint64(base), np.uint64(width), np.uint64(base + len(text)))
    return np.int64(short_slot(U0, low, high))


def slot_of(piece: str) -> int:
    """Give where the cache keeps a short piece."""
    text = np.frombuffer(piece.encode().ljust(32), np.uint8)
    return int(slot_number(text, text.ctypes.data, len(piece.encode())))


def colliding_pairs(pieces: Iterator[str], wanted: int) -> list[tuple[str, str]]:
    """Find pairs of pieces with the same slot by brute force."""
    seen: dict[int, str] = {}
    pairs: list[tuple[str, str]] = []
    for piece in pieces:
        other = seen.setdefault(slot_of(piece), piece)
        if other != piece:
            pairs.append((other, piece))
        if len(pairs) == wanted:
            break
    return pairs


def yi_words(rng: random.Random, count: int) -> Iterator[str]:
    """Give words of five Yi syllables: 15 bytes, and an id for each of them."""
    return ("".join(map(chr, rng.choices(range(0xA000, 0xA48D), k=5))) for _ in range(count))


@pytest.mark.parametrize("words", [random_words, yi_words], ids=["few ids", "many ids"])
def test_colliding_pieces(
    check: Check, oracle_encoding: tiktoken.Encoding, words: Callable[..., Iterator[str]]
) -> None:
    """Two pieces that take the same slot, by turns and in runs, never get each other's ids."""
    pairs = colliding_pairs(words(random.Random(23), 1 << SHORT_BITS), 2 if JIT_OFF else 20)
    assert len(pairs) >= 2
    for one, other in pairs:
        assert one != other
        assert slot_of(one) == slot_of(other)
        if words is yi_words:
            assert len(oracle_encoding.encode_ordinary(one)) > SHORT_IDS
        for turns in ([one, other] * 4, [one] * 3 + [other] * 3 + [one] * 3, [other, one, one, other]):
            check(".".join(turns))


def test_keys_that_differ_in_one_byte(check: Check) -> None:
    """Pieces of one length that differ in one byte at each place are kept apart, of the short and of the long form."""
    for width in (2, 7, 8, 9, 14, 15, 16, 17, 40, 79, 80, 81):
        word = ("qjzxvkwy" * 12)[:width]
        check(" ".join(word[:at] + "b" + word[at + 1 :] for at in range(width)), times=2)


def test_keys_of_zero_bytes(check: Check) -> None:
    """Pieces of NUL characters only: their words are all zero, so nothing but the width tells them apart."""
    for width in (1, 2, 3, 7, 8, 9, 15, 16, 80, 81):
        check("a".join("\0" * n for n in range(1, width + 1)))
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


@pytest.mark.parametrize("letters", [LOWER, "qxzj", "éñßø", "中文字符"], ids=["latin", "rare", "accents", "han"])
def test_pieces_of_every_number_of_ids(check: Check, oracle_encoding: tiktoken.Encoding, letters: str) -> None:
    """Pieces of 1 to 50 ids, with the limits of both tables among them, alone and in one text."""
    rng, step = random.Random(25), 7 if JIT_OFF else 1
    assert {int(SHORT_IDS), int(LONG_IDS)} < set(range(1, 51))
    pieces = [piece_of_ids(oracle_encoding, rng, count, letters) for count in range(1, 51, step)]
    for piece in pieces:
        check(piece)
    check(".".join(pieces))


def test_short_pieces_of_many_ids(check: Check, oracle_encoding: tiktoken.Encoding) -> None:
    """Short pieces with more ids than a short slot holds, three times each: marked, then found in the long table."""
    pieces = [*yi_words(random.Random(26), 5 if JIT_OFF else 500), "\U00010d40" * 3, "\u1c89" * 5]
    marked = [piece for piece in pieces if len(oracle_encoding.encode_ordinary(piece)) > SHORT_IDS]
    assert len(marked) > len(pieces) // 2
    assert all(len(piece.encode()) <= SHORT_KEY for piece in marked)
    for piece in marked[:50]:
        check(piece)
        check(f"{piece} {piece}.{piece}")
    check("a".join(marked))
    check(" ".join(itertools.chain.from_iterable(zip(marked, random_words(random.Random(27), 1_000), strict=False))))


def test_longer_than_any_key(check: Check) -> None:
    """Pieces around the longest key of the long table, and far above it."""
    rng = random.Random(28)
    for width in (*range(int(LONG_KEY) - 2, int(LONG_KEY) + 3), 300, 301):
        check(" ".join("".join(rng.choices(LOWER, k=width - 1)) for _ in range(3)))


# ---- the seed --------------------------------------------------------------------------------------------------------


@numba.njit(nogil=True)
def look_up(record, text, base, offsets, ids, counts):
    """Write the ids that the short table has for each row, and their number: 0 where the slot holds another key."""
    w, stop = worker_at(np.uint64(record)), np.uint64(base + len(text))
    for row in range(len(offsets) - 1):
        low, high = short_key(np.uint64(base + offsets[row]), np.uint64(offsets[row + 1] - offsets[row]), stop)
        slot = short_slot(w.short_slots, low, high)
        if short_hit(slot, low, high):
            counts[row] = copy_short(slot, np.uint64(ids[row].ctypes.data))


def test_seeded_by_merging(enc: numbatok.Encoding, ranks: dict[bytes, int]) -> None:
    """In a new worker nearly all tokens of at most 15 bytes have a slot, each with the ids that merging them gives."""
    tokens = sorted(token for token in ranks if len(token) <= SHORT_KEY)[:: 53 if JIT_OFF else 1]
    text = np.frombuffer(b"".join(tokens), np.uint8)
    offsets = np.cumsum([0, *map(len, tokens)], dtype=np.int64)
    ids, counts = np.zeros((len(tokens), int(SHORT_IDS)), np.uint32), np.zeros(len(tokens), np.int64)
    seeded = worker.Worker(enc._model)
    if JIT_OFF:
        seed_cache(seeded.address)
    look_up(seeded.address, text, text.ctypes.data, offsets, ids, counts)
    assert np.count_nonzero(counts) > 0.85 * len(tokens)
    for token, row, count in zip(tokens, ids.tolist(), counts.tolist(), strict=True):
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
