"""The Arrow surface of an encoding: a column of text in, a column of ids out, and back, without Python objects between.

Invariant: row for row the ids are those of ``encode_ordinary``; a null gives a null, an empty text an empty list; the
text is read where Arrow keeps it, and what comes out lies in NumPy arrays that Arrow is handed.

    >>> import numbatok, pyarrow as pa
    >>> numbatok.get_encoding("gpt2").encode_arrow(pa.array(["hello world", None, ""])).to_pylist()
    [[31373, 995], None, []]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from numbatok.bpe import address
from numbatok.decoder import decode_into, decoded_offsets
from numbatok.flat import FlatEncoding
from numbatok.framing import frame
from numbatok.ids import Unknown
from numbatok.ragged import Offsets, Ragged

if TYPE_CHECKING:  # importing pyarrow takes longer than all the rest, and many programs never use it
    import pyarrow as pa

Null = Literal["null", "empty", "error"]
Output = Literal["list", "large_list", "auto"]
Marks = int | str | Sequence[int | str] | None
"""Ids, or names of special tokens, for the beginning or the end of each row."""

TYPES = ("uint32", "uint16", "int32")


class ColumnEncoding(FlatEncoding):
    """A vocabulary with its split. Users meet it as :class:`~numbatok.encoding.Encoding`.

    Every method takes what holds a column of Arrow: a pyarrow Array or ChunkedArray, a table of one column, or any
    object with ``__arrow_c_array__`` or ``__arrow_c_stream__`` (polars, pandas, duckdb, nanoarrow, datafusion). An array gives
    an array, anything else a chunked array.
    """

    def encode_arrow(
        self,
        column: Any,
        *,
        null: Null = "null",
        output: Output = "auto",
        dtype: npt.DTypeLike = np.uint32,
        bos: Marks = None,
        eos: Marks = None,
        max_tokens: int | None = None,
        threads: int | None = None,
    ) -> pa.Array | pa.ChunkedArray:
        """Encode a column of text (or of bytes) to a column of lists of ids; special tokens are ordinary text.

        Args:
            column: the column, of type string, binary, a large or view form of these, null, a dictionary or run-end
                encoding of these, or an extension type. Binary that is not UTF-8 follows tiktoken's byte-level rule.
            null: what a null becomes: "null", "empty" (as an empty text), or "error".
            output: "list" (32-bit offsets; a chunk of more than 2**31 - 1 ids becomes several), "large_list", or
                "auto": lists, and large lists where 32 bits do not suffice.
            dtype: the type of ids: uint32, uint16 (for vocabularies of at most 65,536 ids), or int32.
            bos: ids, or names of special tokens, that each row begins with; a null has none.
            eos: the same for the end of each row.
            max_tokens: the most ids of a row, bos and eos included; the rest is left out.
            threads: number of threads; None is all cores.

        Raises:
            TypeError: this is no column of text: names its type and those that are taken.
            ValueError: a null with ``null="error"``: names the row; or an argument that cannot be.

        """
        from numbatok import arrays, lists

        _one_of(null, ("null", "empty", "error"), "null")
        _one_of(output, ("list", "large_list", "auto"), "output")
        before, behind, kind = self._mark_ids(bos), self._mark_ids(eos), self._id_type(dtype)
        framed = before or behind or max_tokens is not None

        def make(array: pa.Array) -> list[pa.Array]:
            ragged = self._encode_column(array, threads)
            if framed:
                ragged = frame(ragged, before, behind, max_tokens, _nulls(array))
            ids = ragged.tokens.view(kind) if kind.itemsize == 4 else ragged.tokens.astype(kind)
            return lists.list_arrays((ids, ragged.offsets), lists.bitmap(array), output)

        return arrays.map_column(arrays.column_of(column), null, make)

    def count_arrow(
        self, column: Any, *, null: Null = "null", threads: int | None = None
    ) -> pa.Array | pa.ChunkedArray:
        """Count the ids of each row of a column, without making them; gives uint32. For arguments see encode_arrow.

        >>> import pyarrow as pa
        >>> numbatok.get_encoding("gpt2").count_arrow(pa.array(["hello world", None])).to_pylist()
        [2, None]
        """
        from numbatok import arrays, lists

        _one_of(null, ("null", "empty", "error"), "null")

        def make(array: pa.Array) -> list[pa.Array]:
            if self._front:
                counts = np.diff(self._encode_column(array, threads).offsets)
            else:
                counts = self._count_rows(arrays.rows_of(array), threads)
            return [lists.plain_array(counts.astype(np.uint32), lists.bitmap(array))]

        return arrays.map_column(arrays.column_of(column), null, make)

    def decode_arrow(
        self,
        column: Any,
        *,
        output: Literal["string", "binary"] = "string",
        errors: str = "replace",
        unknown: Unknown = "error",
    ) -> pa.Array | pa.ChunkedArray:
        """Decode a column of lists of ids to a column of strings, or of bytes.

        Args:
            column: the column; lists of any integer type.
            output: "string" or "binary"; what 32-bit offsets cannot hold has the large form.
            errors: what becomes of bytes that are not UTF-8 in a string, as in ``bytes.decode``.
            unknown: "error", or "skip" to leave out ids that the encoding does not have.

        Raises:
            TypeError: this is no column of lists of integers.
            KeyError: an id that the encoding does not have: names the row.
            ValueError: an id is null: names the row.

        >>> import pyarrow as pa
        >>> enc = numbatok.get_encoding("gpt2")
        >>> enc.decode_arrow(enc.encode_arrow(pa.array(["hello world", None]))).to_pylist()
        ['hello world', None]

        """
        from numbatok import arrays, lists

        _one_of(output, ("string", "binary"), "output")
        _one_of(unknown, ("error", "skip"), "unknown")

        def make(array: pa.Array, ragged: Ragged, row: int) -> pa.Array:
            made = lists.bytes_array(*self._decode_rows(ragged, unknown, row), lists.bitmap(array))
            return made if output == "binary" else arrays.as_strings(made, errors)

        return arrays.map_lists(arrays.column_of(column), make)

    def truncate_arrow(self, column: Any, max_tokens: int, *, threads: int | None = None) -> pa.Array | pa.ChunkedArray:
        """Cut each text of a column behind its first ``max_tokens`` ids; gives a column of texts.

        A string is cut before a character that the last of these ids begins and does not end. The ids of what is left
        need not be the first ids of the whole, since a piece may now end elsewhere.

        Raises:
            TypeError: this is no column of text.
            ValueError: ``max_tokens`` is negative.

        >>> import pyarrow as pa
        >>> numbatok.get_encoding("gpt2").truncate_arrow(pa.array(["hello world, and more"]), 2).to_pylist()
        ['hello world']

        """
        from numbatok import arrays, lists

        if max_tokens < 0:
            raise ValueError(f"max_tokens is {max_tokens}; give 0 or more")

        def make(array: pa.Array) -> list[pa.Array]:
            ragged = frame(self._encode_column(array, threads), most=max_tokens)
            data, offsets = self._decode_rows(ragged, "error", 0)
            made = lists.bytes_array(data, offsets, lists.bitmap(array))
            return [arrays.as_whole_characters(made) if arrays.is_string(array.type) else made]

        return arrays.map_column(arrays.column_of(column), "null", make)

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _encode_column(self, array: pa.Array, threads: int | None) -> Ragged:
        """Encode a text array: in place, or text by text if the encoding changes texts before it splits them."""
        from numbatok import arrays

        if self._front is None:
            return self._encode_rows(arrays.rows_of(array), threads)
        return self.encode_batch_flat([text or "" for text in array.to_pylist()], threads=threads)

    def _decode_rows(self, ragged: Ragged, unknown: Unknown, first: int) -> tuple[npt.NDArray[np.uint8], Offsets]:
        """Give the bytes of all rows and their offsets; ``first`` is the number of the first row, for errors."""
        ids, offsets = ragged
        places = np.zeros(len(offsets), np.int64)
        call = (self._model.address, address(ids), address(offsets), len(offsets) - 1, int(unknown == "skip"))
        bad = decoded_offsets(*call, address(places))
        if bad >= 0:
            row = first + int(np.searchsorted(offsets, bad, side="right")) - 1
            raise KeyError(f"Invalid token for decoding: {ids[bad]} in row {row}; unknown='skip' leaves it out")
        data = np.empty(int(places[-1]), np.uint8)
        decode_into(self._model.address, address(ids), len(ids), address(data), len(data))
        return data, places

    def _mark_ids(self, marks: Marks) -> list[int]:
        """Give the ids of bos or eos.

        Raises:
            ValueError: an id that the encoding does not have, or no name of a special token.

        """
        if marks is None:
            return []
        found = []
        for mark in [marks] if isinstance(marks, (int, str)) else marks:
            token = self._special_tokens.get(mark) if isinstance(mark, str) else mark
            if token is None or not 0 <= token < self.n_vocab:
                names = ", ".join(sorted(self._special_tokens)[:5])
                raise ValueError(f"{mark!r} is no id and no special token of {self.name}; its special tokens: {names}")
            found.append(int(token))
        return found

    def _id_type(self, dtype: npt.DTypeLike) -> np.dtype[Any]:
        kind = np.dtype(dtype)
        _one_of(kind.name, TYPES, "dtype")
        if self.max_token_value > np.iinfo(kind).max:
            raise ValueError(
                f"dtype {kind} cannot hold the ids of {self.name}, up to {self.max_token_value}; give uint32"
            )
        return kind


def _nulls(array: pa.Array) -> npt.NDArray[np.bool_] | None:
    """Give bool[rows], whether each is null; None if none is."""
    return array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None


def _one_of(value: str, known: Sequence[str], argument: str) -> None:
    if value not in known:
        raise ValueError(f"{argument} is {value!r}; give one of {', '.join(map(repr, known))}")
