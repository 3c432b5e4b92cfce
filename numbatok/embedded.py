"""What the encodings inside the wheel are made of: vocabulary, pattern and special tokens, by name.

Invariant: names, patterns and special tokens are those of tiktoken; encodings with one vocabulary name the same.

    >>> EMBEDDED["p50k_edit"].vocabulary
    'p50k_base'
"""

from __future__ import annotations

from typing import NamedTuple

from numbatok.split.patterns import CL100K_PATTERN, GPT2_PATTERNS, O200K_PATTERN
from numbatok.vocabulary import ENDOFTEXT

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

EMBEDDED = {
    "gpt2": Embedded("r50k_base", GPT2_PATTERNS[0], GPT2_SPECIALS),
    "r50k_base": Embedded("r50k_base", GPT2_PATTERNS[0], GPT2_SPECIALS),
    "p50k_base": Embedded("p50k_base", GPT2_PATTERNS[0], GPT2_SPECIALS),
    "p50k_edit": Embedded("p50k_base", GPT2_PATTERNS[0], EDIT_SPECIALS),
    "cl100k_base": Embedded("cl100k_base", CL100K_PATTERN, CL100K_SPECIALS),
    "o200k_base": Embedded("o200k_base", O200K_PATTERN, O200K_SPECIALS),
    "o200k_harmony": Embedded("o200k_base", O200K_PATTERN, _harmony_specials()),
}
"""The encodings inside the wheel, by name."""
