r"""The GPT-2 split against tiktoken and the pattern: each code point, each short tuple, each place in a block.

Invariant: both scanners (:func:`next_end`, one piece a step, and :func:`fill_ends`, a 64-byte block at once) give the
pieces of the pattern, wherever a character stands. A text of less than 68 bytes is split by steps alone, so every case
is also tried inside of a longer text. (Lengths, alignments and guard pages: test_roundtrip.py.)

    >>> check_split(["don't", "a  b"]).tolist()
    [3, 5, 6, 7, 9]

Ids are compared with tiktoken (Unicode 16.0); boundaries, which ids may hide, with the oracle where that knows the
same Unicode.
"""

import functools
import itertools
import random
from collections.abc import Iterable, Iterator

import numba
import numpy as np
import numpy.typing as npt
import oracle
import pytest
import tiktoken
from cases import JIT_OFF, REPRESENTATIVES
from toys import GPT2, first_disagreement, split_model

import numbatok
from numbatok.bpe import Model
from numbatok.split.scan import fill_ends, next_end
from numbatok.table import tables_at
from numbatok.unicode import LETTER_FLAGS, NUMBER_FLAG, SPACE_FLAG, class_of, load_class_table

CLASSES = load_class_table()
STRIDE = 509 if JIT_OFF else 1  # with the JIT off one code point of 509, with all widths among them
CODE_POINTS = [chr(point) for point in itertools.chain(range(0xD800), range(0xE000, 0x110000))][::STRIDE]
COMPARABLE = [character for character in CODE_POINTS if oracle.comparable(character)]

PADDINGS = (*range(4), *range(52, 70))  # letters before a case: it starts and ends around the end of the 64-byte block
LETTERS, WORDS = "x" * 70, "an old " * 10
TAIL = "xy zzz, " * 10


@functools.cache
def gpt2_model() -> Model:
    """Give a model with the split and no merges (not at import: plain Python kernels warn of wrapping words)."""
    return split_model(GPT2)


# ---- the two scanners ------------------------------------------------------------------------------------------------


@numba.njit(nogil=True)
def by_blocks(table, base, offsets, ends):
    """Write the piece ends of all rows by fill_ends; gives their number. ``ends`` is the address of enough words."""
    count = 0
    for row in range(len(offsets) - 1):
        at, stop = np.uint64(base + offsets[row]), np.uint64(base + offsets[row + 1])
        count += np.int64(fill_ends(tables_at(np.uint64(table)), at, stop, np.uint64(ends + 8 * count), stop - at))
    return count


@numba.njit(nogil=True)
def by_steps(table, base, offsets, ends):
    """Write the piece ends of all rows by next_end, from each boundary to the next one; gives their number."""
    count = 0
    for row in range(len(offsets) - 1):
        at, stop = np.uint64(base + offsets[row]), np.uint64(base + offsets[row + 1])
        while at < stop:
            end = next_end(tables_at(np.uint64(table)), at, stop)
            if end == at:
                break
            ends[count] = end
            count += 1
            at = end
    return count


def check_split(rows: Iterable[str | bytes]) -> npt.NDArray[np.int64]:
    """Assert that both scanners give the same pieces of each row; gives their ends as indices into the joined rows."""
    parts = [row if isinstance(row, bytes) else row.encode() for row in rows]
    text = np.frombuffer(b"".join(parts), np.uint8)
    offsets = np.cumsum([0, *map(len, parts)], dtype=np.int64)
    blocks, steps = np.empty(len(text) + 64, np.uint64), np.empty(len(text) + 64, np.uint64)
    blocks = blocks[: by_blocks(gpt2_model().address, text.ctypes.data, offsets, blocks.ctypes.data)]
    steps = steps[: by_steps(gpt2_model().address, text.ctypes.data, offsets, steps)]
    ends = (blocks - np.uint64(text.ctypes.data)).astype(np.int64)
    if not np.array_equal(blocks, steps):
        place = int(np.setxor1d(blocks, steps)[0]) - text.ctypes.data
        pytest.fail(
            f"one scanner cuts at {place} of {text[max(place - 70, 0) : place + 70].tobytes()!r} and one does not"
        )
    return ends


def check_pieces(rows: list[str]) -> None:
    """Assert that the pieces are those of the regular expression."""
    sizes = [len(piece.encode()) for row in rows for piece in oracle.split(row)]
    found, expected = check_split(rows), np.cumsum(sizes, dtype=np.int64)
    if not np.array_equal(found, expected):
        index = int(np.setxor1d(found, expected)[0])
        near = "".join(rows).encode()[max(index - 70, 0) : index + 70]
        pytest.fail(f"only one of split and oracle cuts at index {index}, near {near!r}")


def check_ids(enc: numbatok.Encoding, reference: tiktoken.Encoding, rows: list[str]) -> None:
    """Assert that every row has tiktoken's ids."""
    expected = [reference.encode_ordinary(row) for row in rows]
    found = enc.encode_batch_flat(rows, threads=1)
    flat = np.fromiter(itertools.chain.from_iterable(expected), np.uint32)
    if not np.array_equal(found.tokens, flat):
        common = min(len(flat), len(found.tokens))
        index = int(np.append(found.tokens[:common] != flat[:common], True).argmax())
        near = [enc.decode_bytes(ids[max(index - 8, 0) : index + 8]) for ids in (flat, found.tokens)]
        pytest.fail(f"ids differ from number {index} on: tiktoken has {near[0]!r}, numbatok {near[1]!r}")
    assert found.offsets.tolist() == list(itertools.accumulate(map(len, expected), initial=0))


# ---- all code points -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pattern", "flags"), [(r"\p{L}", LETTER_FLAGS), (r"\p{N}", NUMBER_FLAG), (r"\s", SPACE_FLAG)])
def test_classes_are_those_of_tiktoken(pattern: str, flags: np.uint64) -> None:
    """Each of the 1,114,112 code points (without surrogates) is letter, number or space exactly where tiktoken's is."""
    single_bytes = {bytes([value]): value for value in range(256)}
    # tiktoken drops what its pattern does not match, so the ids that remain are the bytes of the class
    reference = tiktoken.Encoding("class", pat_str=pattern, mergeable_ranks=single_bytes, special_tokens={})
    members = bytes(reference.encode_ordinary("".join(CODE_POINTS))).decode()
    assert members == "".join(one for one in CODE_POINTS if class_of(CLASSES, ord(one)) & flags)


CONTEXTS = [("a", "b"), (" ", "."), ("  ", "a"), ("1", " "), ("'", "s"), ("\n", "\n"), ("!", "'")]


@pytest.mark.parametrize(("before", "behind"), CONTEXTS)
def test_code_points_within_a_long_text(
    enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, before: str, behind: str
) -> None:
    """All code points in one text, each in the same surroundings: tiktoken's ids, and the pieces of the pattern."""
    check_ids(enc, oracle_encoding, ["".join(before + one + behind for one in CODE_POINTS)])
    check_split(["".join(before + one + behind for one in CODE_POINTS)])
    check_pieces(["".join(before + one + behind for one in COMPARABLE)])


@pytest.mark.parametrize(("before", "behind"), [("", ""), (" ", ""), ("  ", "a")])
def test_code_points_in_short_rows(
    enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, before: str, behind: str
) -> None:
    """Each code point as a text of its own, alone and next to a space, at the start and at the end of the text."""
    check_ids(enc, oracle_encoding, [before + one + behind for one in CODE_POINTS])
    check_pieces([before + one + behind for one in COMPARABLE])


@pytest.mark.parametrize("filler", [LETTERS, WORDS], ids=["letters", "words"])
def test_code_points_across_block_ends(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, filler: str) -> None:
    """Each code point with 55 to 68 bytes before it: the scanners agree; tiktoken has the ids of one of the lengths."""
    for number, first in enumerate(range(0, len(CODE_POINTS), 1 << 16)):
        some = CODE_POINTS[first : first + (1 << 16)]
        for padding in range(55, 69):
            check_split([(" " + filler[:padding]).join(some)])
        if filler is LETTERS:
            check_ids(enc, oracle_encoding, [(" " + filler[: 55 + number % 14]).join(some)])


# ---- tuples of representatives ---------------------------------------------------------------------------------------


def tuples(length: int, most: int | None = None, characters: Iterable[str] = REPRESENTATIVES) -> list[str]:
    """List all tuples of a length, or ``most`` of them spread evenly."""
    every = ["".join(one) for one in itertools.product(characters, repeat=length)]
    return every[:: max(len(every) // (most or len(every)), 1)]


def parts(rows: Iterable[str], size: int = 250_000) -> Iterator[list[str]]:
    """Give the rows in lists of a size that memory holds easily."""
    rows = iter(rows)
    return iter(lambda: list(itertools.islice(rows, size)), [])


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_tuples_as_texts(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, length: int) -> None:
    """Every tuple of one to four representatives as a text: 30, 900, 27,000 and 810,000."""
    rows = tuples(length, 1_000 if JIT_OFF else None)
    assert JIT_OFF or len(rows) == 30**length
    check_ids(enc, oracle_encoding, rows)
    check_pieces(rows)


@pytest.mark.parametrize("separator", ["x", " ", "words of a text ", "\n\n"])
def test_tuples_within_a_long_text(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, separator: str) -> None:
    """Every tuple of three, and of four, in one text: the tuples drift over all places of a block."""
    for length in (3, 4):
        text = separator.join(tuples(length, 500 if JIT_OFF else None))
        check_ids(enc, oracle_encoding, [text])
        check_pieces([text])


@pytest.mark.parametrize("filler", [LETTERS, WORDS], ids=["letters", "words"])
def test_tuples_across_block_ends(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, filler: str) -> None:
    """Every tuple of one to three at the first places of a block and at those around its end, in a longer text."""
    for padding in PADDINGS:
        for length in (1, 2, 3):
            rows = [filler[:padding] + one + TAIL for one in tuples(length, 5 if JIT_OFF else None)]
            check_split(rows)
            if length < 3:
                check_pieces(rows)
                check_ids(enc, oracle_encoding, rows)


@pytest.mark.parametrize("around", [("", ""), ("x ", TAIL), (WORDS[:58], TAIL)], ids=["alone", "start", "end"])
def test_contractions(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, around: tuple[str, str]) -> None:
    """Every text of an apostrophe and up to four of the characters that contractions are made of."""
    ends = [end for length in range(5) for end in tuples(length, 20 if JIT_OFF else None, "'stmdlvreS 1")]
    rows = [around[0] + "'" + end + around[1] for end in ends]
    check_ids(enc, oracle_encoding, rows)
    check_pieces(rows)


# ---- the long campaign -----------------------------------------------------------------------------------------------


@pytest.mark.campaign
def test_campaign_five(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding) -> None:
    """All 24,300,000 tuples of five as texts, against tiktoken and against the pattern."""
    done = 0
    for rows in parts(map("".join, itertools.product(REPRESENTATIVES, repeat=5))):
        check_ids(enc, oracle_encoding, rows)
        check_pieces(rows)
        done += len(rows)
    assert done == 24_300_000


@pytest.mark.campaign
def test_campaign_six_against_the_pattern(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding) -> None:
    """All 2,985,984 tuples of six of twelve representatives as texts."""
    done = 0
    for rows in parts(map("".join, itertools.product("asl中9' \n\u00a0!\u0301😀", repeat=6))):
        check_ids(enc, oracle_encoding, rows)
        check_pieces(rows)
        done += len(rows)
    assert done == 12**6


@pytest.mark.campaign
@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6])
def test_campaign_six_by_both_scanners(length: int) -> None:
    """All 729,000,000 tuples of six (and all shorter ones) at the start of a long text: the scanners agree."""
    widths = np.array([len(one.encode()) for one in REPRESENTATIVES])
    units = np.array([list(one.encode().ljust(4)) for one in REPRESENTATIVES], np.uint8)
    text = np.frombuffer(b" " * 32 + TAIL.encode(), np.uint8).copy()
    assert first_disagreement(gpt2_model().address, units, widths, text, text.ctypes.data, length) == -1


@pytest.mark.campaign
def test_campaign_random(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding) -> None:
    """One million texts of 1 to 120 representatives, single or in runs."""
    rng = random.Random(6)
    units = [one * times for one in REPRESENTATIVES for times in (1, 1, 1, 2, 3, 8)]
    for _ in range(20):
        rows = ["".join(rng.choices(units, k=rng.randint(1, 80))) for _ in range(50_000)]
        check_ids(enc, oracle_encoding, rows)
        check_pieces(rows)
