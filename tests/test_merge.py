"""The two forms of the merge against each other, against the oracle's naive merge and against tiktoken's.

Invariant: merge_short (up to 64 bytes) and merge_long (any length) give the ids that lowest rank first, leftmost of
equals gives, for every piece of bytes, also such as no split would make, and in time that grows like n log n.

    merge_all(worker, [b"aa"])  ->  the ids of both forms of the piece "aa", which are the same
"""

import base64
import itertools
import random
import time
from collections.abc import Callable, Sequence

import numba
import numpy as np
import oracle
import pytest
import tiktoken
from cases import JIT_OFF, PATHOLOGICAL
from toys import toy_model

import numbatok
from numbatok.encoder import merge_bytes
from numbatok.lookup import worker_at
from numbatok.merge import LONG_SCRATCH, SHORT_LIMIT, merge_long, merge_short
from numbatok.table import tables_at
from numbatok.worker import SCRATCH_BYTES, Worker

LIMIT = int(SHORT_LIMIT)
BYTES = 256
Pair = tuple[int, int]

# ---- both forms, for many pieces at once -----------------------------------------------------------------------------


@numba.njit(nogil=True)
def merge_rows(worker, base, offsets, longer, out, counts):
    """Merge each row as one piece, by merge_long if ``longer``; ``out`` is an address, ids of all rows in one go."""
    w = worker_at(np.uint64(worker))
    t = tables_at(w.tables)
    total = 0
    for row in range(len(offsets) - 1):
        at, width = np.uint64(base + offsets[row]), np.uint64(offsets[row + 1] - offsets[row])
        target = np.uint64(out + 4 * total)
        made = merge_long(t, at, width, w.scratch, target) if longer else merge_short(t, at, width, w.scratch, target)
        counts[row] = made
        total += np.int64(made)
    return total


def merge_all(worker: Worker, pieces: Sequence[bytes]) -> list[list[int]]:
    """Assert that both forms give the same ids of each piece (only the long form for long ones); gives them."""
    text, sizes = np.frombuffer(b"".join(pieces), np.uint8), [*map(len, pieces)]
    assert min(sizes) > 0
    assert max(sizes) * LONG_SCRATCH <= SCRATCH_BYTES
    offsets = np.cumsum([0, *sizes], dtype=np.int64)
    results = []
    for longer in (True, False) if max(sizes) <= LIMIT else (True,):
        out, counts = np.zeros(len(text), np.uint32), np.zeros(len(pieces), np.int64)
        total = merge_rows(worker.address, text.ctypes.data, offsets, longer, out.ctypes.data, counts)
        ids, ends = out[:total].tolist(), np.cumsum(counts).tolist()
        results.append([ids[first:last] for first, last in itertools.pairwise([0, *ends])])
    assert results[0] == results[-1]
    return results[0]


@pytest.fixture(scope="module")
def worker(enc: numbatok.Encoding) -> Worker:
    """Give a worker of the GPT-2 vocabulary."""
    return Worker(enc._model)


def check_pieces(worker: Worker, merge: Callable[[bytes], list[int]], pieces: Sequence[bytes]) -> None:
    """Assert that pieces, short ones by both forms, have the ids that ``merge`` gives."""
    for group in ([piece for piece in pieces if len(piece) <= LIMIT], [one for one in pieces if len(one) > LIMIT]):
        if group:
            found = merge_all(worker, group)
            for piece, ids in zip(group, found, strict=True):
                assert ids == merge(piece), piece


# ---- the GPT-2 vocabulary --------------------------------------------------------------------------------------------


def test_all_pairs_of_bytes(worker: Worker, ranks: dict[bytes, int]) -> None:
    """Each of the 65,536 pairs of bytes is one id if it is a token, else two."""
    pairs = [bytes(pair) for pair in itertools.product(range(BYTES), repeat=2)][:: 37 if JIT_OFF else 1]
    check_pieces(worker, lambda piece: oracle.merge(piece, ranks), pairs)


def test_all_tokens(worker: Worker, ranks: dict[bytes, int]) -> None:
    """Every token merges to its own id, which is also what the oracle gives."""
    tokens = [token for token in ranks if len(token) <= 128][:: 199 if JIT_OFF else 1]
    check_pieces(worker, lambda piece: oracle.merge(piece, ranks), tokens)
    check_pieces(worker, lambda piece: [ranks[piece]], tokens)


def glued(rng: random.Random, tokens: list[bytes], width: int) -> bytes:
    """Glue random tokens to a piece of exactly ``width`` bytes, its end cut where it falls."""
    return b"".join(rng.choices(tokens, k=width))[:width]


def test_glued_pieces_by_the_oracle(worker: Worker, ranks: dict[bytes, int]) -> None:
    """A piece of glued tokens of every width from 1 to 200 has the oracle's ids."""
    rng, tokens = random.Random(11), list(ranks)
    pieces = [glued(rng, tokens, width) for width in range(1, 201, 13 if JIT_OFF else 1)]
    check_pieces(worker, lambda piece: oracle.merge(piece, ranks), pieces)


def test_glued_pieces_by_tiktoken(worker: Worker, ranks: dict[bytes, int], oracle_encoding: tiktoken.Encoding) -> None:
    """So has tiktoken, for many more of them: 20,000 of up to 200 bytes and 50,000 of up to 64."""
    rng, tokens = random.Random(12), list(ranks)
    for longest, count in ((200, 20_000), (LIMIT, 50_000)):
        pieces = [glued(rng, tokens, rng.randint(1, longest)) for _ in range(40 if JIT_OFF else count)]
        check_pieces(worker, oracle_encoding._encode_single_piece, pieces)


def test_noise_by_tiktoken(worker: Worker, oracle_encoding: tiktoken.Encoding) -> None:
    """Pieces of few different letters, and of any bytes, around the limits 15, 64 and 80."""
    rng, count = random.Random(13), 3 if JIT_OFF else 700
    for width in (1, 2, 3, 14, 15, 16, 17, 63, 64, 65, 66, 79, 80, 81, 82):
        for alphabet in (b"ab", b"etaoin", b" \n", bytes(range(BYTES))):
            pieces = [bytes(rng.choices(alphabet, k=width)) for _ in range(count)]
            check_pieces(worker, oracle_encoding._encode_single_piece, pieces)


def test_equal_bytes_of_every_length(worker: Worker, oracle_encoding: tiktoken.Encoding) -> None:
    """Each byte repeated 1 to 300 times: ties at every place, the leftmost goes first."""
    step = 41 if JIT_OFF else 1
    pieces = [bytes([value]) * times for value in range(0, BYTES, step) for times in range(1, 301, step)]
    check_pieces(worker, oracle_encoding._encode_single_piece, pieces)


def test_equal_letters_by_the_oracle(worker: Worker, ranks: dict[bytes, int]) -> None:
    """One letter and one blank repeated 1 to 300 times, by the oracle."""
    pieces = [unit * times for unit in (b"a", b" ") for times in range(1, 301, 7 if JIT_OFF else 3)]
    check_pieces(worker, lambda piece: oracle.merge(piece, ranks), pieces)


def test_entry_from_python(worker: Worker, ranks: dict[bytes, int]) -> None:
    """merge_bytes takes the form that the width asks for."""
    out = np.zeros(SCRATCH_BYTES, np.uint32)
    for width in (1, LIMIT - 1, LIMIT, LIMIT + 1, 200):
        piece = np.frombuffer(b"abcab" * 40, np.uint8)[:width]
        made = merge_bytes(worker.address, piece.ctypes.data, width, out.ctypes.data)
        assert out[:made].tolist() == oracle.merge(piece.tobytes(), ranks)


@pytest.mark.parametrize("name", ["letters", "one long word", "capitals", "two letters", "han"])
def test_lengths_around_the_limits(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, name: str) -> None:
    """Whole texts of one piece around the limits of the caches and of the short form, three times each."""
    for width in (*range(1, 20), *range(60, 68), *range(78, 84), 127, 128, 129, 255, 256, 257):
        text = PATHOLOGICAL[name](width)
        for _ in range(3):
            assert enc.encode_ordinary(text) == oracle_encoding.encode_ordinary(text)


# ---- small artificial vocabularies -----------------------------------------------------------------------------------


def random_merges(rng: random.Random, alphabet: bytes, count: int) -> list[Pair]:
    """Make a merge list: each merges two tokens over the alphabet that are there, to bytes that no token has yet."""
    tokens = {value: bytes([value]) for value in alphabet}
    merges: list[Pair] = []
    while len(merges) < count:
        left, right = rng.choice(list(tokens)), rng.choice(list(tokens))
        joined = tokens[left] + tokens[right]
        if len(joined) <= 8 and joined not in tokens.values():
            tokens[BYTES + len(merges)] = joined
            merges.append((left, right))
    return merges


def merge_by_pairs(piece: bytes, merges: dict[Pair, int]) -> list[int]:
    """Merge by the book with a merge list, where only the listed pair makes a token: unlike ranks of bytes alone."""
    ids = list(piece)
    while True:
        ranked = [(merges[pair], i) for i, pair in enumerate(itertools.pairwise(ids)) if pair in merges]
        if not ranked:
            return ids
        rank, i = min(ranked)
        ids[i : i + 2] = [BYTES + rank]


@pytest.mark.parametrize("seed", range(3 if JIT_OFF else 24))
def test_artificial_vocabularies(seed: int) -> None:
    """Every text of up to 8 letters of three, and longer random ones, by a random merge list of 1 to 24 merges."""
    rng, alphabet = random.Random(seed), b"abc"
    merges = random_merges(rng, alphabet, seed + 1)
    lefts, rights = (np.array(side, np.uint32) for side in zip(*merges, strict=True))
    merged = np.arange(BYTES, BYTES + len(merges), dtype=np.uint32)
    worker = Worker(toy_model(lefts, rights, merged))
    pieces = [bytes(one) for n in range(1, 5 if JIT_OFF else 9) for one in itertools.product(alphabet, repeat=n)]
    pieces += [bytes(rng.choices(alphabet, k=rng.randint(9, 90))) for _ in range(10 if JIT_OFF else 300)]
    pairs = {pair: rank for rank, pair in enumerate(merges)}
    check_pieces(worker, lambda piece: merge_by_pairs(piece, pairs), pieces)


# ---- growth ----------------------------------------------------------------------------------------------------------


def noise(n: int) -> str:
    """Give random lower-case letters: one piece of n letters."""
    return "".join(random.Random(n).choices("abcdefghijklmnopqrstuvwxyz", k=n))


def han(n: int) -> str:
    """Give random Han characters without a blank: one piece of 3 n bytes."""
    return "".join(map(chr, random.Random(n).choices(range(0x4E00, 0x9FA6), k=n)))


GROWING: dict[str, Callable[[int], str]] = {
    "equal letters": lambda n: "a" * n,
    "noise": noise,
    "base64": lambda n: base64.b64encode(random.Random(n).randbytes(3 * n // 4)).decode(),
    "han": han,
}


def best_time(enc: numbatok.Encoding, text: str) -> float:
    """Give the best time of three encodings, the cache and the scratch memory being warm."""
    times = []
    enc.encode_flat(text)
    for _ in range(3):
        start = time.perf_counter()
        enc.encode_flat(text)
        times.append(time.perf_counter() - start)
    return min(times)


@pytest.mark.skipif(JIT_OFF, reason="long inputs: left to the compiled run")
@pytest.mark.parametrize("name", GROWING)
def test_time_grows_like_n_log_n(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, name: str) -> None:
    """Four times the text takes less than ten times as long (n log n: 4.5; quadratic: 16), with tiktoken's ids."""
    small, large = GROWING[name](100_000), GROWING[name](400_000)
    assert enc.encode_ordinary(small) == oracle_encoding.encode_ordinary(small)
    ratios = (best_time(enc, large) / best_time(enc, small) for _ in range(3))  # again if the machine was busy
    assert any(ratio < 10 for ratio in ratios)
