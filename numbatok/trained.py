"""The encoding that a training makes, from its merges.

Invariant: the ids of a text are those that the merges give, applied in their order to each piece. No other pair of
tokens ever spells a trained token where it could be merged: a merge takes all places where its pair stands, so what
spells a token looks everywhere as it did when the token was made. tiktoken, which joins any neighbours that spell a
token, and looks a whole piece up, therefore gives the same ids; and no two merges make the same token.

    >>> import numpy as np
    >>> from numbatok.split.patterns import GPT2_PATTERNS
    >>> pairs = np.array([[97, 98], [256, 99]], np.uint32)
    >>> enc = make_encoding("mine", (GPT2_PATTERNS[0],), np.arange(256, dtype=np.uint8), pairs, ["<|end|>"], False)
    >>> enc.encode("abc"), enc.encode_single_token("<|end|>")
    ([257], 258)
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping

import numpy as np

from numbatok.alphabet import to_bytes, to_text
from numbatok.bpe import BLOB_SLACK, BYTES, Bytes, Ids, Merges, Model, address, expand_merges
from numbatok.encoding import Encoding
from numbatok.export import BYTE_LEVEL
from numbatok.split.patterns import split_of


def make_encoding(
    name: str, stages: tuple[str, ...], order: Bytes, pairs: Ids, special: list[str], specials_first: bool
) -> Encoding:
    """Make the encoding of merges.

    Args:
        name: its name.
        stages: the pattern, or the patterns one after the other, that split texts.
        order: uint8[256], the bytes in the order of their ids.
        pairs: uint32[merges, 2], the pairs; ids from 256 on are those of the merges before.
        special: the special tokens.
        specials_first: whether they have the first ids, and all others follow; else they have the last ids.

    Raises:
        ValueError: special tokens come first and one is spelled like another token, in a tokenizer.json.

    """
    lefts, rights = np.ascontiguousarray(pairs.T)
    starts, blob = _tokens(order, lefts, rights)
    shift = np.uint32(len(special) if specials_first else 0)
    names = {token: place + (0 if specials_first else BYTES + len(lefts)) for place, token in enumerate(special)}
    ranks = np.arange(len(lefts), dtype=np.uint32)
    merges = Merges(lefts + shift, rights + shift, ranks, ranks + np.uint32(BYTES) + shift)
    starts = np.concatenate((np.zeros(shift, np.uint32), starts))
    if specials_first:
        _refuse_twins(special, starts, blob)
    if len(stages) > 1:
        text = _tokenizer_json(stages, merges, starts, blob, names)
        return Encoding._from_json(text, name, name, slow_split=False)
    return Encoding._from_model(name, stages[0], Model(merges, starts, blob, names, split_of(stages)))


def _tokens(order: Bytes, lefts: Ids, rights: Ids) -> tuple[Ids, Bytes]:
    """Give where the bytes of each token start, and the bytes of all tokens."""
    merged = np.arange(BYTES, BYTES + len(lefts), dtype=np.uint32)
    starts = np.zeros(BYTES + len(lefts) + 1, np.uint32)
    starts[: BYTES + 1] = np.arange(BYTES + 1)
    call = (address(lefts), address(rights), address(merged), len(merged), address(starts))
    blob = np.zeros(expand_merges(*call, 0) + BLOB_SLACK, np.uint8)
    blob[:BYTES] = order
    expand_merges(*call, address(blob))
    return starts, blob


def _token_list(starts: Ids, blob: Bytes) -> list[bytes]:
    edges, data = starts.tolist(), blob.tobytes()
    return [data[start:end] for start, end in itertools.pairwise(edges)]


def _refuse_twins(special: list[str], starts: Ids, blob: Bytes) -> None:
    tokens = set(_token_list(starts, blob))
    for token in special:
        if to_bytes(token) in tokens:
            raise ValueError(
                f"special token {token!r} is spelled like a token that merging makes: tokenizers would give both one "
                'id. Spell it another way, as in "<|name|>"'
            )


def _tokenizer_json(
    stages: tuple[str, ...], merges: Merges, starts: Ids, blob: Bytes, special: Mapping[str, int]
) -> str:
    """Give a tokenizer.json, which unlike a single pattern can say how several split one after the other."""
    tokens = [to_text(token) for token in _token_list(starts, blob)]
    numbers = {token: number for number, token in enumerate(tokens) if token}
    pairs = zip(merges.lefts.tolist(), merges.rights.tolist(), strict=True)
    off = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    how = {"behavior": "Isolated", "invert": False}
    splits = [{"type": "Split", "pattern": {"Regex": stage}, **how} for stage in stages]
    document = {
        "added_tokens": [{"id": number, "content": token, **off, "special": True} for token, number in special.items()],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*splits, BYTE_LEVEL]},
        "decoder": {**BYTE_LEVEL, "use_regex": True},
        "model": {
            "type": "BPE",
            "vocab": {**numbers, **special},
            "merges": [[tokens[left], tokens[right]] for left, right in pairs],
        },
    }
    return json.dumps(document)
