"""What the block scanners share: the reach of a block, class masks past ASCII, CJK, floods, blanks, groups of numbers.

A block is 64 bytes at a piece start, and bit i of every mask speaks of byte i. Characters of several bytes have their
class on all their bytes, so that neighbours of bytes are neighbours of characters.

Invariant: the class of a character is known if it starts at bits 0 to 60 (the block reads up to BLOCK_REACH bytes), so
a boundary at bits 1 to 59 that depends on its own character, the one before and the one after is certain.

    >>> hex(CLASSIFIED), hex(DECIDED)
    ('0x1fffffffffffffff', '0xffffffffffffffe')
"""

from __future__ import annotations

import numpy as np

from numbatok._jit import kernel
from numbatok._llvm import in_range_mask, leading_zeros, load8, load16, load64, trailing_zeros
from numbatok.swar import letters as letter_flags
from numbatok.swar import prefix_length
from numbatok.unicode import NUMBER_FLAG, SPACE_FLAG, class_step

U0, U1, U2, U3, U8 = (np.uint64(value) for value in (0, 1, 2, 3, 8))
LAST_BIT, LOW8 = np.uint64(63), np.uint64(0xFF)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)

SPACE, APOSTROPHE, NEWLINE, RETURN, TAB, SLASH = (np.uint64(ord(mark)) for mark in " '\n\r\t/")
LOWER_A, LOWER_Z, UPPER_A, UPPER_Z, DIGIT_0, DIGIT_9 = (np.uint64(ord(letter)) for letter in "azAZ09")
FIRST_VISIBLE, LAST_VISIBLE = (np.uint64(ord(mark)) for mark in "!~")
FIRST_INNER, LAST_INNER, LAST_BYTE = np.uint64(0x80), np.uint64(0xBF), np.uint64(0xFF)
LEAD_E3, LEAD_E4, LEAD_E5, LEAD_E8, LEAD_E9 = (np.uint64(lead) for lead in (0xE3, 0xE4, 0xE5, 0xE8, 0xE9))
INNER_81, INNER_82, INNER_83, INNER_97 = (np.uint64(inner) for inner in (0x81, 0x82, 0x83, 0x97))
INNER_A0, INNER_B8, INNER_BB, INNER_BD = (np.uint64(inner) for inner in (0xA0, 0xB8, 0xBB, 0xBD))
LEAD_C3, LEAD_D0, LEAD_D1, LEAD_D8, LEAD_D9, LEAD_DA, LEAD_DB = (
    np.uint64(lead) for lead in (0xC3, 0xD0, 0xD1, 0xD8, 0xD9, 0xDA, 0xDB)
)
LEAD_EA, LEAD_EB, LEAD_EC, LEAD_ED = (np.uint64(lead) for lead in (0xEA, 0xEB, 0xEC, 0xED))
INNER_8A, INNER_93, INNER_9D, INNER_9E, INNER_9F = (np.uint64(inner) for inner in (0x8A, 0x93, 0x9D, 0x9E, 0x9F))
INNER_AF, INNER_B0, INNER_B7 = (np.uint64(inner) for inner in (0xAF, 0xB0, 0xB7))
LETTER_S, LETTER_T, LETTER_M, LETTER_D = (np.uint64(ord(letter)) for letter in "stmd")
PAIR_LL, PAIR_VE, PAIR_RE = (np.uint64(int.from_bytes(pair, "little")) for pair in (b"ll", b"ve", b"re"))
LONG_S = np.uint64(int.from_bytes("ſ".encode(), "little"))
LOWER_ONE, LOWER_BOTH = np.uint64(0x20), np.uint64(0x2020)

BLOCK_BYTES = np.uint64(64)
BLOCK_REACH = np.uint64(68)
"""Bytes that a block step may read: 64, and the rest of a character that starts at bit 60."""
CLASSIFIED = np.uint64((1 << 61) - 1)
"""Characters that start at bits 0 to 60 get their class."""
BEFORE_LAST = np.uint64((1 << 60) - 1)
DECIDED = np.uint64((1 << 60) - 2)
"""Boundaries at bits 1 to 59 are certain."""
BIT60 = np.uint64(1 << 60)

OTHER, LETTER, NUMBER, BLANK = (np.uint64(kind) for kind in range(4))


@kernel
def kind_of(flags, letters):
    """Give the pattern's view of a class byte: LETTER, NUMBER, BLANK or OTHER."""
    if flags & letters:
        return LETTER
    if flags & NUMBER_FLAG:
        return NUMBER
    if flags & SPACE_FLAG:
        return BLANK
    return OTHER


@kernel
def folded_contraction(at, stop):
    """Give the bytes of ``'s 't 'm 'd 'll 've 're`` in any case, or with the long s, at the apostrophe ``at``; or 0."""
    if at + U1 >= stop:
        return U0
    first = load8(at + U1) | LOWER_ONE
    if first == LETTER_S or first == LETTER_T or first == LETTER_M or first == LETTER_D:
        return U2
    if at + U2 >= stop:
        return U0
    pair = load16(at + U1)
    if pair == LONG_S:
        return U3
    pair |= LOWER_BOTH
    return U3 if pair == PAIR_LL or pair == PAIR_VE or pair == PAIR_RE else U0


@kernel
def is_newline(at, stop):
    """Tell whether a CR or LF is at ``at``."""
    return at < stop and (load8(at) == NEWLINE or load8(at) == RETURN)


@kernel
def plain_han(at, inner):
    """Mark all bytes of the characters U+4E00 to U+9F7F: Han letters all, and most of Chinese, without a loop.

    They begin with E4 B8 to E9 BD. ``inner`` marks the bytes of characters but the first.
    """
    leads = in_range_mask(at, LEAD_E5, LEAD_E8)
    leads |= in_range_mask(at, LEAD_E4, LEAD_E4) & (in_range_mask(at, INNER_B8, LAST_INNER) >> U1)
    leads |= in_range_mask(at, LEAD_E9, LEAD_E9) & (in_range_mask(at, FIRST_INNER, INNER_BD) >> U1)
    leads &= (inner >> U1) & (inner >> U2) & CLASSIFIED
    return leads | (leads << U1) | (leads << U2)


@kernel
def plain_kana(at, inner):
    """Mark all bytes of the characters U+3041 to U+3096, U+30A1 to U+30FA and U+30FC to U+30FF: most kana, letters all.

    They are E3 81 without 80, E3 82 without 97 to A0 and E3 83 without BB. ``inner`` is as in :func:`plain_han`.
    """
    leads = in_range_mask(at, LEAD_E3, LEAD_E3) & (inner >> U1) & (inner >> U2) & CLASSIFIED
    if leads:
        seconds = in_range_mask(at, INNER_81, INNER_81) & ~(in_range_mask(at, FIRST_INNER, FIRST_INNER) >> U1)
        seconds |= in_range_mask(at, INNER_82, INNER_82) & ~(in_range_mask(at, INNER_97, INNER_A0) >> U1)
        seconds |= in_range_mask(at, INNER_83, INNER_83) & ~(in_range_mask(at, INNER_BB, INNER_BB) >> U1)
        leads &= seconds >> U1
    return leads | (leads << U1) | (leads << U2)


@kernel
def plain_cjk(at, inner):
    """Mark all bytes of what :func:`plain_han` and :func:`plain_kana` mark: letters all, none with a case."""
    return plain_han(at, inner) | plain_kana(at, inner)


@kernel
def plain_hangul(at, inner):
    """Mark all bytes of the characters U+AC00 to U+D77F: nearly all syllables of Korean, letters all.

    They begin with EA B0 to ED 9D. ``inner`` is as in :func:`plain_han`.
    """
    leads = in_range_mask(at, LEAD_EA, LEAD_ED) & (inner >> U1) & (inner >> U2) & CLASSIFIED
    if leads:
        leads &= in_range_mask(at, LEAD_EB, LEAD_EC) | (
            (in_range_mask(at, LEAD_EA, LEAD_EA) & (in_range_mask(at, INNER_B0, LAST_INNER) >> U1))
            | (in_range_mask(at, LEAD_ED, LEAD_ED) & (in_range_mask(at, FIRST_INNER, INNER_9D) >> U1))
        )
    return leads | (leads << U1) | (leads << U2)


@kernel
def plain_arabic(at, leads):
    """Choose from ``leads``, first bytes of two, those of U+0620 to U+064A but U+0640 too, and U+0680 to U+06D3.

    They are D8 from A0 on, D9 up to 8A, DA, and DB up to 93: letters all, none with a case.
    """
    chosen = in_range_mask(at, LEAD_DA, LEAD_DA)
    chosen |= in_range_mask(at, LEAD_D8, LEAD_D8) & (in_range_mask(at, INNER_A0, LAST_INNER) >> U1)
    chosen |= in_range_mask(at, LEAD_D9, LEAD_D9) & (in_range_mask(at, FIRST_INNER, INNER_8A) >> U1)
    chosen |= in_range_mask(at, LEAD_DB, LEAD_DB) & (in_range_mask(at, FIRST_INNER, INNER_93) >> U1)
    return leads & chosen


@kernel
def plain_capitals(at, leads):
    """Choose from ``leads``, first bytes of two, the capitals of Cyrillic (U+0400 to U+042F) and of Latin-1."""
    chosen = in_range_mask(at, LEAD_D0, LEAD_D0) & (in_range_mask(at, FIRST_INNER, INNER_AF) >> U1)
    seconds = in_range_mask(at, FIRST_INNER, INNER_9E) & ~in_range_mask(at, INNER_97, INNER_97)
    return leads & (chosen | (in_range_mask(at, LEAD_C3, LEAD_C3) & (seconds >> U1)))


@kernel
def plain_small(at, leads):
    """Choose from ``leads``, first bytes of two, the small letters of Cyrillic (U+0430 to U+045F) and of Latin-1."""
    chosen = in_range_mask(at, LEAD_D0, LEAD_D0) & (in_range_mask(at, INNER_B0, LAST_INNER) >> U1)
    chosen |= in_range_mask(at, LEAD_D1, LEAD_D1) & (in_range_mask(at, FIRST_INNER, INNER_9F) >> U1)
    seconds = in_range_mask(at, INNER_9F, LAST_INNER) & ~in_range_mask(at, INNER_B7, INNER_B7)
    return leads & (chosen | (in_range_mask(at, LEAD_C3, LEAD_C3) & (seconds >> U1)))


@kernel
def plain_pairs(at, inner):
    """Mark all bytes of common letters of two bytes, without a loop: (capitals, small letters, caseless letters).

    A loop over characters takes twice the time of all else on Cyrillic and Arabic (12 to 15 against 6 to 7 ns a piece).
    """
    leads = in_range_mask(at, LEAD_C3, LEAD_DB) & (inner >> U1) & CLASSIFIED
    capitals, small, caseless = U0, U0, U0
    if leads:
        if leads & in_range_mask(at, LEAD_C3, LEAD_D1):
            capitals, small = plain_capitals(at, leads), plain_small(at, leads)
        if leads & in_range_mask(at, LEAD_D8, LEAD_DB):
            caseless = plain_arabic(at, leads)
    return capitals | (capitals << U1), small | (small << U1), caseless | (caseless << U1)


@kernel
def plain_run(at):
    """Give the bytes of the plain CJK characters in a row at ``at``, at most 63. Contract: at + BLOCK_REACH <= stop."""
    return trailing_zeros(~plain_cjk(at, in_range_mask(at, FIRST_INNER, LAST_INNER)))


@kernel
def run_end(table, at, stop, kind, letters, most):
    """Give the end of the run of at most ``most`` characters of ``kind`` that starts at ``at``."""
    while at < stop and most:
        if kind == LETTER and at + U8 <= stop:
            skipped = prefix_length(letter_flags(load64(at)))
            at += skipped
            if skipped == U8:
                continue
            if at + BLOCK_REACH <= stop and load8(at) >= LEAD_E3:
                skipped = plain_run(at)
                at += skipped
                if skipped:
                    continue
        if kind == NUMBER and most > BLOCK_BYTES and at + BLOCK_BYTES <= stop:
            skipped = trailing_zeros(~in_range_mask(at, DIGIT_0, DIGIT_9))
            if skipped:
                at += skipped
                most -= skipped
                continue
        step = class_step(table, at, stop)
        if step == U0 or kind_of(step & LOW8, letters) != kind:
            break
        at += step >> U8
        most -= U1
    return at


@kernel
def blank_block(at):
    """Give the blanks of one byte in a row at ``at``, at most 64, and where behind the last newline of them, or 0."""
    blanks = in_range_mask(at, SPACE, SPACE) | in_range_mask(at, TAB, RETURN)
    skipped = trailing_zeros(~blanks)
    newlines = in_range_mask(at, NEWLINE, NEWLINE) | in_range_mask(at, RETURN, RETURN)
    newlines &= (U1 << skipped) - U1 if skipped < BLOCK_BYTES else ALL
    return skipped, BLOCK_BYTES - leading_zeros(newlines)


@kernel
def blank_end_by_newline(table, at, stop, final):
    r"""Give the end of the whitespace piece at ``at``: through the last newline of the run, else all but its last
    character, else (at the end of the text, or one character alone) all of it.
    """
    start, last, newline = at, at, U0
    while at < stop:
        if at + BLOCK_BYTES <= stop:
            skipped, found = blank_block(at)
            if found:
                newline = at + found
            if skipped:
                last = at + skipped - U1
                at += skipped
                continue
        step = class_step(table, at, stop)
        if step == U0 or (step & SPACE_FLAG) == U0:
            break
        last = at
        if is_newline(at, stop):
            newline = at + U1
        at += step >> U8
    if at == stop and (final or newline == U0):
        return at
    if newline:
        return newline
    return at if last == start else last


@kernel
def smear(table, at, stop, high, inner, letters):
    """Classify the characters past ASCII: ``high`` marks their bytes, ``inner`` those of them that are not the first.

    Gives masks (letters, numbers, blanks, covered), each character smeared over all its bytes; covered does not cover
    ``high`` where the bytes are not UTF-8.
    """
    capitals, small, caseless = plain_pairs(at, inner)
    plain = plain_cjk(at, inner) | plain_hangul(at, inner) | capitals | small | caseless
    numbers, blanks = U0, U0
    letter_mask, covered, leads = plain, plain, high & ~inner & ~plain & CLASSIFIED
    while leads:
        bit = trailing_zeros(leads)
        leads &= leads - U1
        step = class_step(table, at + bit, stop)
        if step == U0:
            return U0, U0, U0, U0
        bits = ((U1 << (step >> U8)) - U1) << bit
        covered |= bits
        kind = kind_of(step & LOW8, letters)
        letter_mask |= bits if kind == LETTER else U0
        numbers |= bits if kind == NUMBER else U0
        blanks |= bits if kind == BLANK else U0
    return letter_mask, numbers, blanks, covered


@kernel
def told_through(starts, decided):
    """Give the boundaries that are decided; bit 0, which is none, tells whether all of DECIDED is."""
    return (starts & decided) | (U1 if decided == DECIDED else U0)


@kernel
def flood(runs, seeds):
    """Give those runs of set bits whose lowest bit is a seed: the addition carries through exactly those."""
    return runs & ~(runs + seeds)


@kernel
def number_starts(numbers, wide, digits):
    """Give the starts of number pieces of at most ``digits`` characters, and whether the masks could tell."""
    starts = numbers & ~(numbers << U1)
    if digits == U1:
        return numbers & ~wide, True
    again = (starts << U3) & numbers & (numbers << U1) & (numbers << U2)
    if again and numbers & wide:
        return U0, False  # characters of several bytes are not counted by shifts
    while again:
        starts |= again
        again = (again << U3) & numbers & (numbers << U1) & (numbers << U2)
    return starts, True


@kernel
def last_blanks(blanks, all_blanks, inner):
    """Give the first byte of the last character of each run of ``blanks`` that no other blank follows."""
    last = blanks & ~(all_blanks >> U1) & BEFORE_LAST  # by last bytes: what follows has its class
    if last & inner:  # a blank of two or three bytes: go to its first byte
        last = (last & ~inner) | ((last & inner) >> U1)
        last = (last & ~inner) | ((last & inner) >> U1)
    return last


@kernel
def tail_starts(blanks, newlines):
    """Give where whitespace that follows the last newline of its run starts, for runs that hold a newline."""
    plain = blanks & ~newlines
    starts = plain & ~(plain << U1)
    ended_by_newline = (plain + starts) & newlines & ~plain
    tails = starts & (newlines << U1) & blanks
    while ended_by_newline:  # blank lines with blanks in them: not behind the last newline
        bit = trailing_zeros(ended_by_newline)
        ended_by_newline &= ended_by_newline - U1
        before = starts & ((U1 << bit) - U1)
        tails &= ~(U1 << (LAST_BIT - leading_zeros(before)))
    return tails


@kernel
def open_run(runs, places, decided):
    """Keep of ``decided`` what is not behind the start of the last run: its end is out of sight (``places`` bit 60)."""
    if places & BIT60:
        decided &= (U2 << (LAST_BIT - leading_zeros(runs & CLASSIFIED))) - U1
    return decided
