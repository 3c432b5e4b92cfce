r"""Characters of two and three bytes that merging always joins before anything else happens to them.

A text in another script than Latin is two or three bytes a character, and most of the merges of a piece only put these
bytes together again. Where it is certain that they come first, a merge can start from the characters.

It is certain for a character whose bytes alone merge to one token, the highest rank on the way being r, if no merge
below r could take the bytes apart or the character further:

* every merge that has the token as a part has a higher rank than r;
* every merge across the border before the character, or the one behind it, of which one part is a piece of a character,
  has a higher rank than r. ``crossings`` holds the lowest rank of these merges for each pair of bytes at a border.

For then, as long as the character is not whole, a merge of rank r or below is there within it, so that nothing with a
higher rank can come before; and once it is whole, nothing below r is left to be done around it.

Invariant: merging from joined characters gives the ids of merging from bytes.

    >>> from numbatok import get_encoding
    >>> joins, _ = (get_encoding("gpt2")._model.joins, get_encoding("gpt2")._model.crossings)
    >>> int(joins[ord("\u00e9")] & 0xFFFFFFFF)
    2634
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from numbatok._jit import kernel
from numbatok._llvm import load8, load32, load64
from numbatok.table import NO_RANK

Words = npt.NDArray[np.uint64]
Ids = npt.NDArray[np.uint32]

POINTS = 1 << 16
BORDER = 256
"""In place of the last byte before a character: the piece starts with it."""
NEVER = np.uint32(NO_RANK)

U0, U1, U2, U3, U4, U6, U8, U12, U32 = (np.uint64(value) for value in (0, 1, 2, 3, 4, 6, 8, 12, 32))
LEAD2, LEAD3, LEAD4 = (np.uint64(value) for value in (0xC2, 0xE0, 0xF0))
LOW4, LOW5, LOW6, LOW32 = (np.uint64(value) for value in (0x0F, 0x1F, 0x3F, 0xFFFFFFFF))
INNER_BITS, INNER = np.uint64(0xC0), np.uint64(0x80)
THREE_BYTES = np.uint64(0x800)


@kernel
def join_at(t, at, stop, last):
    """Give ``width << 32 | token`` of the character at ``at`` if merging joins it first, else 0.

    Contract: addresses, at < stop, ``stop`` is the end of the piece; ``last`` is the byte before, or BORDER.
    """
    lead = load8(at)
    if lead < LEAD2 or lead >= LEAD4 or at + U2 > stop:
        return U0
    width, final = U2, load8(at + U1)
    if (final & INNER_BITS) != INNER:
        return U0
    point = ((lead & LOW5) << U6) | (final & LOW6)
    if lead >= LEAD3:
        if at + U3 > stop:
            return U0
        point, final = ((lead & LOW4) << U12) | ((final & LOW6) << U6), load8(at + U2)
        point |= final & LOW6
        width = U3
        if (final & INNER_BITS) != INNER or point < THREE_BYTES:
            return U0
    entry = load64(t.joins + point * U8)
    rank = entry >> U32
    if rank == NO_RANK or load32(t.crossings + ((last << U8) | lead) * U4) <= rank:
        return U0
    if at + width < stop:
        behind = load8(at + width)
        if (behind & INNER_BITS) == INNER:  # no UTF-8: merges across this border are not in the table
            return U0
        if load32(t.crossings + ((final << U8) | behind) * U4) <= rank:
            return U0
    return (width << U32) | (entry & LOW32)


def find_joins(merges: Any, byte_ids: Ids, byte_pairs: Ids, tokens: int) -> Words:
    """Give for each code point below U+10000 ``rank << 32 | token``, NO_RANK in place of the rank for no join.

    Args:
        merges: lefts, rights, ranks of all pairs, and the id that each rank makes.
        byte_ids: uint32[256], the id of each byte.
        byte_pairs: uint32[65536], the rank of the merge of two bytes.
        tokens: the number of ids.

    """
    lefts, rights, ranks, merged = merges
    points = np.array([point for point in range(0x80, POINTS) if not 0xD800 <= point < 0xE000], np.int64)
    wide = points >= int(THREE_BYTES)
    bytes_of = (
        np.where(wide, 0xE0 | points >> 12, 0xC0 | points >> 6),
        np.where(wide, 0x80 | points >> 6 & 0x3F, 0x80 | points & 0x3F),
        0x80 | points & 0x3F,
    )
    first = byte_pairs[bytes_of[0] << 8 | bytes_of[1]]
    second = np.where(wide, byte_pairs[bytes_of[1] << 8 | bytes_of[2]], NEVER)
    leftmost = first <= second
    rank = np.minimum(first, second)
    token = np.append(merged, NEVER)[np.minimum(rank, len(merged))]
    left = np.where(leftmost, token, byte_ids[bytes_of[0]])
    right = np.where(leftmost, byte_ids[bytes_of[2]], token)
    last = np.where(wide, _pair_ranks(merges, byte_ids, left, right), rank)
    token = np.append(merged, NEVER)[np.minimum(last, len(merged))]
    highest = np.where((rank == NEVER) | (last == NEVER), NEVER, np.maximum(rank, last))
    least = np.full(tokens, NEVER, np.uint32)  # the lowest rank of a merge that has a token as a part
    for parts in (lefts, rights):
        known = parts < tokens
        np.minimum.at(least, parts[known], ranks[known])
    highest[np.append(least, NEVER)[np.minimum(token, tokens)] <= highest] = NEVER
    joins = np.full(POINTS, np.uint64(NEVER) << U32, np.uint64)
    joins[points] = (highest.astype(np.uint64) << U32) | token
    return joins


def _pair_ranks(merges: Any, byte_ids: Ids, left: Ids, right: Ids) -> Ids:
    """Give the ranks of merges of pairs of which one part is a byte; NO_RANK for none."""
    lefts, rights, ranks, _ = merges
    near = np.flatnonzero(np.isin(lefts, byte_ids) | np.isin(rights, byte_ids))
    keys = lefts[near].astype(np.uint64) << U32 | rights[near]
    order = np.argsort(keys)
    keys, ranks = np.append(keys[order], np.uint64(NO_RANK)), np.append(ranks[near][order], NEVER)
    wanted = left.astype(np.uint64) << U32 | right
    place = np.searchsorted(keys[:-1], wanted)
    return np.where(keys[place] == wanted, ranks[place], NEVER).astype(np.uint32)


def find_crossings(merges: Any, starts: Ids, blob: npt.NDArray[np.uint8]) -> Ids:
    """Give uint32[257 * 256]: byte before a border << 8 | byte behind it -> the lowest rank of a merge across it of
    which one part is a piece of a character; NO_RANK for none.
    """
    lefts, rights, ranks, _ = merges
    sizes = np.diff(starts.astype(np.int64))
    heads, data = starts[:-1].astype(np.int64), np.append(blob, np.zeros(4, np.uint8))
    inner = (data & 0xC0) == 0x80
    only_inner = (sizes <= 3) & inner[heads]
    for place in (1, 2):
        only_inner &= (sizes <= place) | inner[np.minimum(heads + place, len(data) - 1)]
    lead = data[heads]
    cut = sizes < np.select([lead < 0xC2, lead < 0xE0, lead < 0xF0], [1, 2, 3], 4)
    across = np.flatnonzero((only_inner[lefts] | cut[rights]) & ~inner[heads[rights]])
    ends = data[heads[lefts[across]] + sizes[lefts[across]] - 1].astype(np.int64)
    crossings = np.full((BORDER + 1) * 256, NEVER, np.uint32)
    np.minimum.at(crossings, ends << 8 | lead[rights[across]], ranks[across])
    return crossings
