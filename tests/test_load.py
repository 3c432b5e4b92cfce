"""Vocabulary files: read, written, refused; encodings made of them; the byte alphabet they are spelled in.

Invariant: file -> encoding -> file gives the same bytes for every published vocabulary, and a faulty file is refused by
its name and the line of the fault. The published files are rebuilt from the tables of the package: nothing is fetched.

    load_tiktoken_bpe("cut.tiktoken")  ->  ValueError: cut.tiktoken, line 7: 'IGlz' has 1 field(s); ...
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
import tiktoken
import tiktoken.load
from cases import JIT_OFF
from test_encodings import HASHES, reference

import numbatok
from numbatok import Encoding, alphabet, load
from numbatok.split.patterns import CL100K_PATTERN, GPT2_PATTERNS

# In plain Python the larger vocabularies take minutes.
PUBLISHED = [name for name in HASHES if not JIT_OFF or name == "r50k_base"]
GPT2_HASHES = (
    "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
    "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
)
TEXT = "It's a HTTPResponse, isn't it?\n\n  naïve café 中文 12345 😀 zzzzqqqq"
BYTES = {bytes([byte]): byte for byte in range(256)}


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start from no cache folder: neither ours nor that of the user."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    monkeypatch.delenv("DATA_GYM_CACHE_DIR", raising=False)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Give the rank files that OpenAI published, spelled from the tables with the library's base64."""
    folder = tmp_path_factory.mktemp("published")
    files = {}
    for name in PUBLISHED:
        ranks = numbatok.get_encoding(name)._mergeable_ranks
        files[name] = folder / f"{name}.tiktoken"
        files[name].write_bytes(b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks.items()))
    return files


@pytest.fixture(scope="module")
def gpt2_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Give GPT-2's two files, spelled from the tables."""
    folder = tmp_path_factory.mktemp("gpt2")
    enc = numbatok.get_encoding("gpt2")
    ids = {alphabet.to_text(token): rank for token, rank in enc._mergeable_ranks.items()} | {"<|endoftext|>": 50256}
    merges = enc._model.merges
    pairs = zip(merges.lefts.tolist(), merges.rights.tolist(), strict=True)
    texts = {token: text for text, token in ids.items()}
    lines = ["#version: 0.2", *(f"{texts[left]} {texts[right]}" for left, right in pairs)]
    vocab_bpe, encoder_json = folder / "vocab.bpe", folder / "encoder.json"
    vocab_bpe.write_text("".join(f"{line}\n" for line in lines), "utf-8", newline="")
    encoder_json.write_text(json.dumps(ids), "utf-8")
    return encoder_json, vocab_bpe


# ---- rank files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_file(name: str, published: dict[str, Path], tmp_path: Path) -> None:
    """A published file needs no pattern, gives tiktoken's ids, and comes out as it went in, by two ways."""
    path, copy = published[name], tmp_path / "copy.tiktoken"
    ranks = load.load_tiktoken_bpe(path, HASHES[name])
    assert ranks == tiktoken.load.load_tiktoken_bpe(str(path), HASHES[name])
    load.dump_tiktoken_bpe(dict(random.Random(1).sample(list(ranks.items()), len(ranks))), copy)
    assert copy.read_bytes() == path.read_bytes()
    enc, peer = Encoding.from_tiktoken(path), reference(name)
    assert (enc.name, enc._pat_str, enc._special_tokens) == (name, peer._pat_str, peer._special_tokens)
    assert enc.encode(TEXT) == peer.encode(TEXT)
    assert list(tmp_path.iterdir()) == [copy]
    enc.save(copy, "tiktoken")
    assert copy.read_bytes() == path.read_bytes()


@pytest.mark.skipif(JIT_OFF, reason="merges 50,000 tokens; the other way round is test_published_file")
def test_embedded_to_file(published: dict[str, Path], tmp_path: Path) -> None:
    """The embedded tables are written as the published file; tiktoken reads it."""
    numbatok.get_encoding("gpt2").save(tmp_path / "gpt2.tiktoken", "tiktoken")
    assert (tmp_path / "gpt2.tiktoken").read_bytes() == published["r50k_base"].read_bytes()
    assert len(tiktoken.load.load_tiktoken_bpe(str(tmp_path / "gpt2.tiktoken"))) == 50256


LEGAL = {
    "plain": b"Ig== 0\nIw== 7\n",
    "no last line end": b"Ig== 0\nIw== 7",
    "CR LF": b"Ig== 0\r\nIw== 7\r\n",
    "blank lines": b"\n\nIg== 0\n\nIw== 7\n\n",
    "other blanks": b"Ig==\t0 \n  Iw==   7\n",
    "any order": b"Iw== 7\nIg== 0\n",
    "byte order mark": b"\xef\xbb\xbfIg== 0\nIw== 7\n",
    "leading zeros": b"Ig== 00\nIw== 07\n",
}


@pytest.mark.parametrize("data", LEGAL.values(), ids=LEGAL)
def test_legal_forms(data: bytes, tmp_path: Path) -> None:
    """What tiktoken reads is read, with the same outcome."""
    path = tmp_path / "tiny.tiktoken"
    path.write_bytes(data)
    found = load.load_tiktoken_bpe(path)
    assert found == {b'"': 0, b"#": 7} == tiktoken.load.load_tiktoken_bpe(str(path))
    assert list(found) == list(tiktoken.load.load_tiktoken_bpe(str(path)))


FAULTY = {
    b"": "no token in this file",
    b"\n \r\n": "no token in this file",
    b"Ig== 0\nIw==\n": "line 2: 'Iw==' has 1 field",
    b"Ig== 0\n\nIw== 1 2\n": "line 3: 'Iw== 1 2' has 3 field",
    b" 5\nIg== \n": "line 1: ' 5' has 1 field",
    b"Ig== 0\n!!! 1\n": "line 2: '!!! 1' cannot be read",
    b"Ig= 0\n": "line 1: 'Ig= 0' cannot be read",
    b"Ig==Iw== 0\n": "line 1: .* cannot be read",
    b"= 0\n": "line 1: '= 0' cannot be read",
    b"Ig== 0\nIw== x\n": "line 2: the rank in 'Iw== x' is not a whole number",
    b"Ig== -1\n": "line 1: the rank",
    b"Ig== +1\n": "line 1: the rank",
    b"Ig== 1_0\n": "line 1: the rank",
    b"Ig== 1.0\n": "line 1: the rank",
    b"Ig== \xd9\xa1\n": "line 1: the rank",  # a digit, but not of ASCII
    b"Ig== 0\0\n": "line 1: the rank",
    b"Ig== " + b"9" * 5000 + b"\n": "line 1: .* cannot be read",
    b"Ig== 0\nIw== 1\nIg== 2\n": "line 3: the token b'\"' comes a second time; it is on line 1 too",
    b"Ig== 0\nIw== 1\nJA== 0\n": "line 3: the rank 0 comes a second time; it is on line 1 too",
}


@pytest.mark.parametrize(("data", "message"), FAULTY.items())
def test_faulty_rank_file(data: bytes, message: str, tmp_path: Path) -> None:
    """A faulty file is refused, and the error names the file, the line and the fault."""
    path = tmp_path / "faulty.tiktoken"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"faulty\.tiktoken.*" + message):
        load.load_tiktoken_bpe(path)


@pytest.mark.parametrize("seed", range(300))
def test_damaged_rank_file(seed: int, tmp_path: Path) -> None:
    """A byte changed anywhere gives the tokens that the file spells now, or a ValueError; never something else."""
    rng = random.Random(seed)
    lines = [base64.b64encode(rng.randbytes(rng.randrange(1, 9))) + b" %d" % rank for rank in range(30)]
    data = bytearray(b"\n".join(lines) + b"\n")
    data[rng.randrange(len(data))] = rng.choice(b"\n\r \t=+/A0z\0\xff-")
    spelled = [line.split() for line in bytes(data).splitlines() if line.strip()]
    try:
        expected = [(base64.b64decode(token, validate=True), int(rank)) for token, rank in spelled]
    except ValueError:
        expected = []
    faulty = [len(set(column)) < len(expected) for column in zip(*expected, strict=True)]
    if not expected or any(faulty) or not b"".join(fields[1] for fields in spelled).isdigit():
        with pytest.raises(ValueError, match=r"^damaged, line"):
            load.parse_ranks(bytes(data), "damaged")
    else:
        assert list(load.parse_ranks(bytes(data), "damaged").items()) == expected


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        ({}, "no token"),
        ({b"": 0}, "is empty"),
        ({b"a": -1}, "negative"),
        ({b"a": 3, b"b": 3}, "has the rank of another token"),
    ],
)
def test_dump_refuses(ranks: dict[bytes, int], message: str, tmp_path: Path) -> None:
    """What no file can hold is not written, and leaves a file of this name as it was."""
    path = tmp_path / "kept.tiktoken"
    path.write_bytes(b"old")
    with pytest.raises(ValueError, match=message):
        load.dump_tiktoken_bpe(ranks, path)
    assert path.read_bytes() == b"old"


def test_dump_is_whole_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When writing fails, the old file stays and no part of the new one is left."""
    path = tmp_path / "kept.tiktoken"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "replace", lambda *names: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        load.dump_tiktoken_bpe({b"a": 0}, path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {"kept.tiktoken": b"old"}


# ---- where files are -------------------------------------------------------------------------------------------------


def test_hash(tmp_path: Path) -> None:
    """Another hash is refused, and the message holds both; the right one passes."""
    path = tmp_path / "tiny.tiktoken"
    path.write_bytes(LEGAL["plain"])
    right = hashlib.sha256(LEGAL["plain"]).hexdigest()
    assert load.read_file_cached(path, right) == LEGAL["plain"] == load.read_file(str(path))
    assert load.check_hash(LEGAL["plain"], right)
    with pytest.raises(ValueError, match=rf"tiny\.tiktoken: .*{right}.*{'0' * 64}"):
        load.load_tiktoken_bpe(path, "0" * 64)


def test_local_paths(tmp_path: Path) -> None:
    """Paths of each kind; a folder and a missing file are errors of the system that name them."""
    path = tmp_path / "a b%20.tiktoken"
    path.write_bytes(LEGAL["plain"])
    for one in (path, str(path), path.as_uri(), path.as_uri().replace("file://", "file://localhost")):
        assert load.read_file(one) == LEGAL["plain"]
    with pytest.raises(OSError, match=tmp_path.name):
        load.load_tiktoken_bpe(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"nowhere\.tiktoken"):
        load.load_tiktoken_bpe(tmp_path / "nowhere.tiktoken")
    with pytest.raises(TypeError, match="name of a file is bytes"):
        load.read_file(os.fsencode(path))  # type: ignore[arg-type]


def test_changed_file_is_read_again(tmp_path: Path) -> None:
    """A local file is read itself, not a copy of what it was when it was read first."""
    path = tmp_path / "tiny.tiktoken"
    path.write_bytes(b"Ig== 0\n")
    assert load.load_tiktoken_bpe(path) == {b'"': 0}
    path.write_bytes(b"Ig== 1\n")
    assert load.load_tiktoken_bpe(path) == {b'"': 1}


ADDRESS = "https://openaipublic.blob.core.windows.net/encodings/r50k_base.tiktoken"
KEY = "0ea1e91bbb3a60f729a8dc8f777fd2fc07cd8df4"


@pytest.mark.parametrize("variable", load.CACHE_VARIABLES)
def test_existing_cache_is_used(variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What tiktoken has fetched before is found under its address, and not by anything else."""
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR")
    monkeypatch.setenv(variable, str(tmp_path))
    with pytest.raises(FileNotFoundError, match=f"nothing is fetched.*TIKTOKEN_CACHE_DIR names, as {KEY}"):
        load.load_tiktoken_bpe(ADDRESS)
    (tmp_path / KEY).write_bytes(LEGAL["plain"])
    assert load.load_tiktoken_bpe(ADDRESS) == tiktoken.load.load_tiktoken_bpe(ADDRESS) == {b'"': 0, b"#": 7}
    assert load.read_file(ADDRESS) == LEGAL["plain"]
    for other in (ADDRESS + "x", "az://encodings/r50k_base.tiktoken"):
        with pytest.raises(FileNotFoundError, match="nothing is fetched"):
            load.read_file_cached(other)
    with pytest.raises(ValueError, match=f"{KEY}: .*replace it"):
        load.load_tiktoken_bpe(ADDRESS, HASHES["r50k_base"])
    assert (tmp_path / KEY).exists(), "the file of the user was removed"


def test_no_cache_folder() -> None:
    """An empty variable means no cache, as in tiktoken."""
    with pytest.raises(FileNotFoundError, match="nothing is fetched"):
        load.read_file_cached(ADDRESS)


# ---- GPT-2's two files -----------------------------------------------------------------------------------------------


def test_gpt2_files(gpt2_files: tuple[Path, Path]) -> None:
    """All 50,257 tokens; the files have the published hashes; ranks and ids are tiktoken's."""
    encoder_json, vocab_bpe = gpt2_files
    ranks = load.data_gym_to_mergeable_bpe_ranks(vocab_bpe, encoder_json, *GPT2_HASHES)
    peer = tiktoken.load.data_gym_to_mergeable_bpe_ranks(str(vocab_bpe), str(encoder_json), *GPT2_HASHES)
    assert ranks == peer == numbatok.get_encoding("gpt2")._mergeable_ranks
    enc = Encoding.from_gpt2(encoder_json, vocab_bpe)
    assert (enc.n_vocab, enc._special_tokens, enc.name) == (50257, {"<|endoftext|>": 50256}, "gpt2")
    assert enc.encode(TEXT) == reference("gpt2").encode(TEXT)


def tiny_gpt2(folder: Path, merges: str = "#version: 0.2\na b\n# #\n## c\n", **changes: Any) -> tuple[Path, Path]:
    """Write two small files that agree, with changes in encoder.json (None: leave the token out)."""
    ids: dict[str, Any] = {alphabet.CHARACTERS[byte]: place for place, byte in enumerate(alphabet.ORDER)}
    ids |= {"ab": 256, "##": 257, "##c": 258, "<|endoftext|>": 259} | changes.pop("ids", {})
    encoder_json, vocab_bpe = folder / "encoder.json", folder / "vocab.bpe"
    vocab_bpe.write_text(merges, "utf-8", newline="")
    encoder_json.write_text(json.dumps({text: token for text, token in ids.items() if token is not None}), "utf-8")
    return encoder_json, vocab_bpe


@pytest.mark.parametrize(
    "merges", ["#version: 0.2\na b\n# #\n## c\n", "a b\n# #\n## c", "#version\r\na b\r\n# #\r\n## c"]
)
def test_merges_that_start_with_a_hash(merges: str, tmp_path: Path) -> None:
    """Only a first line of a version is a comment; the last line counts with and without a line end."""
    encoder_json, vocab_bpe = tiny_gpt2(tmp_path, merges)
    ranks = load.data_gym_to_mergeable_bpe_ranks(vocab_bpe, encoder_json)
    assert list(ranks.items())[256:] == [(b"ab", 256), (b"##", 257), (b"##c", 258)]
    enc = Encoding.from_gpt2(encoder_json, vocab_bpe)
    assert enc.encode("ab##c<|endoftext|>", allowed_special="all") == [256, 257, 66, 259]
    assert enc._encode_single_piece("##c") == [258]


def test_clobber_one_byte_tokens(tmp_path: Path) -> None:
    """Ids of single bytes that are not in the order of the alphabet pass only if they are asked for."""
    files = tiny_gpt2(tmp_path, ids={"!": 1, '"': 0})[::-1]
    with pytest.raises(ValueError, match=r"token b'!' has id 0 by being a single byte, but this file has id 1"):
        load.data_gym_to_mergeable_bpe_ranks(*files)
    ranks = load.data_gym_to_mergeable_bpe_ranks(*files, clobber_one_byte_tokens=True)
    assert ranks == tiktoken.load.data_gym_to_mergeable_bpe_ranks(*map(str, files), clobber_one_byte_tokens=True)
    assert (ranks[b"!"], ranks[b'"']) == (1, 0)


def test_other_special_tokens(tmp_path: Path) -> None:
    """A token that no merge makes is special if the caller says so, and else refused."""
    files = tiny_gpt2(tmp_path, ids={"<|fim|>": 260})
    with pytest.raises(ValueError, match=r"token b'<\|fim\|>' \(id 260\) is made by no line of .*special_tokens="):
        Encoding.from_gpt2(*files)
    with pytest.raises(TypeError, match=r"special_tokens is one text; give a list: \['<\|fim\|>'\]"):
        Encoding.from_gpt2(*files, special_tokens="<|fim|>")
    enc = Encoding.from_gpt2(*files, name="fim", special_tokens=["<|fim|>", "<|endoftext|>", "<|absent|>"])
    assert (enc.name, enc._special_tokens) == ("fim", {"<|fim|>": 260, "<|endoftext|>": 259})


DISAGREE = {
    "merge is missing": ({"merges": "#version: 0.2\na b\n# #\n"}, r"token b'##c' \(id 258\) is made by no line of"),
    "merges in another order": (
        {"merges": "a b\n## c\n# #\n"},
        r"encoder\.json: token b'##c' has id 257 by line 2 of .*vocab\.bpe, but this file has id 258",
    ),
    "token is missing": ({"ids": {"##c": None}}, r"token b'##c' has id 258 by line 4 .* this file does not have it"),
    "foreign character": ({"ids": {"a b": 260}}, r"encoder\.json: 'a b' \(id 260\) has a character"),
    "no id": ({"ids": {"ab": "256"}}, r"encoder\.json: 'ab' has '256'; expected an id"),
    "true": ({"ids": {"ab": True}}, r"encoder\.json: 'ab' has True; expected an id"),
    "negative id": ({"ids": {"ab": -1}}, r"encoder\.json: 'ab' has -1; expected an id"),
    "id twice": ({"ids": {"ab": 5}}, r"encoder\.json: 'ab' has id 5, which is the id of '&' too"),
    "one token": ({"merges": "#version\na b\nab\n"}, r"vocab\.bpe, line 3: 'ab' is not a merge"),
    "three tokens": ({"merges": "a b c\n"}, r"vocab\.bpe, line 1: 'a b c' is not a merge"),
    "foreign in merge": ({"merges": "a b\na \t\n"}, r"vocab\.bpe, line 2: 'a \\t' is not a merge"),
    "empty line": ({"merges": "a b\n\n# #\n"}, r"vocab\.bpe, line 2: '' is not a merge"),
    "merge twice": ({"merges": "a b\n# #\na b\n"}, r"vocab\.bpe, line 3: 'a b' makes the token that line 1 makes"),
}


@pytest.mark.parametrize(("changes", "message"), DISAGREE.values(), ids=DISAGREE)
def test_faulty_gpt2_files(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    """Files that are faulty or do not agree are refused, and the error names the place."""
    with pytest.raises(ValueError, match=message):
        Encoding.from_gpt2(*tiny_gpt2(tmp_path, **changes))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"a": 1, "a": 2}', "'a' comes twice"),
        (b'{"a": 1', "line 1, column 8: not JSON"),
        (b"[1]", "holds list"),
        (b'{\n"a\xff": 1}', "line 2: byte 0xFF is not UTF-8"),
        (b"", "not JSON"),
        (b'{"a": {"b": 1, "c": 2, "b": 3}}', "'b' comes twice"),
        (b'{"a": ' * 100_000, "not a JSON file that can be read: maximum recursion"),
        (b'{"a": 1' + b"0" * 5000 + b"}", "not a JSON file that can be read: .*4300 digits"),
    ],
)
def test_faulty_encoder_json(data: bytes, message: str, tmp_path: Path) -> None:
    """What is not one object of ids is refused by name and place."""
    encoder_json, vocab_bpe = tiny_gpt2(tmp_path)
    encoder_json.write_bytes(data)
    with pytest.raises(ValueError, match=rf"encoder\.json.*{message}"):
        Encoding.from_gpt2(encoder_json, vocab_bpe)


# ---- encodings of other objects --------------------------------------------------------------------------------------


def test_from_encoding_of_tiktoken() -> None:
    """A live encoding is taken over; what the caller gives replaces what it says."""
    peer = tiktoken.Encoding(
        "mine", pat_str=CL100K_PATTERN, mergeable_ranks=BYTES | {b"ab": 300}, special_tokens={"<s>": 301}
    )
    enc = Encoding.from_tiktoken(peer)
    assert (enc.name, enc.n_vocab, enc._pat_str) == ("mine", 302, CL100K_PATTERN)
    assert enc.encode("ab c<s>", allowed_special="all") == peer.encode("ab c<s>", allowed_special="all")
    other = Encoding.from_tiktoken(enc, name="other", pat_str=GPT2_PATTERNS[0], special_tokens={})
    assert (other.name, other._pat_str, other._special_tokens) == ("other", GPT2_PATTERNS[0], {})


def test_pattern_is_not_guessed(tmp_path: Path) -> None:
    """A file that OpenAI did not publish needs its pattern; special tokens are none by default."""
    path = tmp_path / "own.tiktoken"
    load.dump_tiktoken_bpe(BYTES, path)
    with pytest.raises(ValueError, match=r"own\.tiktoken holds tokens and ranks, but not the pattern.*pat_str="):
        Encoding.from_tiktoken(path)
    enc = Encoding.from_tiktoken(path, pat_str=CL100K_PATTERN)
    assert (enc.name, enc._special_tokens, enc.encode("ab")) == ("own", {}, [97, 98])
    enc = Encoding.from_tiktoken(str(path), name="mine", pat_str=CL100K_PATTERN, special_tokens={"<s>": 256})
    assert (enc.name, enc._special_tokens) == ("mine", {"<s>": 256})
    with pytest.raises(ValueError, match="no split kernel"):
        Encoding.from_tiktoken(path, pat_str=r"\w+|\W")
    assert Encoding.from_tiktoken(path, pat_str=r"\w+|\W", slow_split=True).encode("a-b") == [97, 45, 98]


def test_published_file_with_other_parts(published: dict[str, Path]) -> None:
    """The defaults of a published file give way to what the caller says."""
    enc = Encoding.from_tiktoken(published["r50k_base"], name="mine", special_tokens={"<s>": 50256})
    assert (enc.name, enc._special_tokens, enc._pat_str) == ("mine", {"<s>": 50256}, GPT2_PATTERNS[0])


def test_tokenizer_is_more_than_ranks() -> None:
    """An encoding that was read from a tokenizer.json is not cut down to its ranks."""
    tokenizers = pytest.importorskip("tokenizers", reason="one of the peers")
    ids = {character: byte for byte, character in enumerate(alphabet.CHARACTERS)}
    peer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=ids, merges=[]))
    peer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    with pytest.raises(ValueError, match=r"<Encoding 'mine'> was read from a tokenizer\.json"):
        Encoding.from_tiktoken(numbatok.Encoding.from_huggingface(peer, name="mine"))


@pytest.mark.parametrize("source", [None, 7, {b"a": 0}, ["x.tiktoken"]])
def test_other_sources_are_refused(source: Any) -> None:
    """What is neither a file nor an encoding is a TypeError that says what to give."""
    with pytest.raises(TypeError, match=r"was given; give the path of a rank file, or an encoding of tiktoken"):
        Encoding.from_tiktoken(source)


# ---- the byte alphabet -----------------------------------------------------------------------------------------------


def test_alphabet() -> None:
    """One character a byte, none twice, each of them printable; every other character is foreign."""
    assert len(set(alphabet.CHARACTERS)) == len(alphabet.CHARACTERS) == len(set(alphabet.ORDER)) == 256
    assert all(character.isprintable() and not character.isspace() for character in alphabet.CHARACTERS)
    everything = bytes(range(256))
    assert alphabet.to_text(everything) == alphabet.CHARACTERS
    assert alphabet.to_bytes(alphabet.CHARACTERS) == everything
    for point in range(0x110000):
        found = alphabet.to_bytes(chr(point))
        assert found == (bytes([alphabet.CHARACTERS.index(chr(point))]) if chr(point) in alphabet.CHARACTERS else None)
    assert (alphabet.to_text(b""), alphabet.to_bytes(""), alphabet.to_bytes("ab c")) == ("", b"", None)
