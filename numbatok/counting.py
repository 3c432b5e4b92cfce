"""Distinct pieces and how often they were met: the kernels that count, on one thread, into one table.

Invariant: the table holds every distinct piece once, with the exact sum of its weights; which slot a piece has, and how
the text was cut into calls, changes nothing that is read out of it. Kernels never allocate: a batch that might not fit
is left alone, and the record says from where to go on once there is more room.

A slot is 32 bytes. A piece of up to 15 bytes stands in it (two words, see ``short_key`` of cache.py), a longer one
stands in the arena and its slot has its hash and place; then the count, and the width of a long piece.

    >>> from numbatok.counter import Counter
    >>> from numbatok.text import join_rows
    >>> counter = Counter()
    >>> counter.add(join_rows([b"a word, a word"]))
    >>> counter.counts()[b" word"]
    2
"""

from __future__ import annotations

import numpy as np

from numbatok._jit import kernel
from numbatok._llvm import copy, load8, load64, prefetch, record_at, store64
from numbatok.cache import SHORT_KEY, short_key
from numbatok.split.scan import fill_row
from numbatok.table import GOLDEN, MIXER, hash_bytes, same_bytes, tables_at

COUNTER = np.dtype(
    [
        ("tables", "u8"),  # address of a TABLES record with a split; see table.py
        ("ends", "u8"),  # uint64[MOST_PIECES]: piece ends
        ("keys", "u8"),  # uint64[MOST_PIECES * 3]: low word, high word (0 for a long piece) and place of each piece
        ("slots", "u8"),  # uint64[2**k * 4]
        ("shift", "u8"),  # 64 - k
        ("used", "u8"),  # slots that are taken
        ("limit", "u8"),  # and how many may be
        ("arena", "u8"),  # uint8: the bytes of long pieces, one after the other
        ("arena_used", "u8"),
        ("arena_room", "u8"),
        ("status", "u8"),  # why the last call ended
        ("row", "u8"),  # where to go on: row and address of a piece start
        ("resume", "u8"),
        ("needed", "u8"),  # bytes of the batch that did not fit
    ]
)
counter_at = record_at(COUNTER)

BATCH = 256
"""Pieces after which a batch ends that is split, hashed and counted in one go."""
MOST_PIECES = BATCH + 64
"""And how many it may have: those of a block come together."""
SLOT_BYTES = 32
COUNTED, PAUSED, NOT_UTF8, NEEDS_ROOM = 0, 1, 2, 3

U0, U1, U2, U4, U8, U16, U24, U32, U56 = (np.uint64(value) for value in (0, 1, 2, 4, 8, 16, 24, 32, 56))
ROOM, KEY_STRIDE, SLOT = np.uint64(BATCH), np.uint64(24), np.uint64(SLOT_BYTES)
STATUS_COUNTED, STATUS_PAUSED = np.uint64(COUNTED), np.uint64(PAUSED)
STATUS_NOT_UTF8, STATUS_NEEDS_ROOM = np.uint64(NOT_UTF8), np.uint64(NEEDS_ROOM)
LONG = np.uint64(1 << 63)
"""Set in the second word of a slot that has a long piece; a short one has its width in bits 56 to 59 there."""
PLACE_MASK = np.uint64((1 << 63) - 1)
W64 = np.uint64(64)


@kernel
def short_place(low, high, shift):
    """Give the first slot to probe for the two words of a short piece."""
    mixed = (low ^ (high * MIXER)) * GOLDEN
    return ((mixed ^ (mixed >> U32)) * MIXER) >> shift


@kernel
def add_short(slots, mask, place, low, high, weight):
    """Add to the count of a short piece; gives 1 if it is new, else 0."""
    slot = slots + place * SLOT
    while load64(slot) != low or load64(slot + U8) != high:
        if load64(slot + U8) == U0:
            store64(slot, low)
            store64(slot + U8, high)
            store64(slot + U16, weight)
            return U1
        place = (place + U1) & mask
        slot = slots + place * SLOT
    store64(slot + U16, load64(slot + U16) + weight)
    return U0


@kernel
def add_long(counter, mask, digest, at, width, weight):
    """Add to the count of a long piece; gives 1 if it is new, else 0. Contract: the arena has room for it."""
    c = counter_at(counter)
    place = digest >> c.shift
    slot = c.slots + place * SLOT
    found = load64(slot + U8)
    while found != U0:
        same = found >= LONG and load64(slot) == digest and load64(slot + U24) == width
        if same and same_bytes(c.arena + (found & PLACE_MASK), at, width):
            store64(slot + U16, load64(slot + U16) + weight)
            return U0
        place = (place + U1) & mask
        slot = c.slots + place * SLOT
        found = load64(slot + U8)
    store64(slot, digest)
    store64(slot + U8, LONG | c.arena_used)
    store64(slot + U16, weight)
    store64(slot + U24, width)
    copy(c.arena + c.arena_used, at, width)
    c.arena_used = c.arena_used + width
    return U1


@kernel
def split_batch(counter, base, offsets, weighed, row, last, at):
    """Split rows from address ``at`` of ``row`` on until a batch is full; gives pieces, row and address behind them.

    The rows follow each other in memory, so each piece starts where the one before ends. With ``weighed`` a batch ends
    with its row. At bytes that are not UTF-8 the batch ends, and the record says so.
    """
    c = counter_at(counter)
    t, ends, limit, pieces = tables_at(c.tables), c.ends, base + load64(offsets + last * U8), U0
    while row < last and pieces < ROOM:
        stop = base + load64(offsets + row * U8 + U8)
        made = fill_row(t, at, stop, limit, ends + pieces * U8, ROOM - pieces)
        if made == U0 and at < stop:
            c.status, c.row, c.resume = STATUS_NOT_UTF8, row, at
            break
        pieces += made
        if made:
            at = load64(ends + (pieces - U1) * U8)
        if at == stop:
            row += U1
            if weighed:
                break
    return pieces, row, at


@kernel
def prepare_batch(counter, at, stop, pieces):
    """Compute the key of each piece and prefetch its slot. Contract: nothing is read at or behind ``stop``."""
    c = counter_at(counter)
    keys, ends, slots, shift = c.keys, c.ends, c.slots, c.shift
    for index in range(pieces):
        end = load64(ends + index * U8)
        width, entry = end - at, keys + index * KEY_STRIDE
        if width <= SHORT_KEY:
            low, high = short_key(at, width, stop)
            place = short_place(low, high, shift)
        else:
            low, high = hash_bytes(at, width), U0
            place = low >> shift
        prefetch(slots + place * SLOT)
        store64(entry, low)
        store64(entry + U8, high)
        store64(entry + U16, place)
        at = end


@kernel
def add_batch(counter, at, pieces, weight):
    """Add the weight to the count of each prepared piece. Contract: table and arena have room for all of them."""
    c = counter_at(counter)
    keys, ends, slots, used = c.keys, c.ends, c.slots, c.used
    mask = (U1 << (W64 - c.shift)) - U1
    for index in range(pieces):
        entry, end = keys + index * KEY_STRIDE, load64(ends + index * U8)
        low, high = load64(entry), load64(entry + U8)
        if high:
            used += add_short(slots, mask, load64(entry + U16), low, high, weight)
        else:
            used += add_long(counter, mask, low, at, end - at, weight)
        at = end
    c.used = used


@kernel(entry=True)
def count_rows(counter, base, offsets, weights, first, last, resume, budget):
    """Count the pieces of the texts ``base + offsets[row] .. base + offsets[row + 1]``, rows ``first .. last - 1``.

    Contract: all arguments int64; ``offsets`` and ``weights`` are addresses of int64 arrays, ``weights`` of one entry a
    row, or 0 to count each row once. ``resume`` is 0, or the address in row ``first`` where an earlier call stopped.
    Gives the number of bytes that were counted; the record says why it ended, after ``budget`` bytes at the latest.
    """
    counter, base, offsets, weights = np.uint64(counter), np.uint64(base), np.uint64(offsets), np.uint64(weights)
    c = counter_at(counter)
    row, end, done, most = np.uint64(first), np.uint64(last), U0, np.uint64(budget)
    at = np.uint64(resume) if resume else base + load64(offsets + row * U8)
    c.status = STATUS_COUNTED
    while row < end and c.status == STATUS_COUNTED:
        weight = load64(weights + row * U8) if weights else U1
        if weight == U0:
            row += U1
            at = base + load64(offsets + row * U8)
            continue
        pieces, row_behind, behind = split_batch(counter, base, offsets, weights != U0, row, end, at)
        if c.used + pieces > c.limit or c.arena_used + (behind - at) > c.arena_room:
            c.status, c.row, c.resume, c.needed = STATUS_NEEDS_ROOM, row, at, behind - at
            break
        prepare_batch(counter, at, base + load64(offsets + end * U8), pieces)
        add_batch(counter, at, pieces, weight)
        done += behind - at
        row, at = row_behind, behind
        if done >= most and c.status == STATUS_COUNTED:
            c.status, c.row, c.resume = STATUS_PAUSED, row, at
    return np.int64(done)


# ---- whole tables ----------------------------------------------------------------------------------------------------


@kernel(entry=True)
def move_slots(counter, old, size):
    """Enter the slots of an old table of ``size`` slots into the record's empty one. Contract: int64 arguments."""
    c = counter_at(np.uint64(counter))
    mask, slots, shift = (U1 << (W64 - c.shift)) - U1, c.slots, c.shift
    for number in range(np.uint64(size)):
        source = np.uint64(old) + number * SLOT
        low, high = load64(source), load64(source + U8)
        if high == U0:
            continue
        place = low >> shift if high >= LONG else short_place(low, high, shift)
        while load64(slots + place * SLOT + U8) != U0:
            place = (place + U1) & mask
        copy(slots + place * SLOT, source, SLOT)


@kernel(entry=True)
def add_counter(counter, other, first):
    """Add all counts of ``other`` from slot ``first`` on; gives the slot that did not fit any more, or its number.

    Contract: int64 arguments, addresses of two records.
    """
    counter = np.uint64(counter)
    c, o = counter_at(counter), counter_at(np.uint64(other))
    mask = (U1 << (W64 - c.shift)) - U1
    for number in range(np.uint64(first), U1 << (W64 - o.shift)):
        slot = o.slots + number * SLOT
        low, high, weight = load64(slot), load64(slot + U8), load64(slot + U16)
        if high == U0:
            continue
        width = load64(slot + U24)
        if c.used >= c.limit or (high >= LONG and c.arena_used + width > c.arena_room):
            c.status, c.needed = STATUS_NEEDS_ROOM, width
            return np.int64(number)
        if high >= LONG:
            made = add_long(counter, mask, low, o.arena + (high & PLACE_MASK), width, weight)
        else:
            made = add_short(c.slots, mask, short_place(low, high, c.shift), low, high, weight)
        c.used = c.used + made
    return np.int64(U1 << (W64 - o.shift))


@kernel
def copies_of(count, heaviest):
    """Give how many symbols words a piece becomes: a count that is too heavy for one word is spread over several."""
    return (count + heaviest - U1) // heaviest


@kernel(entry=True)
def measure_symbols(counter, heaviest):
    """Give the number of symbols of all pieces of two bytes and more, each with an end. Contract: int64 arguments."""
    c, most, total = counter_at(np.uint64(counter)), np.uint64(heaviest), U0
    for number in range(U1 << (W64 - c.shift)):
        slot = c.slots + number * SLOT
        high = load64(slot + U8)
        width = load64(slot + U24) if high >= LONG else high >> U56
        if width >= U2:
            total += copies_of(load64(slot + U16), most) * (width + U1)
    return np.int64(total)


@kernel(entry=True)
def write_symbols(counter, first, last, heaviest, byte_ids, target):
    """Write the pieces of two bytes and more of the slots ``first .. last - 1`` as symbols; gives the address behind.

    Contract: int64 arguments. A symbol is ``weight << 32 | id``, an end :data:`END`; ``byte_ids`` is uint64[256].
    """
    c, most, byte_ids = counter_at(np.uint64(counter)), np.uint64(heaviest), np.uint64(byte_ids)
    cursor = np.uint64(target)
    for number in range(np.uint64(first), np.uint64(last)):
        slot = c.slots + number * SLOT
        high, left = load64(slot + U8), load64(slot + U16)
        at, width = slot, high >> U56
        if high >= LONG:
            at, width = c.arena + (high & PLACE_MASK), load64(slot + U24)
        while width >= U2 and left:
            weight = min(left, most)
            for index in range(width):
                store64(cursor, (weight << U32) | load64(byte_ids + load8(at + index) * U8))
                cursor += U8
            store64(cursor, END)
            cursor += U8
            left -= weight
    return np.int64(cursor)


END = np.uint64(0xFFFFFFFF)
"""The id that stands behind each word of symbols, and before the first."""
