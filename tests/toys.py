"""Small models and splits for tests.

toy_model([ord("a")], [ord("b")], [256])  # 256 bytes, and "ab"
pieces(split_model(GPT2), b"two words", blocks=True)  # [b"two", b" words"]
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numba
import numpy as np
import numpy.typing as npt

from numbatok.bpe import Merges, Model, address
from numbatok.split.patterns import GPT2_PATTERNS, Split, split_of
from numbatok.split.scan import fill_ends, next_end
from numbatok.table import tables_at

GPT2 = split_of(GPT2_PATTERNS[0])


def toy_model(
    lefts: Sequence[int], rights: Sequence[int], merged: Sequence[int], specials: Mapping[str, int] | None = None
) -> Model:
    """Build a model of the 256 bytes (id = byte) and merges in rank order, with the GPT-2 split."""
    ranks = np.arange(len(merged), dtype=np.uint32)
    merges = Merges(np.asarray(lefts, np.uint32), np.asarray(rights, np.uint32), ranks, np.asarray(merged, np.uint32))
    return Model.from_merges(np.arange(256, dtype=np.uint8), merges, specials or {}, GPT2)


def split_model(split: Split) -> Model:
    """Build a model of the 256 bytes and no merge, to look at a split alone."""
    none = np.empty(0, np.uint32)
    return Model.from_merges(np.arange(256, dtype=np.uint8), Merges(none, none, none, none), {}, split)


@numba.njit(nogil=True)
def split_rows(tables, base, offsets, ends, blocks):
    """Write the piece ends of all rows of a text, by blocks and steps or by steps alone; gives their number.

    Contract: addresses as int64 but ``offsets`` (rows + 1) and ``ends`` (a word a byte, and 64 of slack).
    """
    t, room, count = tables_at(np.uint64(tables)), ends.size, 0
    for row in range(offsets.size - 1):
        at, stop = np.uint64(base + offsets[row]), np.uint64(base + offsets[row + 1])
        if blocks:
            target = np.uint64(ends.ctypes.data + 8 * count)
            count += np.int64(fill_ends(t, at, stop, target, np.uint64(room)))
            continue
        while at < stop:
            end = next_end(t, at, stop)
            if end == at:
                break
            ends[count], at, count = end, end, count + 1
    return count


def piece_ends(model: Model, rows: Sequence[bytes], *, blocks: bool) -> npt.NDArray[np.int64]:
    """Give the ends of the pieces of all rows, as indices into the joined rows."""
    data = b"".join(rows)
    text, ends = np.frombuffer(data, np.uint8), np.empty(len(data) + 64, np.uint64)
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    count = split_rows(model.address, address(text), offsets, ends, blocks)
    return (ends[:count] - np.uint64(address(text))).astype(np.int64)


def pieces(model: Model, data: bytes, *, blocks: bool) -> list[bytes]:
    """Give the pieces of a text, by blocks and steps or by steps alone."""
    edges = [0, *piece_ends(model, [data], blocks=blocks).tolist()]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


@numba.njit(nogil=True)
def first_disagreement(tables, units, widths, text, base, length):
    """Give the number of the first tuple that the scanners cut differently, or -1; text[32:] is the tail."""
    ends, t = np.empty(128, np.uint64), tables_at(np.uint64(tables))
    for number in range(len(widths) ** length):
        rest, first = number, 32
        for _ in range(length):
            unit = rest % len(widths)
            rest //= len(widths)
            first -= widths[unit]
            text[first : first + widths[unit]] = units[unit, : widths[unit]]
        at, stop = np.uint64(base + first), np.uint64(base + len(text))
        found = fill_ends(t, at, stop, np.uint64(ends.ctypes.data), np.uint64(1))
        for index in range(np.int64(found)):
            at = next_end(t, at, stop)
            if at != ends[index]:
                return number
    return -1
