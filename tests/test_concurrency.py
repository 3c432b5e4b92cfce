"""Many callers at once: threads, forks, pools and nested calls give the ids of one caller, and none aborts or hangs.

Invariant: how many run, and where, changes nothing but the time. Numba's threading layers abort the process when two
threads enter them, or hang in a forked child; so each test runs a process of its own, for each layer that there is, and
the limits below catch a hang. Each script counts the parallel regions that it opened: a test of them must open one.

    16 threads in encode_batch_flat, layer workqueue  ->  every result equal to the serial one
"""

import importlib
import os
import random
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from cases import JIT_OFF

import numbatok
from numbatok.cache import SHORT_BYTES
from numbatok.ring import FINDER_BYTES, RING_BYTES
from numbatok.worker import OUTPUT_BYTES, Worker

needs_jit = pytest.mark.skipif(
    JIT_OFF, reason="a text long enough for the parallel path takes minutes with the JIT off"
)
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

HANG_SECONDS = 120
WORKER_BYTES = SHORT_BYTES + FINDER_BYTES + RING_BYTES + 4 * OUTPUT_BYTES
"""What a worker holds beside its scratch: the cache, and room for the ids of a short text."""

# Texts of several kinds, some below and some above the size from which a call runs in parallel, and what they give.
PREPARE = """
import collections, os, random, threading
import numpy as np
import numbatok
from numbatok import batch

regions = collections.Counter()
run_region = batch.run_region
def counted(*arguments):
    regions[threading.get_ident()] += 1
    run_region(*arguments)
batch.run_region = counted

enc = numbatok.get_encoding("gpt2")
rng = random.Random(11)
WORDS = [" the", "Hello", " world", "\\n\\n", "it's", " 1234", "\\u4e2d\\u3002", " caf\\u00e9", "qzjx" * 30, "  "]

def text(size):
    return "".join(rng.choices(WORDS, k=size // 5))

def batch_of(number):
    return [text(200) for _ in range(50 + 400 * (number % 2))] + [text(300_000 * (number % 3)), ""]

batches = [batch_of(number) for number in range(16)]
assert sum(sum(len(row.encode()) for row in rows) >= batch.PARALLEL_BYTES for rows in batches) >= 8
serial = [enc.encode_batch_flat(rows, threads=1) for rows in batches]
assert not regions, "the serial result was not made serially"

def same(found, expected):
    return np.array_equal(found.tokens, expected.tokens) and np.array_equal(found.offsets, expected.offsets)

def same_lists(found, expected):
    sizes = [len(row) for row in found]
    return sizes == np.diff(expected.offsets).tolist() and sum(found, []) == expected.tokens.tolist()

def in_threads(function, count):
    barrier, results = threading.Barrier(count), [None] * count
    def work(number):
        barrier.wait()
        results[number] = function(number)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
"""


def layers() -> list[Any]:
    """Give the threading layers of Numba; those that cannot be loaded here are skipped."""
    found = []
    for layer, module in {"workqueue": "workqueue", "omp": "omppool", "tbb": "tbbpool"}.items():
        try:
            importlib.import_module(f"numba.np.ufunc.{module}")
            marks: list[Any] = []
        except ImportError as error:
            marks = [pytest.mark.skip(reason=f"threading layer {layer} cannot be loaded: {error}")]
        found.append(pytest.param(layer, marks=marks))
    return found


each_layer = pytest.mark.parametrize("layer", layers())


def run(code: str, layer: str | None = None, **settings: str) -> str:
    """Run code after the preparation in a new process with four threads, whatever the machine; gives its output."""
    environment = os.environ | {"NUMBA_NUM_THREADS": "4", "PYTHONUNBUFFERED": "1"} | settings
    if layer:
        environment["NUMBA_THREADING_LAYER"] = layer
    for name in (name for name, value in settings.items() if not value):
        del environment[name]
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as expired:
        pytest.fail(f"no answer in {HANG_SECONDS} s: {expired.stdout!r} {expired.stderr!r}")
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_jit
@each_layer
def test_threads_call_at_once(layer: str) -> None:
    """Sixteen threads with texts of their own get the ids of the serial call, three times over."""
    code = """
for _ in range(3):
    found = in_threads(lambda number: enc.encode_batch_flat(batches[number]), 16)
    assert all(map(same, found, serial))
import numba
print(numba.threading_layer(), sum(regions.values()) > 0)
"""
    assert run(PREPARE + code, layer).split() == [layer, "True"]


@needs_jit
@needs_fork
@each_layer
def test_fork_after_parallel_call(layer: str) -> None:
    """A forked child answers with the same ids, serially, though its parent has used threads; so does a grandchild."""
    code = """
assert same(enc.encode_batch_flat(batches[5]), serial[5]) and regions
def child(depth):
    regions.clear()
    right = all(same(enc.encode_batch_flat(batches[number], threads=4), serial[number]) for number in (5, 0, 2))
    if depth:
        right = right and wait_for(depth - 1)
    os._exit(0 if right and not regions else 1)
def wait_for(depth):
    pid = os.fork()
    if pid == 0:
        child(depth)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert wait_for(1)
regions.clear()
assert same(enc.encode_batch_flat(batches[5]), serial[5]) and regions, "the parent goes on in parallel"
print("done")
"""
    assert run(PREPARE + code, layer) == "done\n"


@needs_jit
@needs_fork
def test_fork_while_others_encode() -> None:
    """A fork at the moment when another thread is inside the parallel region leaves a child that can encode."""
    code = """
stop = threading.Event()
def busy():
    while not stop.is_set():
        enc.encode_batch_flat(batches[5])
thread = threading.Thread(target=busy)
thread.start()
while not regions:
    pass
for _ in range(10):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if same(enc.encode_batch_flat(batches[2]), serial[2]) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
stop.set()
thread.join()
print("done")
"""
    assert run(PREPARE + code, "workqueue") == "done\n"


POOL = """
import multiprocessing, sys
if __name__ == "__main__":
    expected = [enc.encode_ordinary_batch(batches[number]) for number in (5, 0, 2)]
    assert regions
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        assert pool.map(enc.encode_ordinary_batch, [batches[number] for number in (5, 0, 2)]) == expected
    print("done")
"""


@needs_jit
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_process_pool(method: str, tmp_path: Any) -> None:
    """Workers of a pool answer with the same ids, whichever way they are started, after parallel work in the parent."""
    import multiprocessing

    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system cannot start processes by {method}")
    script = tmp_path / "pool.py"
    script.write_text(PREPARE + POOL, "utf-8")
    code = f"import runpy, sys; sys.argv = ['', {method!r}]; runpy.run_path({str(script)!r}, None, '__main__')"
    assert run(code) == "done\n"


@needs_jit
@each_layer
def test_nested_pools(layer: str) -> None:
    """A thread pool over a call that is parallel itself: right ids, for lists as well as for one flat array."""
    code = """
import functools
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool:
    found = list(pool.map(functools.partial(enc.encode_batch, num_threads=4), batches))
assert all(map(same_lists, found, serial))
print(sum(regions.values()) > 0)
"""
    assert run(PREPARE + code, layer) == "True\n"


@pytest.mark.skipif(JIT_OFF, reason="sixteen workers take minutes to make with the JIT off")
def test_threads_get_one_encoding() -> None:
    """Sixteen threads that ask for an encoding first thing in a process get one object, and its ids are right."""
    code = """
import threading, numbatok
barrier, found = threading.Barrier(16), []
def work():
    barrier.wait()
    enc = numbatok.get_encoding("gpt2")
    found.append((id(enc), tuple(enc.encode("hello world"))))
threads = [threading.Thread(target=work) for _ in range(16)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(found) == 16
print(len({identity for identity, _ in found}), {ids for _, ids in found})
"""
    assert run(code) == "1 {(31373, 995)}\n"


@needs_jit
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system cannot pin a process")
def test_one_core() -> None:
    """A process that may use one core only, as in a small container, runs with one thread and gives the same ids."""
    pin = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    code = """
assert batch.THREADS == 1
for threads in (None, 8):
    assert all(same(enc.encode_batch_flat(rows, threads=threads), ids) for rows, ids in zip(batches, serial))
print(len(regions))
"""
    assert run(pin + PREPARE + code, NUMBA_NUM_THREADS="") == "0\n"


@needs_jit
def test_any_number_of_threads() -> None:
    """1, 2, 3 and 64 threads give identical results on texts that run in parallel; counts and lists too."""
    code = """
import numba
before = numba.get_num_threads()
for threads in (1, 2, 3, 64, None):
    regions.clear()
    for rows, expected in zip(batches, serial):
        assert same(enc.encode_batch_flat(rows, threads=threads), expected)
        assert np.array_equal(enc.count_batch(rows, threads=threads), np.diff(expected.offsets))
    assert same_lists(enc.encode_ordinary_batch(batches[5], num_threads=threads), serial[5])
    assert bool(regions) == (threads != 1)
    assert numba.get_num_threads() == before == 4
print("done")
"""
    assert run(PREPARE + code) == "done\n"


def array_sizes(worker: Worker) -> dict[str, int]:
    """Give the size of every array that a worker holds."""
    return {name: value.nbytes for name, value in vars(worker).items() if isinstance(value, np.ndarray)}


def test_memory_is_bounded(enc: numbatok.Encoding) -> None:
    """However many distinct words go through, neither the worker's arrays nor the number of workers grows.

    There are words of every form: of up to 15 bytes, of up to 24, which go to the ring, and longer than any record.
    """
    enc.clear_cache()
    assert enc.encode_ordinary("hello world") == [31373, 995]
    (worker,) = enc._pool._idle
    before = array_sizes(worker)
    assert WORKER_BYTES < sum(before.values()) < WORKER_BYTES + (2 << 20)
    rng = random.Random(13)
    count = 500 if JIT_OFF else 300_000
    words = {"".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randrange(4, 24))) for _ in range(count)}
    assert len(words) > 0.99 * count
    longest = " ".join("".join(rng.choices("qzjxk", k=width)) for width in range(500, 520))
    text = " ".join([*sorted(words), longest])
    assert enc.decode(enc.encode_flat(text)) == text
    assert enc._pool._idle == [worker]
    assert array_sizes(worker) == before
