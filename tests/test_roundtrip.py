"""Text to ids and back, by every way in and out, at every length and alignment, and at the very edge of memory.

Invariant: all calls give tiktoken's ids for the same bytes, decoding gives the bytes back, and nothing outside of the
given memory is read or written: texts, ids and results that touch a page without access are handled like any other.

    enc.decode_bytes(enc.encode_ordinary(data)) == data    for any bytes, valid UTF-8 or not

Run as a script this file encodes and decodes between two guard pages; the tests start it as a process of its own, so
that a fault ends that process and not the test run. `python test_roundtrip.py overrun` reads one byte too many.
"""

import ctypes
import itertools
import mmap
import random
import subprocess
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tiktoken
from cases import JIT_OFF, REPRESENTATIVES, text_tokens
from hypothesis import given
from hypothesis import strategies as st

import numbatok
from numbatok.decoder import decode_into, decoded_size
from numbatok.encoder import encode_rows, merge_bytes
from numbatok.lookup import SLACK
from numbatok.split.cuts import find_cut
from numbatok.table import find_token
from numbatok.worker import Worker

Bytes = npt.NDArray[np.uint8]

WORDS = ["word", " the", " don't", "'ll", "  ", "\n\n", "1024", "中文", "。", " é", "😀", "a\u0301", "<|endoftext|>"]

texts = st.one_of(
    st.text(max_size=400),
    st.text(st.sampled_from(REPRESENTATIVES), max_size=200),
    st.lists(st.sampled_from([*WORDS, *REPRESENTATIVES]), max_size=100).map("".join),
)
seeds = st.integers(0, 2**32 - 1)
# Overlong forms, surrogates, beyond U+10FFFF, characters without an end, and bytes that start none.
BROKEN = [b"\xff", b"\xc3", b"\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xe4\xb8"]
BROKEN += [b"\xf0\x9f\x98", b"\xc0\x80", b"\xc1\xbf", b"\xe0\x80\x80", b"\xe0\x9f\xbf", b"\xf0\x8f\xbf\xbf"]
byte_texts = st.one_of(
    st.binary(max_size=300),
    st.lists(st.one_of(st.sampled_from(BROKEN), texts.map(str.encode)), max_size=8).map(b"".join),
    st.tuples(st.text(" \n\ta1'é", max_size=20).map(str.encode), st.sampled_from(BROKEN)).map(b"".join),
)


# ---- properties ------------------------------------------------------------------------------------------------------


def check_text(enc: numbatok.Encoding, reference: tiktoken.Encoding, text: str) -> None:
    """Assert that a text has tiktoken's ids and comes back."""
    ids = enc.encode_ordinary(text)
    assert ids == reference.encode_ordinary(text)
    assert enc.decode_bytes(ids) == text.encode()
    assert enc.decode(ids) == text


@given(text=texts)
def test_text(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, text: str) -> None:
    """Any text has tiktoken's ids and comes back."""
    check_text(enc, oracle_encoding, text)


@given(text=texts, times=st.integers(2, 40))
def test_repeated_text(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, text: str, times: int) -> None:
    """Any text several times over: its pieces come from the cache, and characters move through the blocks."""
    check_text(enc, oracle_encoding, text * times)


@given(seed=seeds, count=st.integers(1, 60))
def test_glued_tokens(
    enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, ranks: dict[bytes, int], seed: int, count: int
) -> None:
    """Random tokens glued to a text: nearly every seam could merge."""
    check_text(enc, oracle_encoding, "".join(random.Random(seed).choices(text_tokens(ranks), k=count)))


@given(data=byte_texts)
def test_bytes(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, data: bytes) -> None:
    """Any bytes have the ids that tiktoken gives for bytes, and come back."""
    ids = enc.encode_ordinary(data)
    assert ids == oracle_encoding._encode_bytes(data)
    assert enc.decode_bytes(ids) == data


@pytest.mark.parametrize("before", [b"", b"a", b"a   \x01", b"a\n\n \x01", b"a\n\nb", b"one two " * 12])
def test_each_kind_of_bytes_that_are_not_utf8(
    enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, before: bytes
) -> None:
    """Each broken form behind text, before text and at the end has tiktoken's ids and is refused by split."""
    for data in (before + unit + behind for unit in BROKEN for behind in (b"", b"b", b" \n" * 40)):
        assert enc.encode_ordinary(data) == oracle_encoding._encode_bytes(data)
        with pytest.raises(ValueError, match="not UTF-8"):
            enc.split(data)


@pytest.mark.parametrize("length", range(1, 4 if JIT_OFF else 6))
def test_broken_last_byte(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, length: int) -> None:
    """Every text of up to five of seven characters, then a byte that ends it: tiktoken's rule for the last piece."""
    for before in itertools.product(" \n\ra1'\x01", repeat=length):
        data = "".join(before).encode() + b"\xff"
        assert enc.encode_ordinary(data) == oracle_encoding._encode_bytes(data)


@given(seed=seeds, count=st.integers(1, 60))
def test_glued_token_bytes(
    enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, ranks: dict[bytes, int], seed: int, count: int
) -> None:
    """Random tokens as bytes, among them such as are parts of characters, come back and have tiktoken's ids."""
    rng = random.Random(seed)
    data = b"".join(rng.choices([*ranks][:256], k=count // 4) + rng.choices([*ranks], k=count))
    assert enc.encode_ordinary(data) == oracle_encoding._encode_bytes(data)
    assert enc.decode_bytes(enc.encode_ordinary(data)) == data


@given(data=st.one_of(byte_texts, texts.map(str.encode)))
def test_all_ways_in_agree(enc: numbatok.Encoding, data: bytes) -> None:
    """Lists, arrays, counts and batches agree, for bytes in every kind of memory."""
    ids = enc.encode_ordinary(data)
    array = np.frombuffer(data, np.uint8)
    spread = np.repeat(array, 3)[1::3]  # strided: every third byte of a larger array
    forms: list[Any] = [data, bytearray(data), memoryview(data), array, spread, array[::-1].copy()[::-1]]
    for form in forms:
        assert enc.encode_flat(form).tolist() == ids
        assert enc.encode(form, disallowed_special=()) == ids
        assert enc.encode_to_numpy(form, disallowed_special=()).tolist() == ids
        assert enc.count(form) == len(ids)
    batch = enc.encode_batch_flat(forms)
    assert batch.tokens.tolist() == ids * len(forms)
    assert enc.count_batch(forms).tolist() == [len(ids)] * len(forms)


@given(text=texts)
def test_text_equals_its_bytes(enc: numbatok.Encoding, text: str) -> None:
    """A str and its UTF-8 bytes give the same ids, and so do its pieces one by one."""
    ids, data = enc.encode_ordinary(text), text.encode()
    assert enc.encode_ordinary(data) == ids
    assert enc.encode_batch_flat([text, data]).tokens.tolist() == ids + ids
    pieces = [data[start:end] for start, end in enc.split(text)]
    assert b"".join(pieces) == data
    assert enc.encode_batch_flat(pieces).tokens.tolist() == ids


@given(seed=seeds, count=st.integers(0, 300), dtype=st.sampled_from(["u4", "i4", "u8", "i8", ">u4"]))
def test_random_ids_decode(
    enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, seed: int, count: int, dtype: str
) -> None:
    """Any ids, in an array of any type and also strided, decode to tiktoken's bytes."""
    ids = np.random.default_rng(seed).integers(0, enc.n_vocab, count)
    expected = oracle_encoding.decode_bytes(ids.tolist())
    assert enc.decode_bytes(ids.astype(dtype)) == expected
    assert enc.decode_bytes(np.repeat(ids.astype(dtype), 2)[::2]) == expected
    assert enc.decode_bytes(ids.tolist()) == expected
    assert b"".join(enc.decode_tokens_bytes(ids)) == expected


# ---- every length at every alignment ---------------------------------------------------------------------------------

TEXTS = {
    "ascii": "The fox's 3 tails, it'll say (don't)  jump over 1024 dogs!\n",
    "mixed": "Über é中文 ² ٢  \u00a0x 😀a\u0301 'S's\u2003ſ\r\n\tǅ _",
    "cjk": "中文字符测试。日本語のテスト、한국어",
    "whitespace": " \n\t \u3000 \u00a0\r\n  x \u2028",
    "apostrophes": "'s'll've''t'x 're 'm'd'l'v'r",
    "an id a byte": "\u1c89\x01\u1c8a\u1c89\x02\x03\x04\x05\x06\U00010d40\u1c89\x01\x01",
}


@pytest.mark.parametrize("name", TEXTS)
def test_every_length_at_every_alignment(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, name: str) -> None:
    """The first 0 to 200 bytes in place, at each of 64 alignments, whatever stands behind them: tiktoken's ids."""
    data = np.frombuffer(TEXTS[name].encode() * 12, np.uint8)
    memory = np.empty(512, np.uint8)
    base = -memory.ctypes.data % 64
    for length, behind in itertools.product(range(0, 201, 29 if JIT_OFF else 1), b"s\x80 "):
        expected = oracle_encoding._encode_bytes(data[:length].tobytes())
        for start in range(base, base + 64, 21 if JIT_OFF else 1):
            memory[:] = behind
            text = memory[start : start + length]
            text[:] = data[:length]
            assert enc.encode_flat(text).tolist() == expected, (length, start - base)
            assert enc.count(text) == len(expected), (length, start - base)


# ---- guard pages -----------------------------------------------------------------------------------------------------

LONGEST = 130
needs_mprotect = pytest.mark.skipif(sys.platform == "win32", reason="guard pages need mprotect")


def guarded_page() -> Bytes:
    """Give a page of memory between two pages that may not be touched."""
    size = mmap.PAGESIZE
    memory = mmap.mmap(-1, 3 * size)
    first = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if protect(first, size, 0) or protect(first + 2 * size, size, 0):
        raise OSError("mprotect failed")
    return np.frombuffer(memory, np.uint8, size, offset=size)


def at_both_ends(page: Bytes, data: bytes) -> list[Bytes]:
    """Put data at the start and at the end of a page; gives the two places."""
    page[:] = ord("s")
    places = [page[: len(data)], page[len(page) - len(data) :]]
    for place in places:
        place[:] = np.frombuffer(data, np.uint8)
    return places


def check_guarded_text(enc: numbatok.Encoding, worker: Worker, page: Bytes, data: bytes) -> None:
    """Assert that text at a guard page gives what the same bytes give elsewhere."""
    ids, cut = enc.encode_ordinary(data), find_cut_in(np.frombuffer(data, np.uint8))
    valid = data.decode("utf-8", "ignore").encode() == data
    pieces = enc.split(data) if valid else []
    out = np.empty(len(data) + 4, np.uint32)
    for place in at_both_ends(page, data):
        assert enc.encode_flat(place).tolist() == ids
        assert enc.count(place) == len(ids)
        assert enc.count_batch([place]).tolist() == [len(ids)]
        assert not valid or enc.split(place) == pieces
        assert find_cut_in(place) == cut
        if data:
            made = merge_bytes(worker.address, place.ctypes.data, len(data), out.ctypes.data)
            assert enc.decode_bytes(out[:made]) == data


def check_guarded_output(worker: Worker, page: Bytes, data: bytes, ids: list[int]) -> None:
    """Assert that encoding keeps within the room it asks for, one id a byte and SLACK: behind it is a guard page."""
    text, offsets, counts = np.frombuffer(data, np.uint8), np.array([0, len(data)]), np.zeros(1, np.int64)
    target = page[mmap.PAGESIZE - 4 * (len(data) + SLACK) :]
    call = (worker.address, text.ctypes.data, offsets.ctypes.data, 0, 1, 0, counts.ctypes.data, target.ctypes.data)
    for _ in range(2):  # by merging, then from the cache
        assert encode_rows(*call) == len(ids)
        assert target[: 4 * len(ids)].view(np.uint32).tolist() == ids


def find_cut_in(text: Bytes) -> int:
    """Give the last safe cut of a text (its size for none): the search reads it to its end."""
    cuts = [int(find_cut(text.ctypes.data, least, len(text))) for least in range(1, len(text))]
    return max((cut for cut in cuts if cut < len(text)), default=len(text))


def check_guarded_ids(enc: numbatok.Encoding, pages: list[Bytes], data: bytes) -> None:
    """Assert that ids at a guard page decode to a result at a guard page, exactly, and that tokens are found there."""
    ids, model = enc.encode_flat(data), enc._model.address
    for source in at_both_ends(pages[0], ids.tobytes()):
        for target in (pages[1][: len(data)], pages[1][mmap.PAGESIZE - len(data) :]):
            pages[1][:] = ord("s")
            assert decoded_size(model, source.ctypes.data, len(ids), 0) == len(data)
            decode_into(model, source.ctypes.data, len(ids), target.ctypes.data, len(data))
            assert target.tobytes() == data
            assert np.count_nonzero(pages[1] == ord("s")) == mmap.PAGESIZE - len(data) + data.count(b"s")
    for token in set(ids.tolist()):
        for place in at_both_ends(pages[0], enc.decode_single_token_bytes(token)):
            assert find_token(model, place.ctypes.data, len(place)) == token


def run_between_guard_pages() -> None:
    """Encode, split, count, cut, merge, decode and look up texts of 0 to 130 bytes at both ends of a guarded page."""
    enc = numbatok.get_encoding("gpt2")
    worker, pages = Worker(enc._model), [guarded_page(), guarded_page()]
    with np.errstate(over="ignore"):  # words wrap, as in compiled code
        for text, length in itertools.product(TEXTS.values(), range(0, LONGEST + 1, 13 if JIT_OFF else 1)):
            data = (text * 10).encode()[:length]
            check_guarded_text(enc, worker, pages[0], data)
            check_guarded_ids(enc, pages, data)
            if data.decode("utf-8", "ignore").encode() == data:
                check_guarded_output(worker, pages[1], data, enc.encode_ordinary(data))


@needs_mprotect
def test_between_guard_pages() -> None:
    """No call touches what is before or behind a text, ids or a result: the process would die of it."""
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "nothing was touched\n"


@needs_mprotect
def test_guard_pages_bite() -> None:
    """Reading one byte too many does kill the process."""
    done = subprocess.run([sys.executable, __file__, "overrun"], capture_output=True, text=True, timeout=600)
    assert done.returncode < 0


if __name__ == "__main__":
    if sys.argv[1:] == ["overrun"]:
        ctypes.string_at(guarded_page().ctypes.data, mmap.PAGESIZE + 1)
    run_between_guard_pages()
    print("nothing was touched")
