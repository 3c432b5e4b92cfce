"""The GPT-2 study: where the time of a first pass goes, and what other ways to merge would cost, with our own kernels.

Invariant: the parts of a pass add up to it, since the cache is what the others leave; every variant gives the ids of
the package before it is timed.

The parts of one first pass (the cache holds the vocabulary and nothing else, as after ``clear_cache``):

* split: ``fill_ends`` over the text, alone;
* byte mapping: none. GPT-2's own code spells every byte as a letter first; our tables are indexed by bytes;
* merge: each distinct piece that is not a token merged once, alone, which is what an ideal cache leaves to do;
* output: a warm pass that writes its ids less one that only counts them;
* cache: the rest: keys, hashes, look-ups, storing, and pieces that are merged again since another took their entry.

The variants split and merge without any cache, but for the last one, which is the package.

    >>> list(VARIANTS)
    ['rescan', 'heap', 'linked list', 'vocabulary first']
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

import numbatok
from bench.harness import Rounds, interleave
from bench.tables import CACHE_FIRST, COUNT, FIRST_PASS, MERGE, SPLIT, WARM_PASS
from numbatok._llvm import load8, load32, load64, store32
from numbatok.bpe import address
from numbatok.merge import LONG_SCRATCH, SHORT_LIMIT, made_by, merge_long, merge_short
from numbatok.split.scan import fill_ends
from numbatok.table import NO_ID, NO_RANK, pair_rank, piece_id, tables_at
from numbatok.text import text_span

BATCH = 256
RESCAN, HEAP, LIST, VOCABULARY = range(4)
VARIANTS = {"rescan": RESCAN, "heap": HEAP, "linked list": LIST, "vocabulary first": VOCABULARY}
U0, U1, U4, U8 = (np.uint64(value) for value in (0, 1, 4, 8))
ROOM = np.uint64(BATCH)

kernel = numba.njit(nogil=True, error_model="numpy")


@kernel
def merge_by_rescan(t, at, width, tokens, out):  # type: ignore[no-untyped-def]
    """Merge by looking at all pairs in each round: the rule as it is said, quadratic."""
    size = width
    for position in range(width):
        store32(tokens + position * U4, load32(t.byte_ids + load8(at + position) * U4))
    while True:
        least, place = NO_RANK, U0
        for position in range(U1, size):
            left, right = load32(tokens + (position - U1) * U4), load32(tokens + position * U4)
            rank = pair_rank(t.pair_slots, t.pair_shift, left, right)
            if rank < least:
                least, place = rank, position
        if least == NO_RANK:
            break
        store32(tokens + (place - U1) * U4, made_by(t, least))
        for position in range(place + U1, size):
            store32(tokens + (position - U1) * U4, load32(tokens + position * U4))
        size -= U1
    for position in range(size):
        store32(out + position * U4, load32(tokens + position * U4))
    return size


@kernel
def merge_as(form, t, at, width, scratch, out):  # type: ignore[no-untyped-def]
    """Merge one piece in one of the forms."""
    if form == VOCABULARY:
        token = piece_id(t, at, width)
        if token != NO_ID:
            store32(out, token)
            return U1
    if form == RESCAN:
        return merge_by_rescan(t, at, width, scratch, out)
    if form == HEAP or width > SHORT_LIMIT:
        return merge_long(t, at, width, scratch, out)
    return merge_short(t, at, width, scratch, out)


@kernel
def run_variant(form, tables, at, stop, ends, scratch, out):  # type: ignore[no-untyped-def]
    """Split and merge a text without a cache; gives the number of ids."""
    t = tables_at(np.uint64(tables))
    at, stop, ends, scratch = np.uint64(at), np.uint64(stop), np.uint64(ends), np.uint64(scratch)
    out, count = np.uint64(out), U0
    while at < stop:
        pieces = fill_ends(t, at, stop, ends, ROOM)
        for index in range(pieces):
            end = load64(ends + index * U8)
            count += merge_as(form, t, at, end - at, scratch, out + count * U4)
            at = end
    return np.int64(count)


@kernel
def run_split(tables, at, stop, ends):  # type: ignore[no-untyped-def]
    """Only split a text; gives the number of pieces."""
    t = tables_at(np.uint64(tables))
    at, stop, ends, total = np.uint64(at), np.uint64(stop), np.uint64(ends), U0
    while at < stop:
        pieces = fill_ends(t, at, stop, ends, ROOM)
        total += pieces
        at = load64(ends + (pieces - U1) * U8)
    return np.int64(total)


@kernel
def run_merges(tables, starts, widths, scratch, out):  # type: ignore[no-untyped-def]
    """Merge the pieces at some addresses, one after the other."""
    t = tables_at(np.uint64(tables))
    for index in range(len(starts)):
        merge_as(LIST, t, starts[index], widths[index], np.uint64(scratch), np.uint64(out))


class Study:
    """One text, ready to be run in every way."""

    def __init__(self, enc: numbatok.Encoding, data: bytes) -> None:
        self.enc, self.data, self.tables = enc, data, enc._model.address
        self.at, size, self.owner = text_span(data)
        self.stop = self.at + size
        pieces = enc.split(data)
        widest = max(end - start for start, end in pieces)
        self.ends = np.empty(BATCH + 64, np.uint64)
        self.scratch = np.empty((widest + 16) * LONG_SCRATCH, np.uint8)
        self.out = np.empty(size + 64, np.uint32)
        ranks = enc._mergeable_ranks
        distinct = {data[start:end]: start for start, end in reversed(pieces)}
        merged = [(start, len(piece)) for piece, start in distinct.items() if piece not in ranks]
        starts, widths = np.array(sorted(merged), np.uint64).reshape(-1, 2).T.copy()
        self.merges = (starts + np.uint64(self.at), widths)

    def variant(self, form: int) -> int:
        """Run a variant; gives the number of ids."""
        buffers = (address(self.ends), address(self.scratch), address(self.out))
        return int(run_variant(form, self.tables, self.at, self.stop, *buffers))

    def forget(self) -> None:
        """Drop what the cache has learnt."""
        self.enc.clear_cache()
        self.enc.encode_flat("hello")

    def check(self) -> None:
        """Compare the ids of all variants with those of the package.

        Raises:
            ValueError: a variant gives other ids.

        """
        ids = self.enc.encode_flat(self.data)
        for name, form in VARIANTS.items():
            if not np.array_equal(self.out[: self.variant(form)], ids):
                raise ValueError(f"{name} gives other ids than the package: nothing is timed")

    def time(self, rounds: int) -> Rounds:
        """Time the parts and the variants."""
        self.check()
        buffers = (address(self.scratch), address(self.out))
        runs: dict[str, Callable[[], Any]] = {
            SPLIT: lambda: run_split(self.tables, self.at, self.stop, address(self.ends)),
            MERGE: lambda: run_merges(self.tables, *self.merges, *buffers),
            FIRST_PASS: lambda: self.enc.encode_flat(self.data),
            WARM_PASS: lambda: self.enc.encode_flat(self.data),
            COUNT: lambda: self.enc.count(self.data),
        }
        runs |= {name: lambda form=form: self.variant(form) for name, form in VARIANTS.items()}  # type: ignore[misc]
        runs[CACHE_FIRST] = runs[FIRST_PASS]
        for run in runs.values():
            run()
        warm = dict.fromkeys((WARM_PASS, COUNT), lambda: self.enc.encode_flat(self.data))
        return interleave(runs, rounds, before=warm | dict.fromkeys((FIRST_PASS, CACHE_FIRST), self.forget))


def study(corpora: dict[str, bytes], rounds: int) -> list[dict[str, Any]]:
    """Study Moby-Dick's first 32 KiB and React, or what there is in place of them."""
    names = [name for name in corpora if name.startswith(("mobydick-32k", "react"))] or list(corpora)[:1]
    enc = numbatok.get_encoding("gpt2")
    studies = {name: Study(enc, corpora[name]) for name in names}
    return [
        {"text": name, "bytes": len(one.data), "seconds": one.time(rounds), "merges": len(one.merges[0])}
        for name, one in studies.items()
    ]
