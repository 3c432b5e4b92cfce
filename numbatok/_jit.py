"""The one decorator that compiles, and the list of kernels.

Invariant: every compiled function of the package goes through :func:`kernel`, so that all of them share the same
options (``nogil``, NumPy error model), the same on-disk cache policy and one entry in :data:`KERNELS`. Importing
compiles nothing and never fails: a place that cannot be written only means that kernels live in memory.

    @kernel(entry=True)
    def twice(word):
        return word + word
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import numba
from numba import config
from numba.core import event

from numbatok._cache import PackageCache

KERNELS: list[Any] = []
"""Every kernel in order of definition; the tests check their number of signatures and what the cache did."""

JIT_DISABLED = bool(config.DISABLE_JIT)


def read_data(name: str) -> bytes:
    """Give the content of a file in the package's data folder."""
    return (files("numbatok") / "data" / name).read_bytes()


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
    compiled._cache = PackageCache(function, lean=entry)
    compiled._compilation_chain_init_hook = _no_extensions
    if not entry:
        _shut(compiled)
    KERNELS.append(compiled)
    return compiled


def _no_extensions() -> None:
    """Do nothing where Numba would look for extensions, and import them: no kernel has an argument of their types.

    With awkward installed the first call would take 150 ms longer, without it 14 ms.
    """


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
