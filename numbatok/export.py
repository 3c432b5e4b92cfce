"""Encodings as files that other libraries read: rank files of tiktoken, tokenizer.json of Hugging Face.

Invariant: the library that reads the file gives the ids that the encoding gives. Where its form cannot say what the
encoding does, nothing is written and the error says why.

    >>> last_pair(b"abc", 7, {b"a": 0, b"b": 1, b"c": 2, b"bc": 5, b"abc": 7})
    (b'a', b'bc')
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from numbatok.alphabet import to_text
from numbatok.bpe import Model
from numbatok.huggingface import PARTS, Tokenizer
from numbatok.pieces import read_otherwise
from numbatok.split.patterns import CL100K_ONIGURUMA, CL100K_PATTERN, GPT2_PATTERNS

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def to_tiktoken(model: Model, ranks: Mapping[bytes, int], from_ranks: bool) -> bytes:
    """Give the rank file of a vocabulary; one that was made from ranks can always be written.

    Raises:
        ValueError: tiktoken would give other ids: merges do not come in the order of the ids that they make, or a token
            is not what merging its bytes gives.

    """
    if np.any(np.diff(model.merged.astype(np.int64)) < 0):
        raise ValueError(
            "a rank file says that merges come in the order of the ids that they make, and here they do not; "
            'save it with format="huggingface"'
        )
    strange = None if from_ranks else unreached(model, ranks)
    if strange is not None:
        raise ValueError(
            f"tiktoken reads a piece that is a token as that token, and merging does not give the token {strange!r}; "
            'save it with format="huggingface"'
        )
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks.items())


def unreached(model: Model, ranks: Mapping[bytes, int]) -> bytes | None:
    """Give a token that merging its bytes does not give, whole pieces not looked up; None if there is none."""
    lefts, rights, places, merged = (array.tolist() for array in model.merges)
    pairs = {(left, right): (place, merged[place]) for left, right, place in zip(lefts, rights, places, strict=True)}
    for token, rank in ranks.items():
        ids = model.byte_ids[list(token)].tolist()
        while found := [(pairs[pair], at) for at, pair in enumerate(itertools.pairwise(ids)) if pair in pairs]:
            (_, made), at = min(found)
            ids[at : at + 2] = [made]
        if ids != [rank]:
            return token
    return None


def to_tokenizer(
    model: Model, tokenizer: Tokenizer | None, pattern: str, ranks: Mapping[bytes, int], special: Mapping[str, int]
) -> str:
    """Give the tokenizer.json of an encoding: of one that was read from such a file, or made from ranks.

    Raises:
        ValueError: ``tokenizers`` would give other ids.

    """
    if tokenizer:
        return _written(model, tokenizer)
    vocabulary = {to_text(token): rank for token, rank in ranks.items()}
    if twin := next((name for name in special if name in vocabulary), None):
        raise ValueError(f"special token {twin!r} is spelled like another token, which a tokenizer.json cannot hold")
    if len(set(special.values())) < len(special):
        raise ValueError("two special tokens have the same id, which a tokenizer.json cannot hold")
    merges = canonical_merges(ranks)
    reached = len(merges) == sum(len(token) > 1 for token in ranks)
    return _document(
        vocabulary={**vocabulary, **special},  # with its id: else tokenizers would count on from the size
        merges=[[to_text(left), to_text(right)] for left, right in merges],
        ignore_merges=not reached,
        added=[_added(name, number) for name, number in sorted(special.items(), key=lambda item: item[1])],
        parts={"pre_tokenizer": _pre_tokenizer(pattern), "decoder": {**BYTE_LEVEL, "use_regex": True}},
    )


def canonical_merges(ranks: Mapping[bytes, int]) -> list[tuple[bytes, bytes]]:
    """Give for each token the two that its last merge joins, in the order of ranks; none for one that merging misses.

    These pairs are enough. When the turn of a token comes all lower ranks are used up, and no merge reached across the
    ends of what will be the token; so its bytes look as they do alone, before their last merge. No other pair that
    spells it can be there, nor later, for then it is a token already. That holds while no token is missed that could be
    spelled by a pair later on.

    Raises:
        ValueError: such a token is there.

    """
    pairs = []
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        pair = last_pair(token, rank, ranks) if len(token) > 1 else None
        if pair:
            pairs.append(pair)
        elif late := late_part(token, rank, ranks):
            raise ValueError(
                f"token {token!r} has rank {rank}, its part {late!r} the higher rank {ranks[late]}: "
                "no list of merges gives the same ids"
            )
    return pairs


def late_part(token: bytes, rank: int, ranks: Mapping[bytes, int]) -> bytes | None:
    """Give a part of two that make the token, if it is made by a merge of a higher rank than the token's own."""
    cuts = ((token[:cut], token[cut:]) for cut in range(1, len(token)))
    both = (pair for pair in cuts if pair[0] in ranks and pair[1] in ranks)
    return next((part for pair in both for part in pair if len(part) > 1 and ranks[part] > rank), None)


def last_pair(token: bytes, rank: int, ranks: Mapping[bytes, int]) -> tuple[bytes, bytes] | None:
    """Merge the bytes of a token by lower ranks than its own; gives the two parts that are left, None for more."""
    parts = [token[place : place + 1] for place in range(len(token))]
    while len(parts) > 2:
        best = min(
            (ranks.get(left + right, rank), place) for place, (left, right) in enumerate(itertools.pairwise(parts))
        )
        if best[0] >= rank:
            return None
        parts[best[1] : best[1] + 2] = [parts[best[1]] + parts[best[1] + 1]]
    return parts[0], parts[1]


def _pre_tokenizer(pattern: str) -> dict[str, Any]:
    """Give the pre-tokenizer for a pattern, in the form that the engine of ``tokenizers`` reads as it is meant."""
    if pattern in GPT2_PATTERNS:
        return {**BYTE_LEVEL, "use_regex": True}
    if pattern == CL100K_PATTERN:
        pattern = CL100K_ONIGURUMA
    if read_otherwise(pattern):
        raise ValueError(f"the engine of tokenizers reads the pattern {pattern!r} in another way; it cannot be written")
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [split, BYTE_LEVEL]}


def _written(model: Model, tokenizer: Tokenizer) -> str:
    """Write back what was read from a tokenizer.json."""
    outside = set(model.specials.values())
    spelled = {number: to_text(model.token_bytes(number)) for number in range(model.ids) if number not in outside}
    tokens = {text: number for number, text in spelled.items() if text} | tokenizer.foreign
    order = np.argsort(model.merges.ranks)
    lefts, rights = model.merges.lefts[order].tolist(), model.merges.rights[order].tolist()
    return _document(
        vocabulary=tokens,
        merges=[[spelled[left], spelled[right]] for left, right in zip(lefts, rights, strict=True)],
        ignore_merges=model.whole,
        added=[token._asdict() for token in tokenizer.added],
        parts=tokenizer.parts,
    )


def _added(name: str, number: int) -> dict[str, Any]:
    off = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": name, **off, "special": True}


def _document(
    vocabulary: Mapping[str, int],
    merges: list[list[str]],
    ignore_merges: bool,
    added: list[dict[str, Any]],
    parts: Mapping[str, Any],
) -> str:
    model = {
        "type": "BPE",
        **dict.fromkeys(("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix")),
        **dict.fromkeys(("fuse_unk", "byte_fallback"), False),
        "ignore_merges": ignore_merges,
        "vocab": dict(sorted(vocabulary.items(), key=lambda item: item[1])),
        "merges": merges,
    }
    head = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added}
    return json.dumps({**head, **{name: parts.get(name) for name in PARTS}, "model": model}, ensure_ascii=False)
