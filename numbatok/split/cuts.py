r"""Safe cuts: places where a text may be cut in two so that both halves give the ids of the whole.

Invariant: at a safe cut a piece ends whatever the text before and after, and the last piece before it does not change
when the text ends there. Only pairs of neighbours that satisfy this for every supported pattern count:

* ASCII letter or digit, then ASCII whitespace or ASCII punctuation except the apostrophe;
* ASCII letter then digit, or digit then letter;
* a Han character of U+4E00-9FA5, then U+3002 or U+FF0C.

A line end alone is no safe cut: GPT-2 reads ``a\n\nb`` as ``\n`` and ``\n``, but ``a\n\n`` as one piece.

    >>> import numpy as np
    >>> text = np.frombuffer(b"one two", np.uint8)
    >>> find_cut(text.ctypes.data, 1, len(text))
    3
"""

from __future__ import annotations

import numpy as np

from numbatok._jit import kernel
from numbatok._llvm import load8

U1, U2, U8, U16 = (np.uint64(value) for value in (1, 2, 8, 16))

NONE, LETTER, DIGIT, BREAK = 0, 1, 2, 3


def _neighbour_kind(byte: int) -> int:
    character = chr(byte)
    if byte >= 0x80 or character == "'":
        return NONE
    if character.isalpha():
        return LETTER
    if character.isdigit():
        return DIGIT
    return BREAK if byte in b"\t\n\v\f\r" or 0x20 <= byte < 0x7F else NONE


KINDS = np.array([_neighbour_kind(byte) for byte in range(256)], np.uint8)
FIRST_HAN, LAST_HAN = np.uint64(0xE4B880), np.uint64(0xE9BEA5)
IDEOGRAPHIC_STOP, FULL_COMMA = np.uint64(0xE38082), np.uint64(0xEFBC8C)
HAN_WIDTH = np.uint64(3)


@kernel
def three_bytes(at):
    """Give three bytes as one number, first byte high, so that numbers order as code points do."""
    return (load8(at) << U16) | (load8(at + U1) << U8) | load8(at + U2)


@kernel
def is_cut(at, place, stop):
    """Tell whether ``place`` is a safe cut of the text ``at .. stop``. Contract: addresses, at < place < stop."""
    before, behind = KINDS[load8(place - U1)], KINDS[load8(place)]
    if before == LETTER or before == DIGIT:
        return behind == BREAK or (behind != NONE and behind != before)
    if place - at < HAN_WIDTH or stop - place < HAN_WIDTH:
        return False
    han = three_bytes(place - HAN_WIDTH)
    if han < FIRST_HAN or han > LAST_HAN:
        return False
    mark = three_bytes(place)
    return mark == IDEOGRAPHIC_STOP or mark == FULL_COMMA


@kernel
def next_cut(at, place, stop):
    """Give the first safe cut of the text ``at .. stop`` at or behind ``place``; ``stop`` if there is none."""
    place = max(place, at + U1)
    while place < stop:
        if is_cut(at, place, stop):
            return place
        place += U1
    return stop


@kernel
def middle_cut(at, stop, reach):
    """Give the safe cut nearest to the middle within ``reach`` bytes, those before it first; ``stop`` for none."""
    middle = at + ((stop - at) >> U1)
    for distance in range(reach):
        if middle - distance > at and is_cut(at, middle - distance, stop):
            return middle - distance
    for distance in range(U1, reach):
        if middle + distance < stop and is_cut(at, middle + distance, stop):
            return middle + distance
    return stop


@kernel(entry=True)
def find_cut(text, least, size):
    """Give the first safe cut at index ``least`` or behind, else ``size`` (the entry from Python, all int64)."""
    at = np.uint64(text)
    return np.int64(next_cut(at, at + np.uint64(least), at + np.uint64(size)) - at)
