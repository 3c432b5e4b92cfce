r"""Many names as one pattern: the longest name that stands at a place, whatever their number.

Written one after the other, the names of a large vocabulary would all be tried at each place of a text. Here what they
share is written once, so that a place costs no more than a name is long.

Invariant: of the names that stand at a place the pattern matches the longest.

    >>> any_of(["<s>", "</s>", "<sep>", "<s>x"])
    '<(?:/s>|s(?:>(?:x)?|ep>))'
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

DEEPEST = 40
"""Names that begin with each other as deep as this are written out: patterns may not be nested without end."""


def any_of(names: Iterable[str]) -> str:
    """Give a pattern that matches the longest of these names; none of them is empty."""
    return _behind(sorted(set(names)), 0, 0)


def _shared(one: str, other: str) -> int:
    """Give the number of characters that two names begin with in common."""
    return next((place for place, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), len(one))


def _behind(names: list[str], start: int, depth: int) -> str:
    """Give the pattern of what stands behind the first ``start`` characters, which all these names share."""
    ends_here = len(names[0]) == start
    rest = names[1:] if ends_here else names
    if not rest:
        return ""
    if depth == DEEPEST:
        parts = [re.escape(name[start:]) for name in sorted(rest, key=len, reverse=True)]
    else:
        parts = []
        for _, group in itertools.groupby(rest, key=lambda name: name[start]):
            alike = list(group)
            shared = _shared(alike[0], alike[-1])  # sorted: what these two share, all share
            parts.append(re.escape(alike[0][start:shared]) + _behind(alike, shared, depth + 1))
    if len(parts) == 1 and not ends_here:
        return parts[0]
    return f"(?:{'|'.join(parts)}){'?' if ends_here else ''}"
