r"""The patterns by name, for a new vocabulary: single ones, those of the embedded encodings, and sequences.

Invariant: a name stands for one exact text, or a sequence of texts, that has a split kernel.

    >>> from numbatok.split.patterns import QWEN2_PATTERN
    >>> pattern_of("qwen2") == (QWEN2_PATTERN,)
    True
"""

from __future__ import annotations

from numbatok.embedded import EMBEDDED
from numbatok.split.named import PATTERNS as SINGLE
from numbatok.split.patterns import DEEPSEEK_PATTERNS, GPT2_PATTERNS, split_of

PATTERNS: dict[str, tuple[str, ...]] = {
    **{name: (pattern,) for name, pattern in SINGLE.items()},
    **{name: (embedded.pattern,) for name, embedded in EMBEDDED.items()},
    "deepseek": DEEPSEEK_PATTERNS,
    "starcoder": (r"\p{N}", GPT2_PATTERNS[3]),
}
"""Name -> the patterns, each of which cuts the pieces of the one before; most have one."""


def pattern_of(pattern: str | tuple[str, ...]) -> tuple[str, ...]:
    """Give the patterns that a name stands for, or that are given by their texts.

    Raises:
        TypeError: ``pattern`` is neither a str nor a tuple of them.
        ValueError: there is no such name and no split kernel for the text: lists the names.

    """
    stages = (pattern,) if isinstance(pattern, str) else pattern
    if not isinstance(stages, tuple) or not all(isinstance(stage, str) for stage in stages):
        raise TypeError(f"pattern is {pattern!r}; give a name, the text of a pattern, or a tuple of texts")
    if len(stages) == 1 and stages[0] in PATTERNS:
        return PATTERNS[stages[0]]
    try:
        split_of(stages)
    except ValueError:
        raise ValueError(
            f"pattern {pattern!r} is no name, nor the text of a pattern that has a split kernel, and none is guessed; "
            f"names: {', '.join(PATTERNS)}"
        ) from None
    return stages
