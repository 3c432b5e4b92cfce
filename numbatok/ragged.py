"""The two ends of a batch: texts in one buffer, and ids in one array, each with the offsets of its rows.

Invariant: ``offsets[0]`` is 0, offsets never fall, and the last one is the number of ids: Arrow's list layout.

    >>> import numpy as np
    >>> pair = Ragged(np.array([7, 8, 9], np.uint32), np.array([0, 2, 3]))
    >>> pair.row(-1)
    array([9], dtype=uint32)
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow as pa

Ids = npt.NDArray[np.uint32]
Offsets = npt.NDArray[np.int64]


class Rows(NamedTuple):
    """Texts in one buffer: row ``i`` is the bytes ``base + offsets[i] .. base + offsets[i + 1]``.

    Attributes:
        base: the address of the buffer.
        offsets: int64[rows + 1], never falling.
        owner: what keeps the buffer alive.
        starts: int64[rows], where each row is, if they are not in one buffer; ``offsets`` then tell their sizes only.

    """

    base: int
    offsets: Offsets
    owner: object
    starts: Offsets | None = None

    @property
    def size(self) -> int:
        """Give the number of bytes of all rows."""
        return int(self.offsets[-1] - self.offsets[0])

    @property
    def text(self) -> npt.NDArray[np.uint8]:
        """Give the buffer up to the end of the last row, as a view."""
        size = int(self.offsets[-1])
        return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(self.base)) if size else np.empty(0, np.uint8)


class RowError(ValueError):
    """A row cannot be made: ``row`` is its number among those at hand. Who knows its number in the column says it."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row


class Ragged(NamedTuple):
    """Rows of ids in one flat array: row ``i`` is ``tokens[offsets[i]:offsets[i + 1]]``, Arrow's list layout.

    Attributes:
        tokens: uint32[n], the ids of all rows one after the other.
        offsets: int64[rows + 1], starting with 0, ending with n.

    """

    tokens: Ids
    offsets: Offsets

    def row(self, index: int) -> Ids:
        """Give the ids of one row, as a view; negative indices count from the end."""
        rows = len(self.offsets) - 1
        if not -rows <= index < rows:
            raise IndexError(f"row {index} is not one of {rows} rows")
        index %= rows
        return self.tokens[self.offsets[index] : self.offsets[index + 1]]

    def rows(self, start: int = 0, stop: int | None = None) -> Iterator[Ids]:
        """Give the rows from ``start`` to ``stop`` one after the other, as views; indices as in a slice."""
        return (self.row(index) for index in range(*slice(start, stop).indices(self.num_rows)))

    @property
    def num_rows(self) -> int:
        """Give the number of rows."""
        return len(self.offsets) - 1

    def row_at(self, index: int) -> int:
        """Give the number of the row that ``tokens[index]`` belongs to."""
        return int(np.searchsorted(self.offsets, index, side="right")) - 1

    def to_pylist(self) -> list[list[int]]:
        """Give the rows as lists of Python's integers."""
        return [row.tolist() for row in self.rows()]

    def to_arrow(self) -> pa.Array:
        """Give the rows as an Arrow array of type list<uint32>, in place; a large list above 2**31 - 1 ids.

        >>> Ragged(np.array([7, 8, 9], np.uint32), np.array([0, 2, 3])).to_arrow().to_pylist()
        [[7, 8], [9]]
        """
        from numbatok.lists import list_array

        return list_array(self.tokens, self.offsets)

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self.to_arrow().__arrow_c_array__(requested_schema)  # type: ignore[no-any-return]

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        from numbatok.lists import chunked

        return chunked(self.to_arrow()).__arrow_c_stream__(requested_schema)
