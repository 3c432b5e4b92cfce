"""Training, as rounds: gather the frequent pairs, merge until they are used up, gather less frequent ones.

Invariant: the merges are those of the naive trainer, which counts all pairs anew for each merge: the highest count
first, of equal counts the pair with the smaller ids, left one first. The size of a round, of a table and of a call
change nothing.

    >>> import numpy as np
    >>> from numbatok.counting import END
    >>> symbols = np.array([END, *(1 << 32 | byte for byte in b"aaabdaaabac"), END], np.uint64)
    >>> [(left, right) for left, right in Learner(symbols, wanted=3).learn().tolist()]
    [(97, 97), (97, 98), (256, 257)]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from numbatok.bpe import BYTES, address, power_of_two
from numbatok.gathering import (
    ENTRY_BYTES,
    TRAINER,
    compact,
    count_pairs,
    give_places,
    list_places,
    sum_buckets,
)
from numbatok.learning import CROWDED, FINISHED, USED_UP, WORKING, merge_pairs
from numbatok.room import zeros
from numbatok.table import EMPTY

FIRST_FALL, FALL = 1 << 10, 1 << 5
"""How many times rarer than the most frequent pair the rarest of the first round may be, and than that the rarest of
the next one. Few and large rounds save passes over the text, and keep more pairs that are never merged."""
ENTRY_BITS = 18
"""Entries for pairs at first: two to this power at most, half of which may be taken."""
BUCKET_BITS = 18
"""Buckets: two to this power, so that they stay in the processor's cache."""
ROUND_ARRAYS = ("sights", "buckets", "entries", "heap", "places", "made")
"""What a round makes anew, and gives back before the next one does."""
SLOTS_PER_CALL = 1 << 20
PLACES_PER_CALL = 1 << 18
"""What one call of a kernel does at most: some 10 ms, and then Ctrl-C is heard."""
MOST_SLOTS = (1 << 32) - 2
NO_LIMIT = (1 << 32) - 1


class Learner:
    """The merges of one training.

    Args:
        symbols: uint64[slots], END, then words each with an END behind: ``weight << 32 | id``, ids below 256.
            Taken over: it is changed.
        wanted: number of merges.
        longest: the most bytes of a token.
        least: the least count of a pair that is merged.

    Raises:
        OverflowError: the distinct pieces have more than 2**32 - 2 bytes.

    """

    def __init__(self, symbols: npt.NDArray[np.uint64], wanted: int, longest: int = NO_LIMIT, least: int = 1) -> None:
        if len(symbols) > MOST_SLOTS:
            raise OverflowError(f"the distinct pieces have {len(symbols)} bytes; {MOST_SLOTS} are the most")
        self._floor, self._spare = least, 1
        self._entry_bits = min(ENTRY_BITS, power_of_two(len(symbols)))
        self.record = np.zeros(1, TRAINER)
        self.address = address(self.record)
        self._arrays: dict[str, npt.NDArray[Any]] = {}
        tokens = BYTES + wanted
        self._give("symbols", symbols)
        self._give("sizes", np.ones(tokens, np.uint32))
        self._give("lengths", np.ones(tokens, np.uint32))
        self._give("groups", zeros(4 * tokens, np.uint64))
        self._give("touched", zeros(2 * tokens, np.uint32))
        self._give("merges", zeros(wanted, np.uint64))
        self.record["slots"], self.record["wanted"], self.record["longest"] = len(symbols), wanted, longest

    def _give(self, name: str, array: npt.NDArray[Any]) -> None:
        self._arrays[name] = array
        self.record[name] = address(array)

    def learn(self, progress: Callable[[int], object] = lambda _: None) -> npt.NDArray[np.uint32]:
        """Find the merges; gives uint32[merges, 2], the ids of each pair, fewer than wanted if no pair is left.

        ``progress`` is called with the number of merges since the last call.
        """
        least, status = 0, USED_UP
        while status == CROWDED or (status != FINISHED and least != self._floor):
            if status == USED_UP:
                least = max(least // FALL, self._floor) if least else 0
            least = self._gather(least)
            status = self._merge(progress)
            if status == CROWDED:
                self._widen()
        pairs = self._arrays["merges"][: int(self.record["done"][0])]
        return np.stack((pairs >> np.uint64(32), pairs & np.uint64(0xFFFFFFFF)), axis=1).astype(np.uint32)

    def _merge(self, progress: Callable[[int], object]) -> int:
        """Merge until the round is over; gives why it is."""
        record, done = self.record[0], int(self.record["done"][0])
        status = WORKING
        while status == WORKING:
            merge_pairs(self.address, PLACES_PER_CALL)
            status = int(record["status"])
            progress(int(record["done"]) - done)
            done = int(record["done"])
        return status

    def _widen(self) -> None:
        """Make room for what a merge found no room for."""
        if self.record["entries_used"] == self.record["entries_room"]:
            self._entry_bits += 1
        else:
            self._spare *= 2

    # ---- gathering -------------------------------------------------------------------------------------------------

    def _gather(self, least: int) -> int:
        """Find the pairs with a count of at least ``least``, or a part of the highest for 0; gives the least count."""
        for name in ROUND_ARRAYS:
            self._arrays.pop(name, None)
        if self.record["done"]:
            self._compact()
        buckets = self._sum_buckets()
        least = least or max(int(buckets.max()) // FIRST_FALL, self._floor)
        self.record["least"] = least
        self._count_pairs()
        room = int(self.record["slots"][0])
        self._give("heap", zeros(2 * int(self.record["entries_room"][0]), np.uint64))
        self._give("places", zeros((1 + self._spare) * room + SLOTS_PER_CALL, np.uint32))
        self.record["heap_size"] = self.record["places_used"] = self.record["at"] = self.record["end"] = 0
        self.record["places_room"] = len(self._arrays["places"])
        self._give("made", zeros(2 * give_places(self.address), np.uint64))
        for first, last in self._ranges(int(self.record["sights_size"][0])):
            list_places(self.address, first, last)
        del self._arrays["sights"], self._arrays["buckets"]
        return least

    def _ranges(self, end: int = -1) -> list[tuple[int, int]]:
        """Give numbers below ``end``, or all slots that a pair may start in, as ranges for one call each."""
        end = end if end >= 0 else int(self.record["slots"][0]) - 1
        return [(first, min(first + SLOTS_PER_CALL, end)) for first in range(0, end, SLOTS_PER_CALL)]

    def _compact(self) -> None:
        self.record["read"] = self.record["written"] = 1
        while compact(self.address, SLOTS_PER_CALL):
            pass
        self.record["slots"] = self.record["written"]
        self._arrays["sizes"].fill(1)

    def _sum_buckets(self) -> npt.NDArray[np.uint64]:
        buckets = zeros(1 << BUCKET_BITS, np.uint64)
        self._give("buckets", buckets)
        self.record["bucket_shift"] = 64 - BUCKET_BITS
        for first, last in self._ranges():
            sum_buckets(self.address, first, last)
        return buckets

    def _count_pairs(self) -> None:
        """Count the pairs of full buckets, in a larger table each time that they do not fit."""
        self._give("sights", zeros(int(self.record["slots"][0]), np.uint64))
        while True:
            entries = zeros((ENTRY_BYTES // 8) << self._entry_bits, np.uint64)
            entries[:: ENTRY_BYTES // 8] = EMPTY
            self._give("entries", entries)
            self.record["entry_shift"], self.record["entries_used"] = 64 - self._entry_bits, 0
            self.record["sights_size"] = 0
            self.record["entries_room"] = 1 << (self._entry_bits - 1)
            if all(count_pairs(self.address, first, last) for first, last in self._ranges()):
                return
            self._entry_bits += 1
