"""Arrow's lists made of NumPy arrays: ids and the offsets of their rows, handed over without a copy.

Invariant: the values of an array that comes out lie where the NumPy array lies; only 32-bit offsets and a bitmap of
nulls are new memory. Offsets that 32 bits cannot hold become a large list, never a wrong one.

    >>> import numpy as np
    >>> list_array(np.array([7, 8], np.uint32), np.array([0, 2, 2])).to_pylist()
    [[7, 8], []]
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

MOST = (1 << 31) - 1
"""The largest offset of a list with 32-bit offsets; smaller in tests."""


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
    if large or offsets[-1] > MOST:
        kind, edges = pa.large_list, np.ascontiguousarray(offsets)
    else:
        kind, edges = pa.list_, offsets.astype(np.int32)
    children = [plain_array(values)]
    return pa.Array.from_buffers(
        kind(children[0].type), len(offsets) - 1, [valid, pa.py_buffer(edges)], children=children
    )


def list_arrays(ragged: tuple[Any, Any], valid: pa.Buffer | None, output: str) -> list[pa.Array]:
    """Give rows of numbers as Arrow arrays: one, or several where lists are wanted and 32 bits cannot hold the offsets.

    Args:
        ragged: values, and int64 offsets of the rows.
        valid: Arrow's bitmap of the rows that are not null; None if none is.
        output: "list", "large_list", or "auto" for what suffices.

    Raises:
        ValueError: one row alone is too large for a list.

    """
    values, offsets = ragged
    if output != "list" or offsets[-1] <= MOST:
        return [list_array(values, offsets, valid, large=output == "large_list")]
    whole, made, first = list_array(values, offsets, valid, large=True), [], 0
    while first < len(offsets) - 1:
        last = int(np.searchsorted(offsets, offsets[first] + MOST, side="right")) - 1
        if last == first:
            raise ValueError(f'row {first} has more ids than a list can hold; pass output="large_list"')
        made.append(whole[first:last].cast(pa.list_(whole.type.value_type)))
        first = last
    return made


def plain_array(values: npt.NDArray[Any], valid: pa.Buffer | None = None) -> pa.Array:
    """Give a NumPy array as an Arrow array, in place."""
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [valid, pa.py_buffer(values)])


def bytes_array(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], valid: pa.Buffer | None = None
) -> pa.Array:
    """Give rows of bytes as an Arrow array: binary, or large_binary where 32 bits cannot hold the offsets."""
    large = offsets[-1] > MOST
    edges = np.ascontiguousarray(offsets) if large else offsets.astype(np.int32)
    buffers = [valid, pa.py_buffer(edges), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary() if large else pa.binary(), len(offsets) - 1, buffers)


def bitmap(array: pa.Array) -> pa.Buffer | None:
    """Give the bitmap of an array's rows that are not null, from its first row on; None if no row is null."""
    return array.is_valid().buffers()[1] if array.null_count else None


def chunked(array: pa.Array) -> pa.ChunkedArray:
    """Give an array as a chunked array of one chunk: what speaks Arrow's stream interface."""
    return pa.chunked_array([array])
