"""The encodings that the package carries, by name, and the models that use them.

Invariant: a name gives the same object in every thread, made once; encodings with the same vocabulary share its tables.
Encodings are pickled by their name, so that a worker process loads its own tables.

    >>> get_encoding("gpt2")
    <Encoding 'gpt2'>
"""

from __future__ import annotations

import copyreg
import functools
import os
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from numbatok.bpe import Model, load_embedded
from numbatok.encoding import ENDOFTEXT, Encoding
from numbatok.split.patterns import CL100K_PATTERN, GPT2_PATTERNS, O200K_PATTERN, split_of

FIM_PREFIX, FIM_MIDDLE, FIM_SUFFIX = "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>"
ENDOFPROMPT = "<|endofprompt|>"


class Embedded(NamedTuple):
    """An encoding inside the wheel: its vocabulary, pattern and special tokens."""

    vocabulary: str
    pattern: str
    specials: dict[str, int]


def _harmony_specials() -> dict[str, int]:
    named = {
        "startoftext": 199998,
        "endoftext": 199999,
        "return": 200002,
        "constrain": 200003,
        "channel": 200005,
        "start": 200006,
        "end": 200007,
        "message": 200008,
        "call": 200012,
    }
    reserved = (token for token in range(200000, 201088) if token not in named.values())
    return {  # 200018 has two names, as in tiktoken; it decodes to the first
        **O200K_SPECIALS,
        **{f"<|{name}|>": token for name, token in named.items()},
        **{f"<|reserved_{token}|>": token for token in reserved},
    }


GPT2_SPECIALS = {ENDOFTEXT: 50256}
CL100K_SPECIALS = {
    ENDOFTEXT: 100257,
    FIM_PREFIX: 100258,
    FIM_MIDDLE: 100259,
    FIM_SUFFIX: 100260,
    ENDOFPROMPT: 100276,
}
O200K_SPECIALS = {ENDOFTEXT: 199999, ENDOFPROMPT: 200018}
EDIT_SPECIALS = {**GPT2_SPECIALS, FIM_PREFIX: 50281, FIM_MIDDLE: 50282, FIM_SUFFIX: 50283}

_EMBEDDED = {
    "gpt2": Embedded("r50k_base", GPT2_PATTERNS[0], GPT2_SPECIALS),
    "r50k_base": Embedded("r50k_base", GPT2_PATTERNS[0], GPT2_SPECIALS),
    "p50k_base": Embedded("p50k_base", GPT2_PATTERNS[0], GPT2_SPECIALS),
    "p50k_edit": Embedded("p50k_base", GPT2_PATTERNS[0], EDIT_SPECIALS),
    "cl100k_base": Embedded("cl100k_base", CL100K_PATTERN, CL100K_SPECIALS),
    "o200k_base": Embedded("o200k_base", O200K_PATTERN, O200K_SPECIALS),
    "o200k_harmony": Embedded("o200k_base", O200K_PATTERN, _harmony_specials()),
}
_lock = threading.RLock()


def _renew_lock() -> None:
    """In a forked child: a thread that loads an encoding in the parent does not exist here, but its lock would."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def get_encoding(encoding_name: str) -> Encoding:
    """Give the encoding of a name; the same object for each call.

    Raises:
        ValueError: there is no encoding of this name; lists those that there are.

    >>> get_encoding("gpt2").n_vocab
    50257

    """
    if not isinstance(encoding_name, str):
        raise ValueError(f"Expected a string in get_encoding, got {type(encoding_name)}")
    with _lock:
        return _load(encoding_name)


def list_encoding_names() -> list[str]:
    """Give the names that :func:`get_encoding` knows.

    >>> list_encoding_names()[:3]
    ['gpt2', 'r50k_base', 'p50k_base']
    """
    return list(_EMBEDDED)


@functools.cache
def _load(name: str) -> Encoding:
    embedded = _EMBEDDED.get(name)
    if embedded is None:
        raise ValueError(f"Unknown encoding {name}. Available: {', '.join(_EMBEDDED)}.")
    twin = next((other for other in _EMBEDDED if other != name and _EMBEDDED[other] == embedded), None)
    if twin is not None and twin in _made:
        return Encoding._from_model(name, embedded.pattern, _made[twin])
    model = load_embedded(embedded.vocabulary, embedded.specials, split_of(embedded.pattern))
    _made[name] = model
    return Encoding._from_model(name, embedded.pattern, model)


_made: dict[str, Model] = {}


def _reduce(encoding: Encoding) -> tuple[Callable[..., Encoding], tuple[Any, ...]]:
    if encoding.name in _EMBEDDED and get_encoding(encoding.name) is encoding:
        return get_encoding, (encoding.name,)
    return _rebuild, (encoding.name, encoding._pat_str, encoding._mergeable_ranks, encoding._special_tokens)


def _rebuild(name: str, pat_str: str, ranks: dict[bytes, int], specials: dict[str, int]) -> Encoding:
    return Encoding(name, pat_str=pat_str, mergeable_ranks=ranks, special_tokens=specials)


copyreg.pickle(Encoding, _reduce)
