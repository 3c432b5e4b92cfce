r"""The GPT-2 split (gpt2, r50k, p50k): exact, by two scanners that are held against each other.

The pattern is ``'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+``.

Invariant: it looks back nowhere, so every piece start is a fresh start. Both scanners use this: :func:`next_end` takes
one step from a piece start, and :func:`fill_ends` decides many boundaries of a 64-byte block at once (each character
class is one 64-bit mask, each rule a shift and an and), then begins the next block at the last boundary it found. No
state is carried from block to block.

    >>> from numbatok import get_encoding
    >>> [piece for piece in get_encoding("gpt2").split("don't  panic")]
    [(0, 3), (3, 5), (5, 6), (6, 12)]
"""

from __future__ import annotations

import numpy as np

from numbatok._jit import kernel
from numbatok._llvm import in_range_mask, leading_zeros, load8, load16, load64, store64, trailing_zeros
from numbatok.swar import letters as letter_flags
from numbatok.swar import prefix_length
from numbatok.unicode import LETTER_FLAGS, NUMBER_FLAG, SPACE_FLAG, class_step

U0, U1, U2, U3, U4, U8 = (np.uint64(value) for value in (0, 1, 2, 3, 4, 8))
LAST_BIT = np.uint64(63)
LOW8 = np.uint64(0xFF)

SPACE, APOSTROPHE = np.uint64(0x20), np.uint64(0x27)
TAB, CARRIAGE_RETURN = np.uint64(0x09), np.uint64(0x0D)
LOWER_A, LOWER_Z, UPPER_A, UPPER_Z, DIGIT_0, DIGIT_9 = (np.uint64(ord(letter)) for letter in "azAZ09")
FIRST_INNER, LAST_INNER, LAST_BYTE = np.uint64(0x80), np.uint64(0xBF), np.uint64(0xFF)
LETTER_S, LETTER_T, LETTER_M, LETTER_D = (np.uint64(ord(letter)) for letter in "stmd")
PAIR_LL, PAIR_VE, PAIR_RE = (np.uint64(int.from_bytes(pair, "little")) for pair in (b"ll", b"ve", b"re"))

BLOCK_REACH = np.uint64(68)
"""Bytes that a block step may read: 64, and the rest of a character that starts at bit 60."""
CLASSIFIED = np.uint64((1 << 61) - 1)
"""Characters that start at bits 0 to 60 get their class."""
BEFORE_LAST = np.uint64((1 << 60) - 1)
DECIDED = np.uint64((1 << 60) - 2)
"""Boundaries at bits 1 to 59 are certain: each depends on its own character, the one before and the one after."""

OTHER, LETTER, NUMBER, BLANK = (np.uint64(kind) for kind in range(4))


@kernel
def kind_of(flags):
    """Give the pattern's view of a class byte: LETTER, NUMBER, BLANK or OTHER."""
    if flags & LETTER_FLAGS:
        return LETTER
    if flags & NUMBER_FLAG:
        return NUMBER
    if flags & SPACE_FLAG:
        return BLANK
    return OTHER


@kernel
def contraction_width(at, stop):
    """Give the bytes of ``'s 't 'm 'd 'll 've 're`` at the apostrophe ``at``, or 0."""
    if at + U1 >= stop:
        return U0
    first = load8(at + U1)
    if first == LETTER_S or first == LETTER_T or first == LETTER_M or first == LETTER_D:
        return U2
    if at + U2 >= stop:
        return U0
    pair = load16(at + U1)
    return U3 if pair == PAIR_LL or pair == PAIR_VE or pair == PAIR_RE else U0


@kernel
def run_end(table, at, stop, kind):
    """Give the end of the run of characters of ``kind`` that starts at ``at`` (``at`` itself for none)."""
    while at < stop:
        if kind == LETTER and at + U8 <= stop:
            skipped = prefix_length(letter_flags(load64(at)))
            at += skipped
            if skipped == U8:
                continue
        step = class_step(table, at, stop)
        if step == U0 or kind_of(step & LOW8) != kind:
            break
        at += step >> U8
    return at


@kernel
def blank_end(table, at, stop):
    r"""Give the end of the whitespace piece at ``at``: all but the run's last character, or all at the end of text."""
    start, last = at, at
    while at < stop:
        step = class_step(table, at, stop)
        if step == U0 or kind_of(step & LOW8) != BLANK:
            break
        last = at
        at += step >> U8
    return at if at == stop or last == start else last


@kernel
def next_end(table, at, stop):
    """Give the end of the piece that starts at ``at``; ``at`` itself where the bytes are not UTF-8.

    Contract: addresses, at < stop, ``stop`` is the end of the text.
    """
    first = load8(at)
    if first == APOSTROPHE:
        width = contraction_width(at, stop)
        if width:
            return at + width
    body = at
    if first == SPACE and at + U1 < stop:
        step = class_step(table, at + U1, stop)
        if step and kind_of(step & LOW8) != BLANK:
            body = at + U1
    step = class_step(table, body, stop)
    if step == U0:
        return at
    kind = kind_of(step & LOW8)
    if kind == BLANK:
        return blank_end(table, at, stop)
    return run_end(table, body + (step >> U8), stop, kind)


@kernel
def smear(table, at, stop, leads):
    """Classify the characters past ASCII whose first bytes ``leads`` marks, each smeared over all its bytes.

    Gives masks (letters, numbers, blanks, covered); covered is 0 where the bytes are not UTF-8.
    """
    letters, numbers, blanks, covered = U0, U0, U0, U0
    while leads:
        bit = trailing_zeros(leads)
        leads &= leads - U1
        step = class_step(table, at + bit, stop)
        if step == U0:
            return U0, U0, U0, U0
        bits = ((U1 << (step >> U8)) - U1) << bit
        covered |= bits
        kind = kind_of(step & LOW8)
        letters |= bits if kind == LETTER else U0
        numbers |= bits if kind == NUMBER else U0
        blanks |= bits if kind == BLANK else U0
    return letters, numbers, blanks, covered


@kernel
def block_starts(table, at, stop):
    """Give the decided boundaries after ``at`` in its 64-byte block, bit i for ``at + i``; 0 leaves it to a step.

    Contract: ``at`` is a piece start and at + BLOCK_REACH <= stop.
    """
    letters = in_range_mask(at, LOWER_A, LOWER_Z) | in_range_mask(at, UPPER_A, UPPER_Z)
    numbers = in_range_mask(at, DIGIT_0, DIGIT_9)
    spaces = in_range_mask(at, SPACE, SPACE)
    blanks = spaces | in_range_mask(at, TAB, CARRIAGE_RETURN)
    high = in_range_mask(at, FIRST_INNER, LAST_BYTE)
    inner = U0
    if high:
        inner = in_range_mask(at, FIRST_INNER, LAST_INNER)
        high_letters, high_numbers, high_blanks, covered = smear(table, at, stop, high & ~inner & CLASSIFIED)
        if (high & CLASSIFIED) & ~covered:
            return U0
        letters |= high_letters
        numbers |= high_numbers
        blanks |= high_blanks
    others = ~(letters | numbers | blanks)
    runs = (letters & ~(letters << U1)) | (numbers & ~(numbers << U1)) | (others & ~(others << U1))
    runs &= ~(spaces << U1)  # one space before a run belongs to it
    last = blanks & ~(blanks >> U1) & BEFORE_LAST  # by their last bytes: what follows has its class
    if last & inner:  # a blank of two or three bytes: go to its first byte
        last = (last & ~inner) | ((last & inner) >> U1)
        last = (last & ~inner) | ((last & inner) >> U1)
    starts = runs | last | (blanks & ~(blanks << U1))
    return contract(at, starts, runs) & DECIDED


@kernel
def contract(at, starts, runs):
    """Move the boundary after each apostrophe that opens a contraction from behind it to behind the contraction."""
    apostrophes = runs & in_range_mask(at, APOSTROPHE, APOSTROPHE) & BEFORE_LAST
    while apostrophes:
        bit = trailing_zeros(apostrophes)
        apostrophes &= apostrophes - U1
        width = contraction_width(at + bit, at + BLOCK_REACH)
        if width:
            starts &= ~(U2 << bit)
            starts |= U1 << (bit + width)
    return starts


@kernel
def fill_ends(table, at, stop, ends, room):
    """Write the ends (addresses) of the pieces from ``at`` on to ``ends``, until the text or the room ends.

    Contract: ``at`` is a piece start, ``stop`` the end of the text, ``ends`` takes ``room + 64`` words. Gives the
    number of pieces; 0 where the bytes at ``at`` are not UTF-8.
    """
    count = U0
    while at < stop and count < room:
        starts = U0
        if at + BLOCK_REACH <= stop:
            starts = block_starts(table, at, stop)
        if starts:
            block = at
            at += LAST_BIT - leading_zeros(starts)
            while starts:
                store64(ends + count * U8, block + trailing_zeros(starts))
                starts &= starts - U1
                count += U1
        else:
            end = next_end(table, at, stop)
            if end == at:
                break
            store64(ends + count * U8, end)
            count += U1
            at = end
    return count


@kernel
def split_text(table, at, stop, ends, room):
    """Split from Python: all arguments int64, see :func:`fill_ends`; gives the number of pieces."""
    return np.int64(fill_ends(np.uint64(table), np.uint64(at), np.uint64(stop), np.uint64(ends), np.uint64(room)))
