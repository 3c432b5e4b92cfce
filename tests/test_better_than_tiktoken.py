"""Where tiktoken fails, or lets a mistake pass: what numbatok does there, one test for each line of docs/tiktoken.md.

Invariant: ours is tested with every version of tiktoken; what tiktoken itself does is compared with the version that
the page was written for, and left out with another one.

    tiktoken.encode_ordinary_batch("abc")  ->  [[97], [98], [99]];  numbatok: TypeError, "pass a list of texts"
"""

from __future__ import annotations

import doctest
import itertools
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiktoken
import tiktoken.load
from cases import JIT_OFF
from test_load import tiny_gpt2

import numbatok
from numbatok import Encoding, load
from numbatok.split.patterns import GPT2_PATTERNS

PAGE = Path(__file__).parent.parent / "docs" / "tiktoken.md"
AS_WRITTEN = tiktoken.__version__ == "0.14.0"
BYTES = {bytes([byte]): byte for byte in range(256)}
SPECIAL = {"<s>": 300}
PANIC = "PanicException"
"""What tiktoken's Rust raises; it is no Exception, so that ``except Exception`` lets it through."""


def made(
    ranks: dict[bytes, int] | None = None, specials: dict[str, int] | None = None
) -> tuple[numbatok.Encoding, tiktoken.Encoding]:
    """Make the same encoding here and in tiktoken."""
    arguments = {
        "pat_str": GPT2_PATTERNS[0],
        "mergeable_ranks": BYTES if ranks is None else ranks,
        "special_tokens": SPECIAL if specials is None else specials,
    }
    return numbatok.Encoding("toy", **arguments), tiktoken.Encoding("toy", **arguments)


def theirs(call: Callable[[], Any]) -> Any:
    """Give what tiktoken gives, or the name of what it raises, a panic included; None with another version of it."""
    if not AS_WRITTEN:
        return None
    try:
        return call()
    except BaseException as error:  # a panic is no Exception
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        return type(error).__name__


def same(found: Any, expected: Any) -> bool:
    """Compare with what the page says of tiktoken, where it says it of this version."""
    return not AS_WRITTEN or bool(found == expected)


# ---- texts -----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(JIT_OFF, reason="a million characters")
def test_long_run_of_blanks() -> None:
    """1,100,000 blanks and a letter: tiktoken's regular expressions run out of stack."""
    ours, peer = made()
    text = " " * 1_100_000 + "a"
    assert ours.encode_ordinary(text) == ours.encode(text) == list(text.encode())
    assert same(theirs(lambda: peer.encode_ordinary(text)), PANIC)
    assert same(theirs(lambda: peer.encode(text)), "ValueError")


def test_missing_byte() -> None:
    """A byte without a token is a ValueError that names it; in tiktoken a panic."""
    ours, peer = made({token: rank for token, rank in BYTES.items() if token != b"z"})
    for call in (ours.encode, ours.count, ours.encode_to_numpy, lambda text: ours.encode_batch([text])):
        with pytest.raises(ValueError, match="no token for byte 0x7A"):
            call("az")
    assert ours.encode("ab") == [97, 98]
    assert same(theirs(lambda: peer.encode("az")), PANIC)


def test_bytes_are_text() -> None:
    """Bytes are taken wherever a str is; tiktoken refuses them."""
    ours, peer = made()
    data = "naïve <s>".encode()
    assert ours.encode_ordinary(data) == ours.encode(data, disallowed_special=()) == list(data)
    assert ours.encode(data, allowed_special="all") == [*data[:-3], 300]
    assert ours.encode_batch([data, "a"], allowed_special="all") == [[*data[:-3], 300], [97]]
    assert ours.encode_ordinary(b"\xff\xfe") == [255, 254]
    assert same(theirs(lambda: peer.encode_ordinary(data)), "TypeError")


@pytest.mark.parametrize("text", ["\ud800", "a\udfff b", "\ud83d\ude00", "x\ud83d"])
def test_surrogates_in_every_call(text: str) -> None:
    """A lone half becomes U+FFFD and a pair its character in every call; in tiktoken in two calls out of six."""
    ours, peer = made()
    expected = list(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode())
    for enc in (ours, peer):
        assert enc.encode(text) == enc.encode_ordinary(text) == expected
    others = ("encode_to_numpy", "_encode_single_piece", "_encode_only_native_bpe", "encode_with_unstable")
    for name in others:
        found = getattr(ours, name)(text)
        found = found[0] + min(found[1]) if name == "encode_with_unstable" else found
        assert list(found)[: len(expected)] == expected, name
        assert same(theirs(lambda name=name: getattr(peer, name)(text)), "UnicodeEncodeError"), name
    with pytest.raises(KeyError):
        ours.encode_single_token(text)
    assert same(theirs(lambda: peer.encode_single_token(text)), "UnicodeEncodeError")


# ---- special tokens --------------------------------------------------------------------------------------------------


def test_empty_special_token() -> None:
    """It is in no text. In tiktoken it makes ``encode`` refuse every text, and allowed it goes on for ever."""
    ours, peer = made(specials={"": 300, "<s>": 301})
    for text in ("", "hello", b"hello"):
        plain = list(text.encode() if isinstance(text, str) else text)
        assert ours.encode(text) == ours.encode(text, allowed_special="all") == plain
        assert ours.encode(text, allowed_special={""}, disallowed_special={""}) == plain
        assert ours.encode_batch([text, text], allowed_special="all") == [plain, plain]
    assert ours.encode("a<s>", allowed_special="all") == [97, 301]
    assert same(theirs(lambda: peer.encode("hello")), "ValueError")


@pytest.mark.parametrize("make", [list, tuple, set, frozenset, dict.fromkeys])
def test_any_collection_of_names(make: Callable[[list[str]], Any]) -> None:
    """Both arguments take any collection of names; tiktoken takes no list for ``allowed_special``."""
    ours, peer = made()
    assert ours.encode("a<s>", allowed_special=make(["<s>"])) == [97, 300]
    assert ours.encode("a<s>", allowed_special=make(["<s>"]), disallowed_special=make([])) == [97, 300]
    if make is list:
        assert same(theirs(lambda: peer.encode("a<s>", allowed_special=["<s>"])), "TypeError")
    for enc in (ours, peer):
        assert enc.encode("a<s>", disallowed_special=make([])) == [97, 60, 115, 62]
        with pytest.raises(ValueError, match="disallowed special token '<s>'"):
            enc.encode("a<s>", disallowed_special=make(["<s>"]))


def test_one_name_in_place_of_many() -> None:
    """A str that is not "all" is a TypeError; tiktoken reads it as its letters for ``disallowed_special``."""
    ours, peer = made()
    for argument in ("allowed_special", "disallowed_special"):
        with pytest.raises(TypeError, match=f"{argument} is the string '<s>'"):
            ours.encode("a<s>", **{argument: "<s>"})
    assert same(theirs(lambda: peer.encode("a > b", disallowed_special="<s>")), "ValueError")


def test_special_tokens_with_a_common_start() -> None:
    """The longest wins, in whatever order they were given; what tiktoken does follows no rule."""
    specials = {"<a>": 300, "<a>b": 301, "<a>bc": 302}
    for order in itertools.permutations(specials.items()):
        ours, peer = made(specials=dict(order))
        assert ours.encode("<a>bcd<a>bd<a>d", allowed_special="all") == [302, 100, 301, 100, 300, 100]
        assert same(theirs(lambda peer=peer: peer.encode("<a>bcd", allowed_special="all")), [300, 98, 99, 100])


def test_special_token_with_the_id_of_another_token() -> None:
    """Refused when it is made; tiktoken decodes the id to one of the two."""
    arguments = {"pat_str": GPT2_PATTERNS[0], "mergeable_ranks": BYTES, "special_tokens": {"<s>": 97}}
    with pytest.raises(ValueError, match="'<s>' has id 97, which is the id of another token"):
        numbatok.Encoding("toy", **arguments)
    assert same(theirs(lambda: tiktoken.Encoding("toy", **arguments).decode([97])), "a")


# ---- batches and threads ---------------------------------------------------------------------------------------------


def test_one_text_in_place_of_many() -> None:
    """A TypeError with a hint; tiktoken takes each letter for a text."""
    ours, peer = made()
    for call in (ours.encode_batch, ours.encode_ordinary_batch, ours.encode_batch_flat, ours.count_batch):
        for text in ("abc", b"abc"):
            with pytest.raises(TypeError, match=r"pass a list of texts: \[text\]"):
                call(text)
    assert same(theirs(lambda: peer.encode_ordinary_batch("abc")), [[97], [98], [99]])


def test_row_that_is_no_text() -> None:
    """The error says which row it is."""
    with pytest.raises(TypeError, match="row 1 of the batch is None"):
        made()[0].encode_batch(["a", None])  # type: ignore[list-item]


BATCHES: dict[str, Callable[[Any, Any], Any]] = {
    "encode_batch": lambda enc, number: enc.encode_batch(["a"], num_threads=number),
    "encode_ordinary_batch": lambda enc, number: enc.encode_ordinary_batch(["a"], num_threads=number),
    "decode_batch": lambda enc, number: enc.decode_batch([[97]], num_threads=number),
    "decode_bytes_batch": lambda enc, number: enc.decode_bytes_batch([[97]], num_threads=number),
}


@pytest.mark.parametrize("name", BATCHES)
def test_number_of_threads(name: str) -> None:
    """None is all cores and a huge number no more than those; 0 and less are refused, as is what is no whole number."""
    call, (ours, peer) = BATCHES[name], made()
    expected = call(peer, 1)
    for number in (None, 1, 8, 1_000_000, np.int64(2)):
        assert call(ours, number) == expected
    for number in (0, -1):
        with pytest.raises(ValueError, match="number of threads"):
            call(ours, number)
        assert same(theirs(lambda number=number: call(peer, number)), "ValueError")
    for number in (True, 1.5, "2"):
        with pytest.raises(TypeError, match="number of threads"):
            call(ours, number)
    assert same([theirs(lambda number=number: call(peer, number)) for number in (True, 1.5)], [expected, expected])


# ---- ids -------------------------------------------------------------------------------------------------------------


def test_unknown_ids() -> None:
    """The same kinds of error as in tiktoken, with the id and its place; "skip" leaves unknown ids out."""
    ours, peer = made()
    for name in ("decode", "decode_bytes", "decode_tokens_bytes", "decode_with_offsets"):
        with pytest.raises(KeyError, match=r"Invalid token for decoding: 299 \(at index 1\)"):
            getattr(ours, name)([97, 299])
        with pytest.raises(KeyError, match="299"):
            getattr(peer, name)([97, 299])
        for token in (-1, 1 << 32, 1 << 40):
            for enc in (ours, peer):
                with pytest.raises(OverflowError):
                    getattr(enc, name)([97, token])
    for enc in (ours, peer):
        with pytest.raises(KeyError, match="299"):
            enc.decode_single_token_bytes(299)
        with pytest.raises(KeyError, match="299"):
            enc.decode_batch([[97], [299]])
    assert ours.decode([97, 299, 98], unknown="skip") == "ab"


def test_text_in_place_of_ids() -> None:
    """Bytes are no ids; tiktoken reads them as numbers."""
    ours, peer = made()
    with pytest.raises(TypeError, match="ids are wanted and bytes was given"):
        ours.decode(b"ab")
    assert same(theirs(lambda: peer.decode(b"ab")), "ab")


@pytest.mark.parametrize("text", ["", "a", "a 🤚🏾", "naïve 中文", "\u0301\n"])
def test_offsets(text: str) -> None:
    """decode_with_offsets is tiktoken's, the error for a broken character included."""
    for enc in made():
        ids = list(text.encode())
        found, offsets = enc.decode_with_offsets(ids)
        assert found == text
        assert offsets == [index for index, one in enumerate(text) for _ in one.encode()]
        with pytest.raises(UnicodeDecodeError):
            enc.decode_with_offsets([0xBD, 0xBD])


def test_arrays_can_be_written_to() -> None:
    """The ids of encode_to_numpy belong to the caller; tiktoken's array is read-only."""
    ours, peer = made()
    ids = ours.encode_to_numpy("abc")
    ids[0] = 300
    assert (ids.dtype, ours.decode(ids)) == (np.uint32, "<s>bc")
    assert same(theirs(lambda: peer.encode_to_numpy("abc").flags.writeable), False)


# ---- vocabularies ----------------------------------------------------------------------------------------------------


def test_ranks_and_numbers_that_do_not_fit() -> None:
    """ValueErrors that say what was met; in tiktoken a panic, an AssertionError without words, or nothing."""
    arguments: dict[str, Any] = {"pat_str": GPT2_PATTERNS[0], "mergeable_ranks": BYTES, "special_tokens": {}}
    for change, message, peer in (
        ({"mergeable_ranks": {b"a": 0, b"b": 0}}, "given twice", PANIC),
        ({"explicit_n_vocab": 300}, "explicit_n_vocab is 300", "AssertionError"),
        ({"mergeable_ranks": BYTES | {b"": 256}}, "is empty", 257),
    ):
        with pytest.raises(ValueError, match=message):
            numbatok.Encoding("toy", **(arguments | change))
        assert same(theirs(lambda change=change: tiktoken.Encoding("toy", **(arguments | change)).n_vocab), peer)


def test_broken_rank_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Characters outside base64 are refused with their line; tiktoken passes over them, here to an empty token."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    path = tmp_path / "broken.tiktoken"
    path.write_text("!!! 0\nIg== 1\nIg== 2\n")
    with pytest.raises(ValueError, match=r"broken\.tiktoken, line 1"):
        load.load_tiktoken_bpe(path)
    assert same(theirs(lambda: tiktoken.load.load_tiktoken_bpe(str(path))), {b"": 0, b'"': 2})


def test_local_file_that_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A local file is read itself; tiktoken keeps a copy of it by its path, and reads that from then on."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "own.tiktoken"
    path.write_text("YQ== 0\n")
    assert load.load_tiktoken_bpe(path) == {b"a": 0}
    assert same(theirs(lambda: tiktoken.load.load_tiktoken_bpe(str(path))), {b"a": 0})
    path.write_text("YQ== 1\n")
    assert load.load_tiktoken_bpe(path) == {b"a": 1}
    assert same(theirs(lambda: tiktoken.load.load_tiktoken_bpe(str(path))), {b"a": 0})


def test_rank_file_is_written_without_more_packages(tmp_path: Path) -> None:
    """Writing a local file needs nothing else; tiktoken asks for ``blobfile``."""
    load.dump_tiktoken_bpe({b"a": 0}, tmp_path / "own.tiktoken")
    assert (tmp_path / "own.tiktoken").read_bytes() == b"YQ== 0\n"


def test_merges_without_a_last_line_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last merge of vocab.bpe counts with and without a line end; tiktoken drops what follows the last one."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    encoder_json, vocab_bpe = tiny_gpt2(tmp_path, "#version: 0.2\na b\n# #\n## c")
    assert Encoding.from_gpt2(encoder_json, vocab_bpe).encode_single_token("##c") == 258
    peer = theirs(lambda: tiktoken.load.data_gym_to_mergeable_bpe_ranks(str(vocab_bpe), str(encoder_json)))
    assert same(peer, "AssertionError")


# ---- processes -------------------------------------------------------------------------------------------------------


def test_pickle() -> None:
    """By name what the registry gave, by content what was made; both give the same ids again, special ones too."""
    ours, peer = made(BYTES | {b"ab": 256})
    for enc in (ours, peer):
        assert pickle.loads(pickle.dumps(enc)).encode("ab<s>", allowed_special="all") == [256, 300]
    assert len(pickle.dumps(numbatok.get_encoding("gpt2"))) < 100


def test_offline() -> None:
    """Without sockets every embedded encoding loads; tiktoken would fetch it."""
    count = 2 if JIT_OFF else 7
    code = f"""
import socket
socket.socket.connect = socket.create_connection = socket.getaddrinfo = None
import numbatok
for name in numbatok.list_encoding_names()[:{count}]:
    assert numbatok.get_encoding(name).n_vocab > 50_000
assert numbatok.load
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


# ---- the page --------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(JIT_OFF, reason="half a minute in plain Python; the compiled run does it")
def test_examples_of_the_page() -> None:
    """The examples of docs/tiktoken.md give what they say."""
    assert doctest.testfile(str(PAGE), module_relative=False).failed == 0
