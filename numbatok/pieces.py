r"""The slow exact split: a pattern without a kernel, run by the ``regex`` package, and the stages of a tokenizer.json.

It is used on request only (``slow_split=True``), and takes ten to fifty times the time of a kernel. The package knows a
newer Unicode than tiktoken 0.14 and ``tokenizers`` 0.23, which follow 16.0; so it sees each character that came later
as an unassigned one, and U+0295, which has changed its class since, as another small letter. A pattern that names such
characters themselves, not by a property, is the one thing that this cannot serve.

Invariant: the pieces in order are the text, less what the pattern of tiktoken's kind does not match, and what a stage
of a tokenizer.json removes or puts before a piece.

    >>> list(pattern_stage(r"\d+|\D+", "the example")("a12"))
    ['a', '12']
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from numbatok.alphabet import to_text
from numbatok.split.patterns import GPT2_PATTERNS
from numbatok.unicode import all_classes, load_class_table

Stage = Callable[[str], Iterator[str]]
"""A text to its pieces, none of them empty."""
Spans = Callable[[str], Iterator[tuple[int, int]]]
"""A text to the places where something matches."""
Segment = tuple[str, bool]
"""A part of a text, and whether the pattern matched it."""

ANCHORS = ("$", "^")
READ_OTHERWISE = re.compile(r"\{\d*,?\d*\}\+|\\[ZhHwWbBN]|\[:|\(\?[imsuP]")
"""What the engine of ``tokenizers`` (Oniguruma) reads otherwise than ``regex`` does, with ANCHORS outside of sets."""
CONTRACTIONS = ("(?i:'s|'t|'re|'ve|'m|'ll|'d)", "(?i:[sdmt]|ll|ve|re)")
"""What both read alike, though it folds case."""


def bare(pattern: str) -> Iterator[tuple[int, str]]:
    r"""Give the characters of a pattern that are neither escaped nor in a set, each with its place.

    >>> [character for _, character in bare(r"[^a]\$$")]
    ['$']
    """
    depth, escaped = 0, False
    for place, character in enumerate(pattern):
        if escaped or character == "\\":
            escaped = not escaped
        elif character in "[]":
            depth += 1 if character == "[" else -1
        elif not depth:
            yield place, character


def read_otherwise(pattern: str) -> str | None:
    """Give what the engine of ``tokenizers`` reads otherwise than ``regex`` does, and tiktoken's; None for nothing."""
    anchor = next((character for _, character in bare(pattern) if character in ANCHORS), None)
    for contractions in CONTRACTIONS:  # letters without a fold to several
        pattern = pattern.replace(contractions, "")
    strange = READ_OTHERWISE.search(pattern)
    return anchor or (strange.group() if strange else None)


def pattern_spans(pattern: str, owner: str) -> Spans:
    """Give what finds the matches of a pattern by the ``regex`` package; ``owner`` is what an error names.

    Raises:
        ImportError: the package is not installed.
        ValueError: it does not understand the pattern.

    """
    try:
        import regex
    except ImportError as error:
        raise ImportError('slow_split needs the regex package: pip install "numbatok[regex]"') from error
    try:
        find = regex.compile(pattern, regex.VERSION1)
    except regex.error as error:
        raise ValueError(f"{owner}: the regex package does not understand the pattern {pattern!r}: {error}") from None
    return lambda text: (found.span() for found in find.finditer(text.translate(_older())))


def set_spans(points: str) -> Spans:
    """Give what finds the characters of a set, written as in a pattern."""
    find = re.compile(points)
    return lambda text: (found.span() for found in find.finditer(text))


@functools.cache
def _older() -> dict[int, int]:
    """Give what the ``regex`` package sees in place of characters whose class is another one in Unicode 16.0."""
    import regex

    unassigned = "".join(map(chr, np.flatnonzero(all_classes(load_class_table()) == 0).tolist()))
    newer: list[Any] = regex.findall(r"[\p{L}\p{M}\p{N}\p{P}\p{S}]", unassigned)
    return {**dict.fromkeys(map(ord, newer), 0x3FFFE), 0x295: 0x138}


def pattern_stage(pattern: str, owner: str) -> Stage:
    """Give the stage that tiktoken's way of splitting is: the matches of the pattern, nothing between them.

    ``$`` is the end of the text only, as in tiktoken's engine.
    """
    spans = pattern_spans(_absolute_ends(pattern), owner)
    return lambda text: (text[start:stop] for start, stop in spans(text) if start < stop)


def _absolute_ends(pattern: str) -> str:
    r"""Write ``\Z`` for each ``$`` that is not a character of a set and not escaped."""
    ends = {place for place, character in bare(pattern) if character == "$"}
    return "".join(r"\Z" if place in ends else character for place, character in enumerate(pattern))


def checked_spans(pattern: str, owner: str) -> Spans:
    """Give what finds a pattern of a tokenizer.json.

    Raises:
        ValueError: it holds what the two engines read differently.

    """
    if strange := read_otherwise(pattern):
        raise ValueError(f"{owner}: the pattern holds {strange!r}, which the engine of tokenizers reads otherwise")
    spans = pattern_spans(pattern, owner)

    def without_echo(text: str) -> Iterator[tuple[int, int]]:
        """Leave out an empty match that touches the one before: the engine of tokenizers does not give it."""
        last = -1
        for start, stop in spans(text):
            if start < stop or start != last:
                yield start, stop
            last = stop

    return without_echo


def split_stage(spans: Spans, behavior: str, invert: bool, owner: str) -> Stage:
    """Give the stage of a ``Split`` of a tokenizer.json: matches and what lies between, arranged by the behavior.

    Raises:
        ValueError: the behavior is unknown.

    """
    if behavior not in ARRANGE:
        raise ValueError(f"{owner}: behavior {behavior!r} is unknown; {', '.join(ARRANGE)} are known")
    arrange = ARRANGE[behavior]
    return lambda text: filter(None, arrange((part, hit != invert) for part, hit in _segments(spans, text)))


def _segments(spans: Spans, text: str) -> Iterator[Segment]:
    done = 0
    for start, stop in spans(text):
        if start > done:
            yield text[done:start], False
        yield text[start:stop], True
        done = stop
    if done < len(text):
        yield text[done:], False


def _removed(segments: Iterator[Segment]) -> Iterator[str]:
    return (part for part, matched in segments if not matched)


def _isolated(segments: Iterator[Segment]) -> Iterator[str]:
    return (part for part, _ in segments)


def _contiguous(segments: Iterator[Segment]) -> Iterator[str]:
    return ("".join(part for part, _ in run) for _, run in itertools.groupby(segments, key=lambda one: one[1]))


def _merged_with_previous(segments: Iterator[Segment]) -> Iterator[str]:
    """A match joins the part before it, unless that is a match."""
    before, was_match = "", False
    for part, matched in segments:
        if matched and not was_match:
            before += part
        else:
            yield before
            before = part
        was_match = matched
    yield before


def _merged_with_next(segments: Iterator[Segment]) -> Iterator[str]:
    """A match joins the part behind it, unless that is a match."""
    backwards = [(part[::-1], matched) for part, matched in segments][::-1]
    return iter([part[::-1] for part in _merged_with_previous(iter(backwards))][::-1])


ARRANGE: dict[str, Callable[[Iterator[Segment]], Iterator[str]]] = {
    "Removed": _removed,
    "Isolated": _isolated,
    "Contiguous": _contiguous,
    "MergedWithPrevious": _merged_with_previous,
    "MergedWithNext": _merged_with_next,
}


def spell_stage(prefix_space: bool, use_regex: bool) -> Stage:
    """Give the stage ``ByteLevel``: pieces spelled in the byte alphabet, by GPT-2's pattern if ``use_regex``."""
    split = pattern_stage(GPT2_PATTERNS[0], "GPT-2's pattern") if use_regex else lambda text: iter([text])

    def stage(text: str) -> Iterator[str]:
        text = f" {text}" if prefix_space and not text.startswith(" ") else text
        return (to_text(piece.encode(errors="surrogateescape")) for piece in split(text))

    return stage


def run_stages(stages: list[Stage], text: str) -> list[str]:
    """Give the pieces of a text after all stages, each of which splits what the one before left."""
    pieces = [text]
    for stage in stages:
        pieces = [part for piece in pieces for part in stage(piece)]
    return pieces


def slow_pieces(pattern: str) -> Callable[[str], list[bytes]]:
    """Give the slow split by one pattern of tiktoken's kind."""
    return functools.partial(_stage_bytes, pattern_stage(pattern, "pat_str"))


def _stage_bytes(stage: Stage, text: str) -> list[bytes]:
    return [piece.encode(errors="surrogateescape") for piece in stage(text)]
