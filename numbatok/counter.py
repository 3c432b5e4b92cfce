"""Counting pieces of any amount of text on all cores: tables that grow, chunks for the lanes, one table at the end.

Invariant: the counts depend on the texts alone. Texts are cut at safe cuts only, each lane adds to a table of its own,
and tables are added up, so neither the number of lanes nor who takes which chunk changes a count. Memory is bounded by
the distinct pieces.

    >>> from numbatok.split.patterns import AS_ONE_PIECE
    >>> from numbatok.text import join_rows
    >>> with PieceCounter(AS_ONE_PIECE) as pieces:
    ...     pieces.feed(join_rows(["to", "top", "to"]))
    ...     sorted(pieces.total().counts().items())
    [(b'to', 2), (b'top', 1)]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from numbatok.batch import PARALLEL_BYTES, lane_count
from numbatok.bpe import address
from numbatok.chunks import Chunks, bind_chunks, plan_chunks
from numbatok.counting import (
    COUNTED,
    COUNTER,
    END,
    MOST_PIECES,
    NEEDS_ROOM,
    NOT_UTF8,
    SLOT_BYTES,
    add_counter,
    count_rows,
    measure_symbols,
    move_slots,
    write_symbols,
)
from numbatok.ragged import Offsets, Rows
from numbatok.room import zeros
from numbatok.split.patterns import GPT2_PATTERNS, Split, split_of
from numbatok.split.scan import ONE_PIECE
from numbatok.table import TABLES
from numbatok.unicode import load_class_table

FIRST_BITS = 14
"""Slots of a new table: two to this power."""
FIRST_ARENA = 1 << 16
PIECE_SLACK = 16
"""Bytes behind the arena, so that eight can be read at any place."""
CALL_BYTES = 1 << 22
"""Text that one call of a kernel counts at most: some 30 ms, and then Ctrl-C is heard."""
TASK_CHUNKS = 4
"""Chunks that a lane takes at a time."""
SLOTS_PER_CALL = 1 << 20
HEAVIEST = (1 << 32) - 1
"""The greatest weight of a word; a piece with a greater count becomes several words, which train alike."""

Symbols = npt.NDArray[np.uint64]
Progress = Callable[[int], object]
Where = Callable[[int, int], str]
"""Gives the name of a place for errors, from the number of the row and the index of the byte in it."""


class NotUtf8(Exception):
    """Bytes that are not UTF-8 stand at address ``at``."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


class Counter:
    """One table of pieces and counts. One thread at a time may use it."""

    def __init__(self, split: Split | None = None) -> None:
        self._classes = load_class_table()
        self._tables = np.zeros(1, TABLES)
        self._tables["classes"] = address(self._classes)
        for name, value in (split or split_of(GPT2_PATTERNS[0]))._asdict().items():
            self._tables[name] = value
        self.record = np.zeros(1, COUNTER)
        self.address = address(self.record)
        self._ends, self._keys = np.empty(MOST_PIECES, np.uint64), np.empty(3 * MOST_PIECES, np.uint64)
        self.record["tables"], self.record["ends"] = address(self._tables), address(self._ends)
        self.record["keys"] = address(self._keys)
        self._slots = np.empty(0, np.uint64)
        self._arena = np.empty(0, np.uint8)
        self._set_slots(FIRST_BITS)
        self._set_arena(FIRST_ARENA)

    def _set_slots(self, bits: int) -> None:
        """Make a table of ``2**bits`` slots, three in four of which may be taken, and move the old one to it."""
        old, self._slots = self._slots, zeros((SLOT_BYTES // 8) << bits, np.uint64)
        self.record["slots"], self.record["shift"] = address(self._slots), 64 - bits
        self.record["limit"] = 3 << (bits - 2)
        move_slots(self.address, address(old), old.nbytes // SLOT_BYTES)

    def _set_arena(self, room: int) -> None:
        used = int(self.record["arena_used"][0])
        arena = zeros(room + PIECE_SLACK, np.uint8)
        arena[:used] = self._arena[:used]
        self._arena = arena
        self.record["arena"], self.record["arena_room"] = address(arena), room

    def grow(self) -> None:
        """Make room for what did not fit."""
        record = self.record[0]
        if int(record["used"]) + MOST_PIECES > int(record["limit"]):
            self._set_slots(65 - int(record["shift"]))
        if int(record["arena_used"]) + int(record["needed"]) > int(record["arena_room"]):
            self._set_arena(2 * int(record["arena_room"]) + int(record["needed"]))

    @property
    def distinct(self) -> int:
        """Give the number of distinct pieces."""
        return int(self.record["used"][0])

    def add(self, rows: Rows, weights: Offsets | None = None) -> None:
        """Count the pieces of rows, each as often as its weight says, or once.

        Raises:
            NotUtf8: a row is not UTF-8.

        """
        for _ in self.counting(*_call(rows, weights)):
            pass

    def counting(self, base: int, offsets: int, weights: int, first: int, last: int) -> Iterator[int]:
        """Count rows by calls of bounded length; gives after each the bytes that it counted. All are addresses.

        Raises:
            NotUtf8: a row is not UTF-8.

        """
        resume, record = 0, self.record[0]
        while True:
            yield int(count_rows(self.address, base, offsets, weights, first, last, resume, CALL_BYTES))
            if record["status"] == COUNTED:
                return
            first, resume = int(record["row"]), int(record["resume"])
            if record["status"] == NOT_UTF8:
                raise NotUtf8(resume)
            if record["status"] == NEEDS_ROOM:
                self.grow()

    def absorb(self, other: Counter) -> None:
        """Add all counts of another table."""
        slots = other._slots.nbytes // SLOT_BYTES
        place = add_counter(self.address, other.address, 0)
        while place < slots:
            self.grow()
            place = add_counter(self.address, other.address, place)

    def symbols(self, byte_ids: Symbols) -> Symbols:
        """Give all pieces of two bytes and more as words of symbols ``weight << 32 | id``.

        Args:
            byte_ids: uint64[256], the id of each byte.

        """
        made = zeros(1 + measure_symbols(self.address, HEAVIEST), np.uint64)
        made[0] = END
        cursor, slots = address(made) + 8, self._slots.nbytes // SLOT_BYTES
        for first in range(0, slots, SLOTS_PER_CALL):
            last = min(first + SLOTS_PER_CALL, slots)
            cursor = write_symbols(self.address, first, last, HEAVIEST, address(byte_ids), cursor)
        return made

    def counts(self) -> dict[bytes, int]:
        """Give piece -> count as a dictionary, in no order: to look at, not to work with."""
        slots, arena, found = self._slots.reshape(-1, SLOT_BYTES // 8), self._arena, {}
        for low, high, count, width in slots[slots[:, 1] != 0].tolist():
            if high >> 63:
                start = high - (1 << 63)
                piece = arena[start : start + width].tobytes()
            else:
                piece = (low | (high & ((1 << 56) - 1)) << 64).to_bytes(15, "little")[: high >> 56]
            found[piece] = count
        return found


def _call(rows: Rows, weights: Offsets | None) -> tuple[int, int, int, int, int]:
    return rows.base, address(rows.offsets), 0 if weights is None else address(weights), 0, len(rows.offsets) - 1


# ---- on all cores ----------------------------------------------------------------------------------------------------


class Batch(NamedTuple):
    """Rows that lanes are counting: what they do, what must stay alive, and how errors call a row."""

    tasks: list[Future[None]]
    rows: Rows
    chunks: Chunks
    where: Where


class PieceCounter:
    """Counts the pieces of many texts in several lanes. A context manager: its end waits for the lanes.

    Args:
        split: how text is cut into pieces.
        threads: number of lanes; None is all cores.
        progress: called on the caller's thread with the number of bytes that have been counted since the last call.

    """

    def __init__(self, split: Split, threads: int | None = None, progress: Progress = lambda _: None) -> None:
        self._split, self._lanes, self._progress = split, lane_count(threads), progress
        self._idle: list[Counter] = []
        self._pending: deque[Batch] = deque()
        self._pool = ThreadPoolExecutor(self._lanes) if self._lanes > 1 else None
        self._done = deque[int]()
        self._stop = False

    def __enter__(self) -> PieceCounter:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop = True
        if self._pool:
            self._pool.shutdown(cancel_futures=True)

    def feed(self, rows: Rows, where: Where = "row {}, byte {}".format, weights: Offsets | None = None) -> None:
        """Count rows: those of the call before are done when it returns, these may not be yet.

        Args:
            rows: the texts.
            where: names a place for errors.
            weights: int64[rows], how often each row counts; None is once.

        Raises:
            ValueError: a row of this call or the one before is not UTF-8.

        """
        if self._pool is None or weights is not None or rows.size < PARALLEL_BYTES:
            self._feed_alone(rows, where, weights)
            return
        chunks = plan_chunks(rows.base, rows.offsets, self._lanes, self._split.family != ONE_PIECE)
        bind_chunks(chunks, rows.base, rows.offsets, np.empty(0, np.int64))
        starts = range(0, len(chunks), TASK_CHUNKS)
        tasks = [
            self._pool.submit(copy_context().run, self._run, chunks[start : start + TASK_CHUNKS]) for start in starts
        ]
        self._pending.append(Batch(tasks, rows, chunks, where))
        self._wait(1)

    def total(self) -> Counter:
        """Wait for all lanes and give one table; this ends the counting.

        Raises:
            ValueError: a row of the last call is not UTF-8.

        """
        self._wait(0)
        first, *others = sorted(self._idle or [Counter(self._split)], key=lambda one: -one.distinct)
        self._idle.clear()
        while others:
            first.absorb(others.pop())
        return first

    def _feed_alone(self, rows: Rows, where: Where, weights: Offsets | None) -> None:
        counter = self._take()
        try:
            for size in counter.counting(*_call(rows, weights)):
                self._progress(size)
        except NotUtf8 as error:
            raise _refused(rows, where, error.at) from None
        self._idle.append(counter)

    def _take(self) -> Counter:
        try:
            return self._idle.pop()
        except IndexError:
            return Counter(self._split)

    def _run(self, chunks: Chunks) -> None:
        """Count some chunks, in a lane."""
        counter = self._take()
        for origin, offsets, first, last in chunks[["origin", "offsets", "first", "last"]].tolist():
            for size in counter.counting(origin, offsets, 0, first, last):
                self._done.append(size)
                if self._stop:
                    return
        self._idle.append(counter)

    def _wait(self, left: int) -> None:
        """Wait until the lanes have done all but the last ``left`` calls of feed."""
        while len(self._pending) > left:
            batch = self._pending.popleft()
            for task in batch.tasks:
                try:
                    task.result()
                except NotUtf8 as error:
                    raise _refused(batch.rows, batch.where, error.at) from None
                while self._done:
                    self._progress(self._done.popleft())


def _refused(rows: Rows, where: Where, at: int) -> ValueError:
    place = at - rows.base
    row = int(np.searchsorted(rows.offsets, place, side="right")) - 1
    return ValueError(
        f"{where(row, place - int(rows.offsets[row]))}: this is not UTF-8, and a split is defined for text alone; "
        'decode it first, as in data.decode(errors="replace")'
    )
