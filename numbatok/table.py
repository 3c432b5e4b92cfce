"""The flat tables of one vocabulary: merges by pair, ids by bytes, bytes by id; and the record that carries them.

Invariant: a table is a power of two of slots, indexed by the high bits of an unsigned product, at most half full, with
:data:`EMPTY` in free slots, so that a probe always ends. Kernels get one address of a :data:`TABLES` record, whose
fields are the addresses of arrays that the model owns and keeps alive.

A merge is one word: left id in 21 bits, right id in 21 bits, rank in 22 bits. A pair therefore costs one probe of one
word, and vocabularies may have up to 2,097,152 ids.

    pack_pair(1, 2) == 0x80000800000
"""

from __future__ import annotations

import numpy as np

from numbatok._jit import kernel
from numbatok._llvm import load8, load32, load64, match8, prefetch, record_at, store32, store64, trailing_zeros

ID_BITS, RANK_BITS, BUCKET_BITS = 21, 22, 3

TABLES = np.dtype(
    [
        ("classes", "u8"),  # uint8: the two-stage class table of unicode.py
        ("pair_slots", "u8"),  # uint64[2**k, 8]: buckets of packed merges, EMPTY where free
        ("pair_shift", "u8"),  # 64 - k
        ("merged", "u8"),  # uint32[merges]: rank -> id that the merge makes
        ("by_id", "u8"),  # 1: ids rise with ranks, and wherever a rank is meant the tables have the id that it makes
        ("byte_ids", "u8"),  # uint32[256]: byte -> id
        ("byte_pairs", "u8"),  # uint32[65536]: two bytes, first one high -> rank of their merge or NO_RANK
        ("joins", "u8"),  # uint64[65536]: code point -> rank << 32 | token, see joins.py
        ("crossings", "u8"),  # uint32[257 * 256]: bytes at a border -> rank
        ("piece_slots", "u8"),  # uint32[2**k]: ids hashed by their bytes, NO_ID where free
        ("piece_shift", "u8"),  # 64 - k
        ("blob", "u8"),  # uint8: the bytes of all tokens one after the other, 16 bytes of slack behind
        ("starts", "u8"),  # uint32[ids + 1]: where each token starts in the blob
        ("closed", "u8"),  # every token below this id is what its bytes encode to
        ("whole", "u8"),  # 1: a piece that is a token is that token, before any merge is tried
        ("family", "u8"),  # which split: see split/scan.py, and its parameters
        ("letters", "u8"),
        ("digits", "u8"),
        ("final", "u8"),
        ("contractions", "u8"),
        ("slash", "u8"),
        ("han", "u8"),
        ("ids", "u8"),  # number of ids that the blob covers, gaps included (a gap has no bytes)
    ]
)
tables_at = record_at(TABLES)

EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)
NO_RANK = np.uint64(0xFFFFFFFF)
NO_ID = np.uint64(0xFFFFFFFF)
RANK_MASK = np.uint64((1 << RANK_BITS) - 1)
RANK_SHIFT = np.uint64(RANK_BITS)
LEFT_SHIFT = np.uint64(RANK_BITS + ID_BITS)
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIXER = np.uint64(0xD6E8FEB86659FD93)
U0, U1, U4, U7, U8, U32, U64 = (np.uint64(value) for value in (0, 1, 4, 7, 8, 32, 64))
MOST_STEPS, FLOODED = np.uint64(64), np.uint64(0xFFFFFFFFFFFFFFFF)
"""Slots that an entry may take on average, and what is said of entries chosen to meet in the same few: a file made to
be slow would take hours."""
LINE, LAST_SLOT = np.uint64(64), np.uint64(56)


@kernel
def pack_pair(left, right):
    """Give the packed merge of two ids with rank 0: the key part of a slot."""
    return (left << LEFT_SHIFT) | (right << RANK_SHIFT)


@kernel
def pair_bucket(key, shift):
    """Give the first bucket to look into for a packed pair (Knuth's multiplicative hash after one fold)."""
    return ((key ^ (key >> U32)) * GOLDEN) >> shift


@kernel
def pair_rank(slots, shift, left, right):
    """Give the rank of the merge of two ids, or NO_RANK.

    One comparison of a bucket, which is one cache line, in place of a chain of branches that nothing can foresee.
    """
    key = pack_pair(left, right)
    bucket = pair_bucket(key, shift)
    line = slots + bucket * LINE
    hits = match8(line, key, RANK_MASK)
    while (hits == U0) & (load64(line + LAST_SLOT) != EMPTY):  # a full bucket, which few are: go on with the next one
        bucket = (bucket + U1) & ((U1 << (U64 - shift)) - U1)
        line = slots + bucket * LINE
        hits = match8(line, key, RANK_MASK)
    rank = load64(line + (trailing_zeros(hits) & U7) * U8) & RANK_MASK
    return rank if hits else NO_RANK


@kernel
def prefetch_pair(t, left, right):
    """Prefetch what :func:`pair_rank` will read."""
    prefetch(t.pair_slots + pair_bucket(pack_pair(left, right), t.pair_shift) * LINE)


@kernel(entry=True)
def insert_pairs(slots, shift, lefts, rights, ranks, count):
    """Enter pairs and their ranks into empty buckets; gives the number of pairs met twice, or FLOODED.

    Contract: ``lefts``, ``rights`` and ``ranks`` are uint32[count]; the table has at least 2 * count slots. A pair met
    twice keeps the rank that came first.
    """
    slots, shift, lefts, rights = np.uint64(slots), np.uint64(shift), np.uint64(lefts), np.uint64(rights)
    ranks = np.uint64(ranks)
    slot_mask = (U8 << (U64 - shift)) - U1
    twice, steps, most = U0, U0, MOST_STEPS * (np.uint64(count) + MOST_STEPS)
    for index in range(np.uint64(count)):
        key = pack_pair(load32(lefts + index * U4), load32(rights + index * U4))
        slot = pair_bucket(key, shift) * U8
        entry = load64(slots + slot * U8)
        while entry != EMPTY and (entry ^ key) > RANK_MASK:
            slot = (slot + U1) & slot_mask
            entry = load64(slots + slot * U8)
            steps += U1
        if steps > most:
            return FLOODED
        if entry == EMPTY:
            store64(slots + slot * U8, key | load32(ranks + index * U4))
        else:
            twice += U1
    return twice


@kernel
def hash_bytes(at, width):
    """Give a 64-bit hash of ``width`` bytes (eight at a time, multiply and fold)."""
    state = width * GOLDEN
    end = at + width
    while at + U8 <= end:
        state = (state ^ load64(at)) * MIXER
        state ^= state >> U32
        at += U8
    while at < end:
        state = (state ^ load8(at)) * GOLDEN
        at += U1
    return (state ^ (state >> U32)) * MIXER


@kernel
def same_bytes(one, other, width):
    """Tell whether two ranges of ``width`` bytes hold the same."""
    end = one + width
    while one + U8 <= end:
        if load64(one) != load64(other):
            return False
        one += U8
        other += U8
    while one < end:
        if load8(one) != load8(other):
            return False
        one += U1
        other += U1
    return True


@kernel
def is_token(t, token, at, width):
    """Tell whether a token has exactly these bytes."""
    start = load32(t.starts + token * U4)
    size = load32(t.starts + token * U4 + U4) - start
    return size == width and same_bytes(t.blob + start, at, width)


@kernel
def piece_id(t, at, width):
    """Give the id of the token with exactly these bytes, or NO_ID. Contract: width >= 1."""
    mask = (U1 << (U64 - t.piece_shift)) - U1
    slot = hash_bytes(at, width) >> t.piece_shift
    token = load32(t.piece_slots + slot * U4)
    while token != NO_ID:
        if is_token(t, token, at, width):
            return token
        slot = (slot + U1) & mask
        token = load32(t.piece_slots + slot * U4)
    return NO_ID


@kernel(entry=True)
def find_token(tables, at, width):
    """Give the id of the token with exactly these bytes, or -1 (the entry from Python)."""
    token = piece_id(tables_at(np.uint64(tables)), np.uint64(at), np.uint64(width))
    return np.int64(-1) if token == NO_ID else np.int64(token)


@kernel(entry=True)
def insert_pieces(tables):
    """Enter every token with bytes into the empty piece slots; gives the number of tokens met twice, or FLOODED.

    Contract: the table has at least twice as many slots as there are ids.
    """
    t = tables_at(np.uint64(tables))
    mask = (U1 << (U64 - t.piece_shift)) - U1
    twice, steps, most = U0, U0, MOST_STEPS * (t.ids + MOST_STEPS)
    for token in range(t.ids):
        start = load32(t.starts + token * U4)
        size = load32(t.starts + token * U4 + U4) - start
        if size == U0:
            continue
        slot = hash_bytes(t.blob + start, size) >> t.piece_shift
        other = load32(t.piece_slots + slot * U4)
        while other != NO_ID and not is_token(t, other, t.blob + start, size):
            slot = (slot + U1) & mask
            other = load32(t.piece_slots + slot * U4)
            steps += U1
        if steps > most:
            return FLOODED
        if other == NO_ID:
            store32(t.piece_slots + slot * U4, token)
        else:
            twice += U1
    return twice
