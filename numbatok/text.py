r"""Python's texts as bytes at an address: ``str``, ``bytes`` and arrays of bytes, copied only where they must be.

Invariant: the bytes of a ``str`` are valid UTF-8. A surrogate pair that a JSON reader left as two halves becomes its
character and a lone half becomes U+FFFD, as in tiktoken. An ASCII ``str`` and ``bytes`` are read in place.

    >>> text_span("caf\u00e9")[1]
    5
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from numbatok.calls import byte_lengths, text_lengths
from numbatok.ragged import Rows

Text = str | bytes | bytearray | memoryview | npt.NDArray[np.uint8]

_str_address = ctypes.pythonapi.PyUnicode_AsUTF8
_str_address.argtypes, _str_address.restype = [ctypes.py_object], ctypes.c_void_p
_bytes_address = ctypes.pythonapi.PyBytes_AsString
_bytes_address.argtypes, _bytes_address.restype = [ctypes.py_object], ctypes.c_void_p
_new_bytes = ctypes.pythonapi.PyBytes_FromStringAndSize
_new_bytes.argtypes, _new_bytes.restype = [ctypes.c_void_p, ctypes.c_ssize_t], ctypes.py_object


LONG_ROW = 1 << 12
"""Rows of this size on average are read where they are: copying takes a third of the time that two threads need."""
CHANGED = "the list of texts changed while it was read; pass a copy"
Span = tuple[int, int, object]
"""Bytes in memory: address, size, and the owner that keeps them alive. Not a named tuple: that costs 0.25 us more."""


def utf8(text: str) -> bytes:
    """Give the UTF-8 bytes of a ``str``, with surrogates repaired."""
    try:
        return str.encode(text)  # not what a subclass makes of it
    except UnicodeEncodeError:
        return str.encode(text, "utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def text_span(text: Text) -> Span:
    """Give the bytes of a text in place, or of a copy where ``text`` is not ASCII or not contiguous.

    Raises:
        TypeError: for what is neither ``str``, ``bytes`` nor an array of bytes.

    """
    if type(text) is str and text.isascii():  # the way of most texts, kept short
        return (_str_address(text), len(text), text)
    if isinstance(text, str):
        text = utf8(text)  # a subclass too: its own __len__ is not believed
    if isinstance(text, bytes):
        return (_bytes_address(text), bytes.__len__(text), text)
    return _array_span(text)


def _array_span(text: Any) -> Span:
    if isinstance(text, (bytearray, memoryview)):
        text = np.asarray(memoryview(text))
    if not isinstance(text, np.ndarray) or text.dtype != np.uint8 or text.ndim != 1:
        kind = f"a {text.dtype} array" if isinstance(text, np.ndarray) else type(text).__name__
        hint = "; for many texts call encode_batch" if isinstance(text, (list, tuple)) else ""
        raise TypeError(f"text is {kind}; give a str, bytes or a one-dimensional uint8 array{hint}")
    data = np.ascontiguousarray(text)
    return (int(data.ctypes.data), data.size, data)


def new_bytes(size: int) -> tuple[bytes, int]:
    """Give a new ``bytes`` of ``size``, not yet filled, and its address (CPython lets its creator fill it)."""
    data: bytes = _new_bytes(None, size)
    return data, _bytes_address(data)


def bytes_at(address: int, size: int) -> bytes:
    """Give a copy of the bytes at an address."""
    return ctypes.string_at(address, size)


def is_utf8(address: int, size: int) -> bool:
    """Tell whether the bytes at an address are UTF-8."""
    try:
        bytes_at(address, size).decode()
    except UnicodeDecodeError:
        return False
    return True


def bytes_of(text: Text) -> bytes:
    """Give the bytes of a text, as a copy unless they are ``bytes`` already."""
    if isinstance(text, bytes):
        return text
    address, size, _ = text_span(text)
    return bytes_at(address, size)


def text_list(texts: Iterable[Text]) -> list[Text]:
    """Give many texts as a list.

    Raises:
        TypeError: for one text given in place of many.

    """
    if isinstance(texts, (str, bytes, bytearray, memoryview)):
        raise TypeError(f"a batch is wanted and one {type(texts).__name__} was given; pass a list of texts: [text]")
    return texts if type(texts) is list else list(texts)  # a subclass may iterate over what it likes


def gather_rows(texts: Iterable[Text]) -> Rows:
    """Give many texts as rows: long ones where they are, short ones in one buffer.

    Raises:
        TypeError: as :func:`join_rows`.

    """
    rows = text_list(texts)
    try:
        size = sum(map(len, rows))  # only a guess, and a subclass may say or raise what it likes
    except Exception:
        size = 0
    if len(rows) == 1 or size < LONG_ROW * len(rows):
        return join_rows(rows)
    spans = [_row_span(index, text) for index, text in enumerate(rows)]
    sizes = np.fromiter((span[1] for span in spans), np.int64, len(spans))
    starts = np.fromiter((span[0] for span in spans), np.int64, len(spans))
    return Rows(0, np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes))), spans, starts)


def as_one(rows: Rows) -> Rows:
    """Give rows in one buffer, as a copy if they are not."""
    if rows.starts is None:
        return rows
    sizes = np.diff(rows.offsets)
    data = b"".join(map(bytes_at, rows.starts.tolist(), sizes.tolist()))
    return _rows(text_span(data), sizes)


def join_rows(texts: Iterable[Text]) -> Rows:
    """Put many texts into one buffer.

    Raises:
        TypeError: for one text given in place of many, and for a row that is not a text; names the row.

    """
    rows = text_list(texts)
    if len(rows) == 1 and isinstance(rows[0], (str, bytes, np.ndarray)):  # in place
        span = text_span(rows[0])
        return _rows(span, np.array([span[1]]))
    try:
        joined = "".join(rows)  # type: ignore[arg-type]  # other kinds raise, and take the longer way
        data = joined if joined.isascii() else joined.encode()
        sizes = text_lengths(rows)  # type: ignore[arg-type]  # all are str
    except (TypeError, UnicodeEncodeError):
        parts = [_row_bytes(index, text) for index, text in enumerate(rows)]
        return _rows(text_span(b"".join(parts)), np.fromiter(map(bytes.__len__, parts), np.int64, len(parts)))
    if len(joined) != sizes.sum():
        raise RuntimeError(CHANGED)
    span = text_span(data)
    if data is not joined:
        byte_lengths(span[0], sizes)
    return _rows(span, sizes)


def _rows(span: Span, sizes: npt.NDArray[np.int64]) -> Rows:
    address, size, owner = span
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    if offsets[-1] != size:
        raise RuntimeError(CHANGED)
    return Rows(address, offsets, owner)


def _row_bytes(index: int, text: Text) -> bytes:
    if isinstance(text, bytes):
        return text
    return utf8(text) if isinstance(text, str) else bytes_at(*_row_span(index, text)[:2])


def _row_span(index: int, text: Text) -> Span:
    try:
        return text_span(text)
    except TypeError as error:
        found = "None" if text is None else type(text).__name__
        raise TypeError(f"row {index} of the batch is {found}; every row must be a str or bytes") from error
