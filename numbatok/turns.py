"""Merging the new pieces of a batch by turns: one merge of each of several pieces, then the next one of each.

A merge waits: for the look-up of two pairs in a table larger than the nearest cache of the processor, and for the least
entry of a row that was just written. The merges of one piece depend on each other, those of several pieces do not, so
that one piece is worked on while others wait.

Invariant: nothing here decides about ids. Pieces are merged from copies and enter the cache, where encoding finds them;
what it does not find there it merges itself, to the same ids.

    encoder.emit meets a piece that the cache does not hold
    -> merge_ahead(w, t, index, last): all new ones of the batch from there on are in the cache
"""

from __future__ import annotations

import numpy as np

from numbatok._jit import kernel
from numbatok._llvm import load64, store32, store64
from numbatok.cache import enter_short, find_entry, key_width
from numbatok.merge import (
    NOTHING,
    ROW_AT,
    SHORT_LIMIT,
    SHORT_SCRATCH,
    TOKENS_AT,
    fill_nothing,
    join_pair,
    renew_pairs,
    row_minimum,
    start_row,
    vectors_of,
    write_alive,
)
from numbatok.ring import LONG_KEY_BYTES, PIECE, copy_words, enter_long, find_record, next_key
from numbatok.table import NO_ID, piece_id

LANES, MOST_LANES = 8, 16
"""Pieces that are merged by turns, and windows (see spread.py): there is memory for as many lanes."""
STATE_BYTES, PIECE_BYTES, IDS_BYTES = 64, 128, 320
LANE_BYTES = STATE_BYTES + SHORT_SCRATCH + PIECE_BYTES + IDS_BYTES
COPY_PLACE = STATE_BYTES + MOST_LANES * LANE_BYTES
LANES_BYTES = COPY_PLACE + LONG_KEY_BYTES
"""Behind the lanes is room for the copy of a long piece."""

U0, U1, U8, U16, U24 = (np.uint64(value) for value in (0, 1, 8, 16, 24))
LONG = np.uint64(1 << 63)
"""In the third word that ``keys`` of a worker has of a piece: it is long, and the other bits are its address."""
MOST, LANE, FIRST_LANE, KEY_STRIDE = np.uint64(LANES), np.uint64(LANE_BYTES), np.uint64(STATE_BYTES), np.uint64(24)
COPY_AT = np.uint64(COPY_PLACE)
ALIVE_AT, VECTORS_AT, WIDTH_AT, KEY_AT = U0, U8, U16, U24
"""A lane begins with: where symbols start, the vectors of the row, the bytes of the piece, the address of its key,"""
PREVIOUS_AT, LEFT_AT, FOLLOWING_AT = (np.uint64(at) for at in (32, 40, 48))
"""and the positions of the symbol made last and its neighbours."""
LANE_ROW, LANE_TOKENS = np.uint64(STATE_BYTES) + ROW_AT, np.uint64(STATE_BYTES) + TOKENS_AT
BYTES_AT = np.uint64(STATE_BYTES + SHORT_SCRATCH)
IDS_AT = np.uint64(STATE_BYTES + SHORT_SCRATCH + PIECE_BYTES)


@kernel
def next_new(w, index, last):
    """Give the first piece from ``index`` on that the cache does not hold and that is not too long; else ``last``."""
    while index < last:
        entry = w.keys + index * KEY_STRIDE
        low, high, first = load64(entry), load64(entry + U8), load64(entry + U16)
        if first < LONG:
            if find_entry(first, low, high) == U0:
                return index
        else:
            start = first ^ LONG
            width = load64(w.ends + index * U8) - start
            if width <= SHORT_LIMIT and find_record(w, high, low, start, width, PIECE)[1] == U0:
                return index
        index += U1
    return last


@kernel
def open_lane(w, t, lane, index):
    """Copy a piece to a lane and find what its merging starts from."""
    entry, piece = w.keys + index * KEY_STRIDE, lane + BYTES_AT
    first = load64(entry + U16)
    if first < LONG:
        width = key_width(load64(entry + U8))
        store64(piece, load64(entry))
        store64(piece + U8, load64(entry + U8))
    else:
        width = load64(w.ends + index * U8) - (first ^ LONG)
        copy_words(piece, first ^ LONG, width)
    store64(lane + WIDTH_AT, width)
    store64(lane + KEY_AT, entry)
    token = piece_id(t, piece, width) if t.whole else NO_ID
    if token != NO_ID:
        store32(lane + LANE_TOKENS, token)
        fill_nothing(lane + LANE_ROW, U0, U16)
        store64(lane + ALIVE_AT, U1)
        store64(lane + VECTORS_AT, U1)
    else:
        store64(lane + ALIVE_AT, start_row(t, piece, width, lane + LANE_ROW, lane + LANE_TOKENS))
        store64(lane + VECTORS_AT, vectors_of(width))


@kernel
def join_in_lane(t, lane, least):
    """Make one symbol of the pair that ``least`` names."""
    row, tokens = lane + LANE_ROW, lane + LANE_TOKENS
    alive, previous, left, following = join_pair(t, row, tokens, load64(lane + ALIVE_AT), least)
    store64(lane + ALIVE_AT, alive)
    store64(lane + PREVIOUS_AT, previous)
    store64(lane + LEFT_AT, left)
    store64(lane + FOLLOWING_AT, following)


@kernel
def renew_in_lane(t, lane):
    """Look up the pairs of the symbol that :func:`join_in_lane` made; by now they are near."""
    previous, left, following = load64(lane + PREVIOUS_AT), load64(lane + LEFT_AT), load64(lane + FOLLOWING_AT)
    renew_pairs(t, lane + LANE_ROW, lane + LANE_TOKENS, previous, left, following)


@kernel
def close_lane(w, lane):
    """Enter the piece of a lane and its ids into the cache."""
    ids, entry, width = lane + IDS_AT, load64(lane + KEY_AT), load64(lane + WIDTH_AT)
    count = write_alive(lane + LANE_TOKENS, load64(lane + ALIVE_AT), ids)
    low, high, first = load64(entry), load64(entry + U8), load64(entry + U16)
    if first < LONG:
        enter_short(w, first, U0, low, high, ids, count)  # of two lanes with the same piece both enter it
    else:
        copy_words(next_key(w), lane + BYTES_AT, width)
        enter_long(w, high, low, width, PIECE, ids, count)


@kernel
def merge_ahead(w, t, index, last):
    """Merge the new ones among the prepared pieces ``index .. last - 1``, and enter them into the cache.

    Contract: ``w.lanes`` has LANES_BYTES bytes.
    """
    lanes, lane, busy = w.lanes, w.lanes + FIRST_LANE, U0
    while busy < MOST:
        index = next_new(w, index, last)
        if index == last:
            break
        open_lane(w, t, lane, index)
        store64(lanes + busy * U8, lane)
        lane += LANE
        index += U1
        busy += U1
    while busy:
        turn = U0
        while turn < busy:
            lane = load64(lanes + turn * U8)
            least = row_minimum(lane + LANE_ROW, load64(lane + VECTORS_AT))
            if least < NOTHING:
                join_in_lane(t, lane, least)
                turn += U1
                continue
            close_lane(w, lane)
            index = next_new(w, index, last)
            if index < last:
                open_lane(w, t, lane, index)
                index += U1
            else:  # the last lane takes this turn
                busy -= U1
                store64(lanes + turn * U8, load64(lanes + busy * U8))
        for place in range(busy):
            renew_in_lane(t, load64(lanes + place * U8))
