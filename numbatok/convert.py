"""What encodings are made of, taken from what others have: rank files, encodings of tiktoken, vocabularies with merges.

Invariant: the ids are those that the source gives. A rank file says nothing of the pattern, which is therefore never
guessed: the caller gives it, unless the file is, by its sha256, a vocabulary that OpenAI published.

    >>> from numbatok import get_encoding
    >>> made = tiktoken_arguments(get_encoding("gpt2"), name="mine")
    >>> made["name"], made["special_tokens"]
    ('mine', {'<|endoftext|>': 50256})
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from numbatok.alphabet import to_bytes
from numbatok.arguments import checked_special_tokens
from numbatok.bpe import BYTES, Ids
from numbatok.bpe1 import Content, Extra
from numbatok.contents import with_special_tokens
from numbatok.embedded import EMBEDDED
from numbatok.files import default_name
from numbatok.listing import made_from_ranks
from numbatok.load import FileName, load_gpt2, parse_ids, parse_pairs, parse_ranks, read_file_cached
from numbatok.split.patterns import GPT2_PATTERNS
from numbatok.vocabulary import GPT2_NAMES

PUBLISHED = {
    "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930": "r50k_base",
    "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069": "p50k_base",
    "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7": "cl100k_base",
    "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d": "o200k_base",
}
"""sha256 of a rank file -> the encoding it was published for."""
PUBLISHED_MERGES = {"1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5": GPT2_PATTERNS[0]}
"""sha256 of a file of merges -> the pattern it was published with."""
PARTS = ("name", "_pat_str", "_mergeable_ranks", "_special_tokens")
"""What an encoding of tiktoken is made of, by the names of its attributes."""


def tiktoken_arguments(
    source: Any,
    name: str | None = None,
    pat_str: str | None = None,
    special_tokens: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Give the arguments of :class:`~numbatok.encoding.Encoding` for a rank file, or an encoding of tiktoken.

    What is given replaces what ``source`` says; for arguments and errors see ``Encoding.from_tiktoken``.
    """
    if isinstance(source, (str, os.PathLike)):
        known_name, known_pattern, ranks, known_specials = _parts_of_file(source)
    elif getattr(source, "_tokenizer", None) is not None:
        raise ValueError(f"{source!r} was read from a tokenizer.json, whose merges and added tokens ranks cannot say")
    elif not getattr(source, "_from_ranks", True) and not made_from_ranks(source._model, source._mergeable_ranks):
        raise ValueError(f"{source!r} was read from a file that lists merges, which ranks cannot say")
    elif all(hasattr(source, part) for part in PARTS):
        known_name, known_pattern, ranks, known_specials = (getattr(source, part) for part in PARTS)
    else:
        raise TypeError(f"{type(source).__name__} was given; give the path of a rank file, or an encoding of tiktoken")
    pattern = pat_str if pat_str is not None else known_pattern
    if pattern is None:
        raise ValueError(
            f"{source} holds tokens and ranks, but not the pattern that splits text, and none is guessed: "
            "from_tiktoken(path, pat_str=..., special_tokens=...), or --pattern on the command line"
        )
    return {
        "name": name or known_name,
        "pat_str": pattern,
        "mergeable_ranks": ranks,
        "special_tokens": special_tokens if special_tokens is not None else known_specials,
    }


def _parts_of_file(path: FileName) -> tuple[str, str | None, dict[bytes, int], dict[str, int]]:
    """Give name, pattern (None if it is not known), ranks and special tokens of a rank file."""
    data = read_file_cached(path)
    ranks = parse_ranks(data, os.fspath(path))
    published = PUBLISHED.get(hashlib.sha256(data).hexdigest())
    if published is None:
        return default_name(os.fspath(path)), None, ranks, {}
    return published, EMBEDDED[published].pattern, ranks, EMBEDDED[published].specials


def gpt2_arguments(
    encoder_json: FileName,
    vocab_bpe: FileName,
    name: str = "gpt2",
    special_tokens: Collection[str] = GPT2_NAMES,
) -> dict[str, Any]:
    """Give the arguments of :class:`~numbatok.encoding.Encoding` for the two files of GPT-2's release.

    For arguments and errors see ``Encoding.from_gpt2``.
    """
    ranks, specials = load_gpt2(vocab_bpe, encoder_json, specials=special_tokens)
    return {"name": name, "pat_str": GPT2_PATTERNS[0], "mergeable_ranks": ranks, "special_tokens": specials}


def merges_content(
    vocab_json: FileName,
    merges_txt: FileName,
    pat_str: str | None = None,
    special_tokens: Mapping[str, int] | None = None,
) -> Content:
    """Give the content of the two files ``vocab.json`` and ``merges.txt``, whose ids may be any.

    For arguments and errors see ``Encoding.from_merges``.
    """
    ids_name, merges_name = os.fspath(vocab_json), os.fspath(merges_txt)
    merges = read_file_cached(merges_txt)
    pattern = PUBLISHED_MERGES.get(hashlib.sha256(merges).hexdigest()) if pat_str is None else pat_str
    if pattern is None:
        raise ValueError(
            f"{merges_name} holds merges, but not the pattern that splits text, and none is guessed: "
            "from_merges(vocab_json, merges_txt, pat_str=..., special_tokens=...), or --pattern on the command line"
        )
    ids = parse_ids(read_file_cached(vocab_json), ids_name)
    spelled = {text: to_bytes(text) for text in ids}
    tokens = {token: ids[text] for text, token in spelled.items() if token}
    ordered = sorted(tokens.items(), key=lambda item: item[1])
    content = Content(
        np.array([number for _, number in ordered], np.uint32),
        np.array([len(token) for token, _ in ordered], np.uint32),
        b"".join(token for token, _ in ordered),
        _merge_columns(tokens, (ids_name, merges_name), merges),
        tuple(Extra(text, ids[text], special=False) for text, token in spelled.items() if not token),
        pattern,
        incomplete=not all(bytes([byte]) in tokens for byte in range(BYTES)),
    )
    if special_tokens is None:
        made = set(content.merges[3].tolist())
        special_tokens = {name: ids[name] for name in GPT2_NAMES if name in ids and ids[name] not in made}
    return with_special_tokens(content, checked_special_tokens(special_tokens), ids_name)


def _merge_columns(tokens: Mapping[bytes, int], names: tuple[str, str], data: bytes) -> Ids:
    """Give left part, right part, rank and result of each line of a ``merges.txt``."""
    ids_name, merges_name = names
    rows: dict[tuple[int, int], tuple[int, int]] = {}
    for number, left, right in parse_pairs(data, merges_name):
        if lost := next((token for token in (left, right, left + right) if token not in tokens), None):
            raise ValueError(f"{merges_name}, line {number}: the token {lost!r} is not in {ids_name}")
        pair = tokens[left], tokens[right]
        if pair in rows:
            raise ValueError(f"{merges_name}, line {number}: {left!r} and {right!r} are merged by a line before, too")
        rows[pair] = len(rows), tokens[left + right]
    return np.array([(*pair, *row) for pair, row in rows.items()], np.uint32).reshape(-1, 4).T
