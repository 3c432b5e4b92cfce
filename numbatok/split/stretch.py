r"""Short rows split in one go: copied one behind the other with a separator behind each, and cut where a row ends.

To split a row of 20 bytes by itself costs as much as to split 100 bytes of a text: a block of 64 bytes is looked at for
each row, and what ends at the end of a row is found step by step. In a stretch a block goes over several rows.

Invariant: the pieces of a row in a stretch are those of the row alone. Why: the separator is whitespace (``\s``), no
newline, no blank that a pattern names, and in no row. So no piece of anything but whitespace reaches over it, save one
character before a word, and where a run of whitespace does, it is cut at the separator. What a row begins with starts
fresh behind it. What a row ends with ends before it; only whitespace is another thing at the end of a text, where
``\s+(?!\S)`` and ``\s++$`` take all of it. Before a separator the former does too. But where blanks follow the last
newline of a row, ``\s*[\r\n]+`` may go on to a newline of another row, or leave them to another piece: if a pattern has
that, such rows do not join.

    gather_stretch: b"two", b"", b"rows" -> b"two\x0brows\x0b"
    fill_stretch: -> the ends 3 and 8, at the separators
"""

from __future__ import annotations

import numpy as np

from numbatok._jit import kernel
from numbatok._llvm import (
    copy,
    copy16,
    count_bits,
    in_range_mask,
    leading_zeros,
    load8,
    load64,
    store8,
    store64,
    trailing_zeros,
)
from numbatok.split.masks import (
    ALL,
    BLOCK_BYTES,
    BLOCK_REACH,
    DECIDED,
    FIRST_INNER,
    LAST_BIT,
    LAST_BYTE,
    NEWLINE,
    RETURN,
    SPACE,
    TAB,
    U0,
    U1,
    U8,
)
from numbatok.split.scan import FAMILY_GPT2, FAMILY_O200K, block_starts, next_end

SEPARATOR = np.uint64(0x0B)
"""A vertical tab, which is hardly ever met in a text."""
ROW_LIMIT = np.uint64(62)
"""Longest row, in bytes, that joins: with its separator it is less than a block."""
STRETCH_BYTES, STRETCH_ROWS, STRETCH_SLACK = 4096, 1024, 128
"""Bytes of a stretch, its rows, and the bytes that may be read behind it."""
FULL, MOST_ROWS, SLACK_WORDS_END = np.uint64(STRETCH_BYTES - 64), np.uint64(STRETCH_ROWS), np.uint64(72)
U16, U32, U48 = (np.uint64(value) for value in (16, 32, 48))
THREE = np.uint64(3)
MARKS_SLACK = 64 + 3
"""Rows behind the room for marks: those of the last block, and of one that are none."""
TOP_BIT = np.uint64(1 << 63)


@kernel
def joins_stretches(t):
    """Tell whether the split of a model is one for which rows may share a stretch."""
    return t.family <= FAMILY_O200K


@kernel
def ends_row(end):
    """Give 1 if the piece of a stretch that ends at ``end`` is the last one of its row, else 0."""
    return U1 if load8(end) == SEPARATOR else U0


@kernel
def may_join(t, at, width):
    """Tell whether a row may be in a stretch: the first ``width`` bytes of the block at ``at``, 1 to ROW_LIMIT."""
    behind = BLOCK_BYTES - width
    separators = in_range_mask(at, SEPARATOR, SEPARATOR) << behind
    if t.family == FAMILY_GPT2:
        return separators == U0
    newlines = in_range_mask(at, NEWLINE, RETURN) << behind  # some are none; they are as rare
    last = (in_range_mask(at, NEWLINE, NEWLINE) | in_range_mask(at, RETURN, RETURN)) << behind
    blanks = in_range_mask(at, TAB, RETURN) | in_range_mask(at, SPACE, SPACE)
    blanks |= in_range_mask(at, FIRST_INNER, LAST_BYTE)  # may be whitespace
    run = leading_zeros(~(blanks << behind))  # at the end of the row
    refused = U0 if last & TOP_BIT else newlines & ~(ALL >> run)
    return (refused | separators) == U0


@kernel
def gather_stretch(t, base, offsets, row, last, stretch, rows):
    """Copy rows from ``row`` on to a stretch, until one may not join or the stretch is full.

    Contract: ``offsets`` is the address of int64s, ``last`` the row behind the last one, ``stretch`` takes
    STRETCH_BYTES + STRETCH_SLACK bytes and ``rows`` STRETCH_ROWS words: the numbers of the rows that are not empty.
    Gives how many these are, the row behind, and the bytes of the stretch.
    """
    limit = base + load64(offsets + last * U8)
    last = min(last, row + MOST_ROWS)  # empty ones too: the caller may come back with nothing done
    count, size = U0, U0
    while row < last and size < FULL:
        at, target = base + load64(offsets + row * U8), stretch + size
        width = base + load64(offsets + row * U8 + U8) - at
        if width > ROW_LIMIT:
            break
        if width:
            seen = at  # reading what was just written in other widths waits for it
            if at + BLOCK_BYTES <= limit:
                copy16(target, at)
                copy16(target + U16, at + U16)
                copy16(target + U32, at + U32)
                copy16(target + U48, at + U48)
            else:
                copy(target, at, width)
                seen = target
            if not may_join(t, seen, width):
                break
            store8(target + width, SEPARATOR)
            store64(rows + count * U8, row)
            size += width + U1
            count += U1
        row += U1
    for word in range(U0, SLACK_WORDS_END, U8):
        store64(stretch + size + word, U0)
    separators = U0
    for block in range(U0, size, BLOCK_BYTES):
        separators += count_bits(in_range_mask(stretch + block, SEPARATOR, SEPARATOR))
    if separators != count:  # another thread has written to the text
        return U0, row, U0
    return count, row, size


@kernel
def fill_stretch(t, at, stop, ends, room, marks):
    """Write the ends of the pieces of a stretch from ``at`` on, and mark where rows end.

    Contract: as fill_row of scan.py, but that STRETCH_SLACK bytes can be read behind ``stop``, and that the byte before
    it is a separator. ``marks`` is the address of pairs of words for ``room + MARKS_SLACK`` rows: of each row that
    ends, the second becomes the number of pieces up to its end. Gives the number of pieces, and of rows that end.
    """
    count, rows = U0, U0
    while at < stop and count < room:
        block, found = at, block_starts(t, at, at + BLOCK_REACH)
        separators = in_range_mask(at, SEPARATOR, SEPARATOR)
        if found & U1:
            cuts = separators & (DECIDED | U1)
        else:
            cuts = separators & (ALL >> leading_zeros(found)) if found else U0
        if stop - at < BLOCK_BYTES:
            found &= (U1 << (stop - at)) - U1
            cuts &= (U1 << (stop - at)) - U1
        found = (found & ~U1 | cuts) & ~(cuts << U1)
        if found:
            rows = mark_rows(marks, rows, cuts, found, count)
            last = LAST_BIT - leading_zeros(found)
            at += last + ((cuts >> last) & U1)
            while found:
                store64(ends + count * U8, block + trailing_zeros(found))
                found &= found - U1
                count += U1
            continue
        end = next_end(t, at, at + trailing_zeros(separators))  # the row is shorter than a block: this is its end
        if end == at:
            break
        store64(ends + count * U8, end)
        count += U1
        store64(marks + rows * U16 + U8, count)
        rows += ends_row(end)
        at = end + ends_row(end)
    return count, rows


@kernel
def mark_rows(marks, rows, cuts, found, count):
    """Mark the rows that end at ``cuts`` of a block, before whose boundaries ``found`` are ``count`` pieces.

    Gives the number of rows that end. Three are marked whether there are as many or not: how many cannot be foreseen.
    """
    total = rows + count_bits(cuts)
    for _ in range(THREE):
        store64(marks + rows * U16 + U8, count + count_bits(found & (cuts ^ (cuts - U1))))
        cuts &= cuts - U1
        rows += U1
    while cuts:
        store64(marks + rows * U16 + U8, count + count_bits(found & (cuts ^ (cuts - U1))))
        cuts &= cuts - U1
        rows += U1
    return total
