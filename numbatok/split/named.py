r"""Short names for patterns, for the command line and for files: ``gpt2`` in place of a line of regular expression.

Invariant: a name stands for one exact text that has a split kernel; what is no name is read as a pattern itself.

    >>> pattern_named("o200k") == pattern_named(O200K_PATTERN) == O200K_PATTERN
    True
"""

from __future__ import annotations

from numbatok.split.patterns import (
    CL100K_OLDER_PATTERNS,
    CL100K_PATTERN,
    GPT2_PATTERNS,
    KIMI_PATTERN,
    NEMOTRON_PATTERN,
    O200K_PATTERN,
    QWEN2_PATTERN,
    QWEN35_PATTERN,
    split_of,
)

PATTERNS = {
    "gpt2": GPT2_PATTERNS[0],
    "cl100k": CL100K_PATTERN,
    "llama3": CL100K_OLDER_PATTERNS[0],
    "qwen2": QWEN2_PATTERN,
    "qwen3.5": QWEN35_PATTERN,
    "o200k": O200K_PATTERN,
    "nemotron": NEMOTRON_PATTERN,
    "kimi": KIMI_PATTERN,
}
"""Name -> pattern."""


def pattern_named(pattern: str) -> str:
    """Give the pattern for a name, or a pattern that is given itself.

    Raises:
        ValueError: it is neither a name nor a pattern that has a split kernel.

    """
    if pattern in PATTERNS:
        return PATTERNS[pattern]
    try:
        split_of(pattern)
    except ValueError as error:
        raise ValueError(f"{pattern!r} is no name of a pattern ({', '.join(PATTERNS)}), and {error}") from None
    return pattern


def name_of(pattern: str) -> str:
    """Give the name of a pattern; empty for one without a name.

    >>> name_of(GPT2_PATTERNS[0]), name_of(".")
    ('gpt2', '')
    """
    return next((name for name, text in PATTERNS.items() if text == pattern), "")
