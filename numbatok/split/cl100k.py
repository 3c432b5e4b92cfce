r"""The cl100k split and its relatives (Llama 3, Qwen 2, 2.5, 3 and 3.5): one file, parameters in place of copies.

The pattern of cl100k_base is
``'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|``
``\s++$|\s*[\r\n]|\s+(?!\S)|\s``. Its relatives differ in three parameters:

* ``letters``: the flags of a letter; Qwen 3.5 adds MARK, which then leaves the other characters;
* ``digits``: the most numbers in a piece, 3 or 1;
* ``final``: 1 if whitespace at the end of the text is one piece (``\s++$``), 0 in the older form.

Invariant: as in gpt2.py every piece start is a fresh start, a step decides one piece and a block many.

    >>> from numbatok import get_encoding
    >>> get_encoding("cl100k_base").split("can't 12345")
    [(0, 3), (3, 5), (5, 6), (6, 9), (9, 11)]
"""

from __future__ import annotations

from numbatok._jit import kernel
from numbatok._llvm import in_range_mask, load8, trailing_zeros
from numbatok.split.masks import (
    ALL,
    APOSTROPHE,
    BEFORE_LAST,
    BLANK,
    BLOCK_REACH,
    CLASSIFIED,
    DECIDED,
    DIGIT_0,
    DIGIT_9,
    FIRST_INNER,
    LAST_BYTE,
    LAST_INNER,
    LETTER,
    LOW8,
    LOWER_A,
    LOWER_Z,
    NEWLINE,
    NUMBER,
    OTHER,
    RETURN,
    SPACE,
    TAB,
    U0,
    U1,
    U8,
    UPPER_A,
    UPPER_Z,
    blank_end_by_newline,
    flood,
    folded_contraction,
    is_newline,
    kind_of,
    last_blanks,
    number_starts,
    open_run,
    run_end,
    smear,
    tail_starts,
    told_through,
)
from numbatok.unicode import class_step


@kernel
def next_end(t, at, stop):
    """Give the end of the piece that starts at ``at``; ``at`` itself where the bytes are not UTF-8.

    Contract: ``t`` is the TABLES record, at < stop, ``stop`` is the end of the text.
    """
    table, letters, first = t.classes, t.letters, load8(at)
    if first == APOSTROPHE:
        width = folded_contraction(at, stop)
        if width:
            return at + width
    step = class_step(table, at, stop)
    if step == U0:
        return at
    kind = kind_of(step & LOW8, letters)
    behind = at + (step >> U8)
    following, ahead = U0, OTHER
    if behind < stop:
        following = class_step(table, behind, stop)
        ahead = kind_of(following & LOW8, letters)
    if kind == LETTER:
        return run_end(table, behind, stop, LETTER, letters, ALL)
    if kind == NUMBER:
        return run_end(table, behind, stop, NUMBER, letters, t.digits - U1)
    if following and ahead == LETTER and first != NEWLINE and first != RETURN:
        return run_end(table, behind, stop, LETTER, letters, ALL)
    if kind == BLANK and not (first == SPACE and following and ahead == OTHER):
        return blank_end_by_newline(table, at, stop, t.final)
    end = run_end(table, behind, stop, OTHER, letters, ALL)
    while is_newline(end, stop):
        end += U1
    return end


@kernel
def block_starts(t, at, stop):
    """Give the decided boundaries after ``at`` in its 64-byte block, bit i for ``at + i``, as told_through says.

    Contract: ``t`` is the TABLES record, ``at`` a piece start and at + BLOCK_REACH <= stop.
    """
    letters = in_range_mask(at, LOWER_A, LOWER_Z) | in_range_mask(at, UPPER_A, UPPER_Z)
    numbers = in_range_mask(at, DIGIT_0, DIGIT_9)
    spaces = in_range_mask(at, SPACE, SPACE)
    newlines = in_range_mask(at, NEWLINE, NEWLINE) | in_range_mask(at, RETURN, RETURN)
    blanks = spaces | in_range_mask(at, TAB, RETURN)
    high = in_range_mask(at, FIRST_INNER, LAST_BYTE)
    inner = U0
    if high:
        inner = in_range_mask(at, FIRST_INNER, LAST_INNER)
        high_letters, high_numbers, high_blanks, covered = smear(t.classes, at, stop, high, inner, t.letters)
        if (high & CLASSIFIED) & ~covered:
            return U0
        letters |= high_letters
        numbers |= high_numbers
        blanks |= high_blanks
    others = ~(letters | numbers | blanks)
    other_runs = others & ~(others << U1) & ~(spaces << U1)  # one space before a run belongs to it
    free = blanks & ~flood(newlines, newlines & (others << U1))  # newlines behind others belong to those
    plain = free & ~newlines
    prefix = other_runs
    if inner:
        prefix |= flood(inner & others, inner & others & (other_runs << U1))
    letter_starts = letters & ~(letters << U1) & ~(plain << U1) & ~(prefix << U1)
    digit_starts, told = number_starts(numbers, inner, t.digits)
    if not told:
        return U0
    last = last_blanks(plain, blanks, inner)
    free_runs = free & ~(free << U1)
    starts = letter_starts | digit_starts | other_runs | free_runs | last | tail_starts(free, newlines)
    decided = open_run(free_runs, free, DECIDED)
    return told_through(contract(at, starts, other_runs), decided)


@kernel
def contract(at, starts, runs):
    """Put a boundary behind each contraction: its apostrophe opens a run and a letter follows."""
    apostrophes = runs & in_range_mask(at, APOSTROPHE, APOSTROPHE) & BEFORE_LAST
    while apostrophes:
        bit = trailing_zeros(apostrophes)
        apostrophes &= apostrophes - U1
        width = folded_contraction(at + bit, at + BLOCK_REACH)
        if width:
            starts |= U1 << (bit + width)
    return starts
