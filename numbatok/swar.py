"""Byte classes of eight bytes in one machine word (SWAR), and the class masks of a 64-byte block made from them.

Invariant: a flag word has 0x80 in each byte that belongs to the class and 0x00 in all others, and no carry ever
crosses from one byte into the next: additions work on seven bits with the top bit taken out first. (The technique is
described in H. S. Warren, "Hacker's Delight", chapter 6, and by L. Lamport, "Multiple byte processing with full-word
instructions", 1975.)

    digits(word of b"a1b22c!9") == 0x8000008080008000
"""

from __future__ import annotations

import numpy as np

from numbatok._jit import kernel
from numbatok._llvm import load8, load64, trailing_zeros

ONES = np.uint64(0x0101010101010101)
TOPS = np.uint64(0x8080808080808080)
LOWS = np.uint64(0x7F7F7F7F7F7F7F7F)
CASE = np.uint64(0x2020202020202020)
GATHER = np.uint64(0x0102040810204080)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
BIAS = np.uint64(0x80)
U0, U1, U3, U6, U7, U8, U56 = (np.uint64(value) for value in (0, 1, 3, 6, 7, 8, 56))
INNER_BITS, INNER = np.uint64(0xC0), np.uint64(0x80)
LOW8 = np.uint64(0xFF)
LOWER_A, LOWER_Z, UPPER_A, UPPER_Z, DIGIT_0, DIGIT_9 = (np.uint64(ord(letter)) for letter in "azAZ09")
BLOCK_WORDS = np.uint64(8)


@kernel
def in_range(word, low, high):
    """Flag the bytes with ``low <= byte <= high``. Contract: uint64 word, ASCII bounds, low <= high < 0x80."""
    seven = word & LOWS
    at_least_low = seven + (BIAS - low) * ONES  # sets a top bit from ``low`` up
    above_high = seven + (BIAS - U1 - high) * ONES  # sets it from ``high + 1`` up
    return at_least_low & ~above_high & ~word & TOPS


@kernel
def lower(word):
    """Flag the bytes a to z."""
    return in_range(word, LOWER_A, LOWER_Z)


@kernel
def upper(word):
    """Flag the bytes A to Z."""
    return in_range(word, UPPER_A, UPPER_Z)


@kernel
def letters(word):
    """Flag the ASCII letters: bit 0x20 folds the case, and a byte above 0x7F keeps its top bit and stays out."""
    return in_range(word | CASE, LOWER_A, LOWER_Z)


@kernel
def digits(word):
    """Flag the bytes 0 to 9."""
    return in_range(word, DIGIT_0, DIGIT_9)


@kernel
def all_equal(word):
    """Tell whether all eight bytes are the same."""
    return word == (word & LOW8) * ONES


@kernel
def prefix_length(flags):
    """Count the flagged bytes before the first one that is not: 0 to 8."""
    return trailing_zeros(~flags & TOPS) >> U3


@kernel
def gather(flags):
    """Press the eight flags into eight bits: bit i for byte i."""
    return ((flags >> U7) * GATHER) >> U56


@kernel
def is_inner(byte):
    """Tell whether a byte of UTF-8 text is one of a character but its first."""
    return (byte & INNER_BITS) == INNER


@kernel
def count_inner(at, end):
    """Count such bytes in ``at .. end``."""
    count = U0
    while at + U8 <= end:
        word = load64(at)
        count += (((word >> U7) & ~(word >> U6) & ONES) * ONES) >> U56
        at += U8
    while at < end:
        count += U1 if is_inner(load8(at)) else U0
        at += U1
    return count


@kernel
def block_mask(block, low, high):
    """Give bit i for each byte i of the 64 at address ``block`` in the ASCII range ``low..high``.

    The portable form of ``_llvm.in_range_mask`` (which is one vector compare); the tests hold one against the other.
    """
    mask = U0
    for index in range(BLOCK_WORDS):
        word = load64(block + index * U8)
        mask |= gather(in_range(word, low, high)) << (index * U8)
    return mask
