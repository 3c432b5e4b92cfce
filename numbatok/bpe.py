"""The frozen tables of one vocabulary and their metadata: built once, checked, shared by all workers.

Invariant: once built nothing changes, so kernels may read the tables from any thread. The record in ``tables`` holds
addresses of this process: it is rebuilt, never pickled.

    >>> from numbatok.split.patterns import GPT2_PATTERNS, split_of
    >>> model = load_embedded("r50k_base", {}, split_of(GPT2_PATTERNS[0]))
    >>> model.token_bytes(31373)
    b'hello'
"""

from __future__ import annotations

import functools
import lzma
from bisect import bisect_left
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from numbatok._jit import kernel, read_data
from numbatok._llvm import load8, load32, store8, store32
from numbatok.joins import POINTS, find_crossings, find_joins
from numbatok.split.patterns import Split
from numbatok.table import BUCKET_BITS, EMPTY, FLOODED, ID_BITS, NO_ID, NO_RANK, TABLES, insert_pairs, insert_pieces
from numbatok.unicode import load_class_table

Ids = npt.NDArray[np.uint32]
Bytes = npt.NDArray[np.uint8]

TABLE_NAMES = [
    "classes",
    "pair_slots",
    "merged",
    "byte_ids",
    "byte_pairs",
    "joins",
    "crossings",
    "piece_slots",
    "blob",
    "starts",
]
"""The arrays of a model whose addresses are in its record."""
BYTES = 256
MISSING = (1 << ID_BITS) - BYTES - 1
"""Stands for byte 0 where the vocabulary does not have it, MISSING + 1 for byte 1, and so on; never an id. One below
what fits, since a pair of the greatest numbers looks like an empty place of the table of pairs."""
LINE_BYTES, HUGE_PAGE = 64, 1 << 21
"""A cache line, and the large page for which NumPy asks the system where an array takes several."""
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


@kernel(entry=True)
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


def aligned(count: int, dtype: npt.DTypeLike, boundary: int = LINE_BYTES) -> npt.NDArray[Any]:
    """Give zeros whose address is a multiple of ``boundary``. Nothing is touched: pages come as they are needed."""
    size = count * np.dtype(dtype).itemsize
    memory = np.zeros(size + boundary, np.uint8)
    skipped = -address(memory) % boundary
    return memory[skipped : skipped + size].view(dtype)


def power_of_two(least: int) -> int:
    """Give the exponent of the smallest power of two that is at least ``least``."""
    return max(least - 1, 1).bit_length()


class Merges(NamedTuple):
    """The merges of a vocabulary.

    Attributes:
        lefts, rights: uint32[pairs], the ids of the two parts.
        ranks: uint32[pairs], the rank of each pair; pairs that make the same token may share it.
        merged: uint32[highest rank + 1], the id that a merge of each rank makes.

    """

    lefts: Ids
    rights: Ids
    ranks: Ids
    merged: Ids


class Model:
    """The tables of one vocabulary. Build one with :func:`load_embedded` or :meth:`from_ranks`.

    Attributes:
        merges: the merges, as they were given.
        order: the merges as the tables have them: where ids rise with ranks, the id stands for the rank.
        starts: uint32[ids + 1], where each token starts in ``blob``; a gap in the ids has no bytes.
        blob: uint8, the bytes of all tokens, special ones included.
        byte_ids: uint32[256], the id of each byte; from MISSING on for a byte that the vocabulary does not have.
        specials: the special tokens and their ids; they decode, and encoding never finds them by their bytes.
        split: the family of the pattern and its parameters.
        incomplete: some bytes have no token of their own.
        whole: a piece that is a token is that token, before any merge is tried.
        closed: every token but special ones is what its bytes encode to; the cache is then filled without merging.
        classes: the class table that the split reads; the pinned one, but for few tokenizers of Hugging Face.
        joins, crossings: the characters that merging joins first (see joins.py).
        tables: a record of addresses for kernels.

    """

    def __init__(
        self,
        merges: Merges,
        starts: Ids,
        blob: Bytes,
        specials: Mapping[str, int],
        split: Split,
        whole: bool = False,
        classes: Bytes | None = None,
        closed: bool = False,
    ) -> None:
        self.merges, self.starts, self.blob, self.split, self.whole = merges, starts, blob, split, whole
        self.specials = dict(specials)
        self.ids = len(starts) - 1
        if self.ids > MISSING:
            raise ValueError(f"ids go up to {self.ids - 1}, which is too large; at most {MISSING - 1} is supported")
        self.byte_ids = np.arange(MISSING, MISSING + BYTES, dtype=np.uint32)
        singles = np.flatnonzero(np.diff(starts.astype(np.int64)) == 1)
        self.byte_ids[blob[starts[singles]]] = singles
        self.incomplete = len(singles) < BYTES
        self.classes = load_class_table() if classes is None else classes
        by_id = bool(np.all(np.diff(merges.merged.astype(np.int64)) > 0))
        self.order = self._by_id() if by_id else merges
        pair_bits = max(power_of_two(2 * len(merges.lefts)) - BUCKET_BITS, 1)
        self.pair_slots = aligned(1 << pair_bits + BUCKET_BITS, np.uint64)
        self.pair_slots[:] = EMPTY
        piece_bits = power_of_two(2 * self.ids)
        self.piece_slots = np.full(1 << piece_bits, NO_ID, np.uint32)
        self.byte_pairs = self._byte_pairs()
        self.merged = merges.merged
        self.joins, self.crossings = self._joins()
        self.tables = self._record(64 - pair_bits, 64 - piece_bits, by_id, whole or closed)
        self.address = address(self.tables)
        self._fill_slots(64 - pair_bits)
        self._add_specials()

    def _record(self, pair_shift: int, piece_shift: int, by_id: bool, closed: bool) -> npt.NDArray[Any]:
        """Make the record for kernels."""
        tables = np.zeros(1, TABLES)
        for name in TABLE_NAMES:
            tables[name] = address(getattr(self, name))
        tables["pair_shift"], tables["piece_shift"] = pair_shift, piece_shift
        tables["ids"], tables["whole"], tables["by_id"] = self.ids, self.whole, by_id
        tables["closed"] = min([self.ids, *self.specials.values()]) if closed else 0
        for name, value in self.split._asdict().items():
            tables[name] = value
        return tables

    def _by_id(self) -> Merges:
        """Give the merges with the id that each makes in place of its rank: a merge then needs no look-up of the id."""
        lefts, rights, ranks, merged = self.merges
        ids = np.arange(int(merged[-1]) + 1 if len(merged) else 0, dtype=np.uint32)
        return Merges(lefts, rights, merged[ranks], ids)

    def _fill_slots(self, pair_shift: int) -> None:
        lefts, rights, ranks, _ = self.order
        pairs = (address(lefts), address(rights), address(ranks), len(lefts))
        twice = insert_pairs(address(self.pair_slots), pair_shift, *pairs)
        if twice == FLOODED:
            raise ValueError("the merges are chosen so that nearly all are looked for in the same places")
        if twice:
            found, counts = np.unique(np.stack((lefts, rights)), axis=1, return_counts=True)
            left, right = found[:, counts > 1][:, 0].tolist()
            raise ValueError(f"two merges have the same pair of ids, {left} and {right}")
        twice = insert_pieces(self.address)
        if twice == FLOODED:
            raise ValueError("the tokens are chosen so that nearly all are looked for in the same places")
        if twice:
            owners: dict[bytes, int] = {}
            for token in range(self.ids):
                data = self.token_bytes(token)
                if data and owners.setdefault(data, token) != token:
                    raise ValueError(f"two ids have the same bytes, {data!r}: {owners[data]} and {token}")

    @classmethod
    def from_merges(
        cls, byte_order: Bytes, merges: Merges, specials: Mapping[str, int], split: Split, closed: bool = False
    ) -> Model:
        """Build the tables from merges whose ids rise with their rank; the bytes of ``byte_order`` are ids 0 to 255."""
        lefts, rights, _, merged = merges
        starts = np.zeros(int(merged[-1]) + 2 if len(merged) else BYTES + 1, np.uint32)
        starts[: BYTES + 1] = np.arange(BYTES + 1)
        call = (address(lefts), address(rights), address(merged), len(merged), address(starts))
        blob = np.zeros(expand_merges(*call, 0) + BLOB_SLACK, np.uint8)
        blob[:BYTES] = byte_order
        expand_merges(*call, address(blob))
        return cls(merges, starts, blob, specials, split, closed=closed)

    @classmethod
    def from_ranks(cls, ranks: Mapping[bytes, int], specials: Mapping[str, int], split: Split) -> Model:
        """Build the tables from tiktoken's form of a vocabulary: token bytes -> rank, which is the id too.

        Any two neighbours whose bytes together are a token may merge, so every way to cut a token in two tokens is
        entered; and a piece that is a token is that token, whether merges reach it or not.

        Raises:
            ValueError: an empty token, a rank that is negative, too large or given twice.

        """
        tokens = sorted(ranks.items(), key=lambda item: item[1])
        _check_ranks(tokens)
        known = {bytes([byte]): MISSING + byte for byte in range(BYTES)} | dict(ranks)
        merged = [(token, rank) for token, rank in tokens if len(token) > 1]
        sizes_met = sorted({len(token) for token in known})  # a cut elsewhere leaves no token
        pairs = [
            (known[token[:cut]], known[token[cut:]], place)
            for place, (token, _) in enumerate(merged)
            for cut in sizes_met[: bisect_left(sizes_met, len(token))]
            if token[:cut] in known and token[cut:] in known
        ]
        lefts, rights, places = np.array(pairs, np.uint32).reshape(-1, 3).T.copy()
        merges = Merges(lefts, rights, places, np.array([rank for _, rank in merged], np.uint32))
        sizes = np.zeros(tokens[-1][1] + 1 if tokens else 0, np.int64)
        sizes[[rank for _, rank in tokens]] = [len(token) for token, _ in tokens]
        starts = np.concatenate(([0], np.cumsum(sizes))).astype(np.uint32)
        blob = np.frombuffer(b"".join(token for token, _ in tokens) + bytes(BLOB_SLACK), np.uint8)
        return cls(merges, starts, blob, specials, split, whole=True)

    def _add_specials(self) -> None:
        """Give the special ids their bytes, so that they decode; encoding never finds them by their bytes."""
        names: dict[int, bytes] = {}
        for name, token in self.specials.items():
            if not 0 <= token < MISSING:
                raise ValueError(f"special token {name!r} has id {token}; ids are 0 to {MISSING - 1}")
            if token < self.ids and self.starts[token] != self.starts[token + 1]:
                raise ValueError(f"special token {name!r} has id {token}, which is the id of another token")
            names.setdefault(token, name.encode())
        sizes = np.zeros(max([self.ids, *(token + 1 for token in names)]), np.int64)
        sizes[: self.ids] = np.diff(self.starts.astype(np.int64))
        places = sorted(names)
        blob = np.split(self.blob[: int(self.starts[-1])], [self.starts[min(token, self.ids)] for token in places])
        parts = [blob[0]]
        for token, rest in zip(places, blob[1:], strict=True):
            sizes[token] = len(names[token])
            parts += [np.frombuffer(names[token], np.uint8), rest]
        self.starts = np.concatenate(([0], np.cumsum(sizes))).astype(np.uint32)
        self.blob = np.concatenate((*parts, np.zeros(BLOB_SLACK, np.uint8)))
        self.ids = len(sizes)
        self.tables["starts"], self.tables["blob"] = address(self.starts), address(self.blob)
        self.tables["ids"] = self.ids

    def _byte_pairs(self) -> Ids:
        """Make the dense table of the merges of two bytes: uint32[65536], first byte high, rank or NO_RANK."""
        table = np.full(BYTES * BYTES, NO_RANK, np.uint32)
        byte_of = dict(zip(self.byte_ids.tolist(), range(BYTES), strict=True))
        lefts, rights, ranks, _ = self.order
        both = np.flatnonzero(np.isin(lefts, self.byte_ids) & np.isin(rights, self.byte_ids))
        for left, right, rank in zip(lefts[both].tolist(), rights[both].tolist(), ranks[both].tolist(), strict=True):
            table[byte_of[left] * BYTES + byte_of[right]] = rank
        return table

    def _joins(self) -> tuple[npt.NDArray[np.uint64], Ids]:
        """Give the characters that merging joins first (see joins.py); none where parts of merges are no tokens."""
        if self.incomplete:
            return np.full(POINTS, np.uint64(NO_RANK) << np.uint64(32), np.uint64), np.full(1, NO_RANK, np.uint32)
        joins = find_joins(self.order, self.byte_ids, self.byte_pairs, self.ids)
        return joins, find_crossings(self.order, self.starts, self.blob)

    @functools.cached_property
    def ints(self) -> npt.NDArray[np.object_]:
        """The ints of all ids, made for the first list that is asked for: 40 bytes an id."""
        return np.arange(self.ids).astype(object)

    def token_bytes(self, token: int) -> bytes:
        """Give the bytes of one id; empty for a gap."""
        return self.blob[self.starts[token] : self.starts[token + 1]].tobytes()


def _check_ranks(tokens: list[tuple[bytes, int]]) -> None:
    """Refuse what no table can hold; ``tokens`` are in the order of their ranks."""
    last = -1
    for token, rank in tokens:
        if not token:
            raise ValueError(f"the token of rank {rank} is empty; a token has at least one byte")
        if rank <= last:
            why = "is negative" if rank < 0 else "is given twice"
            raise ValueError(f"rank {rank} of token {token!r} {why}; ranks are ids, 0 or greater, one for each token")
        last = rank
    if last >= MISSING:
        raise ValueError(f"rank {last} of token {tokens[-1][0]!r} is too large; ids up to {MISSING - 1} are supported")


def load_embedded(name: str, specials: Mapping[str, int], split: Split) -> Model:
    """Load a vocabulary that the package carries (see :func:`read_merges`), with an extension where it has one.

    Raises:
        ValueError: a special token has the id of another token.

    """
    base, first = EXTENSIONS.get(name, (name, 0))
    packed = _unpack(base)
    merges = read_merges(packed[BYTES:], BYTES)
    if first:
        more = read_merges(_unpack(name), first)
        more = more._replace(ranks=more.ranks + np.uint32(len(merges.ranks)))
        merges = Merges(*(np.concatenate(pair) for pair in zip(merges, more, strict=True)))
    return Model.from_merges(packed[:BYTES], merges, specials, split, closed=True)


EXTENSIONS = {"p50k_base": ("r50k_base", 50257)}
"""Vocabularies that add merges to another one: its name, and the id that the first of them makes."""


def _unpack(name: str) -> Bytes:
    return np.frombuffer(lzma.decompress(read_data(f"{name}.xz")), np.uint8)


def read_merges(packed: Bytes, first: int) -> Merges:
    """Read merges from byte planes: low, middle and high bytes of the left ids, then those of the right ids.

    The layout keeps like next to like, which the compressor likes: 158 kB for 50,000 merges. They make the ids from
    ``first`` on.
    """
    planes = packed.reshape(6, -1).astype(np.uint32)
    lefts = planes[0] | planes[1] << 8 | planes[2] << 16
    rights = planes[3] | planes[4] << 8 | planes[5] << 16
    ranks = np.arange(planes.shape[1], dtype=np.uint32)
    return Merges(lefts, rights, ranks, ranks + np.uint32(first))
