"""Names on the command line: which encoding one means, and what an output file of a name holds.

Invariant: a name is never read in two ways: with the ending of a vocabulary, or a path, it is a file, else an encoding.

    $ numbatok encode --encoding my.bpe FILE
    $ numbatok count --encoding folder/tokenizer.json FILE
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

# What is needed is imported when a command runs, so that nothing here keeps `--help` waiting.
if TYPE_CHECKING:
    from numbatok.encoding import Encoding

ENDINGS = {".bpe": "bpe", ".json": "huggingface", ".tiktoken": "tiktoken"}
"""The ending of a file of a vocabulary -> its format."""


def format_named(name: str) -> str | None:
    """Give the format that the ending of a file name stands for, if any.

    >>> format_named("my.BPE"), format_named("gpt2")
    ('bpe', None)
    """
    return ENDINGS.get(os.path.splitext(name)[1].lower())


def open_encoding(name: str) -> Encoding:
    """Give the encoding of a name, or of a file that has the whole of one.

    Raises:
        ValueError: there is no such encoding; the file is a rank file, or is faulty.
        OSError: the file cannot be read.

    """
    from numbatok.encoding import Encoding
    from numbatok.files import shown
    from numbatok.registry import get_encoding

    form = format_named(name)
    if form is None and os.path.basename(name) == name:
        return get_encoding(name)
    if form == "tiktoken":
        raise ValueError(
            f"{shown(name)}: a rank file holds neither the pattern that splits text nor special tokens; make a file "
            f"that does: numbatok convert {shown(name)} --pattern ... -o my.bpe"
        )
    if form == "huggingface" or os.path.isdir(name):
        return Encoding.from_huggingface(name)
    return Encoding.load(name)
