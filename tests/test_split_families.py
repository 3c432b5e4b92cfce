"""The splits of cl100k, o200k and their relatives against their patterns, and blocks against steps.

by_blocks("x'LL  y") == by_steps("x'LL  y") == regex.findall(pattern, "x'LL  y")
"""

from __future__ import annotations

import itertools
import random

import oracle
import pytest
import regex
from cases import JIT_OFF
from toys import pieces, split_model

from numbatok.split import patterns

PATTERNS = {
    "cl100k": patterns.CL100K_PATTERN,
    "llama3": patterns.CL100K_OLDER_PATTERNS[0],
    "cl100k-2023": patterns.CL100K_OLDER_PATTERNS[1],
    "qwen2": patterns.QWEN2_PATTERN,
    "qwen3.5": patterns.QWEN35_PATTERN,
    "o200k": patterns.O200K_PATTERN,
    "nemotron": patterns.NEMOTRON_PATTERN,
    "gpt2": patterns.GPT2_PATTERNS[1],
    "gpt2-2023": patterns.GPT2_PATTERNS[3],
}
CHARACTERS = [*"aStlrevdmAT9 '\n\r\t!/", *"éſ中²ʰǅ٢。😀", "\u0301", "\u3000", "\u00a0", "\x01", "\ufe0f"]
FRAGMENTS = [
    *("don't", " HTTPResponse", "camelCase", "  ", "\n\n  ", "   \n  x", "x'LL", "x'lL", "'vE", "can'ts've", "a's's"),
    *(" A\u0301B", "'s", "12345", "..\n//", ".\n/.", "//\n/\n", " \n/x", "\r\n", "中文", "中文Abc", "ABC中", "中A's"),
    *("ÉTÉé", "字\u00a0", " \n \n"),
]
TAIL = " and some more words" * 4
"""Long enough that what stands before it is decided by blocks."""


def check(name: str, texts: list[str]) -> None:
    """Compare both ways to split with the pattern."""
    pattern, model = regex.compile(PATTERNS[name]), split_model(patterns.split_of(PATTERNS[name]))
    for text in texts:
        data = text.encode()
        expected = [found.group().encode() for found in pattern.finditer(text)]
        assert pieces(model, data, blocks=True) == expected, repr(text)
        assert pieces(model, data, blocks=False) == expected, repr(text)


@pytest.mark.parametrize("name", PATTERNS)
def test_tuples(name: str) -> None:
    """Every tuple of up to three representative characters, alone and before and behind longer text."""
    length = 1 if JIT_OFF else 3
    tuples = ["".join(one) for n in range(1, length + 1) for one in itertools.product(CHARACTERS, repeat=n)]
    check(name, tuples if JIT_OFF else tuples[:: 3 if name in ("gpt2-2023", "cl100k-2023") else 1])
    check(name, [f"{one}{TAIL}" for one in tuples[::2]])


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("size", [6, 30, 150])
def test_random_texts(name: str, size: int) -> None:
    """Random texts of characters and of fragments that have trapped others."""
    rng = random.Random(f"{name} {size}")
    count = 3 if JIT_OFF else 60_000 // size
    texts = ["".join(rng.choice(rng.choice([CHARACTERS, FRAGMENTS])) for _ in range(size)) for _ in range(count)]
    check(name, texts + [text + TAIL for text in texts])


@pytest.mark.parametrize("name", PATTERNS)
def test_long_runs(name: str) -> None:
    """Runs of one character, as long as a few bytes and as a few blocks, in any order."""
    rng = random.Random(f"runs {name}")
    lengths = [1, 2, 3, 7, 30, 59, 60, 61, 62, 63, 64, 65, 67, 68, 69, 127, 128, 130, 200]
    for _ in range(3 if JIT_OFF else 100):
        runs = [rng.choice(CHARACTERS) * rng.choice(lengths) for _ in range(40)]
        check(name, ["".join(rng.choices(runs, k=rng.randrange(1, 8))) for _ in range(10)])


@pytest.mark.campaign
@pytest.mark.parametrize("name", PATTERNS)
def test_campaign_random_texts(name: str) -> None:
    """A million random texts of each family."""
    rng = random.Random(f"campaign {name}")
    for _ in range(1_000):
        check(name, ["".join(rng.choice(rng.choice([CHARACTERS, FRAGMENTS])) for _ in range(rng.randrange(4, 40))) for _ in range(1_000)])  # fmt: skip # noqa: E501


def test_oracle_agrees_about_the_characters() -> None:
    """The newer Unicode of the regex package says nothing else about the characters used here."""
    assert oracle.comparable("".join(CHARACTERS) + "".join(FRAGMENTS) + TAIL)


def test_unknown_pattern() -> None:
    """A pattern is known by its exact text, and one more blank makes it unknown."""
    for pattern in ("", r"\w+|\s+", patterns.CL100K_PATTERN + " "):
        with pytest.raises(ValueError, match=r"no split kernel.*o200k"):
            patterns.split_of(pattern)
