"""The pre-token cache of one worker, short pieces: piece bytes -> ids, with a full compare of the key on every hit.

Invariant: what an entry gives is what merging its key gives. A set that is full loses an entry, so memory is fixed when
the worker is made, whatever the text; a lost entry can cost time, never an id.

An entry is 32 bytes, half a cache line: a key of up to 15 bytes in two words (the width in bits 56-59 of the second,
the number of ids in bits 60-63) and up to 4 ids. Four entries, two lines that the processor fetches together, are a
set. The hash names one of the four, where nearly all pieces are found; the others take those that meet there. An entry
for more ids says SPILLED in place of their number, and its ids are in the ring (see ring.py). Seeded with the
vocabulary.

Measured (cl100k_base, one thread, 8 MB, warm, against one slot of 64 bytes for each hash in the same 16 MB): see
docs/performance.md.

    >>> SHORT_BYTES // 2**20
    16
"""

from __future__ import annotations

import numpy as np

from numbatok._jit import kernel
from numbatok._llvm import copy16, folded_product, load8, load64, store64
from numbatok.ring import PIECE, copy_ids, keep_record, record_at_place, stands
from numbatok.table import GOLDEN, MIXER

ENTRY_BITS, ENTRY_BYTES = 19, 32
SHORT_BYTES = ENTRY_BYTES << ENTRY_BITS

U0, U1, U4, U8, U16, U24, U56, U60 = (np.uint64(value) for value in (0, 1, 4, 8, 16, 24, 56, 60))
SHORT_KEY, SHORT_IDS, SPILLED = np.uint64(15), np.uint64(4), np.uint64(15)
ENTRY_SHIFT, ENTRY_STRIDE = np.uint64(64 - ENTRY_BITS), np.uint64(ENTRY_BYTES)
WAYS, LAST_WAY = np.uint64(4), np.uint64(3 * ENTRY_BYTES)
SPILLED_IDS = np.uint64(8 + 16)
"""Where the ids are in the record of a short piece, whose key takes two words."""

LOW_MASKS = np.array([(1 << 8 * min(width, 8)) - 1 for width in range(16)], np.uint64)
HIGH_MASKS = np.array([(1 << 8 * max(width - 8, 0)) - 1 for width in range(16)], np.uint64)
"""What to keep of the two words at a piece of each width."""


@kernel
def short_key(at, width, stop):
    """Give the two words of a piece of 1 to SHORT_KEY bytes; reads nothing at or past ``stop``."""
    if at + U16 <= stop:
        return load64(at) & LOW_MASKS[width], (load64(at + U8) & HIGH_MASKS[width]) | (width << U56)
    return last_key(at, width)


@kernel
def last_key(at, width):
    """Give the same byte by byte, near the end of what can be read: apart, so that the other way stays inline."""
    low, high = U0, width << U56
    for index in range(width):
        byte = load8(at + index)
        if index < U8:
            low |= byte << (index * U8)
        else:
            high |= byte << ((index - U8) * U8)
    return low, high


@kernel
def key_width(high):
    """Give the bytes of the piece whose key this is the second word of."""
    return (high >> U56) & SHORT_KEY


@kernel
def first_entry(entries, low, high):
    """Give the address of the entry where a key is looked for first."""
    return entries + (folded_product(low ^ GOLDEN, high ^ MIXER) >> ENTRY_SHIFT) * ENTRY_STRIDE


@kernel
def entry_hit(entry, low, high):
    """Tell whether the entry holds exactly this key (the number of ids, above the width, is shifted out)."""
    return ((load64(entry) ^ low) | ((load64(entry + U8) ^ high) << U4)) == U0


@kernel
def entry_count(entry):
    """Give the number of ids in an entry, or SPILLED."""
    return load64(entry + U8) >> U60


@kernel
def find_entry(first, low, high):
    """Give the entry of the set that holds this key, or 0."""
    for way in range(WAYS):
        entry = first ^ (way * ENTRY_STRIDE)
        if entry_hit(entry, low, high):
            return entry
    return U0


@kernel
def swap_entries(one, other):
    """Exchange two entries: what was used last is then found first."""
    one_key, other_key = load64(one + U8), load64(other + U8)
    store64(one + U8, U0)  # an entry is never half of this and half of that, even if a run without the JIT is stopped
    store64(other + U8, U0)
    for at in (U0, U16, U24):
        word = load64(one + at)
        store64(one + at, load64(other + at))
        store64(other + at, word)
    store64(one + U8, other_key)
    store64(other + U8, one_key)


@kernel
def free_entry(first):
    """Give the first free entry of the set, or 0."""
    for way in range(WAYS):
        entry = first ^ (way * ENTRY_STRIDE)
        if load64(entry + U8) == U0:
            return entry
    return U0


@kernel
def store_short(entry, low, high, ids, count):
    """Overwrite an entry. Contract: 1 <= count <= SHORT_IDS, SHORT_IDS ids are readable at ``ids``."""
    store64(entry + U8, U0)
    store64(entry, low)
    copy16(entry + U16, ids)
    store64(entry + U8, high | (count << U60))


@kernel
def enter_short(w, first, entry, low, high, ids, count):
    """Remember the ids of a short piece: in ``entry``, which has its key, or if that is 0 in a free one or the first.

    In a full set what was in the first entry moves to the last, which is lost.
    """
    if entry == U0:
        entry = free_entry(first)
    if entry == U0:
        entry = first
        swap_entries(first, first ^ LAST_WAY)
    if count <= SHORT_IDS:
        store_short(entry, low, high, ids, count)
    else:
        place = keep_record(w, U16, PIECE, ids, count)
        store64(entry + U8, U0)
        store64(entry, low)
        store64(entry + U16, place)
        store64(entry + U24, count)
        store64(entry + U8, high | (SPILLED << U60))


@kernel
def copy_spilled(w, entry, out):
    """Write the ids of an entry that are in the ring, and give their number; 0 if they are no longer there."""
    place, count = load64(entry + U16), load64(entry + U24)
    if not stands(w, place):
        return U0
    copy_ids(out, record_at_place(w, place) + SPILLED_IDS, count)
    return count
