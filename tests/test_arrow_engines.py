"""Columns in the libraries where they live: pyarrow datasets, pandas, polars, DuckDB, DataFusion, nanoarrow, datasets.

Invariant: each real library gives the ids of the single texts, for nulls and empty texts too; the examples of
docs/arrow.md run. A library that is not installed is a skip that names it: all come with ``numbatok[test]``.

    assert pl.DataFrame({"text": TEXTS}).select(pl.col("text").numbatok.encode()).to_series().to_list() == IDS
"""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
import uuid
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from cases import JIT_OFF

import numbatok
from numbatok import Encoding, Ragged
from numbatok.arrow import Mapper, column_function, datafusion_udf, duckdb_function, register
from numbatok.ragged import Rows

ROOT = Path(__file__).parent.parent
LIBRARIES = ("pandas", "polars", "duckdb", "datafusion", "nanoarrow", "datasets")
TEXTS = ["hello world", None, "", "naïve 中文 🤚🏾", "It's 12  o'clock\n\n", "a text of more than twelve bytes"]
MANY = 50 if JIT_OFF else 3_000
"""Times that the texts are repeated where an engine cuts a column into batches."""


def library(name: str) -> ModuleType:
    """Import a library, or skip the test."""
    found: ModuleType = pytest.importorskip(name, reason=f"{name} is not installed; it comes with numbatok[test]")
    return found


@pytest.fixture(scope="module")
def ids() -> list[list[int] | None]:
    """Give the ids of each text alone."""
    enc = numbatok.get_encoding("gpt2")
    return [None if text is None else enc.encode_ordinary(text) for text in TEXTS]


@pytest.fixture(scope="module")
def sizes(ids: list[list[int] | None]) -> list[int | None]:
    """Give the number of ids of each text."""
    return [None if row is None else len(row) for row in ids]


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    """Give a Parquet file of several row groups."""
    path = tmp_path / "texts.parquet"
    table = pa.table({"text": TEXTS * MANY, "row": range(len(TEXTS) * MANY)})
    pq.write_table(table, path, row_group_size=len(table) // 5)
    return path


# ---- pyarrow ---------------------------------------------------------------------------------------------------------


def name() -> str:
    """Give a name that no function has: pyarrow takes each name once in a process."""
    return f"numbatok_{uuid.uuid4().hex}"


def call(function: str, field: str = "text") -> Any:
    """Give the expression of a dataset that calls a function."""
    return ds.field(field)._call(function, [ds.field(field)])


def test_pyarrow_dataset(enc: Encoding, parquet: Path, ids: list[Any], sizes: list[Any]) -> None:
    """A scan calls the function batch by batch, in its threads; it can filter by the numbers of ids."""
    encode, count = name(), name()
    register(enc, encode)
    register(enc, count, action="count")
    dataset = ds.dataset(parquet)
    columns = {"text": ds.field("text"), "ids": call(encode), "count": call(count)}
    table = dataset.to_table(columns=columns, batch_size=777)
    assert table["ids"].type == pa.list_(pa.uint32())
    assert table["count"].type == pa.uint32()
    assert table["ids"].to_pylist() == ids * MANY
    assert table["count"].to_pylist() == sizes * MANY
    long = dataset.to_table(columns={"text": ds.field("text")}, filter=call(count) > 2)
    assert long["text"].to_pylist() == [text for text in TEXTS if text and len(enc.encode(text)) > 2] * MANY


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.binary()], ids=str)
def test_pyarrow_function(enc: Encoding, kind: pa.DataType, ids: list[Any]) -> None:
    """Arrays, chunked arrays and scalars, of the type that was registered, with the options that were given."""
    function = name()
    register(enc, function, text_type=kind, dtype="int32", eos="<|endoftext|>")
    array = pa.array(TEXTS, kind)
    rows = [None if row is None else [*row, enc.eot_token] for row in ids]
    found = pc.call_function(function, [array[1:]])
    found.validate(full=True)
    assert (found.type, found.to_pylist()) == (pa.list_(pa.int32()), rows[1:])
    assert pc.call_function(function, [pa.chunked_array([array[:2], array[2:]])]).to_pylist() == rows
    assert pc.call_function(function, [pa.scalar("hello world", kind)]).as_py() == rows[0]


def test_pyarrow_names(enc: Encoding) -> None:
    """A name is taken once, and a type that was not registered is refused, by pyarrow."""
    register(enc)  # the default names, which no other test takes
    register(enc, action="count")
    assert pc.call_function("numbatok_encode", [pa.array(["a"])]).to_pylist() == [[64]]
    assert pc.call_function("numbatok_count", [pa.array(["a"])]).to_pylist() == [1]
    with pytest.raises(pa.ArrowKeyError, match="Already have a function registered with name: numbatok_encode"):
        register(enc)
    with pytest.raises(pa.ArrowNotImplementedError, match="no kernel matching input types"):
        pc.call_function("numbatok_encode", [pa.array(["a"], pa.large_string())])
    with pytest.raises(ValueError, match='action is \'decode\'; give "encode" or "count"'):
        column_function(enc, "decode", {})  # type: ignore[arg-type]


def test_pyarrow_memory_map(enc: Encoding, tmp_path: Path) -> None:
    """Text of an IPC file that is mapped into memory is encoded where it lies, and nothing is read into Arrow's."""
    table = pa.table({"text": ["hello world, and more"] * 60_000})
    with pa.OSFile(str(tmp_path / "texts.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pa.memory_map(str(tmp_path / "texts.arrow")) as source:
        column = pa.ipc.open_file(source).read_all()["text"]
        before = pa.total_allocated_bytes()
        found = enc.encode_arrow(column)
        assert pa.total_allocated_bytes() == before
        assert found.chunk(0)[-1].as_py() == enc.encode("hello world, and more")
        del column


# ---- pandas ----------------------------------------------------------------------------------------------------------


def test_pandas(enc: Encoding, ids: list[Any], sizes: list[Any]) -> None:
    """A series of the default string type, of ArrowDtype and of categories; slices of it; a frame of one column."""
    pd = library("pandas")
    for kind in (None, pd.ArrowDtype(pa.string()), pd.ArrowDtype(pa.string_view()), "category", "string", object):
        series = pd.Series(TEXTS, dtype=kind, name="text")
        assert enc.encode_arrow(series).to_pylist() == ids
        assert enc.encode_arrow(series[2:]).to_pylist() == ids[2:]
        assert enc.count_arrow(pd.DataFrame({"text": series})).to_pylist() == sizes
    frame = pd.DataFrame({"text": TEXTS})
    frame["ids"] = pd.Series(enc.encode_arrow(frame["text"]), dtype=pd.ArrowDtype(pa.list_(pa.uint32())))
    frame["count"] = pd.Series(enc.count_arrow(frame["text"]), dtype=pd.ArrowDtype(pa.uint32()))
    assert frame["count"].sum() == sum(size or 0 for size in sizes)
    assert enc.decode_arrow(frame["ids"]).to_pylist() == TEXTS
    with pytest.raises(ValueError, match="column 'text': row 1 is null"):
        enc.encode_arrow(frame["text"], null="error")
    with pytest.raises(TypeError, match="a table of 3 columns was given"):
        enc.encode_arrow(frame)


def test_pandas_in_place(enc: Encoding, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel reads the memory of the series."""
    pd = library("pandas")
    seen = []
    encode = Encoding._encode_rows

    def spy(self: Encoding, rows: Rows, threads: int | None) -> Ragged:
        seen.append(rows.base)
        return encode(self, rows, threads)

    monkeypatch.setattr(Encoding, "_encode_rows", spy)
    series = pd.Series(["hello world"] * 100_000, dtype=pd.ArrowDtype(pa.string()))
    enc.encode_arrow(series)
    assert seen == [series.array.__arrow_array__().chunk(0).buffers()[2].address]


# ---- polars ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def pl() -> ModuleType:
    """Give polars, with the namespace."""
    found = library("polars")
    import numbatok.polars

    assert numbatok.polars.pl is found
    return found


def test_polars_series(pl: Any, enc: Encoding, ids: list[Any], sizes: list[Any]) -> None:
    """A series of any type of text gives a series of its name."""
    kinds = [pl.String, pl.Binary, pl.Categorical, pl.Enum(sorted({text for text in TEXTS if text is not None}))]
    for kind in kinds:
        series = pl.Series("text", TEXTS, pl.String).cast(kind)
        found = series.numbatok.encode(enc)
        assert (found.name, found.dtype, found.to_list()) == ("text", pl.List(pl.UInt32), ids)
        assert series[2:].numbatok.encode(enc).to_list() == ids[2:]
        counts = series.numbatok.count(enc)
        assert (counts.name, counts.dtype, counts.to_list()) == ("text", pl.UInt32, sizes)
        assert enc.encode_arrow(series).to_pylist() == ids
    assert pl.concat([series[:2], series[2:]], rechunk=False).numbatok.encode(enc).to_list() == ids
    found = pl.Series(["hello world"]).numbatok.encode("cl100k_base", dtype=np.int32, eos=7)
    assert (found.dtype, found.to_list()) == (pl.List(pl.Int32), [[15339, 1917, 7]])
    assert pl.Series([None], dtype=pl.Null).numbatok.encode().to_list() == [None]
    empty = pl.Series("text", [], pl.String).numbatok.encode()
    assert (empty.dtype, empty.to_list()) == (pl.List(pl.UInt32), [])
    with pytest.raises(TypeError, match="column 'text' is of type int64"):
        pl.Series("text", [1]).numbatok.encode()
    with pytest.raises(ValueError, match="Unknown encoding"):
        pl.Series(["a"]).numbatok.encode("guess")


def test_polars_back(pl: Any, ids: list[Any]) -> None:
    """Ids give text, as lists and as arrays of one length; text can be cut."""
    series = pl.Series("ids", ids)
    assert series.numbatok.decode().to_list() == TEXTS
    binary = series.numbatok.decode(output="binary")
    assert (binary.dtype, binary[0]) == (pl.Binary, b"hello world")
    assert pl.Series([[31373, 995]], dtype=pl.Array(pl.UInt16, 2)).numbatok.decode().to_list() == ["hello world"]
    cut = pl.Series(TEXTS).numbatok.truncate(1)
    assert (cut.dtype, cut.to_list()[:3]) == (pl.String, ["hello", None, ""])


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_polars_lazy(pl: Any, parquet: Path, engine: str, ids: list[Any], sizes: list[Any]) -> None:
    """Expressions in both engines, with the schema known before anything runs."""
    column = pl.col("text").numbatok
    query = pl.scan_parquet(parquet).select(
        pl.col("row"),
        ids=column.encode(),
        small=column.encode(dtype="uint16", max_tokens=2),
        count=column.count(),
        back=column.encode().numbatok.decode(),
        cut=column.truncate(2),
    )
    schema = query.collect_schema()
    assert schema["ids"] == pl.List(pl.UInt32)
    found = query.collect(engine=engine).sort("row")
    assert found.schema == schema
    assert found["ids"].to_list() == ids * MANY
    assert found["small"].to_list() == [row and row[:2] for row in ids] * MANY
    assert found["count"].to_list() == sizes * MANY
    assert found["back"].to_list() == TEXTS * MANY
    assert found["cut"].to_list()[0] == "hello world"
    many = pl.scan_parquet(parquet).filter(pl.col("text").numbatok.count() > 2).collect(engine=engine)
    assert len(many) == MANY * sum((size or 0) > 2 for size in sizes)


def test_polars_groups(pl: Any, ids: list[Any]) -> None:
    """In groups and windows an expression still works row by row."""
    frame = pl.DataFrame({"text": TEXTS, "group": [0, 1, 0, 1, 0, 1]})
    found = frame.group_by("group", maintain_order=True).agg(pl.col("text").numbatok.encode())
    assert found["text"].to_list() == [ids[0::2], ids[1::2]]
    sums = frame.with_columns(total=pl.col("text").numbatok.count().sum().over("group"))["total"]
    assert sums[:2].to_list() == [sum(len(row or []) for row in ids[start::2]) for start in (0, 1)]


# ---- DuckDB ----------------------------------------------------------------------------------------------------------


def test_duckdb(enc: Encoding, parquet: Path, ids: list[Any], sizes: list[Any]) -> None:
    """Functions over a Parquet file, a table, a constant; a relation is a column."""
    duckdb = library("duckdb")
    connection = duckdb.connect()
    duckdb_function(connection, enc)
    duckdb_function(connection, enc, action="count")
    duckdb_function(connection, enc, "small", dtype="uint16", null="empty")
    duckdb_function(connection, enc, "signed", dtype="int32", eos=7)
    query = f"select numbatok_encode(text) as ids, numbatok_count(text) as n from '{parquet}' order by row"
    found = connection.sql(query)
    assert [str(kind) for kind in found.types] == ["UINTEGER[]", "UINTEGER"]
    rows = found.fetchall()
    assert [row for row, _ in rows] == ids * MANY
    assert [size for _, size in rows] == sizes * MANY
    connection.execute("create table texts (text varchar)")
    connection.executemany("insert into texts values (?)", [[text] for text in TEXTS])
    assert [row for (row,) in connection.sql("select small(text) from texts").fetchall()] == [row or [] for row in ids]
    assert connection.sql("select signed('hello world'), numbatok_encode(null)").fetchall() == [([31373, 995, 7], None)]
    assert enc.encode_arrow(connection.sql("select text as name from texts")).to_pylist() == ids
    assert enc.decode_arrow(connection.sql("select numbatok_encode(text) as ids from texts")).to_pylist() == TEXTS
    with pytest.raises(TypeError, match="a table of 2 columns"):
        enc.encode_arrow(connection.sql("select text, 1 as one from texts"))
    connection.close()


# ---- DataFusion ------------------------------------------------------------------------------------------------------


def test_datafusion(enc: Encoding, parquet: Path, ids: list[Any], sizes: list[Any]) -> None:
    """Functions in SQL and in expressions; a frame is a column."""
    datafusion = library("datafusion")
    context = datafusion.SessionContext()
    context.register_udf(datafusion_udf(enc))
    context.register_udf(datafusion_udf(enc, action="count"))
    context.register_parquet("texts", str(parquet))
    query = "select numbatok_encode(text) as ids, numbatok_count(text) as n from texts order by row"
    found = pa.table(context.sql(query))
    assert found.schema.types == [pa.list_(pa.uint32()), pa.uint32()]
    assert found["ids"].to_pylist() == ids * MANY
    assert found["n"].to_pylist() == sizes * MANY
    small = datafusion_udf(enc, "small", dtype="uint16", max_tokens=1)
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        frame = context.from_arrow(pa.table({"text": pa.array(TEXTS, kind)}))
        made = frame.select(small(datafusion.col("text")).alias("ids")).to_pydict()["ids"]
        assert made == [row and row[:1] for row in ids]
        assert enc.encode_arrow(frame).to_pylist() == ids


# ---- nanoarrow -------------------------------------------------------------------------------------------------------


def test_nanoarrow(enc: Encoding, ids: list[Any]) -> None:
    """Arrays of one chunk and of several, slices, streams, and arrays made from our results."""
    na = library("nanoarrow")
    one = na.Array(pa.array(TEXTS))
    several = na.Array.from_chunks([one, na.Array(pa.array(TEXTS[:2]))])
    assert enc.encode_arrow(one).to_pylist() == ids
    assert enc.encode_arrow(several).to_pylist() == [*ids, *ids[:2]]
    assert enc.encode_arrow(na.ArrayStream(pa.chunked_array([TEXTS]))).to_pylist() == ids
    assert enc.encode_arrow(na.c_array(pa.array(TEXTS)[2:])).to_pylist() == ids[2:]
    ragged = enc.encode_batch_flat([text or "" for text in TEXTS])
    assert na.Array(ragged).to_pylist() == [row or [] for row in ids]
    assert na.Array(enc.count_arrow(one)).to_pylist() == [row if row is None else len(row) for row in ids]


# ---- Hugging Face datasets -------------------------------------------------------------------------------------------

SCRIPT = """
import sys
import datasets, numbatok
from datasets.fingerprint import Hasher
from numbatok.arrow import Mapper
encodings = [numbatok.get_encoding("gpt2"), numbatok.Encoding.from_huggingface(sys.argv[1])]
ranks, special = {bytes([b]): b for b in range(256)}, {"<s>": 256, "<t>": 257}
pattern = encodings[0]._pat_str
encodings.append(numbatok.Encoding("own", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special))
encodings[1].encode_ordinary("used before")
for enc in encodings:
    data = datasets.Dataset.from_dict({"text": ["a", None]}).with_format("arrow")
    print(Hasher.hash(Mapper(enc, "text", "ids", eos="<s>" if enc is encodings[2] else None)))
    print(data.map(Mapper(enc, "text", "ids"), batched=True)._fingerprint)
"""


@pytest.fixture
def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give the library, with caches in a folder of the test and no bars."""
    found = library("datasets")
    monkeypatch.setattr(found.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    found.disable_progress_bars()
    return found


def test_datasets(datasets: Any, enc: Encoding, tmp_path: Path, ids: list[Any], sizes: list[Any]) -> None:
    """A map over a dataset on disk, cached: the second one calls nothing."""
    datasets.Dataset.from_dict({"text": TEXTS * 10}).save_to_disk(tmp_path / "data")
    data = datasets.load_from_disk(tmp_path / "data").with_format("arrow")
    found = data.map(Mapper(enc, "text", "ids"), batched=True, batch_size=7)
    assert found.features["ids"] == datasets.List(datasets.Value("uint32"))
    assert found.with_format(None)["ids"][:] == ids * 10
    assert found.with_format(None)["text"][:] == TEXTS * 10
    counts = found.map(Mapper(enc, "text", "count", action="count"), batched=True)
    assert counts.with_format(None)["count"][:] == sizes * 10
    again = counts.map(Mapper(enc, "text", "ids", dtype="int32"), batched=True)  # in place of those that are there
    assert again.column_names == ["text", "ids", "count"]
    assert again.features["ids"] == datasets.List(datasets.Value("int32"))
    calls: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Encoding, "encode_arrow", lambda *arguments, **options: calls.append(arguments))
        cached = data.map(Mapper(enc, "text", "ids"), batched=True, batch_size=7)
    assert not calls
    assert cached._fingerprint == found._fingerprint


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_datasets_in_processes(datasets: Any, enc: Encoding, tmp_path: Path, ids: list[Any]) -> None:
    """Two processes give the same, forked after this one has encoded in parallel."""
    enc.encode_batch_flat(["some words"] * 50_000)
    datasets.Dataset.from_dict({"text": TEXTS * MANY}).save_to_disk(tmp_path / "data")
    data = datasets.load_from_disk(tmp_path / "data").with_format("arrow")
    found = data.map(Mapper(enc, "text", "ids"), batched=True, num_proc=2)
    assert found.with_format("arrow")["ids"][:].to_pylist() == ids * MANY


def test_datasets_mistakes(datasets: Any, enc: Encoding) -> None:
    """A map without Arrow's format says what to call; a wrong action or column is named."""
    data = datasets.Dataset.from_dict({"text": [1]})
    with pytest.raises(TypeError, match=r'call data\.with_format\("arrow"\)\.map\(mapper, batched=True\)'):
        data.map(Mapper(enc, "text", "ids"), batched=True)
    with pytest.raises(TypeError, match="column 'text' is of type int64"):
        data.with_format("arrow").map(Mapper(enc, "text", "ids"), batched=True)
    with pytest.raises(ValueError, match="action is 'decode'"):
        Mapper(enc, "text", "ids", action="decode")  # type: ignore[arg-type]


def test_fingerprints_are_stable(tmp_path: Path) -> None:
    """Two processes with other hash seeds give a mapper the same hash, for encodings of every origin."""
    library("datasets")
    hf = pytest.importorskip("hf", reason="tokenizers is not installed; it comes with numbatok[test]")
    (tmp_path / "tokenizer.json").write_text(hf.with_everything().to_str(), "utf-8")
    told = []
    for seed in ("1", "2"):
        settings = dict(os.environ) | {"PYTHONHASHSEED": seed, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / "tokenizer.json")]
        ran = subprocess.run(command, env=settings, capture_output=True, text=True, check=True, timeout=180)
        told.append(ran.stdout.split())
    assert told[0] == told[1]
    assert len(set(told[0])) == 6


# ---- the page --------------------------------------------------------------------------------------------------------


def test_examples_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each example gives what it says."""
    for needed in LIBRARIES:
        library(needed)
    library("datasets").disable_progress_bars()
    monkeypatch.chdir(tmp_path)
    tried = doctest.testfile(
        str(ROOT / "docs" / "arrow.md"), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert tried.attempted > 20
    assert tried.failed == 0
