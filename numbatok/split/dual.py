"""The dual cursor of the TokenBpe reference: two cursors over the halves of a text, stepping in turn in one loop.

Invariant: the pieces are those of one cursor. The halves meet at a safe cut, so neither cursor needs to know the other.

The idea is that a processor works on two independent chains of steps at once. Measured (bench/results, 64 KiB ranges,
scalar steps): it gains on English prose and loses on code, mixed and multilingual text; and the block scanner of
scan.py is several times faster than both, so the dual cursor is nowhere the default.

    >>> from numbatok import get_encoding
    >>> get_encoding("gpt2").split("hello world " * 50, cursors=2)[:2]
    [(0, 5), (5, 11)]
"""

from __future__ import annotations

import numpy as np

from numbatok._jit import kernel
from numbatok._llvm import load64, store64
from numbatok.split.cuts import middle_cut
from numbatok.split.scan import next_end
from numbatok.table import tables_at

U0, U1, U8 = (np.uint64(value) for value in (0, 1, 8))
LEAST_TEXT = np.uint64(256)
"""Bytes below which one cursor runs alone."""
REACH = np.uint64(128)
"""How far from the middle the cut is looked for."""


@kernel
def step_all(t, at, stop, ends):
    """Write the ends of the pieces from ``at`` on, one step after the other; gives their number."""
    count = U0
    while at < stop:
        end = next_end(t, at, stop)
        if end == at:  # not UTF-8
            break
        at = end
        store64(ends + count * U8, at)
        count += U1
    return count


@kernel
def step_both(t, at, cut, stop, ends):
    """Let two cursors take turns over ``at .. cut`` and ``cut .. stop``; gives the number of pieces.

    The right cursor writes from word ``cut - at`` on: the left one needs at most one word a byte. A cursor that meets
    bytes that are not UTF-8 stays where it is.
    """
    right_ends = ends + (cut - at) * U8
    left, right, left_count, right_count = at, cut, U0, U0
    while left < cut and right < stop:
        left_end, right_end = next_end(t, left, cut), next_end(t, right, stop)
        if left_end == left or right_end == right:
            break
        left, right = left_end, right_end
        store64(ends + left_count * U8, left)
        store64(right_ends + right_count * U8, right)
        left_count += U1
        right_count += U1
    left_count += step_all(t, left, cut, ends + left_count * U8)
    if left_count == U0 or load64(ends + (left_count - U1) * U8) != cut:
        return left_count  # not UTF-8 on the left: what the right cursor found does not follow
    right_count += step_all(t, right, stop, right_ends + right_count * U8)
    for index in range(right_count):
        store64(ends + (left_count + index) * U8, load64(right_ends + index * U8))
    return left_count + right_count


@kernel(entry=True)
def split_dual(tables, at, stop, ends):
    """Split from Python with two cursors: all arguments int64, ``ends`` takes ``stop - at`` words; gives the pieces."""
    t, at, stop, ends = tables_at(np.uint64(tables)), np.uint64(at), np.uint64(stop), np.uint64(ends)
    cut = middle_cut(at, stop, REACH) if stop - at >= LEAST_TEXT else stop
    if cut == stop:
        return np.int64(step_all(t, at, stop, ends))
    return np.int64(step_both(t, at, cut, stop, ends))
