r"""A reader of BPE1 files, written from docs/file-format.md alone, and the encoder that the page describes.

Invariant: nothing here imports numbatok, and nothing is checked: a file that the page calls legal is read, number by
number. What the package reads and writes is compared with it.

    >>> tokens = b"\0\0\0\0\1\0\0\0a" + b"\1\0\0\0\2\0\0\0aa"
    >>> read(b"BPE1\1\2\0\0\0\1\0\0\0" + tokens + struct.pack("<4I", 0, 0, 7, 1)).encode(b"aaa")
    [1, 0]
"""

import itertools
import struct
from typing import Any, NamedTuple

LOST = 4294967040


class File(NamedTuple):
    """What a file says; the fields of version 2 are empty for version 1."""

    tokens: dict[int, bytes]
    merges: dict[tuple[int, int], tuple[int, int]]  # left, right -> rank, result
    extras: tuple[tuple[int, int, str], ...] = ()  # id, flags, text
    name: str = ""
    pattern: str = ""
    flags: int = 0

    def encode(self, piece: bytes) -> list[int]:
        """Give the ids of a piece."""
        of = {token: number for number, token in self.tokens.items()}
        if self.flags & 1 and piece in of:
            return [of[piece]]
        ids = [of.get(piece[at : at + 1], LOST + piece[at]) for at in range(len(piece))]
        while found := [(self.merges[pair][0], at) for at, pair in enumerate(pairs(ids)) if pair in self.merges]:
            _, at = min(found)
            ids[at : at + 2] = [self.merges[ids[at], ids[at + 1]][1]]
        return ids

    def order(self) -> list[tuple[int, int, int]]:
        """Give the merges in the order of their ranks, and where a rank is shared, of their parts."""
        rows = sorted((rank, *pair, made) for pair, (rank, made) in self.merges.items())
        return [row[1:] for row in rows]


def pairs(ids: list[int]) -> list[tuple[int, int]]:
    """Give the pairs of neighbours."""
    return list(itertools.pairwise(ids))


def read(data: bytes) -> File:
    """Read a file of version 1 or 2."""
    return read2(data) if data[4] == 2 else read1(data)


def read1(data: bytes) -> File:
    """Read a file of version 1."""
    vocab_size, merge_count = struct.unpack_from("<II", data, 5)
    at, tokens = 13, {}
    for _ in range(vocab_size):
        number, length = struct.unpack_from("<II", data, at)
        tokens[number] = data[at + 8 : at + 8 + length]
        at += 8 + length
    rows = [struct.unpack_from("<4I", data, at + 16 * place) for place in range(merge_count)]
    return File(tokens, {(left, right): (rank, made) for left, right, rank, made in rows})


def read2(data: bytes) -> File:
    """Read a file of version 2."""
    flags, t, m, x, *sizes = struct.unpack_from("<xxxxxBxx6I", data)
    at = 64

    def column(count: int) -> tuple[Any, ...]:
        nonlocal at
        found = struct.unpack_from(f"<{count}I", data, at)
        at += 4 * count
        return found

    def take(size: int) -> bytes:
        nonlocal at
        at += size
        return data[at - size : at]

    ids, lengths = column(t), column(t)
    rows = list(zip(column(m), column(m), column(m), column(m), strict=True))
    numbers, kinds, widths = column(x), column(x), column(x)
    tokens = {number: take(length) for number, length in zip(ids, lengths, strict=True)}
    texts = [take(width).decode() for width in widths]
    name, _, pattern = (take(size).decode() for size in sizes)
    merges = {(left, right): (rank, made) for left, right, rank, made in rows}
    return File(tokens, merges, tuple(zip(numbers, kinds, texts, strict=True)), name, pattern, flags)
