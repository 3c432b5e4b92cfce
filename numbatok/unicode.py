"""Character classes from the pinned Unicode 16.0 table, and the strict UTF-8 step that looks them up.

Invariant: a class never depends on the Python that runs (``unicodedata`` differs from version to version), and bytes
that are not UTF-8 are never given a class: the step says width 0 there, and reads nothing at or past ``stop``.

    >>> tables = load_class_table()
    >>> int(class_of(tables, ord("é"))) == LOWER
    True
"""

from __future__ import annotations

import lzma

import numpy as np
import numpy.typing as npt

from numbatok._jit import kernel, read_data
from numbatok._llvm import load8, load32

VERSION = "16.0.0"

UPPER, LOWER, CASELESS, MARK, NUMBER, SPACE, PUNCTUATION_OR_SYMBOL = 1, 2, 4, 8, 16, 32, 64
"""Classes of a class byte, at most one of them: Lu Lt, Ll, Lm Lo, M*, N*, White_Space, P* S*; none for all others."""
HAN = 128
"""Flag of a class byte beside the class: the script is Han. Most are letters, but not all (U+3007 is a number)."""

LETTER_FLAGS = np.uint64(UPPER | LOWER | CASELESS)
NUMBER_FLAG = np.uint64(NUMBER)
SPACE_FLAG = np.uint64(SPACE)

WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""The characters of the property White_Space. Python's own idea of it holds U+001C to U+001F too."""

STAGE1_SIZE = 0x110000 >> 8

U0, U1, U2, U3, U4, U6, U8 = (np.uint64(value) for value in (0, 1, 2, 3, 4, 6, 8))
U12, U16, U18, U24 = (np.uint64(value) for value in (12, 16, 18, 24))
LOW3, LOW4, LOW5, LOW6, LOW8 = (np.uint64(value) for value in (0x07, 0x0F, 0x1F, 0x3F, 0xFF))
LEAD2, LEAD3, LEAD4, LEAD_END = (np.uint64(value) for value in (0xC2, 0xE0, 0xF0, 0xF5))
ASCII_END = np.uint64(0x80)
INNER2, INNER3, INNER4 = (np.uint64(value) for value in (0xC000, 0xC0C000, 0xC0C0C000))
INNER2_SET, INNER3_SET, INNER4_SET = (np.uint64(value) for value in (0x8000, 0x808000, 0x80808000))
BEYOND_TWO, BEYOND_THREE, CODE_POINTS = (np.uint64(value) for value in (0x800, 0x10000, 0x110000))
SURROGATES, SURROGATES_END = np.uint64(0xD800), np.uint64(0xE000)
WIDTH_ONE, WIDTH_TWO, WIDTH_THREE, WIDTH_FOUR = (np.uint64(width << 8) for width in (1, 2, 3, 4))


def load_class_table() -> npt.NDArray[np.uint8]:
    """Give the two-stage table: 4,352 block numbers (one for 256 code points), then the blocks of class bytes."""
    return np.frombuffer(lzma.decompress(read_data("unicode-16.0.classes.xz")), np.uint8)


def all_classes(table: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Give the class bytes of all code points, uint8[0x110000]."""
    return table[STAGE1_SIZE:].reshape(-1, 256)[table[:STAGE1_SIZE]].reshape(-1)


def class_of(table: npt.NDArray[np.uint8], code_point: int) -> np.uint8:
    """Give the class byte of one code point (for tests and explanations; kernels use :func:`class_step`)."""
    block = int(table[code_point >> 8])
    return table[STAGE1_SIZE + (block << 8) + (code_point & 0xFF)]  # type: ignore[no-any-return]


@kernel
def bytes_before(at, stop):
    """Give up to four bytes at ``at`` as one little-endian word, zero where ``stop`` cuts. Contract: at < stop."""
    if at + U4 <= stop:
        return load32(at)
    word = load8(at)
    if at + U1 < stop:
        word |= load8(at + U1) << U8
    if at + U2 < stop:
        word |= load8(at + U2) << U16
    return word


@kernel
def class_step(table, at, stop):
    """Give ``width << 8 | class`` of the character at ``at``; width 0 where the bytes are not UTF-8.

    Contract: addresses, at < stop. Strict as the Unicode standard: no overlong form, no surrogate, nothing past
    U+10FFFF, no character that ``stop`` cuts.
    """
    word = bytes_before(at, stop)
    lead = word & LOW8
    if lead < ASCII_END:
        point, width = lead, WIDTH_ONE
    elif lead < LEAD3:
        if lead < LEAD2 or (word & INNER2) != INNER2_SET:
            return U0
        point = ((lead & LOW5) << U6) | ((word >> U8) & LOW6)
        width = WIDTH_TWO
    elif lead < LEAD4:
        point = ((lead & LOW4) << U12) | (((word >> U8) & LOW6) << U6) | ((word >> U16) & LOW6)
        width = WIDTH_THREE
        surrogate = point >= SURROGATES and point < SURROGATES_END
        if (word & INNER3) != INNER3_SET or point < BEYOND_TWO or surrogate:
            return U0
    else:
        point = ((lead & LOW3) << U18) | (((word >> U8) & LOW6) << U12) | (((word >> U16) & LOW6) << U6)
        point |= (word >> U24) & LOW6
        width = WIDTH_FOUR
        if lead >= LEAD_END or (word & INNER4) != INNER4_SET or point < BEYOND_THREE or point >= CODE_POINTS:
            return U0
    block = load8(table + (point >> U8))
    return width | load8(table + np.uint64(STAGE1_SIZE) + (block << U8) + (point & LOW8))
