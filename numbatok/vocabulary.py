"""What ids stand for: ids back to text and bytes, single tokens, and the facts of a vocabulary.

Invariant: decoding joins the bytes of the ids, nothing else; an id that the encoding does not have is a KeyError.

    >>> import numbatok
    >>> numbatok.get_encoding("gpt2").decode([31373, 995])
    'hello world'
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

import numpy as np

from numbatok.batch import lane_count
from numbatok.bpe import Model
from numbatok.ids import Tokens, Unknown, decode, id_array
from numbatok.table import find_token
from numbatok.text import text_span, utf8

ENDOFTEXT = "<|endoftext|>"
GPT2_NAMES = (ENDOFTEXT, "<|startoftext|>")
"""Tokens of GPT-2's encoder.json that no merge makes, if they are there: special ones."""


class Vocabulary:
    """The tokens of an encoding. Users meet it as :class:`~numbatok.encoding.Encoding`."""

    name: str
    _model: Model
    _special_tokens: dict[str, int]

    def decode(self, tokens: Tokens, errors: str = "replace", *, unknown: Unknown = "error") -> str:
        """Give the text of ids; ``errors`` says what becomes of bytes that are not UTF-8 (as in ``bytes.decode``)."""
        return decode(self._model, tokens, unknown).decode("utf-8", errors=errors)

    def decode_batch(
        self, batch: Iterable[Tokens], *, errors: str = "replace", num_threads: int | None = None
    ) -> list[str]:
        """Give the text of each row of ids. ``num_threads`` is tiktoken's; decoding runs on the calling thread."""
        lane_count(num_threads)
        return [self.decode(tokens, errors) for tokens in batch]

    def decode_bytes_batch(self, batch: Iterable[Tokens], *, num_threads: int | None = None) -> list[bytes]:
        """Give the bytes of each row of ids. ``num_threads`` is tiktoken's; decoding runs on the calling thread."""
        lane_count(num_threads)
        return [self.decode_bytes(tokens) for tokens in batch]

    def decode_single_token_bytes(self, token: int) -> bytes:
        """Give the bytes of one id.

        Raises:
            KeyError: the encoding has no such id.

        """
        return decode(self._model, [token], "error")

    def decode_tokens_bytes(self, tokens: Tokens) -> list[bytes]:
        """Give the bytes of each id.

        >>> numbatok.get_encoding("gpt2").decode_tokens_bytes([31373, 995])
        [b'hello', b' world']
        """
        ids = id_array(tokens)
        data = self.decode_bytes(ids)
        starts = self._model.starts
        ends = np.cumsum(starts[ids + 1] - starts[ids], dtype=np.int64).tolist()
        return [data[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)] if ends else []

    def decode_with_offsets(self, tokens: Tokens) -> tuple[str, list[int]]:
        """Give the text of ids, and for each id the index of the character at which, or within which, it starts.

        Raises:
            UnicodeDecodeError: the bytes of all ids are not UTF-8.

        >>> numbatok.get_encoding("gpt2").decode_with_offsets([31373, 995])
        ('hello world', [0, 5])

        """
        pieces = self.decode_tokens_bytes(tokens)
        data = np.frombuffer(b"".join(pieces), np.uint8)
        starts_character = (data & 0xC0) != 0x80
        before = np.concatenate(([0], np.cumsum(starts_character)))
        places = np.cumsum([0, *map(len, pieces)])[:-1]
        offsets = before[places] - ~starts_character[places] if len(places) else places
        return data.tobytes().decode(), np.maximum(offsets, 0).tolist()

    def decode_bytes(self, tokens: Tokens, *, unknown: Unknown = "error") -> bytes:
        """Give the bytes of ids (a list, or an integer array of any type).

        Args:
            tokens: the ids.
            unknown: "error", or "skip" to leave out ids that the encoding does not have.

        Raises:
            KeyError: an id that the encoding does not have.
            OverflowError: an id below 0 or above 32 bits.

        >>> numbatok.get_encoding("gpt2").decode_bytes([31373, 995])
        b'hello world'

        """
        return decode(self._model, tokens, unknown)

    def encode_single_token(self, text_or_bytes: str | bytes) -> int:
        """Give the id of the token with exactly this text, special or not.

        Raises:
            KeyError: there is no such token.

        >>> numbatok.get_encoding("gpt2").encode_single_token(" world")
        995

        """
        if not isinstance(text_or_bytes, (str, bytes, bytearray, memoryview)):
            raise TypeError(f"a token is wanted as str or bytes, and {type(text_or_bytes).__name__} was given")
        data = utf8(text_or_bytes) if isinstance(text_or_bytes, str) else bytes(text_or_bytes)
        at, size, _ = text_span(data)
        token = find_token(self._model.address, at, size) if data else -1
        if token < 0:
            name = data.decode(errors="replace")
            token = self._special_tokens.get(name, self._model.specials.get(name, -1))
        if token < 0:
            raise KeyError(data)
        return int(token)

    # ---- what the encoding is --------------------------------------------------------------------------------------

    @property
    def n_vocab(self) -> int:
        """One more than the largest id."""
        return self.max_token_value + 1

    @property
    def max_token_value(self) -> int:
        """The largest id."""
        return self._model.ids - 1

    @property
    def eot_token(self) -> int:
        """The id of ``<|endoftext|>``."""
        return self._special_tokens[ENDOFTEXT]

    def is_special_token(self, token: int) -> bool:
        """Tell whether an id is that of a special token."""
        return token in self._special_tokens.values()

    @functools.cached_property
    def _mergeable_ranks(self) -> dict[bytes, int]:
        apart = {*self._special_tokens.values(), *self._model.specials.values()}
        tokens = ((self._model.token_bytes(token), token) for token in range(self._model.ids) if token not in apart)
        return {token: rank for token, rank in tokens if token}

    def token_byte_values(self) -> list[bytes]:
        """Give the bytes of all tokens that are not special, in the order of their bytes (as tiktoken does)."""
        return sorted(self._mergeable_ranks)
