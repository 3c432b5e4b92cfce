"""Batches of pieces from short rows, a stretch of which is split as if it were one text.

Invariant: the pieces of a row are those of the row alone (see split/stretch.py for why), and are marked as its own.
What is not UTF-8 ends a stretch, and is left to the caller.

    if open_stretch(w, t, base, offsets, row, last):
        while w.in_stretch:
            pieces, rows = split_stretch(w, t)     # a batch: w.ends and w.marks
            row, at = go_on_behind(w, base, offsets, pieces)
"""

from __future__ import annotations

import numpy as np

from numbatok._jit import kernel
from numbatok._llvm import load8, load64, store64
from numbatok.lookup import ROOM
from numbatok.split.stretch import (
    SEPARATOR,
    STRETCH_BYTES,
    STRETCH_ROWS,
    STRETCH_SLACK,
    ends_row,
    fill_stretch,
    gather_stretch,
)

FEW_ROWS = np.uint64(4)
"""Fewer rows than these are not worth a stretch."""
ROWS_AT = STRETCH_END = np.uint64(STRETCH_BYTES + STRETCH_SLACK)
STRETCH_MEMORY = STRETCH_BYTES + STRETCH_SLACK + 8 * STRETCH_ROWS
"""Bytes: the stretch with what may be read behind it, up to STRETCH_END, and the numbers of its rows."""
U0, U1, U8, U16 = (np.uint64(value) for value in (0, 1, 8, 16))


@kernel
def open_stretch(w, t, base, offsets, row, last):
    """Gather rows from ``row`` on; tells whether they are worth a stretch.

    Contract: as encode_rows, all uint64, the split of the model is one that joins_stretches.
    """
    found, behind, size = gather_stretch(t, base, offsets, row, last, w.stretch, w.stretch + ROWS_AT)
    if found < FEW_ROWS:
        return False
    w.stretch_at, w.stretch_stop, w.stretch_row, w.behind = w.stretch, w.stretch + size, U0, behind
    w.in_stretch = U1
    return True


@kernel
def split_stretch(w, t):
    """Split and mark the next batch of the stretch; gives the numbers of pieces and of rows."""
    pieces, rows = fill_stretch(t, w.stretch_at, w.stretch_stop, w.ends, ROOM, w.marks)
    mark, row = w.marks, w.stretch + ROWS_AT + w.stretch_row * U8
    w.stretch_row = w.stretch_row + rows
    if pieces and not ends_row(load64(w.ends + (pieces - U1) * U8)):
        store64(mark + rows * U16 + U8, pieces)
        rows += U1
    for index in range(rows):
        store64(mark + index * U16, load64(row + index * U8))
    return pieces, rows


@kernel
def go_on_behind(w, base, offsets, pieces):
    """Go on behind the batch of a stretch, or leave the stretch; gives the row, and the address in the text then."""
    if pieces:
        at = load64(w.ends + (pieces - U1) * U8)
        w.stretch_at = at + ends_row(at)
    if w.stretch_at == w.stretch_stop:
        w.in_stretch = U0
        return w.behind, base + load64(offsets + w.behind * U8)
    row = load64(w.stretch + ROWS_AT + w.stretch_row * U8)
    at = base + load64(offsets + row * U8)
    if pieces == U0:  # not UTF-8: as far as this row was split
        w.in_stretch, start = U0, w.stretch_at
        while start > w.stretch and load8(start - U1) != SEPARATOR:
            start -= U1
        at += w.stretch_at - start
    return row, at
