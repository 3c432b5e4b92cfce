r"""GPT-2's byte alphabet: each byte as one printable character, the way vocab.bpe and tokenizer.json spell tokens.

A byte whose Latin-1 character shows ink stands for itself; the 68 others (controls, the blank, the no-break space, the
soft hyphen) take the characters from U+0100 on, in the order of the bytes.
Invariant: bytes and characters of the alphabet are one to one, so a token survives a text file and comes back the same.

    >>> to_text(" café".encode()), to_bytes("ĠcafÃ©")
    ('ĠcafÃ©', b' caf\xc3\xa9')
"""

from __future__ import annotations

_INKED = frozenset((*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)))
_HIDDEN = [byte for byte in range(256) if byte not in _INKED]

ORDER = bytes([*sorted(_INKED), *_HIDDEN])
"""The bytes in the order of their characters, which is the order of the byte tokens of GPT-2's vocabulary."""

_CHARACTER_OF = {byte: chr(byte) for byte in _INKED} | {byte: chr(256 + place) for place, byte in enumerate(_HIDDEN)}

CHARACTERS = "".join(_CHARACTER_OF[byte] for byte in range(256))
"""The 256 characters of the alphabet; the character of a byte stands at its place."""

_LATIN_OF = {ord(character): byte for byte, character in enumerate(CHARACTERS)}
# The Latin-1 characters of hidden bytes spell nothing, but would pass; they are sent where no byte is.
_LATIN_OF |= dict.fromkeys(_HIDDEN, 0x10FFFF)


def to_text(token: bytes) -> str:
    r"""Spell bytes in the alphabet, one character a byte.

    >>> to_text(b"\n\n the")
    'ĊĊĠthe'
    """
    return token.decode("latin-1").translate(CHARACTERS)


def to_bytes(text: str) -> bytes | None:
    r"""Give the bytes that a text of the alphabet spells; None if one of its characters is foreign to the alphabet.

    >>> to_bytes("ĊĊĠthe"), to_bytes("a blank")
    (b'\n\n the', None)
    """
    try:
        return text.translate(_LATIN_OF).encode("latin-1")
    except UnicodeEncodeError:
        return None
