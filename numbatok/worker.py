"""Workers: the memory that one encoding call needs, kept warm between calls and lent to one call at a time.

Invariant: a worker belongs to at most one running call, so nothing in it is ever shared between threads. Its memory is
bounded: CACHE_BYTES of cache, of which the ring is touched as far as texts need it, and scratch that grows only with
the longest window it had to merge in one go (see windows.py).

    >>> import numbatok
    >>> pool = WorkerPool(numbatok.get_encoding("gpt2")._model)
    >>> worker = pool.take()
    >>> pool.give_back(worker)
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from numbatok._jit import JIT_DISABLED
from numbatok._llvm import function_word
from numbatok.bpe import HUGE_PAGE, Model, address, aligned
from numbatok.cache import SHORT_BYTES
from numbatok.calls import PADDED_BYTES, SLACK_BYTES, encode_to_list, encode_to_output
from numbatok.encoder import encode_rows
from numbatok.lookup import BATCH, SLACK, WORKER
from numbatok.objects import OBJECT, entry
from numbatok.ragged import Ids
from numbatok.ring import FINDER_BYTES, LONG_KEY_BYTES, RING_BYTES
from numbatok.split.stretch import MARKS_SLACK
from numbatok.stretches import STRETCH_MEMORY
from numbatok.turns import LANES_BYTES
from numbatok.windows import WINDOW_SCRATCH

SCRATCH_BYTES = 1 << 20
"""Scratch of a new worker: merges windows of up to 27 KiB in one go."""
GIANT_SCRATCH = 64 * SCRATCH_BYTES
"""Scratch above this, for a window of some 1 MB, is not kept between calls."""
UNSEEDED = 1
"""What is to be done by the first call of a new worker, on its own thread: it enters the vocabulary into the cache."""
LONGEST_PIECE = (1 << 32) - 2
OUTPUT_BYTES = 1 << 21
"""Longest text, in bytes, whose ids go through the worker's own output: memory that is there already saves 15 % of the
time of a text of 1 MB."""
CACHE_BYTES = SHORT_BYTES + FINDER_BYTES + RING_BYTES


class NotUtf8(Exception):
    """Bytes that are not UTF-8 were met: the caller takes the path that follows tiktoken there."""


class Worker:
    """One record of addresses for the kernels, and the arrays behind them."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.record = np.zeros(1, WORKER)
        self.address = address(self.record)
        self.span = np.zeros(2, np.int64)
        """Offsets of a batch of one text: 0 and its size."""
        self.span_address = address(self.span)
        self.count = np.zeros(1, np.int64)
        self.count_address = address(self.count)
        self.output = np.empty(OUTPUT_BYTES + SLACK, np.uint32)
        """The ids of a short text, copied from here: its memory is warm."""
        self.output_address = address(self.output)
        self._kept: list[tuple[npt.NDArray[np.uint8], Ids]] = []
        """Scratch and sink, and those before them until the record names the new ones."""
        self._ends = np.empty(BATCH + 64, np.uint64)
        self._keys = np.empty(3 * (BATCH + 64), np.uint64)
        self._marks = np.empty(2 * (BATCH + MARKS_SLACK), np.uint64)
        self._stretch = np.zeros(STRETCH_MEMORY, np.uint8)
        self._lanes = aligned(LANES_BYTES, np.uint8)
        self._cache = aligned(CACHE_BYTES, np.uint8, HUGE_PAGE)
        self.record["tables"], self.record["encode"] = model.address, _encode_word()
        self.record["span"], self.record["count"] = self.span_address, self.count_address
        self.record["output"] = self.output_address
        self._padded = np.zeros(PADDED_BYTES + SLACK_BYTES, np.uint8)
        self.record["padded"] = address(self._padded)
        self.record["ends"], self.record["keys"] = address(self._ends), address(self._keys)
        self.record["marks"] = address(self._marks)
        self.record["stretch"] = address(self._stretch)
        self.record["lanes"] = address(self._lanes)
        self.record["entries"] = address(self._cache)
        self.record["finder"] = self.record["entries"] + SHORT_BYTES
        self.record["ring"] = self.record["finder"] + FINDER_BYTES
        self.record["head"] = RING_BYTES
        self.record["unseeded"] = UNSEEDED
        self._set_scratch(SCRATCH_BYTES)

    @functools.cached_property
    def to_list(self) -> Callable[[str], Any]:
        """What encodes a ``str`` to a list, or gives it back (see calls.py)."""
        ints = self.model.ints
        self.record["ints"], self.record["int_count"] = address(ints), len(ints)
        return functools.partial(entry(encode_to_list, types.int64, OBJECT), self.address)

    @functools.cached_property
    def to_output(self) -> Callable[[str], int]:
        """What encodes a ``str`` to :attr:`output` and gives the number of ids, or -1 (see calls.py)."""
        return functools.partial(entry(encode_to_output, types.int64, OBJECT), self.address)

    def _set_scratch(self, size: int) -> None:
        """Change the scratch. Whatever is interrupted, the record never names memory that is gone."""
        ids = max(size // WINDOW_SCRATCH, LONG_KEY_BYTES) + SLACK
        scratch, sink = np.empty(size, np.uint8), np.empty(ids, np.uint32)
        self._kept.append((scratch, sink))
        self.record["scratch_size"] = 0
        self.record["scratch"], self.record["sink"] = address(scratch), address(sink)
        del self._kept[:-1]
        self.record["scratch_size"] = size
        self.has_giant_scratch = size > GIANT_SCRATCH

    def grow_scratch(self, piece_bytes: int) -> None:
        """Make the scratch large enough to merge a piece of ``piece_bytes``, and somewhat more.

        Raises:
            OverflowError: positions in a piece have 32 bits.

        """
        if piece_bytes > LONGEST_PIECE:
            raise OverflowError(f"a piece of {piece_bytes} bytes is too long to merge: {LONGEST_PIECE} is the most")
        self._set_scratch((piece_bytes + min(piece_bytes, SCRATCH_BYTES)) * WINDOW_SCRATCH)

    def trim_scratch(self) -> None:
        """Give the memory of a giant piece back."""
        self._set_scratch(SCRATCH_BYTES)


@functools.cache
def _encode_word() -> int:
    return function_word(encode_rows, *[types.int64] * 8)


class WorkerPool:
    """The idle workers of one model. Taking and giving back are atomic list operations: no lock is needed."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._idle: list[Worker] = []
        self.quick: list[Worker] = [] if model.incomplete else self._idle
        """Idle workers for calls.py; none where ids have to be looked through for bytes that have no token."""
        self._slices = np.empty(0, np.uint32)

    def take(self) -> Worker:
        """Give an idle worker, the warmest first, or a new one."""
        try:
            return self._idle.pop()
        except IndexError:
            return Worker(self.model)

    def count(self, text: str) -> int:
        """Count the ids of a ``str`` if a worker is idle and that is done at once; else -1."""
        try:
            worker = self.quick.pop()
        except IndexError:
            return -1
        made = worker.to_output(text)
        self.quick.append(worker)  # not if that raised: see give_back
        return made

    def give_back(self, worker: Worker) -> None:
        """Keep a worker for the next call, without the memory of a giant piece.

        In plain Python Ctrl-C, or what else a signal raises, ends a kernel anywhere, with what it had half written:
        that worker is forgotten.
        """
        # an IndexError is that of the quick way, which found no worker and goes on here
        if JIT_DISABLED and not isinstance(sys.exc_info()[1], (NoneType, NotUtf8, IndexError)):
            return
        if worker.has_giant_scratch:
            worker.trim_scratch()
        self._idle.append(worker)

    def slices(self, room: int) -> Ids:
        """Give memory for ``room`` ids, kept between calls; the one parallel call at a time holds on to it."""
        slices = self._slices
        if len(slices) < room:
            self._slices = slices = np.empty(room, np.uint32)
        return slices

    def clear(self) -> None:
        """Forget all idle workers and their caches."""
        self._idle.clear()
        self._slices = np.empty(0, np.uint32)
