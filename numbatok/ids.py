"""Ids from Python and back to bytes: lists, arrays of any integer type and stride, checked before a kernel sees them.

Invariant: a kernel gets contiguous uint32 only. What does not fit there raises; nothing wraps around.

    >>> id_array([7, 8])
    array([7, 8], dtype=uint32)
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from numbatok.bpe import Model, address
from numbatok.decoder import decode_into, decoded_size
from numbatok.ragged import Ids
from numbatok.text import new_bytes

Tokens = Iterable[int] | npt.NDArray[Any]
Unknown = Literal["error", "skip"]

LARGEST = 0xFFFFFFFF


def id_array(tokens: Tokens) -> Ids:
    """Give ids as a contiguous uint32 array.

    Raises:
        TypeError: for what does not hold integers.
        OverflowError: for negative ids and for ids that 32 bits cannot hold.

    """
    if isinstance(tokens, np.ndarray) and tokens.dtype != object:
        return _from_array(tokens)
    if isinstance(tokens, (str, bytes, bytearray, memoryview)):
        raise TypeError(f"ids are wanted and {type(tokens).__name__} was given; pass a list or an integer array")
    return np.frombuffer(array("I", tokens), np.uint32)


def _from_array(tokens: npt.NDArray[Any]) -> Ids:
    if tokens.size and tokens.dtype.kind not in "iu":
        raise TypeError(f"ids are wanted and a {tokens.dtype} array was given; pass an integer array")
    if tokens.ndim != 1:
        raise TypeError(f"ids must be one-dimensional; the array has shape {tokens.shape}")
    if tokens.dtype != np.uint32 and tokens.size:
        least, most = int(tokens.min()), int(tokens.max())
        if least < 0 or most > LARGEST:
            raise OverflowError(f"id {least if least < 0 else most} is out of range: ids are 0 to {LARGEST}")
    return np.ascontiguousarray(tokens, np.uint32)


def decode(model: Model, tokens: Tokens, unknown: Unknown) -> bytes:
    """Give the bytes of ids, one after the other.

    Raises:
        KeyError: for an id that the model does not have, unless ``unknown`` is "skip".
        ValueError: for another value of ``unknown``.
        RuntimeError: another thread changed the ids meanwhile.

    """
    if unknown not in ("error", "skip"):
        raise ValueError(f'unknown is {unknown!r}; give "error" or "skip"')
    ids = id_array(tokens)
    size = decoded_size(model.address, address(ids), len(ids), int(unknown == "skip"))
    if size < 0:
        bad = int(ids[-1 - size])
        raise KeyError(f"Invalid token for decoding: {bad} (at index {-1 - size}); unknown='skip' leaves it out")
    data, at = new_bytes(size)
    if decode_into(model.address, address(ids), len(ids), at, size) != size:
        raise RuntimeError("the ids changed while they were decoded; pass a copy, or wait until nobody writes to them")
    return data
