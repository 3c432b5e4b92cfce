"""BPE1 files: their bytes, what they give back, what a reader of another make gives, and how broken ones are refused.

Invariant: a file that is loaded gives the model that it describes, whoever wrote it and in whatever order; anything
else is a ValueError that names the file and the field, quickly and with little memory.

    Encoding.load("cut.bpe")  ->  ValueError: cut.bpe: vocabulary entry 7 (id 7, length 1): at least 83 bytes are ...
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import pickle
import random
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bpe1_reader
import hf
import numpy as np
import oracle
import pytest
from cases import JIT_OFF, PATHOLOGICAL
from test_encodings import reference
from tokenizers import AddedToken, normalizers, processors
from toys import toy_model

import numbatok
from numbatok import Encoding, alphabet, contents
from numbatok.bpe1 import HEAD, Content, Extra, pack, unpack
from numbatok.contents import content_of
from numbatok.split.named import PATTERNS
from numbatok.split.patterns import DEEPSEEK_PATTERNS, GPT2_PATTERNS

GPT2 = GPT2_PATTERNS[0]
EOT = "<|endoftext|>"
BYTES = {bytes([byte]): byte for byte in range(256)}
NAMES = ["gpt2", "p50k_edit", "cl100k_base", "o200k_harmony"]
large = pytest.mark.skipif(JIT_OFF, reason="large vocabularies: left to the compiled run")
PEAK_BYTES = 300 << 20
"""The largest id that is legal asks for tables of some ten bytes an id; a size that is believed asks for more."""

TEXTS = [
    *hf.random_texts(60, 30 if JIT_OFF else 300),
    *(text[:300] for text in hf.sample_texts()),
    "## a ####b",
    "#" * 9,
]


def u32(*numbers: int) -> bytes:
    """Spell numbers as files do."""
    return struct.pack(f"<{len(numbers)}I", *numbers)


def seal(data: bytes) -> bytes:
    """Give a file of version 2 the checksum of its bytes."""
    return data[:32] + hashlib.sha256(data[:32] + data[64:]).digest() + data[64:]


def small(**changes: Any) -> Content:
    """Give a content of all bytes, "ab", "abc" and two special tokens, with some fields changed."""
    merges = np.array([[97, 98, 0, 256], [256, 99, 1, 257]], np.uint32).T
    extras = (Extra("<s>", 258), Extra("</s>", 260))
    sizes = np.array([1] * 256 + [2, 3], np.uint32)
    blob = bytes(range(256)) + b"ababc"
    whole = Content(np.arange(258, dtype=np.uint32), sizes, blob, merges, extras, GPT2, "gpt2", "small")
    return whole._replace(**changes)


def written(tmp_path: Path, data: bytes) -> Path:
    """Write a file."""
    path = tmp_path / "my.bpe"
    path.write_bytes(data)
    return path


def load(tmp_path: Path, data: bytes, **more: Any) -> Encoding:
    """Write and load a file."""
    return Encoding.load(written(tmp_path, data), **more)


def bytes_of(enc: Encoding) -> bytes:
    """Give all that makes an encoding, in one form."""
    return pack(content_of(enc._model, enc._special_tokens, enc._pat_str, enc.name), 2)


def assert_same_ids(found: Encoding, expected: Encoding, texts: list[str] = TEXTS) -> None:
    """Assert that two encodings do the same."""
    assert found.encode_ordinary_batch(texts) == expected.encode_ordinary_batch(texts)
    glued = "a".join(["", *list(expected._special_tokens)[:20], ""])
    assert found.encode(glued, allowed_special="all") == expected.encode(glued, allowed_special="all")
    assert (found._special_tokens, found._pat_str, found.name) == (
        expected._special_tokens,
        expected._pat_str,
        expected.name,
    )
    assert found.n_vocab == expected.n_vocab
    for token in {*range(0, found.n_vocab, 97), *expected._special_tokens.values()}:
        try:
            data = expected.decode_single_token_bytes(token)
        except KeyError:
            with pytest.raises(KeyError):
                found.decode_single_token_bytes(token)
        else:
            assert found.decode_single_token_bytes(token) == data


# ---- layout ----------------------------------------------------------------------------------------------------------


def test_bytes_of_version_1() -> None:
    """Every byte of a small file stands where the page says."""
    model = toy_model([97, 256], [98, 99], [256, 257], {"<s>": 258})
    data = Encoding._from_model("toy", GPT2, model)._to_files("bpe", 1)[0]
    singles = b"".join(u32(byte, 1) + bytes([byte]) for byte in range(256))
    longer = u32(256, 2) + b"ab" + u32(257, 3) + b"abc" + u32(258, 3) + b"<s>"
    assert data == b"BPE1\x01" + u32(259, 2) + singles + longer + u32(97, 98, 0, 256) + u32(256, 99, 1, 257)


def test_bytes_of_version_2() -> None:
    """Every byte of a small file stands where the page says."""
    model = toy_model([97, 256], [98, 99], [256, 257], {"</s>": 260, "<s>": 258})
    data = Encoding._from_model("small", GPT2, model)._to_files("bpe", 2)[0]
    head = b"BPE1\x02\x00\x00\x00" + u32(258, 2, 2, 5, 4, len(GPT2))
    columns = u32(*range(258), *[1] * 256, 2, 3, 97, 256, 98, 99, 0, 1, 256, 257, 258, 260, 3, 3, 3, 4)
    body = columns + bytes(range(256)) + b"ababc" + b"<s></s>" + b"small" + b"gpt2" + GPT2.encode()
    assert data == head + hashlib.sha256(head + body).digest() + body
    assert data == pack(small(), 2)


@large
@pytest.mark.parametrize("name", [name.replace("harmony", "base") for name in NAMES])
@pytest.mark.parametrize("version", [1, 2])
def test_reader_of_the_page(name: str, version: int) -> None:
    """A reader that was written from the page finds the tokens and merges, and by them the ids of tiktoken."""
    enc = numbatok.get_encoding(name)
    found = bpe1_reader.read(enc._to_files("bpe", version)[0])
    tokens = {number: token for token, number in enc._mergeable_ranks.items()}
    special = {number: enc.decode_single_token_bytes(number) for number in enc._special_tokens.values()}
    assert found.tokens == (tokens if version == 2 else tokens | special)
    lefts, rights, ranks, merged = (array.tolist() for array in enc._model.merges)
    rows = zip(lefts, rights, ranks, strict=True)
    assert found.merges == {(left, right): (rank, merged[rank]) for left, right, rank in rows}
    if version == 2:
        assert (found.name, found.pattern, found.flags) == (name, enc._pat_str, 0)
        assert {text: number for number, _, text in found.extras} == enc._special_tokens
    for piece in (b" hello", "\u4e2d\u6587".encode(), b"####", b"\n\n   ", b"camelCase", bytes(range(256))):
        assert found.encode(piece) == reference(name)._encode_single_piece(piece)


@large
def test_columns_can_be_mapped(tmp_path: Path) -> None:
    """Each column of version 2 begins at a multiple of four, so that it is an array in place."""
    path = tmp_path / "gpt2.bpe"
    numbatok.get_encoding("gpt2").save(path)
    head = np.memmap(path, "<u4", mode="r", offset=8, shape=(6,))
    ids = np.memmap(path, "<u4", mode="r", offset=HEAD.size, shape=(int(head[0]),))
    assert np.array_equal(ids, np.arange(50256))


# ---- round trips -----------------------------------------------------------------------------------------------------


@large
@pytest.mark.parametrize("name", NAMES)
def test_embedded(name: str, tmp_path: Path) -> None:
    """Both versions give the encoding back; version 2 all of it, and the same file when it is saved again."""
    enc, path = numbatok.get_encoding(name), tmp_path / "my.bpe"
    enc.save(path)
    found = Encoding.load(path)
    assert_same_ids(found, enc)
    found.save(tmp_path / "again.bpe")
    assert (tmp_path / "again.bpe").read_bytes() == path.read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["again.bpe", "my.bpe"]
    if name == "o200k_harmony":
        with pytest.raises(ValueError, match=r"two special tokens have the same id, .*version 2"):
            enc.save(path, version=1)
        return
    enc.save(path, version=1)
    found = Encoding.load(path, pat_str=enc._pat_str, special_tokens=enc._special_tokens, name=name)
    assert_same_ids(found, enc)
    assert bytes_of(found) == enc._to_bpe()


@large
@pytest.mark.parametrize("path", sorted(hf.DATA.glob("*.txt")), ids=lambda path: path.name)
def test_whole_texts(path: Path, tmp_path: Path) -> None:
    """Ids of the texts of the repository are tiktoken's."""
    numbatok.get_encoding("gpt2").save(tmp_path / "gpt2.bpe")
    enc, text = Encoding.load(tmp_path / "gpt2.bpe"), path.read_bytes().decode()
    assert enc.encode_ordinary(text) == reference("gpt2").encode_ordinary(text)


def random_ranks(seed: int, lost: int = 0) -> dict[bytes, int]:
    """Give ranks of random tokens, some of which merging misses; ``lost`` bytes are not there."""
    rng = random.Random(seed)
    tokens = {bytes([byte]) for byte in range(lost, 256)}
    parts = [b"a", b"b", b"c", b" ", "\u00e9".encode(), b"ab", b"\xe4\xb8"]
    while len(tokens) < 300:
        tokens.add(b"".join(rng.choices(parts, k=rng.randint(1, 4))))
    order = sorted(sorted(tokens), key=lambda token: (len(token), rng.random()))
    return {token: rank + (rank > 280) * 5 for rank, token in enumerate(order)}


@pytest.mark.parametrize("seed", range(20))
def test_ranks(seed: int, tmp_path: Path) -> None:
    """An encoding that was made from ranks, with gaps, missing bytes and tokens that merging misses, is kept."""
    ranks = random_ranks(seed, lost=seed % 3 * 40)
    enc = Encoding("mine", pat_str=PATTERNS["o200k"], mergeable_ranks=ranks, special_tokens={"<b>": 900, "<a>": 900})
    enc.save(tmp_path / "my.bpe")
    found = Encoding.load(tmp_path / "my.bpe")
    texts = hf.random_texts(seed, 200, ["a", "b", "c", " ", "\u00e9", "\u4e2d", "abc", "\n"])
    assert_same_ids(found, enc, [text for text in texts if all(bytes([byte]) in ranks for byte in text.encode())])
    assert found._mergeable_ranks == ranks
    found.save(tmp_path / "ranks.tiktoken", "tiktoken")
    enc.save(tmp_path / "expected.tiktoken", "tiktoken")
    assert (tmp_path / "ranks.tiktoken").read_bytes() == (tmp_path / "expected.tiktoken").read_bytes()


def test_order_of_tables(tmp_path: Path) -> None:
    """The same encoding gives the same bytes, in whatever order its parts were given."""
    ranks, special = random_ranks(1), {"<a>": 900, "<b>": 901}
    one = Encoding("mine", pat_str=GPT2, mergeable_ranks=ranks, special_tokens=special)
    mixed = dict(random.Random(1).sample(list(ranks.items()), len(ranks)))
    other = Encoding("mine", pat_str=GPT2, mergeable_ranks=mixed, special_tokens=dict(reversed(special.items())))
    assert one._to_bpe() == other._to_bpe()


@large
@pytest.mark.parametrize("version", [1, 2])
def test_order_of_entries(version: int, tmp_path: Path) -> None:
    """Entries and merges may come in any order: others write them in that of a hash map."""
    enc = numbatok.get_encoding("gpt2")
    content = unpack(enc._to_files("bpe", version)[0], "gpt2.bpe")
    rng, ends = np.random.default_rng(7), np.cumsum(content.sizes)
    order = rng.permutation(len(content.ids))
    mixed = content._replace(
        ids=content.ids[order],
        sizes=content.sizes[order],
        blob=b"".join(content.blob[ends[place] - content.sizes[place] : ends[place]] for place in order),
        merges=content.merges[:, rng.permutation(content.merges.shape[1])],
        extras=content.extras[::-1],
    )
    found = load(tmp_path, pack(mixed, version), pat_str=GPT2, special_tokens={EOT: 50256}, name="gpt2")
    assert bytes_of(found) == enc._to_bpe()


def test_ranks_may_have_gaps(tmp_path: Path) -> None:
    """Only the order of ranks counts."""
    expected = load(tmp_path, pack(small(), 2))
    merges = small().merges.copy()
    merges[2] = 5, 0xFFFFFFFF
    for version in (1, 2):
        given = {"pat_str": GPT2, "special_tokens": {"<s>": 258, "</s>": 260}, "name": "small"}
        assert bytes_of(load(tmp_path, pack(small(merges=merges), version), **given)) == bytes_of(expected)


# ---- what others write -----------------------------------------------------------------------------------------------


def as_the_reference_converter(ids: dict[str, int], merges: str) -> bytes:
    """Write version 1 as the reference system's converter does: it passes over every line that starts with "#"."""
    tokens = {number: alphabet.to_bytes(text) or text.encode() for text, number in ids.items()}
    of = {token: number for number, token in tokens.items()}
    rows = []
    for line in merges.splitlines():
        if line and not line.startswith("#"):
            left, right = map(alphabet.to_bytes, line.split())
            rows.append((of[left], of[right], len(rows), of[left + right]))
    entries = b"".join(u32(number, len(token)) + token for number, token in tokens.items())
    return b"BPE1\x01" + u32(len(tokens), len(rows)) + entries + b"".join(itertools.starmap(u32, rows))


@large
def test_file_of_the_reference_converter(tmp_path: Path) -> None:
    """It has 8 merges less than GPT-2, and is loaded as the model that it describes."""
    enc = numbatok.get_encoding("gpt2")
    vocabulary, merges = (part.decode() for part in enc._to_files("gpt2", 2))
    data = as_the_reference_converter(json.loads(vocabulary), merges)
    found = load(tmp_path, data, pat_str=GPT2, special_tokens={EOT: 50256})
    file = bpe1_reader.read(data)
    pairs = {(file.tokens[left], file.tokens[right]): rank for (left, right), (rank, _) in file.merges.items()}
    assert len(pairs) == 49_992
    ids = {token: number for number, token in file.tokens.items()}
    for text in (*TEXTS, hf.DATA.joinpath("mobydick-32k.txt").read_bytes().decode()):
        pieces = [piece.encode() for piece in oracle.split(oracle.repair(text))]
        if oracle.comparable(text):
            assert found.encode_ordinary(text) == [i for piece in pieces for i in oracle.merge_pairs(piece, pairs, ids)]
    assert found.encode("####") == [2, 2, 2, 2]
    assert enc.encode("####") == [4242]
    assert found.encode(EOT, allowed_special="all") == [50256]
    with pytest.raises(ValueError, match="merging does not give the token b'##'"):
        found.save(tmp_path / "lost.tiktoken", "tiktoken")
    with pytest.raises(ValueError, match="lists merges, which ranks cannot say"):
        Encoding.from_tiktoken(found)
    assert bytes_of(pickle.loads(pickle.dumps(found))) == bytes_of(found)


@large
def test_converter_keeps_all_merges(tmp_path: Path) -> None:
    """Ours passes over the ``#version`` line alone."""
    enc = numbatok.get_encoding("gpt2")
    enc.save(tmp_path, "merges")
    found = Encoding.from_merges(tmp_path / "vocab.json", tmp_path / "merges.txt", name="gpt2")
    assert found._model.merges.lefts.shape == (50_000,)
    assert bytes_of(found) == enc._to_bpe()


@large
def test_version_1_says_no_pattern(tmp_path: Path) -> None:
    """It has to be told; without special tokens those of the file are ordinary ones, which merging does not make."""
    path = written(tmp_path, numbatok.get_encoding("gpt2")._to_files("bpe", 1)[0])
    with pytest.raises(
        ValueError, match=r"my\.bpe: a file of version 1 without the pattern.*load\(path, pat_str=\.\.\., special"
    ):
        Encoding.load(path)
    with pytest.raises(ValueError, match=r"my\.bpe: there is no split kernel for the pattern '\[a-z\]\+'"):
        Encoding.load(path, pat_str="[a-z]+")
    enc = Encoding.load(path, pat_str=GPT2)
    assert (enc.name, enc._special_tokens) == ("my", {})
    assert enc.encode(EOT) == numbatok.get_encoding("gpt2").encode_ordinary(EOT)
    assert enc.decode([50256]) == EOT
    with pytest.raises(ValueError, match=r"'<eot>' has id 50256, which is the id of b'<\|endoftext\|>'"):
        Encoding.load(path, pat_str=GPT2, special_tokens={"<eot>": 50256})


# ---- other kinds of encodings ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", hf.MODELS)
def test_models_of_huggingface(name: str, tmp_path: Path) -> None:
    """Odd vocabularies: ids in any order, tokens that nothing makes, foreign ones, whole pieces."""
    enc = Encoding.from_huggingface(hf.MODELS[name](), name="odd")
    enc.save(tmp_path / "odd.bpe")
    found = Encoding.load(tmp_path / "odd.bpe")
    texts = hf.random_texts(16, 300, ["a", "b", "c", "ab", "bc", "abc", "aa", " ", "\u00e9", "\u4e2d", "1"])
    assert_same_ids(found, enc, texts)
    assert bytes_of(found) == enc._to_bpe()
    found.save(tmp_path / "tokenizer.json", "huggingface")
    assert_same_ids(Encoding.from_huggingface(tmp_path / "tokenizer.json", name="odd"), enc, texts)


def test_special_token_among_the_tokens(tmp_path: Path) -> None:
    """Where whole pieces are looked up, a special token that is a token, too, stays one."""
    for whole in (False, True):
        tokenizer = hf.build(added=[AddedToken("<s>", **hf.SPECIAL)], ignore_merges=whole)
        fields = hf.document(tokenizer)
        fields["model"]["vocab"]["<s>"] = 600
        enc = Encoding.from_huggingface(type(tokenizer).from_str(json.dumps(fields)), name="x")
        found = load(tmp_path, enc._to_bpe())
        assert_same_ids(found, enc)
        assert [extra.outside for extra in unpack(enc._to_bpe(), "x").extras] == [not whole]


def with_template() -> Any:
    """Give a tokenizer that puts an id before each text."""
    tokenizer = hf.build(added=[AddedToken("<s>", **hf.SPECIAL)])
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[hf.START])
    return tokenizer


BEYOND: dict[str, Callable[[], Any]] = {
    "a normalizer": lambda: hf.build(normalizer=normalizers.NFC()),
    "a space put before texts": lambda: hf.build(hf.PRE_TOKENIZERS["byte-level-prefix"]()),
    "ids that are put around texts": with_template,
    "added tokens that take whitespace": lambda: hf.build(added=[AddedToken("<m>", lstrip=True, **hf.SPECIAL)]),
    "added tokens of other kinds": lambda: hf.build(added=[AddedToken("<m>", normalized=False)]),
    "a split that is not one pattern": lambda: hf.build(hf.split_sequence(*DEEPSEEK_PATTERNS)),
}


@pytest.mark.parametrize("beyond", BEYOND)
def test_refused_by_name(beyond: str, tmp_path: Path) -> None:
    """What only a tokenizer.json can say is refused, with the call that works, and nothing is written."""
    enc = Encoding.from_huggingface(BEYOND[beyond](), name="more")
    with pytest.raises(ValueError, match=rf'{beyond}.* cannot hold; save it with format="huggingface"'):
        enc.save(tmp_path / "more.bpe")
    assert list(tmp_path.iterdir()) == []
    if beyond in ("a normalizer", "a space put before texts", "added tokens that take whitespace"):
        for format in ("tiktoken", "merges", "gpt2"):
            with pytest.raises(ValueError, match=rf"{beyond}.* lost in this format"):
                enc.save(tmp_path / "more", format)
        with pytest.raises(ValueError, match=rf"{beyond}.* lost in this format"):
            enc.save(tmp_path / "more", version=1)


def test_slow_split(tmp_path: Path) -> None:
    """A pattern without a kernel is kept, and loaded when the slow split is allowed."""
    pattern = r"[a-z]+|[^a-z]+"
    enc = Encoding("slow", pat_str=pattern, mergeable_ranks=BYTES, special_tokens={"<s>": 256}, slow_split=True)
    enc.save(tmp_path / "slow.bpe")
    with pytest.raises(ValueError, match=r"slow\.bpe: there is no split kernel"):
        Encoding.load(tmp_path / "slow.bpe")
    found = Encoding.load(tmp_path / "slow.bpe", slow_split=True)
    assert_same_ids(found, enc)
    assert_same_ids(pickle.loads(pickle.dumps(found)), enc)


def test_what_is_given_replaces_the_file(tmp_path: Path) -> None:
    """Name, pattern and special tokens."""
    path = written(tmp_path, pack(small(), 2))
    found = Encoding.load(path, name="other", pat_str=PATTERNS["o200k"], special_tokens={"<x>": 300})
    assert (found.name, found._pat_str, found._special_tokens) == ("other", PATTERNS["o200k"], {"<x>": 300})
    with pytest.raises(KeyError):
        found.decode_single_token_bytes(258)


STRANGE_SPECIALS: list[tuple[Any, type[Exception], str]] = [
    ({"<x>": "3"}, TypeError, "special token '<x>' has id '3', of type str; give an int"),
    ({"<x>": 300.0}, TypeError, "has id 300.0, of type float"),
    ({"<x>": True}, TypeError, "has id True, of type bool"),
    ({"<x>": np.True_}, TypeError, "of type bool"),
    ({"<x>": None}, TypeError, "has id None"),
    ({b"<x>": 300}, TypeError, "special token b'<x>' is bytes; give str"),
    ({"\ud800": 300}, ValueError, "half of a surrogate pair"),
    ({"<x>": -1}, ValueError, "special token '<x>' has id -1; ids are 0 to"),
    ({"<x>": 1 << 70}, ValueError, "ids are 0 to"),
    (["<x>"], TypeError, "special_tokens is list; give a mapping"),
    ("<x>", TypeError, "special_tokens is str; give a mapping"),
]


@pytest.mark.parametrize(("special", "error", "message"), STRANGE_SPECIALS)
def test_special_tokens_of_other_types(special: Any, error: type[Exception], message: str, tmp_path: Path) -> None:
    """Every way to give special tokens refuses them by what was met."""
    enc, pattern = numbatok.train("abab", 258), GPT2_PATTERNS[0]
    ranks = enc._mergeable_ranks
    enc.save(tmp_path / "x.bpe")
    enc.save(tmp_path / "x.tiktoken", "tiktoken")
    enc.save(tmp_path, "merges")
    ways: list[Callable[..., object]] = [
        lambda **more: Encoding.load(tmp_path / "x.bpe", **more),
        lambda **more: Encoding.from_tiktoken(tmp_path / "x.tiktoken", pat_str=pattern, **more),
        lambda **more: Encoding.from_merges(tmp_path / "vocab.json", tmp_path / "merges.txt", pat_str=pattern, **more),
        lambda **more: Encoding("x", pat_str=pattern, mergeable_ranks=ranks, **more),
    ]
    for way in ways:
        with pytest.raises(error, match=message):
            way(special_tokens=special)


def test_special_tokens_of_numpy(tmp_path: Path) -> None:
    """Integers of any library are ids, and become ``int``."""
    numbatok.train("abab", 258).save(tmp_path / "x.bpe")
    special = Encoding.load(tmp_path / "x.bpe", special_tokens={"<x>": np.uint16(300)})._special_tokens
    assert special == {"<x>": 300}
    assert type(special["<x>"]) is int


@pytest.mark.parametrize(("name", "error"), [(5, TypeError), (b"x", TypeError), ("\ud800", ValueError)])
def test_names_of_other_types(name: Any, error: type[Exception], tmp_path: Path) -> None:
    """A name that no file could hold is refused when it is given."""
    numbatok.train("abab", 258).save(tmp_path / "x.bpe")
    with pytest.raises(error, match=r"^name is "):
        Encoding.load(tmp_path / "x.bpe", name=name)
    with pytest.raises(error, match=r"^name is "):
        Encoding(name, pat_str=GPT2_PATTERNS[0], mergeable_ranks={b"a": 0}, special_tokens={})


def test_version_1_refuses(tmp_path: Path) -> None:
    """What tokens and merges alone do not say."""
    given: dict[str, Any] = {"pat_str": GPT2, "special_tokens": {}}
    cases = [
        (Encoding("lost", mergeable_ranks={b"a": 0}, **given), "has a token for each byte, and here some have none"),
        (Encoding("late", mergeable_ranks={**BYTES, b"abc": 300, b"ab": 301}, **given), "no list of merges gives"),
        (Encoding("odd", mergeable_ranks={**BYTES, b"abc": 300}, **given), "merging does not give b'abc'"),
        (
            Encoding("twin", pat_str=GPT2, mergeable_ranks={**BYTES, b"ab": 256}, special_tokens={"ab": 257}),
            "special token 'ab' is another token, too",
        ),
    ]
    for enc, message in cases:
        with pytest.raises(ValueError, match=message):
            enc.save(tmp_path / "x.bpe", version=1)
        enc.save(tmp_path / "x.bpe")
        assert_same_ids(Encoding.load(tmp_path / "x.bpe"), enc, ["a", "aaa"])


# ---- pickles, processes, files ---------------------------------------------------------------------------------------
@large
def test_pickle_and_fresh_process(tmp_path: Path) -> None:
    """A loaded encoding is pickled by what it is made of; another process gives the same ids."""
    path = tmp_path / "gpt2.bpe"
    numbatok.get_encoding("gpt2").save(path)
    enc = Encoding.load(path, name="mine")
    again = pickle.loads(pickle.dumps(enc))
    assert bytes_of(again) == bytes_of(enc)
    assert again.encode("hello world") == [31373, 995]
    code = "import sys, numbatok; print(numbatok.Encoding.load(sys.argv[1]).encode('hello world ####'))"
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [31373, 995, 1303, 21017]


def test_save_is_atomic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A save that fails at its end leaves the old file, and no other one."""
    enc, path = load(tmp_path, pack(small(), 2)), tmp_path / "my.bpe"
    before = path.read_bytes()

    def fail(*names: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="No space"):
        enc.save(path, version=1)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"version": 3}, "version is 3; give 1 or 2"),
        ({"format": "tiktoken", "version": 2}, 'version is 2; give 1 or 2, with format="bpe" only'),
        ({"format": "json"}, "format is 'json'; give one of \"bpe\", "),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str, tmp_path: Path) -> None:
    """Formats and versions that are not there."""
    with pytest.raises(ValueError, match=message):
        numbatok.get_encoding("gpt2").save(tmp_path / "x", **arguments)
    assert list(tmp_path.iterdir()) == []


def test_two_files_for_two_names(tmp_path: Path) -> None:
    """A format of one file takes one name."""
    with pytest.raises(ValueError, match=r'format "bpe" is 1 file\(s\), and 2 name\(s\) were given'):
        numbatok.get_encoding("gpt2").save((tmp_path / "x", tmp_path / "y"))


# ---- broken files ----------------------------------------------------------------------------------------------------

SMALL = {version: pack(small(), version) for version in (1, 2)}
GIVEN: dict[int, dict[str, Any]] = {1: {"pat_str": GPT2}, 2: {}}


def put(data: bytes, at: int, *numbers: int) -> bytes:
    """Change numbers of a file."""
    return data[:at] + u32(*numbers) + data[at + 4 * len(numbers) :]


def merges(*rows: tuple[int, int, int, int]) -> np.ndarray:
    """Give merges as columns."""
    return np.array(rows, np.uint32).reshape(-1, 4).T


def tokens(*rows: tuple[int, bytes]) -> dict[str, Any]:
    """Give the columns of all bytes and these tokens."""
    every = [*((byte, bytes([byte])) for byte in range(256)), *rows]
    ids, texts = [number for number, _ in every], [token for _, token in every]
    return {
        "ids": np.array(ids, np.uint32),
        "sizes": np.array([len(token) for token in texts], np.uint32),
        "blob": b"".join(texts),
    }


AB, ABC = (97, 98, 0, 256), (256, 99, 1, 257)
LONG = {**tokens((256, b"x" * 5), (257, b"xxxyy"), (258, b"x" * 8 + b"yy"), (259, b"x" * 8 + b"yx")), "extras": ()}
NO_MERGES = {"merges": merges(), "extras": ()}
# Faults that both versions can have -> what the error says.
FAULTS: dict[str, tuple[Content, str]] = {
    "id twice": (small(**tokens((256, b"ab"), (256, b"cd")), **NO_MERGES), "id 256 has two vocabulary entries"),
    "bytes twice": (small(**tokens((256, b"ab"), (257, b"ab")), **NO_MERGES), r"same bytes, b'ab': 256 and 257"),
    "byte twice": (small(**tokens((256, b"a")), **NO_MERGES), r"same bytes, b'a': 97 and 256"),
    "empty token": (small(**tokens((256, b"")), **NO_MERGES), r"entry 256 \(id 256\) is empty"),
    "large id": (small(**tokens((0xFFFFFFFF, b"ab")), **NO_MERGES), "id 4294967295 is too large"),
    "id above the tables": (small(**tokens((2096895, b"ab")), **NO_MERGES), "id 2096895 is too large"),
    "missing byte": (
        small(ids=np.arange(1, 258, dtype=np.uint32), sizes=small().sizes[1:], blob=small().blob[1:]),
        "no entry is the single byte 0x00",
    ),
    "no token at all": (small(ids=merges()[0], sizes=merges()[0], blob=b"", **NO_MERGES), "single byte 0x00"),
    "unknown left": (small(merges=merges((300, 98, 0, 256), ABC)), "merge 0: no vocabulary entry has its id 300"),
    "unknown right": (small(merges=merges(AB, (256, 4294967295, 1, 257))), "merge 1: no .* its id 4294967295"),
    "byte that is there": (small(merges=merges((4294967040 + 97, 98, 0, 256))), "merge 0: no .* its id 4294967137"),
    "unknown result": (small(merges=merges((97, 98, 0, 4294967137))), "merge 0: no .* its id 4294967137"),
    "result too short": (
        small(merges=merges(AB, (256, 99, 1, 256))),
        "merge 1: its result is b'ab', .*b'ab' with b'c'",
    ),
    "result too long": (small(merges=merges((97, 98, 0, 257), ABC)), "merge 0: its result is b'abc'"),
    "other result": (small(merges=merges((97, 99, 0, 256), ABC)), "merge 0: its result is b'ab', .*b'a' with b'c'"),
    "other order": (small(merges=merges(AB, (99, 256, 1, 257))), "merge 1: its result is b'abc', .*b'c' with b'ab'"),
    "other long result": (
        small(**LONG, merges=merges((256, 257, 0, 258), (256, 256, 1, 259))),
        r"merge 1: its result is b'xxxxxxxxyx', which is not b'xxxxx' with b'xxxxx' behind it",
    ),
    "rank twice": (small(merges=merges(AB, (256, 99, 0, 257))), "rank 0|merge 0: another merge has its rank 0"),
    "pair twice": (small(merges=merges(AB, ABC, (97, 98, 2, 256))), "same pair of ids, 97 and 98"),
}
HEADS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", r"magic: the file begins with b'', and a BPE1 file begins with b'BPE1'"),
    "other magic": (b"BPE2" + SMALL[2][4:], "magic: the file begins with b'BPE2'"),
    "version 0": (b"BPE1\0" + SMALL[1][5:], "version: 0 was met, and 1 and 2 are supported"),
    "version 3": (b"BPE1\3" + SMALL[1][5:], "version: 3 was met"),
    "vocab_size, 1": (put(SMALL[1], 5, 0xFFFFFFFF), "vocab_size 4294967295 and merge_count 2: at least 343"),
    "merge_count, 1": (put(SMALL[1], 9, 0xFFFFFFFF), "merge_count 4294967295: at least 687"),
    "length, 1": (put(SMALL[1], 17, 0xFFFFFFFF), r"entry 0 \(id 0, length 4294967295\): at least 4294967316 bytes"),
    "one more token, 1": (put(SMALL[1], 5, 259), "entry 258"),
    "one less merge, 1": (put(SMALL[1], 9, 1), "16 bytes are left behind the last field"),
    "trailing, 1": (SMALL[1] + b"\0", "1 bytes are left behind the last field"),
    "trailing, 2": (seal(SMALL[2] + b"\0"), "1 bytes are left behind the last field"),
    "vocab_size, 2": (seal(put(SMALL[2], 8, 0xFFFFFFFF)), "vocab_size 4294967295, merge_count 2 and extra_count 2: at"),
    "merge_count, 2": (seal(put(SMALL[2], 12, 0xFFFFFFFF)), "merge_count 4294967295"),
    "extra_count, 2": (seal(put(SMALL[2], 16, 0xFFFFFFFF)), "extra_count 4294967295"),
    "name, 2": (seal(put(SMALL[2], 20, 0xFFFFFFFF)), "bytes and texts: at least 42949"),
    "pattern, 2": (seal(put(SMALL[2], 28, 3)), "bytes are left behind the last field"),
    "length, 2": (seal(put(SMALL[2], 64 + 4 * 258, 0xFFFFFFFF)), "bytes and texts: at least 42949"),
    "checksum": (put(SMALL[2], 32, 0), "checksum: the bytes are not those that were written"),
    "a changed byte": (SMALL[2][:-1] + b"?", "checksum"),
    "flags": (seal(SMALL[2][:5] + b"\4" + SMALL[2][6:]), "flags: 4 and 0 were met"),
    "reserved": (seal(SMALL[2][:6] + b"\1" + SMALL[2][7:]), "flags: 0 and 1 were met"),
    "no text": (seal(SMALL[2].replace(b"</s>", b"\xff/s>")), r"text 1: b'\\xff/s>' is not UTF-8"),
    "flags of an extra token": (
        pack(small(extras=(Extra("<s>", 258, False, False),)), 2),
        "flags are 0; expected 1 to 3",
    ),
    "extra token twice": (pack(small(extras=(Extra("<s>", 258), Extra("<s>", 259))), 2), "'<s>' comes twice"),
    "extra token without id": (
        pack(small(extras=(Extra("<s>", 258, False),)), 2),
        "no vocabulary entry has its id 258",
    ),
    "extra token in a gap": (pack(small(extras=(Extra("<s>", 4294967295, False),)), 2), "entry has its id 4294967295"),
    "extra id": (pack(small(extras=(Extra("<s>", 4294967295),)), 2), "'<s>' has id 4294967295; ids are 0 to 2096894"),
    "taken id": (pack(small(extras=(Extra("<s>", 256),)), 2), "'<s>' has id 256, which is the id of another token"),
    "nothing lost": (pack(small(incomplete=True), 2), "some bytes are said to have no token, but all 256 have one"),
    "no pattern": (pack(small(pattern=""), 2), "a file of version 2 without the pattern that splits text"),
    "other pattern": (pack(small(pattern="."), 2), r"there is no split kernel for the pattern '\.'"),
}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("fault", FAULTS)
def test_faults(fault: str, version: int, tmp_path: Path) -> None:
    """What a file says is checked."""
    content, message = FAULTS[fault]
    with pytest.raises(ValueError, match=rf"my\.bpe: .*({message})"):
        load(tmp_path, pack(content, version), **GIVEN[version])


@pytest.mark.parametrize("compared", [1, 10, 11, 19, 20, 21])
def test_long_results_are_compared_in_parts(compared: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever one part ends and the next begins."""
    monkeypatch.setattr(contents, "COMPARED", compared)
    rows = (256, 257, 0, 258), (258, 120, 1, 260), (256, 256, 2, 259)
    more = tokens((256, b"x" * 5), (257, b"xxxyy"), (258, b"x" * 8 + b"yy"), (259, b"x" * 10), (260, b"x" * 8 + b"yyx"))
    assert load(tmp_path, pack(small(**more, merges=merges(*rows), extras=()), 2)).n_vocab == 261
    for place, (left, right, rank, _) in enumerate(rows):
        wrong = [*rows[:place], (left, right, rank, 258 if place == 2 else 259), *rows[place + 1 :]]
        with pytest.raises(ValueError, match=f"merge {place}: its result is b'x"):
            load(tmp_path, pack(small(**more, merges=merges(*wrong), extras=()), 2))


@pytest.mark.parametrize("fault", HEADS)
def test_layout_faults(fault: str, tmp_path: Path) -> None:
    """Every field is checked."""
    data, message = HEADS[fault]
    with pytest.raises(ValueError, match=rf"my\.bpe: .*{message}|^{message}"):
        load(tmp_path, data, **GIVEN[1 if data[4:5] == b"\1" else 2])


def test_shared_rank_of_one_token(tmp_path: Path) -> None:
    """In version 2 merges may share a rank if they make the same token; in version 1 none may."""
    more = {**tokens((256, b"ab"), (257, b"bc"), (258, b"abc")), "extras": ()}
    shared = small(**more, merges=merges(AB, (98, 99, 1, 257), (256, 99, 2, 258), (97, 257, 2, 258)))
    assert load(tmp_path, pack(shared, 2)).encode("abc") == [258]
    with pytest.raises(ValueError, match="merge 2: another merge has its rank 2"):
        load(tmp_path, pack(shared, 1), pat_str=GPT2)
    enc = load(tmp_path, pack(shared, 2))
    with pytest.raises(ValueError, match="several merges share a rank"):
        enc.save(tmp_path / "x.json", "huggingface")


@pytest.mark.parametrize("version", [1, 2])
def test_truncation_at_every_byte(version: int, tmp_path: Path) -> None:
    """A file that is cut anywhere is refused, by the place where it ends; sealing it again does not help."""
    data = SMALL[version]
    for size in range(0, len(data), 7 if JIT_OFF else 1):
        for cut in (data[:size], seal(data[:size]) if version == 2 and size >= 64 else data[:size]):
            with pytest.raises(ValueError, match=r"my\.bpe: .*(begins with|is cut short)"):
                load(tmp_path, cut, **GIVEN[version])


def assert_as_described(data: bytes, enc: Encoding) -> None:
    """Assert that the tables of an encoding are what the reader of the page finds in the file."""
    file = bpe1_reader.read(data)
    content = content_of(enc._model, enc._special_tokens)
    ends = itertools.accumulate(content.sizes.tolist(), initial=0)
    texts = [content.blob[start:end] for start, end in itertools.pairwise(ends)]
    assert dict(zip(content.ids.tolist(), texts, strict=True)) == file.tokens
    assert list(map(tuple, content.merges[[0, 1, 3]].T.tolist())) == file.order()
    assert enc._special_tokens == {text: number for number, flags, text in file.extras if flags & 2}


@pytest.mark.parametrize("kind", ["version 1", "version 2", "version 2, sealed"])
def test_changed_bytes(kind: str, tmp_path: Path) -> None:
    """Flipped, copied, cut and inserted bytes: refused, or loaded as what the file says; with little memory."""
    version = 1 if kind == "version 1" else 2
    data, rng, loaded, refused = SMALL[version], random.Random(kind), 0, set()
    load(tmp_path, data, **GIVEN[version])
    tracemalloc.start()
    for _ in range(30 if JIT_OFF else 1000):
        changed = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            at, size = rng.randrange(len(changed)), rng.randint(1, 8)
            with_what = rng.choice(["flip", "flip", "number", "copy", "cut", "insert"])
            if with_what == "flip":
                changed[at] ^= 1 << rng.randrange(8)
            elif with_what == "number":
                changed[at : at + 4] = u32(rng.choice([0, 1, 97, 255, 256, 258, 2**21 - 257, 2**31, 2**32 - 1]))
            elif with_what == "copy":
                changed[at : at + size] = changed[: len(changed) - at][:size]
            elif with_what == "cut":
                del changed[at : at + size]
            else:
                changed[at:at] = rng.randbytes(size)
        found = seal(bytes(changed)) if kind.endswith("sealed") else bytes(changed)
        try:
            enc = load(tmp_path, found, **GIVEN[version])
        except ValueError as error:
            refused.add("my.bpe" in str(error))
            continue
        loaded += 1
        if found != data:
            assert kind != "version 2", "the checksum does not cover this byte"
            assert_as_described(found, enc)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < PEAK_BYTES
    assert refused == {True}, "an error does not name the file"
    assert loaded > 0 or kind == "version 2" or JIT_OFF


@pytest.mark.parametrize(
    ("limit", "most", "message"), [("MOST_BYTES", 260, "have 261 bytes together"), ("MOST_RANKS", 2, "2 ranks are too")]
)
def test_limits(limit: str, most: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What no table can hold is refused before one is made."""
    monkeypatch.setattr(contents, limit, most)
    with pytest.raises(ValueError, match=message):
        load(tmp_path, SMALL[2])


def test_large_file_of_another_kind(tmp_path: Path) -> None:
    """What is no BPE1 file is not read to its end."""
    path = tmp_path / "large.bpe"
    with open(path, "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ValueError, match=r"large\.bpe: magic: the file begins with b'\\x00"):
        Encoding.load(path)


def test_missing_file(tmp_path: Path) -> None:
    """The system's error names it."""
    with pytest.raises(FileNotFoundError, match=r"nowhere\.bpe"):
        Encoding.load(tmp_path / "nowhere.bpe")


@large
@pytest.mark.parametrize("maker", [lambda: PATHOLOGICAL["carets"](3000), lambda: "ab" * 2000])
def test_long_pieces(maker: Callable[[], str], tmp_path: Path) -> None:
    """The tables of a file merge long pieces as those of the package do."""
    enc = numbatok.get_encoding("gpt2")
    assert load(tmp_path, enc._to_bpe()).encode(maker()) == enc.encode(maker())
