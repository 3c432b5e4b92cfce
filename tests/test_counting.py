"""Counting pieces: the table of the kernels against a dictionary, whatever its size, the lanes and the parts.

Invariant: every figure is compared with `oracle.count_pieces`, which splits by a regular expression and counts in a
dictionary; and each limit (room, budget, parts, weight) is also set so low that it is met all the time.

    count([b"to the top"])  ->  {b"to": 1, b" the": 1, b" top": 1}
"""

import random
from pathlib import Path

import numpy as np
import oracle
import pyarrow as pa
import pytest
from cases import JIT_OFF
from hypothesis import given
from hypothesis import strategies as st

from numbatok import counter, sources
from numbatok.counter import Counter, PieceCounter
from numbatok.counting import END
from numbatok.sources import feed_file, feed_source, feed_words
from numbatok.split.patterns import AS_ONE_PIECE, CL100K_PATTERN, GPT2_PATTERNS, O200K_PATTERN, split_of
from numbatok.text import join_rows

GPT2 = split_of(GPT2_PATTERNS[0])
DATA = Path(__file__).parent / "data"
WORDS = ["a", "b", " word", " 12", "\n", "  ", "é", "日本", "internationalization", "x" * 15, "y" * 16, "'s", ".", "😀"]


def count(source: object, threads: int = 1, split: object = GPT2) -> dict[bytes, int]:
    """Give the counts of a source."""
    with PieceCounter(split, threads) as pieces:  # type: ignore[arg-type]
        feed_source(pieces, source)
        return pieces.total().counts()


def texts_of(seed: int, number: int, longest: int = 40) -> list[str]:
    """Give random texts."""
    draw = random.Random(seed)
    return ["".join(draw.choice(WORDS) for _ in range(draw.randrange(longest))) for _ in range(number)]


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set every limit so low that it is met."""
    monkeypatch.setattr(counter, "FIRST_BITS", 9)  # a batch has to fit
    monkeypatch.setattr(counter, "FIRST_ARENA", 1)
    monkeypatch.setattr(counter, "CALL_BYTES", 1)
    monkeypatch.setattr(counter, "PARALLEL_BYTES", 1)
    monkeypatch.setattr(counter, "SLOTS_PER_CALL", 7)
    monkeypatch.setattr(sources, "PART_BYTES", 50)
    monkeypatch.setattr(sources, "GROUP_BYTES", 50)
    monkeypatch.setattr(sources, "LAST_CUT_REACH", 2)
    monkeypatch.setattr(sources, "WORDS_AT_A_TIME", 3)


@given(st.lists(st.text(st.sampled_from("ab 1.'\nés日😀"), max_size=60), max_size=5))
def test_counts_are_those_of_a_dictionary(texts: list[str]) -> None:
    """Any texts, as str and as bytes."""
    expected = oracle.count_pieces(texts)
    assert count(texts) == expected
    assert count([text.encode() for text in texts]) == expected


@pytest.mark.parametrize("pattern", [GPT2_PATTERNS[0], CL100K_PATTERN, O200K_PATTERN])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.usefixtures("tiny")
def test_limits_change_nothing(pattern: str, threads: int) -> None:
    """Tables that grow all the time, calls of one batch, parts of fifty bytes, lanes that take turns."""
    for seed in range(3 if JIT_OFF else 30):
        texts = texts_of(seed, 12)
        assert count(texts, threads, split_of(pattern)) == oracle.count_pieces(texts, pattern)


def test_many_distinct_pieces() -> None:
    """A table that doubles several times, short and long pieces, and two tables that are added up."""
    words = [f" {'w' * (number % 30)}{number:x}" for number in range(1000 if JIT_OFF else 60_000)]
    expected = {word.encode(): 1 for word in words}
    with PieceCounter(AS_ONE_PIECE) as pieces:
        pieces.feed(join_rows(words))
        assert pieces.total().counts() == expected
    one, other = Counter(AS_ONE_PIECE), Counter(AS_ONE_PIECE)
    one.add(join_rows(words[:700]))
    other.add(join_rows(words[500:]))
    one.absorb(other)
    assert one.counts() == {word: 2 if 500 <= at < 700 else 1 for at, word in enumerate(expected)}
    assert one.distinct == len(words)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("threads", [1, 2])
def test_files_are_one_text(tmp_path: Path, threads: int) -> None:
    """A file that is read in small parts counts as its whole text, also where it has no safe cut for long."""
    for seed in range(3 if JIT_OFF else 20):
        text = "".join(texts_of(seed, 4)) + "日" * (seed * 20) + " end\n"
        path = tmp_path / "text.txt"
        path.write_text(text, "utf-8", newline="")
        assert count(path, threads) == oracle.count_pieces([text])
        assert count([path, text, path], threads) == oracle.count_pieces([text] * 3)


@pytest.mark.usefixtures("tiny")
def test_long_str_is_cut_where_it_is_safe() -> None:
    """A str that is not ASCII is counted part by part."""
    text = "naïve words and more  \n\n" * 30
    assert count(text) == count(text.encode()) == oracle.count_pieces([text])
    assert count("é" * 200) == {("é" * 200).encode(): 1}


def test_columns() -> None:
    """Columns of Arrow of every kind count as their rows; values of a dictionary once, times their rows."""
    rows = ["to the top", None, "", "to the", "to the top"] * 5
    expected = oracle.count_pieces([row for row in rows if row])
    plain = pa.array(rows)
    columns = [
        plain,
        plain.slice(3, 17),
        pa.chunked_array([plain.slice(0, 2), plain.slice(2)]),
        plain.cast(pa.large_string()),
        plain.cast(pa.binary()),
        plain.cast(pa.string_view()),
        plain.dictionary_encode(),
        plain.dictionary_encode().slice(3, 17),
        pa.chunked_array([plain.dictionary_encode(), plain.slice(0, 7).dictionary_encode()]),
        pa.RunEndEncodedArray.from_arrays([3, 25], ["to the top", "to"]),
        pa.table({"text": plain}),
        pa.array([None, None]),
    ]
    assert count(columns[0]) == expected
    for column in columns:
        listed = column["text"] if isinstance(column, pa.Table) else column
        assert count(column) == oracle.count_pieces([_text(row) for row in listed.to_pylist() if row]), column.type
    assert count([columns[0], "to the", columns[2]]) == oracle.count_pieces(
        [row for row in rows * 2 if row] + ["to the"]
    )


def _text(row: str | bytes) -> str:
    return row if isinstance(row, str) else row.decode()


def test_arrays_of_bytes_and_of_texts() -> None:
    """A uint8 array is a text, an array of texts is many."""
    assert count(np.frombuffer(b"to the", np.uint8)) == count(bytearray(b"to the")) == {b"to": 1, b" the": 1}
    assert count(np.array(["to", "to the"], object)) == {b"to": 2, b" the": 1}


@pytest.mark.usefixtures("tiny")
def test_words_with_counts() -> None:
    """A table of words is not split, and its counts are exact up to 2**62."""
    words: dict[str | bytes, int] = {
        "to the": 3,
        b"\xff\xfe": 2,
        "": 7,
        "none": 0,
        "many": 1 << 59,
        "two": 2,
        b"two": 3,
    }
    with PieceCounter(AS_ONE_PIECE) as pieces:
        feed_words(pieces, words)
        assert pieces.total().counts() == {b"to the": 3, b"\xff\xfe": 2, b"many": 1 << 59, b"two": 5}


def test_heavy_counts_become_several_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """A count above the greatest weight of a word is spread over several; words of one byte have no pair."""
    monkeypatch.setattr(counter, "HEAVIEST", 10)
    with PieceCounter(AS_ONE_PIECE) as pieces:
        feed_words(pieces, {"ab": 25, "c": 9})
        symbols = pieces.total().symbols(np.arange(256, dtype=np.uint64)).tolist()
    word = [ord("a"), ord("b")]
    weights = (10, 10, 5)
    assert symbols == [END, *(one for weight in weights for one in (*(weight << 32 | byte for byte in word), END))]


@pytest.mark.parametrize("threads", [1, 2])
def test_bytes_that_are_not_utf8(tmp_path: Path, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first bad place is named, in a text, in a file and in a column; the way out, too."""
    monkeypatch.setattr(counter, "PARALLEL_BYTES", 1)
    monkeypatch.setattr(sources, "PART_BYTES", 50)
    with pytest.raises(ValueError, match=r'^text 1, byte 3: this is not UTF-8.*errors="replace"'):
        count([b"fine", b"to \xff and \xfe"], threads)
    with pytest.raises(ValueError, match=r"^text 0, byte 2: "):
        count(b"a \xc3", threads)
    path = tmp_path / "bad.txt"
    path.write_bytes(b"word " * 100 + b"\x80" + b" word" * 100)
    with pytest.raises(ValueError, match=r"bad\.txt, byte 500: "):
        count(path, threads)
    column = pa.table({"name": pa.array([b"fine", b"", b"ab\xff"] + [b"fine"] * 50)})
    with pytest.raises(ValueError, match=r"^column 'name': row 2, byte 2: "):
        count(column, threads)
    with pytest.raises(ValueError, match=r"^column 'name': value of its dictionary or runs, number 2, byte 2: "):
        count(pa.table({"name": column["name"].dictionary_encode()}), threads)


def test_surrogates_are_repaired() -> None:
    """As in encode: a pair becomes its character, a lone half U+FFFD."""
    assert count("\ud83d\ude00\ud83d") == {"\U0001f600\ufffd".encode(): 1}


def test_file_that_is_not_there(tmp_path: Path) -> None:
    """The error of the system names it."""
    with pytest.raises(FileNotFoundError, match="nothing"):
        feed_file(PieceCounter(GPT2, 1), tmp_path / "nothing")


def test_progress_counts_all_bytes() -> None:
    """What is told sums up to the size of the texts, in lanes, too."""
    text = (DATA / "shakespeare.txt").read_bytes()
    for threads in (1, 2):
        told: list[int] = []
        with PieceCounter(GPT2, threads, told.append) as pieces:
            pieces.feed(join_rows([text * (1 if JIT_OFF else 4)]))
            pieces.total()
        assert sum(told) == len(text) * (1 if JIT_OFF else 4)
        assert set(map(type, told)) == {int}


def test_an_error_ends_the_lanes() -> None:
    """Leaving by an exception stops the lanes: they do not go on with what nobody waits for."""
    pieces = PieceCounter(GPT2, 2)

    def interrupted() -> None:
        with pieces:
            pieces.feed(join_rows([b"some words " * 100_000]))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert pieces._stop
