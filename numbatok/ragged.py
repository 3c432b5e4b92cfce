"""The two ends of a batch: texts in one buffer, and ids in one array, each with the offsets of its rows.

Invariant: ``offsets[0]`` is 0, offsets never fall, and the last one is the number of ids: Arrow's list layout.

    >>> import numpy as np
    >>> pair = Ragged(np.array([7, 8, 9], np.uint32), np.array([0, 2, 3]))
    >>> pair.row(-1)
    array([9], dtype=uint32)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.uint32]
Offsets = npt.NDArray[np.int64]


class Rows(NamedTuple):
    """Texts in one buffer: row ``i`` is the bytes ``base + offsets[i] .. base + offsets[i + 1]``.

    Attributes:
        base: the address of the buffer.
        offsets: int64[rows + 1], never falling.
        owner: what keeps the buffer alive.

    """

    base: int
    offsets: Offsets
    owner: object

    @property
    def size(self) -> int:
        """Give the number of bytes of all rows."""
        return int(self.offsets[-1] - self.offsets[0])


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

    def rows(self) -> Iterator[Ids]:
        """Give the rows one after the other, as views."""
        return (self.row(index) for index in range(len(self.offsets) - 1))
