"""A str goes into a kernel, a list of ints comes out: the ids of the long way, and Python's counts of references kept.

Invariant: every kind of str gives the ids of its UTF-8 bytes and of tiktoken, by each of the calls; afterwards no text,
int or list has a reference more or less than before. The lengths of rows are those that Python gives.

    check(enc, reference, "any text")
"""

import contextlib
import ctypes
import gc
import itertools
import random
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import oracle
import pytest
import tiktoken
from cases import JIT_OFF
from test_encodings import reference

import numbatok
from numbatok import calls, objects, worker
from numbatok import flat as encoding_flat
from numbatok.bpe import address
from numbatok.calls import (
    PADDED_BYTES,
    QUICK_BYTES,
    byte_lengths,
    list_of,
    list_of_ids,
    lists_of,
    lists_of_ids,
    text_lengths,
)
from numbatok.ragged import Ragged
from numbatok.special import refuse
from numbatok.text import join_rows

MANY = 50 if JIT_OFF else 10_000
LETTERS = {
    "ascii": "abc XYZ.1\n'",
    "latin-1": "abé ß\xa0×z1",
    "two bytes": "ab жд中の १\u3000",
    "four bytes": "a 😀𝒜中\U00020000b",
    "nul": "a\0b \0",
}
HALVES = [chr(0xD83D), chr(0xDE00), chr(0xDC4D)]


class Lie(str):
    """A str that lies about itself in every way."""

    def __len__(self) -> int:
        return 3

    def __str__(self) -> str:
        return "a lie"

    def __iter__(self) -> Iterator[str]:
        return iter("a lie")

    def __getitem__(self, index: Any) -> str:
        return "a lie"

    def __contains__(self, other: object) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return False

    def encode(self, *args: object) -> bytes:
        """Give other bytes."""
        return b"a lie"

    __hash__ = str.__hash__


@pytest.fixture(autouse=True)
def _not_seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the JIT off leave new caches empty: entering the vocabulary takes seconds there, for every worker."""
    if JIT_OFF:
        monkeypatch.setattr(worker, "UNSEEDED", 0)


def check(enc: numbatok.Encoding, theirs: tiktoken.Encoding, text: str) -> None:
    """Assert that all calls give the ids of the text's bytes, and of tiktoken; twice, as caches fill."""
    data = oracle.repair("".join(iter_real(text)))
    expected = theirs.encode_ordinary(data)
    for _ in range(2):
        found = enc.encode_ordinary(text)
        assert found == expected
        assert type(found) is list
        assert enc.encode(text, disallowed_special=()) == expected
        assert enc.encode_flat(text).tolist() == expected
        assert enc.count(text) == len(expected)
    assert enc.encode_ordinary(data.encode()) == expected
    assert enc.encode_ordinary_batch([text, "", text]) == [expected, [], expected]
    assert enc.count_batch([text, "x"]).tolist() == [len(expected), 1]


def iter_real(text: str) -> Iterator[str]:
    """Give the characters of a str whatever its class says of itself."""
    return str.__iter__(text)


def cold(enc: numbatok.Encoding) -> numbatok.Encoding:
    """Give an encoding with the same tables and a worker that is idle, so that the quick way is taken."""
    mine = numbatok.Encoding._from_model("cold", enc._pat_str, enc._model)
    mine.encode_ordinary("")
    return mine


# ---- every kind of str -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gpt2"] if JIT_OFF else ["gpt2", "cl100k_base", "o200k_base"])
@pytest.mark.parametrize("kind", LETTERS)
def test_kinds_of_text(kind: str, name: str) -> None:
    """Texts of one to four bytes a character in memory, of 0 to 300 characters."""
    enc, theirs, rng = numbatok.get_encoding(name), reference(name), random.Random(kind)
    for size in [0, 1, 5, 40] if JIT_OFF else [*range(75), *rng.choices(range(75, 300), k=30)]:
        check(enc, theirs, "".join(rng.choices(LETTERS[kind], k=size)))


@pytest.mark.skipif(JIT_OFF, reason="long texts: left to the compiled run")
@pytest.mark.parametrize("kind", LETTERS)
@pytest.mark.parametrize("limit", [PADDED_BYTES, QUICK_BYTES])
def test_around_the_limits(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, kind: str, limit: int) -> None:
    """Texts of as many bytes as are copied, or encoded at once, and a few less and more."""
    rng = random.Random(kind)
    text = "".join(rng.choices(LETTERS[kind], k=limit))
    for size in (limit - 73, limit - 64, limit - 2, limit - 1, limit, limit + 1, limit + 5):
        cut = text.encode()[:size].decode(errors="ignore")
        cut += "x" * (size - len(cut.encode()))
        assert len(cut.encode()) == size
        check(enc, oracle_encoding, cut)
        check(enc, oracle_encoding, "ab"[: size % 3])


@pytest.mark.parametrize("halves", [1, 2, 3])
def test_surrogates(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, halves: int) -> None:
    """Lone halves become U+FFFD and pairs their character, in short and in long texts; no error of Python stays."""
    rng = random.Random(halves)
    for size in [3, 20] if JIT_OFF else [1, 2, 3, 8, 20, 300, 9_000, 70_000]:
        text = "".join(rng.choices([*"ab é中", *HALVES[:halves]], k=size))
        check(enc, oracle_encoding, text + HALVES[0])


@pytest.mark.parametrize("text", ["", "hello", "hello wörld", "中" * 40, "😀 x" * 500, "a" * 70_000, "x" + HALVES[0]])
def test_subclasses(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, text: str) -> None:
    """A subclass is read as what it is, not as what it says."""
    check(enc, oracle_encoding, Lie(text[:60] if JIT_OFF else text))


@pytest.mark.parametrize("text", [b"hello", bytearray(b"hello"), np.frombuffer(b"hello", np.uint8)])
def test_what_is_no_str(enc: numbatok.Encoding, text: Any) -> None:
    """Bytes take the long way, and what is no text is refused as ever."""
    assert enc.encode_ordinary(text) == enc.encode_ordinary("hello")
    assert enc.count(text) == 1
    for wrong in (None, 5, ["hello"]):
        for call in (enc.encode_ordinary, enc.encode_flat, enc.count):
            with pytest.raises(TypeError, match=r"text is|row 0"):
                call(wrong)


def test_what_stood_in_the_copy(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding) -> None:
    """Behind a short text nothing is read of the longer ones before it."""
    rng, mine = random.Random(9), cold(enc)
    for size in range(1, 20 if JIT_OFF else 140):
        long = "".join(rng.choices("ab'\n 1ré中", k=300))
        mine.encode_ordinary(long)
        short = long[:size]
        assert mine.encode_ordinary(short) == oracle_encoding.encode_ordinary(short)


def utf8_kept(text: str) -> int:
    """Give the bytes of UTF-8 that a text keeps."""
    return sys.getsizeof(text) - sys.getsizeof("".join([text[:1], text[1:]]))


@pytest.mark.parametrize("call", ["encode_ordinary", "encode_flat", "count", "encode"])
def test_utf8_that_a_text_keeps(enc: numbatok.Encoding, call: str) -> None:
    """A text keeps its UTF-8 bytes only if it is short: no longer than QUICK_BYTES, counted in characters."""
    mine = cold(enc)
    for size in [200] if JIT_OFF else [2, 1_000, QUICK_BYTES // 2, QUICK_BYTES, QUICK_BYTES + 1, 1_000_000]:
        text = "".join(["é"] * size)
        getattr(mine, call)(text)
        assert utf8_kept(text) in ((0, 2 * size + 1) if size <= QUICK_BYTES else (0,)), size


# ---- references ------------------------------------------------------------------------------------------------------


def counts_of(things: list[Any]) -> list[int]:
    """Give the references of things."""
    return [sys.getrefcount(thing) for thing in things]


@pytest.mark.parametrize("text", ["hello world, 0123", "é中" * 3, "".join(["x", HALVES[0]]), ""])
def test_references_of_ints_and_texts(enc: numbatok.Encoding, text: str) -> None:
    """After many calls ints and the text have the references that they had, and lists are gone."""
    mine = cold(enc)
    text = "".join([text, "!" if text else ""])  # not one that the interpreter shares
    ids = mine.encode_ordinary(text)
    assert sys.getrefcount(ids) == 2
    assert gc.is_tracked(ids)
    things: list[Any] = [text, *(mine._model.ints[one] for one in {0, 5, 255, 256, 257, 50_000, *ids})]
    assert len(mine.encode_flat(text)) == mine.count(text)  # compiling would leave references to small ints
    many = MANY // 20 if HALVES[0] in text else MANY  # such a text takes the long way each time
    before = counts_of(things)
    kept = [mine.encode_ordinary(text) for _ in range(many)]
    during = counts_of(things)
    del kept
    for _ in range(many):
        mine.encode_flat(text)
        mine.count(text)
    gc.collect()
    after = counts_of(things)
    assert (before[0], before[0]) == (during[0], after[0])
    for one, first, most, last in list(zip(things, before, during, after, strict=True))[1:]:
        if one > 256:  # small ints are everybody's, and have no count in newer Pythons
            assert (most, last) == (first + many * ids.count(one), first), one
        else:
            assert abs(last - first) < MANY // 2, one


def test_memory_does_not_grow(enc: numbatok.Encoding) -> None:
    """Many calls of each kind leave no block of memory behind, also where the text is handed back."""
    mine, half = cold(enc), "a" + HALVES[0]
    ids, rows = mine.encode_flat("hello world " * 50), mine.encode_batch_flat(["a", "", "b c d"])

    def call() -> None:
        mine.encode_ordinary("hello é")
        mine.encode_ordinary(half)
        list_of_ids(ids, mine._model.ints)
        lists_of_ids(rows, mine._model.ints)
        text_lengths(["a", "é", ""])

    def grown(calls: int) -> int:
        gc.collect()
        before = sys.getallocatedblocks()
        for _ in range(calls):
            call()
        gc.collect()
        return sys.getallocatedblocks() - before

    calls = 30 if JIT_OFF else 1_000  # in plain Python the first rounds warm the interpreter up; a leak goes on
    assert any(grown(calls) < calls // 2 for _ in range(10))


def test_ints_are_those_of_the_table(enc: numbatok.Encoding) -> None:
    """The ints of a list are shared, and end with nobody: small ones of Python's own, and the rest of the model's."""
    mine = cold(enc)
    text = "".join(chr(point) for point in range(33, 127)) + " hello world"
    found, ints = mine.encode_ordinary(text), mine._model.ints
    assert all(made is ints[made] for made in found)
    for _ in range(MANY // 10):
        found = mine.encode_ordinary(text)
        found.clear()
    assert list(range(257)) == ints[:257].tolist()
    assert sum(range(257)) == 32_896
    assert mine.encode_ordinary(text) == enc.encode_flat(text).tolist()


def test_text_that_is_handed_back(enc: numbatok.Encoding) -> None:
    """What the quick way does not do it gives back itself, with no reference more."""
    mine = cold(enc)
    assert mine.encode_ordinary("hello") == [31373]  # a first call is never quick
    holder = mine._pool.take()
    for text in ("a" + HALVES[0], "a" * 10 + HALVES[1] * 10, *([] if JIT_OFF else ["b" * (QUICK_BYTES + 1)])):
        before = sys.getrefcount(text)
        assert all(holder.to_list(text) is text for _ in range(10))
        assert sys.getrefcount(text) == before
        assert holder.to_output(text) == -1
    assert holder.to_list("hello") == [31373]


def test_first_call_lets_other_threads_run(enc: numbatok.Encoding) -> None:
    """A worker that has no vocabulary in its cache yet is not given it while the GIL is held."""
    mine = cold(enc)
    holder = mine._pool.take()
    holder.record["unseeded"] = 1
    assert holder.to_output("hello") == -1
    assert holder.to_list("hello") == "hello"
    assert holder.record["unseeded"][0] == 1
    mine._pool.give_back(holder)
    holder.record["unseeded"] = not JIT_OFF
    assert mine.encode_ordinary("hello") == [31373]
    assert holder.record["unseeded"][0] == 0
    assert holder.to_list("hello") == [31373]


def test_memory_that_there_is_not(enc: numbatok.Encoding) -> None:
    """A list that cannot be made is a MemoryError, and what was made of it before is dropped."""
    ints, ids = enc._model.ints, np.array([1, 300], np.uint32)
    for size in (1 << 60, (1 << 62) - 1):
        before = counts_of([ints[1], ints[300]])
        with pytest.raises(MemoryError):
            calls._entry(list_of, 4)(address(ids), size, address(ints), len(ints))
        offsets = np.array([0, 2, 2 + size], np.int64)
        with pytest.raises(MemoryError):
            calls._entry(lists_of, 5)(address(ids), address(offsets), 2, address(ints), len(ints))
        gc.collect()
        assert counts_of([ints[1], ints[300]]) == before
    assert list_of_ids(ids, ints) == [1, 300]


def test_collector_that_calls_back(enc: numbatok.Encoding) -> None:
    """Making lists can start the garbage collector, and that may call anything: here the encoding itself."""
    mine, inner = cold(enc), []
    text, rows = "hello world " * (1 if JIT_OFF else 20), mine.encode_batch_flat(["a b", "", "c"] * 30)
    expected, lists = enc.encode_flat(text).tolist(), [row.tolist() for row in rows.rows()]

    def back(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            inner.append(mine.encode_ordinary("within é"))

    threshold = gc.get_threshold()
    gc.callbacks.append(back)
    gc.set_threshold(1)
    try:
        for _ in range(1 if JIT_OFF else 200):
            assert mine.encode_ordinary(text) == expected
            assert lists_of_ids(rows, mine._model.ints) == lists
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(back)
    assert inner
    assert all(ids == enc.encode_ordinary("within é") for ids in inner)


# ---- threads and signals ---------------------------------------------------------------------------------------------


@pytest.mark.skipif(JIT_OFF, reason="in plain Python new references wait in one table, which is not for threads")
def test_threads_at_once(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding) -> None:
    """Threads that hammer one encoding get their own ids, while another one throws its workers away."""
    mine, failed = cold(enc), list[str]()
    texts = [f"text {number} é中😀 " * (number % 7 + 1) for number in range(40)]
    expected = [oracle_encoding.encode_ordinary(text) for text in texts]

    def hammer(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(2_000):
            place = rng.randrange(len(texts))
            if mine.encode_ordinary(texts[place]) != expected[place] or mine.count(texts[place]) != len(
                expected[place]
            ):
                failed.append(texts[place])

    def clear() -> None:
        for _ in range(5):
            mine.clear_cache()

    threads = [*(threading.Thread(target=hammer, args=(seed,)) for seed in range(4)), threading.Thread(target=clear)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failed
    idle = [id(one) for one in mine._pool._idle]
    assert len(set(idle)) == len(idle), "a worker is lent to two"


@pytest.mark.skipif(JIT_OFF or not hasattr(signal, "setitimer"), reason="needs a timer; slow in plain Python")
def test_keyboard_interrupt(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding) -> None:
    """Calls that are interrupted leave the encoding whole: no worker is lent twice, ids stay right."""
    mine, text, times = cold(enc), "hello wörld 中 " * 40, 0
    expected, interrupted = oracle_encoding.encode_ordinary(text), 0

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        while interrupted < 60 and times < 100_000:
            with contextlib.suppress(KeyboardInterrupt):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.0003 + interrupted * 1e-5)
                    for _ in range(100_000):
                        times += 1
                        mine.encode_ordinary(text)
                        mine.encode_flat(text)
                        mine.count(text)
                except KeyboardInterrupt:
                    interrupted += 1
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            assert mine.encode_ordinary(text) == expected
            assert len(mine._pool._idle) <= 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupted == 60


# ---- lists from arrays -----------------------------------------------------------------------------------------------


def test_lists_from_arrays(enc: numbatok.Encoding) -> None:
    """Lists of all lengths, of ids in the table and beyond it, and of arrays with gaps between their elements."""
    ints, rng = enc._model.ints, np.random.default_rng(1)
    for size in (0, 1, 2, 3, 100, 10 if JIT_OFF else 10_000):
        ids = rng.integers(0, len(ints), size).astype(np.uint32)
        assert list_of_ids(ids, ints) == ids.tolist()
        assert list_of_ids(ids[::-3], ints) == ids[::-3].tolist()
    beyond = np.array([0, len(ints) - 1, len(ints), (1 << 31) - 1, 1 << 31, (1 << 32) - 1], np.uint32)
    for _ in range(3):
        assert list_of_ids(beyond, ints) == beyond.tolist()
        assert list_of_ids(beyond, ints[:0]) == beyond.tolist()


@pytest.mark.parametrize("seed", range(3 if JIT_OFF else 30))
def test_lists_of_rows(enc: numbatok.Encoding, seed: int) -> None:
    """Rows of any lengths, empty ones first, last and in a row; and no row at all."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 5, rng.integers(0, 40)) * rng.integers(0, 2)
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    ids = rng.integers(0, 1 << 17, int(offsets[-1])).astype(np.uint32)
    found = lists_of_ids(Ragged(ids, offsets), enc._model.ints)
    assert found == [ids[first:last].tolist() for first, last in itertools.pairwise(offsets.tolist())]
    assert all(type(row) is list and sys.getrefcount(row) <= 4 for row in found)
    assert lists_of_ids(Ragged(ids[:0], offsets[:1]), enc._model.ints) == []


# ---- lengths of rows -------------------------------------------------------------------------------------------------


def random_rows(rng: random.Random, count: int) -> list[str]:
    """Make rows of characters of one to four bytes, empty ones among them."""
    pool = rng.choice(["ab", "é", "中ж", "😀", "a\0é中😀", "aaaaaaaaaaaa😀"])
    return ["".join(rng.choices(pool, k=rng.choice([0, 0, 1, 2, 7, 8, 9, rng.randint(0, 90)]))) for _ in range(count)]


@pytest.mark.parametrize("seed", range(3 if JIT_OFF else 60))
def test_lengths(seed: int) -> None:
    """Characters and bytes of rows are what Python counts."""
    rng = random.Random(seed)
    rows = random_rows(rng, rng.choice([0, 1, 2, 10, 60]))
    sizes = text_lengths(rows)
    assert sizes.tolist() == [*map(len, rows)]
    assert sizes.dtype == np.int64
    data = "".join(rows).encode()
    byte_lengths(ctypes.cast(data, ctypes.c_void_p).value or 0, sizes)
    assert sizes.tolist() == [len(row.encode()) for row in rows]


def test_lengths_of_what_is_no_text() -> None:
    """Reading stops at what is no str, without an error; a subclass is measured as it is."""
    assert text_lengths(["ab", None, "c"]).tolist() == [2, 0, 0]  # type: ignore[list-item]
    assert text_lengths([b"ab", "c"]).tolist() == [0, 0]  # type: ignore[list-item]
    assert text_lengths([Lie("hello"), HALVES[0] * 2, ""]).tolist() == [5, 2, 0]
    assert text_lengths([]).tolist() == []


@pytest.mark.parametrize("seed", range(3 if JIT_OFF else 40))
def test_joined_rows(seed: int) -> None:
    """Rows of a batch start and end where their bytes do, whatever kinds of text are mixed."""
    rng = random.Random(seed)
    rows: list[Any] = random_rows(rng, rng.choice([0, 1, 2, 3, 30]))
    kinds: list[Callable[[str], Any]] = [str, str, Lie, str.encode, lambda row: bytearray(row.encode())]
    kinds += [lambda row: row + HALVES[0], lambda row: np.frombuffer(row.encode(), np.uint8)]
    if seed % 2:
        rows = [rng.choice(kinds[: rng.choice([3, 4, 7])])(row) for row in rows]
    expected = [oracle.repair("".join(iter_real(row))).encode() if isinstance(row, str) else bytes(row) for row in rows]
    for given in (rows, tuple(rows), iter(rows)):
        made = join_rows(given)
        found = [
            ctypes.string_at(made.base + first, last - first)
            for first, last in itertools.pairwise(made.offsets.tolist())
        ]
        assert found == expected


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (["a", 5], "row 1 of the batch is int"),
        (["é", "a", None], "row 2 of the batch is None"),
        ([None], "row 0 of the batch is None"),
        ([b"a", "b", 1.5, None], "row 2 of the batch is float"),
        (["a", ["b"]], "row 1 of the batch is list"),
        ([HALVES[0], {}], "row 1 of the batch is dict"),
        ([np.zeros(3, np.int64), "a"], "row 0 of the batch is ndarray"),
    ],
)
def test_rows_that_are_no_text(enc: numbatok.Encoding, rows: list[Any], told: str) -> None:
    """The error names the first row that is no text, and what it is."""
    for call in (join_rows, enc.encode_batch_flat, enc.encode_ordinary_batch, enc.count_batch):
        with pytest.raises(TypeError, match=told):
            call(rows)


def test_rows_that_change(enc: numbatok.Encoding) -> None:
    """A list that another thread changes gives rows within the text, or an error that says so; nothing else happens."""
    rows = ["abc é", "", "中中中", "x" * 40] * (3 if JIT_OFF else 50)
    stop, told = threading.Event(), set[str]()

    def change() -> None:
        rng = random.Random(1)
        while not stop.is_set():
            rows.append(rows.pop(rng.randrange(len(rows) // 2)))
            rows[rng.randrange(len(rows))] = rng.choice(["é" * 50, "y", ""])
            rows.extend(["z"] * 30)
            del rows[-30:]

    thread = threading.Thread(target=change)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        for _ in range(20 if JIT_OFF else 3_000):
            try:
                made = join_rows(rows)
            except RuntimeError as error:
                told.add(str(error))
                continue
            assert made.offsets[0] == 0
            assert (np.diff(made.offsets) >= 0).all()
            assert made.size == made.offsets[-1]
            ctypes.string_at(made.base, made.size).decode()
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)
    assert told <= {"the list of texts changed while it was read; pass a copy"}
    assert enc.encode_ordinary_batch(list(rows)) == [enc.encode_ordinary(row) for row in rows]


@pytest.mark.parametrize("way", ["encode_ordinary", "encode_flat", "count"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
def test_interrupted_worker_is_forgotten(
    enc: numbatok.Encoding, way: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In plain Python a signal ends a kernel anywhere: no later call gets what that worker had half written."""
    mine = cold(enc)
    assert mine.encode_ordinary("hello") == [31373]
    held = mine._pool.quick[-1]

    def stopped(text: str) -> None:
        raise error

    monkeypatch.setattr(held, "to_list", stopped)
    monkeypatch.setattr(held, "to_output", stopped)
    with pytest.raises(error):
        getattr(mine, way)("hello")
    assert held not in mine._pool.quick
    assert mine.encode_ordinary("hello") == [31373]
    if JIT_OFF:
        monkeypatch.setattr(encoding_flat, "encode_one", lambda *_: stopped(""))
        with pytest.raises(error):
            mine.count(b"hello")
        assert not mine._pool.quick


@pytest.mark.skipif(not JIT_OFF, reason="machine code holds the GIL: nothing is dropped under it")
def test_plain_python_holds_what_it_reads() -> None:
    """An item that a list drops while a kernel has its word lives on until the kernel ends, and no longer."""

    class Text(str):
        """A ``str`` that can be watched."""

    items = [Text("abc")]
    watched = weakref.ref(items[0])

    def read(texts: list[str], place: int) -> int:
        word = objects.list_item(objects.word_of(texts), np.uint64(place))
        texts.clear()
        assert objects.list_item(objects.word_of(texts), np.uint64(0)) == 0
        return int(objects.text_length(word)) if word else -1

    assert objects.entry(read)(items, 0) == 3
    assert watched() is None

    def leak() -> int:
        return int(objects.new_int(np.uint64(1 << 40)))

    with pytest.raises(RuntimeError, match="leak keeps references"):
        objects.entry(leak)()


# ---- special tokens that are refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5 if JIT_OFF else 60))
def test_refused_names(seed: int) -> None:
    """A text is refused just if one of the names is in it, whatever the names begin with; an empty one is in none."""
    rng = random.Random(seed)
    pool = rng.choice(["ab", "<|>a", "é中<", "a\0", "😀" + HALVES[0]])
    start = "".join(rng.choices(pool, k=rng.choice([0, 1, 3])))
    for _ in range(30):
        names = frozenset(start + "".join(rng.choices(pool, k=rng.randint(0, 3))) for _ in range(rng.randint(1, 4)))
        text = "".join(rng.choices([*pool, start, "x"], k=rng.randint(0, 12)))
        in_text = [name for name in sorted(names) if name and name in text]
        forms: list[Any] = [text, Lie(text)]
        if not any("\ud800" <= letter <= "\udfff" for letter in "".join([text, *sorted(names)])):
            forms += [text.encode(), np.frombuffer(text.encode(), np.uint8), b"\xff" + text.encode()]
        for form in forms:
            if in_text:
                with pytest.raises(ValueError, match="disallowed special token"):
                    refuse(form, names)
            else:
                refuse(form, names)
