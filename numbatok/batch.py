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
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from numbatok._jit import kernel
from numbatok._llvm import call8, copy, exchange, fetch_add, load64, load_shared, record_at, store_shared
from numbatok.bpe import address
from numbatok.chunks import CHUNK, LARGEST_SLICE, WHOLE, Chunks, bind_chunks, chunk_at, plan_chunks
from numbatok.encoder import encode_rows
from numbatok.lookup import DONE, NOT_UTF8, SLACK, worker_at
from numbatok.ragged import Ids, Offsets, Ragged, Rows
from numbatok.split.scan import ONE_PIECE
from numbatok.text import Span
from numbatok.worker import NotUtf8, Worker, WorkerPool

PARALLEL_BYTES = 1 << 18
"""Below this a parallel region costs more than it saves."""

PLAN = np.dtype(
    [
        ("workers", "u8"),  # uint64[lanes]: addresses of the workers
        ("chunks", "u8"),  # CHUNK[chunk_count]
        ("chunk_count", "u8"),
        ("slices", "u8"),  # memory for the ids of slice_count chunks, 0 to count only
        ("slice_bytes", "u8"),
        ("slice_count", "u8"),
        ("tokens", "u8"),  # where the ids go in the end
        ("made", "u8"),  # ids that are there
        ("next", "u8"),  # the next chunk to take; from here on words that lanes share
        ("placed", "u8"),  # chunks whose ids are in their place
        ("placing", "u8"),  # 1 while a lane puts ids in their place
        ("stop", "u8"),  # 1 once a chunk has met what a lane cannot handle
    ]
)
plan_at = record_at(PLAN)
SLICES_PER_LANE = 16
"""How far the lanes may run ahead of a lane that the system has taken the processor from."""

U0, U1, U4, U8 = (np.uint64(value) for value in (0, 1, 4, 8))
CHUNK_STRIDE = np.uint64(CHUNK.itemsize)
NEXT, PLACED, PLACING, STOP = (np.uint64(PLAN.fields[name][1]) for name in PLAN.names[-4:])  # type: ignore[index]
CHUNK_DONE = np.uint64(CHUNK.fields["done"][1])  # type: ignore[index]

Plan = npt.NDArray[Any]


@kernel
def run_chunk(p, chunk, worker, index):
    """Encode one chunk with one worker into its slice; gives whether it is done."""
    c, w = chunk_at(chunk), worker_at(worker)
    if p.slices and c.slice == U0:
        c.slice = p.slices + (index % p.slice_count) * p.slice_bytes
    made = call8(w.encode, worker, c.origin, c.offsets, c.first, c.last, U0, c.counts, c.slice)
    c.status = w.status
    if made < np.int64(0):
        return False
    c.total = np.uint64(made)
    store_shared(chunk + CHUNK_DONE, U1)
    return True


@kernel
def place_done(plan):
    """Copy the ids of done chunks to their place, in order, unless another lane is at it."""
    if exchange(plan + PLACING, U1):
        return
    p = plan_at(plan)
    index = load_shared(plan + PLACED)
    while index < p.chunk_count:
        chunk = p.chunks + index * CHUNK_STRIDE
        if load_shared(chunk + CHUNK_DONE) == U0:
            break
        size = chunk_at(chunk).total
        if p.slices:
            copy(p.tokens + p.made * U4, chunk_at(chunk).slice, size * U4)
        p.made = p.made + size
        index += U1
        store_shared(plan + PLACED, index)
    store_shared(plan + PLACING, U0)


@kernel
def run_lane(plan, lane):
    """Take chunks until there are none left, or until a chunk stops all lanes."""
    p = plan_at(plan)
    worker = load64(p.workers + lane * U8)
    index = fetch_add(plan + NEXT, U1)
    while index < p.chunk_count:
        while load_shared(plan + PLACED) + p.slice_count <= index:  # its slice is still full
            if load_shared(plan + STOP):
                return
            place_done(plan)
        chunk = p.chunks + index * CHUNK_STRIDE
        if load_shared(chunk + CHUNK_DONE) == U0 and not run_chunk(p, chunk, worker, index):
            store_shared(plan + STOP, U1)
        place_done(plan)
        if load_shared(plan + STOP):
            return
        index = fetch_add(plan + NEXT, U1)


@kernel(entry=True, parallel=True)
def run_lanes(plan, lanes):
    """Run the lanes side by side. Contract: int64 address of a PLAN record, one worker a lane."""
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


def run_region(plan: Plan, lanes: int) -> None:
    """Run the lanes over the chunks that are not placed yet. The caller holds the region."""
    plan["next"], plan["stop"] = plan["placed"], 0
    before = numba.get_num_threads()
    try:
        numba.set_num_threads(lanes)
        run_lanes(address(plan), lanes)
    finally:
        numba.set_num_threads(before)


def make_plan(workers: npt.NDArray[np.uint64], chunks: Chunks) -> Plan:
    """Fill in what the lanes share to count only; ``workers`` holds addresses."""
    plan = np.zeros(1, PLAN)
    plan["workers"], plan["chunks"], plan["chunk_count"] = address(workers), address(chunks), len(chunks)
    plan["slice_count"] = len(chunks)
    return plan


def give_slices(plan: Plan, chunks: Chunks, pool: WorkerPool, tokens: Ids, lanes: int) -> list[Ids]:
    """Fill in where ids go; gives the memory that must outlive the lanes.

    Slices are shared in turn. A chunk that is too large, a row without a safe cut, gets memory of its own: one id a
    byte, of which what is not written is never backed.
    """
    sizes = (chunks["end"] - chunks["begin"]).astype(np.int64)
    room = min(int(sizes.max()), LARGEST_SLICE) + SLACK
    plan["slice_count"] = SLICES_PER_LANE * lanes
    slices = pool.slices(room * SLICES_PER_LANE * lanes)
    plan["slices"], plan["slice_bytes"], plan["tokens"] = address(slices), 4 * room, address(tokens)
    large = np.flatnonzero(sizes > LARGEST_SLICE)
    own = [np.empty(int(sizes[index]) + SLACK, np.uint32) for index in large]
    chunks["slice"][large] = [address(memory) for memory in own]
    return [slices, *own]


def encode_parallel(pool: WorkerPool, lanes: list[Worker], rows: Rows, counts: Offsets, count: bool) -> Ids:
    """Encode the rows in as many lanes as there are workers; gives the flat ids.

    Each lane encodes chunks into slices, and whoever is there puts finished slices in their place: a lane waits for
    another one only when no slice is free, so a busy machine costs little.
    """
    cut = pool.model.split.family != ONE_PIECE
    chunks = plan_chunks(rows.base, rows.offsets, len(lanes), cut, rows.starts)
    tokens = np.empty(0 if count else rows.size + SLACK, np.uint32)
    bind_chunks(chunks, rows.base, rows.offsets, counts)
    workers = np.array([worker.address for worker in lanes], np.uint64)
    plan = make_plan(workers, chunks)
    memory = [] if count else give_slices(plan, chunks, pool, tokens, len(lanes))
    while plan["placed"][0] < len(chunks):
        run_region(plan, len(lanes))
        if (chunks["status"] == NOT_UTF8).any():
            raise NotUtf8
        if plan["placed"][0] < len(chunks):
            encode_stopped(plan, chunks, counts, lanes[0])
    del memory  # held until here
    parts = chunks[chunks["part_of"] != WHOLE]
    np.add.at(counts, parts["part_of"].astype(np.intp), parts["part_count"].astype(np.int64))
    tokens.resize(0 if count else int(plan["made"][0]), refcheck=False)
    return tokens


def encode_stopped(plan: Plan, chunks: Chunks, counts: Offsets, worker: Worker) -> None:
    """Encode the first chunk that has no place yet on this thread, if it is one that stopped the lanes."""
    for index in np.flatnonzero((chunks["status"] != DONE) & (chunks["done"] == 0)):
        chunk = chunks[index : index + 1]  # what it has counted so far is counted again
        chunk["part_count"] = 0
        if chunk["part_of"][0] == WHOLE:
            counts[int(chunk["first"][0]) : int(chunk["last"][0])] = 0
    first = int(plan["placed"][0])
    head = chunks[first]
    if head["status"] == DONE:
        return
    out = int(plan["tokens"][0] and plan["tokens"][0] + 4 * plan["made"][0])
    call = (head["origin"], head["offsets"], head["first"], head["last"], 0, head["counts"], out)
    plan["made"] += finish(worker, tuple(int(value) for value in call))
    chunks["status"][first] = DONE
    plan["placed"] += 1


def encode_alone(worker: Worker, rows: Rows, counts: Offsets, count: bool) -> Ids:
    """Encode the rows on this thread, straight into one array; gives the flat ids."""
    tokens = np.empty(0 if count else rows.size + SLACK, np.uint32)
    out = 0 if count else address(tokens)
    if rows.starts is None:
        made = finish(worker, (rows.base, address(rows.offsets), 0, len(counts), 0, address(counts), out))
    else:
        made, spans = 0, np.stack((rows.starts, rows.starts + np.diff(rows.offsets)), axis=1)
        for row in range(len(counts)):
            call = (0, address(spans) + 16 * row, 0, 1, 0, address(counts) + 8 * row, out and out + 4 * made)
            made += finish(worker, call)
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
    workers: list[Worker] = []
    try:
        workers += [pool.take() for _ in range(lanes if parallel else 1)]
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
