"""Training: a byte-level BPE vocabulary of your own, from texts, files, Arrow columns or tables of words.

The rule. Texts are split by a pattern; equal pieces count as often as they come. The pair of neighbours with the
highest count becomes a token, everywhere, and so on; of equal counts the pair with the smaller left id, then the
smaller right id. Ids are those of the bytes (0 to 255), then the merges in their order, then the special tokens.

Invariant: the result depends on the texts alone, not on threads, on the order of texts, or on how they are handed over.
What comes out gives, for every piece, the ids that the merges give when they are applied in their order.

    >>> train("aaabdaaabac", 259).encode("aaabdaaabac")
    [258, 100, 258, 97, 99]
    >>> enc = train(["hug", "pug", "hugs"] * 10, 260, special_tokens=["<|end|>"])
    >>> enc.n_vocab, [enc.decode([token]) for token in enc.encode("hugs pugs")]
    (260, ['hug', 's', ' ', 'pug', 's'])
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from numbatok.alphabet import ORDER
from numbatok.arguments import checked_name
from numbatok.bpe import BYTES, MISSING
from numbatok.counter import Counter, PieceCounter
from numbatok.encoding import Encoding
from numbatok.files import plain_size
from numbatok.huggingface import is_text
from numbatok.learner import NO_LIMIT, Learner
from numbatok.pattern_names import pattern_of
from numbatok.sources import MOST_WEIGHT, feed_source, feed_words
from numbatok.split.patterns import AS_ONE_PIECE, Split, split_of
from numbatok.trained import make_encoding

Compat = Literal["huggingface"] | None
HUGGINGFACE_SHORTEST = 2
"""The trainer of Hugging Face never refuses a pair of two bytes for its length."""
BAR_DELAY = 0.5
"""Seconds of work before a bar appears: short work shows none."""


def train(
    texts_or_column: Any,
    vocab_size: int,
    *,
    pattern: str | tuple[str, ...] = "gpt2",
    special_tokens: Iterable[str] = (),
    min_frequency: int = 1,
    max_token_length: int | None = None,
    compat: Compat = None,
    name: str = "trained",
    threads: int | None = None,
    progress: bool = True,
) -> Encoding:
    """Learn a byte-level BPE vocabulary, and give it as an encoding; docs/training.md says more of each argument.

    Args:
        texts_or_column: a text (str or UTF-8 bytes), an iterable of texts (read as a stream), files as
            ``pathlib.Path`` (each is one text), a column of text of Arrow, an iterable of all these, or a mapping of
            words to their counts, which are not split.
        vocab_size: the number of ids, special tokens included. The 256 bytes are there in any case; there are fewer
            ids than that if no pair is left.
        pattern: what splits texts: a name ("gpt2", "cl100k", "o200k", ...), or a pattern that has a split kernel, or a
            tuple of patterns that cut one after the other.
        special_tokens: get the last ids, in this order. They are not cut out of the training texts.
        min_frequency: the least count of a pair that is merged.
        max_token_length: the most bytes of a token.
        compat: "huggingface" for the merges and ids of the ``BpeTrainer`` of ``tokenizers``.
        name: a name for people.
        threads: number of threads that count; None is all cores.
        progress: whether a bar shows, on a terminal or in a notebook, when the work is long.

    Raises:
        TypeError: the source, or an argument, is of a kind that is not known.
        ValueError: an argument is out of range; a text is not UTF-8; the pattern has no split kernel.
        OSError: a file cannot be read.

    """
    special = _checked_special(special_tokens)
    limits = Limits.checked(vocab_size, len(special), min_frequency, max_token_length, compat)
    return _train(texts_or_column, pattern_of(pattern), special, limits, checked_name(name), threads, progress)


class Limits(NamedTuple):
    """What ends a training, and whether it goes by the rules of ``tokenizers``."""

    wanted: int
    least: int
    longest: int
    huggingface: bool

    @classmethod
    def checked(cls, vocab_size: Any, specials: int, min_frequency: Any, max_token_length: Any, compat: Any) -> Limits:
        """Make it from the arguments of :func:`train`.

        Raises:
            TypeError: one that is a number is not a whole one.
            ValueError: one is out of range.

        """
        size, least = _whole(vocab_size, "vocab_size", 1), _whole(min_frequency, "min_frequency", 0)
        if size > MISSING:
            raise ValueError(f"vocab_size is {size}; at most {MISSING} is supported")
        if compat not in (None, "huggingface"):
            raise ValueError(f'compat is {compat!r}; give None or "huggingface"')
        longest = NO_LIMIT
        if max_token_length is not None:
            longest = min(_whole(max_token_length, "max_token_length", 1), NO_LIMIT)
            longest = max(longest - 1, HUGGINGFACE_SHORTEST) if compat else longest
        return cls(max(size - BYTES - specials, 0), min(max(least, 1), MOST_WEIGHT), longest, compat is not None)


def _train(
    source: Any,
    stages: tuple[str, ...],
    special: list[str],
    limits: Limits,
    name: str,
    threads: int | None,
    progress: bool,
) -> Encoding:
    order = np.frombuffer(ORDER, np.uint8) if limits.huggingface else np.arange(BYTES, dtype=np.uint8)
    byte_ids = np.empty(BYTES, np.uint64)
    byte_ids[order] = np.arange(BYTES)
    with _bar(progress, _size_of(source), "counting", unit="B", unit_scale=True, unit_divisor=1024) as bar:
        counts = _count(source, split_of(stages), threads, bar.update)
    learner = Learner(counts.symbols(byte_ids), limits.wanted, limits.longest, limits.least)
    del counts  # what is done with gives its memory to what comes
    with _bar(progress, limits.wanted, "merging", unit="merges") as bar:
        pairs = learner.learn(bar.update)
    del learner
    return make_encoding(name, stages, order, pairs, special, specials_first=limits.huggingface)


def _count(source: Any, split: Split, threads: int | None, progress: Callable[[int], object]) -> Counter:
    """Count all pieces of a source, or take the words of a table for pieces."""
    is_table = isinstance(source, Mapping)
    with PieceCounter(AS_ONE_PIECE if is_table else split, threads, progress) as pieces:
        if is_table:
            feed_words(pieces, source)
        else:
            feed_source(pieces, source)
        return pieces.total()


# ---- the arguments ---------------------------------------------------------------------------------------------------


def _checked_special(special_tokens: Iterable[str]) -> list[str]:
    if isinstance(special_tokens, (str, bytes)):
        raise TypeError(f"special_tokens is one text; give a list: [{special_tokens!r}]")
    if not isinstance(special_tokens, Iterable):
        raise TypeError(f"special_tokens is {special_tokens!r}; give a list of texts")
    special = list(special_tokens)
    for token in special:
        if not isinstance(token, str):
            raise TypeError(f"special token {token!r} is {type(token).__name__}; give str")
        if not token or not is_text(token):
            raise ValueError(f"special token {token!r} is empty, or no text that has a UTF-8 form")
        if special.count(token) > 1:
            raise ValueError(f"special token {token!r} is given twice; each has one id")
    return special


def _whole(value: Any, argument: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{argument} is {value!r}; give a whole number")
    if value < least:
        raise ValueError(f"{argument} is {value}; give {least} or more")
    return int(value)


# ---- the bars --------------------------------------------------------------------------------------------------------


def _bar(progress: bool, total: int | None, what: str, **look: Any) -> Any:
    """Give a bar on stderr that shows on a terminal or in a notebook only, and only when the work is long."""
    from tqdm import tqdm

    seen = progress and sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules)
    return tqdm(total=total or None, desc=what, disable=not seen, delay=BAR_DELAY, leave=False, **look)


def _size_of(source: Any) -> int | None:
    """Give the number of bytes of a source, where it is known before reading."""
    if isinstance(source, os.PathLike):
        return plain_size(os.fsdecode(source))
    if isinstance(source, (list, tuple)) and all(isinstance(item, os.PathLike) for item in source):
        return sum(plain_size(os.fsdecode(item)) for item in source)
    return len(source) if isinstance(source, (str, bytes)) else None
