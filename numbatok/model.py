"""The frozen tables of one vocabulary and their metadata: built once, checked, shared by all workers.

Invariant: once built nothing changes, so kernels may read the tables from any thread. The record in ``tables`` holds
addresses of this process: it is rebuilt, never pickled.

    >>> model = load_embedded("r50k_base")
    >>> model.token_bytes(31373)
    b'hello'
"""

from __future__ import annotations

import lzma
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from numbatok._jit import kernel, read_data
from numbatok._llvm import load8, load32, store8, store32
from numbatok.table import EMPTY, ID_BITS, NO_ID, NO_RANK, TABLES, insert_pairs, insert_pieces
from numbatok.unicode import load_class_table

Ids = npt.NDArray[np.uint32]
Bytes = npt.NDArray[np.uint8]

BYTES = 256
BLOB_SLACK = 16
"""Bytes behind the last token, so that 16 bytes can be read at the start of any token."""
U0, U1, U4 = (np.uint64(value) for value in (0, 1, 4))


@kernel
def copy_bytes(target, source, end):
    """Copy ``source .. end`` to ``target`` byte by byte; gives the address behind the copy."""
    while source < end:
        store8(target, load8(source))
        source += U1
        target += U1
    return target


@kernel
def expand_merges(lefts, rights, merged, count, starts, blob):
    """Derive where each token starts and its bytes (those of its left part, then of its right part) in rank order.

    Contract: uint32 arrays by address; ``starts[:257]`` is 0 to 256 (the byte tokens come first), ``merged`` rises and
    no part is made after its merge. With ``blob`` 0 only ``starts`` is filled. Gives the size of the blob.
    """
    lefts, rights, merged = np.uint64(lefts), np.uint64(rights), np.uint64(merged)
    starts, blob = np.uint64(starts), np.uint64(blob)
    token, cursor = np.uint64(BYTES), np.uint64(BYTES)
    for rank in range(np.uint64(count)):
        made = load32(merged + rank * U4)
        while token < made:  # a gap in the ids: tokens without bytes
            token += U1
            store32(starts + token * U4, cursor)
        for part in (load32(lefts + rank * U4), load32(rights + rank * U4)):
            start, end = load32(starts + part * U4), load32(starts + part * U4 + U4)
            if blob != U0:
                copy_bytes(blob + cursor, blob + start, blob + end)
            cursor += end - start
        token += U1
        store32(starts + token * U4, cursor)
    return np.int64(cursor)


def address(array: npt.NDArray[Any]) -> int:
    """Give the address of an array's data."""
    return int(array.ctypes.data)


def power_of_two(least: int) -> int:
    """Give the exponent of the smallest power of two that is at least ``least``."""
    return max(least - 1, 1).bit_length()


class Model:
    """The tables of one vocabulary. Build one with :meth:`from_merges` or :func:`load_embedded`.

    Attributes:
        lefts, rights: uint32[merges], the two parts of each merge in rank order.
        merged: uint32[merges], the id that each merge makes.
        starts: uint32[ids + 1], where each token starts in ``blob``; a gap in the ids has no bytes.
        blob: uint8, the bytes of all tokens.
        byte_ids: uint32[256], the id of each byte.
        specials: the special tokens and their ids; they decode, and encoding never finds them by their bytes.
        tables: a record of addresses for kernels.

    """

    def __init__(
        self, lefts: Ids, rights: Ids, merged: Ids, starts: Ids, blob: Bytes, specials: Mapping[str, int]
    ) -> None:
        self.lefts, self.rights, self.merged, self.starts, self.blob = lefts, rights, merged, starts, blob
        self.specials = dict(specials)
        self.ids = len(starts) - 1
        if self.ids >= 1 << ID_BITS:
            raise ValueError(f"a vocabulary of {self.ids} ids is too large: at most {1 << ID_BITS} are supported")
        self.byte_ids = np.empty(BYTES, np.uint32)
        self.byte_ids[blob[:BYTES]] = np.arange(BYTES, dtype=np.uint32)
        self.classes = load_class_table()
        pair_bits = power_of_two(2 * len(lefts))
        self.pair_slots = np.full(1 << pair_bits, EMPTY, np.uint64)
        piece_bits = power_of_two(2 * self.ids)
        self.piece_slots = np.full(1 << piece_bits, NO_ID, np.uint32)
        self.byte_pairs = self._byte_pairs()
        self.tables = np.zeros(1, TABLES)
        for name in ("classes", "pair_slots", "merged", "byte_ids", "byte_pairs", "piece_slots", "blob", "starts"):
            self.tables[name] = address(getattr(self, name))
        self.tables["pair_shift"], self.tables["piece_shift"] = 64 - pair_bits, 64 - piece_bits
        self.tables["ids"] = self.ids
        self.address = address(self.tables)
        if insert_pairs(address(self.pair_slots), 64 - pair_bits, address(lefts), address(rights), len(lefts)):
            raise ValueError("two merges have the same pair of ids")
        if insert_pieces(self.address):
            raise ValueError("two ids have the same bytes")
        self._add_specials()

    @classmethod
    def from_merges(cls, byte_order: Bytes, lefts: Ids, rights: Ids, merged: Ids, specials: Mapping[str, int]) -> Model:
        """Build the tables from merges in rank order; the bytes of ``byte_order`` are the ids 0 to 255."""
        starts = np.zeros(int(merged[-1]) + 2 if len(merged) else BYTES + 1, np.uint32)
        starts[: BYTES + 1] = np.arange(BYTES + 1)
        merges = (address(lefts), address(rights), address(merged), len(merged), address(starts))
        blob = np.zeros(expand_merges(*merges, 0) + BLOB_SLACK, np.uint8)
        blob[:BYTES] = byte_order
        expand_merges(*merges, address(blob))
        return cls(lefts, rights, merged, starts, blob, specials)

    def _add_specials(self) -> None:
        """Give the special ids their bytes, so that they decode; encoding never finds them by their bytes."""
        sizes = np.zeros(max([self.ids, *(token + 1 for token in self.specials.values())]), np.int64)
        sizes[: self.ids] = np.diff(self.starts.astype(np.int64))
        blob = self.blob[: int(self.starts[-1])]
        for name, token in sorted(self.specials.items(), key=lambda item: -item[1]):
            if sizes[token]:
                raise ValueError(f"special token {name!r} has id {token}, which is the id of another token")
            sizes[token] = len(name.encode())
            blob = np.insert(blob, self.starts[min(token, self.ids)], np.frombuffer(name.encode(), np.uint8))
        self.starts = np.concatenate(([0], np.cumsum(sizes))).astype(np.uint32)
        self.blob = np.concatenate((blob, np.zeros(BLOB_SLACK, np.uint8)))
        self.ids = len(sizes)
        self.tables["starts"], self.tables["blob"] = address(self.starts), address(self.blob)
        self.tables["ids"] = self.ids

    def _byte_pairs(self) -> Ids:
        """Make the dense table of the merges of two bytes: uint32[65536], first byte high, rank or NO_RANK."""
        table = np.full(BYTES * BYTES, NO_RANK, np.uint32)
        ranks = np.flatnonzero((self.lefts < BYTES) & (self.rights < BYTES))
        first, second = self.blob[self.lefts[ranks]], self.blob[self.rights[ranks]]
        table[first.astype(np.intp) * BYTES + second] = ranks
        return table

    def token_bytes(self, token: int) -> bytes:
        """Give the bytes of one id; empty for a gap."""
        return self.blob[self.starts[token] : self.starts[token + 1]].tobytes()


def load_embedded(name: str, specials: Mapping[str, int] | None = None) -> Model:
    """Load a vocabulary that the package carries: 256 bytes in id order, then three byte planes each of left and right.

    The layout keeps like next to like, which the compressor likes: 158 kB for 50,000 merges.
    """
    packed = np.frombuffer(lzma.decompress(read_data(f"{name}.xz")), np.uint8)
    planes = packed[BYTES:].reshape(6, -1).astype(np.uint32)
    lefts = planes[0] | planes[1] << 8 | planes[2] << 16
    rights = planes[3] | planes[4] << 8 | planes[5] << 16
    merged = np.arange(BYTES, BYTES + planes.shape[1], dtype=np.uint32)
    return Model.from_merges(packed[:BYTES], lefts, rights, merged, specials or {})
