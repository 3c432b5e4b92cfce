"""Characters that merging joins first: starting from them gives the ids of starting from bytes, for any vocabulary.

naive(pairs, list("中文".encode())) == merge_whole("中文".encode())
"""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from cases import JIT_OFF
from toys import GPT2

import numbatok
from numbatok.bpe import BLOB_SLACK, Merges, Model
from numbatok.invalid import merge_whole
from numbatok.joins import NEVER
from numbatok.worker import WorkerPool

CHARACTERS = ["a", " ", "é", "è", "ж", "д", "中", "丮", "文", "の", "ऄ", "अ", "ก", "\ufb01", "😀"]
Pairs = dict[tuple[int, int], tuple[int, int]]


def random_merges(rng: random.Random, size: int) -> tuple[list[bytes], Pairs]:
    """Give tokens, by id, and merges (pair -> rank, id) in any order: of parts of characters, and of several."""
    tokens = [bytes([byte]) for byte in range(256)]
    sample = "".join(rng.choices(CHARACTERS, k=200)).encode()
    pairs: Pairs = {}
    parts = list(sample)
    while len(pairs) < size and len(parts) > 1:
        place = rng.randrange(len(parts) - 1)
        left, right = parts[place : place + 2]
        if (left, right) not in pairs and tokens[left] + tokens[right] not in tokens:
            tokens.append(tokens[left] + tokens[right])
            pairs[left, right] = len(pairs), len(tokens) - 1
        if (left, right) in pairs:
            token, place = pairs[left, right][1], 0
            while place < len(parts) - 1:
                if (parts[place], parts[place + 1]) == (left, right):
                    parts[place : place + 2] = [token]
                place += 1
        elif rng.random() < 0.1:
            parts = list(sample)
    if rng.random() < 0.4:  # ranks in another order than that in which tokens came to be
        ranks = list(range(len(pairs)))
        rng.shuffle(ranks)
        pairs = {pair: (ranks[rank], token) for pair, (rank, token) in pairs.items()}
    return tokens, pairs


def model_of(tokens: list[bytes], pairs: Pairs) -> Model:
    """Build the tables."""
    rows = np.array([(*pair, *value) for pair, value in pairs.items()], np.uint32).reshape(-1, 4)
    merged = np.zeros(len(pairs), np.uint32)
    merged[rows[:, 2]] = rows[:, 3]
    starts = np.cumsum([0, *map(len, tokens)]).astype(np.uint32)
    blob = np.frombuffer(b"".join(tokens) + bytes(BLOB_SLACK), np.uint8)
    lefts, rights, ranks = (rows[:, column].copy() for column in range(3))
    return Model(Merges(lefts, rights, ranks, merged), starts, blob, {}, GPT2)


def naive(pairs: Pairs, ids: list[int]) -> list[int]:
    """Merge ids by the book: the lowest rank, the leftmost of equals, one merge a round."""
    while found := [(pairs[pair][0], place) for place, pair in enumerate(itertools.pairwise(ids)) if pair in pairs]:
        place = min(found)[1]
        ids[place : place + 2] = [pairs[ids[place], ids[place + 1]][1]]
    return ids


@pytest.mark.parametrize("seed", range(3 if JIT_OFF else 150))
def test_random_vocabularies(seed: int) -> None:
    """Texts, texts with bytes that are cut out or put in, short and long, with merges in any order."""
    rng = random.Random(seed)
    tokens, pairs = random_merges(rng, rng.choice([5, 20, 60, 150]))
    model = model_of(tokens, pairs)
    pool = WorkerPool(model)
    for size in [*range(1, 12), 20, 40, 60]:
        data = bytearray("".join(rng.choices(CHARACTERS, k=size)).encode())
        for _ in range(rng.choice([0, 0, 0, 1, 3])):
            data[rng.randrange(len(data))] = rng.choice(b"\x80\xbf\xe4\xc3\xf0a\xff")
        assert merge_whole(bytes(data), pool).tolist() == naive(pairs, list(data)), bytes(data)


def test_joins_are_used() -> None:
    """The vocabularies of OpenAI join most letters of most scripts: the tests above are about something."""
    model = numbatok.get_encoding("gpt2" if JIT_OFF else "o200k_base")._model
    joined = (model.joins >> np.uint64(32)) != NEVER
    for first, last, least in ((0x410, 0x44F, 60), (0x5D0, 0x5EA, 25), (0x4E00, 0x4FFF, 100), (0xC0, 0xFF, 60)):
        assert joined[first : last + 1].sum() >= least // (20 if JIT_OFF else 1), hex(first)


@pytest.mark.parametrize("name", ["gpt2"] if JIT_OFF else ["gpt2", "cl100k_base", "o200k_base"])
def test_embedded_vocabularies(name: str) -> None:
    """Random texts of many scripts give the ids that merging from bytes gives."""
    rng, enc = random.Random(name), numbatok.get_encoding(name)
    ranks = enc._mergeable_ranks
    joined = np.flatnonzero((enc._model.joins >> np.uint64(32)) != NEVER).tolist()
    pairs: Pairs = {}
    merges = enc._model.merges
    for left, right, rank in zip(merges.lefts.tolist(), merges.rights.tolist(), merges.ranks.tolist(), strict=True):
        pairs[left, right] = rank, int(merges.merged[rank])
    of_byte = [ranks[bytes([byte])] for byte in range(256)]
    for _ in range(30 if JIT_OFF else 3_000):
        points = [*rng.choices(joined, k=4), rng.randrange(0x80, 0xD800), rng.randrange(0x4E00, 0xA000), 0x20, 0x1F600]
        data = "".join(map(chr, rng.choices(points, k=rng.randint(1, 30)))).encode()
        assert enc._encode_single_piece(data) == naive(pairs, [of_byte[byte] for byte in data]), data


@pytest.mark.parametrize("name", ["gpt2"] if JIT_OFF else ["gpt2", "cl100k_base", "o200k_base"])
def test_characters_that_go_on(name: str) -> None:
    """Every character of two bytes, and many of three, with a byte behind it that would belong to a longer one."""
    enc = numbatok.get_encoding(name)
    merges, ranks = enc._model.merges, enc._mergeable_ranks
    rows = zip(merges.lefts.tolist(), merges.rights.tolist(), merges.ranks.tolist(), strict=True)
    pairs = {(left, right): (rank, int(merges.merged[rank])) for left, right, rank in rows}
    of_byte = [ranks[bytes([byte])] for byte in range(256)]
    points = [*range(0x80, 0x800, 97 if JIT_OFF else 1), *range(0x800, 0xD800, 5_003 if JIT_OFF else 53)]
    for point in points:
        for inner in range(0x80, 0xC0, 1 if point < 0x800 and not JIT_OFF else 7):
            data = chr(point).encode() + bytes([inner])
            assert enc._encode_single_piece(data) == naive(pairs, [of_byte[byte] for byte in data]), data
