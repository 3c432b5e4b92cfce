"""What a BPE1 file says, to the tables of a model and back; every statement of a file is checked on the way in.

Invariant: a content that is taken has one token for each id and for each bytes, a token for each byte (unless it says
that some are missing), and merges whose result is their two parts joined. Models that give the same ids for the same
reasons have the same content, whatever the order of their tables.

    >>> from numbatok import get_encoding
    >>> enc = get_encoding("gpt2")
    >>> content = content_of(enc._model, enc._special_tokens)
    >>> content.merges[:, 0].tolist(), content.extras[0].text
    ([220, 83, 0, 256], '<|endoftext|>')
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from numbatok.bpe import BLOB_SLACK, BYTES, MISSING, Bytes, Ids, Merges, Model
from numbatok.bpe1 import Content, Extra
from numbatok.split.named import name_of
from numbatok.split.patterns import Split
from numbatok.table import RANK_BITS

MOST_RANKS = (1 << RANK_BITS) - 1
LOST = (1 << 32) - BYTES
"""Stands in files for byte 0 as a part of a merge where no token is that byte, LOST + 1 for byte 1, and so on."""
MOST_BYTES = (1 << 32) - BYTES - 1
"""Places in the blob of a model have 32 bits."""
WORD = 8
"""Bytes that are compared as one number."""
LOW_BYTES = np.array([(1 << 8 * size) - 1 for size in range(WORD + 1)], np.uint64)
COMPARED = 1 << 20
"""Bytes of results that are compared with their parts at a time."""

Places = npt.NDArray[np.int64]


def spans(starts: npt.NDArray[Any], sizes: npt.NDArray[Any]) -> Places:
    """Give the places of all bytes of some ranges, one range after the other.

    >>> spans(np.array([7, 2]), np.array([3, 1])).tolist()
    [7, 8, 9, 2]
    """
    ends = np.cumsum(sizes, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts.astype(np.int64) - ends + sizes, sizes) + np.arange(total)


# ---- model to content ------------------------------------------------------------------------------------------------


def content_of(model: Model, special_tokens: Mapping[str, int], pattern: str = "", name: str = "") -> Content:
    """Give the content for a model, its tokens and merges in order.

    Args:
        model: the tables.
        special_tokens: the special tokens of the encoding; those of the model that are not among them only decode.
        pattern: the pattern of the encoding.
        name: its name.

    """
    outside = {**model.specials, **_apart(model, special_tokens)}
    sizes = np.diff(model.starts.astype(np.int64))
    sizes[list(outside.values())] = 0
    ids = np.flatnonzero(sizes)
    lefts, rights, ranks, merged = model.merges
    order = np.lexsort((rights, lefts, ranks))
    _, dense = np.unique(ranks, return_inverse=True)
    parts = [np.where(part < MISSING, part, part + np.uint32(LOST - MISSING)) for part in (lefts, rights)]
    merges = np.stack([*parts, dense.astype(np.uint32), merged[ranks]])[:, order]
    extras = [
        Extra(text, number, text in outside, text in special_tokens)
        for text, number in {**outside, **special_tokens}.items()
    ]
    extras.sort(key=lambda extra: (extra.id, extra.text.encode() != model.token_bytes(extra.id), extra.text))
    blob = model.blob[spans(model.starts[ids], sizes[ids])].tobytes()
    facts = (tuple(extras), pattern, name_of(pattern), name, model.whole, model.incomplete)
    return Content(ids.astype(np.uint32), sizes[ids].astype(np.uint32), blob, merges, *facts)


def _apart(model: Model, special_tokens: Mapping[str, int]) -> dict[str, int]:
    """Give the special tokens that stand among the tokens of the model though nothing makes them."""
    inside = {text: number for text, number in special_tokens.items() if text not in model.specials}
    if not inside or model.whole:
        return {}
    known = {*model.merges.lefts.tolist(), *model.merges.rights.tolist(), *model.merged.tolist()}
    spelled = {text: number for text, number in inside.items() if model.token_bytes(number) == text.encode()}
    return {text: number for text, number in spelled.items() if len(text.encode()) > 1 and number not in known}


def with_special_tokens(content: Content, special_tokens: Mapping[str, int], file: str) -> Content:
    """Give a content with these special tokens in place of its own; ``file`` names it in errors.

    A token that the content has, and no merge knows, leaves the others if it is spelled like a special one: files of
    version 1 hold special tokens among them.

    Raises:
        ValueError: a special token has the id of a token that is spelled otherwise.

    """
    ends = np.cumsum(content.sizes, dtype=np.int64)
    apart = []
    extras = [extra for extra in content.extras if not extra.special and extra.text not in special_tokens]
    for text, number in special_tokens.items():
        outside = True
        for place in np.flatnonzero(content.ids == number)[:1].tolist():
            token = content.blob[ends[place] - content.sizes[place] : ends[place]]
            if token != text.encode():
                raise ValueError(f"{file}: special token {text!r} has id {number}, which is the id of {token!r}")
            outside = not (content.whole or len(token) == 1 or np.any(content.merges[[0, 1, 3]] == number))
            apart += [place] * outside
        extras.append(Extra(text, number, outside))
    kept = np.ones(len(content.ids), np.bool_)
    kept[apart] = False
    blob = np.frombuffer(content.blob, np.uint8)[np.repeat(kept, content.sizes)].tobytes()
    return content._replace(ids=content.ids[kept], sizes=content.sizes[kept], blob=blob, extras=tuple(extras))


# ---- content to model ------------------------------------------------------------------------------------------------


def model_of(content: Content, file: str, split: Split) -> Model:
    """Build the tables of a content; ``file`` names it in errors.

    Raises:
        ValueError: it contradicts itself, or no table can hold it: says what is wrong where.

    """
    starts, blob = _tokens(content, file)
    merges = _merges(content, file, starts, blob)
    _check_extras(content, file, starts)
    outside = {extra.text: extra.id for extra in content.extras if extra.outside}
    blob = np.append(blob, np.zeros(BLOB_SLACK, np.uint8))
    try:
        return Model(merges, starts, blob, outside, split, content.whole)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def _tokens(content: Content, file: str) -> tuple[Ids, Bytes]:
    """Give where each token starts, by id, and the bytes of all tokens in that order."""
    ids, sizes, blob = content.ids, content.sizes, np.frombuffer(content.blob, np.uint8)
    if len(blob) > MOST_BYTES:
        raise ValueError(f"{file}: the tokens have {len(blob)} bytes together; at most {MOST_BYTES} are supported")
    if empty := np.flatnonzero(sizes == 0).tolist():
        raise ValueError(f"{file}: vocabulary entry {empty[0]} (id {ids[empty[0]]}) is empty; a token has bytes")
    if np.any(ids[1:] <= ids[:-1]):
        order = np.argsort(ids, kind="stable")
        begins = np.cumsum(sizes, dtype=np.int64) - sizes
        ids, sizes, blob = ids[order], sizes[order], blob[spans(begins[order], sizes[order])]
        if twice := np.flatnonzero(ids[1:] == ids[:-1]).tolist():
            raise ValueError(f"{file}: id {ids[twice[0]]} has two vocabulary entries; each id has one")
    if len(ids) and ids[-1] >= MISSING:
        raise ValueError(f"{file}: id {ids[-1]} is too large; ids up to {MISSING - 1} are supported")
    by_id = np.zeros(int(ids[-1]) + 1 if len(ids) else 0, np.int64)
    by_id[ids] = sizes
    return np.concatenate(([0], np.cumsum(by_id))).astype(np.uint32), blob


def _missing_bytes(content: Content, file: str, starts: Ids, blob: Bytes) -> npt.NDArray[np.bool_]:
    """Tell of each byte whether no token is that byte."""
    missing = np.ones(BYTES, np.bool_)
    missing[blob[starts[np.flatnonzero(np.diff(starts) == 1)]]] = False
    if missing.any() and not content.incomplete:
        raise ValueError(
            f"{file}: vocabulary: no entry is the single byte 0x{int(missing.argmax()):02X}; each byte needs an entry"
        )
    if content.incomplete and not missing.any():
        raise ValueError(f"{file}: flags: some bytes are said to have no token, but all 256 have one")
    return missing


def _merges(content: Content, file: str, starts: Ids, blob: Bytes) -> Merges:
    """Check the merges and put them in order."""
    pairs = np.sort(content.merges[0].astype(np.uint64) << np.uint64(32) | content.merges[1])
    for pair in pairs[1:][pairs[1:] == pairs[:-1]][:1].tolist():  # first: what follows compares the bytes of each
        raise ValueError(f"{file}: two merges have the same pair of ids, {pair >> 32} and {pair & 0xFFFFFFFF}")
    missing = _missing_bytes(content, file, starts, blob)
    tokens = len(starts) - 1
    # Behind the tokens: one without bytes for ids that are not there, and the bytes that no token is.
    sizes = np.concatenate((np.diff(starts.astype(np.int64)), [0], missing))
    begins = np.concatenate((starts, len(blob) + np.arange(BYTES)))
    columns = content.merges.astype(np.int64)
    parts = np.where(columns >= LOST, columns - LOST + tokens + 1, np.minimum(columns, tokens))[[0, 1, 3]]
    parts[2] = np.minimum(columns[3], tokens)
    widths = sizes[parts]
    for place in np.flatnonzero((widths == 0).any(axis=0))[:1].tolist():
        unknown = columns[[0, 1, 3], place][widths[:, place] == 0][0]
        raise ValueError(f"{file}: merge {place}: no vocabulary entry has its id {unknown}")
    every_byte = np.concatenate((blob, np.arange(BYTES, dtype=np.uint8)))
    wrong = np.flatnonzero(widths[0] + widths[1] != widths[2])[:1].tolist()
    for place in wrong or _first_difference(begins[parts], widths, every_byte):
        texts = (every_byte[begins[part] : begins[part] + sizes[part]].tobytes() for part in parts[:, place])
        left, right, made = (f"{text[:40]!r}" for text in texts)
        raise ValueError(f"{file}: merge {place}: its result is {made}, which is not {left} with {right} behind it")
    return _in_order(content.merges, file)


def _first_difference(begins: npt.NDArray[Any], sizes: npt.NDArray[Any], blob: Bytes) -> list[int]:
    """Give the first merge whose result has other bytes than its parts, as a list of one; empty for none.

    Args:
        begins: int64[3, merges], where left part, right part and result start in ``blob``.
        sizes: int64[3, merges], their sizes; the third is the sum of the others.
        blob: the bytes.

    """
    short, long = np.flatnonzero(sizes[2] <= WORD), np.flatnonzero(sizes[2] > WORD)
    words = np.ndarray(len(blob), "<u8", np.append(blob, np.zeros(WORD, np.uint8)), strides=(1,))
    left, right, made = (words[begins[part, short]] & LOW_BYTES[sizes[part, short]] for part in range(3))
    wrong = short[(left | right << (8 * sizes[0, short]).astype(np.uint64)) != made]
    wrong_long = long[_first_long_difference(begins[:, long], sizes[:, long], blob)]
    return sorted([*wrong[:1].tolist(), *wrong_long.tolist()])[:1]


def _first_long_difference(begins: npt.NDArray[Any], sizes: npt.NDArray[Any], blob: Bytes) -> list[int]:
    """Do the same for results of any size, byte by byte, some COMPARED bytes at a time."""
    ends, start = np.cumsum(sizes[2]), 0
    while start < len(ends):
        done = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + COMPARED)))
        some = slice(start, stop)
        made = blob[spans(begins[2, some], sizes[2, some])]
        joined = blob[spans(begins[:2, some].T.ravel(), sizes[:2, some].T.ravel())]
        different = np.flatnonzero(made != joined)
        if len(different):
            return [int(np.searchsorted(ends, done + different[0], "right"))]
        start = stop
    return []


def _in_order(merges: Ids, file: str) -> Merges:
    """Sort merges by rank, and count the ranks from 0 on: only their order matters."""
    if np.any(merges[2, 1:] < merges[2, :-1]):
        merges = merges[:, np.argsort(merges[2], kind="stable")]
    lefts, rights, ranks, made = merges
    rises = ranks[1:] > ranks[:-1]
    for place in np.flatnonzero(~rises & (made[1:] != made[:-1]))[:1].tolist():
        raise ValueError(
            f"{file}: rank {ranks[place]}: its merges make {made[place]} and {made[place + 1]}; "
            "merges share a rank only where they make the same token"
        )
    firsts = np.concatenate(([True], rises)) if len(ranks) else np.zeros(0, np.bool_)
    if np.count_nonzero(firsts) >= MOST_RANKS:
        raise ValueError(
            f"{file}: {np.count_nonzero(firsts)} ranks are too many; fewer than {MOST_RANKS} are supported"
        )
    lefts, rights = (np.where(part < LOST, part, part - np.uint32(LOST - MISSING)) for part in (lefts, rights))
    places = (np.cumsum(firsts) - 1).astype(np.uint32)
    return Merges(lefts.astype(np.uint32), rights.astype(np.uint32), places, made[firsts])


def _check_extras(content: Content, file: str, starts: Ids) -> None:
    """Check the tokens that are known by their text; the model checks that ids of those outside are free."""
    seen: set[str] = set()
    for extra in content.extras:
        where = f"{file}: extra token {extra.text!r}"
        if extra.text in seen:
            raise ValueError(f"{where} comes twice")
        if not extra.outside and not (extra.id < len(starts) - 1 and starts[extra.id] < starts[extra.id + 1]):
            raise ValueError(f"{where}: no vocabulary entry has its id {extra.id}")
        seen.add(extra.text)
