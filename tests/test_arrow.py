"""Columns of Arrow: every type and shape in, the ids of the single texts out, nothing copied, and back to text.

Invariant: row for row a column gives what ``encode_ordinary`` gives for the text, None for a null; every array that
comes out passes Arrow's own full validation. Real libraries that hold columns are in test_arrow_engines.py.

    check(enc, made(["a", None], pa.string_view()), ["a", None])
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import hf
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from cases import JIT_OFF
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, normalizers

import numbatok
from numbatok import Encoding, Ragged, arrays, lists
from numbatok.flat import FlatEncoding
from numbatok.framing import Frame
from numbatok.ragged import Rows
from numbatok.split.patterns import GPT2_PATTERNS

Row = str | bytes | None
EOT = 50256

TEXTS: list[Row] = [
    "hello world",
    "",
    None,
    "naïve 中文 🤚🏾",
    "It's 12  o'clock\n\n",
    None,
    "x",
    "",
    " and more words",
]
FLAT = (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view())
RUNS = tuple(pa.run_end_encoded(ends, pa.string()) for ends in (pa.int16(), pa.int32(), pa.int64()))
DICTIONARIES = (
    *(pa.dictionary(indices, pa.string()) for indices in (pa.int8(), pa.uint16(), pa.int64())),
    *(pa.dictionary(pa.int32(), values) for values in FLAT[1:]),
)


class Tagged(pa.ExtensionType):  # type: ignore[misc]
    """An extension type around any storage."""

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, "numbatok.tagged")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Tagged:
        return cls(storage)


EXTENSIONS = tuple(Tagged(storage) for storage in (pa.string(), pa.binary_view(), DICTIONARIES[0], RUNS[1]))
TYPES = (*FLAT, *DICTIONARIES, *RUNS, *EXTENSIONS)


def made(rows: Sequence[Row], kind: pa.DataType) -> pa.Array:
    """Give rows as an array of any of TYPES."""
    if isinstance(kind, pa.ExtensionType):
        return pa.ExtensionArray.from_storage(kind, made(rows, kind.storage_type))
    if pa.types.is_run_end_encoded(kind):
        return pc.run_end_encode(pa.array(rows, kind.value_type), run_end_type=kind.run_end_type)
    if pa.types.is_dictionary(kind):
        distinct = sorted({row for row in rows if row is not None}, key=repr)
        indices = pa.array([None if row is None else distinct.index(row) for row in rows], kind.index_type)
        return pa.DictionaryArray.from_arrays(indices, made(distinct, kind.value_type))
    return pa.array(rows, kind)


def expected(enc: Encoding, rows: Sequence[Row]) -> list[list[int] | None]:
    """Give the ids of each row alone."""
    return [None if row is None else enc.encode_ordinary(row) for row in rows]


def check(enc: Encoding, column: Any, rows: Sequence[Row], threads: Sequence[int | None] = (1, 2)) -> Any:
    """Assert that a column gives the ids of its rows and their numbers; gives the column of ids."""
    want = expected(enc, rows)
    for number in threads:
        ids = enc.encode_arrow(column, threads=number)
        ids.validate(full=True)
        assert ids.type == pa.list_(pa.uint32())
        assert ids.to_pylist() == want
        counts = enc.count_arrow(column, threads=number)
        counts.validate(full=True)
        assert counts.type == pa.uint32()
        assert counts.to_pylist() == [None if row is None else len(row) for row in want]
    return ids


def plain(rows: Sequence[Row]) -> list[str | None]:
    """Give rows as texts."""
    return [row.decode(errors="replace") if isinstance(row, bytes) else row for row in rows]


# ---- types and shapes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_types(enc: Encoding, kind: pa.DataType) -> None:
    """Each type gives the ids of its rows, whole and from every row on to every other one."""
    array = made(TEXTS, kind)
    check(enc, array, TEXTS)
    for first, last in itertools.combinations(range(len(TEXTS) + 1), 2):
        check(enc, array[first:last], TEXTS[first:last], threads=[1])
    check(enc, array[4:4], [], threads=[1])
    check(enc, array[2:7][1:4], TEXTS[3:6], threads=[1])


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_chunks(enc: Encoding, kind: pa.DataType) -> None:
    """Chunks of all sizes, sliced, empty, all null; and none at all."""
    array = made(TEXTS * 2, kind)
    chunks = [array[3:8], array[0:0], array[2:3], array[10:], made([None, None], kind), made([], kind)]
    rows = [*(TEXTS * 2)[3:8], TEXTS[2], *(TEXTS * 2)[10:], None, None]
    assert isinstance(check(enc, pa.chunked_array(chunks), rows), pa.ChunkedArray)
    assert isinstance(check(enc, pa.chunked_array([array]), TEXTS * 2), pa.ChunkedArray)
    check(enc, pa.chunked_array(chunks)[3:9], rows[3:9])
    empty = enc.encode_arrow(pa.chunked_array([], kind))
    assert (empty.to_pylist(), empty.type) == ([], pa.list_(pa.uint32()))
    assert enc.count_arrow(pa.chunked_array([], kind)).type == pa.uint32()


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_all_null(enc: Encoding, kind: pa.DataType) -> None:
    """A column of nulls gives nulls."""
    check(enc, made([None] * 11, kind)[2:], [None] * 9)


def test_null_type(enc: Encoding) -> None:
    """The type that holds nothing but nulls, plain, as a dictionary's and as runs."""
    nulls = pa.nulls(3)
    check(enc, nulls, [None] * 3)
    check(enc, nulls[1:], [None] * 2)
    check(enc, pa.chunked_array([nulls, nulls[:0]]), [None] * 3)
    check(enc, pa.DictionaryArray.from_arrays(pa.array([None, 0], pa.int8()), pa.nulls(1)), [None] * 2)
    check(enc, pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int16()), pa.nulls(2)), [None] * 3)
    assert enc.encode_arrow(nulls, null="empty").to_pylist() == [[], [], []]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()], ids=str)
def test_null_rows_that_hold_bytes(enc: Encoding, kind: pa.DataType) -> None:
    """What lies under a null is not read, whether it is text or not."""
    data = b"hello world" + b"\xff\xc3" + b" and more" + b"hidden"
    width = np.int64 if kind in (pa.large_string(), pa.large_binary()) else np.int32
    edges = np.array([0, 11, 13, 22, 28], width)
    array = pa.Array.from_buffers(kind, 4, [pa.py_buffer(b"\x05"), pa.py_buffer(edges), pa.py_buffer(data)])
    rows: list[Row] = ["hello world", None, " and more", None]
    check(enc, array, rows)
    check(enc, array[1:], rows[1:])
    check(enc, pa.chunked_array([array[:2], array[1:]]), [*rows[:2], *rows[1:]])
    assert enc.encode_arrow(array, null="empty").to_pylist() == [row or [] for row in expected(enc, rows)]
    assert enc.encode_arrow(array, bos=EOT).to_pylist()[3] is None
    assert plain(enc.truncate_arrow(array, 1).to_pylist()) == ["hello", None, " and", None]


def test_offsets_that_do_not_start_at_zero(enc: Encoding) -> None:
    """Arrow allows bytes before the first row and behind the last one, without a slice."""
    edges, data = np.array([6, 11, 11], np.int32), b"hello world and more"
    array = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(edges), pa.py_buffer(data)])
    check(enc, array, ["world", ""])
    nothing = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(np.zeros(3, np.int32)), pa.py_buffer(b"")])
    check(enc, nothing, ["", ""])


def test_dictionaries_with_offsets_and_nulls(enc: Encoding) -> None:
    """Slices of a dictionary, of its indices and of both; null values; values that no row has."""
    values = pa.array(["unused", "a b", None, "c", "d e"])
    indices = pa.array([3, 1, None, 0, 2, 0, 1], pa.int8())
    array = pa.DictionaryArray.from_arrays(indices, values[1:])
    rows: list[Row] = ["d e", None, None, "a b", "c", "a b", None]
    check(enc, array, rows)
    check(enc, array[2:6], rows[2:6])
    check(enc, pa.DictionaryArray.from_arrays(indices[1:6], values[1:]), rows[1:6])
    assert enc.encode_arrow(array, null="empty").to_pylist() == [row or [] for row in expected(enc, rows)]
    with pytest.raises(ValueError, match="row 1 is null"):
        enc.encode_arrow(array, null="error")


def test_runs_with_offsets(enc: Encoding) -> None:
    """Run ends and values that are slices, and slices of the whole that begin and end within a run."""
    ends, values = pa.array([1, 3, 4, 9], pa.int32())[1:], pa.array(["unused", "a b", None, "c"])[1:]
    array = pa.RunEndEncodedArray.from_arrays(ends, values)
    rows: list[Row] = ["a b"] * 3 + [None] + ["c"] * 5
    for first, last in itertools.combinations(range(10), 2):
        check(enc, array[first:last], rows[first:last], threads=[1])
    assert enc.encode_arrow(array[2:5], null="empty").to_pylist() == [row or [] for row in expected(enc, rows[2:5])]
    with pytest.raises(ValueError, match="row 1 is null"):
        enc.count_arrow(array[2:5], null="error")


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Rows, Ragged]]:
    """Give the batches that are encoded, with what they gave."""
    seen: list[tuple[Rows, Ragged]] = []
    encode = FlatEncoding._encode_rows

    def spy(self: FlatEncoding, rows: Rows, threads: int | None) -> Ragged:
        ragged = encode(self, rows, threads)
        seen.append((rows, ragged))
        return ragged

    monkeypatch.setattr(FlatEncoding, "_encode_rows", spy)
    return seen


def test_values_are_made_once(enc: Encoding, encoded: list[tuple[Rows, Ragged]]) -> None:
    """A dictionary is encoded once, whatever the number of rows and of chunks that share it; a run once."""
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, 1] * 100), pa.array(["a b", "c"]))
    enc.encode_arrow(pa.chunked_array([array[:50], array[50:70], array[70:]]))
    enc.encode_arrow(pc.run_end_encode(pa.array(["a b"] * 100 + ["c"] * 100)))
    assert [len(rows.offsets) for rows, _ in encoded] == [3, 3]


def test_dictionaries_that_differ(enc: Encoding) -> None:
    """Chunks may have dictionaries of their own, of one size."""
    words = [["a b", "c"], ["d", "e f"], ["d", "e f"]]
    chunks = [pa.DictionaryArray.from_arrays(pa.array([1, 0, None]), pa.array(values)) for values in words]
    check(enc, pa.chunked_array(chunks), [row for a, b in words for row in (b, a, None)])


def test_slice_of_a_large_dictionary(enc: Encoding, encoded: list[tuple[Rows, Ragged]]) -> None:
    """A few rows of a dictionary of many values: the rows are encoded, not the values."""
    for values in (pa.array([f"value {i}" for i in range(1000)]), pa.array(["x"] * 1000, pa.string_view())):
        array = pa.DictionaryArray.from_arrays(pa.array([7, None, 999, 7]), values)
        rows = [array.dictionary[7].as_py(), None, array.dictionary[999].as_py(), array.dictionary[7].as_py()]
        encoded.clear()
        assert enc.encode_arrow(array).to_pylist() == expected(enc, rows)
        assert len(encoded[0][0].offsets) == 5
        assert enc.encode_arrow(array[1:3], null="empty").to_pylist() == [[], enc.encode_ordinary(rows[2])]


# ---- producers -------------------------------------------------------------------------------------------------------


class HasArray:
    """An object of another library with ``__arrow_c_array__`` alone."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return self.held.__arrow_c_array__(requested_schema)


class HasStream:
    """One with ``__arrow_c_stream__`` alone; like a series, it may have a name."""

    def __init__(self, held: Any, name: Any = None) -> None:
        self.held, self.name = held, name

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.held.__arrow_c_stream__(requested_schema)


class HasBoth(HasStream):
    """One with both, of which the first fails unless all lies in one chunk."""

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        if self.held.num_chunks != 1:
            raise ValueError("several chunks")
        return self.held.chunk(0).__arrow_c_array__(requested_schema)


@pytest.mark.parametrize("kind", [*FLAT, DICTIONARIES[0], RUNS[1], EXTENSIONS[0]], ids=str)
def test_producers(enc: Encoding, kind: pa.DataType) -> None:
    """Tables and batches of one column, and objects of other libraries; an array gives an array."""
    array = made(TEXTS, kind)
    chunks = pa.chunked_array([array[1:4], array[4:]])
    table = pa.table({"text": chunks})
    batch = pa.record_batch({"text": array})
    singles = [array, batch, batch[2:], HasArray(array), HasArray(batch), HasBoth(pa.chunked_array([array]))]
    for single in singles:
        rows = TEXTS[2:] if single is singles[2] else TEXTS
        assert isinstance(check(enc, single, rows, threads=[1]), pa.Array)
    streams = [chunks, table, table.slice(0), HasStream(chunks), HasStream(table), HasBoth(chunks), table["text"]]
    for stream in [*streams, pa.RecordBatchReader.from_batches(table.schema, table.to_batches())]:
        ids = enc.encode_arrow(stream)
        assert isinstance(ids, pa.ChunkedArray)
        assert ids.to_pylist() == expected(enc, TEXTS[1:])
    check(enc, table.slice(2, 4), TEXTS[3:7])
    check(enc, table.select(["text"])[:0], [])
    check(enc, pa.table({"text": pa.chunked_array([], kind)}), [])


def test_null_structs(enc: Encoding) -> None:
    """A table may come as an array of structs, of which some are null as a whole."""
    structs = pa.array([{"text": "a b"}, None, {"text": None}, {"text": "c"}])
    check(enc, structs, ["a b", None, None, "c"])
    check(enc, structs[1:], [None, None, "c"])


def test_a_column_joins_its_table(enc: Encoding) -> None:
    """The result can be put beside the column that it was made of."""
    table = pa.table({"text": pa.chunked_array([TEXTS[:4], [], TEXTS[4:]], pa.string())})
    assert table.append_column("ids", enc.encode_arrow(table))["ids"].to_pylist() == expected(enc, TEXTS)
    batch = pa.record_batch({"text": pa.array(TEXTS)})
    assert batch.append_column("ids", enc.encode_arrow(batch))["ids"].to_pylist() == expected(enc, TEXTS)


# ---- nothing is copied -----------------------------------------------------------------------------------------------

LONG = 300 if JIT_OFF else 100_000


def long_rows() -> list[str]:
    """Give enough rows for chunks that are not put together, and for parallel encoding."""
    rng = random.Random(5)
    return [" ".join(rng.choices(["hello", "world", "naïve", "12", "中文", "\n"], k=5)) for _ in range(LONG)]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()], ids=str)
def test_text_is_read_in_place(enc: Encoding, kind: pa.DataType, encoded: list[tuple[Rows, Ragged]]) -> None:
    """The kernel is given the address of Arrow's own buffer, for slices, tables and objects of other libraries too."""
    array = pa.array(long_rows(), kind)
    base = array.buffers()[2].address
    holed = pa.concat_arrays([pa.array([None, "x"], kind), array])
    for column in (array, array[LONG // 3 :], pa.chunked_array([array]), pa.table({"text": array}), HasArray(array)):
        encoded.clear()
        enc.encode_arrow(column)
        assert [rows.base for rows, _ in encoded] == [base]
    for null in ("null", "empty"):
        encoded.clear()
        enc.encode_arrow(holed, null=null)  # type: ignore[arg-type]
        assert [rows.base for rows, _ in encoded] == [holed.buffers()[2].address]
    if kind == lists.large_form(kind):
        assert encoded[0][0].offsets.ctypes.data == holed.buffers()[1].address


@pytest.mark.parametrize("options", [{}, {"dtype": "int32"}, {"output": "large_list"}, {"output": "list"}], ids=str)
def test_ids_are_handed_over_in_place(
    enc: Encoding, options: dict[str, Any], encoded: list[tuple[Rows, Ragged]]
) -> None:
    """The values of the result lie where the kernel wrote them, and so do 64-bit offsets."""
    for column in (pa.array(long_rows()), pa.array([None, *long_rows()])):
        ids = enc.encode_arrow(column, **options)
        ragged = encoded[-1][1]
        assert ids.values.buffers()[1].address == ragged.tokens.ctypes.data
        assert len(ids.values) == len(ragged.tokens)
        if options.get("output") == "large_list":
            assert ids.buffers()[1].address == ragged.offsets.ctypes.data


@pytest.mark.parametrize("options", [{}, {"dtype": "int32"}, {"dtype": "uint16"}, {"output": "large_list"}], ids=str)
def test_arrow_allocates_nothing(enc: Encoding, options: dict[str, Any]) -> None:
    """Arrow's own memory grows by the bitmap of nulls and nothing else, also while the call runs."""
    peak = pa.default_memory_pool()
    for nulls, room in ((0, 0), (1, LONG // 8 + 128)):
        array = pa.array([*([None] * nulls), *long_rows()])
        assert array.null_count == nulls
        before = pa.total_allocated_bytes()
        ids, counts = enc.encode_arrow(array, **options), enc.count_arrow(array)
        assert pa.total_allocated_bytes() - before <= 2 * room
        assert len(ids) == len(counts) == LONG + nulls
        before = pa.total_allocated_bytes()
        text = enc.decode_arrow(ids)
        if options.get("dtype") != "uint16" and not nulls:
            assert pa.total_allocated_bytes() - before <= room
        assert text.equals(array)
    assert peak.bytes_allocated() == pa.total_allocated_bytes()


def test_decoding_reads_and_writes_in_place(enc: Encoding, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids of 32 bits are read where Arrow keeps them, the bytes of the result lie where the kernel wrote them."""
    seen: list[tuple[Ragged, Any]] = []
    decode = Encoding._decode_rows

    def spy(self: Encoding, ragged: Ragged, *more: Any) -> Any:
        made = decode(self, ragged, *more)
        seen.append((ragged, made[0]))
        return made

    monkeypatch.setattr(Encoding, "_decode_rows", spy)
    ids = enc.encode_arrow(pa.array(long_rows()))
    for column in (ids, ids[LONG // 2 :], ids.cast(pa.large_list(pa.uint32())), enc.encode_batch_flat(long_rows())):
        values = column.to_arrow() if isinstance(column, Ragged) else column
        for output in ("string", "binary"):
            text = enc.decode_arrow(column, output=output)  # type: ignore[arg-type]  # not narrowed by the loop
            start = values.offsets[0].as_py() * 4
            assert seen[-1][0].tokens.ctypes.data == values.values.buffers()[1].address + start
            assert text.buffers()[2].address == seen[-1][1].ctypes.data


# ---- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [pa.string(), pa.string_view(), DICTIONARIES[0], RUNS[1]], ids=str)
def test_null_modes(enc: Encoding, kind: pa.DataType) -> None:
    """A null becomes a null, an empty list, or an error with its row."""
    array, ids = made(TEXTS, kind), expected(enc, TEXTS)
    for column in (array, pa.chunked_array([array[:1], array[1:]])):
        assert enc.encode_arrow(column, null="null").to_pylist() == ids
        empty = enc.encode_arrow(column, null="empty")
        empty.validate(full=True)
        assert empty.to_pylist() == [row or [] for row in ids]
        assert empty.null_count == 0
        assert enc.count_arrow(column, null="empty").to_pylist() == [len(row or []) for row in ids]
        assert enc.encode_arrow(column, null="empty", bos=7).to_pylist() == [[7, *(row or [])] for row in ids]
        for call in (enc.encode_arrow, enc.count_arrow):
            with pytest.raises(ValueError, match=r'row 2 is null; pass null="null" or null="empty"'):
                call(column, null="error")
    assert enc.encode_arrow(array[3:5], null="error").to_pylist() == ids[3:5]


@pytest.mark.parametrize("kind", [pa.string(), DICTIONARIES[0]], ids=str)
def test_marks_and_lengths(enc: Encoding, kind: pa.DataType) -> None:
    """Marks as ids and as names, one and several; rows cut so that both fit; a null has none."""
    array, ids = made(TEXTS, kind), expected(enc, TEXTS)
    for bos, eos in itertools.product([None, "<|endoftext|>", EOT, np.int64(7), [1, "<|endoftext|>"], []], repeat=2):
        before, behind = ([EOT if mark == "<|endoftext|>" else int(mark) for mark in as_list(m)] for m in (bos, eos))
        for most in (None, 4, 5, 100):
            found = enc.encode_arrow(array, bos=bos, eos=eos, max_tokens=most)
            found.validate(full=True)
            room = None if most is None else most - len(before) - len(behind)
            assert found.to_pylist() == [None if row is None else [*before, *row[:room], *behind] for row in ids]
    assert enc.encode_arrow(array, max_tokens=0).to_pylist() == [None if row is None else [] for row in ids]
    assert enc.encode_arrow(array[:0], bos=EOT).to_pylist() == []


def as_list(marks: Any) -> list[Any]:
    """Give the marks of an option one by one."""
    if marks is None:
        return []
    return marks if isinstance(marks, list) else [marks]


def test_marks_that_cannot_be(enc: Encoding) -> None:
    """Ids and names that the encoding does not have, and a length without room for the marks."""
    array = pa.array(["a"])
    for mark in (-1, 50257, "<|fim_prefix|>", "", [EOT, "x"]):
        with pytest.raises(
            ValueError, match=r"no id and no special token of gpt2; its special tokens: <\|endoftext\|>"
        ):
            enc.encode_arrow(array, bos=mark)
    with pytest.raises(ValueError, match="100261 is no id"):  # a gap
        numbatok.get_encoding("cl100k_base").encode_arrow(array, eos=100261)
    with pytest.raises(TypeError):
        enc.encode_arrow(array, eos=1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_tokens is 1; give 2 or more"):
        enc.encode_arrow(array, bos=EOT, eos=EOT, max_tokens=1)
    with pytest.raises(ValueError, match="max_tokens is -1; give 0 or more"):
        enc.truncate_arrow(array, -1)
    for call in (enc.encode_arrow, enc.truncate_arrow):
        with pytest.raises(TypeError):
            call(array, max_tokens=1.5)


@pytest.mark.parametrize("dtype", ["uint32", "uint16", "int32", np.uint16, np.dtype("int32")], ids=str)
def test_types_of_ids(enc: Encoding, dtype: Any) -> None:
    """Each type of ids, in lists and large lists."""
    array = made(TEXTS, pa.string())
    value = pa.from_numpy_dtype(np.dtype(dtype))
    for output, kind in (("list", pa.list_(value)), ("large_list", pa.large_list(value)), ("auto", pa.list_(value))):
        ids = enc.encode_arrow(array[1:], dtype=dtype, output=output, eos=EOT)  # type: ignore[arg-type]
        ids.validate(full=True)
        assert ids.type == kind
        assert ids.to_pylist() == [None if row is None else [*row, EOT] for row in expected(enc, TEXTS[1:])]
        assert enc.decode_arrow(enc.encode_arrow(array, dtype=dtype)).to_pylist() == TEXTS


def test_options_that_cannot_be(enc: Encoding) -> None:
    """Every option says what it takes, whatever the column."""
    for array in (pa.array(["a"]), pa.array([], pa.string())):
        for name, value in (("output", "list_view"), ("null", "drop"), ("dtype", "int64"), ("dtype", ">u4")):
            with pytest.raises(ValueError, match=rf"{name} is '{value}'; give "):
                enc.encode_arrow(array, **{name: value})
        for call in (
            enc.encode_arrow,
            enc.count_arrow,
            lambda column, threads: enc.truncate_arrow(column, 1, threads=threads),
        ):
            with pytest.raises(ValueError, match="the number of threads is 0"):
                call(array, threads=0)
            with pytest.raises(TypeError, match=r"threads is 1\.5"):
                call(array, threads=1.5)
    with pytest.raises(ValueError, match="null is 'drop'"):
        enc.count_arrow(pa.array(["a"]), null="drop")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="uint16 cannot hold the ids of cl100k_base, up to 100276; give uint32"):
        numbatok.get_encoding("cl100k_base").encode_arrow(pa.array(["a"]), dtype="uint16")


# ---- bytes that are not UTF-8 ----------------------------------------------------------------------------------------

BROKEN: list[Row] = [
    b"h\xc3",
    b"\xff\xfe",
    b"hello world",
    None,
    b"",
    b"cut \xe4\xb8",
    b"\xe4\xb8\xad ok \x80\x80 more",
]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view()], ids=str)
def test_binary_that_is_not_utf8(enc: Encoding, kind: pa.DataType) -> None:
    """Binary follows tiktoken's byte-level rule, and comes back as it was."""
    array = pa.array(BROKEN, kind)
    for column, rows in (
        (array, BROKEN),
        (array[1:], BROKEN[1:]),
        (made(BROKEN, pa.dictionary(pa.int8(), kind)), BROKEN),
    ):
        ids = check(enc, column, rows)
        assert enc.decode_arrow(ids, output="binary").to_pylist() == rows
        assert enc.decode_arrow(ids).to_pylist() == plain(rows)


def test_string_that_is_not_utf8(enc: Encoding) -> None:
    """A string column that breaks Arrow's promise is read like binary, with or without a front."""
    broken = pa.array(BROKEN, pa.binary()).view(pa.string())
    assert enc.encode_arrow(broken).to_pylist() == expected(enc, BROKEN)
    assert enc.count_arrow(broken[4:]).to_pylist() == [len(row or []) for row in expected(enc, BROKEN)[4:]]
    fronted = Encoding.from_huggingface(hf.build(normalizer=normalizers.NFC()))
    assert fronted.encode_arrow(broken).to_pylist() == expected(fronted, BROKEN)


# ---- 32-bit offsets --------------------------------------------------------------------------------------------------


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """Let 32-bit offsets end at 10, and no chunks be put together."""
    monkeypatch.setattr(lists, "MOST", 10)
    monkeypatch.setattr(arrays, "SMALL", 0)
    return 10


WORDS = [" a b c", None, " d", " a b c d e", "", " a b", None]
"""3 + 1 + 5 + 2 ids."""


def test_too_many_ids(enc: Encoding, few: int) -> None:
    """Above the limit "auto" gives a large list and "list" several arrays; at the limit nothing changes."""
    array, ids = pa.array(WORDS), expected(enc, WORDS)
    assert sum(len(row or []) for row in ids) == few + 1
    whole = enc.encode_arrow(array)
    parts = enc.encode_arrow(array, output="list")
    assert whole.type == pa.large_list(pa.uint32())
    assert parts.type == pa.list_(pa.uint32())
    assert [len(part) for part in parts.chunks] == [5, 2]
    assert parts.chunk(1).values.buffers()[1].address == parts.chunk(0).values.buffers()[1].address  # cut, not copied
    for found in (whole, parts):
        found.validate(full=True)
        assert found.to_pylist() == ids
    assert enc.encode_arrow(array[:5]).type == pa.list_(pa.uint32())
    assert isinstance(enc.encode_arrow(array[:5], output="list"), pa.Array)
    assert enc.encode_arrow(array, output="list", dtype="uint16").type == pa.list_(pa.uint16())
    assert enc.encode_arrow(array, output="list", max_tokens=2).to_pylist() == [row and row[:2] for row in ids]
    assert enc.encode_batch_flat([word or "" for word in WORDS]).to_arrow().type == pa.large_list(pa.uint32())


def test_too_many_ids_in_a_chunk(enc: Encoding, few: int) -> None:
    """Of a chunked array all chunks have one type: large lists, or lists cut where they must be."""
    array, ids = pa.array(WORDS), expected(enc, WORDS)
    column = pa.chunked_array([array[:3], array, array[5:], array[:0]])
    rows = [*ids[:3], *ids, *ids[5:]]
    assert enc.encode_arrow(column).type == pa.large_list(pa.uint32())
    parts = enc.encode_arrow(column, output="list")
    assert parts.type == pa.list_(pa.uint32())
    assert [len(part) for part in parts.chunks] == [3, 5, 2, 2, 0]
    for found in (parts, enc.encode_arrow(column)):
        found.validate(full=True)
        assert found.to_pylist() == rows


def test_a_row_with_too_many_ids(enc: Encoding, few: int) -> None:
    """One row that no list can hold is named; a large list holds it."""
    long = " a" * (few + 1)
    chunks = pa.chunked_array([[" a"], [" a", None, long]])
    with pytest.raises(
        ValueError, match=r'the column: row 3 has 11 ids, too many for a list; pass output="large_list"'
    ):
        enc.encode_arrow(chunks, output="list")
    assert enc.encode_arrow(chunks).to_pylist() == expected(enc, [" a", " a", None, long])
    exact = [" a" * few, " b", " a" * few]
    parts = enc.encode_arrow(pa.array(exact), output="list")
    assert [len(part) for part in parts.chunks] == [1, 1, 1]
    assert parts.to_pylist() == expected(enc, exact)


@pytest.mark.parametrize("kind", [DICTIONARIES[0], RUNS[1]], ids=str)
def test_too_many_ids_by_values(enc: Encoding, few: int, kind: pa.DataType) -> None:
    """Values that fit, but not once for each row; and values that do not fit at all."""
    for rows in ([" a b c", " a b c", None, " d", " d", " a b c", " a b c"], [*WORDS, *WORDS]):
        array, ids = made(rows, kind), expected(enc, rows)
        assert enc.encode_arrow(array).type == pa.large_list(pa.uint32())
        assert enc.encode_arrow(array, output="list").type == pa.list_(pa.uint32())
        for output in ("auto", "list", "large_list"):
            found = enc.encode_arrow(array, output=output)  # type: ignore[arg-type]
            found.validate(full=True)
            assert found.to_pylist() == ids
        assert enc.encode_arrow(array[:0], output="list").type == pa.list_(pa.uint32())


def test_too_many_bytes(enc: Encoding, few: int) -> None:
    """Text that comes out has the large form above the limit; in a chunked array all of it has."""
    array = pa.array(["hello world", None, " d"])
    column = pa.chunked_array([array[1:], array, array[:0]])
    for output, kind in (("string", pa.large_string()), ("binary", pa.large_binary())):
        for found, rows in ((array, array.to_pylist()), (column, column.to_pylist())):
            text = enc.decode_arrow(enc.encode_arrow(found), output=output)  # type: ignore[arg-type]
            text.validate(full=True)
            assert text.type == kind
            assert plain(text.to_pylist()) == rows
    cut = enc.decode_arrow(pa.array([[447] * 4]))  # two bytes of a character each, and then three for U+FFFD
    assert (cut.type, cut.to_pylist()) == (pa.large_string(), ["\ufffd" * 4])


def test_truncated_dictionary_with_too_many_bytes(enc: Encoding, few: int) -> None:
    """Texts of a dictionary that fit, but not once for each row."""
    array = made(["hello world", "hello world", None, "x"], DICTIONARIES[0])
    for column in (array, pa.chunked_array([array[2:], array])):
        text = enc.truncate_arrow(column, 1)
        text.validate(full=True)
        assert text.type == pa.large_string()
        assert text.to_pylist()[-4:] == ["hello", "hello", None, "x"]
    few_rows = pa.DictionaryArray.from_arrays(pa.array([1, 1]), pa.array(["a", "hello world", "b"]))
    assert enc.encode_arrow(few_rows).to_pylist() == expected(enc, ["hello world"] * 2)


@pytest.mark.campaign
def test_more_than_two_to_the_31() -> None:
    """The real limit, with memory that is never touched: ids that are all zero."""
    ids = np.zeros(lists.MOST + 100, np.uint32)
    offsets = np.array([0, 5, 5, lists.MOST - 3, lists.MOST + 100])
    whole = lists.list_array(ids, offsets)
    parts = lists.narrow_lists(whole, "the column", 0)
    assert whole.type == pa.large_list(pa.uint32())
    assert [part.type for part in parts] == [pa.list_(pa.uint32())] * 2
    assert [len(part) for part in parts] == [3, 1]
    for array in (whole, *parts):
        array.validate(full=True)
    assert parts[1].value_lengths().to_pylist() == [103]


@pytest.mark.campaign
def test_more_than_two_to_the_31_bytes(enc: Encoding) -> None:
    """A column of more bytes than 32-bit offsets reach gives, from end to end, the ids of its rows; 5 GB of memory."""
    row = "several hundreds of words\n" * 20_000
    ids = enc.encode_flat(row)
    array = pa.repeat(pa.scalar(row, pa.large_string()), (lists.MOST + 1) // len(row) + 2)
    assert array.buffers()[2].size > lists.MOST + 1
    found = enc.encode_arrow(array)
    assert enc.count_arrow(array).equals(pa.repeat(pa.scalar(len(ids), pa.uint32()), len(array)))
    for index in (0, 1, len(array) // 2, len(array) - 1):
        assert np.array_equal(found[index].values.to_numpy(), ids)
    text = enc.decode_arrow(found)
    assert text.type == pa.large_string()
    assert text.equals(array)


# ---- threads and sizes -----------------------------------------------------------------------------------------------


def test_threads_give_the_same(enc: Encoding) -> None:
    """Columns that are encoded in parallel: many rows, a giant row, many chunks, some of them put together."""
    rows: list[Row] = [*long_rows(), None, " ".join(long_rows()), "", "x"]
    ids = pa.array(expected(enc, rows), pa.list_(pa.uint32()))
    array = pa.array(rows)
    cuts = [0, 1, 2, LONG // 2, LONG // 2 + 5, LONG - 1, LONG - 1, len(rows)]
    for column in (array, pa.chunked_array([array[a:b] for a, b in itertools.pairwise(cuts)]), array.cast(FLAT[2])):
        for threads in (1, 2, None):
            found = enc.encode_arrow(column, threads=threads)
            found = found if isinstance(found, pa.Array) else found.combine_chunks()
            found.validate(full=True)
            assert found.equals(ids)
            counts = enc.count_arrow(column, threads=threads)
            assert counts.to_pylist() == ids.value_lengths().to_pylist()


def test_small_chunks_are_put_together(enc: Encoding, encoded: list[tuple[Rows, Ragged]]) -> None:
    """A thousand tiny chunks are a few calls; a large one is left where it is."""
    tiny = [pa.array(["a b", None, "c"])] * 1000
    large = pa.array(["words " * (arrays.SMALL // 6 + 1)])
    found = enc.encode_arrow(pa.chunked_array([*tiny, large, *tiny]))
    assert len(encoded) == found.num_chunks == 3
    assert encoded[1][0].base == large.buffers()[2].address
    assert found.chunk(2).to_pylist() == expected(enc, ["a b", None, "c"]) * 1000


# ---- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([1]), "int64"),
        (pa.array([["a"]]), "list<item: string>"),
        (pa.array([1.5]).dictionary_encode(), "dictionary<values=double, indices=int32, ordered=0>"),
        (pc.run_end_encode(pa.array([1])), "run_end_encoded<run_ends: int32, values: int64>"),
        (pa.chunked_array([], pa.int8()), "int8"),
        (pa.ExtensionArray.from_storage(Tagged(pa.int32()), pa.array([1], pa.int32())), "int32"),
        (pa.array([b"ab"], pa.binary(2)), "fixed_size_binary"),
    ],
    ids=str,
)
def test_wrong_types(enc: Encoding, column: Any, kind: str) -> None:
    """What is no text says its type and those that are taken."""
    for call in (enc.encode_arrow, enc.count_arrow, lambda column: enc.truncate_arrow(column, 1)):
        with pytest.raises(TypeError) as error:
            call(column)
        assert f"the column is of type {kind}" in str(error.value)
        assert "these types are taken: string, large_string, string_view, binary" in str(error.value)


def test_what_is_no_column(enc: Encoding) -> None:
    """Lists, texts, tables of several columns, and columns in place of lists."""
    for thing in (["a"], "a", None, {"text": ["a"]}, np.array(["a"]), pa.scalar("a")):
        with pytest.raises(TypeError, match=f"{type(thing).__name__} was given; pass a pyarrow array"):
            enc.encode_arrow(thing)
    table = pa.table({"text": ["a"], "id": [1]})
    for two in (table, table.to_batches()[0], HasStream(table)):
        with pytest.raises(TypeError, match="a table of 2 columns was given; pass one column of it: 'text', 'id'"):
            enc.encode_arrow(two)
    with pytest.raises(TypeError, match="of type string; lists of integers are taken"):
        enc.decode_arrow(pa.array(["a"]))


def test_errors_name_the_column(enc: Encoding) -> None:
    """By the field of a table, or the name of a series."""
    for column in (pa.table({"body": [1]}), HasStream(pa.chunked_array([[1]]), "body")):
        with pytest.raises(TypeError, match="column 'body' is of type int64"):
            enc.encode_arrow(column)
    with pytest.raises(ValueError, match="column 'body': row 1 is null"):
        enc.encode_arrow(pa.table({"body": ["a", None]}), null="error")
    for name in (None, "", 5):
        with pytest.raises(TypeError, match="the column is of type int64"):
            enc.encode_arrow(HasStream(pa.chunked_array([[1]]), name))


@pytest.mark.parametrize("fronted", [False, True])
@pytest.mark.parametrize("small", [0, arrays.SMALL])
def test_bytes_without_a_token(fronted: bool, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A vocabulary without some byte: the row that holds it is named, in any chunk, by any type."""
    monkeypatch.setattr(arrays, "SMALL", small)
    letters = {bytes([byte]): byte for byte in b"abc \n"}
    enc = Encoding("abc", pat_str=GPT2_PATTERNS[0], mergeable_ranks=letters, special_tokens={})
    if fronted:
        enc = Encoding("slow", pat_str=r"\w+|\W+", mergeable_ranks=letters, special_tokens={}, slow_split=True)
    rows: list[Row] = ["a b", "c", None, "ab", "bad", "a", "x"]
    good = pa.array(rows[:4])
    check(enc, good, rows[:4])
    array = pa.array(rows)
    runs = pc.run_end_encode(array)
    dictionary = made(rows, DICTIONARIES[0])
    chunks = [pa.chunked_array([one[:2], one[2:4], one[4:]]) for one in (array, dictionary, runs)]
    for column in (array, array[:5], pa.chunked_array([good, array[4:]]), dictionary, dictionary[:5], runs, *chunks):
        for call in (enc.encode_arrow, enc.count_arrow, lambda column: enc.truncate_arrow(column, 1)):
            with pytest.raises(ValueError, match="the column: row 4: the vocabulary has no token for byte 0x64"):
                call(column)
    values = pa.array(["a", "d"])
    with pytest.raises(ValueError, match="the column: value 1 of its dictionary: the vocabulary has no token"):
        enc.encode_arrow(pa.DictionaryArray.from_arrays(pa.array([0, 0, 0]), values))


# ---- truncate --------------------------------------------------------------------------------------------------------


def shortened(enc: Encoding, row: Row, most: int) -> Row:
    """Give what truncating leaves, the slow way: whole characters of the bytes of the first ids."""
    if row is None:
        return None
    ids = enc.encode_ordinary(row)
    if len(ids) <= most:
        return row
    data = enc.decode_bytes(ids[:most])
    return data if isinstance(row, bytes) else data.decode(errors="ignore")


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_truncate(enc: Encoding, kind: pa.DataType) -> None:
    """Each text is cut behind its first ids, never within a character; binary anywhere."""
    values = kind.storage_type if isinstance(kind, pa.ExtensionType) else kind
    values = values if values in FLAT else values.value_type
    binary = values in FLAT[3:]
    rows = [row.encode() if binary and isinstance(row, str) else row for row in TEXTS]
    for most in (0, 1, 2, 3, 5, 8, 100):
        array = made(rows, kind)
        for column, part in ((array, rows), (array[3:7], rows[3:7]), (pa.chunked_array([array, array[:0]]), rows)):
            found = enc.truncate_arrow(column, most)
            found.validate(full=True)
            assert found.type == arrays.VIEWS.get(values, values)
            assert found.to_pylist() == [shortened(enc, row, most) for row in part]


def test_truncate_leaves_what_fits(enc: Encoding) -> None:
    """A text that is short enough stays as it is, even one that ends within a character."""
    rows = [b"cut \xe4\xb8", b"\x80\x80\x80\x80\x80", b"", b"cut \xe4\xb8"]
    array = pa.array(rows).view(pa.string())
    assert enc.truncate_arrow(array, 9).cast(pa.binary()).to_pylist() == rows
    for most in range(4):
        found = enc.truncate_arrow(array, most).cast(pa.binary()).to_pylist()
        assert all(row.startswith(part) for row, part in zip(rows, found, strict=True))


@given(st.lists(st.none() | st.text(st.sampled_from("ab 中🤚é\n"), max_size=12), max_size=8), st.integers(0, 12))
def test_truncate_random(enc: Encoding, rows: list[Row], most: int) -> None:
    """Random texts with characters of one to four bytes."""
    assert enc.truncate_arrow(pa.array(rows, pa.string()), most).to_pylist() == [
        shortened(enc, row, most) for row in rows
    ]


# ---- decode ----------------------------------------------------------------------------------------------------------

INTEGERS = [pa.uint8(), pa.int8(), pa.uint16(), pa.int16(), pa.uint32(), pa.int32(), pa.uint64(), pa.int64()]
IDS: list[list[int] | None] = [[31, 99], None, [], [7], [55, 66, 77, 88], None, [1]]


def bytes_of(enc: Encoding, rows: Sequence[list[int] | None]) -> list[bytes | None]:
    """Give the bytes of rows of ids one by one."""
    return [None if row is None else enc.decode_bytes(row) for row in rows]


@pytest.mark.parametrize("value", INTEGERS, ids=str)
@pytest.mark.parametrize(
    "make", [pa.list_, pa.large_list, pa.list_view, pa.large_list_view], ids=lambda make: make.__name__
)
def test_decode_types(enc: Encoding, make: Callable[[pa.DataType], pa.DataType], value: pa.DataType) -> None:
    """Lists of every kind and integer type, whole, sliced and in chunks."""
    array, rows = pa.array(IDS, make(value)), bytes_of(enc, IDS)
    for first, last in itertools.combinations(range(len(IDS) + 1), 2):
        found = enc.decode_arrow(array[first:last], output="binary")
        found.validate(full=True)
        assert (found.type, found.to_pylist()) == (pa.binary(), rows[first:last])
    text = enc.decode_arrow(pa.chunked_array([array[:3], array[:0], array[3:]]))
    assert isinstance(text, pa.ChunkedArray)
    assert (text.type, text.to_pylist()) == (pa.string(), plain(rows))
    assert enc.decode_arrow(pa.chunked_array([], make(value))).type == pa.string()


def test_decode_fixed_size_lists(enc: Encoding) -> None:
    """Rows of one length; what lies under a null row is not read."""
    values, mask = pa.array([*range(6), -1, 99_999, 8, 9]), pa.array([False, False, False, True, False])
    array = pa.FixedSizeListArray.from_arrays(values, 2, mask=mask)
    rows = bytes_of(enc, [[0, 1], [2, 3], [4, 5], None, [8, 9]])
    assert enc.decode_arrow(array, output="binary").to_pylist() == rows
    assert enc.decode_arrow(array[2:], output="binary").to_pylist() == rows[2:]
    assert enc.decode_arrow(pa.array([], pa.list_(pa.int16(), 3))).to_pylist() == []


def test_decode_null_rows_that_hold_ids(enc: Encoding) -> None:
    """What lies under a null row is not read; neither is what lies outside of a slice."""
    values = pa.array([31373, -1, 995, 99_999])
    array = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4]), values, mask=pa.array([False, True, False, False]))
    assert enc.decode_arrow(array[:3]).to_pylist() == ["hello", None, " world"]


def test_decode_producers(enc: Encoding) -> None:
    """Tables, objects of other libraries, Ragged, nulls, and lists of nothing."""
    array = enc.encode_arrow(pa.array(TEXTS))
    batch = pa.record_batch({"ids": array})
    for single in (array, batch, HasArray(array), pa.ExtensionArray.from_storage(Tagged(array.type), array)):
        assert enc.decode_arrow(single).equals(pa.array(TEXTS))
    for stream in (pa.table({"ids": array}), HasStream(pa.chunked_array([array]))):
        assert enc.decode_arrow(stream).to_pylist() == TEXTS
    ragged = enc.encode_batch_flat(["hello world", "", "x"])
    assert enc.decode_arrow(ragged).equals(pa.array(["hello world", "", "x"]))
    assert enc.decode_arrow(pa.nulls(2)).to_pylist() == [None, None]
    assert enc.decode_arrow(pa.array([[], None, []])).to_pylist() == ["", None, ""]


def test_decode_ids_that_are_not_there(enc: Encoding) -> None:
    """Unknown, null, negative and too large ids: the error names row and id; unknown ones can be left out."""

    def column(value: int | None, kind: pa.DataType) -> pa.ChunkedArray:
        rows = pa.array([[9], None, [31373, value, 995]], pa.list_(kind))
        return pa.chunked_array([rows[:2], rows])

    for value in (50257, 0xFFFFFFFF):
        with pytest.raises(
            KeyError, match=f"Invalid token for decoding: {value} in row 4 of the column; unknown='skip'"
        ):
            enc.decode_arrow(column(value, pa.int64()))
        assert enc.decode_arrow(column(value, pa.uint32()), unknown="skip").to_pylist()[-1] == "hello world"
    with pytest.raises(ValueError, match="the column: an id of row 4 is null"):
        enc.decode_arrow(column(None, pa.uint16()))
    for bad in (-1, 1 << 32):
        for unknown in ("error", "skip"):
            with pytest.raises(OverflowError, match=f"the column: id {bad} of row 4 is out of range"):
                enc.decode_arrow(column(bad, pa.int64()), unknown=unknown)  # type: ignore[arg-type]
    with pytest.raises(OverflowError, match="id 18446744073709551615 of row 4"):
        enc.decode_arrow(column((1 << 64) - 1, pa.uint64()))
    for kind in (pa.list_(pa.float32()), pa.list_(pa.string()), pa.int32(), pa.list_(pa.list_(pa.int32()))):
        with pytest.raises(TypeError, match=r"column 'ids' is of type .*; lists of integers are taken"):
            enc.decode_arrow(pa.table({"ids": pa.array([None], kind)}))


def test_decode_options(enc: Encoding) -> None:
    """Bytes that are not UTF-8 are replaced, refused with their row, or whatever ``bytes.decode`` knows."""
    rows: list[Row] = [b"ok", b"cut \xe4\xb8", None, b"\xff"]
    ids = enc.encode_arrow(pa.array(rows, pa.binary()))
    column = pa.chunked_array([ids[:1], ids])
    assert enc.decode_arrow(column).to_pylist() == plain([rows[0], *rows])
    assert enc.decode_arrow(column, errors="ignore").to_pylist() == ["ok", "ok", "cut ", None, ""]
    assert enc.decode_arrow(ids[2:], errors="backslashreplace").to_pylist() == [None, "\\xff"]
    with pytest.raises(UnicodeDecodeError, match="in row 2 of the column; errors='replace' takes it"):
        enc.decode_arrow(column, errors="strict")
    assert enc.decode_arrow(ids[:1], errors="strict").to_pylist() == ["ok"]
    with pytest.raises(LookupError, match="unknown error handler"):
        enc.decode_arrow(ids, errors="guess")
    for name in ("output", "unknown"):
        with pytest.raises(ValueError, match=f"{name} is 'guess'; give one of"):
            enc.decode_arrow(ids, **{name: "guess"})  # type: ignore[arg-type]


# ---- encodings with a front ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fronts() -> list[Encoding]:
    """Give encodings that change a text before they split it: added tokens, a normalizer, a prefix, a slow split."""
    added = [AddedToken("the", normalized=False), AddedToken("<s>", special=True)]
    tokenizers = [hf.build(added=added), hf.build(normalizer=normalizers.NFC(), added=added), hf.with_everything()]
    made = [Encoding.from_huggingface(tokenizer) for tokenizer in tokenizers]
    slow = Encoding.from_huggingface(hf.build(hf.SLOW_PRE_TOKENIZERS["punctuation"]()), slow_split=True)
    return [*made, slow]


def test_fronts(fronts: list[Encoding]) -> None:
    """A tokenizer.json of any kind gives the ids of its single texts."""
    rows: list[Row] = [None, *hf.random_texts(3, 20 if JIT_OFF else 200), "", None, "the <s> e\u0301x\u212b the"]
    for enc in fronts:
        assert enc._front
        for kind in (pa.string(), pa.large_binary(), pa.string_view(), DICTIONARIES[2], RUNS[1]):
            array = made(rows, kind)
            check(enc, array, rows)
            check(enc, pa.chunked_array([array[:5], array[3:]]), [*rows[:5], *rows[3:]], threads=[1])
        found = enc.encode_arrow(pa.array(rows), bos="<s>" if "<s>" in enc.special_tokens_set else 5, max_tokens=4)
        assert [row and row[1:] for row in found.to_pylist()] == [row and row[:3] for row in expected(enc, rows)]


def test_fronts_truncate(fronts: list[Encoding]) -> None:
    """Where the first ids are those of a beginning of the text, that is what is left; else the row is refused."""
    rows: list[Row] = ["the same words", None, "no more", "中文 <s>"]
    plain_front, normalizing, everything, slow = fronts
    for enc in (plain_front, normalizing, slow):
        for most in range(6):
            assert enc.truncate_arrow(pa.array(rows), most).to_pylist() == [shortened(enc, row, most) for row in rows]
    changed = pa.chunked_array([rows, ["fine", "e\u0301 more"]])
    with pytest.raises(ValueError, match="the column: row 5: the encoding changes this text before it splits it"):
        normalizing.truncate_arrow(changed, 3)
    with pytest.raises(ValueError, match="the column: row 0: the encoding changes"):
        everything.truncate_arrow(pa.array(rows), 3)


@pytest.mark.skipif(JIT_OFF, reason="entering large vocabularies into new caches takes a minute then")
def test_other_encodings() -> None:
    """The embedded encodings, with ids above 16 bits and specials by name."""
    for name, special in (("cl100k_base", "<|fim_prefix|>"), ("o200k_base", "<|endofprompt|>"), ("p50k_edit", None)):
        enc = numbatok.get_encoding(name)
        check(enc, pa.array(TEXTS), TEXTS)
        ids = enc.encode_arrow(pa.array(["hello"]), eos=special)
        assert ids.to_pylist() == [enc.encode(f"hello{special or ''}", allowed_special="all")]


# ---- Ragged ----------------------------------------------------------------------------------------------------------


def test_ragged_speaks_arrow(enc: Encoding) -> None:
    """A flat batch is a list array for all who ask, in place; it stays the named tuple, with rows as views."""
    ragged = enc.encode_batch_flat(["hello world", "", "x"])
    rows = expected(enc, ["hello world", "", "x"])
    assert ragged.to_pylist() == rows
    assert ragged.num_rows == 3
    for found in (ragged.to_arrow(), pa.array(ragged), pa.chunked_array(ragged).chunk(0)):
        found.validate(full=True)
        assert found.type == pa.list_(pa.uint32())
        assert found.to_pylist() == rows
        assert found.values.buffers()[1].address == ragged.tokens.ctypes.data
    tokens, offsets = ragged
    assert (tokens is ragged.tokens, offsets is ragged.offsets) == (True, True)
    assert all(np.shares_memory(row, tokens) for row in ragged.rows() if len(row))
    assert [row.tolist() for row in ragged.rows(1, 3)] == rows[1:]
    assert [row.tolist() for row in ragged.rows(-1)] == rows[-1:]
    assert [ragged.row_at(index) for index in range(len(tokens))] == [0, 0, 2]
    with pytest.raises(IndexError, match="row 3 is not one of 3 rows"):
        ragged.row(3)
    empty = enc.encode_batch_flat([])
    assert (empty.to_pylist(), empty.num_rows, empty.to_arrow().to_pylist()) == ([], 0, [])


def test_ragged_gives_the_schema_that_is_asked_for(enc: Encoding) -> None:
    """A consumer may ask for another type, as Arrow's interface has it."""
    ragged = enc.encode_batch_flat(["hello world", "x"])
    wanted = pa.large_list(pa.int64())
    assert pa.array(ragged, wanted).type == wanted
    schema, array = ragged.__arrow_c_array__(wanted.__arrow_c_schema__())
    assert pa.Array._import_from_c_capsule(schema, array).type == wanted
    stream = ragged.__arrow_c_stream__(wanted.__arrow_c_schema__())
    assert pa.ChunkedArray._import_from_c_capsule(stream).type == wanted


# ---- framing ---------------------------------------------------------------------------------------------------------


def test_frame_writes_within_its_rows() -> None:
    """Rows of all sizes, framed by all sizes, against slices of lists."""
    rng = np.random.default_rng(1)
    sizes = np.array([0, 1, 2, 3, 7, 0, 17, 64, 0])
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    ragged = Ragged(rng.integers(0, 1 << 32, int(offsets[-1]), np.uint32), offsets)
    skip = np.array([0, 1, 0, 0, 0, 1, 0, 0, 0], bool)
    for head, tail, most in itertools.product(range(4), range(4), [None, 6, 9, 70]):
        frame = Frame.checked(list(range(head)), list(range(100, 100 + tail)), most)
        found = frame.put(ragged, skip).to_pylist()
        room = None if most is None else most - head - tail
        rows = [[*frame.before, *row[:room], *frame.behind] for row in ragged.to_pylist()]
        assert found == [[] if skipped else row for row, skipped in zip(rows, skip, strict=True)]
        assert frame.put(ragged).to_pylist() == rows


# ---- random columns --------------------------------------------------------------------------------------------------


@st.composite
def columns(draw: st.DrawFn) -> tuple[Any, list[Row]]:
    """Give a column of a random type, cut into random slices as chunks, with the rows that it holds."""
    kind = draw(st.sampled_from(TYPES))
    storage = kind.storage_type if isinstance(kind, pa.ExtensionType) else kind
    values = storage.value_type if storage not in FLAT else storage
    binary = values in FLAT[3:] and draw(st.booleans())
    fragment = st.sampled_from(["hello", " world", "'s", "\n\n", " 12", "中文", "🤚🏾", "é", "  "])
    text = st.lists(fragment, max_size=6).map("".join) | st.text(max_size=5)
    data = st.binary(max_size=8) if binary else text.map(str.encode) if values in FLAT[3:] else text
    rows = draw(st.lists(st.none() | data, max_size=20))
    array = made(rows, kind)
    if draw(st.booleans()):
        return array, rows
    cut = st.tuples(st.integers(0, len(rows)), st.integers(0, len(rows))).map(sorted)
    cuts = draw(st.lists(cut, max_size=4))
    chunks = pa.chunked_array([array[first:last] for first, last in cuts], kind)
    return chunks, [row for first, last in cuts for row in rows[first:last]]


@given(columns(), st.sampled_from([1, 2]), st.sampled_from(["null", "empty"]))
def test_random_columns(enc: Encoding, column: tuple[Any, list[Row]], threads: int, null: Any) -> None:
    """Any column gives the ids of its rows, their numbers, and its bytes back."""
    held, rows = column
    want = [[] if row is None and null == "empty" else row for row in expected(enc, rows)]
    ids = enc.encode_arrow(held, null=null, threads=threads)
    ids.validate(full=True)
    assert ids.to_pylist() == want
    assert enc.count_arrow(held, null=null, threads=threads).to_pylist() == [
        row if row is None else len(row) for row in want
    ]
    text = enc.decode_arrow(ids, output="binary")
    text.validate(full=True)
    given_bytes = [row.encode() if isinstance(row, str) else row for row in rows]
    assert text.to_pylist() == [b"" if row is None and null == "empty" else row for row in given_bytes]
