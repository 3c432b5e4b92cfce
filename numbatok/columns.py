"""The Arrow surface of an encoding: a column of text in, a column of ids out, and back, without Python objects between.

Invariant: row for row the ids are those of ``encode_ordinary``; a null gives a null, an empty text an empty list; the
text is read where Arrow keeps it, and what comes out lies in NumPy arrays that Arrow is handed.

    >>> import numbatok, pyarrow as pa
    >>> numbatok.get_encoding("gpt2").encode_arrow(pa.array(["hello world", None, ""])).to_pylist()
    [[31373, 995], None, []]
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from numbatok.batch import lane_count
from numbatok.bpe import address
from numbatok.decoder import decode_into, decoded_offsets
from numbatok.flat import FlatEncoding
from numbatok.framing import Frame, check_beginnings, whole_characters
from numbatok.ids import Unknown
from numbatok.ragged import Offsets, Ragged, RowError

if TYPE_CHECKING:  # importing pyarrow takes longer than all the rest, and many programs never use it
    import pyarrow as pa

Null = Literal["null", "empty", "error"]
Output = Literal["list", "large_list", "auto"]
Marks = int | str | Sequence[int | str] | None
"""Ids, or names of special tokens, for the beginning or the end of each row."""

OUTPUTS, TYPES = ("list", "large_list", "auto"), ("uint32", "uint16", "int32")


class Form(NamedTuple):
    """What lists of ids look like: the type of ids, whether offsets have 64 bits, and what is put around each row."""

    kind: np.dtype[Any]
    large: bool
    frame: Frame | None


class ColumnEncoding(FlatEncoding):
    """A vocabulary with its split. Users meet it as :class:`~numbatok.encoding.Encoding`.

    Every method takes what holds a column of Arrow: a pyarrow Array or ChunkedArray, a table of one column, or any
    object with ``__arrow_c_array__`` or ``__arrow_c_stream__`` (polars, pandas, duckdb, nanoarrow, datafusion). An
    array or a record batch gives an array, anything else a chunked array, of fewer chunks where those of the column
    are small.
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
            output: "list" (32-bit offsets; an array of more than 2**31 - 1 ids becomes several), "large_list", or
                "auto": lists, and large lists where 32 bits do not suffice.
            dtype: the type of ids: uint32, uint16 (for vocabularies of at most 65,536 ids), or int32.
            bos: ids, or names of special tokens, that each row begins with; a null has none.
            eos: the same for its end.
            max_tokens: the most ids of a row, bos and eos included; the rest of its own ids is left out.
            threads: number of threads; None is all cores.

        Raises:
            TypeError: this is no column of text: names its type and those that are taken.
            ValueError: a null with ``null="error"``: names the row; or an argument that cannot be.

        """
        from numbatok import arrays

        _one_of(output, OUTPUTS, "output")
        form = Form(self._id_type(dtype), output == "large_list", self._frame(bos, eos, max_tokens))
        return arrays.map_column(arrays.column_of(column), null, self._lists_of(form, threads), output == "list")

    def count_arrow(
        self, column: Any, *, null: Null = "null", threads: int | None = None
    ) -> pa.Array | pa.ChunkedArray:
        """Count the ids of each row of a column, without making them; gives uint32. For arguments see encode_arrow.

        >>> import pyarrow as pa
        >>> numbatok.get_encoding("gpt2").count_arrow(pa.array(["hello world", None])).to_pylist()
        [2, None]
        """
        from numbatok import arrays, lists

        lane_count(threads)

        def make(array: pa.Array) -> pa.Array:
            return lists.plain_array(self._count_column(array, threads).astype(np.uint32), lists.bitmap(array))

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
            column: the column; lists of any kind, of any integer type.
            output: "string" or "binary"; what 32-bit offsets cannot hold has the large form.
            errors: what becomes of bytes that are not UTF-8 in a string, as in ``bytes.decode``.
            unknown: "error", or "skip" to leave out ids that the encoding does not have.

        Raises:
            TypeError: this is no column of lists of integers.
            KeyError: an id that the encoding does not have; this and the following errors name the row.
            ValueError: an id is null.
            OverflowError: an id is negative or needs more than 32 bits.
            UnicodeDecodeError: bytes that are not UTF-8, with ``errors="strict"``.

        >>> import pyarrow as pa
        >>> enc = numbatok.get_encoding("gpt2")
        >>> enc.decode_arrow(enc.encode_arrow(pa.array(["hello world", None]))).to_pylist()
        ['hello world', None]

        """
        from numbatok import arrays, lists

        _one_of(output, ("string", "binary"), "output")
        codecs.lookup_error(errors)
        source = arrays.column_of(column)

        def make(array: pa.Array, ragged: Ragged, first: int) -> pa.Array:
            made = lists.bytes_array(*self._decode_rows(ragged, unknown, source.name, first), lists.bitmap(array))
            return made if output == "binary" else lists.as_strings(made, errors, source.name, first)

        return arrays.map_lists(source, make)

    def truncate_arrow(self, column: Any, max_tokens: int, *, threads: int | None = None) -> pa.Array | pa.ChunkedArray:
        """Cut each text of a column behind its first ``max_tokens`` ids; gives a column of texts.

        A string is cut before a character that the last of these ids begins and does not end. The ids of what is left
        need not be the first ids of the whole, since a piece may now end elsewhere.

        Raises:
            TypeError: this is no column of text.
            ValueError: ``max_tokens`` is negative; or the encoding changes a text before it splits it, so that its
                first ids are not those of a beginning of the text: names the row.

        >>> import pyarrow as pa
        >>> numbatok.get_encoding("gpt2").truncate_arrow(pa.array(["hello world, and more"]), 2).to_pylist()
        ['hello world']

        """
        from numbatok import arrays, lists

        frame = Frame.checked((), (), max_tokens)
        lane_count(threads)
        source = arrays.column_of(column)

        def make(array: pa.Array) -> pa.Array:
            rows, ragged = arrays.rows_of(array), frame.put(self._encode_column(array, threads))
            data, places = self._decode_rows(ragged, "error", source.name, 0)
            if self._front:
                check_beginnings(rows, data, places)
            if array.type in arrays.STRINGS:
                data, places = whole_characters(rows, data, places)
            return lists.text_array(array.type, data, places, lists.bitmap(array))

        return arrays.map_column(source, "null", make)

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _lists_of(self, form: Form, threads: int | None) -> Callable[[pa.Array], pa.Array]:
        """Give the function that makes lists of ids of a text array."""
        from numbatok import arrays, lists

        lane_count(threads)

        def make(array: pa.Array) -> pa.Array:
            ragged = self._encode_column(array, threads)
            if form.frame:
                ragged = form.frame.put(ragged, arrays.nulls_of(array) if array.null_count else None)
            ids = ragged.tokens.view(form.kind) if form.kind.itemsize == 4 else ragged.tokens.astype(form.kind)
            return lists.list_array(ids, ragged.offsets, lists.bitmap(array), form.large)

        return make

    def _encode_column(self, array: pa.Array, threads: int | None) -> Ragged:
        """Encode a text array: in place, or text by text if the encoding changes texts before it splits them.

        Raises:
            RowError: the vocabulary has no token for a byte that stands alone in a row.

        """
        from numbatok import arrays

        rows, texts = arrays.rows_of(array), arrays.bytes_of(array) if self._front else []

        def encode(first: int, last: int) -> Ragged:
            if self._front:
                return self.encode_batch_flat(texts[first:last], threads=threads)
            return self._encode_rows(rows._replace(offsets=rows.offsets[first : last + 1]), threads)

        try:
            return encode(0, len(array))
        except ValueError as error:
            first, last, reason = 0, len(array), str(error)
        while last - first > 1:
            middle = (first + last) // 2
            try:
                encode(first, middle)
                first = middle
            except ValueError:
                last = middle
        raise RowError(first, reason)

    def _count_column(self, array: pa.Array, threads: int | None) -> Offsets:
        """Count the ids of a text array, without making them where that can be done."""
        from numbatok import arrays

        if self._front or self._model.incomplete:
            return np.diff(self._encode_column(array, threads).offsets)
        return self._count_rows(arrays.rows_of(array), threads)

    def _decode_rows(
        self, ragged: Ragged, unknown: Unknown, name: str, first: int
    ) -> tuple[npt.NDArray[np.uint8], Offsets]:
        """Give the bytes of all rows and their offsets; for errors the name of the column and the first row's number.

        Raises:
            KeyError: an id that the encoding does not have: names the row.
            ValueError: another value of ``unknown``.

        """
        _one_of(unknown, ("error", "skip"), "unknown")
        ids, offsets = ragged
        places = np.zeros(len(offsets), np.int64)
        call = (self._model.address, address(ids), address(offsets), len(offsets) - 1, int(unknown == "skip"))
        bad = decoded_offsets(*call, address(places))
        if bad >= 0:
            where = f"in row {first + ragged.row_at(bad)} of {name}"
            raise KeyError(f"Invalid token for decoding: {ids[bad]} {where}; unknown='skip' leaves it out")
        data = np.empty(int(places[-1]), np.uint8)
        decode_into(self._model.address, address(ids), len(ids), address(data), len(data))
        return data, places

    def _frame(self, bos: Marks, eos: Marks, max_tokens: int | None) -> Frame | None:
        """Give what is put around each row and how much of it is left; None for nothing and all."""
        if bos is None and eos is None and max_tokens is None:
            return None
        return Frame.checked(self._mark_ids(bos), self._mark_ids(eos), max_tokens)

    def _mark_ids(self, marks: Marks) -> list[int]:
        """Give the ids of bos or eos.

        Raises:
            TypeError: neither an id nor a name.
            ValueError: an id that the encoding does not have, or no name of a special token.

        """
        if marks is None:
            return []
        found = []
        for mark in marks if isinstance(marks, (list, tuple, np.ndarray)) else [marks]:
            if not isinstance(mark, (int, np.integer, str)):
                raise TypeError(f"bos or eos is {mark!r}; give an id, the name of a special token, or a list of these")
            token = self._special_tokens.get(mark, -1) if isinstance(mark, str) else int(mark)
            if not 0 <= token < self.n_vocab or not self._model.token_bytes(token):
                names = ", ".join(sorted(self._special_tokens)[:5])
                raise ValueError(f"{mark!r} is no id and no special token of {self.name}; its special tokens: {names}")
            found.append(token)
        return found

    def _id_type(self, dtype: npt.DTypeLike) -> np.dtype[Any]:
        try:
            kind = np.dtype(dtype)
        except TypeError:
            raise ValueError(f"dtype is {dtype!r}; give one of {', '.join(TYPES)}") from None
        _one_of(str(kind), TYPES, "dtype")
        if self.max_token_value > np.iinfo(kind).max:
            raise ValueError(
                f"dtype {kind} cannot hold the ids of {self.name}, up to {self.max_token_value}; give uint32"
            )
        return kind


def _one_of(value: str, known: Sequence[str], argument: str) -> None:
    if value not in known:
        raise ValueError(f"{argument} is {value!r}; give one of {', '.join(map(repr, known))}")
