"""tiktoken's constructor and the rest of its surface: any vocabulary, missing bytes, unstable ends, offsets, pickles.

numbatok.Encoding("toy", pat_str=..., mergeable_ranks={b"a": 0, ...}, special_tokens={})
"""

from __future__ import annotations

import copy
import itertools
import pickle
import random
from typing import Any

import pytest
import tiktoken
from cases import JIT_OFF
from test_encodings import reference

import numbatok
from numbatok.split.patterns import CL100K_PATTERN, GPT2_PATTERNS, O200K_PATTERN

BYTES = {bytes([byte]): byte for byte in range(256)}


def both(ranks: dict[bytes, int], specials: dict[str, int], pattern: str = GPT2_PATTERNS[0]) -> tuple[Any, Any]:
    """Make the same encoding here and in tiktoken."""
    made = {"pat_str": pattern, "mergeable_ranks": ranks, "special_tokens": specials}
    return numbatok.Encoding("toy", **made), tiktoken.Encoding("toy", **made)


@pytest.mark.parametrize("seed", range(4 if JIT_OFF else 40))
def test_random_vocabularies(seed: int) -> None:
    """Random tokens of three letters, reachable or not, in random order, over all short texts and random long ones."""
    rng = random.Random(seed)
    tokens = {bytes(rng.choices(b"abc", k=rng.randrange(2, 6))) for _ in range(rng.randrange(1, 20))}
    ranks = BYTES | {token: 256 + 3 * rank for rank, token in enumerate(rng.sample(sorted(tokens), len(tokens)))}
    ours, theirs = both(ranks, {"<|end|>": 1000})
    texts = ["".join(one) for n in range(1, 4 if JIT_OFF else 8) for one in itertools.product("abc", repeat=n)]
    texts += ["".join(rng.choices("abc", k=rng.randrange(8, 300))) for _ in range(20)]
    assert ours.encode_ordinary_batch(texts) == theirs.encode_ordinary_batch(texts)
    assert ours.n_vocab == theirs.n_vocab == 1001


@pytest.mark.skipif(JIT_OFF, reason="half a minute each in plain Python; random vocabularies go the same way")
@pytest.mark.parametrize("name", ["gpt2", "cl100k_base", "o200k_base"])
def test_published_vocabularies(name: str) -> None:
    """The constructor, which enters every cut of every token, gives the ids of the embedded tables."""
    embedded, peer = numbatok.get_encoding(name), reference(name)
    made = numbatok.Encoding(
        name, pat_str=peer._pat_str, mergeable_ranks=peer._mergeable_ranks, special_tokens=peer._special_tokens
    )
    text = "It's a HTTPResponse, isn't it?\n\n  naïve café 中文 12345 😀 zzzzqqqq" * 3
    assert made.encode_ordinary(text) == embedded.encode_ordinary(text) == peer.encode_ordinary(text)
    assert made.n_vocab == embedded.n_vocab


def test_missing_bytes() -> None:
    """Bytes without a token may merge; one that stays alone is refused by name, in every call."""
    enc = numbatok.Encoding(
        "few", pat_str=GPT2_PATTERNS[0], mergeable_ranks={b"a": 0, b"cd": 1, b"cda": 2}, special_tokens={}
    )
    assert enc.encode("acdacda") == [0, 2, 2]
    for call in (
        enc.encode,
        enc.encode_flat,
        enc.encode_to_numpy,
        enc.count,
        lambda text: enc.encode_batch(["a", text]),
        lambda text: enc.count_batch(["a", text]),
    ):
        with pytest.raises(ValueError, match="no token for byte 0x63"):
            call("ac")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mergeable_ranks": {b"": 0}}, "is empty"),
        ({"mergeable_ranks": {b"a": 0, b"b": 0}}, "given twice"),
        ({"mergeable_ranks": {b"a": -1}}, "negative"),
        ({"mergeable_ranks": {b"a": 1 << 21}}, "too large"),
        ({"special_tokens": {"<s>": 97}}, "id of another token"),
        ({"explicit_n_vocab": 300}, "explicit_n_vocab is 300"),
        ({"pat_str": "x"}, "no split kernel"),
    ],
)
def test_refused(change: dict[str, Any], message: str) -> None:
    """What no table can hold is refused, and the message says what was met."""
    made = {"pat_str": GPT2_PATTERNS[0], "mergeable_ranks": BYTES, "special_tokens": {}} | change
    with pytest.raises(ValueError, match=message):
        numbatok.Encoding("bad", **made)


def test_specials_with_a_common_start() -> None:
    """The longest of those that start at a place wins, in whatever order they were given."""
    specials = {"tag_1": 301, "tag_12": 302, "tag_123": 303, "[.*+?](": 304}
    for order in itertools.permutations(specials.items()):
        enc = numbatok.Encoding("tags", pat_str=CL100K_PATTERN, mergeable_ranks=BYTES, special_tokens=dict(order))
        assert enc.encode("tag_1 tag_12 tag_123[.*+?](", allowed_special="all") == [301, 32, 302, 32, 303, 304]


def test_pickle() -> None:
    """By name what was got by name, by content what was made; copies work alike."""
    for name in ("gpt2", "cl100k_base") if JIT_OFF else numbatok.list_encoding_names():
        enc = numbatok.get_encoding(name)
        assert pickle.loads(pickle.dumps(enc)) is enc
        assert len(pickle.dumps(enc)) < 200
    made = numbatok.Encoding("gpt2", pat_str=O200K_PATTERN, mergeable_ranks=BYTES, special_tokens={"<s>": 256})
    for twin in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made), copy.copy(made)):
        assert twin.encode("camelCase<s>", allowed_special="all") == made.encode("camelCase<s>", allowed_special="all")


UNSTABLE = ["", "hello fanta", "it's 20", "  \n\n", "a<|endoftext|>", "a<|endoftext|>b ", "naïve 中文", "don'", "  x", " ", "\u3000\u3000"]  # fmt: skip # noqa: E501


@pytest.mark.skipif(JIT_OFF, reason="thousands of short texts each")
@pytest.mark.parametrize("name", ["gpt2", "cl100k_base", "o200k_base"])
@pytest.mark.parametrize("text", UNSTABLE)
def test_unstable(name: str, text: str) -> None:
    """The stable tokens and the set of completions are tiktoken's."""
    ours = numbatok.get_encoding(name).encode_with_unstable(text, allowed_special="all")
    theirs = reference(name).encode_with_unstable(text, allowed_special="all")
    assert ours[0] == theirs[0]
    assert sorted(ours[1]) == sorted(theirs[1])


@pytest.mark.parametrize("name", ["gpt2", "cl100k_base"] if JIT_OFF else ["gpt2", "cl100k_base", "o200k_base"])
@pytest.mark.parametrize("text", ["", "hello world", "a 🤚🏾", "中文 naïve", "\u0301"])
def test_offsets(name: str, text: str) -> None:
    """decode_with_offsets gives tiktoken's text and character offsets."""
    enc, peer = numbatok.get_encoding(name), reference(name)
    ids = enc.encode(text)
    assert enc.decode_with_offsets(ids) == peer.decode_with_offsets(ids)


def test_private_names() -> None:
    """Names that programs take from tiktoken in spite of their underscore."""
    enc, peer = numbatok.get_encoding("cl100k_base"), reference("cl100k_base")
    assert enc._encode_single_piece("hello world") == peer._encode_single_piece("hello world")
    assert enc._encode_only_native_bpe("hello world") == peer._encode_only_native_bpe("hello world")
    assert enc._encode_bytes(b"hello \xff") == peer._encode_bytes(b"hello \xff")
    assert enc._mergeable_ranks == peer._mergeable_ranks
