r"""The class table and the UTF-8 step: all 1,114,112 code points and every kind of invalid sequence.

Invariant: the reference for classes is tiktoken (Unicode 16.0) built with one character class as its whole pattern, so
that its ids are the bytes of the characters that match; Python's own `unicodedata` has another version and is never
asked. The reference for widths is Python's strict decoder.

    tiktoken with the pattern \p{N} and "a1b2"  ->  the ids of the bytes "12"
"""

import itertools
from collections.abc import Iterator
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pytest
import tiktoken
from cases import JIT_OFF

from numbatok.unicode import (
    CASELESS,
    HAN,
    LOWER,
    MARK,
    NUMBER,
    PUNCTUATION_OR_SYMBOL,
    SPACE,
    UPPER,
    bytes_before,
    class_of,
    class_step,
    load_class_table,
)

CODE_POINTS = 0x110000
PLANES = range(17)
SURROGATES = range(0xD800, 0xE000)
PATTERNS = {
    UPPER: r"[\p{Lu}\p{Lt}]",
    LOWER: r"\p{Ll}",
    CASELESS: r"[\p{Lm}\p{Lo}]",
    MARK: r"\p{M}",
    NUMBER: r"\p{N}",
    SPACE: r"\s",
    PUNCTUATION_OR_SYMBOL: r"[\p{P}\p{S}]",
    HAN: r"\p{Han}",
}
SINGLE_BYTES = {bytes([byte]): byte for byte in range(256)}
TABLE = load_class_table()
SHARE = 97 if JIT_OFF else 1  # with the JIT off one code point, or sequence, of so many
FOLLOWERS = b"\x00\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0\xc2\xf4\xff"

Bytes = npt.NDArray[np.uint8]


@numba.njit
def steps_at(table: Any, starts: Any, stops: Any, out: Any) -> None:
    """Take one step at each start, with a stop of its own (all are addresses)."""
    for index in range(starts.size):
        out[index] = class_step(table, starts[index], stops[index])


@numba.njit
def words_before(starts: Any, stops: Any, out: Any) -> None:
    """Read the bytes at each start up to its stop."""
    for index in range(starts.size):
        out[index] = bytes_before(starts[index], stops[index])


def steps(text: Bytes, starts: Any, stops: Any) -> Any:
    """Give the step at each start, cut off at its stop (indices into the text)."""
    base, out = np.uint64(text.ctypes.data), np.empty(len(starts), np.uint64)
    steps_at(np.uint64(TABLE.ctypes.data), starts.astype(np.uint64) + base, stops.astype(np.uint64) + base, out)
    return out


def characters(plane: int) -> str:
    """Give all code points of a plane that are characters, as one text."""
    points = (point for point in range(plane << 16, (plane + 1) << 16) if point not in SURROGATES)
    return "".join(map(chr, points))


def table_classes() -> Bytes:
    """Give the class of every code point, read from the two stages of the table."""
    blocks = TABLE[CODE_POINTS >> 8 :].reshape(-1, 256)
    return blocks[TABLE[: CODE_POINTS >> 8]].ravel()


CLASSES = table_classes()


@pytest.mark.parametrize("flag", PATTERNS)
def test_class_of_all_code_points(flag: int) -> None:
    """Every code point has a class flag exactly where tiktoken's regular expressions say so."""
    probe = tiktoken.Encoding("probe", pat_str=PATTERNS[flag], mergeable_ranks=SINGLE_BYTES, special_tokens={})
    found = "".join(bytes(probe.encode_ordinary(characters(plane))).decode() for plane in PLANES)
    expected = np.zeros(CODE_POINTS, bool)
    expected[np.frombuffer(found.encode("utf-32-le"), "<u4")] = True
    np.testing.assert_array_equal(np.flatnonzero(CLASSES & flag), np.flatnonzero(expected))
    assert expected.any()


def test_one_class_each() -> None:
    """The classes exclude each other, Han stands beside one of them, and surrogates have none."""
    assert set(np.unique(CLASSES & ~np.uint8(HAN)).tolist()) == {0, *PATTERNS} - {HAN}
    beside = {CASELESS, MARK, NUMBER, PUNCTUATION_OR_SYMBOL}
    assert set(np.unique(CLASSES[CLASSES >= HAN]).tolist()) == {HAN | one for one in beside}
    assert not CLASSES[SURROGATES.start : SURROGATES.stop].any()


def test_class_of_reads_both_stages() -> None:
    """The one that explains gives what the table holds, from the first code point to the last."""
    for point in range(0, CODE_POINTS, SHARE * 7):
        assert class_of(TABLE, point) == CLASSES[point]
    assert class_of(TABLE, CODE_POINTS - 1) == CLASSES[-1]


@pytest.mark.parametrize("plane", PLANES)
def test_step_at_all_characters(plane: int) -> None:
    """The UTF-8 of every character gives its width and class, in the middle of a text and at its end; cut, width 0."""
    chosen = characters(plane)[::SHARE]
    points = np.frombuffer(chosen.encode("utf-32-le"), "<u4")
    text = np.frombuffer(chosen.encode(), np.uint8)
    widths = 1 + (points > 0x7F) + (points > 0x7FF) + (points > 0xFFFF)
    ends = np.cumsum(widths)
    starts = ends - widths
    assert ends[-1] == len(text)
    expected = (widths << 8 | CLASSES[points]).astype(np.uint64)
    np.testing.assert_array_equal(steps(text, starts, np.full_like(starts, len(text))), expected)
    np.testing.assert_array_equal(steps(text, starts, ends), expected)
    for kept in (1, 2, 3):
        cut = widths > kept
        assert not steps(text, starts[cut], starts[cut] + kept).any()


def width_of_first(sequence: bytes) -> int:
    """Give the width of the character that a sequence begins with by Python's decoder; 0 if it begins with none."""
    for width in range(1, min(len(sequence), 4) + 1):
        try:
            sequence[:width].decode()
        except UnicodeDecodeError:
            continue
        return width
    return 0


def sequences_of_two() -> Iterator[bytes]:
    """Every two bytes."""
    return (bytes(pair) for pair in itertools.product(range(256), repeat=2))


def sequences_of_three() -> Iterator[bytes]:
    """Every three bytes of which the first opens three; the others open less or more, and stand among two and four."""
    return (bytes(three) for three in itertools.product(range(0xE0, 0xF0), range(256), range(256)))


def sequences_of_four() -> Iterator[bytes]:
    """Four bytes of which the first opens four or nothing: every second one, and those at edges behind it."""
    return (bytes(four) for four in itertools.product(range(0xF0, 0x100), range(256), FOLLOWERS, FOLLOWERS))


SEQUENCES = {2: sequences_of_two, 3: sequences_of_three, 4: sequences_of_four}


@pytest.mark.parametrize(("size", "behind"), [(2, b""), (2, b"\x80"), (2, b"a"), (3, b""), (4, b"")])
def test_step_at_any_bytes(size: int, behind: bytes) -> None:
    """Bytes of every kind have the width of Python's decoder: 0 for overlong, surrogate, too high, cut or stray."""
    chosen = [sequence + behind for sequence in itertools.islice(SEQUENCES[size](), 0, None, SHARE)]
    expected = np.array([width_of_first(sequence) for sequence in chosen])
    text = np.frombuffer(b"".join(chosen), np.uint8)
    starts = np.arange(len(chosen)) * (size + len(behind))
    found = steps(text, starts, starts + size + len(behind))
    np.testing.assert_array_equal(found >> np.uint64(8), expected)
    assert not found[expected == 0].any()
    assert expected.any()
    assert not expected.all()


def test_bytes_before() -> None:
    """Up to four bytes are read, never one at or past the stop."""
    text = np.frombuffer(bytes(range(0x81, 0x91)), np.uint8)
    base = np.uint64(text.ctypes.data)
    starts, stops = np.array([(start, stop) for start in range(16) for stop in range(start + 1, 17)], np.uint64).T
    out = np.empty(len(starts), np.uint64)
    words_before(starts + base, stops + base, out)
    kept = [text[start : min(stop, start + 4)].tobytes() for start, stop in zip(starts, stops, strict=True)]
    assert [int(word) for word in out] == [int.from_bytes(part, "little") for part in kept]
