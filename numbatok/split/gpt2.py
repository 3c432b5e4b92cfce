r"""The GPT-2 split (gpt2, r50k, p50k): exact, by two scanners that are held against each other.

The pattern is ``'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+``. It has one parameter:

* ``digits``: 1 if each number is a piece of its own (StarCoder), cut out before the pattern splits what is between: a
  number takes no space, and whitespace before it is as at the end of the text. Any other value is the plain pattern.

Invariant: it looks back nowhere, so every piece start is a fresh start. Both scanners use this: :func:`next_end` takes
one step from a piece start, and :func:`block_starts` decides many boundaries of a 64-byte block at once (each character
class is one 64-bit mask, each rule a shift and an and); scan.py begins the next block at the last boundary found. No
state is carried from block to block.

    >>> from numbatok import get_encoding
    >>> [piece for piece in get_encoding("gpt2").split("don't  panic")]
    [(0, 3), (3, 5), (5, 6), (6, 12)]
"""

from __future__ import annotations

from numbatok._jit import kernel
from numbatok._llvm import in_range_mask, load8, load16, trailing_zeros
from numbatok.split.masks import (
    ALL,
    APOSTROPHE,
    BEFORE_LAST,
    BLANK,
    BLOCK_BYTES,
    BLOCK_REACH,
    CLASSIFIED,
    DECIDED,
    DIGIT_0,
    DIGIT_9,
    FIRST_INNER,
    LAST_BYTE,
    LAST_INNER,
    LETTER_D,
    LETTER_M,
    LETTER_S,
    LETTER_T,
    LOW8,
    LOWER_A,
    LOWER_Z,
    PAIR_LL,
    PAIR_RE,
    PAIR_VE,
    RETURN,
    SPACE,
    TAB,
    U0,
    U1,
    U2,
    U3,
    U8,
    UPPER_A,
    UPPER_Z,
    blank_block,
    kind_of,
    last_blanks,
    run_end,
    smear,
    told_through,
)
from numbatok.unicode import LETTER_FLAGS, NUMBER_FLAG, class_step


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
def blank_end(table, at, stop, walls):
    """Give the end of the whitespace piece at ``at``: all but the run's last character, or all if nothing follows.

    A character with a flag of ``walls`` is not seen: before it, as at the end of the text, nothing follows.
    """
    start, last, step = at, at, U0
    while at < stop:
        skipped = blank_block(at)[0] if at + BLOCK_BYTES <= stop else U0
        if skipped:
            last = at + skipped - U1
            at += skipped
            continue
        step = class_step(table, at, stop)
        if step == U0 or kind_of(step & LOW8, LETTER_FLAGS) != BLANK:
            break
        last = at
        at += step >> U8
    return at if at == stop or last == start or step & walls else last


@kernel
def next_end(t, at, stop):
    """Give the end of the piece that starts at ``at``; ``at`` itself where the bytes are not UTF-8.

    Contract: ``t`` is the TABLES record, at < stop, ``stop`` is the end of the text.
    """
    table, first = t.classes, load8(at)
    if first == APOSTROPHE:
        width = contraction_width(at, stop)
        if width:
            return at + width
    body, walls = at, NUMBER_FLAG if t.digits == U1 else U0
    if first == SPACE and at + U1 < stop:
        step = class_step(table, at + U1, stop)
        if step and kind_of(step & LOW8, LETTER_FLAGS) != BLANK and not step & walls:
            body = at + U1
    step = class_step(table, body, stop)
    if step == U0:
        return at
    kind = kind_of(step & LOW8, LETTER_FLAGS)
    if kind == BLANK:
        return blank_end(table, at, stop, walls)
    if step & walls:
        return body + (step >> U8)
    return run_end(table, body + (step >> U8), stop, kind, LETTER_FLAGS, ALL)


@kernel
def block_starts(t, at, stop):
    """Give the decided boundaries after ``at`` in its 64-byte block, bit i for ``at + i``, as told_through says.

    Contract: ``t`` is the TABLES record, ``at`` a piece start and at + BLOCK_REACH <= stop.
    """
    letters = in_range_mask(at, LOWER_A, LOWER_Z) | in_range_mask(at, UPPER_A, UPPER_Z)
    numbers = in_range_mask(at, DIGIT_0, DIGIT_9)
    spaces = in_range_mask(at, SPACE, SPACE)
    blanks = spaces | in_range_mask(at, TAB, RETURN)
    high = in_range_mask(at, FIRST_INNER, LAST_BYTE)
    inner = U0
    if high:
        inner = in_range_mask(at, FIRST_INNER, LAST_INNER)
        high_letters, high_numbers, high_blanks, covered = smear(t.classes, at, stop, high, inner, LETTER_FLAGS)
        if (high & CLASSIFIED) & ~covered:
            return U0
        letters |= high_letters
        numbers |= high_numbers
        blanks |= high_blanks
    others = ~(letters | numbers | blanks)
    runs = (letters & ~(letters << U1)) | (numbers & ~(numbers << U1)) | (others & ~(others << U1))
    runs &= ~(spaces << U1)  # one space before a run belongs to it
    if t.digits == U1:
        runs |= numbers & ~inner
        last = last_blanks(blanks, blanks | numbers, inner)
    else:  # twice, so that the compiler makes a branch of it: selects cost the plain pattern 2 %
        last = last_blanks(blanks, blanks, inner)
    starts = runs | last | (blanks & ~(blanks << U1))
    return told_through(contract(at, starts, runs), DECIDED)


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
