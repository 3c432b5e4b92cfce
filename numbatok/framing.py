"""Rows cut to a length: ids, with others put before and behind each row, and the texts that are left of them.

Invariant: a row that comes out is the ids before, as many of its own as fit, and the ids behind; a row that is skipped
(a null) stays empty.

    >>> import numpy as np
    >>> from numbatok.ragged import Offsets, Ragged, RowError, Rows
    >>> pair = Ragged(np.array([7, 8, 9], np.uint32), np.array([0, 2, 3]))
    >>> Frame(before=[1], most=2).put(pair).tokens.tolist()
    [1, 7, 1, 9]
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from numbatok._jit import kernel
from numbatok._llvm import copy, load64
from numbatok.bpe import address
from numbatok.ragged import Offsets, Ragged, RowError, Rows

U0, U1, U4, U8 = (np.uint64(value) for value in (0, 1, 4, 8))


@kernel(entry=True)
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


class Frame(NamedTuple):
    """What is put around each row of ids.

    Attributes:
        before: ids in front of each row.
        behind: ids at the end of each row.
        most: the most ids of a row, those before and behind included; None for any number.

    """

    before: Sequence[int] = ()
    behind: Sequence[int] = ()
    most: int | None = None

    @classmethod
    def checked(cls, before: Sequence[int], behind: Sequence[int], max_tokens: Any) -> Frame:
        """Give a frame that has room for what is in it.

        Raises:
            TypeError: ``max_tokens`` is no integer.
            ValueError: it has no room for the ids before and behind.

        """
        if max_tokens is not None and not isinstance(max_tokens, (int, np.integer)):
            raise TypeError(f"max_tokens is {max_tokens!r}; give a whole number")
        most, extra = None if max_tokens is None else int(max_tokens), len(before) + len(behind)
        if most is not None and most < extra:
            raise ValueError(f"max_tokens is {most}; give {extra} or more, since bos and eos have {extra} ids")
        return cls(before, behind, most)

    def put(self, ragged: Ragged, skip: npt.NDArray[np.bool_] | None = None) -> Ragged:
        """Give the rows, framed; those of ``skip``, bool[rows], stay empty."""
        sizes = np.diff(ragged.offsets) + len(self.before) + len(self.behind)
        if self.most is not None:
            sizes = np.minimum(sizes, self.most)
        if skip is not None:
            sizes[skip] = 0
        places = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
        out = np.empty(int(places[-1]), np.uint32)
        head, tail = np.array(self.before, np.uint32), np.array(self.behind, np.uint32)
        rows = (address(ragged.tokens), address(ragged.offsets), len(sizes), address(places))
        copy_framed(*rows, address(head), len(head), address(tail), len(tail), address(out))
        return Ragged(out, places)


def check_beginnings(rows: Rows, data: npt.NDArray[np.uint8], places: Offsets) -> None:
    """Refuse rows of ``data``, int64[rows + 1] ``places``, that are not beginnings of the texts.

    Raises:
        RowError: names the first.

    """
    text = rows.text
    for row, (start, stop) in enumerate(itertools.pairwise(places.tolist())):
        at = int(rows.offsets[row])
        if not np.array_equal(text[at : at + stop - start], data[start:stop]):
            raise RowError(
                row,
                "the encoding changes this text before it splits it, so no beginning of it has these ids; "
                "decode_arrow(encode_arrow(column, max_tokens=...)) gives the changed text",
            )


def whole_characters(rows: Rows, data: npt.NDArray[np.uint8], places: Offsets) -> tuple[npt.NDArray[np.uint8], Offsets]:
    """Take from beginnings of texts the bytes of a character that is cut at their end.

    Args:
        rows: the texts.
        data: the bytes of their beginnings.
        places: int64[rows + 1], the offsets of the beginnings.

    """
    text, sizes = rows.text, np.diff(places)
    starts, dropped = rows.offsets[:-1], np.zeros(len(sizes), np.int64)
    cut = np.flatnonzero(sizes < np.diff(rows.offsets))
    for _ in range(3):  # a character has up to three bytes behind its first
        ends = (starts + sizes - dropped)[cut]
        cut = cut[((text[ends] & 0xC0) == 0x80) & (ends > starts[cut])]
        dropped[cut] += 1
    gone = [places[1:][dropped >= count] - count for count in (1, 2, 3)]
    return np.delete(data, np.concatenate(gone)), places - np.concatenate(([0], np.cumsum(dropped)))
