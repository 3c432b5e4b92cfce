r"""Bytes that are not UTF-8: tiktoken's byte-level rule, which reads everything from the last safe place as one piece.

The valid prefix is encoded as text. Its last piece is taken back, with the tokens of blanks before it if it starts with
one; its bytes and all bytes from the first invalid one on are merged as a single piece.

Invariant: decoding gives the bytes back, whatever they are; valid UTF-8 gives the ids of the text.

    >>> from numbatok import get_encoding
    >>> get_encoding("gpt2").encode_ordinary(b"h\xc3")
    [71, 127]
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from numbatok.bpe import Model, address
from numbatok.encoder import merge_bytes
from numbatok.lookup import SLACK
from numbatok.ragged import Ids
from numbatok.text import text_span
from numbatok.worker import WorkerPool

BLANKS = b" \n\t"


def encode_invalid(
    data: bytes, model: Model, pool: WorkerPool, encode: Callable[[bytes], Ids], last_start: Callable[[bytes], int]
) -> Ids:
    """Encode bytes of which some are not UTF-8. ``last_start`` gives where the last piece of a valid text starts."""
    valid = data[: first_invalid(data)]
    start = last_start(valid)
    ids, last = encode(valid), encode(valid[start:])  # a piece start is a fresh start, so ids ends with last
    keep = len(ids) - len(last)
    if len(last) and _is_blank(model, int(last[0])):
        while keep and _is_blank(model, int(ids[keep - 1])):
            keep -= 1
    cut = start - sum(len(model.token_bytes(int(token))) for token in ids[keep : len(ids) - len(last)])
    return np.concatenate((ids[:keep], merge_whole(data[cut:], pool)))


def first_invalid(data: bytes) -> int:
    """Give the index of the first byte that no UTF-8 character explains, or the size."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.start
    return len(data)


def merge_whole(data: bytes, pool: WorkerPool) -> Ids:
    """Merge bytes as one piece, whatever they are."""
    out = np.empty(len(data) + SLACK, np.uint32)
    if not data:
        return out[:0]
    worker = pool.take()
    try:
        at, size, _ = text_span(data)
        while (made := merge_bytes(worker.address, at, size, address(out))) < 0:
            worker.grow_scratch(int(worker.record["needed"][0]))
        return out[:made]
    finally:
        pool.give_back(worker)


def _is_blank(model: Model, token: int) -> bool:
    return all(byte in BLANKS for byte in model.token_bytes(token))
