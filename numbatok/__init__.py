"""numbatok: exact, very fast byte-pair-encoding tokenization, in Python source only.

    >>> import numbatok
    >>> enc = numbatok.get_encoding("gpt2")
    >>> enc.encode("hello world")
    [31373, 995]

Importing compiles nothing; the first call compiles the kernels it needs and keeps them on disk. Modules that few
programs need are imported when they are first named: after ``import numbatok as tiktoken``, ``tiktoken.load`` is there.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from numbatok.encoding import Encoding
from numbatok.model import encoding_for_model, encoding_name_for_model
from numbatok.ragged import Ragged
from numbatok.registry import get_encoding, list_encoding_names
from numbatok.warm import warmup

if TYPE_CHECKING:
    from numbatok import arrow as arrow
    from numbatok import core as core
    from numbatok import load as load
    from numbatok.training import train as train
else:

    def __getattr__(name: str) -> Any:
        """Import a module of the package, or the trainer, when it is named for the first time."""
        if name in _MODULES:
            return importlib.import_module(f"numbatok.{name}")
        if name == "train":
            return importlib.import_module("numbatok.training").train
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__version__ = "0.1.0"
_MODULES = ("arrow", "core", "load")

__all__ = [
    "Encoding",
    "Ragged",
    "__version__",
    "encoding_for_model",
    "encoding_name_for_model",
    "get_encoding",
    "list_encoding_names",
    "train",
    "warmup",
]
