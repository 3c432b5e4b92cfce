"""Warm-up: compile every kernel that a call on an encoding can reach, or load it from the cache on disk.

Those of training are left out: they take as long again, and few who encode train.

Invariant: after :func:`warmup` no call on an embedded encoding compiles anything, in this process or in a later one
that may read the cache folder. Run it when an image is built, so that nobody who starts from it waits.

    >>> from numbatok.warm import warmup
    >>> warmup().seconds < 600
    True
"""

from __future__ import annotations

import time
from typing import NamedTuple

from numba import types

from numbatok._jit import JIT_DISABLED, KERNELS, cache_folder
from numbatok.batch import PARALLEL_BYTES, THREADS, run_lanes
from numbatok.embedded import EMBEDDED
from numbatok.encoding import Encoding
from numbatok.registry import get_encoding
from numbatok.split.cuts import find_cut
from numbatok.text import text_span

TEXT = "It's 1 text of 20 words: naïve café, 中文。 'quoted'\n\n\tand\r\n  indented... "
NOT_TEXT = b"cut \xe4\xb8"


class WarmUp(NamedTuple):
    """What a warm-up did.

    Attributes:
        kernels: kernels with machine code in this process; one that is only called by others need not be among them.
        compiled: kernels compiled by this call.
        loaded: kernels loaded from the cache by this call.
        seconds: how long it took, without the import of the package.
        folder: where the machine code is kept; None if it lives in memory only, and dies with the process.

    """

    kernels: int
    compiled: int
    loaded: int
    seconds: float
    folder: str | None


def warmup() -> WarmUp:
    """Compile or load every kernel that the calls on encodings use; calling it again costs nothing.

    Never fails for want of a cache: kernels that cannot be stored are compiled for this process alone.
    """
    start = time.perf_counter()
    loaded, compiled = _cache_counts()
    if not JIT_DISABLED:  # plain Python has nothing to compile, and would take minutes over the long text
        for name in EMBEDDED:  # plug-ins are left alone: they may do anything
            _call_everything(get_encoding(name))
        # With one core, or in a forked child, no call above opens the parallel region; its kernel is made all the same,
        # because the image that is built here may run on a larger machine.
        run_lanes.compile((types.int64, types.int64))
    loaded_now, compiled_now = _cache_counts()
    ready = sum(bool(kernel.signatures) for kernel in KERNELS)
    return WarmUp(ready, compiled_now - compiled, loaded_now - loaded, time.perf_counter() - start, cache_folder())


def _call_everything(enc: Encoding) -> None:
    """Make one call of each kind; the sizes and types of the arguments decide nothing, so one of each is enough."""
    import pyarrow as pa  # takes its time, and only this call needs it

    ids = enc.encode_batch_flat([TEXT * (PARALLEL_BYTES // len(TEXT) + 1)], threads=THREADS).tokens
    enc.count_batch([TEXT], threads=1)
    enc.encode_ordinary(NOT_TEXT)
    enc.encode_ordinary(TEXT)
    enc.count(TEXT)
    enc.encode_ordinary_batch([TEXT, ""], num_threads=1)
    enc.split(TEXT)
    enc.encode_single_token("word")
    enc.decode_bytes(ids)
    enc.decode_arrow(enc.encode_arrow(pa.array([TEXT]), bos=0))
    at, size, _owner = text_span(TEXT)
    find_cut(at, 1, size)


def _cache_counts() -> tuple[int, int]:
    """Give how many kernels this process has loaded from the cache so far, and how many it has compiled."""
    stats = [kernel.stats for kernel in KERNELS]
    return sum(sum(one.cache_hits.values()) for one in stats), sum(sum(one.cache_misses.values()) for one in stats)
