r"""The split of DeepSeek V3 and R1: a sequence of three patterns, each of which cuts the pieces of the one before.

1. ``\p{N}{1,3}``: numbers;
2. ``[一-龥぀-ゟ゠-ヿ]+``: CJK, here Han and kana of U+3040-30FF and U+4E00-9FA5;
3. ``[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|``
   ``\s*[\r\n]+|\s+(?!\S)|\s+``: words (letters and marks), an ASCII punctuation mark with the ASCII letters behind it,
   punctuation with the newlines behind it, whitespace as in cl100k.

A *wall* stands between two characters if one of them is a number, or if one is CJK and the other is not. The third
pattern does not see beyond it: nothing takes a prefix or a tail from there, and whitespace before a wall is as at the
end of the text. What it does not match (control, format and unassigned characters) makes pieces of its own: *gaps*.

Invariant: no pattern looks back, and numbers are counted from a wall, where a piece ends; so every piece start is a
fresh start as in gpt2.py, a step decides one piece and a block many. Where a gap of several characters begins, the
block leaves the piece to a step: the last of them may go with the letters behind.

    >>> from numbatok.split.patterns import DEEPSEEK_PATTERNS, split_of
    >>> split_of(DEEPSEEK_PATTERNS).family  # its number in scan.py
    3
"""

from __future__ import annotations

import numpy as np

from numbatok._jit import kernel
from numbatok._llvm import in_range_mask, load8, load64, trailing_zeros
from numbatok.split.cuts import FIRST_HAN, LAST_HAN, three_bytes
from numbatok.split.masks import (
    ALL,
    BLANK,
    BLOCK_REACH,
    CLASSIFIED,
    DECIDED,
    DIGIT_0,
    DIGIT_9,
    FIRST_INNER,
    FIRST_VISIBLE,
    LAST_BYTE,
    LAST_INNER,
    LAST_VISIBLE,
    LOWER_A,
    LOWER_ONE,
    LOWER_Z,
    NEWLINE,
    NUMBER,
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
    blank_end_by_newline,
    flood,
    is_newline,
    last_blanks,
    number_starts,
    open_run,
    plain_cjk,
    plain_hangul,
    plain_pairs,
    plain_run,
    run_end,
    tail_starts,
    told_through,
)
from numbatok.swar import letters as letter_flags
from numbatok.swar import prefix_length
from numbatok.unicode import LETTER_FLAGS, MARK, NUMBER_FLAG, PUNCTUATION_OR_SYMBOL, SPACE_FLAG, class_step

WORD_FLAGS = LETTER_FLAGS | np.uint64(MARK)
PUNCT_FLAG = np.uint64(PUNCTUATION_OR_SYMBOL)
MATCHED = WORD_FLAGS | PUNCT_FLAG | SPACE_FLAG
"""Classes that the third pattern matches wherever they stand: all but numbers, which are walls, and gaps."""
FIRST_KANA, LAST_KANA = np.uint64(0xE38180), np.uint64(0xE383BF)


@kernel
def is_cjk(at, width):
    """Tell whether the character of ``width`` bytes at ``at`` is of the second pattern."""
    if width != U3:
        return False
    number = three_bytes(at)
    return (number >= FIRST_HAN and number <= LAST_HAN) or (number >= FIRST_KANA and number <= LAST_KANA)


@kernel
def step_within(table, at, stop, cjk):
    """Give the class step at ``at``; 0 at the end of the text and at a wall. ``cjk``: the character before is CJK."""
    if at == stop:
        return U0
    step = class_step(table, at, stop)
    return U0 if step & NUMBER_FLAG or is_cjk(at, step >> U8) != cjk else step


@kernel
def word_end(table, at, stop, cjk):
    """Give the end of the run of letters and marks that starts or goes on at ``at``."""
    while True:
        if cjk and at + BLOCK_REACH <= stop:
            skipped = plain_run(at)
            at += skipped
            if skipped:
                continue
        if not cjk and at + U8 <= stop:
            skipped = prefix_length(letter_flags(load64(at)))
            at += skipped
            if skipped == U8:
                continue
        step = step_within(table, at, stop, cjk)
        if not step & WORD_FLAGS:
            return at
        at += step >> U8


@kernel
def ascii_word_end(at, stop):
    """Give the end of the run of ASCII letters at ``at``; ``at`` itself if there is none."""
    while at < stop:
        letter = load8(at) | LOWER_ONE
        if letter < LOWER_A or letter > LOWER_Z:
            break
        at += U1
    return at


@kernel
def punct_end(table, at, stop, cjk):
    """Give the end of the run of punctuation that goes on at ``at``, with the newlines behind it."""
    step = step_within(table, at, stop, cjk)
    while step & PUNCT_FLAG:
        at += step >> U8
        step = step_within(table, at, stop, cjk)
    while not cjk and is_newline(at, stop):
        at += U1
    return at


@kernel
def gap_end(table, at, stop, cjk):
    """Give the end of the gap that goes on at ``at``: all of it, but its last character if a word follows."""
    last = at
    step = step_within(table, at, stop, cjk)
    while step and not step & MATCHED:
        last = at
        at += step >> U8
        step = step_within(table, at, stop, cjk)
    return last if step & WORD_FLAGS else at


@kernel
def is_wall(table, at, stop):
    """Tell whether there is a wall between whitespace and the character at ``at``."""
    step = class_step(table, at, stop)
    return step & NUMBER_FLAG != U0 or is_cjk(at, step >> U8)


@kernel
def next_end(t, at, stop):
    """Give the end of the piece that starts at ``at``; ``at`` itself where the bytes are not UTF-8.

    Contract: ``t`` is the TABLES record, at < stop, ``stop`` is the end of the text.
    """
    table, first = t.classes, load8(at)
    step = class_step(table, at, stop)
    if step == U0:
        return at
    behind = at + (step >> U8)
    if step & NUMBER_FLAG:
        return run_end(table, behind, stop, NUMBER, LETTER_FLAGS, U2)
    cjk = is_cjk(at, step >> U8)
    if step & WORD_FLAGS:
        return word_end(table, behind, stop, cjk)
    if step & PUNCT_FLAG:
        end = ascii_word_end(behind, stop) if first < FIRST_INNER else behind
        return end if end != behind else punct_end(table, behind, stop, cjk)
    following = step_within(table, behind, stop, cjk)
    if following & WORD_FLAGS and first != NEWLINE and first != RETURN:
        return word_end(table, behind, stop, cjk)
    if first == SPACE and following & PUNCT_FLAG:
        return punct_end(table, behind, stop, cjk)
    if step & SPACE_FLAG:
        end = run_end(table, behind, stop, BLANK, LETTER_FLAGS, ALL)
        walled = end < stop and is_wall(table, end, stop)
        return blank_end_by_newline(table, at, end if walled else stop, U0)
    return gap_end(table, behind, stop, cjk)


@kernel
def smear_by_wall(table, at, stop, high, inner):
    """Classify the characters past ASCII as :func:`~numbatok.split.masks.smear` does.

    Gives masks (letters and marks, numbers, blanks, punctuation, CJK, covered).
    """
    capitals, small, caseless = plain_pairs(at, inner)
    numbers, blanks, puncts, cjk = U0, U0, U0, plain_cjk(at, inner)
    words = cjk | plain_hangul(at, inner) | capitals | small | caseless
    covered, leads = words, high & ~inner & ~words & CLASSIFIED
    while leads:
        bit = trailing_zeros(leads)
        leads &= leads - U1
        step = class_step(table, at + bit, stop)
        if step == U0:
            return U0, U0, U0, U0, U0, U0
        bits = ((U1 << (step >> U8)) - U1) << bit
        covered |= bits
        words |= bits if step & WORD_FLAGS else U0
        numbers |= bits if step & NUMBER_FLAG else U0
        blanks |= bits if step & SPACE_FLAG else U0
        puncts |= bits if step & PUNCT_FLAG else U0
        cjk |= bits if is_cjk(at + bit, step >> U8) else U0
    return words, numbers, blanks, puncts, cjk, covered


@kernel
def block_starts(t, at, stop):
    """Give the decided boundaries after ``at`` in its 64-byte block, bit i for ``at + i``, as told_through says.

    Contract: ``t`` is the TABLES record, ``at`` a piece start and at + BLOCK_REACH <= stop.
    """
    latin = in_range_mask(at, LOWER_A, LOWER_Z) | in_range_mask(at, UPPER_A, UPPER_Z)
    numbers = in_range_mask(at, DIGIT_0, DIGIT_9)
    spaces = in_range_mask(at, SPACE, SPACE)
    newlines = in_range_mask(at, NEWLINE, NEWLINE) | in_range_mask(at, RETURN, RETURN)
    blanks = spaces | in_range_mask(at, TAB, RETURN)
    ascii_puncts = in_range_mask(at, FIRST_VISIBLE, LAST_VISIBLE) & ~(latin | numbers)
    high = in_range_mask(at, FIRST_INNER, LAST_BYTE)
    words, puncts, inner, cjk = latin, ascii_puncts, U0, U0
    if high:
        inner = in_range_mask(at, FIRST_INNER, LAST_INNER)
        high_words, high_numbers, high_blanks, high_puncts, cjk, covered = smear_by_wall(
            t.classes, at, stop, high, inner
        )
        if (high & CLASSIFIED) & ~covered:
            return U0
        words |= high_words
        numbers |= high_numbers
        blanks |= high_blanks
        puncts |= high_puncts
    digit_starts, told = number_starts(numbers, inner, U3)
    if not told:
        return U0
    gaps = ~(words | numbers | blanks | puncts)
    walls = cjk ^ (cjk << U1)  # those next to numbers need no mask: a piece starts there by its class
    tail = flood(newlines, newlines & ((puncts & ~cjk) << U1))  # newlines behind punctuation belong to it
    free = blanks & ~tail
    plain = free & ~newlines
    free_runs = free & ~(free << U1)
    last = last_blanks(plain, blanks | numbers | cjk, inner)
    punct_runs = puncts & (~(puncts << U1) | walls) & ~(spaces << U1)  # one space before a run belongs to it
    openers = ascii_puncts & punct_runs & (latin >> U1)
    opened = flood(latin, latin & (openers << U1))  # ends with the ASCII letters, even in the middle of a word
    word_starts = words & ~((words | plain | gaps | openers) << U1)
    starts = word_starts | (opened << U1 & words & ~latin) | punct_runs | (gaps & ~(gaps << U1))
    starts |= free_runs | last | tail_starts(free, newlines) | digit_starts | walls
    decided = open_run(free_runs, free, DECIDED)
    long_gaps = gaps & ~inner & (gaps << U1)
    if long_gaps:
        decided &= (U1 << trailing_zeros(long_gaps)) - U1
    return told_through(starts, decided)
