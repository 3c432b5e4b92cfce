"""Windows of a long piece merged by turns: they start at distances chosen beforehand, so that none waits for another.

A window of 64 bytes is merged in a lane (see turns.py), or recalled from the ring: bit i of ``alive`` says that a token
starts at byte i of the window, and the token stands at that place. Two windows that overlap are joined where they have
two borders in common, which windows.py proves to be right.

Invariant: a lane holds what merging the bytes of its window by itself gives, and windows are joined by that rule only.

    lanes = merge_lanes(w, t, at, stop, stride)
    -> lanes 0 .. lanes - 1 have windows that overlap, from ``at`` on
    lane, at, wide, made, total = join_lanes(...)
    -> those before ``lane`` are joined to what is known
"""

from __future__ import annotations

import numpy as np

from numbatok._jit import kernel
from numbatok._llvm import count_bits, load8, load32, load64, minimum64, prefetch, store32, store64, trailing_zeros
from numbatok.merge import NOTHING, SHORT_LIMIT, fill_nothing, start_row, write_alive
from numbatok.ring import copy_words, enter_long, find_record, finder_line, long_digest, next_key
from numbatok.turns import (
    ALIVE_AT,
    BYTES_AT,
    IDS_AT,
    KEY_AT,
    LANE,
    LANE_ROW,
    LANE_TOKENS,
    MOST_LANES,
    STATE_BYTES,
    VECTORS_AT,
    WIDTH_AT,
    join_in_lane,
    renew_in_lane,
)

U0, U1, U2, U3, U4, U8, U16 = (np.uint64(value) for value in (0, 1, 2, 3, 4, 8, 16))
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
MOST, FIRST_LANE = np.uint64(MOST_LANES), np.uint64(STATE_BYTES)
DIGEST_AT, LINE_AT = VECTORS_AT, np.uint64(56)
"""Of a window a lane has where it starts in place of the key, and its hash and the line of the finder."""
SPREAD = np.uint64(1 << 30)
"""Kind of a record in the ring: of windows of SHORT_LIMIT bytes, with where tokens start before the ids."""
OVERLAP, LEAST_OVERLAP, MOST_OVERLAP = (np.uint64(value) for value in (16, 4, 32))
"""Bytes by which windows overlap: at first, and at least and at most."""
REPEATED = np.uint64(32)
"""How far behind a place it is looked for whether text comes again."""
INNER_BITS, INNER, MOST_INNER = np.uint64(0xC0), np.uint64(0x80), np.uint64(3)


@kernel
def lane_at(w, index):
    """Give the address of a lane."""
    return w.lanes + FIRST_LANE + index * LANE


@kernel
def lane_window(w, index):
    """Give where the window of a lane starts, its width, and where in it tokens start."""
    lane = lane_at(w, index)
    return load64(lane + KEY_AT), load64(lane + WIDTH_AT), load64(lane + ALIVE_AT)


@kernel
def character_start(at):
    """Give the start of the character that the byte at ``at`` is in, at most three bytes before it."""
    back = U0
    while back < MOST_INNER and (load8(at - back) & INNER_BITS) == INNER:
        back += U1
    return at - back


@kernel
def open_lane(w, t, lane):
    """Recall what merging the window of a lane gives, or find what it starts from; tells whether it is to be merged."""
    window, width, row, tokens = lane + BYTES_AT, load64(lane + WIDTH_AT), lane + LANE_ROW, lane + LANE_TOKENS
    if width == SHORT_LIMIT:
        line = load64(lane + LINE_AT)
        found, count = find_record(w, line, load64(lane + DIGEST_AT), window, width, SPREAD)
        if count:
            store64(lane + ALIVE_AT, load64(found))
            place_tokens(tokens, load64(found), found + U8)
            return False
    store64(lane + ALIVE_AT, start_row(t, window, width, row, tokens))
    fill_nothing(row, width, SHORT_LIMIT)
    return True


@kernel
def place_tokens(tokens, alive, ids):
    """Put ids where tokens start."""
    while alive:
        store32(tokens + trailing_zeros(alive) * U4, load32(ids))
        alive &= alive - U1
        ids += U4


@kernel
def remember_lane(w, lane):
    """Enter the window of a lane into the ring: where tokens start, and the tokens."""
    ids, alive = lane + IDS_AT, load64(lane + ALIVE_AT)
    store64(ids, alive)
    count = U2 + write_alive(lane + LANE_TOKENS, alive, ids + U8)
    copy_words(next_key(w), lane + BYTES_AT, SHORT_LIMIT)
    enter_long(w, load64(lane + LINE_AT), load64(lane + DIGEST_AT), SHORT_LIMIT, SPREAD, ids, count)


@kernel
def place_lanes(w, at, stop, stride):
    """Copy windows to the lanes, and prefetch where the ring has them; gives their number."""
    count, width = U0, U0
    while count < MOST and at + width < stop:
        if count:
            at = character_start(at + stride)
        width, lane = min(SHORT_LIMIT, stop - at), lane_at(w, count)
        store64(lane + KEY_AT, at)
        store64(lane + WIDTH_AT, width)
        copy_words(lane + BYTES_AT, at, width)
        if width == SHORT_LIMIT:
            digest = long_digest(lane + BYTES_AT, width)
            line = finder_line(w, digest)
            prefetch(line)
            store64(lane + DIGEST_AT, digest)
            store64(lane + LINE_AT, line)
        count += U1
    return count


@kernel
def merge_lanes(w, t, at, stop, stride):
    """Merge windows of SHORT_LIMIT bytes, one from ``at`` on, each ``stride`` behind the one before.

    They start at characters, at most three bytes earlier; the last one may be shorter. They are merged from copies, so
    that what is remembered is right even if another thread writes to the text. Gives their number. Contract: at < stop,
    stride <= SHORT_LIMIT.
    """
    count, busy = place_lanes(w, at, stop, stride), U0
    for place in range(count):
        if open_lane(w, t, lane_at(w, place)):
            busy |= U1 << place
    fresh = busy
    while busy:
        turn = busy
        while turn:
            place = trailing_zeros(turn)
            turn &= turn - U1
            least = minimum64(lane_at(w, place) + LANE_ROW)
            if least < NOTHING:
                join_in_lane(t, lane_at(w, place), least)
            else:
                busy &= ~(U1 << place)
        turn = busy
        while turn:
            renew_in_lane(t, lane_at(w, trailing_zeros(turn)))
            turn &= turn - U1
    while fresh:
        lane = lane_at(w, trailing_zeros(fresh))
        fresh &= fresh - U1
        if load64(lane + WIDTH_AT) == SHORT_LIMIT:
            remember_lane(w, lane)
    return count


@kernel
def token_bytes(t, token):
    """Give the number of bytes of a token; an id without bytes stands for a byte."""
    if token < t.ids:
        return load32(t.starts + token * U4 + U4) - load32(t.starts + token * U4)
    return U1


@kernel
def bytes_of_last(t, ids, count, dropped):
    """Give the number of bytes of the last ``dropped`` of ``count`` ids."""
    width = U0
    for index in range(count - dropped, count):
        width += token_bytes(t, load32(ids + index * U4))
    return width


@kernel
def last_borders(t, ids, count, edge, at):
    """Give bit i if one of ``count`` tokens, which end at ``edge``, starts at ``at + i``, and a bit for ``edge``.

    Contract: at < edge < at + SHORT_LIMIT.
    """
    place, borders = edge - at, U1 << (edge - at)
    while count:
        count -= U1
        size = token_bytes(t, load32(ids + count * U4))
        if size > place:
            break
        place -= size
        borders |= U1 << place
    return borders


@kernel
def first_common(borders):
    """Give the first of the common borders of two windows; SHORT_LIMIT if there is no other behind it."""
    return trailing_zeros(borders) if borders & (borders - U1) else SHORT_LIMIT


@kernel
def join_lanes(w, t, lane, lanes, at, wide, made, total, out, keep):
    """Go on from a window to those of lanes, as long as each has two borders in common with the one before.

    Gives the lane where that ended, and the window before it: where it is, its width, the number of its ids and of
    those before it. For ``keep`` see windows.py.
    """
    start, width, alive = lane_window(w, lane)
    if made:
        borders = last_borders(t, out + (total & keep) * U4, made, at + wide, start)
        place = first_common(borders & alive)
        if place == SHORT_LIMIT:
            return lane, at, wide, made, total
        alive &= ALL << place
        at, total = start + place, total + made - count_bits(borders >> (place + U1))
    while True:
        tokens, target = lane_at(w, lane) + LANE_TOKENS, out + (total & keep) * U4
        lane += U1
        if lane == lanes:
            break
        behind, behind_width, behind_alive = lane_window(w, lane)
        step = behind - start
        place = first_common(((alive >> step) | (U1 << (SHORT_LIMIT - step))) & behind_alive)
        if place == SHORT_LIMIT:
            break
        total += write_alive(tokens, alive & ((U1 << (step + place)) - U1), target)
        start, width, alive, at = behind, behind_width, behind_alive & (ALL << place), behind + place
    return lane, at, start + width - at, write_alive(tokens, alive, target), total


@kernel
def first_behind(w, lane, lanes, edge):
    """Give the first lane from ``lane`` on whose window ends behind ``edge``; else ``lanes``."""
    while lane < lanes:
        start, width, _ = lane_window(w, lane)
        if start + width > edge:
            break
        lane += U1
    return lane


@kernel
def fitting_overlap(w):
    """Give an overlap in which windows will have borders in common: about three tokens, as those of the first lane."""
    _, _, alive = lane_window(w, U0)
    return min(LEAST_OVERLAP + U3 * SHORT_LIMIT // count_bits(alive), MOST_OVERLAP)


@kernel
def comes_again(at, stop):
    """Tell whether the 16 bytes at ``at`` come again soon: then windows are the same, and many are passed at once."""
    if stop - at < REPEATED + U16:
        return False
    low, high = load64(at), load64(at + U8)
    again = False
    for distance in range(U1, REPEATED):
        again |= ((load64(at + distance) ^ low) | (load64(at + distance + U8) ^ high)) == U0
    return again
