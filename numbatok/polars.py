"""Encodings in polars: importing this module gives every expression and series a namespace ``numbatok``.

Invariant: an expression works in every engine of polars, lazy and streaming, batch by batch, and so does a series; the
ids are those of ``encode_ordinary``, a null gives a null.

    >>> import polars as pl
    >>> import numbatok.polars
    >>> frame = pl.DataFrame({"text": ["hello world", None]})
    >>> frame.select(pl.col("text").numbatok.encode()).to_series().to_list()
    [[31373, 995], None]
    >>> frame["text"].numbatok.count("o200k_base").to_list()
    [2, None]
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np
import polars as pl
import pyarrow as pa

from numbatok.encoding import Encoding
from numbatok.registry import get_encoding

Column = TypeVar("Column", pl.Expr, pl.Series)
ID_TYPES = {"uint32": pl.UInt32, "uint16": pl.UInt16, "int32": pl.Int32}


class Namespace(Generic[Column]):
    """The methods of both namespaces; each takes an encoding or its name, and more arguments of the method it calls."""

    def __init__(self, column: Column) -> None:
        self._column: Column = column

    def encode(self, encoding: Encoding | str = "gpt2", **options: Any) -> Column:
        """Encode text to lists of ids; for ``options`` see :meth:`~numbatok.Encoding.encode_arrow`.

        >>> pl.Series(["hello world"]).numbatok.encode(eos="<|endoftext|>").to_list()
        [[31373, 995, 50256]]
        """
        kind = ID_TYPES.get(np.dtype(options.get("dtype", np.uint32)).name)  # encode_arrow refuses the others
        call = functools.partial(_encoding(encoding).encode_arrow, **{"output": "large_list", **options})
        return self._map(call, pl.List(kind or pl.UInt32))

    def count(self, encoding: Encoding | str = "gpt2", **options: Any) -> Column:
        """Count ids; for ``options`` see :meth:`~numbatok.Encoding.count_arrow`.

        >>> pl.Series(["hello world", ""]).numbatok.count().to_list()
        [2, 0]
        """
        return self._map(functools.partial(_encoding(encoding).count_arrow, **options), pl.UInt32())

    def decode(self, encoding: Encoding | str = "gpt2", **options: Any) -> Column:
        """Decode lists of ids to text; for ``options`` see :meth:`~numbatok.Encoding.decode_arrow`.

        >>> pl.Series([[31373, 995]]).numbatok.decode().to_list()
        ['hello world']
        """
        kind = pl.Binary() if options.get("output") == "binary" else pl.String()
        return self._map(functools.partial(_encoding(encoding).decode_arrow, **options), kind)

    def truncate(self, max_tokens: int, encoding: Encoding | str = "gpt2", **options: Any) -> Column:
        """Cut text behind its first ``max_tokens`` ids; see :meth:`~numbatok.Encoding.truncate_arrow`.

        >>> pl.Series(["hello world, and more"]).numbatok.truncate(2).to_list()
        ['hello world']
        """
        call = functools.partial(_encoding(encoding).truncate_arrow, max_tokens=max_tokens, **options)
        return self._map(call, pl.String())

    def _map(self, call: Callable[[Any], Any], kind: pl.DataType) -> Column:
        raise NotImplementedError


@pl.api.register_series_namespace("numbatok")
class SeriesNamespace(Namespace[pl.Series]):
    """``series.numbatok``."""

    def _map(self, call: Callable[[Any], Any], kind: pl.DataType) -> pl.Series:
        return _called(call, self._column)


@pl.api.register_expr_namespace("numbatok")
class ExprNamespace(Namespace[pl.Expr]):
    """``pl.col("text").numbatok``."""

    def _map(self, call: Callable[[Any], Any], kind: pl.DataType) -> pl.Expr:
        batch = functools.partial(_called, call)
        made: pl.Expr = self._column.map_batches(batch, return_dtype=kind, is_elementwise=True)
        return made


def _encoding(encoding: Encoding | str) -> Encoding:
    return get_encoding(encoding) if isinstance(encoding, str) else encoding


def _called(call: Callable[[Any], Any], series: pl.Series) -> pl.Series:
    made: pa.ChunkedArray = call(series)
    return pl.Series(series.name, made)
