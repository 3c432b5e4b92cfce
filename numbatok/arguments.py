"""Arguments that every way to make an encoding takes: its name, and its special tokens.

Invariant: what comes out has the types that tables and files hold; anything else is told with what was met.

    >>> checked_special_tokens({"<|end|>": 300})
    {'<|end|>': 300}
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Mapping
from typing import Any

from numbatok.bpe import MISSING
from numbatok.huggingface import is_text


def checked_name(name: Any) -> str:
    """Give a name that files can hold.

    Raises:
        TypeError: it is no ``str``.
        ValueError: it has no UTF-8 form.

    """
    if not isinstance(name, str):
        raise TypeError(f"name is {name!r}, of type {type(name).__name__}; give a str")
    if not is_text(name):
        raise ValueError(f"name is {name!r}, which holds half of a surrogate pair; give a text that has a UTF-8 form")
    return name


def checked_special_tokens(special_tokens: Any) -> dict[str, int]:
    """Give special tokens and their ids, which may be integers of any library, as ``str`` and ``int``.

    Raises:
        TypeError: this is no mapping, a token is no ``str``, or an id is no integer (bools are none).
        ValueError: a token has no UTF-8 form, or an id is out of range.

    """
    if not isinstance(special_tokens, Mapping):
        met = type(special_tokens).__name__
        raise TypeError(f'special_tokens is {met}; give a mapping of special tokens to their ids: {{"<|end|>": 300}}')
    found: dict[str, int] = {}
    for text, number in special_tokens.items():
        if not isinstance(text, str):
            raise TypeError(f"special token {text!r} is {type(text).__name__}; give str")
        if not is_text(text):
            raise ValueError(f"special token {text!r} holds half of a surrogate pair, and so has no UTF-8 form")
        found[text] = _whole(text, number)
    return found


def _whole(text: str, number: Any) -> int:
    """Give the id of a special token as an ``int``."""
    if not isinstance(number, bool):
        with contextlib.suppress(TypeError):
            found = operator.index(number)
            if not 0 <= found < MISSING:
                raise ValueError(f"special token {text!r} has id {found}; ids are 0 to {MISSING - 1}")
            return found
    raise TypeError(f"special token {text!r} has id {number!r}, of type {type(number).__name__}; give an int")
