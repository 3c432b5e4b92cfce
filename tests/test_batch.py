"""Batches: the same ids for every number of threads and every size of chunk, and the safe cuts that make it so.

Invariant: a batch gives, row by row, the ids of the single texts, whatever their number, their sizes, the chunks they
fall into, the lanes that take them and the scratch memory that a piece needs.

    check(enc, ["a b", "", "c" * 100_000], chunk=1)

Run as a script this file compares batches in as many lanes as NUMBA_NUM_THREADS says, also on a machine with fewer
cores: the number is fixed when a process starts, so the tests start a process for it.
"""

import itertools
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numba
import numpy as np
import numpy.typing as npt
import pytest
import tiktoken
from cases import JIT_OFF, PATHOLOGICAL, REPRESENTATIVES

import numbatok
from numbatok import batch, chunks, worker
from numbatok.split.cuts import find_cut, is_cut
from numbatok.split.patterns import GPT2_PATTERNS

DATA = Path(__file__).parent / "data"
CHUNKS = (1, 16, 300) if JIT_OFF else (1, 2, 3, 7, 16, 61, 300, 4096)
THREADS = (1, 2, 3, 4, 7)
Rows = Sequence[str | bytes]


@pytest.fixture(autouse=True)
def _not_seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the JIT off leave new caches empty: entering the vocabulary takes seconds there, for every worker."""
    if JIT_OFF:
        monkeypatch.setattr(worker, "UNSEEDED", 0)


def use_chunks(patch: pytest.MonkeyPatch, size: int) -> None:
    """Cut every batch that is not empty into chunks of about ``size`` bytes, whose ids go into few and small slices."""
    patch.setattr(batch, "PARALLEL_BYTES", 1)
    patch.setattr(batch, "SLICES_PER_LANE", 2)
    patch.setattr(batch, "LARGEST_SLICE", 3 * size)
    patch.setattr(chunks, "CHUNK_BYTES", size)
    patch.setattr(chunks, "LEAST_CHUNK_BYTES", size)


def fresh(enc: numbatok.Encoding) -> numbatok.Encoding:
    """Give an encoding with the same tables and no workers yet."""
    return numbatok.Encoding._from_model("fresh", GPT2_PATTERNS[0], enc._model)


def check(enc: numbatok.Encoding, rows: Rows, threads: Sequence[int] = (1, 2)) -> None:
    """Assert that a batch gives the ids of its rows, and counts them."""
    expected = [enc.encode_ordinary(row) for row in rows]
    tokens = list(itertools.chain.from_iterable(expected))
    offsets = list(itertools.accumulate(map(len, expected), initial=0))
    for number in threads:
        found = enc.encode_batch_flat(rows, threads=number)
        assert found.tokens.tolist() == tokens
        assert found.offsets.tolist() == offsets
        assert (found.tokens.dtype, found.offsets.dtype) == (np.uint32, np.int64)
        assert enc.count_batch(rows, threads=number).tolist() == [len(row) for row in expected]


# ---- rows and chunks of all sizes ------------------------------------------------------------------------------------


def prose(size: int) -> str:
    """Give the first characters of a play."""
    return (DATA / "shakespeare.txt").read_bytes().decode()[:size]


def batches() -> dict[str, Rows]:
    """Give batches by name: rows empty, tiny, giant, many, of blanks, and without a safe cut."""
    size = 200 if JIT_OFF else 1_500
    giant = prose(4 * size)
    return {
        "nothing": [],
        "one empty row": [""],
        "empty rows": [""] * 50,
        "tiny rows": list("a b\n\n'é中1") * 8,
        "many rows": prose(2 * size).splitlines(keepends=True),
        "giant row": [giant],
        "giant row between": ["", "a", giant, "", "b\n", giant[::-1], ""],
        "blank rows": [" ", "\n", "\n\n", "  ", " \n", "\n \n", "\t", "\u00a0\u3000", "\r\n\r\n"] * 3,
        "giant blank row": ["a", " " * size, "\n" * size, "b"],
        "no safe cut": [PATHOLOGICAL[name](size // 4) for name in ("letters", "apostrophes", "han", "marks", "zeros")],
        "all tuples": ["".join(pair) for pair in itertools.product(REPRESENTATIVES, repeat=2)][:: 25 if JIT_OFF else 1],
        "languages": [(DATA / "languages.txt").read_bytes().decode()[: 2 * size]],
        "bytes": [b"one", b"", giant.encode(), bytearray(b"two"), "three", "vi\u00e9r"],
    }


@pytest.mark.parametrize("size", CHUNKS)
@pytest.mark.parametrize("name", batches())
def test_chunks_of_every_size(enc: numbatok.Encoding, monkeypatch: pytest.MonkeyPatch, name: str, size: int) -> None:
    """Chunks from one byte up change nothing."""
    use_chunks(monkeypatch, size)
    check(enc, batches()[name])


@pytest.mark.parametrize("threads", THREADS)
def test_threads(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, threads: int) -> None:
    """With the real sizes of chunks a batch above the parallel limit has tiktoken's ids for any number of threads."""
    text = prose(500 if JIT_OFF else 100_000)
    rows = [text * 12, *text.splitlines(), "", text * 3]
    assert JIT_OFF or sum(map(len, rows)) > 4 * batch.PARALLEL_BYTES
    expected = [oracle_encoding.encode_ordinary(row) for row in rows]
    found = enc.encode_batch_flat(rows, threads=threads)
    assert [row.tolist() for row in found.rows()] == expected
    assert enc.encode_ordinary_batch(rows, num_threads=threads) == expected


def random_batches(count: int) -> Iterator[list[str]]:
    """Give batches of random rows of random sizes."""
    rng = random.Random(41)
    units = [*REPRESENTATIVES, "word", " the", "1024", "\n\n", "a,b", "中文。", "x" * 90]
    for _ in range(count):
        sizes = rng.choices([0, 1, 5, 40, 200], k=rng.randint(1, 12))
        yield ["".join(rng.choices(units, k=size)) for size in sizes]


ONES = [
    "",
    "a",
    "some words \u00e9 \u4e2d",
    "\ud800 half",
    b"",
    b"abc",
    b"\xff ab",
    b"caf\xc3\xa9",
    "x" * 70_000,
    "\u00e9" * 65_537,
]


@pytest.mark.parametrize("text", ONES[:-2] if JIT_OFF else ONES, ids=range(len(ONES) - 2 * JIT_OFF))
def test_batches_of_one(enc: numbatok.Encoding, text: str | bytes) -> None:
    """A batch of one text, which may take the way of one text, is as the first row of a batch of two."""
    for threads in (None, 1, 2):
        one, two = (enc.encode_batch_flat(texts, threads=threads) for texts in (iter([text]), [text, "x"]))
        assert one.tokens.tolist() == two.row(0).tolist()
        assert one.offsets.tolist() == two.offsets[:2].tolist()
        assert (one.tokens.dtype, one.offsets.dtype) == (np.uint32, np.int64)
    for threads, error in ((0, ValueError), ("2", TypeError)):
        with pytest.raises(error, match="threads"):
            enc.encode_batch_flat([text], threads=threads)  # type: ignore[arg-type]


def test_random_batches(enc: numbatok.Encoding, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random rows in chunks of random sizes."""
    rng = random.Random(42)
    for rows in random_batches(4 if JIT_OFF else 300):
        use_chunks(monkeypatch, rng.choice(CHUNKS))
        check(enc, rows)


@pytest.mark.skipif(JIT_OFF, reason="without compiled code there is one lane")
def test_more_lanes_than_cores() -> None:
    """Seven lanes give the same, on a machine of any number of cores."""
    environment = os.environ | {"NUMBA_NUM_THREADS": "7"}
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "7 lanes\n"


def run_lanes() -> None:
    """Compare batches on 1, 2, 3, 4 and 7 threads; the script behind the test above."""
    enc = numbatok.get_encoding("gpt2")
    some = [batches()[name] for name in ("giant row between", "many rows", "tiny rows", "no safe cut")]
    with pytest.MonkeyPatch.context() as patch:
        for size, rows in itertools.product((1, 16, 300), [*some, *random_batches(40)]):
            use_chunks(patch, size)
            check(enc, rows, THREADS)
    print(batch.lane_count(None), "lanes")


# ---- rows that need more than the usual ------------------------------------------------------------------------------


def broken_rows() -> list[str | bytes]:
    """Give rows of which some are not UTF-8, at their start, in the middle and at the end."""
    return ["fine", b"a\xff", "", b"\x80", prose(700), b"one \xe4\xb8", b"two\n\n \xc3 three", b"\xed\xa0\x80x", "  "]


@pytest.mark.parametrize("size", [1, 16, 300])
def test_rows_that_are_not_utf8(
    enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """In a batch that holds invalid bytes every row has the ids that it has alone, which are tiktoken's."""
    use_chunks(monkeypatch, size)
    rows = broken_rows()
    check(enc, rows)
    expected = [oracle_encoding._encode_bytes(row if isinstance(row, bytes) else row.encode()) for row in rows]
    assert enc.encode_ordinary_batch(rows, num_threads=2) == expected


LONG_PIECES = ["letters", "one long word", "han", "spaces, word", "base64", "carets"]


@pytest.mark.parametrize("size", [16, 4096, 1 << 16])
@pytest.mark.parametrize("name", LONG_PIECES)
def test_pieces_longer_than_the_scratch(
    enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, monkeypatch: pytest.MonkeyPatch, name: str, size: int
) -> None:
    """Pieces that a worker's scratch cannot merge, in the middle of rows: serial, parallel and counted, repeatedly."""
    monkeypatch.setattr(worker, "SCRATCH_BYTES", 4096)
    piece = PATHOLOGICAL[name](200 if JIT_OFF else 700)
    rows = ["start " + piece, piece, "", "mid dle " + piece + " end " + piece * 2 + "\n", "short", piece + "\n\n"] * 2
    expected = [oracle_encoding.encode_ordinary(row) for row in rows]
    small = fresh(enc)
    assert [fresh(enc).encode_ordinary(row) for row in rows] == expected
    assert [fresh(enc).count(row) for row in rows] == [len(row) for row in expected]
    use_chunks(monkeypatch, size)
    for threads in (2, 1, 2):
        for each in (small, fresh(enc)):
            assert each.count_batch(rows, threads=threads).tolist() == [len(row) for row in expected]
            assert each.encode_ordinary_batch(rows, num_threads=threads) == expected


def test_scratch_is_small_enough_to_matter(enc: numbatok.Encoding, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the small scratch a worker does have to grow it for these pieces."""
    monkeypatch.setattr(worker, "SCRATCH_BYTES", 4096)
    small = worker.Worker(enc._model)
    before = int(small.record["scratch_size"][0])
    small.grow_scratch(700)
    assert before == 4096 < int(small.record["scratch_size"][0])


# ---- safe cuts -------------------------------------------------------------------------------------------------------

CUT_ALPHABET = [
    *"aAbzZ019 '  \n\r\t.,/!<_é\u017f中の。，²٢\u0301\u00a0\u2003\u3000😀\x1c\x85ʰǅΣ",
    *("'s", "'ll", "'T", " \n", "\n\n", "  ", "word", "1234", "中文"),
]


@numba.njit(nogil=True)
def cuts_of(at, size, cuts):
    """Mark each index of a text that is a safe cut."""
    start, stop = np.uint64(at), np.uint64(at + size)
    for index in range(1, size):
        cuts[index] = is_cut(start, np.uint64(at + index), stop)


def safe_cuts(data: bytes) -> npt.NDArray[np.intp]:
    """Give all safe cuts of a text."""
    memory, cuts = np.frombuffer(data, np.uint8), np.zeros(len(data), np.bool_)
    cuts_of(memory.ctypes.data, len(data), cuts)
    return np.flatnonzero(cuts)


def cut_texts(count: int) -> Iterator[str]:
    """Give random texts of 3 to 14 parts."""
    rng = random.Random(43)
    return ("".join(rng.choices(CUT_ALPHABET, k=rng.randint(3, 14))) for _ in range(count))


def test_halves_at_safe_cuts_give_the_whole(oracle_encoding: tiktoken.Encoding) -> None:
    """Wherever 20,000 random texts may be cut, both halves encoded apart give tiktoken's ids of the whole."""
    kinds: dict[str, int] = {"blank": 0, "punctuation": 0, "digit": 0, "letter": 0, "han": 0}
    for text in cut_texts(60 if JIT_OFF else 20_000):
        whole, data = oracle_encoding.encode_ordinary(text), text.encode()
        for cut in safe_cuts(data):
            left, right = data[:cut].decode(), data[cut:].decode()
            assert oracle_encoding.encode_ordinary(left) + oracle_encoding.encode_ordinary(right) == whole, (
                left,
                right,
            )
            kinds[kind_of_cut(right[0])] += 1
    assert JIT_OFF or min(kinds.values()) > 100, kinds


def kind_of_cut(behind: str) -> str:
    """Name the rule of a cut by the character behind it."""
    if not behind.isascii():
        return "han"
    if behind.isalnum():
        return "digit" if behind.isdigit() else "letter"
    return "blank" if behind.isspace() else "punctuation"


def test_cuts_are_where_the_rules_say() -> None:
    """A few texts whose cuts are known, so that a rule that cuts nowhere does not pass."""
    for text, cuts in (("one two", [3]), ("a1b", [1, 2]), ("don't,", [5]), ("a\n\nb", [1]), (" a  ", [2]), ("é.", [])):
        assert safe_cuts(text.encode()).tolist() == cuts, text
    assert safe_cuts("中。文，の。".encode()).tolist() == [3, 9]


def test_find_cut_gives_the_first_one() -> None:
    """find_cut gives the first safe cut from an index on, or the size of the text."""
    for text in cut_texts(10 if JIT_OFF else 500):
        data = text.encode()
        memory, cuts = np.frombuffer(data, np.uint8), safe_cuts(data)
        for least in range(len(data)):
            expected = min((cut for cut in cuts if cut >= least), default=len(data))
            assert find_cut(memory.ctypes.data, least, len(data)) == expected


# ---- the result ------------------------------------------------------------------------------------------------------


def test_ragged_rows(enc: numbatok.Encoding) -> None:
    """Rows are views of the flat ids, counted from both ends; one that is not there is an IndexError."""
    found = enc.encode_batch_flat(["hello world", "", "hello"])
    assert [row.tolist() for row in found.rows()] == [[31373, 995], [], [31373]]
    assert [found.row(index).tolist() for index in (0, 1, 2, -1, -2, -3)] == [
        *([31373, 995], [], [31373]),
        *([31373], [], [31373, 995]),
    ]
    assert np.shares_memory(found.row(0), found.tokens)
    for index in (3, -4):
        with pytest.raises(IndexError, match=f"row {index} is not one of 3"):
            found.row(index)
    empty = enc.encode_batch_flat([])
    assert (list(empty.rows()), empty.offsets.tolist()) == ([], [0])


if __name__ == "__main__":
    run_lanes()
