"""Callers that pull the rug away: buffers that change, objects that lie, failures in the middle, a fork during a load.

Invariant: no crash and no lasting effect. The ids of a call whose text changes under it are not defined; those of every
later call are.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cases import JIT_OFF

import numbatok
from numbatok import batch, worker
from numbatok.ragged import Rows
from numbatok.split.patterns import GPT2_PATTERNS

ROUNDS = 2 if JIT_OFF else 40


class Lie(str):
    """A str that claims to be longer than it is."""

    def __len__(self) -> int:
        return 400


class BytesLie(bytes):
    """Bytes that claim to be longer than they are."""

    def __len__(self) -> int:
        return 400


def fresh(enc: Any) -> numbatok.Encoding:
    """Give an encoding with the same tables and no worker yet."""
    return numbatok.Encoding._from_model("fresh", GPT2_PATTERNS[0], enc._model)


def meanwhile(disturb: Callable[[], object], work: Callable[[], object]) -> None:
    """Do the work while another thread disturbs it without pause."""
    stop = threading.Event()

    def loop() -> None:
        while not stop.is_set():
            disturb()

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        work()
    finally:
        stop.set()
        thread.join()


def test_lengths_are_not_believed(enc: Any) -> None:
    """A subclass with its own __len__ is read to its true end."""
    expected = enc.encode("hello")
    for lie in (Lie("hello"), BytesLie(b"hello")):
        assert enc.encode_flat(lie).tolist() == expected
        assert enc.count(lie) == len(expected)
        assert enc.encode_ordinary_batch([lie, "x", lie]) == [expected, enc.encode("x"), expected]


def test_text_that_changes_poisons_no_cache(enc: Any) -> None:
    """Words that another thread rewrites while they are encoded leave no wrong ids behind."""
    mine, rng = fresh(enc), np.random.default_rng(3)
    words = rng.integers(97, 123, (2, 4_000, 9), np.uint8)
    words[:, :, 0] = 32
    words[:, ::3, 1:] = np.frombuffer("中文字".encode() + b"x", np.uint8)[:8]
    text = words[0].copy()

    def work() -> None:
        for _ in range(ROUNDS):
            mine.encode_flat(text.reshape(-1))

    meanwhile(lambda: np.copyto(text, words[rng.integers(2)]), work)
    for row in words.reshape(-1, 9)[:: 40 if JIT_OFF else 1]:
        word = row.tobytes()
        assert mine.encode_ordinary(word) == enc.encode_ordinary(word)


def test_rows_that_change_while_they_are_encoded(enc: Any) -> None:
    """Short rows whose bytes become what separates rows, newlines or letters: each id is counted for some row."""
    mine, rng = fresh(enc), np.random.default_rng(4)
    kinds = rng.choice(np.frombuffer(b"ab \x0b\n", np.uint8), (2, 20_000), p=[0.4, 0.3, 0.1, 0.1, 0.1])
    text, offsets = kinds[0].copy(), np.arange(0, 20_001, 20)
    rows = Rows(text.ctypes.data, offsets, text)

    def work() -> None:
        for _ in range(ROUNDS):
            with contextlib.suppress(worker.NotUtf8):  # a byte was this and then that
                made = batch.encode_batch(mine._pool, rows, 1)
                assert made.offsets[-1] == len(made.tokens)

    meanwhile(lambda: np.copyto(text, kinds[rng.integers(2)]), work)
    text[:] = kinds[0]
    made = batch.encode_batch(mine._pool, rows, 1)
    assert [row.tolist() for row in made.rows()] == [enc.encode_ordinary(row.tobytes()) for row in text.reshape(-1, 20)]


def test_ids_that_change_while_they_are_decoded(enc: Any) -> None:
    """Nothing is written past the end; either some bytes come back or the change is noticed."""
    long, short = max(range(50_000), key=lambda token: len(enc.decode_single_token_bytes(token))), 0
    ids = np.full(2_000, short, np.uint32)

    def work() -> None:
        for _ in range(20 * ROUNDS):
            with contextlib.suppress(RuntimeError):  # the change was noticed
                enc.decode_bytes(ids)

    meanwhile(lambda: (ids.fill(long), ids.fill(short)), work)


def test_cache_cleared_during_a_parallel_call(enc: Any) -> None:
    """Memory that lanes write to lives as long as they do."""
    mine, text = fresh(enc), "some words of text, " * (20 if JIT_OFF else 50_000)
    expected = enc.encode_flat(text)

    def work() -> None:
        for _ in range(ROUNDS):
            assert np.array_equal(mine.encode_batch_flat([text], threads=2).tokens, expected)

    meanwhile(mine.clear_cache, work)


def test_failure_while_workers_are_made(enc: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parallel region is free again, and the next call works."""
    text = "some words " * 40_000
    with monkeypatch.context() as patch:
        patch.setattr(batch, "PARALLEL_BYTES", 1)
        patch.setattr(worker, "aligned", lambda *_: (_ for _ in ()).throw(MemoryError))
        with pytest.raises(MemoryError):
            fresh(enc).encode_batch_flat([text], threads=2)
    assert not batch._Region.lock.locked()
    assert fresh(enc).encode_ordinary("hello") == enc.encode_ordinary("hello")


def test_failure_while_scratch_grows(enc: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker whose scratch could not grow still names memory that it owns."""
    mine = fresh(enc)
    mine.encode("hello")
    (idle,) = mine._pool._idle
    real, calls = np.empty, []

    def failing(*shape: Any, **options: Any) -> Any:
        calls.append(shape)
        if len(calls) == 2:
            raise MemoryError
        return real(*shape, **options)

    with monkeypatch.context() as patch:
        patch.setattr(worker.np, "empty", failing)
        with pytest.raises(MemoryError):
            idle.grow_scratch(1 << 20)
    assert int(idle.record["scratch"][0]) == idle._kept[-1][0].ctypes.data
    assert int(idle.record["scratch_size"][0]) <= len(idle._kept[-1][0])
    assert mine.encode("zqzq" * 50) == enc.encode("zqzq" * 50)


def test_scratch_is_given_back(enc: Any) -> None:
    """A giant piece leaves no giant memory behind, and one that positions cannot count is refused."""
    mine = fresh(enc)
    assert mine.count("ab" * (5_000 if JIT_OFF else 2_000_000)) > 0
    assert all(len(idle._kept[-1][0]) <= 64 * worker.SCRATCH_BYTES for idle in mine._pool._idle)
    with pytest.raises(OverflowError, match="too long"):
        mine._pool.take().grow_scratch(1 << 32)


@pytest.mark.skipif(JIT_OFF, reason="long rows")
def test_long_rows_without_a_cut_run_side_by_side(enc: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows too large for a slice do not stop the lanes: one region does them all."""
    rows = ["привет мир " * 12_000] * 12
    regions: list[int] = []
    run = batch.run_lanes
    monkeypatch.setattr(batch, "run_lanes", lambda plan, lanes: (regions.append(lanes), run(plan, lanes)))
    ragged = enc.encode_batch_flat(rows, threads=2)
    expected = enc.encode_flat(rows[0])
    assert all(np.array_equal(row, expected) for row in ragged.rows())
    assert len(regions) <= 1


@pytest.mark.skipif(JIT_OFF or not hasattr(__import__("os"), "fork"), reason="needs fork; slow in plain Python")
def test_fork_while_another_thread_loads() -> None:
    """A child of a fork does not wait for a load that goes on in its parent only."""
    code = """
import os, signal, threading, time, numbatok
from numbatok import registry
registry._lock.acquire()
pid = os.fork()
if pid == 0:
    signal.alarm(50)
    os._exit(0 if numbatok.get_encoding("gpt2").encode("hello world") == [31373, 995] else 1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "0\n", done.stderr


def test_bad_rows_among_good_ones(enc: Any) -> None:
    """Rows that are not UTF-8 stand at any place of a batch, and the others are what they are alone."""
    rows = [b"\xff", b"good one", b"", b"a\n\nb\xff", b"\xc3", b"good \xe4\xb8\xad", b"end\xf0"]
    assert enc.encode_ordinary_batch(rows) == [enc.encode_ordinary(row) for row in rows]
    assert enc.count_batch(rows).tolist() == [len(enc.encode_ordinary(row)) for row in rows]


def test_iterators_and_wrong_types(enc: Any) -> None:
    """An iterator of ids is read once; what is no token text is refused; strided memory is copied."""
    assert enc.decode_tokens_bytes(iter([31373, 995])) == [b"hello", b" world"]
    assert enc.decode_tokens_bytes([]) == []
    for wrong in (1, None, ["a"], 1.5):
        with pytest.raises(TypeError, match="token is wanted"):
            enc.encode_single_token(wrong)
    assert enc.encode_ordinary(memoryview(b"h-e-l-l-o-")[::2]) == enc.encode_ordinary("hello")


def test_batch_with_specials(enc: Any) -> None:
    """Batches with special tokens give what single calls give, for every kind of collection."""
    texts = ["a<|endoftext|>b", "<|endoftext|>", "", "none", "<|endoftext|><|endoftext|> x"]
    expected = [enc.encode(text, allowed_special="all") for text in texts]
    for allowed in ("all", {"<|endoftext|>"}, ["<|endoftext|>"], iter(["<|endoftext|>"])):
        assert enc.encode_batch(texts, allowed_special=allowed) == expected
    assert enc.encode_batch([], allowed_special="all") == []
    assert enc.encode_batch([b"\xff<|endoftext|>", "x"], allowed_special="all") == [[187, 50256], [87]]
