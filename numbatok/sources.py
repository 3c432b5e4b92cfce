"""What a trainer reads: texts, streams of texts, files, columns of Arrow, tables of words; as rows, a part at a time.

Invariant: the pieces are those of the whole texts, whatever the size of the parts: a long text is cut at safe cuts only
(see split/cuts.py). What is in memory at a time is a part of some megabytes, besides what the caller holds.

    >>> from numbatok.split.patterns import GPT2_PATTERNS, split_of
    >>> with PieceCounter(split_of(GPT2_PATTERNS[0])) as pieces:
    ...     feed_source(pieces, ["to the top", b" top"])
    ...     pieces.total().counts()[b" top"]
    2
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from numbatok.bpe import address
from numbatok.counter import PieceCounter, Where
from numbatok.files import plain_size
from numbatok.ragged import Rows
from numbatok.room import zeros
from numbatok.split.cuts import find_cut
from numbatok.text import Text, join_rows

PART_BYTES = 1 << 22
"""Text of one source that is read at a time."""
GROUP_BYTES = 1 << 19
"""Texts that are put together."""
LAST_CUT_REACH = 1 << 8
"""How far before the end of a part a safe cut is looked for at first."""
WORDS_AT_A_TIME = 1 << 16
MOST_WEIGHT = 1 << 62
"""Sums of counts must fit 63 bits: the counts of a table, each times the bytes of its word, may sum up to this."""
KINDS = (
    "a text (str or bytes), an iterable of texts, files as pathlib.Path, a column of Arrow, or a mapping of words to "
    "their counts"
)
_CUT = re.compile(r"(?<=[A-Za-z])[ \n]")
"""Some of the safe cuts, found in a str: a letter, then a blank or a line end."""


def is_text(source: Any) -> bool:
    """Tell whether a source is one text."""
    if isinstance(source, np.ndarray):
        return bool(source.dtype == np.uint8)
    return isinstance(source, (str, bytes, bytearray, memoryview))


def is_column(source: Any) -> bool:
    """Tell whether a source holds a column of Arrow."""
    kinds = ("__arrow_c_stream__", "__arrow_c_array__")
    return any(hasattr(source, kind) for kind in kinds) or type(source).__module__.startswith("pyarrow.")


def feed_source(pieces: PieceCounter, source: Any) -> None:
    """Count all pieces of a source.

    Raises:
        TypeError: the source is none of those that are known.
        ValueError: a text is not UTF-8: names the text, row or file, and the place.
        OSError: a file cannot be read.

    """
    if is_text(source):
        _feed_texts(pieces, [source])
    elif isinstance(source, os.PathLike):
        feed_file(pieces, source)
    elif is_column(source):
        _feed_column(pieces, source)
    elif isinstance(source, Iterable) and not isinstance(source, Mapping):
        _feed_items(pieces, source)
    else:
        raise TypeError(f"{type(source).__name__} is nothing to train on; give {KINDS}")


def _feed_items(pieces: PieceCounter, items: Iterable[Any]) -> None:
    """Count what an iterable gives: texts that follow each other together, files and columns one by one."""
    numbered = enumerate(items)
    for number, item in numbered:
        if is_text(item):
            rest = itertools.chain([(number, item)], numbered)
            left = _feed_run(pieces, rest)
            if left is None:
                return
            number, item = left
        if isinstance(item, os.PathLike):
            feed_file(pieces, item)
        elif is_column(item):
            _feed_column(pieces, item)
        else:
            raise TypeError(f"item {number} is {type(item).__name__}; give {KINDS}")


def _feed_run(pieces: PieceCounter, numbered: Iterator[tuple[int, Any]]) -> tuple[int, Any] | None:
    """Count texts up to the first item that is none; gives that, or None at the end."""
    texts: list[Text] = []
    size, first = 0, 0
    for number, item in numbered:
        if type(item) is not str and not is_text(item):
            _feed_texts(pieces, texts, first)
            return number, item
        if texts and len(item) >= GROUP_BYTES:  # alone it is read in place
            _feed_texts(pieces, texts, first)
            texts, size = [], 0
        first = first if texts else number
        texts.append(item)
        size += len(item)
        if size >= GROUP_BYTES:
            _feed_texts(pieces, texts, first)
            texts, size = [], 0
    _feed_texts(pieces, texts, first)
    return None


def _feed_texts(pieces: PieceCounter, texts: list[Text], first: int = 0) -> None:
    """Count texts, in place where they are long enough; ``first`` is the number of the first one."""
    if len(texts) == 1 and isinstance(texts[0], str) and not texts[0].isascii():
        for part in _parts(texts[0]):  # each is copied, since Python keeps such a str in another form; always UTF-8
            pieces.feed(join_rows([part]))
    elif texts:
        pieces.feed(_joined(texts), _numbered("text", first))


def _joined(texts: list[Text]) -> Rows:
    """Put texts into one buffer: many short ones by one call that encodes them all, not by one for each.

    Where each text starts follows from the bytes that start a character.
    """
    try:
        joined = "".join(texts) if len(texts) > 1 else ""  # type: ignore[arg-type]  # what is no str raises
        data = np.frombuffer(joined.encode(), np.uint8)
    except (TypeError, UnicodeEncodeError):  # there is another kind of text, or half of a surrogate pair
        joined = ""
    if not joined:
        return join_rows(texts)
    sizes = np.fromiter(map(str.__len__, texts), np.int64, len(texts))  # type: ignore[arg-type]
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    if len(data) > len(joined):
        starts = np.flatnonzero((data & 0xC0) != 0x80)
        offsets = np.append(starts, len(data))[offsets].astype(np.int64, copy=False)
    return Rows(address(data), offsets, data)


def _numbered(what: str, first: int = 0) -> Where:
    """Give the function that names a place in rows of which the first has this number."""
    return lambda row, place: f"{what} {first + row}, byte {place}"


def _parts(text: str) -> Iterator[str]:
    at = 0
    while len(text) - at > GROUP_BYTES:
        found = _CUT.search(text, at + GROUP_BYTES)
        if found is None:
            break
        yield text[at : found.start()]
        at = found.start()
    yield text[at:]


# ---- files -----------------------------------------------------------------------------------------------------------


def feed_file(pieces: PieceCounter, name: str | os.PathLike[str]) -> None:
    """Count the pieces of a file, which is one text, read part by part.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not UTF-8: names the place.

    """
    shown, start, rest = os.fsdecode(name), 0, np.empty(0, np.uint8)
    with open(name, "rb", buffering=0) as file:
        room = min(PART_BYTES, plain_size(shown) + 1)
        while True:
            part = zeros(len(rest) + room, np.uint8)
            part[: len(rest)] = rest
            size = len(rest) + _fill(file, part[len(rest) :])
            at_end = size < len(part)
            cut = size if at_end else _last_cut(part, size)
            rows = Rows(address(part), np.array([0, cut]), part)
            pieces.feed(rows, _placed(shown, start))
            if at_end:
                return
            rest, start = part[cut:size], start + cut
            room = max(PART_BYTES, len(rest))


def _placed(shown: str, start: int) -> Where:
    """Give the function that names a place in the part of a file that begins at ``start``."""
    return lambda row, place: f"{shown}, byte {start + place}"


def _fill(file: Any, target: npt.NDArray[np.uint8]) -> int:
    """Read until the target is full or the file ends; gives the number of bytes."""
    size = 0
    while size < len(target) and (read := file.readinto(target[size:].data)):
        size += read
    return size


def _last_cut(part: npt.NDArray[np.uint8], size: int) -> int:
    """Give a safe cut near the end of a part, 0 if there is none in it."""
    reach = LAST_CUT_REACH
    while True:
        start = max(size - reach, 0)
        cut = last = find_cut(address(part), start, size)
        while cut < size:
            last, cut = cut, find_cut(address(part), cut + 1, size)
        if last < size or start == 0:
            return last if last < size else 0
        reach *= 16


# ---- columns and tables ----------------------------------------------------------------------------------------------


def _feed_column(pieces: PieceCounter, source: Any) -> None:
    """Count the pieces of a column of Arrow where it lies; nulls have none, a value of a dictionary is split once.

    Raises:
        TypeError: it is no column of text.

    """
    from numbatok import arrays

    column, first = arrays.column_of(source), 0
    arrays._text_type(column)
    if not arrays._is_by_value(column.type):
        for array in arrays.together([arrays.as_text(chunk) for chunk in column.chunks]):
            pieces.feed(arrays.rows_of(array), _numbered(f"{column.name}: row", first))
            first += len(array)
        return
    for values, indices in map(arrays._values_of, column.chunks):
        rows = arrays.rows_of(arrays.as_text(values))
        counts = np.bincount(indices.drop_null().cast("int64").to_numpy(), minlength=len(values))
        pieces.feed(rows, _numbered(f"{column.name}: value of its dictionary or runs, number"), counts)


def feed_words(pieces: PieceCounter, words: Mapping[Any, int]) -> None:
    """Count words that come with their counts; they are not split. Contract: ``pieces`` does not split.

    Raises:
        TypeError: a word is neither str nor bytes, or a count is not an integer.
        ValueError: a count is negative.
        OverflowError: the counts are too large.

    """
    items, total = iter(words.items()), 0
    while part := list(itertools.islice(items, WORDS_AT_A_TIME)):
        for word, count in part:
            whole = isinstance(count, (int, np.integer)) and not isinstance(count, bool)
            if not whole or not isinstance(word, (str, bytes)):
                raise TypeError(f"the table has {word!r}: {count!r}; give words (str or bytes) with whole numbers")
            if count < 0:
                raise ValueError(f"the count of {word!r} is {count}; give 0 or more")
            total += int(count) * (len(word) + 1)
        if total > MOST_WEIGHT:
            raise OverflowError(f"the counts, times the bytes of their words, sum up to more than {MOST_WEIGHT}")
        counts = np.array([int(count) for _, count in part], np.int64)
        pieces.feed(join_rows([word for word, _ in part]), weights=counts)
