"""Machine words at addresses: the intrinsics that Numba does not offer, each with its Python twin.

Invariant: all values are ``uint64`` (a mix with a signed or literal operand would turn them into ``int64`` or floats),
all IR is generic LLVM (no target names), and every load or store is unaligned. Nothing here checks bounds: whoever
calls owns the proof that ``address .. address + width`` lies inside a buffer that is alive.

Usable inside kernels only, and in plain Python where ``NUMBA_DISABLE_JIT=1`` puts the twins in place:

    load64(address of b"ABCDEFGH") == 0x4847464544434241
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import Signature
from numba.extending import intrinsic
from numba.np import numpy_support

from numbatok._jit import JIT_DISABLED

BYTE = ir.IntType(8)
WORD = ir.IntType(64)
WORD128 = ir.IntType(128)
BLOCK = ir.VectorType(BYTE, 64)

CTYPES: dict[int, Any] = {8: ctypes.c_uint8, 16: ctypes.c_uint16, 32: ctypes.c_uint32, 64: ctypes.c_uint64}

Emit = Callable[[Any, Any, Any, Any], Any]


def _pointer(builder: Any, address: Any, pointee: Any) -> Any:
    return builder.inttoptr(address, pointee.as_pointer())


def _words(count: int, result: Any = types.uint64) -> Signature:
    return result(*[types.uint64] * count)


ARITY: dict[int, Callable[[Signature, Emit], Callable[..., Any]]] = {
    1: lambda signature, emit: lambda typing_context, a: (signature, emit),
    2: lambda signature, emit: lambda typing_context, a, b: (signature, emit),
    3: lambda signature, emit: lambda typing_context, a, b, c: (signature, emit),
    9: lambda signature, emit: lambda typing_context, a, b, c, d, e, f, g, h, i: (signature, emit),
}


def define(twin: Callable[..., Any], signature: Signature, emit: Emit) -> Any:
    """Give the Python twin when the JIT is off, else the intrinsic of ``signature`` whose IR ``emit`` writes."""
    if JIT_DISABLED:
        return twin
    typed = ARITY[len(signature.args)](signature, emit)
    typed.__name__, typed.__doc__, typed.__module__ = twin.__name__.lstrip("_"), twin.__doc__, twin.__module__
    return intrinsic(typed)


def _make_load(width: int) -> Any:
    """Make ``load{width}(address) -> uint64``: an unaligned little-endian load, zero-extended."""
    ctype = CTYPES[width]

    def load(address: np.uint64) -> np.uint64:
        return np.uint64(ctype.from_address(int(address)).value)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(_pointer(builder, args[0], ir.IntType(width)), align=1)
        return value if width == 64 else builder.zext(value, WORD)

    return define(load, _words(1), emit)


def _make_store(width: int) -> Any:
    """Make ``store{width}(address, value)``: an unaligned little-endian store of the low bits."""
    ctype, low_bits = CTYPES[width], (1 << width) - 1

    def store(address: np.uint64, value: np.uint64) -> None:
        ctype.from_address(int(address)).value = int(value) & low_bits

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = args[1] if width == 64 else builder.trunc(args[1], ir.IntType(width))
        builder.store(word, _pointer(builder, args[0], ir.IntType(width)), align=1)
        return context.get_dummy_value()

    return define(store, _words(2, types.void), emit)


load8, load16, load32, load64 = _make_load(8), _make_load(16), _make_load(32), _make_load(64)
store8, store32, store64 = _make_store(8), _make_store(32), _make_store(64)


def _copy16(target: np.uint64, source: np.uint64) -> None:
    """Copy 16 bytes from ``source`` to ``target``."""
    ctypes.memmove(int(target), int(source), 16)


def _copy(target: np.uint64, source: np.uint64, size: np.uint64) -> None:
    """Copy ``size`` bytes; the ranges do not overlap (``memcpy``)."""
    ctypes.memmove(int(target), int(source), int(size))


def _trailing_zeros(word: np.uint64) -> np.uint64:
    """Give the index of the lowest set bit; 64 for zero."""
    value = int(word)
    return np.uint64((value & -value).bit_length() - 1 if value else 64)


def _leading_zeros(word: np.uint64) -> np.uint64:
    """Give the number of zero bits above the highest set bit; 64 for zero."""
    return np.uint64(64 - int(word).bit_length())


def _count_bits(word: np.uint64) -> np.uint64:
    """Give the number of set bits."""
    return np.uint64(int(word).bit_count())


def _folded_product(one: np.uint64, other: np.uint64) -> np.uint64:
    """Give the high word of the 128-bit product, exclusive-or its low word."""
    product = int(one) * int(other)
    return np.uint64((product >> 64) ^ (product & ((1 << 64) - 1)))


def _prefetch(address: np.uint64) -> None:
    """Ask for the cache line at ``address`` ahead of its use; a hint that never faults."""


def _fetch_add(address: np.uint64, value: np.uint64) -> np.uint64:
    """Add to the word at ``address`` atomically and give what it held before."""
    cell = ctypes.c_uint64.from_address(int(address))
    before = cell.value
    cell.value = before + int(value)
    return np.uint64(before)


def _exchange(address: np.uint64, value: np.uint64) -> np.uint64:
    """Store a word atomically and give what was there before."""
    cell = ctypes.c_uint64.from_address(int(address))
    before, cell.value = cell.value, int(value)
    return np.uint64(before)


def _load_shared(address: np.uint64) -> np.uint64:
    """Load a word that another thread may store: what it wrote before :func:`store_shared` is seen as well."""
    return np.uint64(ctypes.c_uint64.from_address(int(address)).value)


def _store_shared(address: np.uint64, value: np.uint64) -> None:
    """Store a word that another thread may load. Contract: the address is a multiple of 8."""
    ctypes.c_uint64.from_address(int(address)).value = int(value)


def _in_range_mask(block: np.uint64, low: np.uint64, high: np.uint64) -> np.uint64:
    """Give bit i for each byte i of the 64 at ``block`` with ``low <= byte <= high``. Contract: low <= high."""
    text = np.frombuffer(memoryview((ctypes.c_uint8 * 64).from_address(int(block))), np.uint8)
    hits = (text >= low) & (text <= high)
    return np.uint64(int.from_bytes(np.packbits(hits, bitorder="little").tobytes(), "little"))


def _minimum16(address: np.uint64) -> np.uint64:
    """Give the least of the 16 ``uint32`` at ``address``."""
    return np.uint64(min((ctypes.c_uint32 * 16).from_address(int(address))))


def _minimum64(address: np.uint64) -> np.uint64:
    """Give the least of the 64 ``uint32`` at ``address``."""
    return np.uint64(min((ctypes.c_uint32 * 64).from_address(int(address))))


def _match8(address: np.uint64, key: np.uint64, spread: np.uint64) -> np.uint64:
    """Give bit i for each word i of the 8 at ``address`` that differs from ``key`` in bits of ``spread`` at most.

    Contract: ``spread`` is a mask of low bits.
    """
    words = (ctypes.c_uint64 * 8).from_address(int(address))
    return np.uint64(sum(1 << index for index, word in enumerate(words) if (word ^ int(key)) <= int(spread)))


_functions: dict[int, Callable[..., Any]] = {}
"""In plain Python what the words of :func:`function_word` stand for."""


def function_word(kernel: Any, *arguments: Any) -> int:
    """Give the word by which another kernel calls this one, with arguments of these types, through :func:`call8`.

    A kernel that calls another one by its name has a copy of that one and of all that it calls: encode_rows, 0.4 MB of
    machine code, would be compiled, and loaded in each process (16 ms), for every kernel that makes use of it.
    """
    if JIT_DISABLED:
        _functions[id(kernel)] = kernel
        return id(kernel)
    kernel.compile(arguments)
    made = kernel.overloads[arguments]  # held by the kernel
    address: int = made.library.get_pointer_to_function(made.fndesc.llvm_cfunc_wrapper_name)
    return address


def _call8(function: np.uint64, *words: np.uint64) -> np.int64:
    """Call a kernel of eight int64 that gives an int64. Contract: ``function`` is a :func:`function_word`."""
    return np.int64(_functions[int(function)](*(np.int64(word) for word in words)))


def _emit_call8(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    kind = ir.FunctionType(WORD, [WORD] * 8)
    return builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])


def _emit_match8(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    lanes = ir.VectorType(WORD, 8)
    words = builder.load(_pointer(builder, args[0], lanes), align=1)
    key, spread = (_splat(builder, word, lanes) for word in args[1:])
    hits = builder.icmp_unsigned("<=", builder.xor(words, key), spread)
    return builder.zext(builder.bitcast(hits, BYTE), WORD)


def _make_emit_minimum(count: int) -> Emit:
    """Make what writes the IR of the least of ``count`` words of 32 bits."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = ir.VectorType(ir.IntType(32), count)
        kind = ir.FunctionType(ir.IntType(32), [lanes])
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.vector.reduce.umin.v{count}i32")
        least = builder.call(function, [builder.load(_pointer(builder, args[0], lanes), align=1)])
        return builder.zext(least, WORD)

    return emit


def _emit_copy16(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    value = builder.load(_pointer(builder, args[1], WORD128), align=1)
    builder.store(value, _pointer(builder, args[0], WORD128), align=1)
    return context.get_dummy_value()


def _emit_copy(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    target, source = (builder.inttoptr(place, BYTE.as_pointer()) for place in args[:2])
    cgutils.raw_memcpy(builder, target, source, args[2], 1)
    return context.get_dummy_value()


def _emit_folded_product(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    one, other = (builder.zext(word, WORD128) for word in args)
    product = builder.mul(one, other)
    high = builder.trunc(builder.lshr(product, WORD128(64)), WORD)
    return builder.xor(high, builder.trunc(product, WORD))


def _emit_prefetch(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    flag = ir.IntType(32)
    pointer = builder.inttoptr(args[0], BYTE.as_pointer())
    kind = ir.FunctionType(ir.VoidType(), [BYTE.as_pointer(), flag, flag, flag])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    builder.call(function, [pointer, flag(0), flag(3), flag(1)])
    return context.get_dummy_value()


def _emit_store_shared(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    builder.store_atomic(args[1], _pointer(builder, args[0], WORD), "release", 8)
    return context.get_dummy_value()


def _emit_in_range_mask(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    block = builder.load(_pointer(builder, args[0], BLOCK), align=1)
    low, high = (_splat(builder, builder.trunc(bound, BYTE), BLOCK) for bound in args[1:])
    # (byte - low) <= (high - low), unsigned: one subtraction and one compare
    hits = builder.icmp_unsigned("<=", builder.sub(block, low), builder.sub(high, low))
    return builder.bitcast(hits, WORD)


def _splat(builder: Any, value: Any, lanes: Any) -> Any:
    single = builder.insert_element(ir.Constant(lanes, ir.Undefined), value, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes.count), [0] * lanes.count)
    return builder.shuffle_vector(single, ir.Constant(lanes, ir.Undefined), zeros)


copy16 = define(_copy16, _words(2, types.void), _emit_copy16)
copy = define(_copy, _words(3, types.void), _emit_copy)
trailing_zeros = define(
    _trailing_zeros, _words(1), lambda context, builder, signature, args: builder.cttz(args[0], ir.IntType(1)(0))
)
leading_zeros = define(
    _leading_zeros, _words(1), lambda context, builder, signature, args: builder.ctlz(args[0], ir.IntType(1)(0))
)
count_bits = define(_count_bits, _words(1), lambda context, builder, signature, args: builder.ctpop(args[0]))
folded_product = define(_folded_product, _words(2), _emit_folded_product)
prefetch = define(_prefetch, _words(1, types.void), _emit_prefetch)
fetch_add = define(
    _fetch_add,
    _words(2),
    lambda context, builder, signature, args: builder.atomic_rmw(
        "add", _pointer(builder, args[0], WORD), args[1], "seq_cst"
    ),
)
exchange = define(
    _exchange,
    _words(2),
    lambda context, builder, signature, args: builder.atomic_rmw(
        "xchg", _pointer(builder, args[0], WORD), args[1], "seq_cst"
    ),
)
load_shared = define(
    _load_shared,
    _words(1),
    lambda context, builder, signature, args: builder.load_atomic(_pointer(builder, args[0], WORD), "acquire", 8),
)
store_shared = define(_store_shared, _words(2, types.void), _emit_store_shared)
call8 = define(_call8, _words(9, types.int64), _emit_call8)
match8 = define(_match8, _words(3), _emit_match8)
minimum16 = define(_minimum16, _words(1), _make_emit_minimum(16))
minimum64 = define(_minimum64, _words(1), _make_emit_minimum(64))
in_range_mask = define(_in_range_mask, _words(3), _emit_in_range_mask)


def record_at(dtype: np.dtype[Any]) -> Any:
    """Make ``view(address)`` that reads the record of ``dtype`` stored at ``address`` by field name.

    Numba represents a record by its address, so the view costs nothing, and one word carries all tables to a kernel.
    """

    def view(address: np.uint64) -> Any:
        memory = memoryview((ctypes.c_uint8 * dtype.itemsize).from_address(int(address)))
        return np.frombuffer(memory, dtype).view(np.recarray)[0]

    if JIT_DISABLED:
        return view
    record = numpy_support.from_dtype(dtype)

    def typed(typing_context: Any, address: Any) -> tuple[Signature, Emit]:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], context.get_value_type(record))

        return record(types.uint64), emit

    return intrinsic(typed)
