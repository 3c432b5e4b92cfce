r"""Added tokens of a tokenizer.json: texts that become one id as a whole, before anything is split or merged.

Of several that start at the same place the longest wins, and they are looked for twice: in the text as it is, and the
rest of them in what lies between, once that is normalized. A token may take the whitespace beside it (``lstrip``,
``rstrip``), and may ask not to touch a word (``single_word``).

Invariant: the parts in order are the text, all of it; only whitespace that a token takes and what the normalizer
changes is not seen again.

    >>> added = AddedTokens([AddedToken("<mask>", 7, lstrip=True)], None)
    >>> list(added.split("a <mask> b", frozenset()))
    [('a', 7), (' b', None)]
"""

from __future__ import annotations

import functools
import lzma
import re
from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from numbatok._jit import read_data
from numbatok.names import any_of
from numbatok.unicode import WHITE_SPACE

Normalize = Callable[[str], str]
Part = tuple[str, int | None]
"""An ordinary text, and the id of the added token behind it (None behind the last one)."""

_BLANKS_BEHIND = re.compile(f"[{WHITE_SPACE}]*")


class AddedToken(NamedTuple):
    """An added token: its text and id, and how it is looked for.

    Attributes:
        content: its text.
        id: its id.
        special: whether the caller decides if it is read as a token or as ordinary text; if not, it is always a token.
        lstrip, rstrip: whether it takes the whitespace before and behind it.
        single_word: whether it is no token beside a word character.
        normalized: whether it is looked for in the normalized text.

    """

    content: str
    id: int
    special: bool = False
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False
    normalized: bool = False

    @property
    def is_plain(self) -> bool:
        """Tell whether it is looked for as tiktoken looks for its special tokens."""
        return self.special and not (self.lstrip or self.rstrip or self.single_word)


class AddedTokens:
    """All added tokens of a tokenizer, ready to be looked for."""

    def __init__(self, tokens: Iterable[AddedToken], normalize: Normalize | None) -> None:
        tokens = list(tokens)
        self._normalize = normalize
        self._in_text = _Finder({token.content: token for token in tokens if not token.normalized})
        late = [token for token in tokens if token.normalized]
        self._in_normalized = _Finder(
            {normalize(token.content) if normalize else token.content: token for token in late}
        )

    def split(self, text: str, special: Container[str]) -> Iterator[Part]:
        """Give the ordinary parts of a text, normalized, each with the id of the added token behind it.

        Args:
            text: the text.
            special: which special tokens are read as tokens; the others are ordinary text.

        """
        for part, token in self._in_text.split(text, special):
            if self._normalize:
                part = self._normalize(part)
            *parts, (last, _) = self._in_normalized.split(part, special)
            yield from parts
            yield last, token


class _Finder:
    """Looks for some added tokens, by their texts.

    The quirks are those of ``tokenizers``: a match that is no token after all hides what lies within it; the search
    goes on behind the match, not behind the whitespace that the token took, which a next token may then share; and
    ordinary text goes on where the last token ends.
    """

    def __init__(self, tokens: dict[str, AddedToken]) -> None:
        self._tokens = tokens
        names = list(filter(None, tokens))
        self._pattern = re.compile(any_of(names)) if names else None

    def split(self, text: str, special: Container[str]) -> Iterator[Part]:
        """Give the parts of a text, as :meth:`AddedTokens.split` does for both of its finders."""
        done = 0
        for start, stop, token in self._find(text, special):
            if token.lstrip:
                start = done + len(text[done:start].rstrip(WHITE_SPACE)) if start > done else done
            if token.rstrip:
                stop = _BLANKS_BEHIND.match(text, stop).end()  # type: ignore[union-attr]
            if start < stop:  # else the token before has taken all of it
                yield text[done : max(start, done)], token.id
                done = stop
        yield text[done:], None

    def _find(self, text: str, special: Container[str]) -> Iterator[tuple[int, int, AddedToken]]:
        if self._pattern is None:
            return
        for found in self._pattern.finditer(text):
            token, (start, stop) = self._tokens[found.group()], found.span()
            if token.special and token.content not in special:
                continue
            if token.single_word and (is_word(text[start - 1 : start]) or is_word(text[stop : stop + 1])):
                continue
            yield start, stop, token


@functools.cache
def _word_edges() -> list[int]:
    """Give the first and behind-last code points of the ranges of word characters (tools/make_word_table.py)."""
    edges: list[int] = np.frombuffer(lzma.decompress(read_data("unicode-16.0.words.xz")), "<u4").tolist()
    return edges


def is_word(character: str) -> bool:
    """Tell whether a character is part of a word; the empty text is not.

    >>> is_word("\u00e9"), is_word("-")
    (True, False)
    """
    return bool(character) and bisect_right(_word_edges(), ord(character)) % 2 == 1
