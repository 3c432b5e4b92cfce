"""numbatok: exact, very fast byte-pair-encoding tokenization, in Python source only.

    >>> import numbatok
    >>> enc = numbatok.get_encoding("gpt2")
    >>> enc.encode("hello world")
    [31373, 995]

Importing compiles nothing; the first call compiles the kernels it needs and keeps them on disk.
"""

from numbatok.encoding import Encoding
from numbatok.model import encoding_for_model, encoding_name_for_model
from numbatok.ragged import Ragged
from numbatok.registry import get_encoding, list_encoding_names
from numbatok.warm import warmup

__version__ = "0.1.0"

__all__ = [
    "Encoding",
    "Ragged",
    "__version__",
    "encoding_for_model",
    "encoding_name_for_model",
    "get_encoding",
    "list_encoding_names",
    "warmup",
]
