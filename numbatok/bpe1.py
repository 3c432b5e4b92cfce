r"""BPE1 files: the bytes of both versions, to and from columns. docs/file-format.md describes them byte by byte.

Version 1 holds tokens and merges. Version 2 adds the pattern, the special tokens, the name and a checksum, and keeps
its numbers in aligned columns. What the columns mean is checked in contents.py; here only the layout is.

Invariant: no size in a file is believed before it was compared with the length of the file, and no byte of a file is
left over. The same content gives the same bytes.

    >>> tokens = Content(np.array([0], np.uint32), np.array([1], np.uint32), b"a", np.zeros((4, 0), np.uint32))
    >>> pack(tokens, 1)
    b'BPE1\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00a'
"""

from __future__ import annotations

import hashlib
import itertools
import struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.uint32]

MAGIC = b"BPE1"
VERSIONS = (1, 2)
VERSION_AT = len(MAGIC)
COUNTS = struct.Struct("<II")
"""Version 1: the numbers of tokens and of merges, behind magic and version."""
ENTRY = struct.Struct("<II")
"""Version 1: id and length of a token, before its bytes."""
HEAD = struct.Struct("<4sBBH6I32s")
"""Version 2: magic, version, flags, 0, six sizes, and the checksum."""
CHECKSUM_AT = HEAD.size - 32
WORD, MERGE = 4, 16
"""Bytes of a number, and of a merge."""
WHOLE, INCOMPLETE = 1, 2
"""Flags of a file of version 2."""
OUTSIDE, SPECIAL = 1, 2
"""Flags of an extra token of version 2."""


class Extra(NamedTuple):
    """A token that is known by its text.

    Attributes:
        text: its text.
        id: its id.
        outside: merging does not know it: it has no entry among the tokens, and its bytes are those of its text.
        special: it is a special token of the encoding; if not, it only decodes.

    """

    text: str
    id: int
    outside: bool = True
    special: bool = True


class Content(NamedTuple):
    """What a BPE1 file says.

    Attributes:
        ids: uint32[tokens], the ids of the tokens, in any order.
        sizes: uint32[tokens], how many bytes each has.
        blob: the bytes of all tokens, one after the other.
        merges: uint32[4, merges], left part, right part, rank and result of each merge, in any order.
        extras: the tokens that are known by their text; the first one of an id is what the id decodes to.
        pattern: the pattern that splits text; empty in version 1.
        pattern_name: a name of the pattern, for people.
        name: the name of the encoding.
        whole: a piece that is a token is that token, before any merge is tried.
        incomplete: some bytes have no token.

    """

    ids: Ids
    sizes: Ids
    blob: bytes
    merges: Ids
    extras: tuple[Extra, ...] = ()
    pattern: str = ""
    pattern_name: str = ""
    name: str = ""
    whole: bool = False
    incomplete: bool = False


# ---- writing ---------------------------------------------------------------------------------------------------------


def pack(content: Content, version: int) -> bytes:
    """Give the bytes of a file; version 1 leaves out all but tokens and merges."""
    return _pack1(content) if version == 1 else _pack2(content)


def _pack1(content: Content) -> bytes:
    ends = np.cumsum(content.sizes, dtype=np.int64).tolist()
    tokens = zip(content.ids.tolist(), content.sizes.tolist(), itertools.pairwise([0, *ends]), strict=True)
    entries = (ENTRY.pack(number, size) + content.blob[start:end] for number, size, (start, end) in tokens)
    merges = content.merges.T.astype("<u4").tobytes()
    head = MAGIC + bytes([1]) + COUNTS.pack(len(content.ids), content.merges.shape[1])
    return b"".join((head, *entries, merges))


def _pack2(content: Content) -> bytes:
    texts = [extra.text.encode() for extra in content.extras]
    names = [text.encode() for text in (content.name, content.pattern_name, content.pattern)]
    extras = np.array(
        [(extra.id, OUTSIDE * extra.outside | SPECIAL * extra.special) for extra in content.extras], np.uint32
    ).reshape(-1, 2)
    sizes = np.array([len(text) for text in texts], np.uint32)
    columns = (content.ids, content.sizes, *content.merges, *extras.T, sizes)
    body = b"".join((*(column.astype("<u4").tobytes() for column in columns), content.blob, *texts, *names))
    counts = (len(content.ids), content.merges.shape[1], len(texts), *map(len, names))
    flags = WHOLE * content.whole | INCOMPLETE * content.incomplete
    head = HEAD.pack(MAGIC, 2, flags, 0, *counts, b"")[:CHECKSUM_AT]
    return head + hashlib.sha256(head + body).digest() + body


# ---- reading ---------------------------------------------------------------------------------------------------------


def unpack(data: bytes, file: str) -> Content:
    """Read the bytes of a file of either version; ``file`` names it in errors.

    Raises:
        ValueError: the layout is broken: says which field is wrong, what was met and what was expected.

    """
    if data[: len(MAGIC)] != MAGIC:
        raise ValueError(f"{file}: magic: the file begins with {data[:4]!r}, and a BPE1 file begins with {MAGIC!r}")
    if len(data) == VERSION_AT:
        raise _cut(file, "version", len(data), VERSION_AT + 1)
    version = data[VERSION_AT]
    if version not in VERSIONS:
        raise ValueError(f"{file}: version: {version} was met, and 1 and 2 are supported")
    return _unpack1(data, file) if version == 1 else _unpack2(data, file)


def version_of(data: bytes) -> int | None:
    """Give the version of a BPE1 file by its first five bytes; None for another file.

    >>> version_of(b"BPE1\2"), version_of(b"#version: 0.2")
    (2, None)
    """
    return data[VERSION_AT] if data.startswith(MAGIC) and len(data) > VERSION_AT else None


def _unpack1(data: bytes, file: str) -> Content:
    at = VERSION_AT + 1 + COUNTS.size
    if len(data) < at:
        raise _cut(file, "vocab_size and merge_count", len(data), at)
    tokens, merges = COUNTS.unpack_from(data, VERSION_AT + 1)
    least = at + ENTRY.size * tokens + MERGE * merges
    if least > len(data):
        raise _cut(file, f"vocab_size {tokens} and merge_count {merges}", len(data), least)
    ids, sizes, parts = [], [], []
    for place in range(tokens):
        start = at + ENTRY.size
        if start > len(data):
            raise _cut(file, f"vocabulary entry {place}", len(data), start)
        number, size = ENTRY.unpack_from(data, at)
        at = start + size
        if at > len(data):
            raise _cut(file, f"vocabulary entry {place} (id {number}, length {size})", len(data), at)
        ids.append(number)
        sizes.append(size)
        parts.append(data[start:at])
    _check_end(file, "merges", len(data), at + MERGE * merges)
    rows = np.frombuffer(data, "<u4", 4 * merges, at).reshape(-1, 4)
    content = Content(np.array(ids, np.uint32), np.array(sizes, np.uint32), b"".join(parts), _native(rows.T))
    _check_ranks_differ(content, file)
    return content


def _check_ranks_differ(content: Content, file: str) -> None:
    found, places, counts = np.unique(content.merges[2], return_index=True, return_counts=True)
    if len(found) < content.merges.shape[1]:
        rank = int(found[counts > 1][0])
        raise ValueError(f"{file}: merge {places[counts > 1][0]}: another merge has its rank {rank}, too")


def _unpack2(data: bytes, file: str) -> Content:
    if len(data) < HEAD.size:
        raise _cut(file, "header", len(data), HEAD.size)
    _, _, flags, reserved, *counts, checksum = HEAD.unpack_from(data)
    tokens, merges, extras, *lengths = counts
    columns = [tokens, tokens, *[merges] * 4, *[extras] * 3]
    start = HEAD.size + WORD * sum(columns)
    if start > len(data):
        sizes = f"vocab_size {tokens}, merge_count {merges} and extra_count {extras}"
        raise _cut(file, sizes, len(data), start)
    words = np.split(_native(np.frombuffer(data, "<u4", sum(columns), HEAD.size)), np.cumsum(columns)[:-1])
    blob, texts = (int(words[place].sum(dtype=np.uint64)) for place in (1, 8))
    _check_end(file, "bytes and texts", len(data), start + blob + texts + sum(lengths))
    digest = hashlib.sha256(memoryview(data)[:CHECKSUM_AT])
    digest.update(memoryview(data)[HEAD.size :])
    if digest.digest() != checksum:
        raise ValueError(f"{file}: checksum: the bytes are not those that were written; take another copy of the file")
    if reserved or flags & ~(WHOLE | INCOMPLETE):
        raise ValueError(f"{file}: flags: {flags} and {reserved} were met; expected 0 to 3, and 0")
    found = _texts(data[start + blob :], [*words[8].tolist(), *lengths], file)
    name, pattern_name, pattern = found[extras:]
    return Content(
        words[0],
        words[1],
        data[start : start + blob],
        np.stack(words[2:6]),
        tuple(_extra(*row, file) for row in zip(found, words[6].tolist(), words[7].tolist(), strict=False)),
        pattern,
        pattern_name,
        name,
        bool(flags & WHOLE),
        bool(flags & INCOMPLETE),
    )


def _native(words: npt.NDArray[np.uint32]) -> Ids:
    """Give numbers of a file in the byte order of the machine, as a copy that outlives the file."""
    return np.array(words, np.uint32, order="C")


def _texts(data: bytes, sizes: list[int], file: str) -> list[str]:
    """Cut the end of a file into its texts."""
    texts = []
    for start, end in itertools.pairwise(itertools.accumulate(sizes, initial=0)):
        try:
            texts.append(data[start:end].decode())
        except UnicodeDecodeError as error:
            raise ValueError(f"{file}: text {len(texts)}: {data[start:end][:40]!r} is not UTF-8: {error}") from None
    return texts


def _extra(text: str, number: int, flags: int, file: str) -> Extra:
    if flags not in (OUTSIDE, SPECIAL, OUTSIDE | SPECIAL):
        raise ValueError(f"{file}: extra token {text!r}: its flags are {flags}; expected 1 to 3")
    return Extra(text, number, bool(flags & OUTSIDE), bool(flags & SPECIAL))


def _cut(file: str, field: str, size: int, needed: int) -> ValueError:
    """Make the error for a file that ends too early."""
    return ValueError(f"{file}: {field}: at least {needed} bytes are needed, and the file has {size}; it is cut short")


def _check_end(file: str, field: str, size: int, end: int) -> None:
    """Refuse a file that is shorter or longer than it says."""
    if size < end:
        raise _cut(file, field, size, end)
    if size > end:
        raise ValueError(f"{file}: {size - end} bytes are left behind the last field, which ends at byte {end}")
