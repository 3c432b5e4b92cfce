"""Texts that make tokenizers slow: long runs without a boundary, runs of boundaries, and what patterns look back for.

Invariant: a text is the same on every machine (seeded), is valid UTF-8, and has the wanted size to within a character.
Texts of one kind and other turns are alike, and share no long piece: some tokenizers remember whole pieces, even a
megabyte long, and a text that comes again tells nothing.

    >>> hostile("digits", 8, turn=0)
    b'87425473'
"""

from __future__ import annotations

import base64
import random
from collections.abc import Callable

HAN, EMOJI = (0x4E00, 0x9FFF), (0x1F300, 0x1F64F)
LETTERS = "abcdefghijklmnopqrstuvwxyz"
Maker = Callable[[int, int], str]


def drawn(characters: str) -> Maker:
    """Give a maker of noise over some characters."""
    return lambda size, turn: "".join(random.Random(turn).choices(characters, k=size))


KINDS: dict[str, Maker] = {
    "one letter": lambda size, turn: LETTERS[turn % len(LETTERS)] * size,
    "blanks": lambda size, turn: " " * (size - turn),
    "blanks and newlines": drawn("   \n"),
    "base64": lambda size, turn: base64.b64encode(random.Random(turn).randbytes(size)).decode(),
    "lower-case noise": drawn(LETTERS),
    "Han": drawn("".join(map(chr, range(*HAN)))),
    "emoji": drawn("".join(map(chr, range(*EMOJI)))),
    "digits": drawn("0123456789"),
    "'s": lambda size, turn: "'s" * size,
    "combining marks": lambda size, turn: "a" + chr(0x300 + turn) * size,
    "ʰA": lambda size, turn: f"ʰ{chr(ord('A') + turn % len(LETTERS))}" * size,
}
"""Name -> a maker of about as many bytes as it is asked for, or more."""


def hostile(kind: str, size: int, turn: int) -> bytes:
    """Give a hostile text of ``size`` bytes, less what a cut character would take; another one for each turn."""
    return KINDS[kind](size, turn).encode()[:size].decode(errors="ignore").encode()
