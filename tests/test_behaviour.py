"""How the encoding behaves at its edges: specials, bad ids, partial characters, odd arrays, odd batches, pickling.

Invariant: a clear Python error or the exact result, never a wrong id, a read outside a table or a silent guess. The
test names carry the names of the recorded rows (spc, dec, par, sur, emp, typ, npy, ovf, pik) that they come from.

    enc.decode([50257])  ->  KeyError that names 50257
"""

import collections
import copy
import functools
import multiprocessing
import pickle
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import pytest
import tiktoken
from cases import JIT_OFF

import numbatok

EOT = "<|endoftext|>"
EOT_ID = 50256
N_VOCAB = 50257
EOT_AS_TEXT = [27, 91, 437, 1659, 5239, 91, 29]
HELLO = [15496, 995, 0]  # "Hello world!"
THUMB = [41840, 235]  # U+1F44D: three of its four bytes, then the last one

Batch = Callable[[numbatok.Encoding, Any], Any]
BATCH_CALLS: dict[str, Batch] = {
    "encode_batch": lambda enc, texts: enc.encode_batch(texts),
    "encode_ordinary_batch": lambda enc, texts: enc.encode_ordinary_batch(texts),
    "encode_batch_flat": lambda enc, texts: enc.encode_batch_flat(texts),
    "count_batch": lambda enc, texts: enc.count_batch(texts),
}
DECODE_CALLS: dict[str, Batch] = {
    "decode": lambda enc, tokens: enc.decode(tokens),
    "decode_bytes": lambda enc, tokens: enc.decode_bytes(tokens),
    "decode_batch": lambda enc, tokens: enc.decode_batch([tokens]),
    "decode_bytes_batch": lambda enc, tokens: enc.decode_bytes_batch([tokens]),
    "decode_tokens_bytes": lambda enc, tokens: enc.decode_tokens_bytes(tokens),
}
every_batch_call = pytest.mark.parametrize("call", BATCH_CALLS.values(), ids=BATCH_CALLS)
every_decode_call = pytest.mark.parametrize("call", DECODE_CALLS.values(), ids=DECODE_CALLS)


# ---- the encoding ----------------------------------------------------------------------------------------------------


def test_constants(enc: numbatok.Encoding) -> None:
    """The constants of GPT-2 are those of tiktoken."""
    assert (enc.name, enc.n_vocab, enc.max_token_value, enc.eot_token) == ("gpt2", N_VOCAB, EOT_ID, EOT_ID)
    assert enc.special_tokens_set == {EOT}


def test_get_encoding_gives_one_object(enc: numbatok.Encoding) -> None:
    """A second call gives the same object; r50k_base is the same vocabulary under its own name."""
    assert numbatok.get_encoding("gpt2") is enc
    other = numbatok.get_encoding("r50k_base")
    assert other.name == "r50k_base"
    assert other.encode("a<|endoftext|>b\n\nc", allowed_special="all") == [64, EOT_ID, 65, 198, 198, 66]


def test_unknown_encoding_is_refused() -> None:
    """An unknown name is a ValueError that repeats it."""
    with pytest.raises(ValueError, match="no_such_encoding"):
        numbatok.get_encoding("no_such_encoding")


def test_single_tokens(enc: numbatok.Encoding) -> None:
    """Single tokens go both ways, as text, as bytes and as the special one."""
    assert enc.encode_single_token("Hello") == enc.encode_single_token(b"Hello") == HELLO[0]
    assert enc.encode_single_token(b"\xff") == 187
    assert enc.encode_single_token(EOT) == EOT_ID
    assert enc.decode_single_token_bytes(HELLO[1]) == b" world"
    assert enc.decode_single_token_bytes(EOT_ID) == EOT.encode()
    assert enc.decode_tokens_bytes(HELLO) == [b"Hello", b" world", b"!"]


@pytest.mark.parametrize("token", ["no such token", "<|end", "", b"\xff\xff\xfe"])
def test_unknown_single_token(enc: numbatok.Encoding, token: str | bytes) -> None:
    """What is not one token is a KeyError."""
    with pytest.raises(KeyError):
        enc.encode_single_token(token)


def test_whole_vocabulary_decodes(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding) -> None:
    """Every id decodes to tiktoken's bytes, one by one and joined."""
    tokens = list(range(N_VOCAB))
    expected = oracle_encoding.decode_tokens_bytes(tokens)
    assert enc.decode_tokens_bytes(tokens) == expected
    assert enc.decode_bytes(tokens) == b"".join(expected)


# ---- special tokens (spc) --------------------------------------------------------------------------------------------


def test_spc_default_raises(enc: numbatok.Encoding) -> None:
    """Without a policy a special token in the text is a ValueError that names it and the ways out."""
    with pytest.raises(ValueError, match="allowed_special") as caught:
        enc.encode("a<|endoftext|>b")
    for part in (EOT, "disallowed_special=()"):
        assert part in str(caught.value)


def test_spc_default_raises_in_other_calls(enc: numbatok.Encoding) -> None:
    """The same policy holds for a batch and for the NumPy result."""
    with pytest.raises(ValueError, match="allowed_special"):
        enc.encode_batch(["fine", "a<|endoftext|>b"])
    with pytest.raises(ValueError, match="allowed_special"):
        enc.encode_to_numpy("a<|endoftext|>b")


def test_spc_policies(enc: numbatok.Encoding) -> None:
    """Allowed gives the id, no longer disallowed gives plain text, and so does encode_ordinary."""
    assert enc.encode(EOT, allowed_special="all") == [EOT_ID]
    assert enc.encode(EOT, allowed_special={EOT}) == [EOT_ID]
    assert enc.encode(EOT, disallowed_special=()) == EOT_AS_TEXT
    assert enc.encode(EOT, allowed_special={EOT}, disallowed_special=()) == [EOT_ID]
    assert enc.encode_ordinary(EOT) == EOT_AS_TEXT
    assert enc.encode_batch(["a", EOT], allowed_special="all") == [[64], [EOT_ID]]
    assert enc.encode_to_numpy(EOT, allowed_special="all").tolist() == [EOT_ID]


def test_spc_fast_surface_reads_plain_text(enc: numbatok.Encoding) -> None:
    """On the fast surface the text of a special token is ordinary text."""
    assert enc.encode_flat(EOT).tolist() == EOT_AS_TEXT
    assert enc.count(EOT) == len(EOT_AS_TEXT)
    assert enc.encode_batch_flat([EOT]).tokens.tolist() == EOT_AS_TEXT


def test_spc_disallowed_wins_over_allowed(enc: numbatok.Encoding) -> None:
    """A token both allowed and disallowed by name is refused, as in tiktoken."""
    with pytest.raises(ValueError, match="disallowed"):
        enc.encode(EOT, allowed_special={EOT}, disallowed_special={EOT})


def test_spc_partly_allowed(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding) -> None:
    """Specials of other encodings are plain text in GPT-2, beside its own one."""
    text = "<|endoftext|><|fim_prefix|>"
    expected = oracle_encoding.encode(text, allowed_special={EOT})
    assert expected[0] == EOT_ID
    assert enc.encode(text, allowed_special={EOT}) == expected


@pytest.mark.parametrize("disallowed", [{"ell"}, ["ell"], ("nope", "ell"), frozenset({"ell"})])
def test_spc_disallow_any_text(enc: numbatok.Encoding, disallowed: Collection[str]) -> None:
    """disallowed_special may hold any text; a text that contains it is refused, another one is not."""
    with pytest.raises(ValueError, match="ell"):
        enc.encode("hello", disallowed_special=disallowed)
    assert enc.encode("Hi", disallowed_special=disallowed) == [17250]


@pytest.mark.parametrize("make", [list, tuple, set, frozenset, dict.fromkeys], ids=lambda make: make.__name__)
def test_spc_allowed_as_any_collection(enc: numbatok.Encoding, make: Callable[[list[str]], Collection[str]]) -> None:
    """allowed_special is accepted as any collection, not only as a set."""
    assert enc.encode(EOT, allowed_special=make([EOT])) == [EOT_ID]
    assert enc.encode_batch([EOT], allowed_special=make([EOT])) == [[EOT_ID]]


@pytest.mark.parametrize("text", ["<|endoftext|", "|endoftext|>", "<|endoftext", "<|ENDOFTEXT|>", "<| endoftext |>"])
def test_spc_near_misses(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, text: str) -> None:
    """What only resembles the special token is plain text under every policy."""
    assert enc.encode(text) == enc.encode(text, allowed_special="all") == oracle_encoding.encode(text)


@pytest.mark.parametrize("around", [" ", "  ", "\n", "\n\n", "'s", "é", "中", "a", "1", "!", "<|", "\t \n"])
def test_spc_text_around(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, around: str) -> None:
    """The text on each side of a special token is split on its own: its end is an end of text."""
    text = around.join(["", EOT, EOT, "x", EOT, ""])
    assert enc.encode(text, allowed_special="all") == oracle_encoding.encode(text, allowed_special="all")


# ---- ids that are not in the table (dec) -----------------------------------------------------------------------------


@every_decode_call
@pytest.mark.parametrize("token", [N_VOCAB, N_VOCAB + 1, N_VOCAB + 1_000_000, 2**31 - 1, 2**32 - 1])
def test_dec_out_of_range(enc: numbatok.Encoding, call: Batch, token: int) -> None:
    """An id past the table is a KeyError that names it, however often one asks, and never garbage."""
    for _ in range(5 if JIT_OFF else 200):
        with pytest.raises(KeyError, match=str(token)):
            call(enc, [HELLO[0], token])


@pytest.mark.parametrize("token", [N_VOCAB, N_VOCAB + 1_000_000])
def test_dec_out_of_range_single(enc: numbatok.Encoding, token: int) -> None:
    """So is a single one."""
    with pytest.raises(KeyError, match=str(token)):
        enc.decode_single_token_bytes(token)


@every_decode_call
def test_dec_negative(enc: numbatok.Encoding, call: Batch) -> None:
    """A negative id is an OverflowError in a list and in an array, never a read before the table."""
    for tokens in ([HELLO[0], -1], np.array([HELLO[0], -1]), np.array([-100], dtype=np.int32)):
        with pytest.raises(OverflowError):
            call(enc, tokens)


def test_dec_negative_single(enc: numbatok.Encoding) -> None:
    """So is a single one."""
    with pytest.raises(OverflowError):
        enc.decode_single_token_bytes(-1)


@every_decode_call
@pytest.mark.parametrize(
    "tokens",
    [
        np.array([2**40], dtype=np.int64),
        np.array([2**33 + 5], dtype=np.uint64),
        np.array([2**64 - 1], dtype=np.uint64),
        np.array([2**32 + HELLO[0]], dtype=np.int64),
        [2**40],
        [2**70],
    ],
    ids=["int64", "uint64", "uint64-max", "wraps-to-valid", "list", "list-beyond-64-bits"],
)
def test_dec_too_large_for_32_bits(enc: numbatok.Encoding, call: Batch, tokens: Any) -> None:
    """An id of more than 32 bits is an error, not the id that its low bits spell."""
    with pytest.raises((KeyError, OverflowError)):
        call(enc, tokens)


def test_dec_skip_unknown(enc: numbatok.Encoding) -> None:
    """On request unknown ids are skipped, like in the reference system; the default stays an error."""
    tokens = [N_VOCAB, *HELLO[:1], N_VOCAB + 7, *HELLO[1:], 2**32 - 1]
    assert enc.decode_bytes(tokens, unknown="skip") == b"Hello world!"
    assert enc.decode_bytes(np.array(tokens, dtype=np.uint32), unknown="skip") == b"Hello world!"
    assert enc.decode_bytes([N_VOCAB], unknown="skip") == b""
    with pytest.raises(KeyError):
        enc.decode_bytes(tokens)


def test_dec_special(enc: numbatok.Encoding) -> None:
    """A special id decodes to its text."""
    assert enc.decode([HELLO[0], EOT_ID, EOT_ID]) == "Hello" + EOT + EOT


@pytest.mark.parametrize("dtype", ["int16", "uint16", "int32", "uint32", "int64", "uint64", ">i4", ">u8", ">i2"])
def test_dec_numpy_kinds(enc: numbatok.Encoding, dtype: str) -> None:
    """Ids of any integer type and byte order decode alike."""
    tokens = np.array(HELLO, dtype=dtype)
    assert enc.decode(tokens) == "Hello world!"
    assert enc.decode_bytes(tokens) == b"Hello world!"
    assert enc.decode_batch([tokens, tokens]) == ["Hello world!"] * 2


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_dec_eight_bit_kinds(enc: numbatok.Encoding, dtype: str) -> None:
    """So do 8-bit ones, where the ids fit."""
    assert enc.decode(np.array([39, 72, 0], dtype=dtype)) == "Hi!"


@pytest.mark.parametrize(
    "tokens", [np.array([1.0]), [1.5], ["a"], [None], "abc"], ids=["float", "1.5", "a", "None", "str"]
)
def test_dec_wrong_type(enc: numbatok.Encoding, tokens: Any) -> None:
    """Ids that are not integers are a TypeError."""
    with pytest.raises(TypeError):
        enc.decode_bytes(tokens)


def test_dec_empty(enc: numbatok.Encoding) -> None:
    """Nothing decodes to nothing, alone and in a batch, as a list and as an array of any type."""
    assert (enc.decode([]), enc.decode_bytes([]), enc.decode_tokens_bytes([])) == ("", b"", [])
    assert (enc.decode_batch([]), enc.decode_batch([[]])) == ([], [""])
    assert (enc.decode_bytes_batch([]), enc.decode_bytes_batch([[], HELLO])) == ([], [b"", b"Hello world!"])
    assert enc.decode_bytes(np.empty(0, dtype=np.uint32)) == b""


# ---- ids that end or begin inside a character (par) ------------------------------------------------------------------


def test_par_handlers(enc: numbatok.Encoding) -> None:
    """A cut character is one U+FFFD by default, an error when strict, nothing when ignored."""
    cut = THUMB[:1]
    assert enc.decode(cut) == "\ufffd"
    assert enc.decode(cut, errors="ignore") == ""
    assert enc.decode_batch([cut, THUMB], errors="ignore") == ["", "\U0001f44d"]
    with pytest.raises(UnicodeDecodeError):
        enc.decode(cut, errors="strict")


def test_par_continuation(enc: numbatok.Encoding) -> None:
    """Each stray continuation byte is one U+FFFD."""
    assert enc.decode([239, 235]) == "\ufffd\ufffd"


def test_par_bad_handler(enc: numbatok.Encoding) -> None:
    """An unknown error handler is Python's LookupError."""
    with pytest.raises(LookupError):
        enc.decode(THUMB[:1], errors="nope")


# ---- surrogate halves (sur) ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["\udbc0", "x\uddcb", "a\ud83d\udc4db", "\udc4d\ud83d", "a\udcffb\udcfe\udcfd c", "\ud83d" * 3]
)
def test_sur_every_call(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, text: str) -> None:
    """Pairs are joined and lone halves act like U+FFFD in every call that takes text."""
    expected = oracle_encoding.encode_ordinary(text)
    assert enc.encode(text) == enc.encode_ordinary(text) == enc.encode_flat(text).tolist() == expected
    assert enc.encode_batch(["x", text]) == enc.encode_ordinary_batch(["x", text]) == [[87], expected]
    assert enc.encode_batch_flat([text]).tokens.tolist() == expected
    assert enc.count(text) == len(expected)


# ---- nothing (emp) ---------------------------------------------------------------------------------------------------


def test_emp_text(enc: numbatok.Encoding) -> None:
    """Empty text gives no ids, as text, bytes or array, and no end-of-text id."""
    for empty in ("", b"", np.empty(0, dtype=np.uint8)):
        assert enc.encode_flat(empty).shape == (0,)
        assert enc.encode_flat(empty).dtype == np.uint32
    assert enc.encode_to_numpy("").shape == (0,)
    assert (enc.count(""), enc.encode("", allowed_special="all")) == (0, [])


def test_emp_batch(enc: numbatok.Encoding) -> None:
    """A batch without rows has one offset; empty rows stay in place."""
    assert enc.encode_ordinary_batch([]) == enc.encode_batch([]) == []
    assert list(enc.count_batch([])) == []
    assert enc.encode_batch_flat([]).offsets.tolist() == [0]
    ragged = enc.encode_batch_flat(["", "a", "", "", "b", ""])
    assert ragged.offsets.tolist() == [0, 0, 1, 1, 1, 2, 2]
    assert ragged.tokens.tolist() == [64, 65]


# ---- batches and argument types (typ) --------------------------------------------------------------------------------


@every_batch_call
def test_typ_none(enc: numbatok.Encoding, call: Batch) -> None:
    """None inside a batch is a TypeError that names the row and what stands there."""
    with pytest.raises(TypeError, match=r"\b1\b") as caught:
        call(enc, ["a", None, "b"])
    assert "None" in str(caught.value)


@every_batch_call
@pytest.mark.parametrize("row", [7, 1.5, ["a"]], ids=["int", "float", "list"])
def test_typ_wrong_row(enc: numbatok.Encoding, call: Batch, row: Any) -> None:
    """Any other row that is not text is a TypeError too."""
    with pytest.raises(TypeError):
        call(enc, ["a", row])


@every_batch_call
def test_typ_str_as_batch(enc: numbatok.Encoding, call: Batch) -> None:
    """One text in place of a batch is a TypeError, not a batch of its letters."""
    for text in ("abc", "", b"abc"):
        with pytest.raises(TypeError):
            call(enc, text)


@pytest.mark.parametrize("value", [["a", "b"], None, 7, 1.5], ids=["list", "None", "int", "float"])
def test_typ_not_text(enc: numbatok.Encoding, value: Any) -> None:
    """A list, None or a number in place of one text is a TypeError."""
    for call in (enc.encode, enc.encode_ordinary, enc.encode_to_numpy, enc.encode_flat, enc.count):
        with pytest.raises(TypeError):
            call(value)


def test_typ_bytes(enc: numbatok.Encoding) -> None:
    """Bytes are legal wherever text is, mixed with it in a batch, and an array of bytes on the flat surface."""
    expected = enc.encode_ordinary("caption\n\né")
    data = "caption\n\né".encode()
    assert enc.encode_ordinary(data) == enc.encode(data) == enc.encode_to_numpy(data).tolist() == expected
    assert enc.encode_flat(np.frombuffer(data, dtype=np.uint8)).tolist() == expected
    assert enc.encode_ordinary_batch([data, "a"]) == [expected, [64]]
    assert enc.count(data) == len(expected)


@pytest.mark.parametrize("make", [list, tuple, iter, collections.deque, lambda rows: (row for row in rows)])
@pytest.mark.parametrize("call", ["encode_batch", "encode_ordinary_batch"])
def test_typ_any_iterable(enc: numbatok.Encoding, call: str, make: Callable[[list[str]], Any]) -> None:
    """A batch may be a list, tuple, iterator, deque or generator."""
    assert getattr(enc, call)(make(["a", "b"])) == [[64], [65]]


def test_typ_arrays_of_text(enc: numbatok.Encoding) -> None:
    """So may an object array and a NumPy array of text (npy-object)."""
    assert enc.encode_ordinary_batch(np.array(["a", "b"], dtype=object)) == [[64], [65]]
    assert enc.encode_ordinary_batch(np.array(["a", "b"])) == [[64], [65]]


def test_typ_arrow_column(enc: numbatok.Encoding) -> None:
    """An Arrow column works as a batch of its values or is a TypeError, never a batch of other text."""
    pa = pytest.importorskip("pyarrow")
    try:
        rows = enc.encode_ordinary_batch(pa.array(["a", "b"]))
    except TypeError:
        return
    assert rows == [[64], [65]]


@pytest.mark.parametrize("threads", [0, -1])
def test_typ_num_threads_refused(enc: numbatok.Encoding, threads: int) -> None:
    """No thread, or fewer, is a ValueError under both names of the argument."""
    for call in (enc.encode_batch, enc.encode_ordinary_batch):
        with pytest.raises(ValueError, match="thread"):
            call(["a"], num_threads=threads)
    with pytest.raises(ValueError, match="thread"):
        enc.encode_batch_flat(["a"], threads=threads)


@pytest.mark.parametrize("threads", [1, 2, 3, 64, None])
def test_typ_num_threads(enc: numbatok.Encoding, threads: int | None) -> None:
    """Any other number, also more than there are rows or cores, and None for the default, gives the same ids."""
    rows = ["a", "", "it's 12\n\n", "é" * 50]
    expected = [enc.encode_ordinary(row) for row in rows]
    assert enc.encode_batch(rows, num_threads=threads) == expected
    assert enc.encode_ordinary_batch(rows, num_threads=threads) == expected
    ragged = enc.encode_batch_flat(rows, threads=threads)
    assert [ragged.row(i).tolist() for i in range(len(rows))] == expected
    assert [row.tolist() for row in ragged.rows()] == expected
    assert list(enc.count_batch(rows)) == [len(row) for row in expected]


# ---- array layouts (npy, ovf) ----------------------------------------------------------------------------------------


def test_npy_layouts(enc: numbatok.Encoding) -> None:
    """Read-only, strided, reversed and column arrays decode right, in any order of the calls."""
    tokens = np.array([*HELLO, HELLO[1]])
    readonly = tokens.copy()
    readonly.flags.writeable = False
    column = np.asfortranarray(np.stack([tokens, tokens[::-1]], axis=1))
    layouts = [
        (tokens, b"Hello world! world"),
        (tokens[::2], b"Hello!"),
        (tokens[::-1], b" world! worldHello"),
        (readonly, b"Hello world! world"),
        (column[:, 0], b"Hello world! world"),
        (np.ascontiguousarray(column)[:, 1], b" world! worldHello"),
    ]
    for array, expected in layouts + layouts[::-1]:
        assert enc.decode_bytes(array) == expected


def test_npy_result(enc: numbatok.Encoding) -> None:
    """Arrays that come out are uint32 and C-contiguous; offsets are int64."""
    for tokens in (enc.encode_to_numpy("hello world"), enc.encode_flat("hello world")):
        assert tokens.dtype == np.uint32
        assert tokens.flags.c_contiguous
        assert tokens.tolist() == [31373, 995]
    ragged = enc.encode_batch_flat(["hello", " world"])
    assert (ragged.tokens.dtype, ragged.offsets.dtype) == (np.uint32, np.int64)
    assert (ragged.tokens.tolist(), ragged.offsets.tolist()) == ([31373, 995], [0, 1, 2])


def test_npy_text_layouts(enc: numbatok.Encoding) -> None:
    """Text as an array may be read-only, strided or reversed; another item type is refused."""
    data = np.frombuffer(b"h_e_l_l_o_ _w_o_r_l_d_", dtype=np.uint8)
    assert enc.encode_flat(data[::2]).tolist() == [31373, 995]
    assert enc.encode_flat(np.frombuffer(b"dlrow olleh", dtype=np.uint8)[::-1].copy()).tolist() == [31373, 995]
    with pytest.raises(TypeError):
        enc.encode_flat(np.array([104.0]))


def test_npy_results_are_independent(enc: numbatok.Encoding) -> None:
    """A result is not a window on scratch memory: a later call does not change it."""
    first = enc.encode_flat("hello world")
    batch = enc.encode_batch_flat(["hello world"]).tokens
    for text in ("other words entirely", "x" * 500):
        enc.encode_flat(text)
        enc.encode_batch_flat([text, text])
    assert first.tolist() == batch.tolist() == [31373, 995]


def test_npy_object(enc: numbatok.Encoding) -> None:
    """An object array of Python integers decodes like a list."""
    assert enc.decode(np.array(HELLO, dtype=object)) == "Hello world!"


def test_ovf_int16(enc: numbatok.Encoding) -> None:
    """Ids are never given as int16, where they would turn negative: no such argument, or a ValueError."""
    call: Callable[..., Any] = enc.encode_to_numpy
    with pytest.raises((TypeError, ValueError)):
        call("hello world", dtype=np.int16)


# ---- pickling (pik) --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copied", [lambda enc: pickle.loads(pickle.dumps(enc)), copy.copy, copy.deepcopy])
def test_pik_roundtrip(enc: numbatok.Encoding, copied: Callable[[Any], Any]) -> None:
    """A pickled, copied or deep-copied encoding gives the same ids."""
    assert copied(enc).encode_ordinary("it's 12345") == [270, 338, 17031, 2231]
    assert copied(enc).name == "gpt2"


def test_pik_by_name(enc: numbatok.Encoding) -> None:
    """A named encoding pickles by name, below 4 KiB, in every protocol, and also after use."""
    enc.encode_ordinary("warm")
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert len(pickle.dumps(enc, protocol)) < 4096
    assert pickle.loads(pickle.dumps(numbatok.get_encoding("r50k_base"))).name == "r50k_base"


def test_pik_partial(enc: numbatok.Encoding) -> None:
    """So does a function that holds on to the encoding."""
    function = pickle.loads(pickle.dumps(functools.partial(enc.encode, disallowed_special=())))
    assert function(EOT) == EOT_AS_TEXT


def test_pik_spawn(enc: numbatok.Encoding) -> None:
    """A worker process started from nothing gets the encoding as an argument and gives the same ids."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        rows = pool.map(enc.encode_ordinary, ["it's 12345", "a\n\nb"])
    assert rows == [[270, 338, 17031, 2231], [64, 198, 198, 65]]


@pytest.mark.parametrize("data", [b"a\xff<|endoftext|>b", b"<|endoftext|>\xc3", b"\xf0\x9f<|endoftext|><|endoftext|>"])
def test_specials_in_bytes_that_are_not_utf8(enc: Any, data: bytes) -> None:
    """Special tokens are found among any bytes, and no byte around them is lost."""
    ids = enc.encode(data, allowed_special="all")
    assert ids.count(enc.eot_token) == data.count(b"<|endoftext|>")
    assert enc.decode_bytes(ids) == data
    assert enc.encode_to_numpy(data, allowed_special="all").tolist() == ids
    with pytest.raises(ValueError, match="disallowed special token"):
        enc.encode(data)
