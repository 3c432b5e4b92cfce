"""Text to ids on one thread: split, look up, merge what is new, write. The one serial path of the whole package.

Invariant: a range that starts at a piece start and ends at the end of a text (or at a safe cut, see batch.py) gives the
ids of the whole; every piece gives at most as many ids as it has bytes, so ``stop - at`` ids of room are enough, plus
:data:`SLACK` because ids are stored several at a time.

A worker is one record of addresses: the tables, scratch memory and the cache. One call at a time may use it.

    >>> from numbatok import get_encoding
    >>> get_encoding("gpt2").encode_flat("hello world")
    array([31373,   995], dtype=uint32)
"""

from __future__ import annotations

import numpy as np

from numbatok._jit import kernel
from numbatok._llvm import copy16, load32, load64, prefetch, record_at, store32, store64
from numbatok.cache import (
    SHORT_IDS,
    SHORT_KEY,
    SPILLED,
    copy_spilled,
    enter_short,
    entry_count,
    entry_hit,
    find_entry,
    first_entry,
    free_entry,
    short_key,
    store_short,
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
from numbatok.split.scan import fill_row
from numbatok.table import NO_ID, piece_id, tables_at
from numbatok.turns import merge_ahead, start_of
from numbatok.windows import TOO_LONG, merge_by_windows

WORKER = np.dtype(
    [
        ("tables", "u8"),  # address of the TABLES record
        ("ends", "u8"),  # uint64[BATCH + 64]: piece ends
        ("keys", "u8"),  # uint64[(BATCH + 64) * 3]: for each piece the words of its key and its first entry; of a
        # long one its hash, its line of the finder and 0
        ("pieces", "u8"),  # pieces in the batch
        ("ahead", "u8"),  # pieces of it up to which the new ones were merged ahead
        ("marks", "u8"),  # uint64[BATCH * 2]: row, and pieces up to its end, of each row in a batch
        ("entries", "u8"),  # the cache of short pieces
        ("finder", "u8"),  # the cache of long pieces, and where in it they are
        ("ring", "u8"),
        ("head", "u8"),  # the place where the next record goes
        ("lanes", "u8"),  # for merging by turns
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
def prepare(w, at, stop, pieces):
    """Compute where the cache has each piece, and prefetch it: what ``keys`` of the record says."""
    keys, ends, entries = w.keys, w.ends, w.entries
    for index in range(pieces):
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
            store64(entry + U16, U0)
        at = end


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
def recall(w, start, width, low, high, first, out):
    """Write the ids of a prepared piece that the cache holds, wherever it does, and give their number; else 0."""
    if first == U0:
        ids, count = find_record(w, high, low, start, width, PIECE)
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
def encode_new(w, t, start, width, low, high, first, out, keep):
    """Merge a prepared piece, and remember its ids.

    It is merged from a copy, so that what is remembered is right even if another thread writes to the text.
    """
    if width > LONG_KEY:
        return merge_piece(w, t, start, width, out, keep)
    key = w.lanes  # idle now; windows.py writes where the next record goes
    if first:
        store64(key, low)
        store64(key + U8, high)
        count = merge_piece(w, t, key, width, out, ALL)
        enter_short(w, first, low, high, out, count)
    else:
        copy_words(key, start, width)
        count = merge_piece(w, t, key, width, out, ALL)  # kept even when only counting: they are remembered
        if count == TOO_LONG:
            return count
        copy_words(next_key(w), key, width)
        enter_long(w, high, low, width, PIECE, out, count)
    return count


@kernel
def encode_slowly(w, t, begin, index, out, keep):
    """Give the ids of a prepared piece that its first entry does not give."""
    start, entry = start_of(w, begin, index), w.keys + index * KEY_STRIDE
    width = load64(w.ends + index * U8) - start
    low, high, first = load64(entry), load64(entry + U8), load64(entry + U16)
    made = recall(w, start, width, low, high, first, out)
    if made == U0 and index >= w.ahead:
        merge_ahead(w, t, begin, index, w.pieces)
        w.ahead = w.pieces
        made = recall(w, start, width, low, high, first, out)
    if made == U0:
        made = encode_new(w, t, start, width, low, high, first, out, keep)
    if made == TOO_LONG:
        w.status, w.resume = STATUS_NEEDS_SCRATCH, start
    return made


@kernel
def emit(w, t, begin, first, last, out, keep):
    """Write the ids of the prepared pieces ``first .. last - 1``; gives their number and the piece it stopped at.

    ``begin`` is where piece 0 starts. ``keep`` is all ones to write the ids one after the other, 0 to write over the
    same place again (to count only).
    """
    keys, count = w.keys, U0
    for index in range(first, last):
        key = keys + index * KEY_STRIDE
        low, high, entry = load64(key), load64(key + U8), load64(key + U16)
        cursor = out + (count & keep) * U4
        if entry and entry_hit(entry, low, high):
            copy16(cursor, entry + U16)
            made = entry_count(entry)
            if made == SPILLED:
                made = copy_spilled(w, entry, cursor)
            if made:
                count += made
                continue
        made = encode_slowly(w, t, begin, index, cursor, keep)
        if made == TOO_LONG:
            return count, index
        count += made
    return count, last


@kernel
def split_rows(w, t, base, offsets, row, last, at):
    """Split rows from address ``at`` of ``row`` on until a batch is full; gives the numbers of pieces and of rows.

    Row after row is marked by its number and by the number of pieces up to its end, or up to where the batch ends.
    What follows UTF-8 text no more ends the batch, and is the status of the worker.
    """
    marks, ends, limit = w.marks, w.ends, base + load64(offsets + last * U8) + w.slack
    pieces, rows = U0, U0
    while row < last and pieces < ROOM and rows < ROOM:
        stop = base + load64(offsets + row * U8 + U8)
        made = fill_row(t, at, stop, limit, ends + pieces * U8, ROOM - pieces)
        if made == U0 and at < stop:
            w.status, w.resume = STATUS_NOT_UTF8, at
            break
        pieces += made
        store64(marks + rows * U16, row)
        store64(marks + rows * U16 + U8, pieces)
        rows += U1
        if made:
            at = load64(ends + (pieces - U1) * U8)
        if at == stop:
            row += U1
    return pieces, rows


@kernel
def encode_rows(worker, base, offsets, first, last, resume, counts, out):
    """Encode the texts ``base + offsets[row] .. base + offsets[row + 1]`` of the rows ``first .. last - 1``.

    Contract: all arguments int64; ``offsets`` and ``counts`` are addresses of int64 arrays, ``counts[row]`` grows by
    the ids of the row. ``resume`` is 0, or the address where an earlier call on row ``first`` stopped. ``out`` takes
    one id a byte and SLACK, or is 0 to count only. Gives the number of ids, or -1 - number when it stopped early: then
    status, row and address are in the record.
    """
    w = worker_at(np.uint64(worker))
    t = tables_at(w.tables)
    base, offsets, counts = np.uint64(base), np.uint64(offsets), np.uint64(counts)
    cursor, keep, total = np.uint64(out), ALL, U0
    if cursor == U0:
        cursor, keep = w.sink, U0
    row, end = np.uint64(first), np.uint64(last)
    at = np.uint64(resume) if resume else base + load64(offsets + row * U8)
    w.status = STATUS_DONE
    while row < end and w.status == STATUS_DONE:
        pieces, rows = split_rows(w, t, base, offsets, row, end, at)
        prepare(w, at, base + load64(offsets + end * U8) + w.slack, pieces)
        w.pieces, w.ahead = pieces, U0
        piece = U0
        for mark in range(rows):
            row, stop = load64(w.marks + mark * U16), load64(w.marks + mark * U16 + U8)
            made, piece = emit(w, t, at, piece, stop, cursor + (total & keep) * U4, keep)
            total += made
            store64(counts + row * U8, load64(counts + row * U8) + made)
            if piece < stop:
                break
        if piece < pieces:
            break
        if pieces:
            at = load64(w.ends + (pieces - U1) * U8)
        if rows and at == base + load64(offsets + row * U8 + U8):
            row += U1
    w.row = row
    return np.int64(-1) - np.int64(total) if w.status else np.int64(total)


@kernel
def merge_bytes(worker, at, width, out):
    """Merge any bytes as one piece, from Python: gives the number of ids, or -1 if the scratch memory is too small.

    Contract: all arguments int64, width >= 1; ``out`` takes ``width`` ids.
    """
    w = worker_at(np.uint64(worker))
    made = merge_piece(w, tables_at(w.tables), np.uint64(at), np.uint64(width), np.uint64(out), ALL)
    return np.int64(-1) if made == TOO_LONG else np.int64(made)


@kernel
def seed_cache(worker):
    """Enter every token of at most SHORT_KEY bytes into the cache, with the ids that merging its bytes gives.

    Merging decides, not the id of the token, unless the vocabulary is closed: others may hold tokens that no merge
    reaches. Lower ids come first and get the first entry. Contract: the sink takes SHORT_KEY + SLACK ids.
    """
    w = worker_at(np.uint64(worker))
    t = tables_at(w.tables)
    for token in range(t.ids):
        start = t.blob + load32(t.starts + token * U4)
        width = t.blob + load32(t.starts + token * U4 + U4) - start
        if width == U0 or width > SHORT_KEY:
            continue
        low, high = short_key(start, width, start + U16)
        entry = free_entry(first_entry(w.entries, low, high))
        if entry == U0:
            continue
        store32(w.sink, token)
        count = U1 if token < t.closed else merge_piece(w, t, start, width, w.sink, ALL)
        if count <= SHORT_IDS:
            store_short(entry, low, high, w.sink, count)
