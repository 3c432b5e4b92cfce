"""Byte classes in words, exhaustively: every byte in every lane, every pair of neighbours, all bounds within ASCII.

Invariant: the expected flags come from comparing single bytes in NumPy, which knows no carries. With the JIT off a
random part of the words is tried, as each call costs microseconds there.

    swar.digits(b"a1b22c!9" as a word)  ->  0x80 in lanes 1, 3, 4 and 7
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pytest
from cases import JIT_OFF

from numbatok import _llvm, swar

Words = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]
WORDS_WITHOUT_JIT = 500


def over(function: Any) -> Callable[[Words], Any]:
    """Make a loop over many words, compiled, of a function of one word."""

    @numba.njit
    def loop(words: Words, out: Any) -> None:
        for index in range(words.size):
            out[index] = function(words[index])

    def run(words: Words) -> Any:
        out = np.empty(words.size, np.uint64)
        loop(words, out)
        return out

    return run


@numba.njit
def loop_in_range(words: Words, low: Any, high: Any, out: Any) -> None:
    """Flag many words with the same bounds."""
    for index in range(words.size):
        out[index] = swar.in_range(words[index], low, high)


@numba.njit
def both_masks(block: Any, low: Any, high: Any) -> Any:
    """Give the mask of a block in both forms."""
    return swar.block_mask(block, low, high), _llvm.in_range_mask(block, low, high)


# Name -> what it says of a byte, plainly.
CLASSES: dict[str, Callable[[Bytes], Any]] = {
    "lower": lambda lanes: (lanes >= ord("a")) & (lanes <= ord("z")),
    "upper": lambda lanes: (lanes >= ord("A")) & (lanes <= ord("Z")),
    "letters": lambda lanes: np.isin(
        lanes, np.frombuffer(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "u1")
    ),
    "digits": lambda lanes: np.isin(lanes, np.frombuffer(b"0123456789", "u1")),
}
FUNCTIONS = {name: over(getattr(swar, name)) for name in ("lower", "upper", "letters", "digits")}
all_equal, prefix_length, gather = over(swar.all_equal), over(swar.prefix_length), over(swar.gather)


def as_words(lanes: Bytes) -> Words:
    """Give rows of eight bytes as words, the first byte lowest; with the JIT off a random part of them."""
    words = np.ascontiguousarray(lanes, np.uint8).view("<u8").ravel().astype(np.uint64)
    if JIT_OFF and words.size > WORDS_WITHOUT_JIT:
        words = np.random.default_rng(1).choice(words, WORDS_WITHOUT_JIT)
    return words


def as_lanes(words: Words) -> Bytes:
    """Give words as rows of eight bytes, the lowest first."""
    return words.astype("<u8").view(np.uint8).reshape(-1, 8)


def flags_of(members: Any) -> Any:
    """Give the flag word of each row of eight truths: 0x80 for true, 0x00 for false."""
    return (np.asarray(members).astype(np.uint8) << 7).view("<u8").ravel()


def single_bytes() -> Bytes:
    """Every byte in every lane: each row holds eight of them, in another order from row to row."""
    return ((np.arange(256)[:, None] + 31 * np.arange(8)) % 256).astype(np.uint8)


def neighbour_pairs() -> Bytes:
    """Every pair of bytes in every two neighbouring lanes, on grounds that swallow, pass on or start a carry."""
    pairs = np.indices((256, 256)).reshape(2, -1).T.astype(np.uint8)
    rows = []
    for ground in (0x00, 0x7F, 0xFF):
        for lane in range(7):
            row = np.full((len(pairs), 8), ground, np.uint8)
            row[:, lane : lane + 2] = pairs
            rows.append(row)
    return np.concatenate(rows)


def random_bytes() -> Bytes:
    """Random rows: of all bytes, of ASCII, and of the bytes at the edges of the classes."""
    rng = np.random.default_rng(2)
    edges = np.frombuffer(b"/09:@AZ[`az{\x00\x7f\x80\xff\x20\xc1\xda\xe1\xfa\xb0\xb9", np.uint8)
    return np.concatenate(
        [rng.integers(0, 256, (50_000, 8)), rng.integers(0, 128, (50_000, 8)), rng.choice(edges, (50_000, 8))]
    ).astype(np.uint8)


INPUTS = {"single bytes": single_bytes, "neighbour pairs": neighbour_pairs, "random": random_bytes}


@pytest.mark.parametrize("make", INPUTS.values(), ids=INPUTS)
@pytest.mark.parametrize("name", CLASSES)
def test_classes(name: str, make: Callable[[], Bytes]) -> None:
    """Each class flags exactly its bytes, in every lane, whatever the neighbours."""
    words = as_words(make())
    np.testing.assert_array_equal(FUNCTIONS[name](words), flags_of(CLASSES[name](as_lanes(words))))


def test_in_range_all_bounds() -> None:
    """For all 8,256 pairs of ASCII bounds, every byte in every lane is flagged when it is within them, only then."""
    words = as_words(single_bytes())
    lanes, out = as_lanes(words), np.empty(words.size, np.uint64)
    bounds = [(low, high) for low in range(128) for high in range(low, 128)]
    for low, high in bounds[::500] if JIT_OFF else bounds:
        loop_in_range(words, np.uint64(low), np.uint64(high), out)
        np.testing.assert_array_equal(out, flags_of((lanes >= low) & (lanes <= high)), f"{low}..{high}")


@pytest.mark.parametrize("bounds", [(0, 0), (0, 127), (127, 127), (1, 126), (32, 32), (9, 13)])
def test_in_range_carries(bounds: tuple[int, int]) -> None:
    """Bounds at the ends of ASCII let no carry pass from one byte to the next."""
    words = as_words(neighbour_pairs())
    lanes, out = as_lanes(words), np.empty(words.size, np.uint64)
    loop_in_range(words, np.uint64(bounds[0]), np.uint64(bounds[1]), out)
    np.testing.assert_array_equal(out, flags_of((lanes >= bounds[0]) & (lanes <= bounds[1])))


def test_all_equal() -> None:
    """Eight equal bytes are recognised, for each byte, and one other byte in any lane is too."""
    same = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 8, axis=1)
    changed = np.concatenate([same ^ (np.arange(8) == lane) * np.uint8(1 << lane) for lane in range(8)]).astype(
        np.uint8
    )
    for lanes in (same, changed, random_bytes()):
        words = as_words(lanes)
        np.testing.assert_array_equal(all_equal(words), (as_lanes(words) == as_lanes(words)[:, :1]).all(axis=1))


def test_flags() -> None:
    """Of all 256 flag words, the bits are gathered in the order of the bytes and the flagged prefix is counted."""
    members = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    words = flags_of(members).astype(np.uint64)
    np.testing.assert_array_equal(gather(words), np.arange(256))
    np.testing.assert_array_equal(prefix_length(words), np.cumprod(members, axis=1).sum(axis=1))


def test_block_mask_is_in_range_mask() -> None:
    """The portable mask of a block and the vector compare agree with each other and with the bytes."""
    rng = np.random.default_rng(4)
    text = rng.integers(0, 256, 4096).astype(np.uint8)
    text[2048:] &= 0x7F
    bounds = [(low, high) for low in range(0, 128, 7) for high in range(low, 128, 5)] + [(0, 127), (127, 127), (0, 0)]
    for low, high in bounds[::40] if JIT_OFF else bounds:
        for start in rng.integers(0, 4096 - 64, 3 if JIT_OFF else 50).tolist():
            block = text[start : start + 64]
            expected = int(np.packbits((block >= low) & (block <= high), bitorder="little").view("<u8")[0])
            masks = both_masks(np.uint64(block.ctypes.data), np.uint64(low), np.uint64(high))
            assert tuple(map(int, masks)) == (expected, expected), (low, high, start)
