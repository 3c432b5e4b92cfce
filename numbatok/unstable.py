"""The tokens of a text that may go on: those that are certain, and what the rest could become.

The end of a text is unstable: with more text behind it, its last tokens may turn out otherwise. The rules are those of
tiktoken's ``encode_with_unstable``, quirks included, so that the sets are the same.

Invariant: the stable tokens followed by any one completion spell the text, or the text and more.

    >>> from numbatok import get_encoding
    >>> tokens, completions = get_encoding("gpt2").encode_with_unstable("hello fanta")
    >>> tokens, [277, 4910] in completions
    ([31373], True)
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence

from numbatok.unicode import WHITE_SPACE

BLANKS = b" \n\t"

Encode = Callable[[bytes], list[int]]


def stable_length(tokens: Sequence[bytes], last: int) -> int:
    """Give how many tokens are stable, given the bytes of all and how many of them make the last piece.

    A last piece that starts with a token of blanks is unstable together with all such tokens before it, since the split
    of whitespace depends on what follows it.
    """
    stable = len(tokens) - last
    if last and _is_blank(tokens[stable]):
        while stable and _is_blank(tokens[stable - 1]):
            stable -= 1
    return stable


def _is_blank(token: bytes) -> bool:
    return all(byte in BLANKS for byte in token)


def completions(
    unstable: bytes, tokens: Sequence[bytes], encode: Encode, merge: Encode, size_of: Callable[[int], int]
) -> list[list[int]]:
    """Give what unstable bytes could become, each a list of ids that spells them, or them and more.

    Args:
        unstable: the bytes.
        tokens: the bytes of all tokens that are not special, in the order of their bytes.
        encode: encodes bytes that are UTF-8.
        merge: merges any bytes as one piece.
        size_of: gives the number of bytes of an id.

    """
    if not unstable:
        return []
    found = {tuple(merge(token)) for token in _starting_with(tokens, unstable)}
    for cut in range(1, len(unstable)):
        for token in _starting_with(tokens, unstable[cut:]):
            longer = unstable[:cut] + token
            ids = encode(longer) if _is_utf8(longer) else merge(longer)
            found.add(tuple(_first_covering(ids, len(unstable), size_of)))
    width = _last_space_width(unstable)
    if 0 < width < len(unstable):  # more text could split this space off
        found.add((*merge(unstable[:-width]), *merge(unstable[-width:])))
    return [list(ids) for ids in found]


def _starting_with(tokens: Sequence[bytes], start: bytes) -> Iterator[bytes]:
    for index in range(bisect.bisect_left(tokens, start), len(tokens)):
        if not tokens[index].startswith(start):
            return
        yield tokens[index]


def _first_covering(ids: list[int], size: int, size_of: Callable[[int], int]) -> Iterator[int]:
    """Give ids up to the one that reaches ``size`` bytes."""
    for token in ids:
        yield token
        size -= size_of(token)
        if size <= 0:
            return


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _last_space_width(data: bytes) -> int:
    """Give the number of bytes of the last character if it is whitespace, else 0."""
    for width in range(1, 5):
        if _is_utf8(data[-width:]):
            return width if data[-width:].decode() in WHITE_SPACE else 0
    return 0
