"""Python's objects inside kernels: the bytes of a ``str`` where they are, and lists of ints built in one go.

To encode a short text takes less time than to hand it to a kernel argument by argument and to make a list of what
comes back. Here a kernel takes the ``str`` itself and gives the list, by the C functions that CPython offers everybody.

Invariant: a kernel that uses this holds the GIL (``gil=True``) and is called through :func:`entry`. Inside it an object
is a word, its address. The words that come in are borrowed, the one that goes out is a new reference.

    @kernel(entry=True, gil=True)
    def same(text):                             # entry(same, OBJECT)("abc") is "abc"
        return give_object(new_reference(word_of(text)))
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import NativeValue, box, models, register_model, unbox

from numbatok._jit import JIT_DISABLED
from numbatok._llvm import define

WORD, FLAG, BYTES = ir.IntType(64), ir.IntType(32), ir.IntType(8).as_pointer()


class Object(types.Type):  # type: ignore[misc]
    """Any Python object, on its way into a kernel or out of it."""

    def __init__(self) -> None:
        super().__init__("Object")


OBJECT = Object()


@register_model(Object)
class _ObjectModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, WORD)  # type: ignore[no-untyped-call]


@unbox(Object)  # type: ignore[untyped-decorator]
def _unbox_object(kind: Any, value: Any, context: Any) -> Any:
    return NativeValue(context.builder.ptrtoint(value, WORD))


@box(Object)  # type: ignore[untyped-decorator]
def _box_object(kind: Any, value: Any, context: Any) -> Any:
    return context.builder.inttoptr(value, context.pyapi.pyobj)


def entry(kernel: Any, *arguments: Any) -> Callable[..., Any]:
    """Give the function that calls a kernel with arguments of these types, and does not ask for their types again."""
    if JIT_DISABLED:
        return _holding(kernel)
    kernel.compile(arguments)
    return kernel.overloads[arguments].entry_point  # type: ignore[no-any-return]


# ---- twins in plain Python: words are addresses here too -------------------------------------------------------------


class _Held(threading.local):
    """What a kernel in plain Python keeps alive: there other threads run, and may drop what its words name."""

    def __init__(self) -> None:
        self.given: dict[int, Any] = {}
        """New references that are made and not yet given out."""
        self.borrowed: list[Any] = []


_held = _Held()
_api = ctypes.pythonapi
_api.PyUnicode_AsUTF8AndSize.argtypes = [ctypes.py_object, ctypes.POINTER(ctypes.c_ssize_t)]
_api.PyUnicode_AsUTF8AndSize.restype = ctypes.c_void_p


def _object_at(word: np.uint64) -> Any:
    return ctypes.cast(int(word), ctypes.py_object).value


def _holding(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Give a kernel in plain Python that holds objects of its own, also if the garbage collector calls it in another.

    Raises:
        RuntimeError: the kernel has made a reference and not given it out; as machine code it would leak.

    """

    @functools.wraps(kernel)
    def call(*arguments: Any) -> Any:
        before, _held.given, _held.borrowed = (_held.given, _held.borrowed), {}, []
        try:
            made = kernel(*arguments)
            if _held.given:
                raise RuntimeError(f"{kernel.__name__} keeps references: {list(_held.given.values())}")
        finally:
            _held.given, _held.borrowed = before
        return made

    return call


def _keep(value: Any) -> np.uint64:
    _held.given[id(value)] = value
    return np.uint64(id(value))


def _word_of(value: Any) -> np.uint64:
    """Give the word of an argument of the kernel."""
    return np.uint64(id(value))


def _give_object(word: np.uint64) -> Any:
    """Give a new reference out as the result of the kernel."""
    return _held.given.pop(int(word))


def _new_reference(word: np.uint64) -> np.uint64:
    """Give a new reference to an object."""
    return _keep(_object_at(word))


def _drop_reference(word: np.uint64) -> None:
    """Drop a new reference that is not given out."""
    _held.given.pop(int(word))


def _utf8_of(word: np.uint64, size: np.uint64) -> np.uint64:
    """Give the address of the UTF-8 bytes of a ``str``, and store their number at ``size``; 0 if there are none.

    An ASCII ``str`` is read in place; any other keeps the bytes that are made here as long as it lives.
    """
    found = ctypes.c_ssize_t()
    try:
        at = _api.PyUnicode_AsUTF8AndSize(_object_at(word), ctypes.byref(found))
    except (UnicodeEncodeError, TypeError):
        return np.uint64(0)
    ctypes.c_int64.from_address(int(size)).value = found.value
    return np.uint64(at)


def _new_list(size: np.uint64) -> np.uint64:
    """Give a new list of ``size`` places, each to be filled by :func:`fill_place`.

    0 if there is no memory: given out as the result of the kernel, it raises the MemoryError that Python has set.
    """
    return _keep([None] * int(size))


def _fill_place(target: np.uint64, index: np.uint64, word: np.uint64) -> None:
    """Fill a place of a new list with an object; takes over a new reference to it."""
    _object_at(target)[int(index)] = _give_object(word)


def _new_int(value: np.uint64) -> np.uint64:
    """Give a new int."""
    return _keep(int(value))


def _list_item(word: np.uint64, index: np.uint64) -> np.uint64:
    """Give what is in a place of a list, borrowed; 0 if there is no such place."""
    try:
        item = _object_at(word)[int(index)]
    except IndexError:
        return np.uint64(0)
    _held.borrowed.append(item)
    return np.uint64(id(item))


def _text_length(word: np.uint64) -> np.uint64:
    """Give the number of characters of a ``str``; of what is none, ALL."""
    text = _object_at(word)
    return np.uint64(str.__len__(text) if isinstance(text, str) else (1 << 64) - 1)


# ---- the same as machine code ----------------------------------------------------------------------------------------


def _call(builder: Any, name: str, result: Any, *arguments: Any) -> Any:
    """Call a function of CPython."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)


def _object(builder: Any, word: Any) -> Any:
    return builder.inttoptr(word, BYTES)


def _or_clear(builder: Any, failed: Any) -> None:
    """Clear Python's error if there is one: the kernel says it in its own way."""
    with builder.if_then(failed, likely=False):
        _call(builder, "PyErr_Clear", ir.VoidType())


def _emit_utf8_of(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    size = builder.inttoptr(args[1], WORD.as_pointer())
    at = builder.ptrtoint(_call(builder, "PyUnicode_AsUTF8AndSize", BYTES, _object(builder, args[0]), size), WORD)
    _or_clear(builder, builder.icmp_unsigned("==", at, WORD(0)))
    return at


def _emit_new_list(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.ptrtoint(_call(builder, "PyList_New", BYTES, args[0]), WORD)


def _emit_fill_place(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    target, item = _object(builder, args[0]), _object(builder, args[2])
    _call(builder, "PyList_SetItem", FLAG, target, args[1], item)
    return context.get_dummy_value()


def _emit_new_reference(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    _call(builder, "Py_IncRef", ir.VoidType(), _object(builder, args[0]))
    return args[0]


def _emit_drop_reference(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    _call(builder, "Py_DecRef", ir.VoidType(), _object(builder, args[0]))
    return context.get_dummy_value()


def _emit_new_int(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.ptrtoint(_call(builder, "PyLong_FromUnsignedLongLong", BYTES, args[0]), WORD)


def _emit_list_item(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    found = _call(builder, "PyList_GetItem", BYTES, _object(builder, args[0]), args[1])
    word = builder.ptrtoint(found, WORD)
    _or_clear(builder, builder.icmp_unsigned("==", word, WORD(0)))
    return word


def _emit_text_length(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    length = _call(builder, "PyUnicode_GetLength", WORD, _object(builder, args[0]))
    _or_clear(builder, builder.icmp_signed("<", length, WORD(0)))
    return length


def _same(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return args[0]


_ONE, _TWO, _THREE = (types.uint64,), (types.uint64,) * 2, (types.uint64,) * 3
word_of = define(_word_of, types.uint64(*(OBJECT,)), _same)
give_object = define(_give_object, OBJECT(*_ONE), _same)
new_reference = define(_new_reference, types.uint64(*_ONE), _emit_new_reference)
drop_reference = define(_drop_reference, types.void(*_ONE), _emit_drop_reference)
utf8_of = define(_utf8_of, types.uint64(*_TWO), _emit_utf8_of)
new_list = define(_new_list, types.uint64(*_ONE), _emit_new_list)
fill_place = define(_fill_place, types.void(*_THREE), _emit_fill_place)
new_int = define(_new_int, types.uint64(*_ONE), _emit_new_int)
list_item = define(_list_item, types.uint64(*_TWO), _emit_list_item)
text_length = define(_text_length, types.uint64(*_ONE), _emit_text_length)
