"""The pre-token cache of one worker, long pieces: a ring of records, each the bytes of a piece and its ids.

Invariant: records are written one behind the other, and over the oldest ones when the ring is full. Places are counted
on without end, so that a place tells by itself whether its record still stands: it does if less than the whole ring
was written since. So nothing is ever chained or freed, and memory is fixed: pages of the ring that no text has needed
are never touched.

A place is found by the hash of the piece in the finder: words of a part of the hash and a place, eight to a cache line,
the line named by the rest of the hash. The record then decides by a full compare. A short piece of many ids has its
place in its own entry (see cache.py).

    word: width of the piece | kind | ids << 32
    the bytes of the piece, up to a multiple of 8
    the ids, up to a multiple of 16 bytes

    >>> RING_BYTES // 2**20, FINDER_BYTES // 2**20
    (16, 2)
"""

from __future__ import annotations

import numpy as np

from numbatok._jit import kernel
from numbatok._llvm import copy16, folded_product, load8, load64, store8, store64
from numbatok.table import GOLDEN, MIXER

RING_BYTES, FINDER_BITS = 1 << 24, 15
FINDER_BYTES = 64 << FINDER_BITS
LONG_KEY_BYTES, LONG_IDS_MOST = 512, 256
RECORD_BYTES = 8 + LONG_KEY_BYTES + 4 * LONG_IDS_MOST + 64
"""Room for any record, and for what is written behind it."""

U0, U1, U3, U4, U7, U8, U15, U16, U32 = (np.uint64(value) for value in (0, 1, 3, 4, 7, 8, 15, 16, 32))
LONG_KEY, LONG_IDS = np.uint64(LONG_KEY_BYTES), np.uint64(LONG_IDS_MOST)
RING, RECORD, RING_MASK = np.uint64(RING_BYTES), np.uint64(RECORD_BYTES), np.uint64(RING_BYTES - 1)
FINDER_SHIFT, LINE = np.uint64(64 - FINDER_BITS), np.uint64(64)
TAG_SHIFT, PLACE_MASK = np.uint64(48), np.uint64((1 << 48) - 1)
LOW32 = np.uint64(0xFFFFFFFF)
PIECE, WINDOW = np.uint64(0), np.uint64(1 << 31)
"""Kinds of records: whole pieces, and windows of longer ones (see windows.py). They are kept apart, since a piece may
be a token that merging its bytes does not give."""


@kernel
def stands(w, place):
    """Tell whether the record at ``place`` is whole: neither overwritten, nor where the next one is being written."""
    return place + RING >= w.head + RECORD


@kernel
def record_at_place(w, place):
    """Give the address of the record at ``place``."""
    return w.ring + (place & RING_MASK)


@kernel
def long_digest(at, width):
    """Give a 64-bit hash of a long piece. Contract: width >= 16.

    Two words for each multiplication; the last two are the last 16 bytes, whatever was hashed of them before.
    """
    last = at + width - U16
    digest = width
    while at < last:
        digest = folded_product(load64(at) ^ GOLDEN, load64(at + U8) ^ digest)
        at += U16
    return folded_product(load64(last) ^ MIXER, load64(last + U8) ^ digest)


@kernel
def same_piece(one, other, width):
    """Tell whether two long pieces are the same bytes. Contract: width >= 16."""
    last = one + width - U8
    if load64(last) != load64(other + width - U8):
        return False
    while one < last:
        if load64(one) != load64(other):
            return False
        one += U8
        other += U8
    return True


@kernel
def finder_line(w, digest):
    """Give the address of the line of the finder that a hash may be in."""
    return w.finder + (digest >> FINDER_SHIFT) * LINE


@kernel
def finder_word(digest, place):
    """Give the word of the finder for a record: a part of the hash above, the place below."""
    return (digest << TAG_SHIFT) | (place >> U3)


@kernel
def place_of(word):
    """Give the place in a word of the finder; that of an empty word stands for no record."""
    return (word & PLACE_MASK) << U3


@kernel
def find_record(w, line, digest, at, width, kind):
    """Give the address of the ids of a long piece and their number; 0, 0 if no record of this kind has it."""
    for slot in range(line, line + LINE, U8):
        word = load64(slot)
        place = place_of(word)
        if word == finder_word(digest, place) and stands(w, place):
            record = record_at_place(w, place)
            sizes = load64(record)
            if sizes & LOW32 == width | kind and same_piece(record + U8, at, width):
                return record + U8 + ((width + U7) & ~U7), sizes >> U32
    return U0, U0


@kernel
def next_key(w):
    """Give the address where the bytes of the next record go. Contract: at most LONG_KEY of them."""
    return w.ring + (w.head & RING_MASK) + U8


@kernel
def keep_record(w, width, kind, ids, count):
    """Make a record of the bytes at :func:`next_key` and these ids; gives its place."""
    place = w.head
    record = record_at_place(w, place)
    store64(record, width | kind | (count << U32))
    target = record + U8 + ((width + U7) & ~U7)
    copy_ids(target, ids, count)
    end = place + (target - record) + ((count * U4 + U15) & ~U15)
    if (end & RING_MASK) + RECORD > RING:
        end = (end | RING_MASK) + U1
    w.head = end
    return place


@kernel
def note_place(line, digest, place):
    """Enter a record into its line of the finder, over the oldest there."""
    oldest = line
    for slot in range(line, line + LINE, U8):
        if place_of(load64(slot)) < place_of(load64(oldest)):
            oldest = slot
    store64(oldest, finder_word(digest, place))


@kernel
def enter_long(w, line, digest, width, kind, ids, count):
    """Remember the ids of the long piece whose bytes are at :func:`next_key`, if they are not too many."""
    if count <= LONG_IDS:
        note_place(line, digest, keep_record(w, width, kind, ids, count))


@kernel
def copy_words(target, source, width):
    """Copy ``width`` bytes, eight at a time and the rest one by one."""
    end = source + width
    while source + U8 <= end:
        store64(target, load64(source))
        target += U8
        source += U8
    while source < end:
        store8(target, load8(source))
        target += U1
        source += U1


@kernel
def copy_ids(target, source, count):
    """Copy ``count`` ids in blocks of four (up to three more are written)."""
    for index in range(U0, count, U4):
        copy16(target + index * U4, source + index * U4)
