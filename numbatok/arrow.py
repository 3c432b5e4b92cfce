"""Encodings where columns live: functions for pyarrow, DuckDB and DataFusion, and a mapper for Hugging Face datasets.

Each adapter is a few lines around ``encode_arrow`` and ``count_arrow``; its library is imported when it is called.
Other libraries need none: give their columns to the methods of the encoding (pandas, nanoarrow), or see polars.py.
Invariant: the ids are those of ``encode_ordinary``; a null gives a null.

    >>> import duckdb, numbatok
    >>> connection = duckdb.connect()
    >>> duckdb_function(connection, numbatok.get_encoding("gpt2"))
    >>> connection.sql("select numbatok_encode('hello world')").fetchall()
    [([31373, 995],)]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from numbatok.encoding import Encoding

Action = Literal["encode", "count"]
ColumnFunction = Callable[[Any], pa.Array | pa.ChunkedArray]

DUCKDB_TYPES = {
    pa.uint32(): "UINTEGER",
    pa.list_(pa.uint32()): "UINTEGER[]",
    pa.list_(pa.uint16()): "USMALLINT[]",
    pa.list_(pa.int32()): "INTEGER[]",
}


def column_function(enc: Encoding, action: Action, options: dict[str, Any]) -> tuple[ColumnFunction, pa.DataType]:
    """Give the function of a column of text that an action stands for, and the type of what it gives.

    Args:
        enc: the encoding.
        action: "encode" or "count".
        options: more arguments of :meth:`~numbatok.Encoding.encode_arrow` or :meth:`~numbatok.Encoding.count_arrow`.

    Raises:
        ValueError: there is no such action.

    """
    if action == "encode":
        value = pa.from_numpy_dtype(np.dtype(options.get("dtype", np.uint32)))
        return lambda column: enc.encode_arrow(column, **{"output": "list", **options}), pa.list_(value)
    if action == "count":
        return lambda column: enc.count_arrow(column, **options), pa.uint32()
    raise ValueError(f'action is {action!r}; give "encode" or "count"')


def register(
    enc: Encoding,
    name: str | None = None,
    *,
    action: Action = "encode",
    text_type: pa.DataType | None = None,
    **options: Any,
) -> None:
    """Register an encoding as a scalar function of pyarrow, which scans of datasets can call.

    Args:
        enc: the encoding.
        name: the name of the function; "numbatok_encode" or "numbatok_count" by default. pyarrow takes each name once.
        action: "encode" or "count".
        text_type: the type of the column, string by default; pyarrow calls a function for this very type only, so give
            another name for another type.
        options: more arguments of ``encode_arrow`` or ``count_arrow``.

    >>> import numbatok, pyarrow as pa, pyarrow.dataset as ds
    >>> register(numbatok.get_encoding("gpt2"), "gpt2_ids")
    >>> dataset = ds.dataset(pa.table({"text": ["hello world", None]}))
    >>> ids = ds.field("text")._call("gpt2_ids", [ds.field("text")])
    >>> dataset.to_table(columns={"ids": ids})["ids"].to_pylist()
    [[31373, 995], None]

    """
    import pyarrow.compute as pc

    function, result = column_function(enc, action, options)
    about = {"summary": f"{action} with {enc.name}", "description": f"numbatok: {action}_arrow of {enc!r}"}
    text = {"text": text_type or pa.string()}
    pc.register_scalar_function(lambda _, column: function(column), name or f"numbatok_{action}", about, text, result)


def duckdb_function(
    connection: Any, enc: Encoding, name: str | None = None, *, action: Action = "encode", **options: Any
) -> None:
    """Register an encoding as a function of DuckDB, over columns of VARCHAR.

    Args:
        connection: the connection of DuckDB that will know the function.
        enc: the encoding.
        name: the name of the function; "numbatok_encode" or "numbatok_count" by default.
        action: "encode" or "count".
        options: more arguments of ``encode_arrow`` or ``count_arrow``.

    >>> import duckdb, numbatok
    >>> connection = duckdb.connect()
    >>> duckdb_function(connection, numbatok.get_encoding("gpt2"), "tokens", action="count")
    >>> connection.sql("select tokens(t) from (values ('hello world'), (null)) rows(t)").fetchall()
    [(2,), (None,)]

    """
    function, result = column_function(enc, action, options)
    kind, name = DUCKDB_TYPES[result], name or f"numbatok_{action}"
    connection.create_function(name, function, ["VARCHAR"], kind, type="arrow", null_handling="special")


def datafusion_udf(enc: Encoding, name: str | None = None, *, action: Action = "encode", **options: Any) -> Any:
    """Give an encoding as a scalar function of DataFusion, over columns of any string type.

    Args:
        enc: the encoding.
        name: the name of the function; "numbatok_encode" or "numbatok_count" by default.
        action: "encode" or "count".
        options: more arguments of ``encode_arrow`` or ``count_arrow``.

    >>> import datafusion, numbatok, pyarrow as pa
    >>> context = datafusion.SessionContext()
    >>> context.register_udf(datafusion_udf(numbatok.get_encoding("gpt2")))
    >>> frame = context.from_arrow(pa.table({"text": ["hello world", None]}), "docs")
    >>> context.sql("select numbatok_encode(text) as ids from docs").to_pydict()
    {'ids': [[31373, 995], None]}

    """
    import datafusion

    function, result = column_function(enc, action, options)
    return datafusion.udf(function, [pa.string_view()], result, "immutable", name or f"numbatok_{action}")


class Mapper:
    """What ``map`` of Hugging Face datasets calls to add a column of ids, or of their numbers.

    It pickles small, to the same bytes in every process, so datasets finds in its cache what was made before.

    Args:
        enc: the encoding.
        column: the name of the column of text.
        into: the name of the column of ids; one of this name is replaced.
        action: "encode" or "count".
        options: more arguments of ``encode_arrow`` or ``count_arrow``.

    >>> import datasets, numbatok
    >>> data = datasets.Dataset.from_dict({"text": ["hello world", None]}).with_format("arrow")
    >>> mapper = Mapper(numbatok.get_encoding("gpt2"), "text", "ids")
    >>> data.map(mapper, batched=True).with_format(None)["ids"][:]
    [[31373, 995], None]

    """

    def __init__(self, enc: Encoding, column: str, into: str, *, action: Action = "encode", **options: Any) -> None:
        self.enc, self.column, self.into, self.action, self.options = enc, column, into, action, options
        column_function(enc, action, options)  # complains here, not in a worker

    def __call__(self, table: pa.Table) -> pa.Table:
        """Give the table with the column of ids.

        Raises:
            TypeError: this is no table of pyarrow.

        """
        if not isinstance(table, pa.Table):
            raise TypeError(
                f'a table of pyarrow is wanted and {type(table).__name__} was given; call data.with_format("arrow")'
                ".map(mapper, batched=True)"
            )
        function, _ = column_function(self.enc, self.action, self.options)
        made = function(table.select([self.column]))
        if self.into in table.column_names:
            return table.set_column(table.column_names.index(self.into), self.into, made)
        return table.append_column(self.into, made)
