r"""The o200k split and its relatives (gpt-oss, Llama 4, Nemotron, Tekken, Kimi K2): letter runs are cut by case.

A letter piece of o200k_base is, with one optional character before it (no CR, LF, letter or number), capitals then
small letters; caseless letters and marks count as both: ``HTTPResponse`` is one piece, ``camelCase`` is two. A
contraction clings to the word before it. The rest is as in cl100k, except that a slash may follow other characters like
a newline does (``[\r\n/]*``). Parameters:

* ``digits``: the most numbers in a piece, 3 or 1;
* ``contractions``: 1 if they cling to words, 0 if they are nothing special;
* ``slash``: 1 if a slash may follow other characters, 0 if only newlines may (``[\r\n]*``);
* ``han``: HAN if runs of Han are pieces, tried before all others, and no word holds Han (Kimi); 0 if Han is nothing
  special. The pattern means the script, which has numbers and symbols, too: they are in a run of Han if it begins with
  or before them, and go on a run of numbers or of other characters that begins before.

Invariant: as in gpt2.py every piece start is a fresh start, a step decides one piece and a block many. Where case and
caseless letters meet in one run, marks follow other characters, or ``han`` meets Han that is not a letter, the block
leaves the piece to a step.

    >>> from numbatok import get_encoding
    >>> get_encoding("o200k_base").split("camelCase don't")
    [(0, 5), (5, 9), (9, 15)]
"""

from __future__ import annotations

import numpy as np

from numbatok._jit import kernel
from numbatok._llvm import in_range_mask, leading_zeros, load8, trailing_zeros
from numbatok.split.masks import (
    ALL,
    APOSTROPHE,
    BEFORE_LAST,
    BLOCK_BYTES,
    BLOCK_REACH,
    CLASSIFIED,
    DECIDED,
    DIGIT_0,
    DIGIT_9,
    FIRST_INNER,
    LAST_BIT,
    LAST_BYTE,
    LAST_INNER,
    LEAD_E3,
    LOWER_A,
    LOWER_Z,
    NEWLINE,
    NUMBER,
    OTHER,
    RETURN,
    SLASH,
    SPACE,
    TAB,
    U0,
    U1,
    U2,
    U8,
    UPPER_A,
    UPPER_Z,
    blank_end_by_newline,
    flood,
    folded_contraction,
    is_newline,
    last_blanks,
    number_starts,
    open_run,
    plain_han,
    plain_hangul,
    plain_kana,
    plain_pairs,
    plain_run,
    run_end,
    tail_starts,
    told_through,
)
from numbatok.unicode import CASELESS, HAN, LETTER_FLAGS, LOWER, MARK, NUMBER_FLAG, SPACE_FLAG, UPPER, class_step

UPPER_FLAG, LOWER_FLAG, MARK_FLAG = np.uint64(UPPER), np.uint64(LOWER), np.uint64(MARK)
CASELESS_FLAGS = np.uint64(CASELESS | MARK)
HAN_FLAG = np.uint64(HAN)
WORD_FLAGS = np.uint64(UPPER | LOWER | CASELESS | MARK)
NOT_OTHER = LETTER_FLAGS | NUMBER_FLAG | SPACE_FLAG


@kernel
def han_end(table, at, stop):
    """Give the end of the run of Han that goes on at ``at``."""
    while at < stop:
        step = class_step(table, at, stop)
        if not step & HAN_FLAG:
            break
        at += step >> U8
    return at


@kernel
def word_end(table, at, stop, han):
    """Give the end of the word that starts at ``at``: capitals, then small letters, caseless ones and marks as either.

    A run that ends among the capitals is cut back to just behind its last caseless letter, if it has one.
    """
    small, cut = False, U0
    while at < stop:
        if not han and at + BLOCK_REACH <= stop and load8(at) >= LEAD_E3:
            skipped = plain_run(at)
            if skipped:
                at += skipped
                cut = at
                continue
        if at + BLOCK_BYTES <= stop:
            skipped = trailing_zeros(~in_range_mask(at, LOWER_A, LOWER_Z))
            if skipped:
                small = True
            elif not small:
                skipped = trailing_zeros(~in_range_mask(at, UPPER_A, UPPER_Z))
            if skipped:
                at += skipped
                continue
        step = class_step(table, at, stop)
        if step & UPPER_FLAG:
            if small:
                return at
        elif step & LOWER_FLAG:
            small = True
        elif step & CASELESS_FLAGS and not step & han:
            cut = at + (step >> U8)
        else:
            break
        at += step >> U8
    return cut if cut and not small else at


@kernel
def next_end(t, at, stop):
    """Give the end of the piece that starts at ``at``; ``at`` itself where the bytes are not UTF-8.

    Contract: ``t`` is the TABLES record, at < stop, ``stop`` is the end of the text.
    """
    table, han, first = t.classes, t.han, load8(at)
    step = class_step(table, at, stop)
    if step == U0:
        return at
    behind, following = at + (step >> U8), U0
    if step & han:
        return han_end(table, behind, stop)
    if behind < stop:
        following = class_step(table, behind, stop)
    newline = first == NEWLINE or first == RETURN
    word = U0
    if step & WORD_FLAGS:
        word = at
    elif following & WORD_FLAGS and not following & han and not newline and not step & NUMBER_FLAG:
        word = behind
    if word:
        end = word_end(table, word, stop, han)
        if t.contractions and end < stop and load8(end) == APOSTROPHE:
            end += folded_contraction(end, stop)
        return end
    if step & NUMBER_FLAG:
        return run_end(table, behind, stop, NUMBER, LETTER_FLAGS, t.digits - U1)
    if step & SPACE_FLAG and not (first == SPACE and following and not following & NOT_OTHER):
        return blank_end_by_newline(table, at, stop, U0)
    end = run_end(table, behind, stop, OTHER, LETTER_FLAGS, ALL)
    while is_newline(end, stop) or (t.slash and end < stop and load8(end) == SLASH):
        end += U1
    return end


@kernel
def smear_by_case(table, at, stop, high, inner, han):
    """Classify the characters past ASCII as :func:`~numbatok.split.masks.smear` does, by case.

    Gives masks (capitals, small letters, caseless letters and marks, marks, numbers, blanks, Han if it is special,
    covered).
    """
    upper, lower, caseless = plain_pairs(at, inner)
    plain = plain_han(at, inner)
    marks, numbers, blanks, hans = U0, U0, U0, plain if han else U0
    caseless |= plain | plain_kana(at, inner) | plain_hangul(at, inner)
    covered = upper | lower | caseless
    leads = high & ~inner & ~covered & CLASSIFIED
    while leads:
        bit = trailing_zeros(leads)
        leads &= leads - U1
        step = class_step(table, at + bit, stop)
        if step == U0:
            return U0, U0, U0, U0, U0, U0, U0, U0
        bits = ((U1 << (step >> U8)) - U1) << bit
        covered |= bits
        upper |= bits if step & UPPER_FLAG else U0
        lower |= bits if step & LOWER_FLAG else U0
        caseless |= bits if step & CASELESS_FLAGS else U0
        marks |= bits if step & MARK_FLAG else U0
        numbers |= bits if step & NUMBER_FLAG else U0
        blanks |= bits if step & SPACE_FLAG else U0
        hans |= bits if step & han else U0
    return upper, lower, caseless, marks, numbers, blanks, hans, covered


@kernel
def block_starts(t, at, stop):
    """Give the decided boundaries after ``at`` in its 64-byte block, bit i for ``at + i``, as told_through says.

    Contract: ``t`` is the TABLES record, ``at`` a piece start and at + BLOCK_REACH <= stop.
    """
    lower, upper = in_range_mask(at, LOWER_A, LOWER_Z), in_range_mask(at, UPPER_A, UPPER_Z)
    numbers = in_range_mask(at, DIGIT_0, DIGIT_9)
    spaces = in_range_mask(at, SPACE, SPACE)
    newlines = in_range_mask(at, NEWLINE, NEWLINE) | in_range_mask(at, RETURN, RETURN)
    blanks = spaces | in_range_mask(at, TAB, RETURN)
    high = in_range_mask(at, FIRST_INNER, LAST_BYTE)
    inner, caseless, marks, hans, han_starts, doubt = U0, U0, U0, U0, U0, U0
    if high:
        inner = in_range_mask(at, FIRST_INNER, LAST_INNER)
        capitals, small, caseless, marks, high_numbers, high_blanks, hans, covered = smear_by_case(
            t.classes, at, stop, high, inner, t.han
        )
        if (high & CLASSIFIED) & ~covered:
            return U0
        doubt = hans & (marks | ~caseless)  # Han that is not a letter
        caseless &= ~hans
        han_starts = hans & ~(hans << U1)
        upper |= capitals
        lower |= small
        numbers |= high_numbers
        blanks |= high_blanks
    words = upper | lower | caseless
    others = ~(words | numbers | blanks | hans)
    tail = newlines & (others << U1)  # newlines and slashes behind others belong to those
    run = newlines | (in_range_mask(at, SLASH, SLASH) if t.slash else U0)
    tail |= flood(run, tail)
    doubt |= marks & (others << U1)
    others &= ~tail
    other_runs = others & ~(others << U1) & ~(spaces << U1)  # one space before a run belongs to it
    free = blanks & ~tail
    plain = free & ~newlines
    prefix = other_runs
    if inner:
        prefix |= flood(inner & others, inner & others & (other_runs << U1))
    word_runs = words & ~(words << U1)
    word_starts = (word_runs & ~(plain << U1) & ~(prefix << U1)) | (upper & (lower << U1))
    digit_starts, told = number_starts(numbers, inner, t.digits)
    if not told:
        return U0
    last = last_blanks(plain, blanks, inner)
    free_runs = free & ~(free << U1)
    starts = word_starts | digit_starts | other_runs | free_runs | last | tail_starts(free, newlines) | han_starts
    decided = open_run(free_runs, free, DECIDED)
    cased = upper | lower
    mixed = (cased & (caseless << U1)) | (caseless & (cased << U1))
    if mixed:
        first = trailing_zeros(mixed)
        decided &= (U2 << (LAST_BIT - leading_zeros(word_runs & ((U1 << first) - U1)))) - U1
    if doubt:
        decided &= (U1 << trailing_zeros(doubt)) - U1
    if t.contractions:
        starts = attach(at, starts, words)
    return told_through(starts, decided)


@kernel
def attach(at, starts, words):
    """Move the boundary behind a word behind the contraction that clings to it."""
    apostrophes = in_range_mask(at, APOSTROPHE, APOSTROPHE) & (words << U1) & BEFORE_LAST
    taken = U0
    while apostrophes:
        bit = trailing_zeros(apostrophes)
        apostrophes &= apostrophes - U1
        width = folded_contraction(at + bit, at + BLOCK_REACH)
        if width and bit != taken:
            taken = bit + width
            starts &= ~(((U1 << width) - U1) << bit)
            starts |= U1 << taken
    return starts
