"""The scan of a text by the rules of its family: blocks where they decide, single steps where they do not.

Invariant: the ends that come out are those of :func:`next_end` called again and again; a block only finds many of them
at once. A piece start is a fresh start in every family, so each block begins at the last boundary of the one before.

    >>> from numbatok import get_encoding
    >>> get_encoding("gpt2").split("two words")
    [(0, 3), (3, 9)]
"""

from __future__ import annotations

import numpy as np

from numbatok._jit import kernel
from numbatok._llvm import leading_zeros, load8, store64, trailing_zeros
from numbatok.split import cl100k, deepseek, gpt2, o200k
from numbatok.split.masks import ALL, APOSTROPHE, BLOCK_REACH, FIRST_INNER, LAST_BIT, RETURN, SPACE, TAB, U0, U1, U2, U8
from numbatok.table import tables_at

GPT2, CL100K, O200K, DEEPSEEK, ONE_PIECE = 0, 1, 2, 3, 4
"""Numbers of the families in the tables of a model. ONE_PIECE does not split: what it is given is a piece already."""
FAMILY_GPT2, FAMILY_O200K, FAMILY_DEEPSEEK = np.uint64(GPT2), np.uint64(O200K), np.uint64(DEEPSEEK)
SEEN = np.uint64(59)
"""Bytes of a block in which every boundary is decided, if all of DECIDED is."""


@kernel
def next_end(t, at, stop):
    """Give the end of the piece that starts at ``at``; ``at`` itself where the bytes are not UTF-8."""
    if t.family < FAMILY_O200K:
        if t.family == FAMILY_GPT2:
            return gpt2.next_end(t, at, stop)
        return cl100k.next_end(t, at, stop)
    if t.family == FAMILY_O200K:
        return o200k.next_end(t, at, stop)
    if t.family == FAMILY_DEEPSEEK:
        return deepseek.next_end(t, at, stop)
    return stop


@kernel
def block_starts(t, at, stop):
    """Give the decided boundaries after ``at`` in its 64-byte block, and in bit 0 whether all of DECIDED is decided.

    The choice is made by halves: of a plain chain the compiler makes a jump through a table, 3 % slower on English.
    """
    if t.family < FAMILY_O200K:
        if t.family == FAMILY_GPT2:
            return gpt2.block_starts(t, at, stop)
        return cl100k.block_starts(t, at, stop)
    if t.family == FAMILY_O200K:
        return o200k.block_starts(t, at, stop)
    if t.family == FAMILY_DEEPSEEK:
        return deepseek.block_starts(t, at, stop)
    return U0


@kernel
def sure_bits(at, stop):
    """Give the bits of the boundaries of a block at ``at`` that hold whatever comes behind ``stop``.

    Only the pieces of whitespace at the end of a text depend on its being the end, and what starts before them is sure;
    a contraction that the end cuts starts where it would without the end. Bytes past ASCII are taken for whitespace
    here, which leaves more to steps than need be.
    """
    end = stop
    while end > at and may_be_blank(load8(end - U1)):
        end -= U1
    bit = end - at
    if bit > LAST_BIT:
        return ALL
    return (U1 << bit) - U1 if end == stop else ((U1 << bit) - U1) | (U1 << bit)


@kernel
def may_be_blank(byte):
    """Tell whether a byte is, or may belong to, whitespace."""
    return byte == SPACE or byte >= FIRST_INNER or (byte >= TAB and byte <= RETURN)


@kernel
def ends_plainly(at, stop):
    """Tell whether the last piece of ``at .. stop`` ends there whatever comes behind: no whitespace, no contraction."""
    last = load8(stop - U1)
    if may_be_blank(last) or last == APOSTROPHE:
        return False
    return stop - at < U2 or load8(stop - U2) != APOSTROPHE


@kernel
def fill_row(t, at, stop, limit, ends, room):
    """Write the ends (addresses) of the pieces from ``at`` on to ``ends``, until the text or the room ends.

    Contract: ``at`` is a piece start, ``stop`` the end of the text, ``limit`` >= ``stop`` the end of what may be read,
    ``ends`` takes ``room + 64`` words. Gives the number of pieces; 0 where the bytes at ``at`` are not UTF-8.
    """
    count = U0
    while at < stop and count < room:
        starts, whole = U0, False
        if at + BLOCK_REACH <= stop:
            starts = block_starts(t, at, stop) & ~U1
        elif at + BLOCK_REACH <= limit:
            starts = block_starts(t, at, limit)
            whole = starts & U1 and stop - at <= SEEN and ends_plainly(at, stop)
            starts &= sure_bits(at, stop) & ~U1
        block = at
        if starts:
            at += LAST_BIT - leading_zeros(starts)
            while starts:
                store64(ends + count * U8, block + trailing_zeros(starts))
                starts &= starts - U1
                count += U1
        if whole:
            store64(ends + count * U8, stop)
            return count + U1
        if at == block:
            end = next_end(t, at, stop)
            if end == at:
                break
            store64(ends + count * U8, end)
            count += U1
            at = end
    return count


@kernel
def fill_ends(t, at, stop, ends, room):
    """Write the ends of the pieces of one text, as :func:`fill_row` does; nothing past the text is read."""
    return fill_row(t, at, stop, stop, ends, room)


@kernel(entry=True)
def split_text(tables, at, stop, ends, room):
    """Split from Python: all arguments int64, see :func:`fill_ends`; gives the number of pieces."""
    t = tables_at(np.uint64(tables))
    return np.int64(fill_ends(t, np.uint64(at), np.uint64(stop), np.uint64(ends), np.uint64(room)))
