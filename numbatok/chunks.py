"""Chunks of a batch: many small rows together, a giant row in parts.

Invariant: the chunks cover all rows in order, once; a row is cut at safe cuts only (see split/cuts.py), so every chunk
can be encoded alone.

    >>> import numpy as np
    >>> text = np.frombuffer(b"word " * 50_000, np.uint8)
    >>> chunks = plan_chunks(text.ctypes.data, np.array([0, len(text)]))
    >>> len(chunks), int(chunks["end"][0] - chunks["begin"][0])
    (7, 31254)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from numbatok._llvm import record_at
from numbatok.bpe import address
from numbatok.ragged import Offsets
from numbatok.split.cuts import find_cut

CHUNK_BYTES = 1 << 16
"""Aimed size of a chunk: small enough to balance the lanes, large enough that taking one costs nothing."""
LEAST_CHUNK_BYTES = 1 << 14
CHUNKS_PER_LANE = 8
"""A small batch is cut finer, down to LEAST_CHUNK_BYTES, so that no lane waits long for the last chunk."""
LARGEST_SLICE = 3 * CHUNK_BYTES
"""Bytes of the largest chunk that shares a slice: a full chunk of rows, and one more row of up to two chunks."""
ROW_WEIGHT = 16
"""What a row costs beside its bytes, in bytes; keeps a chunk of empty rows finite."""

CHUNK = np.dtype(
    [
        ("origin", "u8"),  # with offsets, first, last, counts: what encode_rows takes
        ("offsets", "u8"),
        ("first", "u8"),
        ("last", "u8"),
        ("counts", "u8"),
        ("part_of", "u8"),  # a part: the row that it is a part of, and its own range and count
        ("begin", "u8"),
        ("end", "u8"),
        ("part_count", "u8"),
        ("slice", "u8"),  # where its ids go first: memory of its own, if it is too large for a slice of the plan
        ("total", "u8"),  # ids made
        ("status", "u8"),  # how it ended, as in the worker record
        ("done", "u8"),  # 1 once its ids are in its slice
    ]
)
chunk_at = record_at(CHUNK)
WHOLE = np.uint64(0xFFFFFFFFFFFFFFFF)
"""``part_of`` of a chunk of whole rows."""

Chunks = npt.NDArray[Any]


def plan_chunks(base: int, offsets: Offsets, lanes: int = 1, cut: bool = True, starts: Offsets | None = None) -> Chunks:
    """Cut the rows into chunks: many small rows together, a row of more than two chunks into parts at safe cuts.

    Without ``cut`` every row stays whole: for rows that are pieces. With ``starts`` no rows are together.
    """
    sizes = np.diff(offsets)
    fine = int(sizes.sum()) // (lanes * CHUNKS_PER_LANE)
    aim = min(max(fine, LEAST_CHUNK_BYTES), CHUNK_BYTES)
    if starts is not None:
        alone = np.zeros(len(sizes), CHUNK)
        alone["begin"], alone["end"], alone["part_of"] = starts, starts + sizes, np.arange(len(sizes))
        return _cut_giants(alone, np.flatnonzero(sizes > 2 * aim) if cut else np.zeros(0, np.int64), aim)
    group = np.cumsum(sizes + ROW_WEIGHT) // aim
    giants = np.flatnonzero(sizes > 2 * aim) if cut else np.zeros(0, np.int64)
    edges = np.sort(np.concatenate(([0], np.flatnonzero(np.diff(group)) + 1, giants, giants + 1, [len(sizes)])))
    first, last = edges[:-1], edges[1:]
    first, last = first[first < last], last[first < last]  # np.unique would import numpy.ma, which takes 10 ms
    whole = np.zeros(len(first), CHUNK)
    whole["first"], whole["last"], whole["part_of"] = first, last, WHOLE
    whole["begin"], whole["end"] = base + offsets[first], base + offsets[last]
    return _cut_giants(whole, np.searchsorted(first, giants), aim)


def _cut_giants(whole: Chunks, giants: npt.NDArray[np.intp], aim: int) -> Chunks:
    """Put parts in the place of chunks that are one large row each."""
    pieces, done = [], 0
    for index in giants:
        begin, end = int(whole["begin"][index]), int(whole["end"][index])
        row = int(whole["first" if whole["part_of"][index] == WHOLE else "part_of"][index])
        pieces += [whole[done:index], cut_row(begin, end, row, aim)]
        done = index + 1
    return np.concatenate([*pieces, whole[done:]])


def cut_row(begin: int, end: int, row: int, aim: int) -> Chunks:
    """Cut one row into parts of about ``aim`` bytes at safe cuts; a row without one stays whole."""
    cuts = [begin]
    while end - cuts[-1] > 2 * aim:
        cut = begin + find_cut(begin, cuts[-1] + aim - begin, end - begin)
        if cut >= end:
            break
        cuts.append(cut)
    parts = np.zeros(len(cuts), CHUNK)
    parts["begin"], parts["end"], parts["part_of"] = cuts, [*cuts[1:], end], row
    return parts


def bind_chunks(chunks: Chunks, base: int, offsets: Offsets, counts: Offsets) -> None:
    """Fill in where each chunk reads and counts: a part is a batch of one row, its own range."""
    where = address(chunks) + np.arange(len(chunks), dtype=np.uint64) * np.uint64(CHUNK.itemsize)
    part = chunks["part_of"] != WHOLE
    begin_field, count_field = (np.uint64(CHUNK.fields[name][1]) for name in ("begin", "part_count"))  # type: ignore[index]
    chunks["origin"] = np.where(part, 0, base)
    chunks["offsets"] = np.where(part, where + begin_field, address(offsets))
    chunks["counts"] = np.where(part, where + count_field, address(counts))
    chunks["last"][part] = 1
