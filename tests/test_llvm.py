"""Every intrinsic against a Python model: compiled, and as its twin when NUMBA_DISABLE_JIT=1.

Invariant: the model works on plain ``bytes`` and ``int`` and shares no code with ``_llvm``, so a wrong width, sign
extension, byte order, alignment or lane order shows as a difference, and so does a store that touches a neighbour.

    load16 at index 3 of bytes 0, 1, 2, ...  ==  int.from_bytes(memory[3:5], "little")  ==  0x0403
"""

import random
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest
from cases import JIT_OFF
from numba import types

from numbatok import _llvm

WORD_BITS = 64
ALL = (1 << WORD_BITS) - 1
EDGE_WORDS = sorted(
    {0, 1, ALL, ALL - 1, ALL >> 1}
    | {1 << bit for bit in range(WORD_BITS)}
    | {(1 << bit) - 1 for bit in range(WORD_BITS)}
    | {ALL ^ (1 << bit) for bit in range(WORD_BITS)}
    | {0x0101010101010101 * byte for byte in (0x01, 0x55, 0x7F, 0x80, 0xAA)}
)
WORDS = EDGE_WORDS + [
    random.Random(7).getrandbits(WORD_BITS) >> (i % WORD_BITS) for i in range(200 if JIT_OFF else 20_000)
]
RECORD = np.dtype([("first", "u8"), ("second", "u8"), ("third", "u8")])

load8, load16, load32, load64 = _llvm.load8, _llvm.load16, _llvm.load32, _llvm.load64
store8, store32, store64 = _llvm.store8, _llvm.store32, _llvm.store64
record_at = _llvm.record_at(RECORD)

# Intrinsics are callable from compiled code only. The wrappers are not kernels of the package, hence njit itself.
LOADS: dict[int, Any] = {
    8: numba.njit(lambda address: load8(address)),
    16: numba.njit(lambda address: load16(address)),
    32: numba.njit(lambda address: load32(address)),
    64: numba.njit(lambda address: load64(address)),
}
STORES: dict[int, Any] = {
    8: numba.njit(lambda address, value: store8(address, value)),
    32: numba.njit(lambda address, value: store32(address, value)),
    64: numba.njit(lambda address, value: store64(address, value)),
}
copy16 = numba.njit(lambda target, source: _llvm.copy16(target, source))
copy = numba.njit(lambda target, source, size: _llvm.copy(target, source, size))
trailing_zeros = numba.njit(lambda word: _llvm.trailing_zeros(word))
leading_zeros = numba.njit(lambda word: _llvm.leading_zeros(word))
count_bits = numba.njit(lambda word: _llvm.count_bits(word))
folded_product = numba.njit(lambda one, other: _llvm.folded_product(one, other))
prefetch = numba.njit(lambda address: _llvm.prefetch(address))
fetch_add = numba.njit(lambda address, value: _llvm.fetch_add(address, value))
exchange = numba.njit(lambda address, value: _llvm.exchange(address, value))
load_shared = numba.njit(lambda address: _llvm.load_shared(address))
store_shared = numba.njit(lambda address, value: _llvm.store_shared(address, value))
minimum16 = numba.njit(lambda address: _llvm.minimum16(address))
minimum64 = numba.njit(lambda address: _llvm.minimum64(address))
match8 = numba.njit(lambda address, key, spread: _llvm.match8(address, key, spread))
in_range_mask = numba.njit(lambda block, low, high: _llvm.in_range_mask(block, low, high))


@numba.njit
def weigh(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any) -> Any:
    """Give a sum that tells the eight arguments apart."""
    return a + np.int64(2) * (b + np.int64(2) * (c + np.int64(2) * (d + np.int64(2) * (e - f + g * h))))


@numba.njit
def call_words(function: Any, words: Any) -> Any:
    """Call a function word."""
    a, b, c, d = words[0], words[1], words[2], words[3]
    return _llvm.call8(np.uint64(function), a, b, c, d, words[4], words[5], words[6], words[7])


@numba.njit
def read_record(address: Any) -> Any:
    """Give the three fields of the record at an address."""
    record = record_at(address)
    return record.first, record.second, record.third


@numba.njit
def swap_record(address: Any) -> None:
    """Write to the record at an address: the outer fields change places, the middle one becomes their sum."""
    record = record_at(address)
    record.second = record.first + record.third
    record.first, record.third = record.third, record.first


class Memory:
    """Random bytes at a known address; ``bytes()`` gives what is there now."""

    def __init__(self, size: int, seed: int = 0) -> None:
        # a line of slack, so that index 0 is at a multiple of 64 and alignments are what they say
        self._array = np.frombuffer(bytearray(random.Random(seed).randbytes(size + 64)), np.uint8)
        self._skip = -self._array.ctypes.data % 64
        self.view = self._array[self._skip : self._skip + size]

    def at(self, index: int) -> np.uint64:
        """Give the address of an index."""
        return np.uint64(self._array.ctypes.data + self._skip + index)

    def bytes(self) -> bytes:
        """Give a copy of all bytes."""
        return self.view.tobytes()


def same_word(found: Any, expected: int) -> bool:
    """Tell whether a result is the expected word: never negative, never a float."""
    return isinstance(found, (int, np.uint64)) and int(found) == expected


@pytest.mark.parametrize("width", LOADS)
def test_loads(width: int) -> None:
    """A load at each alignment gives the little-endian number that stands there, zero-extended."""
    memory, size = Memory(512), width // 8
    for index in range(512 - size + 1):
        expected = int.from_bytes(memory.bytes()[index : index + size], "little")
        assert same_word(LOADS[width](memory.at(index)), expected), index


@pytest.mark.parametrize("width", STORES)
@pytest.mark.parametrize("alignment", range(16))
def test_stores(width: int, alignment: int) -> None:
    """A store at each alignment writes the low bytes of the word and leaves all others alone."""
    size = width // 8
    for word in random.Random(alignment).sample(WORDS, 20):
        memory = Memory(64, seed=alignment)
        expected = bytearray(memory.bytes())
        expected[alignment : alignment + size] = word.to_bytes(8, "little")[:size]
        STORES[width](memory.at(alignment), np.uint64(word))
        assert memory.bytes() == bytes(expected)


@pytest.mark.parametrize("target", range(16))
def test_copy16(target: int) -> None:
    """Sixteen bytes move from and to each alignment, and nothing else changes."""
    for source in range(16):
        memory = Memory(96, seed=source)
        expected = bytearray(memory.bytes())
        expected[48 + target : 64 + target] = expected[source : source + 16]
        copy16(memory.at(48 + target), memory.at(source))
        assert memory.bytes() == bytes(expected)


@pytest.mark.parametrize("size", [*range(70), 127, 128, 129, 1000])
def test_copy(size: int) -> None:
    """Any number of bytes moves between alignments, none included, and nothing else changes."""
    for source, target in ((0, 0), (1, 0), (0, 1), (7, 13), (15, 8)):
        memory = Memory(2 * size + 64, seed=size)
        expected = bytearray(memory.bytes())
        to = size + 16 + target
        expected[to : to + size] = expected[source : source + size]
        copy(memory.at(to), memory.at(source), np.uint64(size))
        assert memory.bytes() == bytes(expected)


BIT_MODELS: dict[str, tuple[Any, Callable[[str], int]]] = {  # of the word as 64 binary digits
    "trailing_zeros": (trailing_zeros, lambda digits: len(digits) - len(digits.rstrip("0"))),
    "leading_zeros": (leading_zeros, lambda digits: len(digits) - len(digits.lstrip("0"))),
    "count_bits": (count_bits, lambda digits: digits.count("1")),
}


@pytest.mark.parametrize("name", BIT_MODELS)
def test_bits(name: str) -> None:
    """Counting bits agrees with counting binary digits; zero has 64 zeros at either end."""
    intrinsic, model = BIT_MODELS[name]
    for word in WORDS:
        assert same_word(intrinsic(np.uint64(word)), model(f"{word:064b}")), hex(word)


def folded(one: int, other: int) -> int:
    """Give the two halves of a product, exclusive-or, by way of its bytes."""
    halves = np.frombuffer((one * other).to_bytes(16, "little"), "<u8")
    return int(halves[0]) ^ int(halves[1])


def word_pairs() -> list[tuple[int, int]]:
    """Give every pair of edge words, as far as there is time, and random pairs of all magnitudes."""
    edges = EDGE_WORDS[:: 7 if JIT_OFF else 1]
    rest = random.Random(8).sample(WORDS, len(WORDS))
    return [(one, other) for one in edges for other in edges] + list(zip(WORDS, rest, strict=True))


def test_folded_product() -> None:
    """High and low word of the product are folded, for words at all edges; the twin agrees in a compiled run, too."""
    for one, other in word_pairs():
        expected = folded(one, other)
        assert same_word(folded_product(np.uint64(one), np.uint64(other)), expected), (hex(one), hex(other))
        assert same_word(_llvm._folded_product(np.uint64(one), np.uint64(other)), expected), (hex(one), hex(other))


def test_folded_product_of_what_shows_a_carry() -> None:
    """Known products: the largest of all, one that fills the high word alone, and one the low word alone."""
    for one, other, expected in ((ALL, ALL, ALL), (1 << 63, 1 << 63, 1 << 62), (1 << 32, 1 << 32, 1), (3, 5, 15)):
        assert same_word(folded_product(np.uint64(one), np.uint64(other)), expected)
        assert same_word(folded_product(np.uint64(other), np.uint64(one)), expected)


def test_in_range_mask_every_byte_and_position() -> None:
    """For many bounds, every byte at every one of the 64 positions is found when it is within them, and only then."""
    edges = [0, 1, 0x09, 0x0D, 0x20, 0x30, 0x39, 0x41, 0x5A, 0x61, 0x7A, 0x7E, 0x7F, 0x80, 0x81, 0xBF, 0xC0, 0xFE, 0xFF]
    bounds = [(low, high) for low in edges for high in edges if low <= high]
    memory = Memory(64 + 256)
    memory.view[:] = np.arange(64 + 256, dtype=np.uint16).astype(np.uint8)
    for low, high in bounds[::12] if JIT_OFF else bounds:
        inside = [low <= byte <= high for byte in range(256)]
        for start in range(256):  # also every alignment: position p holds the byte start + p
            expected = sum(1 << position for position in range(64) if inside[(start + position) % 256])
            assert same_word(in_range_mask(memory.at(start), np.uint64(low), np.uint64(high)), expected), (low, high)


def test_in_range_mask_random_blocks() -> None:
    """Random blocks with random bounds agree with the plain comparison."""
    rng, memory = random.Random(3), Memory(4096)
    for _ in range(200 if JIT_OFF else 10_000):
        low, high = sorted(rng.choices(range(256), k=2))
        start = rng.randrange(4096 - 64)
        expected = sum(1 << i for i, byte in enumerate(memory.bytes()[start : start + 64]) if low <= byte <= high)
        assert same_word(in_range_mask(memory.at(start), np.uint64(low), np.uint64(high)), expected)


@pytest.mark.parametrize(("minimum", "count"), [(minimum16, 16), (minimum64, 64)])
def test_minimum(minimum: Any, count: int) -> None:
    """The least of 16 or 64 numbers is found in every lane and at every alignment, and they are compared unsigned."""
    rng = random.Random(5)
    for alignment in range(16):
        memory = Memory(64 + 4 * count)
        for lane in range(count):
            values = [rng.randrange(0x7FFFFFFF, 0x100000000) for _ in range(count)]
            values[lane] = rng.choice((0, 1, 0x7FFFFFFE))
            source = np.frombuffer(np.array(values, "<u4").tobytes(), np.uint8)
            memory.view[alignment : alignment + 4 * count] = source
            assert same_word(minimum(memory.at(alignment)), values[lane])
    memory.view[: 4 * count] = 0xFF
    assert same_word(minimum(memory.at(0)), 0xFFFFFFFF)


def test_match8() -> None:
    """Each of 8 words is told to be near the key or not, in every place, for every number of low bits left free."""
    rng = random.Random(6)
    for free in (0, 1, 21, 22, 63):
        for pattern in (*range(0, 256, 37), 1, 2, 4, 128, 255):
            memory, key = Memory(128), rng.getrandbits(64)
            words = [
                key ^ rng.getrandbits(free)
                if pattern >> place & 1
                else key ^ (rng.randrange(1, 1 << 64 - free) << free)
                for place in range(8)
            ]
            memory.view[8:72] = np.frombuffer(np.array(words, "<u8").tobytes(), np.uint8)
            found = match8(memory.at(8), np.uint64(key), np.uint64((1 << free) - 1))
            assert same_word(found, pattern)


@pytest.mark.parametrize(("before", "value"), [(0, 1), (41, 0), (ALL, 1), (1 << 63, 1 << 63), (5, ALL), (2**32 - 1, 1)])
def test_fetch_add(before: int, value: int) -> None:
    """The word grows by the value, around 2**64, its neighbours do not change, and the old word comes back."""
    memory = Memory(24)
    expected = bytearray(memory.bytes())
    memory.view[8:16] = np.frombuffer(before.to_bytes(8, "little"), np.uint8)
    expected[8:16] = (before + value & ALL).to_bytes(8, "little")
    assert same_word(fetch_add(memory.at(8), np.uint64(value)), before)
    assert memory.bytes() == bytes(expected)


@pytest.mark.parametrize(("before", "value"), [(0, 1), (ALL, 0), (1 << 63, 5), (3, ALL)])
def test_shared_words(before: int, value: int) -> None:
    """Exchange gives the old word and leaves the new one; shared loads and stores see it; the neighbours stay."""
    words = np.array([7, before, 9], np.uint64)
    address = np.uint64(words.ctypes.data + 8)
    assert same_word(load_shared(address), before)
    assert same_word(exchange(address, np.uint64(value)), before)
    assert same_word(load_shared(address), value)
    store_shared(address, np.uint64(before))
    assert words.tolist() == [7, before, 9]


def test_prefetch_never_faults() -> None:
    """A hint changes nothing and does not fault, even at addresses that belong to nobody."""
    memory = Memory(64)
    before = memory.bytes()
    for address in (memory.at(3), np.uint64(0), np.uint64(ALL)):
        prefetch(address)
    assert memory.bytes() == before


def test_record_read_and_write() -> None:
    """A record at an address is read and written in place, field by field."""
    records = np.zeros(3, RECORD)
    records[1] = (2**64 - 1, 5, 3)
    address = np.uint64(records.ctypes.data + RECORD.itemsize)
    assert tuple(map(int, read_record(address))) == (2**64 - 1, 5, 3)
    swap_record(address)
    assert records[1].tolist() == (3, 2, 2**64 - 1)
    assert (records[0].tolist(), records[2].tolist()) == ((0, 0, 0), (0, 0, 0))


def test_call_of_a_function_word() -> None:
    """A kernel that is called by its word gets its arguments in order, as signed numbers, and gives one."""
    rng = random.Random(8)
    word = _llvm.function_word(weigh, *[types.int64] * 8)
    assert word == _llvm.function_word(weigh, *[types.int64] * 8)
    for _ in range(50):
        values = [rng.choice([0, 1, -1, rng.randrange(-(1 << 20), 1 << 20)]) for _ in range(8)]
        expected = sum(value << place for place, value in enumerate(values[:4])) + (
            (values[4] - values[5] + values[6] * values[7]) << 4
        )
        assert call_words(word, np.array(values, np.int64).view(np.uint64)) == expected


def test_every_intrinsic_is_tested() -> None:
    """Nothing in the module is left out here: each public function is one of those above."""
    public = {name for name, value in vars(_llvm).items() if getattr(value, "__module__", "") == _llvm.__name__}
    tested = {f"load{width}" for width in LOADS} | {f"store{width}" for width in STORES} | set(BIT_MODELS)
    tested |= {
        "copy16",
        "copy",
        "count_bits",
        "function_word",
        "call8",
        "folded_product",
        "prefetch",
        "fetch_add",
        "exchange",
        "load_shared",
        "store_shared",
        "minimum16",
        "minimum64",
        "match8",
        "in_range_mask",
        "record_at",
        "define",
    }
    assert {name for name in public if not name.startswith("_")} == tested
