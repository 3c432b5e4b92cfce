"""What some encodings do to a text before pieces are merged: added tokens, normalizing, a space in front, a slow split.

An encoding that needs none of this (all of OpenAI's, most of those in a tokenizer.json) has no front and takes the
straight way.

Invariant: the parts that come out are merged apart from each other, in order; the ids of added tokens stand behind
them. What is ordinary text in bytes that are not UTF-8 comes out as the same bytes.

    >>> front = Front(prefix_space=True)
    >>> front.parts("word", ())
    [(' word', None)]
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import NamedTuple

from numbatok.added import AddedTokens
from numbatok.special import Part
from numbatok.text import Text, bytes_of

Pieces = Callable[[str], list[bytes]]


class Front(NamedTuple):
    """The steps of an encoding before merging.

    Attributes:
        added: the added tokens and the normalizer.
        prefix_space: whether a part that does not start with a space gets one.
        pieces: the slow split; None where a kernel splits.

    """

    added: AddedTokens = AddedTokens((), None)
    prefix_space: bool = False
    pieces: Pieces | None = None

    def parts(self, text: Text, special: Container[str]) -> list[Part]:
        """Give the parts of a text, each with the id of the added token behind it.

        Args:
            text: the text; bytes that are not UTF-8 keep their place in it.
            special: which special tokens are read as tokens; the others are ordinary text.

        """
        words, made = _characters(text), list[Part]()
        for part, token in self.added.split(words, special):
            if part and self.pieces:
                made += [(piece, None) for piece in self.pieces(part)]
                part = ""
            elif part and self.prefix_space and not part.startswith(" "):
                part = f" {part}"
            if part or token is not None:
                made.append((part if isinstance(text, str) else part.encode(errors="surrogateescape"), token))
        return made


def _characters(text: Text) -> str:
    """Give a text as a str; bytes that are not UTF-8 become halves of surrogate pairs, which no valid text holds."""
    if type(text) is str and text.isascii():
        return text
    return bytes_of(text).decode(errors="surrogateescape")
