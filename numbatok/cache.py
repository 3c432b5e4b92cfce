"""The pre-token cache of one worker: piece bytes -> ids, direct-mapped, with a full compare of the key on every hit.

Invariant: what a slot gives is what merging its key gives. A slot is overwritten, never chained, so memory is fixed
when the worker is made (:data:`CACHE_BYTES`), whatever the text; a wrong or lost entry can cost time, never an id.

Two tables, since nine pieces of ten are short and make few ids:

* short, one cache line of 64 bytes a slot: a key of up to 15 bytes in two words (the width in bits 56-59 of the second,
  the number of ids in bits 60-63) and up to 12 ids. Seeded with the vocabulary.
* long, 256 bytes a slot: hash, width and number, 80 bytes of key, 40 ids.

Measured (GPT-2, one thread, warm, against this layout): slots of 32 bytes with 4 ids lose 12 % on source code, where
indentation makes many ids; two ways in a line gain nothing; twice the slots gain 18 % on novels and 9 % on a mix, at
16 MB more for each worker.

    >>> CACHE_BYTES // 2**20
    20
"""

from __future__ import annotations

import numpy as np

from numbatok._jit import kernel
from numbatok._llvm import copy16, load8, load64, store8, store64
from numbatok.table import GOLDEN, MIXER, same_bytes

SHORT_BITS, SHORT_SLOT = 18, 64
LONG_BITS, LONG_SLOT = 14, 256
CACHE_BYTES = (SHORT_SLOT << SHORT_BITS) + (LONG_SLOT << LONG_BITS)

U0, U1, U4, U8, U16, U32, U48, U56, U60 = (np.uint64(value) for value in (0, 1, 4, 8, 16, 32, 48, 56, 60))
SHORT_KEY, SHORT_IDS = np.uint64(15), np.uint64(12)
SHORT_SHIFT, SHORT_STRIDE = np.uint64(64 - SHORT_BITS), np.uint64(SHORT_SLOT)
LONG_KEY, LONG_IDS = np.uint64(80), np.uint64(40)
LONG_SHIFT, LONG_STRIDE = np.uint64(64 - LONG_BITS), np.uint64(LONG_SLOT)
LONG_KEY_AT, LONG_IDS_AT = np.uint64(16), np.uint64(96)
LOW56 = np.uint64((1 << 56) - 1)
LOW32 = np.uint64(0xFFFFFFFF)

LOW_MASKS = np.array([(1 << 8 * min(width, 8)) - 1 for width in range(16)], np.uint64)
HIGH_MASKS = np.array([(1 << 8 * max(width - 8, 0)) - 1 for width in range(16)], np.uint64)
"""What to keep of the two words at a piece of each width."""


@kernel
def short_key(at, width, stop):
    """Give the two words of a piece of 1 to SHORT_KEY bytes; reads nothing at or past ``stop``."""
    if at + U16 <= stop:
        return load64(at) & LOW_MASKS[width], (load64(at + U8) & HIGH_MASKS[width]) | (width << U56)
    low, high = U0, width << U56
    for index in range(width):
        byte = load8(at + index)
        if index < U8:
            low |= byte << (index * U8)
        else:
            high |= byte << ((index - U8) * U8)
    return low, high


@kernel
def short_slot(slots, low, high):
    """Give the address of the one short slot that a key may be in."""
    mixed = (low ^ (high * MIXER)) * GOLDEN
    mixed = (mixed ^ (mixed >> U32)) * MIXER
    return slots + (mixed >> SHORT_SHIFT) * SHORT_STRIDE


@kernel
def short_hit(slot, low, high):
    """Tell whether the slot holds exactly this key (the number of ids, above the width, is shifted out)."""
    return ((load64(slot) ^ low) | ((load64(slot + U8) ^ high) << U4)) == U0


@kernel
def copy_short(slot, target):
    """Write the ids of a slot to ``target``, which takes SHORT_IDS, and give their number.

    The first four are stored whatever their number: no branch for nine pieces of ten.
    """
    count = load64(slot + U8) >> U60
    copy16(target, slot + U16)
    if count > U4:
        copy16(target + U16, slot + U32)
        copy16(target + U32, slot + U48)
    return count


@kernel
def store_short(slot, low, high, ids, count):
    """Overwrite a short slot. Contract: 1 <= count <= SHORT_IDS, SHORT_IDS ids are readable at ``ids``."""
    store64(slot, low)
    store64(slot + U8, high | (count << U60))
    copy16(slot + U16, ids)
    copy16(slot + U32, ids + U16)
    copy16(slot + U48, ids + U32)


@kernel
def short_marked(slot, low, high):
    """Tell whether the slot says that this key has more than SHORT_IDS ids and is looked for in the long table."""
    return load64(slot) == low and load64(slot + U8) == mark_of(high)


@kernel
def mark_short(slot, low, high):
    """Make the slot say so."""
    store64(slot, low)
    store64(slot + U8, mark_of(high))


@kernel
def mark_of(high):
    """Move the width of a key word into the place of the number of ids: no key has width 0, so none equals a mark."""
    return (high & LOW56) | ((high >> U56) << U60)


@kernel
def long_slot(slots, digest):
    """Give the address of the one long slot that a hash may be in."""
    return slots + (digest >> LONG_SHIFT) * LONG_STRIDE


@kernel
def long_hit(slot, digest, at, width):
    """Give the number of ids in the slot if it holds exactly these bytes, else 0."""
    sizes = load64(slot + U8)
    if load64(slot) != digest or (sizes & LOW32) != width:
        return U0
    return sizes >> U32 if same_bytes(slot + LONG_KEY_AT, at, width) else U0


@kernel
def store_long(slot, digest, at, width, ids, count):
    """Overwrite a long slot. Contract: width <= LONG_KEY, 1 <= count <= LONG_IDS, ids readable to a multiple of 4."""
    store64(slot, digest)
    store64(slot + U8, width | (count << U32))
    copy_words(slot + LONG_KEY_AT, at, width)
    copy_ids(slot + LONG_IDS_AT, ids, count)


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
