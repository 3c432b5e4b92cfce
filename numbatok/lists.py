"""Arrow's arrays made of NumPy arrays: lists of ids, texts, and numbers, handed over without a copy.

Invariant: the values of an array that comes out lie where the NumPy array lies; only 32-bit offsets and a bitmap of
nulls are new memory. Offsets that 32 bits cannot hold become 64-bit offsets, never wrong ones.

    >>> import numpy as np
    >>> list_array(np.array([7, 8], np.uint32), np.array([0, 2, 2])).to_pylist()
    [[7, 8], []]
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

MOST = (1 << 31) - 1
"""The largest offset of an array with 32-bit offsets; smaller in tests."""


def list_array(
    values: npt.NDArray[Any], offsets: npt.NDArray[np.int64], valid: pa.Buffer | None = None, large: bool = False
) -> pa.Array:
    """Give rows of numbers as an Arrow array.

    Args:
        values: the numbers of all rows, of any integer type.
        offsets: int64[rows + 1], never falling; row ``i`` is ``values[offsets[i]:offsets[i + 1]]``.
        valid: Arrow's bitmap of the rows that are not null; None if none is.
        large: whether offsets have 64 bits, even where 32 would do.

    """
    large = large or offsets[-1] > MOST
    child = plain_array(values)
    kind = pa.large_list(child.type) if large else pa.list_(child.type)
    return pa.Array.from_buffers(kind, len(offsets) - 1, [valid, _edges(offsets, large)], children=[child])


def text_array(
    kind: pa.DataType, data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], valid: pa.Buffer | None = None
) -> pa.Array:
    """Give rows of bytes as an Arrow array of type string, binary, or the large form of one."""
    buffers = [valid, _edges(offsets, kind == large_form(kind)), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers)


def bytes_array(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], valid: pa.Buffer | None = None
) -> pa.Array:
    """Give rows of bytes as an Arrow array: binary, or large_binary where 32 bits cannot hold the offsets."""
    return text_array(pa.large_binary() if offsets[-1] > MOST else pa.binary(), data, offsets, valid)


def plain_array(values: npt.NDArray[Any], valid: pa.Buffer | None = None) -> pa.Array:
    """Give a NumPy array as an Arrow array, in place."""
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [valid, pa.py_buffer(values)])


def _edges(offsets: npt.NDArray[np.int64], large: bool) -> pa.Buffer:
    return pa.py_buffer(np.ascontiguousarray(offsets) if large else offsets.astype(np.int32))


def as_strings(array: pa.Array, errors: str, name: str, first: int) -> pa.Array:
    """Give a binary array as strings.

    Args:
        array: the bytes of each row.
        errors: what becomes of bytes that are not UTF-8, as in ``bytes.decode``.
        name: the column, for errors.
        first: the number of its first row, for errors.

    Raises:
        UnicodeDecodeError: there are such bytes, and ``errors`` is "strict"; names the row.

    """
    large = array.type == pa.large_binary()
    try:
        return array.cast(pa.large_string() if large else pa.string())
    except pa.ArrowInvalid:  # some row is not UTF-8
        rows = enumerate(array.to_pylist(), first)
        texts = [None if data is None else _decoded(data, errors, name, row) for row, data in rows]
    made = pa.array(texts, pa.large_string())
    size = pc.sum(row_sizes(made)).as_py() or 0
    return made if large or size > MOST else made.cast(pa.string())


def _decoded(data: bytes, errors: str, name: str, row: int) -> str:
    try:
        return data.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        error.reason += f" (in row {row} of {name}; errors='replace' takes it)"
        raise


def bitmap(array: pa.Array) -> pa.Buffer | None:
    """Give the bitmap of an array's rows that are not null, from its first row on; None if no row is null."""
    return array.is_valid().buffers()[1] if array.null_count else None


def chunked(array: pa.Array) -> pa.ChunkedArray:
    """Give an array as a chunked array of one chunk: what speaks Arrow's stream interface."""
    return pa.chunked_array([array])


# ---- the width of offsets --------------------------------------------------------------------------------------------


def large_form(kind: pa.DataType) -> pa.DataType:
    """Give a type of lists or texts with 64-bit offsets; any other type as it is.

    >>> large_form(pa.string()) == pa.large_string()
    True
    """
    if pa.types.is_list(kind):
        return pa.large_list(kind.value_type)
    return {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(kind, kind)


def row_sizes(array: pa.Array) -> pa.Array:
    """Give the number of ids or bytes of each row of lists or texts, as int64; null for a null."""
    kind = array.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    sizes = pc.binary_length(array) if is_text or is_bytes else pc.list_value_length(array)
    return sizes.cast(pa.int64())


def alike(arrays: Sequence[pa.Array]) -> list[pa.Array]:
    """Give arrays one type: if some have 64-bit offsets, all have them."""
    if len({array.type for array in arrays}) == 1:
        return list(arrays)
    return [array.cast(large_form(array.type)) for array in arrays]


def take_rows(array: pa.Array, indices: pa.Array) -> pa.Array:
    """Take rows by their indices; what does not fit into 32-bit offsets then has 64-bit ones."""
    if array.type != large_form(array.type):
        total = pc.sum(pc.take(row_sizes(array), indices)).as_py() or 0
        if total > MOST:
            array = array.cast(large_form(array.type))
    return pc.take(array, indices)


def narrow_lists(array: pa.Array, name: str, first: int) -> list[pa.Array]:
    """Give lists with 32-bit offsets: the array as it is, or as many as it must be cut into.

    Args:
        array: lists, with offsets of 32 or 64 bits.
        name: the column, for errors.
        first: the number of its first row, for errors.

    Raises:
        ValueError: one row alone needs 64-bit offsets: names it.

    """
    if array.type != large_form(array.type):
        return [array]
    places, cuts = array.offsets.to_numpy(), [0]
    while places[-1] - places[cuts[-1]] > MOST:
        last = int(np.searchsorted(places, places[cuts[-1]] + MOST, side="right")) - 1
        if last == cuts[-1]:
            size = places[last + 1] - places[last]
            raise ValueError(
                f'{name}: row {first + last} has {size} ids, too many for a list; pass output="large_list"'
            )
        cuts.append(last)
    return [_short_lists(array, places, *rows) for rows in itertools.pairwise([*cuts, len(array)])]


def _short_lists(array: pa.Array, places: npt.NDArray[np.int64], start: int, stop: int) -> pa.Array:
    """Give rows of a large list array as a list array. Not by a cast: that asks how many ids there are in all."""
    valid, edges = bitmap(array[start:stop]), _edges(places[start : stop + 1] - places[start], False)
    child = array.values[places[start] : places[stop]]
    return pa.Array.from_buffers(pa.list_(child.type), stop - start, [valid, edges], children=[child])
