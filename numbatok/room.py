"""Large arrays whose memory goes back to the system when they go.

What the allocator of the C library gets back it may keep: a training that works in steps, each with some large arrays,
would hold the sum of all steps. A mapping of its own is gone at once, and a page that nobody touches costs nothing.

Invariant: an array is all zeros, whichever way its memory came.

    >>> zeros(3, np.uint64).tolist()
    [0, 0, 0]
"""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

MAPPED_BYTES = 1 << 18
"""Arrays from this size on have a mapping of their own."""


def zeros(count: int, kind: type[np.generic]) -> npt.NDArray[Any]:
    """Give an array of ``count`` zeros."""
    size = count * np.dtype(kind).itemsize
    if size < MAPPED_BYTES:
        return np.zeros(count, kind)
    return np.frombuffer(mmap.mmap(-1, size), kind)
