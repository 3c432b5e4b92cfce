"""What Numba made of the kernels: one specialisation each, no floats, no reference counts in the hot path.

Invariant: every kernel of the package is compiled afresh in a process of its own with an empty cache (a kernel that
comes from the cache has no types to look at), first by calls of the public interface, then by a direct compilation of
those kernels that no call reaches, with words for all arguments and records for ``t`` and ``w``.

    a kernel with `total = 0` and `total += load64(at)`  ->  its variable `total` is float64 or int64: a finding
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from cases import JIT_OFF

pytestmark = pytest.mark.skipif(JIT_OFF, reason="nothing is compiled with NUMBA_DISABLE_JIT=1")

HANG_SECONDS = 300

PUBLIC_CALLS = """
import json, sys, warnings
import numpy as np
from numba import types
from numba.core.errors import NumbaWarning
warnings.simplefilter("error", NumbaWarning)
import numbatok
from numbatok._jit import KERNELS

enc = numbatok.get_encoding("gpt2")
long_word = "qzjxkvwpybghfdmculrnsoitae" * 4000
text = "Hello  world, it's 1 \\u00e9 \\u4e2d\\u6587\\n\\n" + long_word
many = [text, "", "word " * 60_000, long_word]
for given in (text, text.encode(), np.frombuffer(text.encode(), np.uint8), b"h\\xc3", bytearray(b"a b")):
    ids = enc.encode_flat(given)
    enc.encode_ordinary(given), enc.encode(given), enc.encode_to_numpy(given), enc.count(given)
    for kept in (ids, ids.tolist(), ids.astype(np.int64), np.repeat(ids, 2)[::2]):
        assert len(enc.decode_bytes(kept)) == len(given.encode() if isinstance(given, str) else given)
frozen = np.frombuffer(text.encode(), np.uint8)
assert not frozen.flags.writeable
enc.encode_flat(frozen), enc.encode_flat(frozen.copy()), enc.encode_flat(frozen[::2].copy()), enc.split(text)
for threads in (None, 1, 2):
    enc.encode_batch_flat(many, threads=threads), enc.count_batch(many, threads=threads)
    enc.encode_batch(many, num_threads=threads), enc.encode_ordinary_batch(many, num_threads=threads)
enc.encode("a<|endoftext|>b", allowed_special="all"), enc.decode_bytes([1, 99999], unknown="skip")
enc.encode_single_token(" world"), enc.decode_single_token_bytes(995), enc.decode_tokens_bytes([995]), enc.decode([995])
"""

INSPECTION = """
from numba.np.numpy_support import from_dtype
from numbatok.encoder import encode_rows
from numbatok.lookup import WORKER
from numbatok.table import TABLES

def name(kernel):
    return kernel.__module__.removeprefix("numbatok.") + "." + kernel.__name__

signatures = {name(kernel): [str(signature) for signature in kernel.signatures] for kernel in KERNELS}
records = {"t": from_dtype(TABLES), "w": from_dtype(WORKER)}
for kernel in KERNELS:
    if not kernel.signatures:
        arguments = kernel.py_func.__code__.co_varnames[: kernel.py_func.__code__.co_argcount]
        kernel.compile(tuple(records.get(argument, types.uint64) for argument in arguments))
typed = {
    name(kernel): {variable: str(kind) for made in kernel.overloads.values()
                   for variable, kind in made.type_annotation.typemap.items()}
    for kernel in KERNELS
}
llvm = "\\n".join(encode_rows.inspect_llvm().values())
json.dump({"signatures": signatures, "typed": typed, "llvm": llvm}, sys.stdout)
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Compile everything afresh in a new process; gives signatures and variable types by kernel, and LLVM text."""
    folder = tmp_path_factory.mktemp("cache")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    environment |= {"NUMBA_CACHE_DIR": str(folder), "NUMBA_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", PUBLIC_CALLS + INSPECTION],
        env=environment, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=HANG_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def floats(variables: dict[str, str]) -> dict[str, str]:
    """Give the variables whose type is a float, or holds one (a tuple, an array, an optional)."""
    return {variable: kind for variable, kind in variables.items() if "float" in kind or "complex" in kind}


def test_one_signature_per_kernel(compiled: dict[str, Any]) -> None:
    """The whole public interface, whatever kind of text or ids it is given, makes at most one version of a kernel."""
    assert {name: made for name, made in compiled["signatures"].items() if len(made) > 1} == {}


def test_public_calls_reach_the_kernels(compiled: dict[str, Any]) -> None:
    """The calls above are representative: most kernels were compiled by them and not by the inspection."""
    made = compiled["signatures"]
    assert {"encoder.encode_rows", "batch.run_lanes", "decoder.decode_into", "merge.merge_long"} <= made.keys()
    assert all(
        made[name] for name in ("encoder.encode_rows", "batch.run_lanes", "merge.merge_long", "encoder.merge_bytes")
    )
    assert sum(map(bool, made.values())) > 0.8 * len(made)


def test_no_floats(compiled: dict[str, Any]) -> None:
    """No variable of a kernel is a float: a word mixed with a signed value or a literal would have become one."""
    assert all(compiled["typed"].values()), "a kernel without types was not inspected"
    found = {name: floats(variables) for name, variables in compiled["typed"].items()}
    assert {name: bad for name, bad in found.items() if bad} == {}


def test_no_reference_counts(compiled: dict[str, Any]) -> None:
    """The machine code of the encoder holds no Numba object: no reference is counted, nothing is allocated."""
    assert all(callee in compiled["llvm"] for callee in ("fill_row", "merge_short", "merge_long")), "callees are gone"
    assert [
        word for word in ("NRT_incref", "NRT_decref", "NRT_Allocate", "NRT_MemInfo") if word in compiled["llvm"]
    ] == []


def test_inspection_finds_faults() -> None:
    """A kernel that mixes words with literals shows a float, and one that handles an array counts references."""

    def mixed(word: np.uint64, flag: bool) -> Any:
        total = word if flag else 0
        return total

    def hands_on(array: Any) -> Any:
        return array[1:], array

    bad = numba.njit(mixed)
    bad(np.uint64(1), True)
    assert floats({name: str(kind) for name, kind in bad.overloads[bad.signatures[0]].type_annotation.typemap.items()})
    counting = numba.njit(hands_on)
    counting(np.zeros(3))
    assert "NRT_incref" in counting.inspect_llvm(counting.signatures[0])
    assert floats({"pair": "UniTuple(float64 x 2)", "word": "uint64"}) == {"pair": "UniTuple(float64 x 2)"}
