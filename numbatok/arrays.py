"""Arrow's columns of text as rows of bytes, read where they lie.

Invariant: the text is never copied and never becomes Python strings, except where a type keeps it in pieces (views), or
where a null row holds bytes. What is not a column of text is refused with its name and the types that are taken.

    >>> import pyarrow as pa
    >>> rows_of(pa.array(["two", "words"])).offsets.tolist()
    [0, 3, 8]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from numbatok.lists import MOST
from numbatok.ragged import Ragged, Rows

TEXTS = (
    "string, large_string, string_view, binary, large_binary, binary_view, null, and dictionaries, run-end encodings "
    "and extension types of these"
)
SMALL = 1 << 20
"""Chunks of fewer bytes are put together, so that a call has something to share out."""


class Column(NamedTuple):
    """A column of Arrow.

    Attributes:
        name: what errors call it.
        chunks: its arrays.
        type: their type.
        is_array: whether it was one array, not a chunked one.

    """

    name: str
    chunks: list[pa.Array]
    type: pa.DataType
    is_array: bool


def column_of(source: Any) -> Column:
    """Give the column that an object of any library holds.

    Args:
        source: a pyarrow Array or ChunkedArray, a table of one column, or any object with ``__arrow_c_array__`` or
            ``__arrow_c_stream__`` (polars, pandas, duckdb, nanoarrow, datafusion).

    Raises:
        TypeError: it holds no column, or several.

    """
    if isinstance(source, pa.Array):
        return _unpacked("the column", [source], source.type, True)
    if isinstance(source, (pa.Table, pa.RecordBatch)):
        source = pa.chunked_array([batch.to_struct_array() for batch in _batches(source)], pa.struct(source.schema))
    elif not isinstance(source, pa.ChunkedArray):
        if hasattr(source, "__arrow_c_array__"):
            array = pa.array(source)
            return _unpacked("the column", [array], array.type, True)
        if not hasattr(source, "__arrow_c_stream__"):
            raise TypeError(
                f"a column of Arrow is wanted and {type(source).__name__} was given; pass a pyarrow array, or what has "
                "Arrow's PyCapsule interface (a series of polars or pandas, a relation of duckdb, ...)"
            )
        source = pa.chunked_array(source)
    return _unpacked("the column", source.chunks, source.type, False)


def _batches(table: Any) -> list[pa.RecordBatch]:
    return table.to_batches() if isinstance(table, pa.Table) else [table]  # type: ignore[no-any-return]


def _unpacked(name: str, chunks: list[pa.Array], kind: pa.DataType, is_array: bool) -> Column:
    """Take the one field of a struct (that is how a table comes), and the storage of an extension type."""
    if pa.types.is_struct(kind):
        if kind.num_fields != 1:
            names = ", ".join(repr(field.name) for field in kind)
            raise TypeError(f"a table of {kind.num_fields} columns was given; pass one of them: {names}")
        field = kind.field(0)
        return _unpacked(f"column {field.name!r}", [chunk.flatten()[0] for chunk in chunks], field.type, is_array)
    if isinstance(kind, pa.BaseExtensionType):
        return _unpacked(name, [chunk.storage for chunk in chunks], kind.storage_type, is_array)
    return Column(name, chunks, kind, is_array)


def is_text(kind: pa.DataType) -> bool:
    """Tell whether a type holds its bytes behind offsets, in one buffer."""
    return kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def as_text(array: pa.Array, name: str) -> pa.Array:
    """Give an array that :func:`rows_of` reads: views as what they view, an array of nulls as an empty text each.

    Raises:
        TypeError: it is not text.

    """
    kind = array.type
    if is_text(kind):
        return array
    if kind == pa.string_view():
        return array.cast(pa.large_string())
    if kind == pa.binary_view():
        return array.cast(pa.large_binary())
    if pa.types.is_null(kind):
        return array.cast(pa.string())
    raise TypeError(f"{name} is of type {kind}; these types are taken: {TEXTS}")


def rows_of(array: pa.Array) -> Rows:
    """Give the rows of a text array, in place; a null row is empty.

    Contract: the type is one of those of :func:`is_text`.
    """
    wide = array.type in (pa.large_string(), pa.large_binary())
    _, edges, data = array.buffers()
    if len(array) == 0 or edges is None:
        return Rows(0, np.zeros(len(array) + 1, np.int64), array)
    size = 8 if wide else 4
    offsets = np.frombuffer(edges, np.int64 if wide else np.int32, len(array) + 1, array.offset * size)
    if array.null_count and np.any(np.diff(offsets)[array.is_null().to_numpy(zero_copy_only=False)]):
        return rows_of(pc.fill_null(array, pa.scalar(b"", array.type)))
    return Rows(data.address if data else 0, offsets.astype(np.int64), array)


def together(chunks: list[pa.Array]) -> list[pa.Array]:
    """Put neighbours that are small together."""
    groups: list[list[pa.Array]] = []
    room = 0
    for chunk in chunks:
        size = chunk.nbytes
        if not groups or size > room:
            groups.append([])
            room = SMALL
        groups[-1].append(chunk)
        room -= size
    return [group[0] if len(group) == 1 else pa.concat_arrays(group) for group in groups]


def map_column(column: Column, null: str, make: Callable[[pa.Array], list[pa.Array]]) -> pa.Array | pa.ChunkedArray:
    """Make a column of the same rows from a column of text.

    Args:
        column: the column; of a dictionary or of runs each value is made once, and then taken row by row.
        null: "null" (a null gives a null), "empty" (it is an empty text) or "error".
        make: gives the arrays that together have the rows of a text array.

    Raises:
        TypeError: the column is not text.
        ValueError: a null, with ``null="error"``.

    """
    chunks = column.chunks or [pa.array([], column.type)]
    if null == "error":
        _refuse_nulls(column.name, chunks)
    if pa.types.is_dictionary(column.type) or pa.types.is_run_end_encoded(column.type):
        made = [_taken(chunk, column.name, null, make) for chunk in chunks]
    else:
        texts = [as_text(chunk, column.name) for chunk in chunks]
        made = [
            array for chunk in together(texts) for array in make(chunk if null != "empty" else without_nulls(chunk))
        ]
    if len({array.type for array in made}) > 1:  # some are large
        wide = next(array.type for array in made if pa.types.is_large_list(array.type))
        made = [array.cast(wide) for array in made]
    return made[0] if column.is_array and len(made) == 1 else pa.chunked_array(made)


def _refuse_nulls(name: str, chunks: list[pa.Array]) -> None:
    row = 0
    for chunk in chunks:
        nulls = np.flatnonzero(chunk.is_null().to_numpy(zero_copy_only=False))  # of runs and dictionaries, too
        if len(nulls):
            raise ValueError(f'{name}: row {row + int(nulls[0])} is null; pass null="null" or null="empty"')
        row += len(chunk)


def without_nulls(array: pa.Array) -> pa.Array:
    """Give an array with an empty text in place of each null."""
    return pc.fill_null(array, pa.scalar(b"", array.type)) if array.null_count else array


def _taken(chunk: pa.Array, name: str, null: str, make: Callable[[pa.Array], list[pa.Array]]) -> pa.Array:
    """Make the values of a dictionary or of runs, and take one for each row."""
    if pa.types.is_dictionary(chunk.type):
        values, indices = as_text(chunk.dictionary, name), chunk.indices
    else:
        values, indices = as_text(chunk.values, name), run_indices(chunk)
    if null == "empty":
        indices = pc.fill_null(indices.cast(pa.int64()), len(values))
        values = without_nulls(pa.concat_arrays([values, pa.array([""], values.type)]))
    made = make(values)
    if len(made) > 1:
        raise ValueError(f'{name}: its distinct values give more ids than a list can hold; pass output="large_list"')
    lists = made[0]
    if pa.types.is_list(lists.type):
        ids = pc.sum(pc.take(pc.list_value_length(lists).cast(pa.int64()), indices)).as_py() or 0
        if ids > MOST:
            lists = lists.cast(pa.large_list(lists.type.value_type))
    return pc.take(lists, indices)


def run_indices(array: pa.RunEndEncodedArray) -> pa.Array:
    """Give for each row of a run-end encoded array the index of its value."""
    ends = array.run_ends.to_numpy()
    rows = np.arange(array.offset, array.offset + len(array))
    return pa.array(np.searchsorted(ends, rows, side="right"))


# ---- ids to text -----------------------------------------------------------------------------------------------------


def map_lists(column: Column, make: Callable[[pa.Array, Ragged, int], pa.Array]) -> pa.Array | pa.ChunkedArray:
    """Make a column of the same rows from a column of lists of ids; ``make`` also gets the number of its first row.

    Raises:
        TypeError: the column is not one of lists of integers.
        ValueError: an id is null.

    """
    made, row = [], 0
    for chunk in column.chunks or [pa.array([], column.type)]:
        made.append(make(chunk, ids_of(chunk, column.name, row), row))
        row += len(chunk)
    if len({array.type for array in made}) > 1:
        made = [array.cast(_large(array.type)) for array in made]
    return made[0] if column.is_array else pa.chunked_array(made)


def _large(kind: pa.DataType) -> pa.DataType:
    return {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(kind, kind)


def ids_of(array: pa.Array, name: str, first: int) -> Ragged:
    """Give the ids of a list array and the offsets of its rows: in place if they are uint32; a null row is empty."""
    kind = array.type
    if pa.types.is_null(kind):
        return Ragged(np.zeros(0, np.uint32), np.zeros(len(array) + 1, np.int64))
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    if not lists or not pa.types.is_integer(kind.value_type):
        raise TypeError(f"{name} is of type {kind}; lists of integers are taken: list<uint32> and its kind")
    sizes = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(array) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    ids = array.flatten()
    if ids.null_count:
        bad = int(np.flatnonzero(ids.is_null().to_numpy(zero_copy_only=False))[0])
        raise ValueError(f"{name}: an id in row {first + int(np.searchsorted(offsets, bad, side='right')) - 1} is null")
    try:
        return Ragged(ids.cast(pa.uint32()).to_numpy(), offsets)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{name}: an id is out of range: {error}") from None


def is_string(kind: pa.DataType) -> bool:
    """Tell whether a type promises UTF-8."""
    return kind in (pa.string(), pa.large_string())


def as_strings(array: pa.Array, errors: str) -> pa.Array:
    """Give a binary array as strings; ``errors`` says what becomes of bytes that are not UTF-8."""
    try:
        return array.cast(pa.large_string() if array.type == pa.large_binary() else pa.string())
    except pa.ArrowInvalid:  # some row is not UTF-8
        texts = [None if row is None else row.decode("utf-8", errors) for row in array.to_pylist()]
        return pa.array(texts, pa.large_string() if array.type == pa.large_binary() else pa.string())


def as_whole_characters(array: pa.Array) -> pa.Array:
    """Give a binary array as strings, each without the character that it cuts at its end."""
    try:
        return array.cast(pa.large_string() if array.type == pa.large_binary() else pa.string())
    except pa.ArrowInvalid:
        return as_strings(array, "ignore")
