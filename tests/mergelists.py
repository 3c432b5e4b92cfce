"""Lists of merges in any order, the models made of them, and merging by the book, compiled so that it may be slow.

Invariant: a `Book` shares no code with numbatok and does one merge a round: the lowest rank, the leftmost of equals. It
is held against the oracle in plain Python (test_windows.py), so that it may stand for it where texts are long.

    toy = from_tokens(random.Random(1), b"ab", 12, 6)
    Book(toy)(b"abab")  ->  its ids
"""

import itertools
import random
from typing import Any, NamedTuple

import numba
import numpy as np
from toys import GPT2

from numbatok.bpe import BLOB_SLACK, Merges, Model

BYTES = 256
NONE = 1 << 40
Pairs = dict[tuple[int, int], tuple[int, int]]


class Toy(NamedTuple):
    """A vocabulary: the bytes of each id, and pair of ids -> (rank, id)."""

    tokens: list[bytes]
    pairs: Pairs


def model_of(toy: Toy, whole: bool = False) -> Model:
    """Build the tables; with ``whole`` a piece that is a token is that token."""
    rows = np.array([(*pair, *value) for pair, value in toy.pairs.items()], np.uint32).reshape(-1, 4)
    merged = np.zeros(int(rows[:, 2].max()) + 1, np.uint32)
    merged[rows[:, 2]] = rows[:, 3]
    starts = np.cumsum([0, *map(len, toy.tokens)]).astype(np.uint32)
    blob = np.frombuffer(b"".join(toy.tokens) + bytes(BLOB_SLACK), np.uint8)
    lefts, rights, ranks = (rows[:, column].copy() for column in range(3))
    return Model(Merges(lefts, rights, ranks, merged), starts, blob, {}, GPT2, whole=whole)


@numba.njit
def _by_book(ids: Any, ranks: Any, makes: Any) -> Any:
    count = len(ids)
    while True:
        least, found = NONE, -1
        for place in range(count - 1):
            rank = ranks[ids[place], ids[place + 1]]
            if rank < least:
                least, found = rank, place
        if found < 0:
            return ids[:count]
        ids[found] = makes[ids[found], ids[found + 1]]
        for place in range(found + 1, count - 1):
            ids[place] = ids[place + 1]
        count -= 1


class Book:
    """The dense tables of a toy, and merging by them."""

    def __init__(self, toy: Toy) -> None:
        self.ranks = np.full((len(toy.tokens), len(toy.tokens)), NONE, np.int64)
        self.makes = np.zeros(self.ranks.shape, np.int64)
        for (left, right), (rank, token) in toy.pairs.items():
            self.ranks[left, right], self.makes[left, right] = rank, token

    def __call__(self, text: bytes) -> list[int]:
        """Give the ids of a text."""
        ids: list[int] = _by_book(np.array(list(text), np.int64), self.ranks, self.makes).tolist()
        return ids


def from_pairs(rng: random.Random, letters: bytes, size: int, longest: int, shuffled: bool) -> Toy:
    """Make a list of random merges, most of new bytes, some by another pair to a token that is there.

    Such a pair has the rank of the token or one of its own. With ``shuffled`` ranks follow no order at all.
    """
    tokens, pairs = [bytes([byte]) for byte in range(BYTES)], Pairs()
    known = {bytes([letter]): letter for letter in letters}
    ranks = iter(rng.sample(range(3 * size), 3 * size) if shuffled else range(3 * size))
    for _ in range(20 * size):
        left, right = rng.choices(list(known.values()), k=2)
        joined = tokens[left] + tokens[right]
        if (left, right) in pairs or len(joined) > longest:
            continue
        if joined not in known:
            known[joined] = len(tokens)
            tokens.append(joined)
            pairs[left, right] = next(ranks), known[joined]
        elif rng.random() < 0.5:
            same = [rank for rank, token in pairs.values() if token == known[joined]]
            pairs[left, right] = rng.choice([same[0], next(ranks)]), known[joined]
        if len(pairs) >= size:
            break
    return Toy(tokens, _dense(pairs))


def _dense(pairs: Pairs) -> Pairs:
    """Give the ranks that are used the numbers from 0 on."""
    order = {rank: place for place, rank in enumerate(sorted({rank for rank, _ in pairs.values()}))}
    return {pair: (order[rank], token) for pair, (rank, token) in pairs.items()}


def from_words(rng: random.Random, words: set[bytes]) -> Toy:
    """Make the merges of a vocabulary as tiktoken sees it: every way to cut a token in two tokens, ranks in any order.

    Tokens that no merge reaches are among them.
    """
    many = sorted(word for word in words if len(word) > 1)
    rng.shuffle(many)
    tokens = [bytes([byte]) for byte in range(BYTES)] + many
    ids = {token: place for place, token in enumerate(tokens)}
    cuts = [(word[:cut], word[cut:], word) for word in many for cut in range(1, len(word))]
    pairs = {
        (ids[left], ids[right]): (ids[word] - BYTES, ids[word])
        for left, right, word in cuts
        if left in ids and right in ids
    }
    return Toy(tokens, _dense(pairs))


def from_tokens(rng: random.Random, letters: bytes, size: int, longest: int) -> Toy:
    """Make a vocabulary of random words as tiktoken sees it."""
    words = {bytes(rng.choices(letters, k=rng.randint(2, longest))) for _ in range(size)}
    words |= {word[:cut] for word in sorted(words) for cut in range(2, len(word)) if rng.random() < 0.7}
    return from_words(rng, words | {bytes(pair) for pair in itertools.product(letters, repeat=2)})


def repeats(longest: int) -> Toy:
    """Make the tokens aa, aaaa and so on up to ``longest`` bytes: each of two of the one before."""
    tokens, pairs, last = [bytes([byte]) for byte in range(BYTES)], Pairs(), ord("a")
    while 2 * len(tokens[last]) <= longest:
        tokens.append(2 * tokens[last])
        pairs[last, last] = len(pairs), len(tokens) - 1
        last = len(tokens) - 1
    return Toy(tokens, pairs)


def chain(first: bytes, letter: bytes, longest: int, backwards: bool, falling: bool) -> Toy:
    """Make tokens that grow by one letter, behind or (``backwards``) before, with rising or ``falling`` ranks."""
    tokens, pairs, last = [bytes([byte]) for byte in range(BYTES)], Pairs(), ord(first)
    for place in range(longest - 1):
        left, right = (ord(letter), last) if backwards else (last, ord(letter))
        tokens.append(tokens[left] + tokens[right])
        last = len(tokens) - 1
        pairs[left, right] = (longest - place if falling else place), last
    return Toy(tokens, _dense(pairs))
