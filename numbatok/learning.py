"""Training, second half of a round: merge the most frequent pair everywhere, again and again.

The places of a pair are walked in rising order, so in a run like "aaaa" the leftmost pair is merged first. A place
where the pair stands no more (another merge took one of its tokens) is passed over. Each merge takes the pairs with its
neighbours out of the counts and brings new ones about, which all have the new token on one side: they are collected by
the token on the other side, and the frequent ones get an entry and a list of places, in rising order too.

Invariant: the count of every pair in the table is the sum of the weights of all places where it stands, overlapping
ones too ("aaa" has "a a" twice); so what is merged next is what a full recount would choose.

    a b c a b  with (a, b) merged  ->  ab . c ab .    (a dot is a slot inside a token)
"""

from __future__ import annotations

import numpy as np

from numbatok._jit import kernel
from numbatok._llvm import load32, load64, prefetch, store32, store64
from numbatok.gathering import (
    END_ID,
    LOW32,
    NOWHERE,
    find_entry,
    heap_drop,
    heap_push,
    heap_sink,
    may_merge,
    trainer_at,
)
from numbatok.table import EMPTY

WORKING, FINISHED, USED_UP, CROWDED = 0, 1, 2, 3
"""Why :func:`merge_pairs` ended: for a pause; all merges are made; no pair of the table is frequent enough; the table
or the list of places is too small for the new pairs, and the round has to be gathered anew."""

U0, U1, U2, U4, U8, U16, U24, U32 = (np.uint64(value) for value in (0, 1, 2, 4, 8, 16, 24, 32))
STATUS_WORKING, STATUS_FINISHED = np.uint64(WORKING), np.uint64(FINISHED)
STATUS_USED_UP, STATUS_CROWDED = np.uint64(USED_UP), np.uint64(CROWDED)
AHEAD = np.uint64(16)
"""Places that are prefetched ahead."""
BYTES = np.uint64(256)
INSIDE = np.uint64(0xFFFFFFFE)
"""The id of a slot inside a token: never that of a token, so no old place is taken for one."""
NOT_YET = np.uint64(0xFFFFFFFF)


@kernel
def begin_merge(trainer):
    """Choose the next pair; gives whether there is one, else the record says why not."""
    c = trainer_at(trainer)
    if c.done == c.wanted:
        c.status = STATUS_FINISHED
        return False
    while c.heap_size > U0:
        count, pair = load64(c.heap), load64(c.heap + U8)
        entry = find_entry(c.entries, c.entry_shift, pair)
        now = load64(entry + U8)
        if now == count:
            heap_drop(trainer)
            c.left, c.right, c.new = pair >> U32, pair & LOW32, BYTES + c.done
            c.at = load64(entry + U16)
            c.end = c.at + load64(entry + U24)
            store64(entry + U16, NOWHERE)
            store64(c.merges + c.done * U8, pair)
            c.done = c.done + U1
            for table in (c.sizes, c.lengths):
                store32(table + c.new * U4, load32(table + c.left * U4) + load32(table + c.right * U4))
            return True
        if now < c.least:
            heap_drop(trainer)
        else:
            heap_sink(trainer, now, pair)
    c.status = STATUS_USED_UP
    return False


@kernel
def lose(entries, shift, left, right, weight):
    """Take a weight out of the count of a pair, if it is in the table and kept."""
    entry = find_entry(entries, shift, (left << U32) | right)
    if load64(entry) != EMPTY:
        store64(entry + U8, load64(entry + U8) - weight)


@kernel
def gain(trainer, group, weight, place):
    """Add a new pair at a place to its group."""
    c = trainer_at(trainer)
    at = c.groups + group * U16
    count, places = load64(at), load64(at + U8)
    if places == U0:
        store32(c.touched + c.touched_size * U4, group)
        c.touched_size = c.touched_size + U1
    store64(at, count + weight)
    store64(at + U8, places + U1)
    store64(c.made + c.made_size * U8, (group << U32) | place)
    c.made_size = c.made_size + U1


@kernel
def apply_merge(trainer, most):
    """Merge at the next ``most`` places at most, those that are out of date included; gives their number."""
    c = trainer_at(trainer)
    symbols, sizes, places, entries, shift = c.symbols, c.sizes, c.places, c.entries, c.entry_shift
    left, right, new = c.left, c.right, c.new
    left_size, right_size = load32(sizes + left * U4), load32(sizes + right * U4)
    first, last = c.at, min(c.end, c.at + most)
    for index in range(first, last):
        if index + AHEAD < last:
            prefetch(symbols + load32(places + (index + AHEAD) * U4) * U8)
        place = load32(places + index * U4)
        symbol = load64(symbols + place * U8)
        second = place + left_size
        if symbol & LOW32 != left or load64(symbols + second * U8) & LOW32 != right:
            continue
        weight, behind = symbol >> U32, second + right_size
        merged = (weight << U32) | new
        store64(symbols + second * U8, (weight << U32) | INSIDE)
        store64(symbols + place * U8, merged)
        store64(symbols + (behind - U1) * U8, merged)
        before = load64(symbols + (place - U1) * U8) & LOW32
        if before == new:  # the place just merged: the pair with what was here has a group, not yet an entry
            group = c.groups + (U2 * left + U1) * U16
            store64(group, load64(group) - weight)
            gain(trainer, U2 * new, weight, place - load32(sizes + new * U4))
        elif before != END_ID:
            lose(entries, shift, before, left, weight)
            gain(trainer, U2 * before, weight, place - load32(sizes + before * U4))
        after = load64(symbols + behind * U8) & LOW32
        if after != END_ID:
            lose(entries, shift, right, after, weight)
            gain(trainer, U2 * after + U1, weight, place)
    c.at = last
    return last - first


@kernel
def group_pair(new, group):
    """Give ``left << 32 | right`` of a group."""
    other = group >> U1
    return (new << U32) | other if group & U1 else (other << U32) | new


@kernel
def keep_groups(trainer):
    """Give the frequent new pairs entries and room for their places; gives whether they fit.

    A group's first word becomes where its next place goes, NOWHERE for a pair that is not kept.
    """
    c = trainer_at(trainer)
    for index in range(c.touched_size):
        group = load32(c.touched + index * U4)
        at, pair = c.groups + group * U16, group_pair(c.new, group)
        count, places = load64(at), load64(at + U8)
        store64(at, NOWHERE)
        if count < c.least or not may_merge(c.lengths, c.longest, pair >> U32, pair & LOW32):
            continue
        if c.entries_used == c.entries_room or c.places_used + places > c.places_room:
            return False
        entry = find_entry(c.entries, c.entry_shift, pair)
        c.entries_used = c.entries_used + U1
        store64(entry, pair)
        store64(entry + U8, count)
        store64(entry + U16, c.places_used)
        store64(entry + U24, places)
        store64(at, c.places_used)
        c.places_used = c.places_used + places
        heap_push(trainer, count, pair)
    return True


@kernel
def finish_merge(trainer):
    """Enter the new pairs with their places, and forget the groups."""
    c = trainer_at(trainer)
    if keep_groups(trainer):
        groups, places, made = c.groups, c.places, c.made
        for index in range(c.made_size):
            one = load64(made + index * U8)
            at = groups + (one >> U32) * U16
            target = load64(at)
            if target != NOWHERE:
                store32(places + target * U4, one & LOW32)
                store64(at, target + U1)
    else:
        c.status = STATUS_CROWDED
    for index in range(c.touched_size):
        at = c.groups + load32(c.touched + index * U4) * U16
        store64(at, U0)
        store64(at + U8, U0)
    c.touched_size, c.made_size = U0, U0


@kernel(entry=True)
def merge_pairs(trainer, budget):
    """Merge for about ``budget`` places, then pause; the record says why it ended.

    Contract: int64 arguments. A call goes on where the one before paused, within a merge, too.
    """
    trainer, budget, spent = np.uint64(trainer), np.uint64(budget), U0
    c = trainer_at(trainer)
    c.status = STATUS_WORKING
    while spent < budget and c.status == STATUS_WORKING:
        if c.at == c.end and not begin_merge(trainer):
            return
        spent += apply_merge(trainer, budget - spent) + U1
        if c.at == c.end:
            finish_merge(trainer)
