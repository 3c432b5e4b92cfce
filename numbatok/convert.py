"""Encodings from the files and objects of others, and back: tiktoken's rank files and encodings, GPT-2's two files.

Invariant: the ids are those that the source gives. A rank file says nothing of the pattern, which is therefore never
guessed: the caller gives it, unless the file is, by its sha256, a vocabulary that OpenAI published.

    import numbatok.convert
    enc = numbatok.convert.from_tiktoken("my.tiktoken", pat_str=pattern, special_tokens={"<|end|>": 50000})
    numbatok.convert.to_tiktoken(enc, "copy.tiktoken")
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from numbatok.encoding import Encoding
from numbatok.load import GPT2_SPECIALS, FileName, load_gpt2, parse_ranks, read_file_cached
from numbatok.registry import EMBEDDED
from numbatok.split.patterns import GPT2_PATTERNS

PUBLISHED = {
    "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930": "r50k_base",
    "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069": "p50k_base",
    "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7": "cl100k_base",
    "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d": "o200k_base",
}
"""sha256 of a rank file -> the encoding it was published for."""
PARTS = ("name", "_pat_str", "_mergeable_ranks", "_special_tokens")
"""What an encoding of tiktoken is made of, by the names of its attributes."""


def from_tiktoken(
    source: Any,
    *,
    name: str | None = None,
    pat_str: str | None = None,
    special_tokens: Mapping[str, int] | None = None,
) -> Encoding:
    """Make an encoding of a rank file, or of an encoding of tiktoken.

    What is given replaces what ``source`` says. A file says neither pattern nor special tokens, unless it is one of
    those that OpenAI published: then the default is the encoding of that name.

    Args:
        source: the path of a rank file (``.tiktoken``), the address of one that tiktoken has fetched, or an encoding.
        name: a name for people; the default for a file is its name without the ending.
        pat_str: the pattern that splits text; it must be one that has a split kernel, by its exact text.
        special_tokens: special token -> id; the default for a file is none.

    Raises:
        TypeError: ``source`` is something else.
        ValueError: the pattern is missing or has no split kernel, or the file is faulty: names the line.
        OSError: the file cannot be read.

    """
    if isinstance(source, (str, os.PathLike)):
        known_name, known_pattern, ranks, known_specials = _parts_of_file(source)
    elif all(hasattr(source, part) for part in PARTS):
        known_name, known_pattern, ranks, known_specials = (getattr(source, part) for part in PARTS)
    else:
        raise TypeError(f"{type(source).__name__} was given; give the path of a rank file, or an encoding of tiktoken")
    pattern = pat_str if pat_str is not None else known_pattern
    if pattern is None:
        raise ValueError(
            f"{source} holds tokens and ranks, but not the pattern that splits text, and none is guessed: "
            "from_tiktoken(path, pat_str=..., special_tokens=...)"
        )
    specials = special_tokens if special_tokens is not None else known_specials
    return Encoding(name or known_name, pat_str=pattern, mergeable_ranks=ranks, special_tokens=specials)


def _parts_of_file(path: FileName) -> tuple[str, str | None, dict[bytes, int], dict[str, int]]:
    """Give name, pattern (None if it is not known), ranks and special tokens of a rank file."""
    data = read_file_cached(path)
    ranks = parse_ranks(data, os.fspath(path))
    published = PUBLISHED.get(hashlib.sha256(data).hexdigest())
    if published is None:
        return Path(path).stem, None, ranks, {}
    return published, EMBEDDED[published].pattern, ranks, EMBEDDED[published].specials


def from_gpt2(
    encoder_json: FileName,
    vocab_bpe: FileName,
    *,
    name: str = "gpt2",
    special_tokens: Collection[str] = GPT2_SPECIALS,
) -> Encoding:
    """Make an encoding of the two files of GPT-2's release, with GPT-2's pattern.

    Args:
        encoder_json: the ids of all tokens.
        vocab_bpe: the merges.
        name: a name for people.
        special_tokens: tokens of ``encoder_json`` that no merge makes; those that are not there are left out.

    Raises:
        ValueError: a file is faulty, or the two do not agree: names the file and the place.
        OSError: a file cannot be read.

    """
    ranks, specials = load_gpt2(vocab_bpe, encoder_json, specials=special_tokens)
    return Encoding(name, pat_str=GPT2_PATTERNS[0], mergeable_ranks=ranks, special_tokens=specials)


def to_tiktoken(enc: Encoding, path: FileName) -> None:
    """Write the rank file of an encoding; pattern and special tokens are not in it.

    Raises:
        ValueError: tiktoken would give other ids.
        OSError: the file cannot be written.

    """
    enc.save(path, "tiktoken")
