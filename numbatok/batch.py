"""Many texts at once: chunks cut where it is exact, lanes that take the next chunk, the only ``prange`` of the package.

Invariant: the ids depend on the texts alone. A chunk holds whole rows or a part of one row between safe cuts and writes
its own slice of memory, and the slices are put together in order; how many lanes run, and which lane takes which chunk,
changes nothing.

One parallel region runs at a time in a process: a caller that finds it taken works on its own thread, and so does a
forked child, where the threads of the parent do not exist (Numba's layers abort or hang in both cases).

    >>> from numbatok import get_encoding
    >>> get_encoding("gpt2").encode_batch_flat(["hello world", ""])
    Ragged(tokens=array([31373,   995], dtype=uint32), offsets=array([0, 2, 2]))
"""

from __future__ import annotations

import multiprocessing
import os
import threading

import numba
import numpy as np

from numbatok._jit import kernel
from numbatok._llvm import copy, fetch_add, load64, record_at
from numbatok.chunks import CHUNK, WHOLE, Chunks, bind_chunks, chunk_at, plan_chunks, slice_starts, steps
from numbatok.encoder import NEEDS_SCRATCH, NOT_UTF8, SLACK, encode_rows, worker_at
from numbatok.model import address
from numbatok.ragged import Ids, Offsets, Ragged, Rows
from numbatok.text import Span
from numbatok.worker import Worker, WorkerPool

PARALLEL_BYTES = 1 << 18
"""Below this a parallel region costs more than it saves."""

BATCH_PLAN = np.dtype(
    [
        ("workers", "u8"),  # uint64[lanes]: addresses of the workers
        ("chunks", "u8"),  # CHUNK[chunk_count]
        ("chunk_count", "u8"),
        ("next", "u8"),  # the next chunk to take
        ("phase", "u8"),  # ENCODE or PLACE
    ]
)
plan_at = record_at(BATCH_PLAN)
ENCODE, PLACE = 0, 1

U1, U4, U8 = (np.uint64(value) for value in (1, 4, 8))
CHUNK_STRIDE = np.uint64(CHUNK.itemsize)
NEXT_FIELD = np.uint64(BATCH_PLAN.fields["next"][1])  # type: ignore[index]


class NotUtf8(Exception):
    """Bytes that are not UTF-8 were met: the caller takes the path that follows tiktoken there."""


@kernel
def run_chunk(chunk, worker):
    """Encode one chunk with one worker, then note how it ended."""
    c, w = chunk_at(chunk), worker_at(worker)
    out = np.int64(c.out + c.total * U4)
    made = encode_rows(  # int64, so that there is one encode_rows for this and for Python
        np.int64(worker),
        np.int64(c.origin),
        np.int64(c.offsets),
        np.int64(c.first),
        np.int64(c.last),
        np.int64(c.resume),
        np.int64(c.counts),
        out,
    )
    c.total += np.uint64(made if made >= 0 else -1 - made)
    c.status, c.row, c.resume, c.needed = w.status, w.row, w.resume, w.needed


@kernel
def place_chunk(chunk):
    """Copy the ids of one chunk to their final place."""
    c = chunk_at(chunk)
    copy(c.target, c.out, c.total * U4)


@kernel
def run_lane(plan, lane):
    """Take chunks until there are none left."""
    p = plan_at(plan)
    worker = load64(p.workers + lane * U8)
    index = fetch_add(plan + NEXT_FIELD, U1)
    while index < p.chunk_count:
        chunk = p.chunks + index * CHUNK_STRIDE
        if p.phase == ENCODE:
            run_chunk(chunk, worker)
        else:
            place_chunk(chunk)
        index = fetch_add(plan + NEXT_FIELD, U1)


@kernel(parallel=True)
def run_lanes(plan, lanes):
    """Run the lanes side by side. Contract: int64 address of a BATCH_PLAN record, one worker a lane."""
    for lane in numba.prange(lanes):
        run_lane(np.uint64(plan), np.uint64(lane))


THREADS: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
"""Threads that Numba may use at most: the cores this process may run on, unless NUMBA_NUM_THREADS says less."""


class _Region:
    """Who may open the one parallel region of this process."""

    lock = threading.Lock()
    forked = False

    @staticmethod
    def after_fork() -> None:
        """In a child: the threads are gone, and the lock may have been held by one of them."""
        _Region.lock, _Region.forked = threading.Lock(), True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Region.after_fork)


def lane_count(threads: int | None) -> int:
    """Give the number of lanes for a ``threads=`` argument: None is all cores, or 1 in a process of a pool.

    Raises:
        ValueError: for 0 and negative numbers.
        TypeError: for what is not an integer.

    """
    if threads is None:
        return 1 if multiprocessing.parent_process() is not None else THREADS
    if isinstance(threads, bool) or not isinstance(threads, (int, np.integer)):
        raise TypeError(f"threads is {threads!r}; give a number of threads, or None for all cores")
    if threads < 1:
        raise ValueError(f"the number of threads is {threads}; give 1 or more, or None for all cores")
    return min(int(threads), THREADS)


def finish(worker: Worker, call: tuple[int, ...]) -> int:
    """Call encode_rows, again after each piece that needed more scratch; gives the number of ids of all calls."""
    base, offsets, row, last, resume, counts, out = call
    record, total = worker.record, 0
    while True:
        at = out + 4 * total if out else 0
        made = encode_rows(worker.address, base, offsets, row, last, resume, counts, at)
        if made >= 0:
            return int(total + made)
        total += -1 - made
        if record["status"][0] == NOT_UTF8:
            raise NotUtf8
        worker.grow_scratch(int(record["needed"][0]))
        row, resume = int(record["row"][0]), int(record["resume"][0])


def encode_one(worker: Worker, span: Span, out: int) -> int:
    """Encode one text on this thread, its ids to ``out`` (0: count only); gives their number.

    Raises:
        NotUtf8: the bytes are not UTF-8.

    """
    at, size, _ = span
    worker.span[1] = size
    made: int = encode_rows(worker.address, at, worker.span_address, 0, 1, 0, worker.count_address, out)
    if made >= 0:
        return made
    return finish(worker, (at, worker.span_address, 0, 1, 0, worker.count_address, out))


def run_region(chunks: Chunks, workers: list[Worker], phase: int) -> None:
    """Run one phase over all chunks, one lane for each worker. The caller holds the region."""
    addresses = np.array([worker.address for worker in workers], np.uint64)
    plan = np.zeros(1, BATCH_PLAN)
    plan["workers"], plan["chunks"] = address(addresses), address(chunks)
    plan["chunk_count"], plan["phase"] = len(chunks), phase
    before = numba.get_num_threads()
    try:
        numba.set_num_threads(len(workers))
        run_lanes(address(plan), len(workers))
    finally:
        numba.set_num_threads(before)


def finish_chunks(chunks: Chunks, worker: Worker) -> None:
    """Finish the chunks that met a piece too long for the scratch of their worker, one after the other."""
    if (chunks["status"] == NOT_UTF8).any():
        raise NotUtf8
    for index in np.flatnonzero(chunks["status"] == NEEDS_SCRATCH):
        chunk = chunks[index]
        worker.grow_scratch(int(chunk["needed"]))
        out = int(chunk["out"]) and int(chunk["out"] + 4 * chunk["total"])
        call = (chunk["origin"], chunk["offsets"], chunk["row"], chunk["last"], chunk["resume"], chunk["counts"], out)
        chunks["total"][index] += finish(worker, tuple(int(value) for value in call))


def encode_parallel(pool: WorkerPool, lanes: list[Worker], rows: Rows, counts: Offsets, count: bool) -> Ids:
    """Encode the rows in as many lanes as there are workers; gives the flat ids.

    The chunks go through in steps of about STEP_BYTES: encode into slices, then place the slices. Slices have room for
    one id a byte, several times what is needed, so writing them once for the whole batch would touch all that memory.
    """
    chunks = plan_chunks(rows.base, rows.offsets, len(lanes))
    tokens = np.empty(0 if count else rows.size + SLACK, np.uint32)
    bind_chunks(chunks, rows.base, rows.offsets, counts)
    done = 0
    for step in steps(chunks):
        if not count:
            room = int(step["end"][-1] - step["begin"][0]) + SLACK * len(step)
            step["out"] = pool.slices(room) + slice_starts(step)
        run_region(step, lanes, ENCODE)
        finish_chunks(step, lanes[0])
        ends = done + np.cumsum(step["total"]).astype(np.int64)
        if not count:
            step["target"] = address(tokens) + 4 * (ends - step["total"].astype(np.int64))
            run_region(step, lanes, PLACE)
        done = int(ends[-1])
    parts = chunks[chunks["part_of"] != WHOLE]
    np.add.at(counts, parts["part_of"].astype(np.intp), parts["part_count"].astype(np.int64))
    tokens.resize(0 if count else done, refcheck=False)
    return tokens


def encode_alone(worker: Worker, rows: Rows, counts: Offsets, count: bool) -> Ids:
    """Encode the rows on this thread, straight into one array; gives the flat ids."""
    tokens = np.empty(0 if count else rows.size + SLACK, np.uint32)
    out = 0 if count else address(tokens)
    made = finish(worker, (rows.base, address(rows.offsets), 0, len(counts), 0, address(counts), out))
    tokens.resize(0 if count else made, refcheck=False)  # gives the rest back without a copy
    return tokens


def encode_batch(pool: WorkerPool, rows: Rows, threads: int | None, count: bool = False) -> Ragged:
    """Encode the rows; with ``count`` no ids are kept.

    Raises:
        NotUtf8: some row is not UTF-8.

    """
    counts = np.zeros(len(rows.offsets) - 1, np.int64)
    lanes = lane_count(threads)
    parallel = lanes > 1 and rows.size >= PARALLEL_BYTES and not _Region.forked
    parallel = parallel and _Region.lock.acquire(blocking=False)
    workers = [pool.take() for _ in range(lanes if parallel else 1)]
    try:
        if parallel:
            tokens = encode_parallel(pool, workers, rows, counts, count)
        else:
            tokens = encode_alone(workers[0], rows, counts, count)
    finally:
        if parallel:
            _Region.lock.release()
        for worker in reversed(workers):
            pool.give_back(worker)
    return Ragged(tokens, np.concatenate((np.zeros(1, np.int64), np.cumsum(counts))))
