r"""The patterns that have a split kernel, by their exact text, and the parameters that each one asks for.

Invariant: a pattern is known by its whole text or not at all. Nothing is guessed from its looks: a small difference in
a pattern gives other ids.

    >>> split_of(GPT2_PATTERNS[0]).family == GPT2
    True
"""

from __future__ import annotations

from typing import NamedTuple

from numbatok.split.scan import CL100K, DEEPSEEK, GPT2, O200K, ONE_PIECE
from numbatok.unicode import CASELESS, HAN, LOWER, MARK, UPPER

LETTERS = UPPER | LOWER | CASELESS


class Split(NamedTuple):
    """A family of split.scan and its parameters, as the tables of a model carry them."""

    family: int
    letters: int = LETTERS
    digits: int = 3
    final: int = 0
    contractions: int = 1
    slash: int = 1
    han: int = 0


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
CL100K_ONIGURUMA = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+\z|\s*[\r\n]|\s+(?!\S)|\s"
)
"""The same for the engine of Hugging Face, which reads ``$`` as the end of a line and ``{1,3}+`` as two repetitions."""
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
KIMI_PATTERN = (
    r"[\p{Han}]+|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Kimi K2: o200k with runs of Han apart, and without the slash."""
DEEPSEEK_PATTERNS = (
    r"\p{N}{1,3}",
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|"""
    "[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
)
"""The sequence of DeepSeek V3 and R1; ``[\\r\\n]`` in the third is written with the characters themselves."""

AS_ONE_PIECE = Split(ONE_PIECE)
"""For texts that something else has split into pieces."""
DIGITS_THEN_GPT2 = Split(GPT2, digits=1)
"""StarCoder's sequence: each number (``\\p{N}``) is cut out, and the pattern of GPT-2 splits what is between them."""

_SPLITS: dict[tuple[str, ...], tuple[str, Split]] = {
    **{(pattern,): ("gpt2", Split(GPT2)) for pattern in GPT2_PATTERNS},
    **{(pattern,): ("cl100k", Split(CL100K, final=1)) for pattern in (CL100K_PATTERN, CL100K_ONIGURUMA)},
    **{(pattern,): ("cl100k, older form (Llama 3)", Split(CL100K)) for pattern in CL100K_OLDER_PATTERNS},
    (QWEN2_PATTERN,): ("qwen2", Split(CL100K, digits=1)),
    (QWEN35_PATTERN,): ("qwen3.5", Split(CL100K, letters=LETTERS | MARK, digits=1)),
    (O200K_PATTERN,): ("o200k", Split(O200K)),
    (NEMOTRON_PATTERN,): ("nemotron", Split(O200K, digits=1, contractions=0)),
    (KIMI_PATTERN,): ("kimi", Split(O200K, slash=0, han=HAN)),
    DEEPSEEK_PATTERNS: ("deepseek (a sequence of three)", Split(DEEPSEEK)),
    **{(r"\p{N}", pattern): ("starcoder (a sequence of two)", DIGITS_THEN_GPT2) for pattern in GPT2_PATTERNS},
}


def split_of(pattern: str | tuple[str, ...]) -> Split:
    r"""Give the split of a pattern, or of a sequence of patterns, known by the exact text.

    Args:
        pattern: a pattern; or several, each of which cuts the pieces of the one before, and what is between its matches
            is a piece too. A sequence of one is that pattern.

    Raises:
        ValueError: the pattern is not known; lists those that are.

    Example:
        >>> split_of((r"\p{N}", GPT2_PATTERNS[0])) == DIGITS_THEN_GPT2
        True

    """
    stages = (pattern,) if isinstance(pattern, str) else pattern
    if stages not in _SPLITS:
        what = f"pattern {stages[0]!r}" if len(stages) == 1 else f"sequence of patterns {stages!r}"
        names = ", ".join(dict.fromkeys(name for name, _ in _SPLITS.values()))
        raise ValueError(
            f"there is no split kernel for the {what}, and none is guessed. "
            f"Supported, by their exact text (numbatok.split.patterns): {names}"
        )
    return _SPLITS[stages][1]
