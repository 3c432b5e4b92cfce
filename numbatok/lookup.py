"""A batch of pieces to ids: look up what the cache holds, merge what is new, write. And the record of a worker.

Invariant: every piece gives the ids that merging it gives, at most as many as it has bytes, wherever they come from.

A worker is one record of addresses: the tables, scratch memory and the cache. One call at a time may use it. A batch is
up to BATCH pieces, one behind the other; where short rows share a stretch of memory (see stretches.py), the byte
between two rows belongs to no piece.

    w.ends, w.pieces = the ends of a batch that begins at ``at``, their number
    prepare(w, at, stop)
    ids, piece = emit(w, t, out, ALL)
"""

from __future__ import annotations

import numpy as np

from numbatok._jit import kernel
from numbatok._llvm import copy16, load64, prefetch, record_at, store32, store64
from numbatok.cache import (
    SHORT_KEY,
    SPILLED,
    copy_spilled,
    enter_short,
    entry_count,
    entry_hit,
    find_entry,
    first_entry,
    key_width,
    short_key,
    swap_entries,
)
from numbatok.merge import SHORT_LIMIT, merge_short
from numbatok.ring import (
    LONG_KEY,
    PIECE,
    copy_ids,
    copy_words,
    enter_long,
    find_record,
    finder_line,
    long_digest,
    next_key,
)
from numbatok.split.stretch import ends_row
from numbatok.table import NO_ID, piece_id
from numbatok.turns import COPY_AT, LONG, merge_ahead
from numbatok.windows import TOO_LONG, merge_by_windows

WORKER = np.dtype(
    [
        ("tables", "u8"),  # address of the TABLES record
        ("encode", "u8"),  # the function_word of encode_rows
        ("ends", "u8"),  # uint64[BATCH + 64]: piece ends
        ("keys", "u8"),  # uint64[(BATCH + 64) * 3]: for each piece the words of its key and its first entry; of a
        # long one its hash, its line of the finder and LONG with its address
        ("pieces", "u8"),  # pieces in the batch
        ("ahead", "u8"),  # pieces of it up to which the new ones were merged ahead
        ("marks", "u8"),  # uint64[(BATCH + MARKS_SLACK) * 2]: row, and pieces up to its end, of each row in a batch
        ("entries", "u8"),  # the cache of short pieces
        ("finder", "u8"),  # the cache of long pieces, and where in it they are
        ("ring", "u8"),
        ("unseeded", "u8"),  # 1 until the cache holds the vocabulary
        ("head", "u8"),  # the place where the next record goes
        ("lanes", "u8"),  # for merging by turns
        ("stretch", "u8"),  # for short rows: see stretches.py
        ("in_stretch", "u8"),  # 1 while batches are of a stretch, where a byte lies between the pieces of two rows
        ("stretch_at", "u8"),  # what of it is not split yet: where it begins and ends, and the number of its first row
        ("stretch_stop", "u8"),
        ("stretch_row", "u8"),
        ("behind", "u8"),  # the row behind the stretch
        ("scratch", "u8"),  # for merging
        ("scratch_size", "u8"),  # its bytes
        ("sink", "u8"),  # uint32: where ids go that are only counted, as many as the scratch can merge
        ("slack", "u8"),  # bytes that may be read behind the last text
        ("padded", "u8"),  # uint8[PADDED_BYTES + SLACK_BYTES]: a short text, with room to read on behind it
        ("span", "u8"),  # int64[2]: 0 and the size of a single text
        ("count", "u8"),  # int64: the ids of it
        ("output", "u8"),  # uint32[OUTPUT_BYTES + SLACK]: the ids of a short text
        ("ints", "u8"),  # addresses of the ints of all ids, and how many there are
        ("int_count", "u8"),
        ("status", "u8"),  # what stopped the last call: DONE, NOT_UTF8 or NEEDS_SCRATCH
        ("row", "u8"),  # the row where it stopped
        ("resume", "u8"),  # the address where it stopped: a piece start
        ("needed", "u8"),  # bytes of the window that needs more scratch
    ]
)
worker_at = record_at(WORKER)

BATCH = 256
"""Pieces that one round splits, hashes and looks up."""
SLACK = 16
"""Ids of room behind the last one."""
DONE, NOT_UTF8, NEEDS_SCRATCH = 0, 1, 2

U0, U1, U4, U8, U16 = (np.uint64(value) for value in (0, 1, 4, 8, 16))
ROOM, KEY_STRIDE = np.uint64(BATCH), np.uint64(24)
STATUS_DONE, STATUS_NOT_UTF8, STATUS_NEEDS_SCRATCH = np.uint64(DONE), np.uint64(NOT_UTF8), np.uint64(NEEDS_SCRATCH)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@kernel
def prepare(w, at, stop):
    """Compute where the cache has each piece of the batch, and prefetch it: what ``keys`` of the record says.

    Contract: the batch begins at ``at``; nothing is read at or past ``stop``.
    """
    keys, ends, entries, apart = w.keys, w.ends, w.entries, w.in_stretch
    for index in range(w.pieces):
        end = load64(ends + index * U8)
        width = end - at
        entry = keys + index * KEY_STRIDE
        if width <= SHORT_KEY:
            low, high = short_key(at, width, stop)
            first = first_entry(entries, low, high)
            prefetch(first)
            store64(entry, low)
            store64(entry + U8, high)
            store64(entry + U16, first)
        else:
            low = long_digest(at, width)
            high = finder_line(w, low)
            prefetch(high)
            store64(entry, low)
            store64(entry + U8, high)
            store64(entry + U16, at | LONG)
        at = end + ends_row(end) if apart else end


@kernel
def merge_piece(w, t, at, width, out, keep):
    """Merge a piece by the form that its width asks for; see merge_by_windows for ``keep`` and TOO_LONG."""
    if t.whole:
        token = piece_id(t, at, width)
        if token != NO_ID:
            store32(out, token)
            return U1
    if width <= SHORT_LIMIT:
        return merge_short(t, at, width, w.scratch, out)
    return merge_by_windows(w, t, at, width, out, keep)


@kernel
def recall(w, index, out):
    """Write the ids of a prepared piece that the cache holds, wherever it does, and give their number; else 0."""
    key = w.keys + index * KEY_STRIDE
    low, high, first = load64(key), load64(key + U8), load64(key + U16)
    if first >= LONG:
        start = first ^ LONG
        ids, count = find_record(w, high, low, start, load64(w.ends + index * U8) - start, PIECE)
        copy_ids(out, ids, count)
        return count
    entry = find_entry(first, low, high)
    if entry == U0:
        return U0
    if entry != first:
        swap_entries(entry, first)
    count = entry_count(first)
    if count == SPILLED:
        return copy_spilled(w, first, out)
    copy16(out, first + U16)
    return count


@kernel
def encode_new(w, t, index, out, keep):
    """Merge a prepared piece, and remember its ids.

    It is merged from a copy, so that what is remembered is right even if another thread writes to the text.
    """
    key, piece = w.keys + index * KEY_STRIDE, w.lanes + COPY_AT  # not where windows.py writes
    low, high, first = load64(key), load64(key + U8), load64(key + U16)
    if first < LONG:
        store64(piece, low)
        store64(piece + U8, high)
        count = merge_piece(w, t, piece, key_width(high), out, ALL)
        enter_short(w, first, find_entry(first, low, high), low, high, out, count)
        return count
    start = first ^ LONG
    width = load64(w.ends + index * U8) - start
    if width > LONG_KEY:
        count = merge_piece(w, t, start, width, out, keep)
    else:
        copy_words(piece, start, width)
        count = merge_piece(w, t, piece, width, out, ALL)  # kept even when only counting: they are remembered
        if count != TOO_LONG:
            copy_words(next_key(w), piece, width)
            enter_long(w, high, low, width, PIECE, out, count)
    if count == TOO_LONG:
        w.status, w.resume = STATUS_NEEDS_SCRATCH, start
    return count


@kernel
def encode_slowly(w, t, index, out, keep):
    """Give the ids of a prepared piece that its first entry does not give."""
    made = recall(w, index, out)
    if made == U0 and index >= w.ahead:
        merge_ahead(w, t, index, w.pieces)
        w.ahead = w.pieces
        made = recall(w, index, out)
    return made if made else encode_new(w, t, index, out, keep)


@kernel
def emit(w, t, out, keep):
    """Write the ids of the prepared batch; gives their number and the piece it stopped at.

    ``keep`` is all ones to write the ids one after the other, 0 to write over the same place again (to count only). The
    key of each piece is replaced by the number of ids up to its end: to ask whether that is needed takes longer.
    """
    keys, count, pieces = w.keys, U0, w.pieces
    for index in range(pieces):
        key = keys + index * KEY_STRIDE
        low, high, entry = load64(key), load64(key + U8), load64(key + U16)
        cursor = out + (count & keep) * U4
        if entry < LONG and entry_hit(entry, low, high):
            copy16(cursor, entry + U16)
            made = entry_count(entry)
            if made == SPILLED:
                made = copy_spilled(w, entry, cursor)
            if made:
                count += made
                store64(key, count)
                continue
        made = encode_slowly(w, t, index, cursor, keep)
        if made == TOO_LONG:
            return count, index
        count += made
        store64(key, count)
    return count, pieces


@kernel
def add_counts(w, counts, rows, made, pieces):
    """Add the ``made`` ids of the first ``pieces`` of the batch to the counts of their rows; gives the last of them.

    Contract: ``counts`` is the address of int64s; emit has gone over these pieces, and the rows are marked.
    """
    row, before = U0, U0
    for mark in range(rows):
        row, stop = load64(w.marks + mark * U16), load64(w.marks + mark * U16 + U8)
        total = made
        if stop < pieces:
            total = load64(w.keys + (stop - U1) * KEY_STRIDE) if stop else U0
        store64(counts + row * U8, load64(counts + row * U8) + total - before)
        before = total
        if stop > pieces:
            break
    return row
