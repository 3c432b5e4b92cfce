"""The masks of common letters: each marks what its documentation says, all bytes of it, and nothing else anywhere.

Invariant: the ranges below are written down again from the documentation, and held against the pinned class table and
against Python's own. Every code point is tried at several places of a block, up to those whose class a block does not
tell; and blocks of random bytes, where most characters are cut or broken, are read character by character here.

    plain_hangul at a block that holds U+AC00 at byte 5  ->  bits 5, 6 and 7
"""

import functools
import itertools
import random
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pytest
from cases import JIT_OFF

from numbatok._llvm import in_range_mask
from numbatok.split.masks import (
    CLASSIFIED,
    blank_block,
    plain_arabic,
    plain_capitals,
    plain_cjk,
    plain_han,
    plain_hangul,
    plain_kana,
    plain_pairs,
    plain_small,
)
from numbatok.swar import count_inner, is_inner
from numbatok.unicode import CASELESS, LOWER, UPPER, all_classes, load_class_table

POINTS, BLOCK = 0x110000, 64
U1, INNER_FIRST, INNER_LAST = np.uint64(1), np.uint64(0x80), np.uint64(0xBF)
LEAD_C2, LEAD_DF = np.uint64(0xC2), np.uint64(0xDF)
LAST_PLACE = 60
"""Characters that start behind it get no class in a block."""
Masks = npt.NDArray[np.uint64]
Mask = Callable[[Any, Any], Any]


def union(*ranges: tuple[int, int], less: Iterable[int] = ()) -> set[int]:
    """Give the code points of ranges, both ends included."""
    return {point for first, last in ranges for point in range(first, last + 1)} - set(less)


HAN, KANA = union((0x4E00, 0x9F7F)), union((0x3041, 0x3096), (0x30A1, 0x30FA), (0x30FC, 0x30FF))
CAPITALS, SMALL = union((0x400, 0x42F), (0xC0, 0xDE), less=[0xD7]), union((0x430, 0x45F), (0xDF, 0xFF), less=[0xF7])
ARABIC, HANGUL = union((0x620, 0x64A), (0x680, 0x6D3)), union((0xAC00, 0xD77F))


def of_leads(function: Any) -> Mask:
    """Make of a function that chooses among first bytes of two one that marks all bytes."""

    @numba.njit
    def mask(at: Any, inner: Any) -> Any:
        leads = in_range_mask(at, LEAD_C2, LEAD_DF) & (inner >> U1) & CLASSIFIED
        chosen = function(at, leads)
        return chosen | (chosen << U1)

    return mask  # type: ignore[no-any-return]


# Name -> the mask, the code points it is to mark, the class that the split takes them for, their categories.
PLAIN: dict[str, tuple[Mask, set[int], int, set[str]]] = {
    "han": (plain_han, HAN, CASELESS, {"Lo"}),
    "kana": (plain_kana, KANA, CASELESS, {"Lo", "Lm"}),
    "cjk": (plain_cjk, HAN | KANA, CASELESS, {"Lo", "Lm"}),
    "hangul": (plain_hangul, HANGUL, CASELESS, {"Lo"}),
    "arabic": (of_leads(plain_arabic), ARABIC, CASELESS, {"Lo", "Lm"}),
    "capitals": (of_leads(plain_capitals), CAPITALS, UPPER, {"Lu"}),
    "small": (of_leads(plain_small), SMALL, LOWER, {"Ll"}),
    "pairs, capitals": (numba.njit(lambda at, inner: plain_pairs(at, inner)[0]), CAPITALS, UPPER, {"Lu"}),
    "pairs, small": (numba.njit(lambda at, inner: plain_pairs(at, inner)[1]), SMALL, LOWER, {"Ll"}),
    "pairs, caseless": (numba.njit(lambda at, inner: plain_pairs(at, inner)[2]), ARABIC, CASELESS, {"Lo", "Lm"}),
}


@functools.cache
def over(name: str) -> Callable[[npt.NDArray[np.uint8], Masks], None]:
    """Make a loop over many blocks."""
    mask = PLAIN[name][0]

    @numba.njit
    def loop(blocks: Any, out: Any) -> None:
        for row in range(len(blocks)):
            at = np.uint64(blocks[row].ctypes.data)
            out[row] = mask(at, in_range_mask(at, INNER_FIRST, INNER_LAST))

    return loop  # type: ignore[no-any-return]


def masks_of(name: str, blocks: npt.NDArray[np.uint8]) -> Masks:
    """Give the masks of blocks, uint8[rows, at least 64]."""
    out = np.zeros(len(blocks), np.uint64)
    over(name)(blocks, out)
    return out


def encoded(points: Any) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Give code points, surrogates too, as UTF-8: uint8[points, 4], zero behind the last byte, and their widths."""
    data = [chr(point).encode("utf-8", "surrogatepass") for point in points]
    rows = np.frombuffer(b"".join(one.ljust(4, b"\0") for one in data), np.uint8).reshape(-1, 4)
    return rows, np.array([*map(len, data)])


@pytest.fixture(scope="module")
def characters() -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Give all code points, their bytes and widths; with the JIT off some of them."""
    points = np.arange(POINTS)
    if JIT_OFF:
        bounds = [bound(chosen) for chosen in (HANGUL, ARABIC, CAPITALS, SMALL, KANA) for bound in (min, max)]
        edges = {bound + step for bound in bounds for step in (-1, 0, 1)}
        points = np.array(sorted({*edges, *range(0, POINTS, 14_983), 0xD7, 0xF7, 0x640}))
    return points, *encoded(points.tolist())


# ---- every code point ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [0, 7, 29, 58, 59, 60, 61, 62])
@pytest.mark.parametrize("name", PLAIN)
def test_every_code_point(characters: Any, name: str, place: int) -> None:
    """A character is marked on all its bytes if it is one of those documented, and starts early enough."""
    points, data, widths = characters
    blocks = np.full((len(points), BLOCK + 4), ord("a"), np.uint8)
    for byte in range(4):
        here = widths > byte
        blocks[here, place + byte] = data[here, byte]
    found = masks_of(name, blocks)
    chosen = np.isin(points, sorted(PLAIN[name][1])) & (place <= LAST_PLACE)
    expected = np.where(chosen, ((1 << widths) - 1).astype(np.uint64) << np.uint64(place), np.uint64(0))
    wrong = np.flatnonzero(found != expected)
    assert [hex(points[index]) for index in wrong[:5]] == []


@pytest.mark.parametrize("name", PLAIN)
def test_classes_of_what_is_marked(name: str) -> None:
    """What a mask marks is of one class in the pinned table, and of the category that belongs to it."""
    classes, (_, chosen, wanted, categories) = all_classes(load_class_table()), PLAIN[name]
    assert {int(classes[point]) & (UPPER | LOWER | CASELESS) for point in chosen} == {wanted}
    assert {unicodedata.category(chr(point)) for point in chosen} <= categories


# ---- blocks of anything ----------------------------------------------------------------------------------------------


def marks(block: bytes, chosen: set[int]) -> int:
    """Mark the bytes of the characters of a block, read one by one; broken ones are none."""
    mask = 0
    for place in range(LAST_PLACE + 1):
        for width in (2, 3):
            try:
                text = block[place : place + width].decode()
            except UnicodeDecodeError:
                continue
            if len(text) == 1 and ord(text) in chosen:
                mask |= ((1 << width) - 1) << place
    return mask


def random_blocks(rng: random.Random, count: int) -> list[bytes]:
    """Make blocks of letters of all masks and others, of which bytes are then lost, put in or changed."""
    pool = [*"aé×÷ÀßÿЀЯаџѠكـيڀۓ۔ऄ", *"가각힟ힿ퟿一龿龀の゠ー", "\u0600", "\ud77f", "\ud780", "\uabff", "😀", "\u00bf", " "]
    odd = bytes((0x80, 0xBF, 0xC0, 0xC2, 0xC3, 0xD0, 0xD1, 0xD8, 0xDB, 0xDC, 0xE3, 0xEA, 0xED, 0xF0, 0xFF, 0x20))
    blocks = []
    for _ in range(count):
        letters = rng.choice([pool, pool[:8], pool[8:12], pool[12:20], pool[20:26]])
        data = bytearray("".join(rng.choices(letters, k=BLOCK)).encode("utf-8", "surrogatepass"))
        for _ in range(rng.choice([0, 0, 1, 5, 40])):
            place = rng.randrange(BLOCK)
            if rng.random() < 0.5:
                data[place] = rng.choice(odd)
            else:
                data[place : place + rng.randint(0, 1)] = bytes(rng.choices(odd, k=rng.randint(0, 2)))
        start = rng.randrange(4)
        blocks.append(bytes(data[start : start + BLOCK]).ljust(BLOCK, b"\0"))
    return [*blocks, *(bytes(rng.choices(odd, k=BLOCK)) for _ in range(count // 4))]


@pytest.mark.parametrize("name", PLAIN)
def test_broken_text(name: str) -> None:
    """In blocks of cut, broken and misplaced bytes just the whole characters are marked."""
    blocks = random_blocks(random.Random(5), 12 if JIT_OFF else 1_500)
    array = np.frombuffer(b"".join(blocks), np.uint8).reshape(-1, BLOCK)
    for block, found in zip(blocks, masks_of(name, array).tolist(), strict=True):
        assert found == marks(block, PLAIN[name][1]), block


# ---- blanks ----------------------------------------------------------------------------------------------------------

BLANKS, NEWLINES = b" \t\n\v\f\r", b"\n\r"


@numba.njit
def blanks_of(blocks: Any, skipped: Any, newlines: Any) -> None:
    """Write what blank_block gives for many blocks."""
    for row in range(len(blocks)):
        skipped[row], newlines[row] = blank_block(np.uint64(blocks[row].ctypes.data))


def check_blanks(blocks: list[bytes]) -> None:
    """Compare with counting byte by byte."""
    array = np.frombuffer(b"".join(blocks), np.uint8).reshape(-1, BLOCK)
    skipped, newlines = np.zeros(len(blocks), np.uint64), np.zeros(len(blocks), np.uint64)
    blanks_of(array, skipped, newlines)
    for block, found, newline in zip(blocks, skipped.tolist(), newlines.tolist(), strict=True):
        run = block[: len(block) - len(block.lstrip(BLANKS))]
        assert found == len(run), block
        assert newline == max(run.rfind(b"\n"), run.rfind(b"\r")) + 1, block


def test_blanks_of_short_runs() -> None:
    """All runs of up to five bytes of blanks and of what is next to them, before a letter, a blank and a newline."""
    odd = b" \t\n\v\r\x08\x0e\xa0"
    patterns = [bytes(one) for one in itertools.product(odd, repeat=2 if JIT_OFF else 5)]
    for rest in (b"a", b" ", b"\n", b"\x85"):
        check_blanks([pattern + rest * (BLOCK - len(pattern)) for pattern in patterns])


def test_blanks_of_long_runs() -> None:
    """Runs of all lengths up to the whole block, with newlines at each place of them and behind."""
    blocks = []
    for length in range(0, BLOCK + 1, 9 if JIT_OFF else 1):
        for place in range(0, BLOCK, 17 if JIT_OFF else 1):
            block = bytearray(b" " * length + b"x" * (BLOCK - length))
            block[place] = NEWLINES[place % 2]
            blocks.append(bytes(block))
    rng = random.Random(2)
    blocks += [bytes(rng.choices(BLANKS, k=length)) + b"\n" * (BLOCK - length) for length in range(BLOCK + 1)]
    blocks += [bytes([byte]) * BLOCK for byte in range(256)]
    check_blanks(blocks)


# ---- bytes within characters -----------------------------------------------------------------------------------------

inner_at = numba.njit(lambda byte: is_inner(np.uint64(byte)))
inner_between = numba.njit(lambda at, end: count_inner(np.uint64(at), np.uint64(end)))


def test_is_inner() -> None:
    """The bytes 0x80 to 0xBF, and no others."""
    assert [byte for byte in range(256) if inner_at(byte)] == [*range(0x80, 0xC0)]


def test_count_inner() -> None:
    """Every byte in every lane, and random bytes from any address on, of any length."""
    rng = random.Random(3)
    rows = [bytes([byte]) * 8 for byte in range(256)] + [rng.randbytes(80) for _ in range(5 if JIT_OFF else 200)]
    rows += [b"\x80" * 300, b"\xbf" * 300, b"\xc0\x3f" * 100]
    for row in rows:
        array = np.frombuffer(row, np.uint8)
        for first in range(0, min(len(row), 9), 4 if JIT_OFF else 1):
            for last in (*range(first, min(first + 20, len(row) + 1), 7 if JIT_OFF else 1), len(row)):
                found = inner_between(array.ctypes.data + first, array.ctypes.data + last)
                assert found == sum(0x80 <= byte < 0xC0 for byte in row[first:last]), row
