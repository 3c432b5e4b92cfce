"""Arrow's columns as rows: of text, read where it lies, and of ids.

Invariant: the text is never copied and never becomes Python strings, except where a type keeps it in pieces (views),
where a null row holds bytes, and where small chunks are put together. What is not a column of text is refused with its
name and the types that are taken.

    >>> import pyarrow as pa
    >>> rows_of(pa.array(["two", "words"])).offsets.tolist()
    [0, 3, 8]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from numbatok import lists
from numbatok.ids import LARGEST
from numbatok.ragged import Ragged, RowError, Rows

TEXTS = (
    "string, large_string, string_view, binary, large_binary, binary_view, null, and dictionaries, run-end encodings "
    "and extension types of these"
)
SMALL = 1 << 20
"""Chunks of fewer bytes are put together, so that a call has something to share out."""
STRINGS = (pa.string(), pa.large_string())
READABLE = (*STRINGS, pa.binary(), pa.large_binary())
"""Types that hold their bytes behind offsets, in one buffer."""
VIEWS = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
"""Types that keep a text in pieces, and the types they are cast to."""


class Column(NamedTuple):
    """A column of Arrow.

    Attributes:
        name: what errors call it.
        chunks: its arrays; there may be none.
        type: their type.
        is_array: whether it was one array, not a chunked one.

    """

    name: str
    chunks: list[pa.Array]
    type: pa.DataType
    is_array: bool

    @property
    def rows(self) -> int:
        """Give the number of rows."""
        return sum(map(len, self.chunks))

    def result(self, arrays: list[pa.Array], narrow: bool = False) -> pa.Array | pa.ChunkedArray:
        """Give what was made of the chunks: as an array if the column was one and one was made."""
        if narrow:
            firsts = np.cumsum([0, *map(len, arrays)]).tolist()
            parts = [lists.narrow_lists(array, self.name, first) for first, array in zip(firsts, arrays, strict=False)]
            arrays = [array for part in parts for array in part]
        arrays = lists.alike(arrays)
        return arrays[0] if self.is_array and len(arrays) == 1 else pa.chunked_array(arrays)


def column_of(source: Any) -> Column:
    """Give the column that an object of any library holds.

    Args:
        source: a pyarrow Array or ChunkedArray, a table of one column, or any object with ``__arrow_c_array__`` or
            ``__arrow_c_stream__`` (polars, pandas, duckdb, nanoarrow, datafusion).

    Raises:
        TypeError: it holds no column, or several.

    """
    found = _arrow_of(source)
    name = getattr(source, "name", None)  # of a series
    name = f"column {name!r}" if isinstance(name, str) and name else "the column"
    is_array = isinstance(found, pa.Array)
    return _unpacked(name, [found] if is_array else found.chunks, found.type, is_array)


def _arrow_of(source: Any) -> pa.Array | pa.ChunkedArray:
    """Give any object as Arrow's, a table as an array of structs."""
    if isinstance(source, (pa.Array, pa.ChunkedArray)):
        return source
    if isinstance(source, pa.RecordBatch):
        return source.to_struct_array()
    if isinstance(source, pa.Table):
        batches = [batch.to_struct_array() for batch in source.to_batches()]
        return pa.chunked_array(batches, pa.struct(list(source.schema)))
    if hasattr(source, "__arrow_c_stream__"):  # looked for first: with several chunks the other one may fail
        chunks = pa.chunked_array(source)
        return chunks.chunk(0) if hasattr(source, "__arrow_c_array__") and chunks.num_chunks == 1 else chunks
    if hasattr(source, "__arrow_c_array__"):
        return pa.array(source)
    raise TypeError(
        f"a column of Arrow is wanted and {type(source).__name__} was given; pass a pyarrow array, or what has "
        "Arrow's PyCapsule interface (a series of polars or pandas, a relation of duckdb, ...)"
    )


def _unpacked(name: str, chunks: list[pa.Array], kind: pa.DataType, is_array: bool) -> Column:
    """Take the one field of a struct (that is how a table comes), and the storage of an extension type."""
    if pa.types.is_struct(kind):
        if kind.num_fields != 1:
            names = ", ".join(repr(field.name) for field in kind)
            raise TypeError(f"a table of {kind.num_fields} columns was given; pass one column of it: {names}")
        field = kind.field(0)
        return _unpacked(f"column {field.name!r}", [chunk.flatten()[0] for chunk in chunks], field.type, is_array)
    if isinstance(kind, pa.BaseExtensionType):
        return _unpacked(name, [chunk.storage for chunk in chunks], kind.storage_type, is_array)
    return Column(name, chunks, kind, is_array)


# ---- text in ---------------------------------------------------------------------------------------------------------


def map_column(
    column: Column, null: str, make: Callable[[pa.Array], pa.Array], narrow: bool = False
) -> pa.Array | pa.ChunkedArray:
    """Make a column of the same rows from a column of text.

    Args:
        column: the column.
        null: "null" (a null gives a null), "empty" (it is an empty text) or "error".
        make: gives the rows for those of a text array; may raise :class:`RowError`.
        narrow: whether lists keep 32-bit offsets, in several chunks if need be.

    Raises:
        TypeError: the column is not text.
        ValueError: a null, with ``null="error"``; a row that cannot be made; another value of ``null``.

    """
    if null not in ("null", "empty", "error"):
        raise ValueError(f'null is {null!r}; give "null", "empty" or "error"')
    kind, empty = _text_type(column), null == "empty"
    chunks = column.chunks or [pa.array([], kind)]
    if null == "error":
        _refuse_nulls(column)
    if _is_by_value(column.type) and column.chunks:
        pairs = [_values_of(chunk) for chunk in chunks]
        if column.rows >= max(len(values) for values, _ in pairs):
            return column.result(_made_by_value(column, pairs, make, empty), narrow)
        chunks = [lists.take_rows(as_text(values), indices) for values, indices in pairs]  # of a large dictionary
    return column.result(_made_by_row(column, chunks, make, empty), narrow)


def _text_type(column: Column) -> pa.DataType:
    """Give the type of a column, or that of the values of its dictionaries or runs."""
    kind = column.type.value_type if _is_by_value(column.type) else column.type
    if kind not in READABLE and kind not in VIEWS and not pa.types.is_null(kind):
        raise TypeError(f"{column.name} is of type {column.type}; these types are taken: {TEXTS}")
    return kind


def _is_by_value(kind: pa.DataType) -> bool:
    return pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind)  # type: ignore[no-any-return]


def _refuse_nulls(column: Column) -> None:
    row = 0
    for chunk in column.chunks:
        nulls = np.flatnonzero(nulls_of(chunk))
        if len(nulls):
            raise ValueError(f'{column.name}: row {row + int(nulls[0])} is null; pass null="null" or null="empty"')
        row += len(chunk)


def _made_by_row(
    column: Column, chunks: list[pa.Array], make: Callable[[pa.Array], pa.Array], empty: bool
) -> list[pa.Array]:
    """Make every row of the chunks; with ``empty`` a null is an empty text."""
    texts = lists.alike([as_text(chunk) for chunk in chunks])
    made, first = [], 0
    for text in together([without_nulls(text) for text in texts] if empty else texts):
        try:
            made.append(make(text))
        except RowError as error:
            raise ValueError(f"{column.name}: row {first + error.row}: {error}") from None
        first += len(text)
    return made


def _made_by_value(
    column: Column, pairs: list[tuple[pa.Array, pa.Array]], make: Callable[[pa.Array], pa.Array], empty: bool
) -> list[pa.Array]:
    """Make each value of a dictionary or of runs once, and take one for each row; with ``empty`` a null is empty."""
    made: list[pa.Array] = []
    known: tuple[Any, ...] = ()
    for chunk, (values, indices) in enumerate(pairs):
        if _memory(values) != known:  # else the dictionary is that of the last chunk
            known, texts = _memory(values), as_text(values)
            if empty:
                texts = without_nulls(pa.concat_arrays([texts, pa.array([""], texts.type)]))
            try:
                rows = make(texts)
            except RowError as error:
                where = _row_of_value(pairs[chunk:], error.row, sum(map(len, made)))
                raise ValueError(f"{column.name}: {where}: {error}") from None
        if empty and indices.null_count:
            indices = pc.fill_null(indices.cast(pa.int64()), len(values))
        made.append(lists.take_rows(rows, indices))
    return made


def _memory(array: pa.Array) -> tuple[Any, ...]:
    """Give what two arrays share that are one and the same."""
    return (len(array), array.offset, *(buffer and buffer.address for buffer in array.buffers()))


def _row_of_value(pairs: list[tuple[pa.Array, pa.Array]], value: int, first: int) -> str:
    """Name the first row, counted from ``first`` on, that has a value of the first dictionary."""
    for values, indices in pairs:
        row = indices.index(value).as_py()
        if row >= 0 and _memory(values) == _memory(pairs[0][0]):
            return f"row {first + row}"
        first += len(indices)
    return f"value {value} of its dictionary"


def _values_of(array: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Give the values of a dictionary or of runs, and for each row the index of its value."""
    if pa.types.is_dictionary(array.type):
        return array.dictionary, array.indices
    first, runs = array.find_physical_offset(), array.find_physical_length()
    ends = array.run_ends.slice(first, runs).to_numpy()
    rows = np.arange(array.offset, array.offset + len(array))
    return array.values.slice(first, runs), pa.array(np.searchsorted(ends, rows, side="right"))


def as_text(array: pa.Array) -> pa.Array:
    """Give an array that :func:`rows_of` reads: views as what they view, an array of nulls as null texts."""
    return array.cast(VIEWS.get(array.type, pa.string())) if array.type not in READABLE else array


def rows_of(array: pa.Array) -> Rows:
    """Give the rows of a text array, in place; a null row is empty.

    Contract: the type is one of :data:`READABLE`.
    """
    array = without_nulls(array)
    data = array.buffers()[2]
    return Rows(data.address if data else 0, _offsets_of(array).astype(np.int64, copy=False), array)


def _offsets_of(array: pa.Array) -> npt.NDArray[Any]:
    edges = array.buffers()[1]
    if len(array) == 0 or edges is None:
        return np.zeros(len(array) + 1, np.int64)
    kind = np.dtype(np.int64 if array.type == lists.large_form(array.type) else np.int32)
    return np.frombuffer(edges, kind, len(array) + 1, array.offset * kind.itemsize)


def without_nulls(array: pa.Array) -> pa.Array:
    """Give a text array with an empty text in place of each null; in place, unless a null row holds bytes."""
    if array.null_count == 0:
        return array
    if np.any(np.diff(_offsets_of(array))[nulls_of(array)]):
        return pc.fill_null(array, pa.scalar(b"", array.type))
    _, edges, data = array.buffers()
    buffers = [None, edges, data or pa.py_buffer(b"")]
    return pa.Array.from_buffers(array.type, len(array), buffers, offset=array.offset)


def bytes_of(array: pa.Array) -> list[bytes]:
    """Give the rows of a text array as Python's bytes; a null row is empty."""
    return [data or b"" for data in array.cast(pa.large_binary()).to_pylist()]


def nulls_of(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Give bool[rows], whether each is null; a row of runs or of a dictionary is, if its value is."""
    if _is_by_value(array.type):
        values, indices = _values_of(array)
        found = pc.fill_null(pc.take(values.is_null(), indices), True)
    else:
        found = array.is_null()
    nulls: npt.NDArray[np.bool_] = found.to_numpy(zero_copy_only=False)
    return nulls


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


# ---- ids in ----------------------------------------------------------------------------------------------------------


def map_lists(column: Column, make: Callable[[pa.Array, Ragged, int], pa.Array]) -> pa.Array | pa.ChunkedArray:
    """Make a column of the same rows from a column of lists of ids; ``make`` also gets the number of its first row.

    Raises:
        TypeError: the column is not one of lists of integers.
        ValueError: an id is null.
        OverflowError: an id is negative, or needs more than 32 bits.

    """
    made, row = [], 0
    for chunk in column.chunks or [pa.array([], column.type)]:
        made.append(make(chunk, ids_of(chunk, column.name, row), row))
        row += len(chunk)
    return column.result(made)


def ids_of(array: pa.Array, name: str, first: int) -> Ragged:
    """Give the ids of a list array and the offsets of its rows: in place if they are uint32; a null row is empty."""
    kind = array.type
    if pa.types.is_null(kind):
        return Ragged(np.zeros(0, np.uint32), np.zeros(len(array) + 1, np.int64))
    if not _is_list(kind) or not (pa.types.is_integer(kind.value_type) or pa.types.is_null(kind.value_type)):
        raise TypeError(f"{name} is of type {kind}; lists of integers are taken: list<uint32> and its kind")
    sizes = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(array) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    ids = array.flatten()
    ragged = Ragged(np.zeros(0, np.uint32), offsets)
    if ids.null_count:
        row = first + ragged.row_at(int(np.flatnonzero(nulls_of(ids))[0]))
        raise ValueError(f"{name}: an id of row {row} is null; take it out, or put an id in its place")
    numbers = ids.to_numpy() if len(ids) else ragged.tokens
    if numbers.dtype != np.uint32:
        wrong = np.flatnonzero((numbers < 0) | (numbers > LARGEST))
        if len(wrong):
            row = first + ragged.row_at(int(wrong[0]))
            raise OverflowError(f"{name}: id {numbers[wrong[0]]} of row {row} is out of range: ids are 0 to {LARGEST}")
    return Ragged(np.ascontiguousarray(numbers, np.uint32), offsets)


def _is_list(kind: pa.DataType) -> bool:
    kinds = ("list", "large_list", "fixed_size_list", "list_view", "large_list_view")
    return any(getattr(pa.types, f"is_{name}")(kind) for name in kinds)
