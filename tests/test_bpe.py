"""The tables of the embedded vocabulary: the pinned hash, every merge, every token, and nothing else.

Invariant: the tables hold exactly the published vocabulary. Rebuilt from them the `.tiktoken` file has the hash that
tiktoken pins, so no token, rank or byte can differ unseen; and a look-up finds what is there and only that.

    tiktoken_text(ranks)[:7]  ->  b"IQ== 0\\n"
"""

import base64
import hashlib
import itertools
import random
from collections.abc import Iterable

import numba
import numpy as np
import numpy.typing as npt
import oracle
import pytest
import tiktoken
from cases import JIT_OFF
from toys import GPT2, toy_model

import numbatok
from numbatok.bpe import MISSING, Model, load_embedded
from numbatok.split.patterns import GPT2_PATTERNS, split_of
from numbatok.table import NO_RANK, find_token, pair_rank
from numbatok.worker import WorkerPool

R50K_BASE_SHA256 = "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930"
MERGES, BYTES = 50_000, 256
EOT, EOT_ID = "<|endoftext|>", 50256
STEP = 101 if JIT_OFF else 1

Ranks = dict[bytes, int]
ABSENT = int(NO_RANK)


@pytest.fixture(scope="module")
def model() -> Model:
    """Give a model of the embedded vocabulary, loaded anew."""
    return load_embedded("r50k_base", {EOT: EOT_ID}, GPT2)


def tiktoken_text(ranks: Ranks) -> bytes:
    """Write ranks as a `.tiktoken` file: a token in base64, a blank, its rank, a line end; in the order of ranks."""
    lines = (
        base64.b64encode(token) + b" %d\n" % rank for token, rank in sorted(ranks.items(), key=lambda pair: pair[1])
    )
    return b"".join(lines)


# ---- the vocabulary --------------------------------------------------------------------------------------------------


def test_rebuilt_file_has_the_pinned_hash(model: Model) -> None:
    """The `.tiktoken` file made from blob and offsets has the sha256 that tiktoken pins for r50k_base."""
    ranks = {model.token_bytes(token): token for token in range(BYTES + MERGES)}
    text = tiktoken_text(ranks)
    assert hashlib.sha256(text).hexdigest() == R50K_BASE_SHA256
    assert oracle.read_tiktoken(text) == ranks


def test_rebuilt_by_the_public_calls(ranks: Ranks) -> None:
    """The same hash for the ranks that the encoding tells, token by token."""
    assert hashlib.sha256(tiktoken_text(ranks)).hexdigest() == R50K_BASE_SHA256


def test_every_token_encodes_to_itself(
    enc: numbatok.Encoding, ranks: Ranks, oracle_encoding: tiktoken.Encoding
) -> None:
    """The bytes of each token encode as tiktoken encodes them, nearly always to the token itself."""
    tokens = list(ranks)[::STEP]
    assert [oracle_encoding._encode_single_piece(token) for token in tokens] == [[ranks[token]] for token in tokens]
    assert [enc.encode_ordinary(token) for token in tokens] == [
        oracle_encoding._encode_bytes(token) for token in tokens
    ]
    assert sum(enc.encode_ordinary(token) == [ranks[token]] for token in tokens) > 0.95 * len(tokens)


def test_merges_make_the_tokens(model: Model) -> None:
    """The two parts of each merge are older than the token that it makes, and joined they are its bytes."""
    assert len(model.merges.lefts) == len(model.merges.rights) == len(model.merged) == MERGES
    assert (np.maximum(model.merges.lefts, model.merges.rights) < model.merged).all()
    assert (np.diff(model.merged.astype(np.int64)) > 0).all()
    for left, right, made in list(zip(model.merges.lefts, model.merges.rights, model.merged, strict=True))[::STEP]:
        assert model.token_bytes(left) + model.token_bytes(right) == model.token_bytes(made)


# ---- the table of pairs ----------------------------------------------------------------------------------------------


@numba.njit(nogil=True)
def ranks_of(slots, shift, lefts, rights, ranks):
    """Look up the rank of each pair."""
    for index in range(len(lefts)):
        left, right = np.uint64(lefts[index]), np.uint64(rights[index])
        ranks[index] = pair_rank(np.uint64(slots), np.uint64(shift), left, right)


def pair_ranks(model: Model, lefts: npt.NDArray[np.uint32], rights: npt.NDArray[np.uint32]) -> list[int]:
    """Give the rank of each pair of ids, ABSENT where they do not merge."""
    ranks = np.zeros(len(lefts), np.uint32)
    tables = model.tables[0]
    ranks_of(int(tables["pair_slots"]), int(tables["pair_shift"]), lefts, rights, ranks)
    return ranks.tolist()


def test_every_merge_is_found(model: Model) -> None:
    """All 50,000 merges are in the table of pairs with the ids that they make, and no slot holds anything else."""
    found = pair_ranks(model, model.merges.lefts[::STEP], model.merges.rights[::STEP])
    assert found == model.merges.merged[::STEP].tolist()
    assert np.count_nonzero(model.pair_slots != np.uint64(2**64 - 1)) == MERGES
    assert len(model.pair_slots) >= 2 * MERGES


def test_no_other_pair_is_found(model: Model) -> None:
    """200,000 pairs of ids that are not merges have no rank: random ones, swapped ones and near misses."""
    rng, count = np.random.default_rng(31), 300 if JIT_OFF else 100_000
    near = rng.integers(0, MERGES, count)
    lefts = np.concatenate(
        (rng.integers(0, EOT_ID + 1, count), model.merges.rights[near], model.merges.lefts[near] ^ 1)
    )
    rights = np.concatenate((rng.integers(0, EOT_ID + 1, count), model.merges.lefts[near], model.merges.rights[near]))
    merges = set(zip(model.merges.lefts.tolist(), model.merges.rights.tolist(), strict=True))
    others = [pair for pair in zip(lefts.tolist(), rights.tolist(), strict=True) if pair not in merges]
    assert len(others) >= 2 * count
    columns = np.array(others, np.uint32).T.copy()
    assert set(pair_ranks(model, columns[0], columns[1])) == {ABSENT}


def test_no_pair_looks_like_an_empty_place(model: Model) -> None:
    """The greatest number that stands for a byte that is missing is found beside no other, and not beside itself."""
    most = np.arange(MISSING, MISSING + BYTES, dtype=np.uint32)
    assert set(pair_ranks(model, most, most)) == {ABSENT}
    assert set(pair_ranks(model, np.repeat(most[-1:], BYTES), most)) == {ABSENT}


def test_byte_pairs_equal_the_table_of_pairs(model: Model) -> None:
    """The dense table of two bytes says for each of the 65,536 pairs what the table of pairs says."""
    pairs = np.arange(BYTES * BYTES, dtype=np.uint32)[::STEP]
    lefts, rights = model.byte_ids[pairs // BYTES], model.byte_ids[pairs % BYTES]
    assert pair_ranks(model, lefts, rights) == model.byte_pairs[pairs].tolist()
    assert JIT_OFF or np.count_nonzero(model.byte_pairs != ABSENT) > 1_000


def test_bytes_have_their_ids(model: Model) -> None:
    """The 256 bytes are the ids 0 to 255, in the order of the vocabulary."""
    assert [model.token_bytes(token) for token in model.byte_ids] == [bytes([value]) for value in range(BYTES)]
    assert sorted(model.byte_ids.tolist()) == list(range(BYTES))


# ---- the table of tokens ---------------------------------------------------------------------------------------------


def found_ids(model: Model, pieces: Iterable[bytes]) -> list[int]:
    """Give the id that the table of tokens has for each piece, -1 for none."""
    found = []
    for piece in pieces:
        memory = np.frombuffer(piece, np.uint8)
        found.append(int(find_token(model.address, memory.ctypes.data, len(memory))))
    return found


def test_every_token_is_found(model: Model, ranks: Ranks) -> None:
    """The bytes of each token lead to its id."""
    tokens = list(ranks)[::STEP]
    assert found_ids(model, tokens) == [ranks[token] for token in tokens]


def test_nothing_else_is_found(model: Model, ranks: Ranks) -> None:
    """Tokens cut, lengthened and changed in one byte, two tokens glued and random bytes are not found."""
    rng, tokens = random.Random(32), list(ranks)[::STEP]
    changed = [bytes([token[0] ^ 1]) + token[1:] for token in tokens]
    glued = [one + other for one, other in itertools.pairwise(tokens)]
    noise = [rng.randbytes(rng.randint(3, 20)) for _ in tokens]
    near = itertools.chain((token[:-1] for token in tokens), (token + b"\0" for token in tokens), changed, glued, noise)
    others = [piece for piece in near if piece and piece not in ranks]
    assert len(others) > 3 * len(tokens)
    assert set(found_ids(model, others)) == {-1}


# ---- special tokens and errors ---------------------------------------------------------------------------------------


def small_model(pairs: list[tuple[int, int]], specials: dict[str, int] | None = None, gap: int = 0) -> Model:
    """Build a model of the 256 bytes, the given merges (``gap`` ids between byte and first merge) and specials."""
    lefts, rights = (np.array([pair[side] for pair in pairs], np.uint32) for side in (0, 1))
    merged = np.arange(BYTES + gap, BYTES + gap + len(pairs), dtype=np.uint32)
    return toy_model(lefts, rights, merged, specials)


def test_specials_decode_and_are_not_found(model: Model) -> None:
    """The special token has its bytes behind its id, and its bytes do not lead to it."""
    assert model.token_bytes(EOT_ID) == EOT.encode()
    assert model.ids == EOT_ID + 1
    assert found_ids(model, [EOT.encode()]) == [-1]


@pytest.mark.parametrize("special", [256, 257, 260, 1000])
def test_specials_in_a_gap_and_behind_the_end(special: int) -> None:
    """A special id may lie in a gap of the ids or far behind them; gaps have no bytes and are unknown ids."""
    model = small_model([(97, 98), (258, 99)], {"<s>": special}, gap=2)
    enc = numbatok.Encoding._from_model("small", GPT2_PATTERNS[0], model)
    assert enc.decode_bytes([special, 258, 259]) == b"<s>ababc"
    assert enc.encode_ordinary("abc<s>") == [259, *b"<s>"]
    assert enc.encode("abc<s>", allowed_special="all") == [259, special]
    assert enc.n_vocab == max(special, 259) + 1
    for gap in {256, 257, 260, 999} - {special}:
        with pytest.raises(KeyError):
            enc.decode_bytes([gap])


def test_no_merges_at_all() -> None:
    """A vocabulary of bytes alone encodes to bytes."""
    enc = numbatok.Encoding._from_model("bytes", GPT2_PATTERNS[0], small_model([]))
    assert enc.encode_ordinary("añb  c") == list("añb  c".encode())
    assert enc.decode(list("añb  c".encode())) == "añb  c"


def test_clash_of_a_special_id() -> None:
    """A special token cannot have the id of another token: an error that names both."""
    for token in (0, 97, 256):
        with pytest.raises(ValueError, match=f"'<s>' has id {token}, which is the id of another"):
            small_model([(97, 98)], {"<s>": token})


def test_same_pair_twice() -> None:
    """Two merges of one pair are an error."""
    with pytest.raises(ValueError, match="same pair"):
        small_model([(97, 98), (98, 99), (97, 98)])


def test_same_bytes_twice() -> None:
    """Two ids with the same bytes are an error: "abc" as "ab", "c" and as "a", "bc"."""
    with pytest.raises(ValueError, match="same bytes"):
        small_model([(97, 98), (98, 99), (256, 99), (97, 257)])


def test_merges_that_meet_in_one_place() -> None:
    """Merges chosen to be looked for in the same bucket are an error at once: a table of them takes quadratic time."""
    count = 60 if JIT_OFF else 2_000
    bits = (2 * count - 1).bit_length() - 3
    ids = np.arange(BYTES, dtype=np.uint64)
    keys = (ids[:, None] << np.uint64(43) | ids << np.uint64(22)).reshape(-1)
    with np.errstate(over="ignore"):
        buckets = (keys ^ (keys >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(64 - bits)
    chosen = np.argsort(buckets, kind="stable")[:count]  # the lowest buckets, each of them overfull
    pairs = [(int(pair) // BYTES, int(pair) % BYTES) for pair in chosen]
    if JIT_OFF:
        assert small_model(pairs).ids == BYTES + count  # few enough to be borne
    else:
        with pytest.raises(ValueError, match="looked for in the same places"):
            small_model(pairs)


def test_tokens_that_meet_in_one_place() -> None:
    """Tokens chosen to have one hash are an error at once."""
    inverse, unfold = pow(0xD6E8FEB86659FD93, -1, 1 << 64), lambda word: word ^ word >> 32
    words = (unfold(unfold(value * inverse % (1 << 64))) * inverse % (1 << 64) for value in range(4_000))
    tokens = sorted({(word ^ 8 * 0x9E3779B97F4A7C15 % (1 << 64)).to_bytes(8, "little") for word in words})
    for count in (10, 100 if JIT_OFF else len(tokens)):
        ranks = {bytes([byte]): byte for byte in range(BYTES)}
        ranks |= {token: BYTES + place for place, token in enumerate(tokens[:count])}
        if count <= 100:
            assert Model.from_ranks(ranks, {}, split_of(GPT2_PATTERNS[0])).ids == BYTES + count
        else:
            with pytest.raises(ValueError, match="looked for in the same places"):
                Model.from_ranks(ranks, {}, split_of(GPT2_PATTERNS[0]))


def test_loaded_tables_are_the_same_each_time(model: Model, enc: numbatok.Encoding) -> None:
    """A second load gives equal tables, and a pool of it gives a worker with the addresses of that model."""
    for name in ("blob", "starts", "pair_slots", "piece_slots", "byte_pairs", "byte_ids", "merged", "classes"):
        assert np.array_equal(getattr(model, name), getattr(enc._model, name)), name
    assert int(WorkerPool(model).take().record["tables"][0]) == model.address != enc._model.address
