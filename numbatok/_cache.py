"""What is kept of compiled kernels on disk: under one stamp for the whole package, and read no further than needed.

Invariant: machine code is found only if all sources and all switches that change it are those it was made of. Whatever
is wrong with a file or a folder is a miss, and compiling again mends it.

    compiled = numba.njit(function)
    compiled._cache = PackageCache(function, lean=True)
    -> compiling is looked up on disk first, and stored there
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Callable, Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import numba
from llvmlite.binding import parse_bitcode
from numba import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import compile_result
from numba.core.runtime import rtsys

LEAN_LOADING = (0, 63) <= numba.version_info.short < (0, 69)
"""Versions of Numba where machine code from the cache was seen to need its runtime only. Leaving the typing registries
for the first compile takes 0.1 s off the start of a process, 0.36 s instead of 0.54 s; for more see LeanReader."""


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


class StoredLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The machine code of one kernel from disk, and the bitcode that another kernel is compiled with if it calls it.

    That is read when it is asked for: the first call need not parse it.
    """

    def __init__(self, codegen: Any, name: str, code: bytes, bitcode: bytes, discard: Callable[[], None]) -> None:
        super().__init__(codegen, name)
        self.bitcode, self.discard = bitcode, discard
        self.enable_object_caching()
        self._set_compiled_object(code)
        self._finalize_final_module()

    def _get_module_for_linking(self) -> Any:
        if self._shared_module is None:
            try:
                self._shared_module = parse_bitcode(self.bitcode)
            except RuntimeError as error:
                self.discard()
                why = f"a kernel on disk, {self.name}, is broken and has been removed; run the program again"
                raise RuntimeError(why) from error
            self._codegen._engine._load_defined_symbols(self._shared_module)
        return self._shared_module


class LeanReader(CompileResultCacheImpl):  # type: ignore[misc]
    """Reads of what was stored what a call from Python needs.

    That leaves out the bitcode, the names of all functions within, and the environments of the kernels that are called
    within, which hold Python's objects, of which they have none: the first call takes 9 ms and not 33. A parallel
    kernel has functions that are run first and start the threads.
    """

    discard: Callable[[], None]
    """Removes what was stored."""

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        """Give the kernel of a payload, as Numba stores it."""
        (name, kind, data), fndesc, env, signature, _, lifted, annotation, to_run, inner = payload
        if kind != "object" or lifted:
            return super().rebuild(target_context, payload)
        for start in to_run:
            start()
        codegen, (code, bitcode) = target_context.codegen(), data
        library = StoredLibrary(codegen, name, code, bitcode, self.discard)
        codegen._engine._defined_symbols |= {fndesc.llvm_cpython_wrapper_name, fndesc.llvm_cfunc_wrapper_name}
        return compile_result(
            target_context=target_context,
            typing_context=target_context.typing_context,
            library=library,
            environment=env,
            entry_point=target_context.get_executable(library, fndesc, env),
            fndesc=fndesc,
            signature=signature,
            type_annotation=annotation,
            objectmode=False,
            lifted=(),
            reload_init=to_run,
            referenced_envs=inner,
        )


class StampedCache(FunctionCache):  # type: ignore[misc]
    """Numba's disk cache of one function, with the stamp of the whole package in place of that of one file."""

    def __init__(self, function: Callable[..., Any], stamp: str, lean: bool) -> None:
        self._impl_class = LeanReader if lean and LEAN_LOADING else CompileResultCacheImpl
        super().__init__(function)
        self._impl.discard = self.discard
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

    Two hundred kernels are defined at import and a handful is loaded: looking for a writable folder for each of them
    would take 15 ms. The stamp is taken at import, when the sources on disk are those that run.
    """

    stamp = ""

    def __init__(self, function: Callable[..., Any], lean: bool) -> None:
        self._function, self._lean = function, lean
        PackageCache.stamp = PackageCache.stamp or package_stamp()

    @functools.cached_property
    def disk(self) -> StampedCache | None:
        """The cache on disk; None if there is no writable folder anywhere, and kernels live in memory."""
        try:
            return StampedCache(self._function, self.stamp, self._lean)
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
