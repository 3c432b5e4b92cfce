"""The one decorator that compiles, the package-wide cache stamp, and the list of kernels.

Invariant: every compiled function of the package goes through :func:`kernel`, so that all of them share the same
options (``nogil``, NumPy error model), the same on-disk cache policy and one entry in :data:`KERNELS`. Importing
compiles nothing and never fails: a place that cannot be written only means that kernels live in memory.

    @kernel
    def twice(word):
        return word + word
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Callable, Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import numba
from numba import config
from numba.core import event
from numba.core.caching import FunctionCache
from numba.core.runtime import rtsys

LEAN_LOADING = (0, 63) <= numba.version_info.short < (0, 69)
"""Versions of Numba where machine code from the cache was seen to need the runtime of Numba only, not its typing
registries. Leaving those for the first compile takes 0.1 s off the start of a process, 0.36 s instead of 0.54 s."""

KERNELS: list[Any] = []
"""Every kernel in order of definition; the tests check their number of signatures and what the cache did."""

JIT_DISABLED = bool(config.DISABLE_JIT)


def package_stamp() -> str:
    """Give one hash over all sources of the package and the Numba switches that change the machine code.

    Numba keys a cache entry by the file of the cached function alone; a callee edited in another file would go
    unseen and old machine code would give wrong ids after an upgrade.
    """
    digest = hashlib.sha256(f"{config.BOUNDSCHECK}/{config.OPT}".encode())
    for path, source in sorted(_sources(files("numbatok"))):
        digest.update(path.encode())
        digest.update(source)
    return digest.hexdigest()


def _sources(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, bytes]]:
    """Give path and content of each source file below a folder, which may lie in a zip archive."""
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _sources(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".py"):
            yield prefix + entry.name, entry.read_bytes()


def read_data(name: str) -> bytes:
    """Give the content of a file in the package's data folder."""
    return (files("numbatok") / "data" / name).read_bytes()


class PackageCache(FunctionCache):  # type: ignore[misc]
    """Numba's disk cache with the package-wide stamp, for which a broken or unwritable file is a miss."""

    stamp: str = ""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        if not PackageCache.stamp:
            PackageCache.stamp = package_stamp()
        self._cache_file._source_stamp = PackageCache.stamp
        # Numba writes the index before the machine code. With the stamp in its name, code of another version that a
        # killed process left behind can never be found through a new index.
        self._data_prefix = self._cache_file._data_name_pattern.removesuffix("{number:d}.nbc")
        self._cache_file._data_name_pattern = f"{self._data_prefix}{PackageCache.stamp[:16]}.{{number:d}}.nbc"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Give the cached machine code, or None: whatever is wrong with the file, compiling again mends it."""
        try:
            if not LEAN_LOADING:
                return super().load_overload(sig, target_context)
            rtsys.initialize(target_context)
            return self._load_overload(sig, target_context)
        except Exception:  # truncated pickles raise nearly anything
            self._discard()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store the machine code; a full disk or a folder that became read-only costs only the next start."""
        try:
            super().save_overload(sig, data)
        except Exception:  # the index may be the broken file: drop it and try once more
            self._discard()
            with contextlib.suppress(Exception):
                super().save_overload(sig, data)

        self._remove_old()

    def _remove_old(self) -> None:
        """Remove the machine code that other versions of the package left for this function."""
        with contextlib.suppress(OSError):
            for path in Path(self.cache_path).glob(f"{self._data_prefix}*.nbc"):
                if f".{self.stamp[:16]}." not in path.name:
                    path.unlink(missing_ok=True)

    def _discard(self) -> None:
        with contextlib.suppress(OSError):
            Path(self._cache_file._index_path).unlink(missing_ok=True)


def kernel(function: Callable[..., Any] | None = None, *, parallel: bool = False) -> Any:
    """Compile ``function`` on its first call: no GIL, NumPy's error model, cached on disk where that is possible.

    With ``NUMBA_DISABLE_JIT=1`` the plain Python function comes back, and runs on the twins in ``_llvm``.
    """
    if function is None:
        return lambda wrapped: kernel(wrapped, parallel=parallel)
    if JIT_DISABLED:
        return function
    compiled = numba.njit(nogil=True, error_model="numpy", parallel=parallel)(function)
    with contextlib.suppress(RuntimeError):  # no writable folder anywhere: compile in memory
        compiled._cache = PackageCache(function)
    KERNELS.append(compiled)
    return compiled


def cache_folder() -> str | None:
    """Give the folder of the disk cache, or None where kernels live in memory only."""
    return next((found._cache.cache_path for found in KERNELS if found._cache.cache_path), None)


class FirstCompile(event.Listener):  # type: ignore[misc]
    """Says once, on a terminal or in a notebook, that compiling has begun: the first call takes seconds."""

    told = False

    def on_start(self, compiling: Any) -> None:
        """Print the one line, if the compiled function is ours and somebody is looking."""
        if FirstCompile.told or compiling.data["dispatcher"] not in KERNELS:
            return
        FirstCompile.told = True
        if sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules):
            print("numbatok: compiling kernels, once per machine and version (some seconds) ...", file=sys.stderr)

    def on_end(self, compiling: Any) -> None:
        """Nothing to say: the answer itself shows that it is done."""


if not JIT_DISABLED:
    event.register("numba:compile", FirstCompile())
