"""What a new worker remembers before it has seen a text, and tables in which the id stands for the rank.

Invariant: an entry of the cache is what merging its key gives, also where it was entered without merging, since every
token of the vocabulary is what its bytes encode to. A special token never stands for its bytes. Ids with gaps, ids in
another order than ranks and the largest ids there can be merge as any others.

    seed(Worker(model))  ->  its cache holds [id] for nearly every token of at most 15 bytes
"""

import itertools
import random

import numpy as np
import oracle
import pytest
import tiktoken
from cases import JIT_OFF
from mergelists import BYTES, Book, Pairs, Toy, from_pairs, from_tokens, model_of, repeats
from test_cache import entries_of, seed
from test_encodings import reference
from test_merge import merge_all
from toys import GPT2, toy_model

import numbatok
from numbatok.bpe import BLOB_SLACK, MISSING, Merges, Model
from numbatok.cache import SHORT_IDS, SHORT_KEY
from numbatok.worker import Worker

KEY, IDS = int(SHORT_KEY), int(SHORT_IDS)
EMBEDDED = ["gpt2", "p50k_base", "p50k_edit", "cl100k_base", "o200k_base", "o200k_harmony"]


def encoding_of(model: Model) -> numbatok.Encoding:
    """Give an encoding of a model with the GPT-2 pattern."""
    return numbatok.Encoding._from_model("toy", oracle.GPT2_PATTERN, model)


def seeded(model: Model, keys: list[bytes]) -> list[list[int]]:
    """Give the ids that a new worker has for short pieces; none for what it does not hold."""
    rows, counts = entries_of(seed(Worker(model)), keys)
    assert max(counts) <= IDS
    return [row[:count] for row, count in zip(rows, counts, strict=True)]


# ---- vocabularies that are closed ------------------------------------------------------------------------------------


@pytest.mark.skipif(JIT_OFF, reason="entering a vocabulary takes seconds in plain Python")
@pytest.mark.parametrize("name", EMBEDDED)
def test_embedded_vocabularies_are_closed(name: str) -> None:
    """Every token merges from its bytes to its own id, by our merge, and many by the oracle's and by tiktoken's."""
    enc = numbatok.get_encoding(name)
    tokens = [token for token in enc._mergeable_ranks if len(token) <= 128]
    assert len(enc._mergeable_ranks) - len(tokens) < 5
    expected = [[enc._mergeable_ranks[token]] for token in tokens]
    assert merge_all(Worker(enc._model), [*tokens, b"x" * 65])[:-1] == expected
    theirs = reference(name)
    for token in random.Random(name).sample(tokens, 1_500):
        assert (
            oracle.merge(token, enc._mergeable_ranks)
            == theirs._encode_single_piece(token)
            == [enc._mergeable_ranks[token]]
        )


@pytest.mark.skipif(JIT_OFF, reason="entering a vocabulary takes seconds in plain Python")
@pytest.mark.parametrize("name", EMBEDDED)
def test_seed_of_embedded_vocabularies(name: str) -> None:
    """A new worker has each short token under its id, but for few that found no room, and nothing of special tokens."""
    enc = numbatok.get_encoding(name)
    tokens = [token for token in enc._mergeable_ranks if len(token) <= KEY]
    found = seeded(enc._model, tokens)
    assert sum(map(len, found)) > 0.98 * len(tokens)
    assert all(ids in ([], [enc._mergeable_ranks[token]]) for token, ids in zip(tokens, found, strict=True))
    names = [text for text in enc._special_tokens if len(text.encode()) <= KEY]
    expected = [reference(name).encode_ordinary(text) for text in names]
    held = seeded(enc._model, [text.encode() for text in names])
    # as one piece, which they are not in a text: what a special token may not give is its own id
    assert all([enc._special_tokens[text]] != ids for text, ids in zip(names, held, strict=True))
    assert [enc.encode_ordinary(text) for text in names] == expected


# ---- special tokens --------------------------------------------------------------------------------------------------

A, B, C = b"abc"


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("special", [256, 258, 260, 1_000])
def test_specials_are_not_their_bytes(special: int, closed: bool) -> None:
    """In a gap of the ids and behind their end: the bytes of a special token are merged, and nothing else changes."""
    merged = np.array([257, 259], np.uint32)
    merges = Merges(np.array([A, 257], np.uint32), np.array([B, C], np.uint32), np.arange(2, dtype=np.uint32), merged)
    for name, ids in (("abab", [257, 257]), ("cc", [C, C]), ("abc", [259]), ("ab", [257]), ("a", [A]), ("bcabc", None)):
        model = Model.from_merges(np.arange(BYTES, dtype=np.uint8), merges, {name: special}, GPT2, closed=closed)
        expected = [B, C, 259] if ids is None else ids
        assert seeded(model, [name.encode()])[0] in ([], expected)
        assert seeded(model, [b"ab", b"abc", b"a"]) == [[257], [259], [A]]
        enc = encoding_of(model)
        for _ in range(2):
            assert enc.encode_ordinary(name) == expected
            assert enc.encode(name, allowed_special="all") == [special]
        assert enc.decode_bytes([special]) == name.encode()


@pytest.mark.parametrize("seed", range(1 if JIT_OFF else 10))
def test_specials_of_ranks(seed: int) -> None:
    """So it is with tiktoken's form of a vocabulary, where pieces that are tokens are not merged either."""
    rng, letters = random.Random(seed), b"abc"
    toy = from_tokens(rng, letters, 12, 6)
    ranks = {token: 2 * rank for rank, token in enumerate(toy.tokens)}  # a gap behind each
    text = bytes(rng.choices(letters, k=rng.randint(2, KEY))).decode()
    for special in (1, 2 * len(toy.tokens) - 3, 5_000):
        ours = numbatok.Encoding(
            "toy", pat_str=oracle.GPT2_PATTERN, mergeable_ranks=ranks, special_tokens={text: special}
        )
        expected = oracle.tiktoken_encoding(ranks, {}).encode_ordinary(text)
        assert seeded(ours._model, [text.encode()])[0] in ([], expected)
        assert ours.encode_ordinary(text) == ours.encode_ordinary(text) == expected
        assert ours.encode(text, allowed_special={text}) == [special]


# ---- tokens that no merge reaches ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2 if JIT_OFF else 40))
def test_ranks_with_unreachable_tokens(seed: int) -> None:
    """A piece that is a token is that token and seeded as such, in a vocabulary of any words; ids are tiktoken's."""
    rng, letters = random.Random(seed), b"abc"[: 1 + seed % 3]
    toy = from_tokens(rng, letters, rng.choice([5, 30]), rng.choice([6, 20, 70]))
    words = {bytes(rng.choices(letters, k=rng.randint(2, 70))) for _ in range(10)} - {*toy.tokens}
    tokens = [*toy.tokens, *sorted(words)]
    order = rng.sample(range(3 * len(tokens)), len(tokens))  # ids in no order, with gaps
    ranks = dict(zip(tokens, order, strict=True))
    ours = numbatok.Encoding("toy", pat_str=oracle.GPT2_PATTERN, mergeable_ranks=ranks, special_tokens={})
    theirs: tiktoken.Encoding = oracle.tiktoken_encoding(ranks, {})
    short = [token for token in tokens if len(token) <= KEY]
    assert seeded(ours._model, short) == [[ranks[token]] for token in short]
    pieces = [
        *rng.choices(tokens[BYTES:], k=20),
        *(bytes(rng.choices(letters, k=rng.randint(1, 150))) for _ in range(20)),
    ]
    text = " ".join(piece.decode() for piece in pieces)
    for _ in range(2):
        assert ours.encode_ordinary(text) == theirs.encode_ordinary(text)
        for piece in pieces[: 5 if JIT_OFF else None]:
            assert ours.encode_ordinary(piece) == theirs.encode_ordinary(piece.decode()), piece


# ---- ids that stand for ranks ----------------------------------------------------------------------------------------


def spread(toy: Toy, ids: list[int]) -> tuple[Model, Toy]:
    """Give the model and the vocabulary of a toy whose tokens past the bytes have other ids, with gaps between them."""
    place = [*range(BYTES), *ids]
    pairs: Pairs = {
        (place[left], place[right]): (rank, place[token]) for (left, right), (rank, token) in toy.pairs.items()
    }
    tokens = [b""] * (max(place) + 1)
    for token, at in zip(toy.tokens, place, strict=True):
        tokens[at] = token
    merged = np.zeros(max(rank for rank, _ in pairs.values()) + 1, np.uint32)
    for rank, token in pairs.values():
        merged[rank] = token
    rows = np.array([(*pair, rank) for pair, (rank, _) in pairs.items()], np.uint32)
    lefts, rights, ranks = (rows[:, column].copy() for column in range(3))
    sizes = np.zeros(len(tokens), np.int64)
    sizes[place] = [*map(len, toy.tokens)]
    starts = np.concatenate(([0], np.cumsum(sizes))).astype(np.uint32)
    blob = np.frombuffer(b"".join(tokens) + bytes(BLOB_SLACK), np.uint8)
    return Model(Merges(lefts, rights, ranks, merged), starts, blob, {}, GPT2), Toy(tokens, pairs)


def check_ids(model: Model, toy: Toy, letters: bytes, rng: random.Random) -> None:
    """Assert that short and long pieces have the oracle's ids, by both forms of the merge and by the encoding."""
    for longest in (64, 200):
        pieces = [bytes(rng.choices(letters, k=rng.randint(1, longest))) for _ in range(4 if JIT_OFF else 12)]
        pieces += [token for token in toy.tokens[BYTES:] if 0 < len(token) <= longest][:4]
        pieces.append(bytes(rng.choices(letters, k=longest)))
        expected = [oracle.merge_list(list(piece), toy.pairs) for piece in pieces]
        assert merge_all(Worker(model), pieces) == expected
        found = encoding_of(model).encode_batch_flat([b"1" + piece for piece in pieces])
        assert [row.tolist()[1:] for row in found.rows()] == expected


@pytest.mark.parametrize("seed", range(3 if JIT_OFF else 40))
def test_gaps_between_ids(seed: int) -> None:
    """Ids that rise with ranks are in the tables in their place, whatever is missing between them; others are not."""
    rng, letters = random.Random(seed), b"abc"
    toy = from_pairs(rng, letters, rng.choice([1, 5, 20]), 10, shuffled=False)
    count = len(toy.tokens) - BYTES
    rising = sorted(rng.sample(range(BYTES, BYTES + 40 * count), count))
    for ids in (rising, rng.sample(rising, count), rising[::-1]):
        model, spread_toy = spread(toy, ids)
        own = [spread_toy.pairs[pair][1] for pair in sorted(spread_toy.pairs, key=lambda one: spread_toy.pairs[one][0])]
        by_rank = [int(one) for one in model.merges.merged]
        assert bool(model.tables["by_id"][0]) == all(one < other for one, other in itertools.pairwise(by_rank))
        assert set(by_rank) == set(own)
        check_ids(model, spread_toy, letters, rng)


def test_both_orders_are_tried() -> None:
    """The vocabularies above and below are of both kinds."""
    toy = repeats(64)
    ids = list(range(300, 300 + len(toy.pairs)))
    assert [int(spread(toy, order)[0].tables["by_id"][0]) for order in (ids, ids[::-1])] == [1, 0]
    plain = toy_model([A, 256], [B, C], [256, 257])
    assert int(plain.tables["by_id"][0]) == 1
    assert plain.order.ranks.tolist() == [256, 257]
    assert plain.merges.ranks.tolist() == [0, 1]


@pytest.mark.parametrize("turned", [False, True])
def test_largest_ids(turned: bool) -> None:
    """Ids up to the largest that there may be, as ids and in place of ranks."""
    rng, letters = random.Random(4), b"ab"
    toy = from_pairs(rng, letters, 12, 8, shuffled=False)
    count = len(toy.tokens) - BYTES
    ids = [*range(BYTES, BYTES + count // 2), *range(MISSING - count + count // 2, MISSING)]
    if JIT_OFF:
        ids = [one if one < 1_000 else one - MISSING + 3_000 for one in ids]
    model, spread_toy = spread(toy, ids[::-1] if turned else ids)
    assert model.ids == (3_000 if JIT_OFF else MISSING)
    check_ids(model, spread_toy, letters, rng)


@pytest.mark.parametrize("seed", range(3 if JIT_OFF else 30))
def test_shared_and_shuffled_ranks(seed: int) -> None:
    """Tokens made by several pairs, of one rank or of several, in any order of ranks."""
    rng, letters = random.Random(seed), b"ab"
    toy = from_pairs(rng, letters, rng.choice([4, 12, 30]), 12, shuffled=seed % 2 == 0)
    book = Book(toy)
    model = model_of(toy)
    for token in toy.tokens[BYTES:]:
        if len(token) <= KEY:
            assert seeded(model, [token])[0] in ([], book(token))
            break
    check_ids(model, toy, letters, rng)
    text = b"1".join(bytes(rng.choices(letters, k=rng.randint(1, 30))) for _ in range(10))
    assert encoding_of(model).encode_ordinary(text) == [
        one for piece in oracle.split(text.decode()) for one in book(piece.encode())
    ]
