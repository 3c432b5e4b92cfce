"""Text to ids on one thread: split, look up, merge what is new, write. The one serial path of the whole package.

Invariant: a range that starts at a piece start and ends at the end of a text (or at a safe cut, see batch.py) gives the
ids of the whole; every piece gives at most as many ids as it has bytes, so ``stop - at`` ids of room are enough, plus
:data:`~numbatok.lookup.SLACK` because ids are stored several at a time.

    >>> from numbatok import get_encoding
    >>> get_encoding("gpt2").encode_flat("hello world")
    array([31373,   995], dtype=uint32)
"""

from __future__ import annotations

import numpy as np

from numbatok._jit import kernel
from numbatok._llvm import load32, load64, store32, store64
from numbatok.cache import (
    SHORT_IDS,
    SHORT_KEY,
    first_entry,
    free_entry,
    short_key,
    store_short,
)
from numbatok.lookup import (
    ALL,
    ROOM,
    STATUS_DONE,
    STATUS_NOT_UTF8,
    add_counts,
    emit,
    merge_piece,
    prepare,
    worker_at,
)
from numbatok.split.scan import fill_row
from numbatok.split.stretch import joins_stretches
from numbatok.stretches import STRETCH_END, go_on_behind, open_stretch, split_stretch
from numbatok.table import tables_at
from numbatok.windows import TOO_LONG

U0, U1, U4, U8, U16 = (np.uint64(value) for value in (0, 1, 4, 8, 16))


@kernel
def split_rows(w, t, base, offsets, row, until, last, at):
    """Split rows from address ``at`` of ``row`` on until a batch is full; gives the numbers of pieces and of rows.

    Only rows before ``until`` are split; those before ``last`` may be looked at.
    Row after row is marked by its number and by the number of pieces up to its end, or up to where the batch ends.
    What follows UTF-8 text no more ends the batch, and is the status of the worker.
    """
    marks, ends, limit = w.marks, w.ends, base + load64(offsets + last * U8) + w.slack
    pieces, rows = U0, U0
    while row < until and pieces < ROOM and rows < ROOM:
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
def seed_cache(w, t):
    """Enter every token of at most SHORT_KEY bytes into the cache, with the ids that merging its bytes gives.

    Merging decides, not the id of the token, unless the vocabulary is closed: others may hold tokens that no merge
    reaches. Lower ids come first and get the first entry. Contract: the sink takes SHORT_KEY + SLACK ids.
    """
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


@kernel(entry=True)
def encode_rows(worker, base, offsets, first, last, resume, counts, out):
    """Encode the texts ``base + offsets[row] .. base + offsets[row + 1]`` of the rows ``first .. last - 1``.

    Contract: all arguments int64; ``offsets`` and ``counts`` are addresses of int64 arrays, ``counts[row]`` grows by
    the ids of the row. ``resume`` is 0, or the address where an earlier call on row ``first`` stopped. ``out`` takes
    one id a byte and SLACK, or is 0 to count only. The first call of a worker fills its cache. Gives the number of ids,
    or -1 - number when it stopped early: then status, row and address are in the record.
    """
    w = worker_at(np.uint64(worker))
    t = tables_at(w.tables)
    base, offsets, counts = np.uint64(base), np.uint64(offsets), np.uint64(counts)
    cursor, keep, total = np.uint64(out), ALL, U0
    if cursor == U0:
        cursor, keep = w.sink, U0
    row, end = np.uint64(first), np.uint64(last)
    at = np.uint64(resume) if resume else base + load64(offsets + row * U8)
    w.status, w.in_stretch, w.behind = STATUS_DONE, U0, ALL
    if w.unseeded:  # here, where the workers of a batch are side by side
        seed_cache(w, t)
        w.unseeded = U0
    joined = joins_stretches(t)
    while row < end and w.status == STATUS_DONE:
        if joined and not w.in_stretch and row + U1 < end and at == base + load64(offsets + row * U8):
            open_stretch(w, t, base, offsets, row, end)
        if w.in_stretch:
            at, stop = w.stretch_at, w.stretch + STRETCH_END
            pieces, rows = split_stretch(w, t)
        else:
            stop = base + load64(offsets + end * U8) + w.slack
            until = row + U1 if row == w.behind else end  # behind a stretch only the row that may not join
            pieces, rows = split_rows(w, t, base, offsets, row, until, end, at)
        w.pieces, w.ahead = pieces, U0
        prepare(w, at, stop)
        made, done = emit(w, t, cursor + (total & keep) * U4, keep)
        total += made
        if rows:
            row = add_counts(w, counts, rows, made, done)
        if done < pieces:
            break
        if w.in_stretch:
            row, at = go_on_behind(w, base, offsets, pieces)
            joined = joined and pieces > U0  # none: what is there is not UTF-8, and would open the same stretch again
            continue
        if pieces:
            at = load64(w.ends + (pieces - U1) * U8)
        if rows and at == base + load64(offsets + row * U8 + U8):
            row += U1
    w.row = row
    return np.int64(-1) - np.int64(total) if w.status else np.int64(total)


@kernel(entry=True)
def merge_bytes(worker, at, width, out):
    """Merge any bytes as one piece, from Python: gives the number of ids, or -1 if the scratch memory is too small.

    Contract: all arguments int64, width >= 1; ``out`` takes ``width`` ids.
    """
    w = worker_at(np.uint64(worker))
    made = merge_piece(w, tables_at(w.tables), np.uint64(at), np.uint64(width), np.uint64(out), ALL)
    return np.int64(-1) if made == TOO_LONG else np.int64(made)
