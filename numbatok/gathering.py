"""Training, first half of a round: which pairs of neighbours are frequent, how often they come, and where.

Symbols are words of 64 bits, ``weight << 32 | id``, one word of text after the other with an END behind each. A token
made in this round spans the slots of its parts: its first and its last slot have its id, so that the next token and the
one before are found from ``sizes`` alone. At the start of a round every token has one slot.

Only pairs with a count of at least ``least`` are kept: a pair's count never grows after the merge that brought it
about, so a rare pair stays rare, and nine pairs in ten are never looked at again. When the frequent ones are used up,
the next round gathers with a lower ``least``.

Invariant: after a round is gathered, the table holds exactly the pairs with that count and a length within bounds, with
exact counts, and for each the places of its left part in rising order.

    round 1: least 1000    t h -> 5120 times, at 3, 17, ...    round 2: least 125    ...
"""

from __future__ import annotations

import numpy as np

from numbatok._jit import kernel
from numbatok._llvm import load32, load64, record_at, store32, store64
from numbatok.counting import END
from numbatok.table import EMPTY, GOLDEN, MIXER

TRAINER = np.dtype(
    [
        ("symbols", "u8"),  # uint64[slots]
        ("slots", "u8"),
        ("read", "u8"),  # while words are moved: the slot of the next one, and where it goes
        ("written", "u8"),
        ("sizes", "u8"),  # uint32[tokens]: slots of each token
        ("lengths", "u8"),  # uint32[tokens]: bytes of each token
        ("longest", "u8"),  # most bytes of a token
        ("least", "u8"),  # least count of a pair in the table
        ("buckets", "u8"),  # uint64[2**k]: sums of the counts of all pairs with one hash
        ("bucket_shift", "u8"),  # 64 - k
        ("entries", "u8"),  # uint64[2**k * 4]: left << 32 | right or EMPTY, count, first place in the list, places
        ("entry_shift", "u8"),  # 64 - k
        ("entries_used", "u8"),
        ("entries_room", "u8"),
        ("sights", "u8"),  # uint64[slots]: number of the entry << 32 | slot, of each pair of a full bucket
        ("sights_size", "u8"),
        ("places", "u8"),  # uint32[places_room]: slots where pairs stand, those of one pair together
        ("places_used", "u8"),
        ("places_room", "u8"),
        ("heap", "u8"),  # uint64[entries_room * 2]: count, left << 32 | right
        ("heap_size", "u8"),
        ("groups", "u8"),  # uint64[tokens * 4]: count and places of (token, new one), then of (new one, token)
        ("touched", "u8"),  # uint32[tokens * 2]: groups that are not zero
        ("touched_size", "u8"),
        ("made", "u8"),  # uint64[2 * most places of a pair]: group << 32 | place of each pair that a merge makes
        ("made_size", "u8"),
        ("merges", "u8"),  # uint64[wanted]: left << 32 | right
        ("done", "u8"),  # merges so far
        ("wanted", "u8"),
        ("new", "u8"),  # the merge at work: its token and pair, and the rest of its places
        ("left", "u8"),
        ("right", "u8"),
        ("at", "u8"),
        ("end", "u8"),
        ("status", "u8"),
    ]
)
trainer_at = record_at(TRAINER)

ENTRY_BYTES = 32
U0, U1, U2, U4, U8, U16, U24, U27, U32, W64 = (np.uint64(value) for value in (0, 1, 2, 4, 8, 16, 24, 27, 32, 64))
ENTRY, LOW32, END_ID = np.uint64(ENTRY_BYTES), np.uint64(0xFFFFFFFF), np.uint64(END)


@kernel
def pair_hash(pair):
    """Give a 64-bit hash of ``left << 32 | right``."""
    mixed = (pair ^ (pair >> U32)) * GOLDEN
    return (mixed ^ (mixed >> U32)) * MIXER


@kernel
def may_merge(lengths, longest, left, right):
    """Tell whether the token of two ids is short enough."""
    return load32(lengths + left * U4) + load32(lengths + right * U4) <= longest


@kernel
def find_entry(entries, shift, pair):
    """Give the address of the entry of a pair, or of the free one that it would take."""
    mask = (U1 << (W64 - shift)) - U1
    number = pair_hash(pair) >> shift
    found = load64(entries + number * ENTRY)
    while found != pair and found != EMPTY:
        number = (number + U1) & mask
        found = load64(entries + number * ENTRY)
    return entries + number * ENTRY


@kernel
def pair_bucket(buckets, shift, pair):
    """Give the address of the bucket of a pair."""
    return buckets + (((pair ^ (pair >> U32)) * GOLDEN) >> shift) * U8


@kernel(entry=True)
def sum_buckets(trainer, first, last):
    """Add the weight of every pair that starts in the slots ``first .. last - 1`` to its bucket. Contract: int64.

    Ends are taken for ids here, which makes some buckets too full, and spares two branches: an end has weight 0.
    """
    c = trainer_at(np.uint64(trainer))
    symbols, buckets, shift = c.symbols, c.buckets, c.bucket_shift
    symbol = load64(symbols + np.uint64(first) * U8)
    for slot in range(np.uint64(first), np.uint64(last)):
        behind = load64(symbols + slot * U8 + U8)
        bucket = pair_bucket(buckets, shift, (symbol << U32) | (behind & LOW32))
        store64(bucket, load64(bucket) + (symbol >> U32))
        symbol = behind


@kernel(entry=True)
def count_pairs(trainer, first, last):
    """Count the pairs of full buckets that start in the slots ``first .. last - 1``, and note where they stand.

    Contract: int64 arguments; entries are EMPTY, 0, 0, 0 where free; ``sights`` takes a word a slot. Gives 0 if the
    table is too small, else 1.
    """
    c = trainer_at(np.uint64(trainer))
    symbols, buckets, bucket_shift, least = c.symbols, c.buckets, c.bucket_shift, c.least
    entries, shift, sights, seen = c.entries, c.entry_shift, c.sights, c.sights_size
    symbol = load64(symbols + np.uint64(first) * U8)
    for slot in range(np.uint64(first), np.uint64(last)):
        behind = load64(symbols + slot * U8 + U8)
        pair, weight, right = (symbol << U32) | (behind & LOW32), symbol >> U32, behind & LOW32
        symbol = behind
        if load64(pair_bucket(buckets, bucket_shift, pair)) < least or weight == U0 or right == END_ID:
            continue
        entry = find_entry(entries, shift, pair)
        if load64(entry) == EMPTY:
            if c.entries_used == c.entries_room:
                return np.int64(U0)
            c.entries_used = c.entries_used + U1
            store64(entry, pair)
        store64(entry + U8, load64(entry + U8) + weight)
        store64(entry + U24, load64(entry + U24) + U1)
        store64(sights + seen * U8, ((entry - entries) << U27) | slot)
        seen += U1
    c.sights_size = seen
    return np.int64(U1)


@kernel(entry=True)
def give_places(trainer):
    """Give each frequent pair its part of the list of places, and put it into the heap; gives the most places of one.

    The others keep their entries with a count and no places: they are too rare or too long, and nothing asks for them.
    """
    trainer = np.uint64(trainer)
    c = trainer_at(trainer)
    most = U0
    for number in range(U1 << (W64 - c.entry_shift)):
        entry = c.entries + number * ENTRY
        pair, count, places = load64(entry), load64(entry + U8), load64(entry + U24)
        if pair == EMPTY:
            continue
        store64(entry + U24, U0)
        if count < c.least or not may_merge(c.lengths, c.longest, pair >> U32, pair & LOW32):
            store64(entry + U16, NOWHERE)
            continue
        store64(entry + U16, c.places_used)
        c.places_used = c.places_used + places
        heap_push(trainer, count, pair)
        most = max(most, places)
    return np.int64(most)


NOWHERE = np.uint64(0xFFFFFFFFFFFFFFFF)
"""First place of a pair that is not kept."""


@kernel(entry=True)
def list_places(trainer, first, last):
    """Write the places of the pairs that are kept, from sights ``first .. last - 1``. Contract: int64 arguments."""
    c = trainer_at(np.uint64(trainer))
    sights, entries, places = c.sights, c.entries, c.places
    for index in range(np.uint64(first), np.uint64(last)):
        sight = load64(sights + index * U8)
        entry = entries + (sight >> U32) * ENTRY
        start, count = load64(entry + U16), load64(entry + U24)
        if start != NOWHERE:
            store32(places + (start + count) * U4, sight & LOW32)
            store64(entry + U24, count + U1)


@kernel(entry=True)
def compact(trainer, budget):
    """Move the tokens of some words together, one slot each; gives whether any words are left. Contract: int64.

    Words are moved from slot ``read`` of the record to slot ``written``, as many as have ``budget`` slots together. A
    word of one token has no pair, and is left out.
    """
    c = trainer_at(np.uint64(trainer))
    symbols, sizes, slot, target = c.symbols, c.sizes, c.read, c.written
    most, start = min(c.slots, slot + np.uint64(budget)), target
    while slot < most or target != start:
        symbol = load64(symbols + slot * U8)
        store64(symbols + target * U8, symbol)
        if symbol & LOW32 != END_ID:
            slot += load32(sizes + (symbol & LOW32) * U4)
            target += U1
            continue
        slot += U1
        target = target + U1 if target - start >= U2 else start
        start = target
    c.read, c.written = slot, target
    return slot < c.slots


# ---- the heap: the greatest count first, then the smaller pair -------------------------------------------------------


@kernel
def comes_first(count, pair, other_count, other_pair):
    """Tell whether a pair is merged before another one."""
    return count > other_count or (count == other_count and pair < other_pair)


@kernel
def heap_push(trainer, count, pair):
    """Enter a pair. Contract: there is room."""
    c = trainer_at(trainer)
    heap, place = c.heap, c.heap_size
    c.heap_size = place + U1
    while place > U0:
        above = heap + ((place - U1) >> U1) * U16
        if not comes_first(count, pair, load64(above), load64(above + U8)):
            break
        store64(heap + place * U16, load64(above))
        store64(heap + place * U16 + U8, load64(above + U8))
        place = (place - U1) >> U1
    store64(heap + place * U16, count)
    store64(heap + place * U16 + U8, pair)


@kernel
def heap_sink(trainer, count, pair):
    """Put a pair in the place of the first one. Contract: the heap is not empty."""
    c = trainer_at(trainer)
    heap, size, place = c.heap, c.heap_size, U0
    child = U1
    while child < size:
        below = heap + child * U16
        if child + U1 < size and comes_first(
            load64(below + U16), load64(below + U24), load64(below), load64(below + U8)
        ):
            child += U1
            below += U16
        if comes_first(count, pair, load64(below), load64(below + U8)):
            break
        store64(heap + place * U16, load64(below))
        store64(heap + place * U16 + U8, load64(below + U8))
        place, child = child, U2 * child + U1
    store64(heap + place * U16, count)
    store64(heap + place * U16 + U8, pair)


@kernel
def heap_drop(trainer):
    """Take the first pair out. Contract: the heap is not empty."""
    c = trainer_at(trainer)
    c.heap_size = c.heap_size - U1
    last = c.heap + c.heap_size * U16
    heap_sink(trainer, load64(last), load64(last + U8))
