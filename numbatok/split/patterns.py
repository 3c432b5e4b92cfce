r"""The patterns that have a split kernel, by their exact text, and the parameters that each one asks for.

Invariant: a pattern is known by its whole text or not at all. Nothing is guessed from its looks: a small difference in
a pattern gives other ids.

    >>> split_of(GPT2_PATTERNS[0]).family == GPT2
    True
"""

from __future__ import annotations

from typing import NamedTuple

from numbatok.split.scan import CL100K, GPT2, O200K
from numbatok.unicode import CASELESS, LOWER, MARK, UPPER

LETTERS = UPPER | LOWER | CASELESS


class Split(NamedTuple):
    """A family of split.scan and its parameters, as the tables of a model carry them."""

    family: int
    letters: int = LETTERS
    digits: int = 3
    final: int = 0
    contractions: int = 1


GPT2_PATTERNS = (
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?[\p{L}]+| ?[\p{N}]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
)
"""gpt2, r50k and p50k: tiktoken's form now, that of the first release, and two forms between them."""

CL100K_PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|"
    r"\s+(?!\S)|\s"
)
CL100K_OLDER_PATTERNS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
    r"\s+(?!\S)|\s+",
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
)
"""The form of Llama 3, and tiktoken's form of 2023."""
QWEN2_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN35_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|"
    r"\s+(?!\S)|\s+"
)
O200K_PATTERN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
NEMOTRON_PATTERN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
    r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""o200k without contractions and with one digit: Nemotron, Tekken."""

_SPLITS: dict[str, tuple[str, Split]] = {
    **{pattern: ("gpt2", Split(GPT2)) for pattern in GPT2_PATTERNS},
    CL100K_PATTERN: ("cl100k", Split(CL100K, final=1)),
    **{pattern: ("cl100k, older form (Llama 3)", Split(CL100K)) for pattern in CL100K_OLDER_PATTERNS},
    QWEN2_PATTERN: ("qwen2", Split(CL100K, digits=1)),
    QWEN35_PATTERN: ("qwen3.5", Split(CL100K, letters=LETTERS | MARK, digits=1)),
    O200K_PATTERN: ("o200k", Split(O200K)),
    NEMOTRON_PATTERN: ("nemotron", Split(O200K, digits=1, contractions=0)),
}


def split_of(pattern: str) -> Split:
    """Give the split of a pattern, known by its exact text.

    Raises:
        ValueError: the pattern is not known; lists those that are.

    """
    if pattern not in _SPLITS:
        names = ", ".join(dict.fromkeys(name for name, _ in _SPLITS.values()))
        raise ValueError(
            f"there is no split kernel for the pattern {pattern!r}, and none is guessed. "
            f"Supported, by their exact text (numbatok.split.patterns): {names}"
        )
    return _SPLITS[pattern][1]
