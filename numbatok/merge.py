"""Merging one piece into ids: lowest rank first, leftmost on ties, in two forms that give the same ids.

Invariant: at every moment each symbol that is alive stands at the position of its first byte, so the order of positions
is the order of the text, and "leftmost" is "lowest position".

* :func:`merge_short`, up to 64 bytes: a linked list whose links are one word. Bit i of ``alive`` says that a symbol
  starts at byte i; next and previous are the nearest set bits. The ranks of all pairs lie in one row, and vector minima
  over ``rank << 8 | position`` find the lowest rank and the leftmost place at once.
* :func:`merge_long`, any length: a linked list (token, previous, next) and a binary heap of ``rank << 32 | position``.
  A popped entry counts only if the pair that starts there still has that rank. O(n log n) time, 32 bytes of scratch a
  byte, no recursion.

The rule itself: R. Sennrich, B. Haddow, A. Birch, "Neural Machine Translation of Rare Words with Subword Units", 2016.

    >>> from numbatok import get_encoding
    >>> get_encoding("gpt2").encode_ordinary("abcabc")
    [39305, 39305]
"""

from __future__ import annotations

import numpy as np

from numbatok._jit import kernel
from numbatok._llvm import leading_zeros, load8, load32, load64, minimum16, store32, store64, trailing_zeros
from numbatok.joins import BORDER, join_at
from numbatok.table import NO_RANK, pair_rank, prefetch_pair

U0, U1, U2, U4, U8, U32, U63 = (np.uint64(value) for value in (0, 1, 2, 4, 8, 32, 63))
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
LOW8, LOW32 = np.uint64(0xFF), np.uint64(0xFFFFFFFF)
ASCII_END, BORDER_BYTE = np.uint64(0x80), np.uint64(BORDER)

SHORT_LIMIT = np.uint64(64)
"""Longest piece, in bytes, that the one-word list takes."""
ROW_WIDTH, ROW_BYTES = np.uint64(16), np.uint64(64)
NOTHING = np.uint64(0xFFFFFF00)
"""Row entries of positions where no merge can start are not below this; every ``rank << 8 | position`` is."""

SHORT_SCRATCH = 768
"""Bytes of scratch for a short merge: the row of pairs and the tokens, each with room for one more on both sides."""
ROW_AT, TOKENS_AT = np.uint64(64), np.uint64(64 + 256 + 64)
LONG_SCRATCH = 32
"""Bytes of scratch for each byte of a long merge: token, previous, next, rank (4 each), heap (2 entries of 8)."""


@kernel
def made_by(t, rank):
    """Give the id that the merge of a rank makes."""
    return rank if t.by_id else load32(t.merged + rank * U4)


@kernel
def row_entry(rank, position):
    """Give ``rank << 8 | position``; for NO_RANK what is not below NOTHING in 32 bits."""
    return (rank << U8) | position


@kernel
def start_row(t, at, width, row, tokens):
    """Fill the row with the pairs and the tokens with the ids that merging starts from; gives where symbols start.

    Bytes, or characters where they are sure to be joined first (see joins.py).
    """
    last, seen = load8(at), load8(at)
    store32(tokens, load32(t.byte_ids + last * U4))
    for position in range(U1, width):
        byte = load8(at + position)
        store32(tokens + position * U4, load32(t.byte_ids + byte * U4))
        rank = load32(t.byte_pairs + ((last << U8) | byte) * U4)
        store32(row + (position - U1) * U4, row_entry(rank, position - U1))
        last = byte
        seen |= byte
    fill_nothing(row, width - U1, vectors_of(width) * ROW_WIDTH)
    if seen < ASCII_END:
        return ALL >> (SHORT_LIMIT - width)
    return join_row(t, at, width, row, tokens)


@kernel
def fill_nothing(row, first, last):
    """Say of the positions ``first .. last - 1`` of a row that no merge can start there."""
    for position in range(first, last):
        store32(row + position * U4, NOTHING)


@kernel
def join_row(t, at, width, row, tokens):
    """Join characters in a row of bytes; gives where symbols start."""
    alive, before, last, position = U0, U0, BORDER_BYTE, U0
    joined = False
    while position < width:
        found, step = join_at(t, at + position, at + width, last), U1
        if found:
            step = found >> U32
            store32(tokens + position * U4, found & LOW32)
            for inner in range(U1, step):
                store32(row + (position + inner) * U4, NOTHING)
        if alive and (found or joined):
            left, right = load32(tokens + before * U4), load32(tokens + position * U4)
            store32(row + before * U4, row_entry(pair_rank(t.pair_slots, t.pair_shift, left, right), before))
        alive |= U1 << position
        before, joined = position, found != U0
        position += step
        last = load8(at + position - U1)
    if joined:
        store32(row + before * U4, NOTHING)
    return alive


@kernel
def vectors_of(width):
    """Give the number of vectors in a row of ``width`` entries."""
    return (width + ROW_WIDTH - U1) // ROW_WIDTH


@kernel
def row_minimum(row, vectors):
    """Give the least entry of the row: lowest rank, then leftmost."""
    least = minimum16(row)
    for index in range(U1, vectors):
        least = min(least, minimum16(row + index * ROW_BYTES))
    return least


@kernel
def join_pair(t, row, tokens, alive, least):
    """Make one symbol of the pair that ``least`` names, and prefetch the look-ups of :func:`renew_pairs`.

    Gives where symbols start now, and the positions of the new symbol and of those before and behind it: -1 and 64 if
    there are none. No branch depends on what is found.
    """
    left = least & LOW8
    token = made_by(t, least >> U8)
    after = alive & ~((U2 << left) - U1)  # never empty: the pair has a right part
    right = trailing_zeros(after)
    alive &= ~(U1 << right)
    following = trailing_zeros(after & (after - U1))
    previous = U63 - leading_zeros(alive & ((U1 << left) - U1))
    store32(tokens + left * U4, token)
    store32(row + right * U4, NOTHING)
    prefetch_pair(t, token, load32(tokens + following * U4))
    prefetch_pair(t, load32(tokens + previous * U4), token)
    return alive, previous, left, following


@kernel
def renew_pairs(t, row, tokens, previous, left, following):
    """Look up the two pairs of a new symbol. Where it has no neighbour, the entry goes beside the row or is NOTHING."""
    token = load32(tokens + left * U4)
    behind = pair_rank(t.pair_slots, t.pair_shift, token, load32(tokens + following * U4))
    before = pair_rank(t.pair_slots, t.pair_shift, load32(tokens + previous * U4), token)
    store32(row + left * U4, row_entry(behind, left) if following < SHORT_LIMIT else NOTHING)
    store32(row + previous * U4, row_entry(before, previous))


@kernel
def merge_short(t, at, width, scratch, out):
    """Merge a piece of 1 to SHORT_LIMIT bytes; writes its ids (uint32) to ``out`` and gives their number.

    Contract: ``scratch`` has SHORT_SCRATCH bytes, ``out`` takes ``width`` ids.
    """
    row, tokens = scratch + ROW_AT, scratch + TOKENS_AT
    alive, vectors = start_row(t, at, width, row, tokens), vectors_of(width)
    least = row_minimum(row, vectors)
    while least < NOTHING:
        alive, previous, left, following = join_pair(t, row, tokens, alive, least)
        renew_pairs(t, row, tokens, previous, left, following)
        least = row_minimum(row, vectors)
    return write_alive(tokens, alive, out)


@kernel
def write_alive(tokens, alive, out):
    """Write the tokens of the symbols that are alive; gives their number."""
    count = U0
    while alive:
        store32(out + count * U4, load32(tokens + trailing_zeros(alive) * U4))
        alive &= alive - U1
        count += U1
    return count


@kernel
def sift_down(heap, size, index):
    """Let the entry at ``index`` sink until both children are greater."""
    entry = load64(heap + index * U8)
    child = U2 * index + U1
    while child < size:
        value = load64(heap + child * U8)
        if child + U1 < size:
            other = load64(heap + (child + U1) * U8)
            if other < value:
                child, value = child + U1, other
        if entry <= value:
            break
        store64(heap + index * U8, value)
        index = child
        child = U2 * index + U1
    store64(heap + index * U8, entry)


@kernel
def push(heap, size, entry):
    """Add an entry to a heap of ``size``."""
    index = size
    while index > U0:
        parent = (index - U1) // U2
        value = load64(heap + parent * U8)
        if value <= entry:
            break
        store64(heap + index * U8, value)
        index = parent
    store64(heap + index * U8, entry)


@kernel
def start_list(t, at, width, tokens, following, previous):
    """Fill the list with the symbols that merging starts from: characters that are sure to be joined first, and bytes.

    A symbol stands at the position of its first byte.
    """
    position, before, last = U0, ALL, BORDER_BYTE
    while position < width:
        found = join_at(t, at + position, at + width, last)
        step = found >> U32 if found else U1
        token = found & LOW32 if found else load32(t.byte_ids + load8(at + position) * U4)
        store32(tokens + position * U4, token)
        store32(following + position * U4, position + step)
        store32(previous + position * U4, before)
        before = position
        position += step
        last = load8(at + position - U1)


@kernel
def start_heap(t, at, width, tokens, ranks, following, heap):
    """Fill the ranks of all pairs and make a heap of those that can merge; gives its size."""
    size, left = U0, U0
    right = load32(following)
    while right < width:
        after = load32(following + right * U4)
        if after == left + U2:  # two bytes
            rank = load32(t.byte_pairs + ((load8(at + left) << U8) | load8(at + right)) * U4)
        else:
            rank = pair_rank(t.pair_slots, t.pair_shift, load32(tokens + left * U4), load32(tokens + right * U4))
        store32(ranks + left * U4, rank)
        if rank != NO_RANK:
            store64(heap + size * U8, (rank << U32) | left)
            size += U1
        left, right = right, after
    store32(ranks + left * U4, NO_RANK)
    index = size // U2
    while index > U0:
        index -= U1
        sift_down(heap, size, index)
    return size


@kernel
def renew(t, tokens, ranks, left, right, heap, size):
    """Look up the merge of the symbols at two positions and queue it; gives the new size of the heap."""
    rank = pair_rank(t.pair_slots, t.pair_shift, load32(tokens + left * U4), load32(tokens + right * U4))
    store32(ranks + left * U4, rank)
    if rank == NO_RANK:
        return size
    push(heap, size, (rank << U32) | left)
    return size + U1


@kernel
def merge_long(t, at, width, scratch, out):
    """Merge a piece of any length up to 2**32 - 2 bytes; writes its ids to ``out`` and gives their number.

    Contract: ``scratch`` has LONG_SCRATCH * width bytes, ``out`` takes ``width`` ids.
    """
    step = width * U4
    heap = scratch
    tokens = heap + U2 * width * U8
    ranks, following, previous = tokens + step, tokens + U2 * step, tokens + (U2 + U1) * step
    start_list(t, at, width, tokens, following, previous)
    size = start_heap(t, at, width, tokens, ranks, following, heap)
    while size:
        entry = load64(heap)
        left, rank = entry & LOW32, entry >> U32
        size -= U1
        store64(heap, load64(heap + size * U8))
        sift_down(heap, size, U0)
        if load32(ranks + left * U4) != rank:
            continue  # the pair that was queued here is gone
        right = load32(following + left * U4)
        after = load32(following + right * U4)
        store32(tokens + left * U4, made_by(t, rank))
        store32(ranks + right * U4, NO_RANK)
        store32(ranks + left * U4, NO_RANK)
        store32(following + left * U4, after)
        if after < width:
            store32(previous + after * U4, left)
            size = renew(t, tokens, ranks, left, after, heap, size)
        if left:
            size = renew(t, tokens, ranks, load32(previous + left * U4), left, heap, size)
    return collect(tokens, following, width, out)


@kernel
def collect(tokens, following, width, out):
    """Write the tokens of the list in order; gives their number."""
    count, position = U0, U0
    while position < width:
        store32(out + count * U4, load32(tokens + position * U4))
        position = load32(following + position * U4)
        count += U1
    return count
