"""Encodings as files: BPE1 version 1, rank files of tiktoken, tokenizer.json and the two text files of Hugging Face.

Invariant: whoever reads the file gives the ids that the encoding gives. Where a form cannot say what the encoding does,
nothing is written; the error says what would be lost, and which form can say it.

    >>> from numbatok import get_encoding
    >>> enc = get_encoding("gpt2")
    >>> to_merges(enc._model, enc._mergeable_ranks, enc._special_tokens, True)[1][:19].decode()
    '#version: 0.2\\nĠ t\\n'
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from numbatok.alphabet import to_text
from numbatok.bpe import Model
from numbatok.bpe1 import pack
from numbatok.contents import content_of
from numbatok.huggingface import PARTS, Tokenizer
from numbatok.listing import Listing, listed_merges, made_from_ranks, unreached
from numbatok.pieces import read_otherwise
from numbatok.split.patterns import CL100K_ONIGURUMA, CL100K_PATTERN, GPT2_PATTERNS

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
VERSION_LINE = "#version"
OTHER = 'save it with format="bpe" (version 2) or "huggingface"'


def to_tiktoken(model: Model, ranks: Mapping[bytes, int], from_ranks: bool) -> bytes:
    """Give the rank file of a vocabulary; one that was made from ranks can always be written.

    Raises:
        ValueError: tiktoken would give other ids: merges do not come in the order of the ids that they make, or a token
            is not what merging its bytes gives.

    """
    if np.any(np.diff(model.merged.astype(np.int64)) < 0):
        raise ValueError(
            f"a rank file says that merges come in the order of the ids that they make, and here they do not; {OTHER}"
        )
    if not (from_ranks or made_from_ranks(model, ranks)) and (strange := unreached(model, ranks)) is not None:
        raise ValueError(
            f"tiktoken reads a piece that is a token as that token, and merging does not give the token {strange!r}; "
            f"{OTHER}, or name it among special_tokens if it is one"
        )
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks.items())


def to_bpe1(model: Model, ranks: Mapping[bytes, int], special: Mapping[str, int], from_ranks: bool) -> bytes:
    """Give the BPE1 file of version 1: all tokens, special ones by their text, and the merges.

    Raises:
        ValueError: tokens and merges alone do not give the same ids, or two tokens would be the same.

    """
    listing = _reached(listed_merges(model, ranks, from_ranks), model, ranks, "a BPE1 file of version 1")
    content = content_of(model, special)
    if content.incomplete:
        raise ValueError(f"a BPE1 file of version 1 has a token for each byte, and here some have none; {OTHER}")
    texts = {extra.text.encode(): extra.id for extra in content.extras if extra.outside}
    if len(set(texts.values())) < len(texts):
        raise ValueError(f"two special tokens have the same id, which a BPE1 file of version 1 cannot hold; {OTHER}")
    if twin := next((text for text in texts if text in ranks), None):
        raise ValueError(f"special token {twin.decode()!r} is another token, too, which version 1 cannot hold; {OTHER}")
    everything = {**{model.token_bytes(number): number for number in content.ids.tolist()}, **texts}
    tokens = sorted(everything.items(), key=lambda item: item[1])
    full = content._replace(
        ids=np.array([number for _, number in tokens], np.uint32),
        sizes=np.array([len(token) for token, _ in tokens], np.uint32),
        blob=b"".join(token for token, _ in tokens),
        merges=listing.columns,
    )
    return pack(full, 1)


def to_merges(
    model: Model, ranks: Mapping[bytes, int], special: Mapping[str, int], from_ranks: bool
) -> tuple[bytes, bytes]:
    """Give the two files of GPT-2's form: the ids of all tokens (encoder.json), and the merges (vocab.bpe).

    Raises:
        ValueError: the two files do not give the same ids, or cannot hold the special tokens.

    """
    listing = _reached(listed_merges(model, ranks, from_ranks), model, ranks, "a list of merges")
    pairs = _spelled_pairs(model, listing)
    if any(left.startswith(VERSION_LINE) for left, _ in pairs):
        raise ValueError(f"a merge begins with {VERSION_LINE!r}, and would be read as a comment; {OTHER}")
    ids = json.dumps(_vocabulary(model, special, "a vocabulary of texts"))
    lines = (f"{VERSION_LINE}: 0.2", *(f"{left} {right}" for left, right in pairs), "")
    return ids.encode(), "\n".join(lines).encode()


def _reached(listing: Listing, model: Model, ranks: Mapping[bytes, int], form: str) -> Listing:
    """Refuse merges that do not give every token that is a whole piece."""
    if listing.whole and (strange := unreached(model, ranks)) is not None:
        raise ValueError(
            f"{form} does not say that a piece that is a token is that token, and merging does not give {strange!r}; "
            f"{OTHER}"
        )
    return listing


def _vocabulary(model: Model, special: Mapping[str, int], form: str) -> dict[str, int]:
    """Give all tokens, spelled in the byte alphabet, and those that are known by their text, with their ids."""
    outside = {**model.specials, **special}
    apart = set(model.specials.values())
    spelled = {to_text(model.token_bytes(number)): number for number in range(model.ids) if number not in apart}
    spelled.pop("", None)  # the gaps
    if twin := next((name for name, number in outside.items() if spelled.get(name, number) != number), None):
        raise ValueError(f"special token {twin!r} is spelled like another token, which {form} cannot hold")
    if len(set(outside.values())) < len(outside):
        raise ValueError(f"two special tokens have the same id, which {form} cannot hold")
    return dict(sorted({**spelled, **outside}.items(), key=lambda item: item[1]))


def _spelled_pairs(model: Model, listing: Listing) -> list[list[str]]:
    """Give the two parts of each merge, spelled in the byte alphabet."""
    parts = {*listing.lefts.tolist(), *listing.rights.tolist()}
    spelled = {number: to_text(model.token_bytes(number)) for number in parts}
    rows = zip(listing.lefts.tolist(), listing.rights.tolist(), strict=True)
    return [[spelled[left], spelled[right]] for left, right in rows]


def to_tokenizer(
    model: Model,
    tokenizer: Tokenizer | None,
    pattern: str,
    ranks: Mapping[bytes, int],
    special: Mapping[str, int],
    from_ranks: bool,
) -> str:
    """Give the tokenizer.json of an encoding, be it one that was read from such a file or another.

    Raises:
        ValueError: ``tokenizers`` would give other ids.

    """
    if tokenizer:
        return _written(model, tokenizer)
    listing = listed_merges(model, ranks, from_ranks)
    return _document(
        vocabulary=_vocabulary(model, special, "a tokenizer.json"),  # special tokens too: else their ids are counted on
        merges=_spelled_pairs(model, listing),
        ignore_merges=listing.whole,
        added=[_added(name, number) for name, number in sorted(special.items(), key=lambda item: item[1])],
        parts={"pre_tokenizer": _pre_tokenizer(pattern), "decoder": {**BYTE_LEVEL, "use_regex": True}},
    )


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
    return _document(
        vocabulary=tokens,
        merges=_spelled_pairs(model, listed_merges(model, {}, from_ranks=False)),
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
