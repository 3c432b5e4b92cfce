"""The one decorator that compiles, the package-wide cache stamp, and the list of kernels.

Invariant: every compiled function of the package goes through :func:`kernel`, so that all of them share the same
options (``nogil``, NumPy error model), the same on-disk cache policy and one entry in :data:`KERNELS`. Importing
compiles nothing and never fails: a place that cannot be written only means that kernels live in memory.

    @kernel(entry=True)
    def twice(word):
        return word + word
"""

from __future__ import annotations

import contextlib
import functools
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


class StampedCache(FunctionCache):  # type: ignore[misc]
    """Numba's disk cache of one function, with the stamp of the whole package in place of that of one file."""

    def __init__(self, function: Callable[..., Any], stamp: str) -> None:
        super().__init__(function)
        self._cache_file._source_stamp = stamp
        # Numba writes the index before the machine code. With the stamp in its name, code of another version that a
        # killed process left behind can never be found through a new index.
        self._mark = f".{stamp[:16]}."
        self._data_prefix = self._cache_file._data_name_pattern.removesuffix("{number:d}.nbc")
        self._cache_file._data_name_pattern = f"{self._data_prefix}{stamp[:16]}.{{number:d}}.nbc"

    def load(self, sig: Any, target_context: Any) -> Any:
        """Give the cached machine code, or None."""
        if not LEAN_LOADING:
            return self.load_overload(sig, target_context)
        rtsys.initialize(target_context)
        return self._load_overload(sig, target_context)

    def discard(self) -> None:
        """Drop the index, so that nothing is found."""
        with contextlib.suppress(OSError):
            Path(self._cache_file._index_path).unlink(missing_ok=True)

    def remove_old(self) -> None:
        """Remove the machine code that other versions of the package left for this function."""
        with contextlib.suppress(OSError):
            for path in Path(self.cache_path).glob(f"{self._data_prefix}*.nbc"):
                if self._mark not in path.name:
                    path.unlink(missing_ok=True)


class PackageCache:
    """What a dispatcher sees of the cache: opened on first use, for which any broken or unwritable file is a miss.

    A hundred kernels are defined at import and a handful is loaded: looking for a writable folder for each of them
    would take 15 ms. The stamp is taken at import, when the sources on disk are those that run.
    """

    stamp = ""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        PackageCache.stamp = PackageCache.stamp or package_stamp()

    @functools.cached_property
    def disk(self) -> StampedCache | None:
        """The cache on disk; None if there is no writable folder anywhere, and kernels live in memory."""
        try:
            return StampedCache(self._function, self.stamp)
        except (RuntimeError, OSError):
            return None

    @property
    def cache_path(self) -> str | None:
        """The folder, or None."""
        return self.disk.cache_path if self.disk else None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Give the cached machine code, or None: whatever is wrong with the file, compiling again mends it."""
        if self.disk is None:
            return None
        try:
            return self.disk.load(sig, target_context)
        except Exception:  # truncated pickles raise nearly anything
            self.disk.discard()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store the machine code; a full disk or a folder that became read-only costs only the next start."""
        if self.disk is None:
            return
        try:
            self.disk.save_overload(sig, data)
        except Exception:  # the index may be the broken file: drop it and try once more
            self.disk.discard()
            with contextlib.suppress(Exception):
                self.disk.save_overload(sig, data)
        self.disk.remove_old()

    def flush(self) -> None:
        """Drop what is stored (Numba's ``recompile`` asks for it)."""
        if self.disk is not None:
            self.disk.flush()


def kernel(
    function: Callable[..., Any] | None = None, *, entry: bool = False, parallel: bool = False, gil: bool = False
) -> Any:
    """Compile ``function`` on its first call: no GIL, NumPy's error model, cached on disk where that is possible.

    One that Python calls is an ``entry``. The others are called by kernels only, and refuse to be called: what lets
    Python in would be a fifth of the time that all of them take to compile. One that handles Python's objects keeps the
    GIL (see objects.py). With ``NUMBA_DISABLE_JIT=1`` the plain Python function comes back, and runs on the twins in
    ``_llvm`` and ``objects``.
    """
    if function is None:
        return lambda wrapped: kernel(wrapped, entry=entry, parallel=parallel, gil=gil)
    if JIT_DISABLED:
        return function
    wrappers: dict[str, Any] = {} if entry else {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    compiled = numba.njit(nogil=not gil, error_model="numpy", parallel=parallel, **wrappers)(function)
    compiled._cache = PackageCache(function)
    if not entry:
        _shut(compiled)
    KERNELS.append(compiled)
    return compiled


def _shut(compiled: Any) -> None:
    """Make a call from Python an error. Without its wrapper it would be a jump to address 0."""

    def refuse(*arguments: Any, **names: Any) -> None:
        raise TypeError(f"{compiled.__name__} is called by kernels only: it is no @kernel(entry=True)")

    def add_overload(made: Any) -> None:
        compiled.overloads[tuple(made.signature.args)] = made

    compiled._compile_for_args = refuse  # what Numba's dispatcher asks when it knows no machine code for the arguments,
    compiled.add_overload = add_overload  # of which this tells it nothing


def cache_folder() -> str | None:
    """Give the folder of the disk cache, or None where kernels live in memory only."""
    return KERNELS[0]._cache.cache_path if KERNELS else None


class FirstCompile(event.Listener):  # type: ignore[misc]
    """Says once, on a terminal or in a notebook, that compiling has begun: the first call takes a while."""

    told = False

    def on_start(self, compiling: Any) -> None:
        """Print the one line, if the compiled function is ours and somebody is looking."""
        if FirstCompile.told or compiling.data["dispatcher"] not in KERNELS:
            return
        FirstCompile.told = True
        if sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules):
            print("numbatok: compiling kernels, once per machine and version (less than a minute) ...", file=sys.stderr)

    def on_end(self, compiling: Any) -> None:
        """Nothing to say: the answer itself shows that it is done."""


if not JIT_DISABLED:
    event.register("numba:compile", FirstCompile())
