"""One call from Python to ids: a ``str`` in, a list of ints or the number of ids out; and lists made from arrays.

Invariant: the ids are those of :func:`~numbatok.encoder.encode_rows`, which does the work. What is not plain (a lone
surrogate, a long text, a piece that needs more memory) is handed back, and the caller takes the long way.

The ints of a list are not made but taken from a table of all ids: making ints, and ending them when the list goes,
takes as long again as all the rest (20,000 bytes to a list: 91 us with ``tolist``, 47 us so).

    >>> from numbatok import get_encoding
    >>> get_encoding("gpt2").encode_ordinary("hello world")
    [31373, 995]
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from numbatok._jit import kernel
from numbatok._llvm import call8, copy, load8, load32, load64, store64
from numbatok.bpe import address
from numbatok.lookup import worker_at
from numbatok.objects import (
    OBJECT,
    drop_reference,
    entry,
    fill_place,
    give_object,
    list_item,
    new_int,
    new_list,
    new_reference,
    text_length,
    utf8_of,
    word_of,
)
from numbatok.ragged import Ids, Offsets, Ragged
from numbatok.swar import count_inner, is_inner

QUICK_BYTES = 1 << 16
"""Longest text that is encoded while the GIL is held, and other threads wait; not by a worker's first call."""
U0, U1, U4, U8 = (np.uint64(value) for value in (0, 1, 4, 8))
PADDED_BYTES, SLACK_BYTES = 1 << 13, 72
"""Longest text that is copied, and the zeros behind the copy."""
QUICK, PADDED, BEHIND = np.uint64(QUICK_BYTES), np.uint64(PADDED_BYTES), np.uint64(SLACK_BYTES)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
ZERO, NOT_DONE = np.int64(0), np.int64(-1)


@kernel
def encode_text(worker, text):
    """Encode a ``str`` to the output of the worker; gives the number of ids, or NOT_DONE."""
    w = worker_at(np.uint64(worker))
    if w.unseeded or text_length(text) > QUICK:  # asked first: a str keeps the UTF-8 bytes that are made for it
        return NOT_DONE
    at = utf8_of(text, w.span + U8)
    size = load64(w.span + U8)
    if at == U0 or size > QUICK:
        return NOT_DONE
    if size <= PADDED:  # blocks reach over the end of the copy: 200 ns less, of 690 for 20 bytes
        copy(w.padded, at, size)
        for word in range(U0, BEHIND, U8):
            store64(w.padded + size + word, U0)
        at = w.padded
        w.slack = BEHIND
    store64(w.count, U0)
    made = call8(w.encode, np.uint64(worker), at, w.span, U0, U1, U0, w.count, w.output)
    w.slack = U0
    return made if made >= ZERO else NOT_DONE


@kernel(entry=True, gil=True)
def encode_to_output(worker, text):
    """Encode from Python. Contract: int64 address of a worker record, OBJECT; gives what :func:`encode_text` does."""
    return encode_text(worker, word_of(text))


@kernel(entry=True, gil=True)
def encode_to_list(worker, text):
    """Encode from Python to a list of ints; gives ``text`` back where that is not done. Contract: int64, OBJECT."""
    w = worker_at(np.uint64(worker))
    made = encode_text(worker, word_of(text))
    if made < ZERO:
        return give_object(new_reference(word_of(text)))
    return give_object(make_list(w.output, np.uint64(made), w.ints, w.int_count))


@kernel
def make_list(ids, count, ints, int_count):
    """Make a list of ids (uint32) from the table of ints, and of new ints beyond it; 0 if there is no memory."""
    made = new_list(count)
    for index in range(count if made else U0):
        token = load32(ids + index * U4)
        fill_place(made, index, new_reference(load64(ints + token * U8)) if token < int_count else new_int(token))
    return made


@kernel(entry=True, gil=True)
def list_of(ids, count, ints, int_count):
    """Give the list of an array of ids. Contract: int64 address of uint32[count], address and size of the table."""
    return give_object(make_list(np.uint64(ids), np.uint64(count), np.uint64(ints), np.uint64(int_count)))


@kernel(entry=True, gil=True)
def lists_of(ids, offsets, rows, ints, int_count):
    """Give the list of the lists of rows. Contract: as :func:`list_of`; ``offsets`` is that of int64[rows + 1]."""
    ids, offsets, ints, int_count = np.uint64(ids), np.uint64(offsets), np.uint64(ints), np.uint64(int_count)
    outer = new_list(np.uint64(rows))
    for row in range(np.uint64(rows) if outer else U0):
        start, end = load64(offsets + row * U8), load64(offsets + row * U8 + U8)
        inner = make_list(ids + start * U4, end - start, ints, int_count)
        if inner == U0:
            drop_reference(outer)
            return give_object(U0)
        fill_place(outer, row, inner)
    return give_object(outer)


@kernel(entry=True, gil=True)
def measure_texts(texts, count, lengths):
    """Write the number of characters of each ``str`` of a list, up to what is none; gives how many were read.

    Contract: OBJECT (a list), int64, address of int64[count].
    """
    items, lengths = word_of(texts), np.uint64(lengths)
    for index in range(np.uint64(count)):
        item = list_item(items, index)
        length = text_length(item) if item else ALL
        if length == ALL:
            return np.int64(index)
        store64(lengths + index * U8, length)
    return np.int64(count)


@kernel(entry=True)
def measure_rows(at, lengths, rows):
    """Replace the number of characters of each row of UTF-8 text by the number of its bytes.

    Contract: int64 addresses of the text, behind which a byte can be read that is no inner one, and of int64[rows].
    """
    at, lengths = np.uint64(at), np.uint64(lengths)
    for row in range(np.uint64(rows)):
        end, more = at, load64(lengths + row * U8)
        while more:  # as many bytes as characters are left; those of them that begin none are left again
            start, end = end, end + more
            more = count_inner(start, end)
        while is_inner(load8(end)):
            end += U1
        store64(lengths + row * U8, end - at)
        at = end


def list_of_ids(ids: Ids, ints: npt.NDArray[np.object_]) -> list[int]:
    """Give an array of ids as a list; ``ints`` are those of the model."""
    ids = np.ascontiguousarray(ids)
    made: list[int] = _entry(list_of, 4)(address(ids), len(ids), address(ints), len(ints))
    return made


def lists_of_ids(rows: Ragged, ints: npt.NDArray[np.object_]) -> list[list[int]]:
    """Give rows of ids as lists; ``ints`` are those of the model."""
    ids, offsets = np.ascontiguousarray(rows.tokens), np.ascontiguousarray(rows.offsets)
    words = (address(ids), address(offsets), len(offsets) - 1, address(ints), len(ints))
    made: list[list[int]] = _entry(lists_of, 5)(*words)
    return made


def text_lengths(texts: list[str]) -> Offsets:
    """Give the number of characters of each text; of what is no ``str``, or is gone from the list, 0."""
    lengths = np.zeros(len(texts), np.int64)
    _lengths_entry()(texts, len(lengths), address(lengths))  # not what the list has by now
    return lengths


@functools.cache
def _entry(kernel: Any, words: int) -> Callable[..., Any]:
    return entry(kernel, *[types.int64] * words)


def byte_lengths(at: int, lengths: Offsets) -> None:
    """Replace the characters of each row by its bytes, for rows one after the other from address ``at`` on."""
    measure_rows(at, address(lengths), len(lengths))


@functools.cache
def _lengths_entry() -> Callable[..., Any]:
    return entry(measure_texts, OBJECT, types.int64, types.int64)
