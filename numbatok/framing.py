"""Rows of ids cut to a length, with ids put before and behind each.

Invariant: a row that comes out is the ids before, as many of its own as fit, and the ids behind; a row that is skipped
(a null) stays empty.

    >>> import numpy as np
    >>> from numbatok.ragged import Ragged
    >>> pair = Ragged(np.array([7, 8, 9], np.uint32), np.array([0, 2, 3]))
    >>> frame(pair, before=[1], most=2).tokens.tolist()
    [1, 7, 1, 9]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from numbatok._jit import kernel
from numbatok._llvm import copy, load64
from numbatok.bpe import address
from numbatok.ragged import Ragged

U0, U1, U4, U8 = (np.uint64(value) for value in (0, 1, 4, 8))


@kernel
def copy_framed(ids, offsets, rows, places, before, head, behind, tail, out):
    """Write each row framed to its place.

    Contract: all arguments int64; ``ids``, ``before``, ``behind`` and ``out`` are addresses of uint32, ``offsets`` and
    ``places`` of int64[rows + 1]; a place with no room is skipped, any other has room for ``head + tail`` ids.
    """
    ids, offsets, places, out = np.uint64(ids), np.uint64(offsets), np.uint64(places), np.uint64(out)
    before, behind, head, tail = np.uint64(before), np.uint64(behind), np.uint64(head), np.uint64(tail)
    for row in range(np.uint64(rows)):
        start, stop = load64(places + row * U8), load64(places + row * U8 + U8)
        if start == stop:
            continue
        copy(out + start * U4, before, head * U4)
        first = ids + load64(offsets + row * U8) * U4
        copy(out + (start + head) * U4, first, (stop - start - head - tail) * U4)
        copy(out + (stop - tail) * U4, behind, tail * U4)


def frame(
    ragged: Ragged,
    before: Sequence[int] = (),
    behind: Sequence[int] = (),
    most: int | None = None,
    skip: npt.NDArray[np.bool_] | None = None,
) -> Ragged:
    """Frame rows.

    Args:
        ragged: the rows.
        before: ids in front of each row.
        behind: ids at the end of each row.
        most: the most ids of a row, those before and behind included; None for any number.
        skip: bool[rows], the rows that stay empty.

    Raises:
        ValueError: ``most`` has no room for the ids before and behind.

    """
    extra = len(before) + len(behind)
    if most is not None and most < extra:
        raise ValueError(f"max_tokens is {most}, which has no room for {extra} ids before and behind each row")
    sizes = np.diff(ragged.offsets) + extra
    if most is not None:
        sizes = np.minimum(sizes, most)
    if skip is not None:
        sizes[skip] = 0
    places = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    out = np.empty(int(places[-1]), np.uint32)
    head, tail = (np.array(ids or [0], np.uint32) for ids in (before, behind))
    arrays: tuple[npt.NDArray[Any], ...] = (ragged.tokens, ragged.offsets)
    ids, offsets = map(address, arrays)
    copy_framed(
        ids, offsets, len(sizes), address(places), address(head), len(before), address(tail), len(behind), address(out)
    )
    return Ragged(out, places)
