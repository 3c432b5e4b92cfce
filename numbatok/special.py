"""Special tokens in text, by tiktoken's rules: which are refused, which become their id, and where they stand.

Invariant: without permission no text turns into a special id. The leftmost special token wins, and of several that
start at the same place the longest, whatever the order in which they were given. An empty one is in no text.

    >>> list(split_at_specials("a<|x|>b", {"<|x|>": 7}))
    [('a', 7), ('b', None)]
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Literal, NoReturn

from numbatok.names import any_of
from numbatok.text import Text, bytes_of

Names = Literal["all"] | Collection[str]
Part = tuple[Text, int | None]
"""An ordinary text, and the id of the special token behind it."""


@functools.lru_cache(maxsize=128)
def _finder(names: frozenset[str]) -> re.Pattern[str]:
    return re.compile(any_of(names))


@functools.lru_cache(maxsize=64)
def _beginning(names: frozenset[str]) -> str:
    """Give what all names begin with; nothing is in every text."""
    least, most = min(names), max(names)  # what these two share, all share
    return least[: next((at for at, pair in enumerate(zip(least, most, strict=False)) if pair[0] != pair[1]), None)]


def name_set(names: Names, known: frozenset[str], argument: str) -> frozenset[str]:
    """Give the set that an ``allowed_special`` or ``disallowed_special`` argument means.

    Raises:
        TypeError: for a plain string other than "all".

    """
    if isinstance(names, str):
        if names != "all":
            raise TypeError(f'{argument} is the string {names!r}; give "all" or a set of strings: {{{names!r}}}')
        return known
    return frozenset(names)


def refuse(text: Text, names: frozenset[str]) -> None:
    """Raise if the text holds one of ``names``.

    Raises:
        ValueError: see :func:`raise_disallowed_special_token`.

    """
    where = searchable(text)
    if not isinstance(text, str):
        names = frozenset(searchable_name(name, text) for name in names)
    start = _beginning(names)
    if start[:1] not in where or start not in where:  # a character alone is found ten times as fast
        return
    names = names - {""}
    found = _finder(names).search(where) if names else None
    if found:
        raise_disallowed_special_token(str(bytes_of(_like(text, found.group())), "utf-8"))


def raise_disallowed_special_token(token: str) -> NoReturn:
    """Raise for a disallowed special token in a text.

    Raises:
        ValueError: names the token and the three ways out.

    """
    raise ValueError(
        f"Encountered text corresponding to disallowed special token {token!r}.\n"
        f"To get its id, pass allowed_special={{{token!r}, ...}}.\n"
        f"To read it as ordinary text, pass disallowed_special=(enc.special_tokens_set - {{{token!r}}}).\n"
        "To read all special tokens as ordinary text, pass disallowed_special=()."
    )


def searchable(text: Text) -> str:
    """Give a text as characters to search in: a ``str`` itself, bytes one character a byte, valid UTF-8 or not."""
    if isinstance(text, str):
        return text if type(text) is str else str.__str__(text)  # a subclass may say that nothing is in it
    return bytes_of(text).decode("latin-1")


def searchable_name(name: str, text: Text) -> str:
    """Give a special token as it looks in the searchable form of ``text``."""
    return name if isinstance(text, str) else name.encode().decode("latin-1")


def split_at_specials(text: Text, specials: Mapping[str, int]) -> Iterator[Part]:
    """Give the ordinary texts between special tokens, each with the id of the special token behind it (or None).

    Bytes come out as bytes, whether they are UTF-8 or not.
    """
    where = searchable(text)
    names = {searchable_name(name, text): token for name, token in specials.items() if name}
    start = 0
    if names:
        for found in _finder(frozenset(names)).finditer(where):
            yield _like(text, where[start : found.start()]), names[found.group()]
            start = found.end()
    yield _like(text, where[start:]), None


def _like(text: Text, part: str) -> str | bytes:
    return part if isinstance(text, str) else part.encode("latin-1")
