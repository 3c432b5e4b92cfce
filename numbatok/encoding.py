"""The class that users touch: tiktoken's surface, method by method, on top of the flat one.

Invariant: every way in gives the ids of tiktoken; the methods differ only in the shape of what they take and give.

    >>> import numbatok
    >>> enc = numbatok.get_encoding("gpt2")
    >>> enc.encode("hello world")
    [31373, 995]
    >>> enc.decode([31373, 995])
    'hello world'
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping

import numpy as np

from numbatok.batch import lane_count
from numbatok.bpe import Model
from numbatok.flat import FlatEncoding
from numbatok.ids import Tokens, Unknown, decode, id_array
from numbatok.invalid import merge_whole
from numbatok.ragged import Ids, Offsets, Ragged
from numbatok.special import Names, Part, name_set, refuse, split_at_specials
from numbatok.split.patterns import split_of
from numbatok.table import find_token
from numbatok.text import Text, join_rows, text_span, utf8
from numbatok.unstable import completions, stable_length
from numbatok.worker import WorkerPool

NOTHING: frozenset[str] = frozenset()
ENDOFTEXT = "<|endoftext|>"


class Encoding(FlatEncoding):
    """A vocabulary with its split: text to ids and back. Get one by name from :func:`numbatok.get_encoding`.

    Safe to use from several threads at once. One that was got by name is pickled by its name, so that a worker process
    loads its own tables; another one by what it was made of.

    Args:
        name: a name for people; encodings with other special tokens should have other names.
        pat_str: the pattern that splits text into pieces; it must be one that has a split kernel, by its exact text.
        mergeable_ranks: token bytes -> rank, which is the id too.
        special_tokens: special token -> id.
        explicit_n_vocab: the number of tokens that is expected, special ones included; checked if given.

    Raises:
        ValueError: an unknown pattern, ranks that no table can hold, a special token with the id of another token.

    Attributes:
        name: the name.
        special_tokens_set: the special tokens, as text.

    """

    name: str
    special_tokens_set: frozenset[str]

    def __init__(
        self,
        name: str,
        *,
        pat_str: str,
        mergeable_ranks: Mapping[bytes, int],
        special_tokens: Mapping[str, int],
        explicit_n_vocab: int | None = None,
    ) -> None:
        model = Model.from_ranks(mergeable_ranks, special_tokens, split_of(pat_str))
        self._adopt(name, pat_str, model)
        found = len(mergeable_ranks) + len(special_tokens)
        if explicit_n_vocab and (found != explicit_n_vocab or self.n_vocab != explicit_n_vocab):
            raise ValueError(
                f"explicit_n_vocab is {explicit_n_vocab}, but there are {found} tokens, "
                f"and ids go up to {self.max_token_value}"
            )

    @classmethod
    def _from_model(cls, name: str, pat_str: str, model: Model) -> Encoding:
        self = cls.__new__(cls)
        self._adopt(name, pat_str, model)
        return self

    def _adopt(self, name: str, pat_str: str, model: Model) -> None:
        self.name, self._pat_str, self._model, self._pool = name, pat_str, model, WorkerPool(model)
        self.special_tokens_set = frozenset(model.specials)

    def __repr__(self) -> str:
        return f"<Encoding {self.name!r}>"

    # ---- text to ids -----------------------------------------------------------------------------------------------

    def encode_ordinary(self, text: Text) -> list[int]:
        """Encode a text; special tokens are read as ordinary text.

        >>> numbatok.get_encoding("gpt2").encode_ordinary("<|endoftext|>")
        [27, 91, 437, 1659, 5239, 91, 29]
        """
        worker = self._pool.take()
        try:
            ids: list[int] = self._encode_text(worker, text).tolist()
            return ids
        finally:
            self._pool.give_back(worker)

    def encode(self, text: Text, *, allowed_special: Names = NOTHING, disallowed_special: Names = "all") -> list[int]:
        """Encode a text; special tokens in it are refused, unless the caller says what they mean.

        Args:
            text: a ``str``, or bytes (read as UTF-8).
            allowed_special: special tokens that become their id; "all", or a collection of strings.
            disallowed_special: strings that are refused; "all" (all special tokens that are not allowed), or a
                collection of strings, empty to read every special token as ordinary text.

        Raises:
            ValueError: the text holds a disallowed special token.

        >>> numbatok.get_encoding("gpt2").encode("hello<|endoftext|>", allowed_special="all")
        [31373, 50256]

        """
        allowed = self._allowed(text, allowed_special, disallowed_special)
        return self._encode_allowed(text, allowed).tolist() if allowed else self.encode_ordinary(text)

    def encode_to_numpy(
        self, text: Text, *, allowed_special: Names = NOTHING, disallowed_special: Names = "all"
    ) -> Ids:
        """Encode as :meth:`encode` does, to a new, writable, contiguous uint32 array."""
        allowed = self._allowed(text, allowed_special, disallowed_special)
        return self._encode_allowed(text, allowed) if allowed else self.encode_flat(text)

    def encode_ordinary_batch(self, text: Iterable[Text], *, num_threads: int | None = None) -> list[list[int]]:
        """Encode many texts as :meth:`encode_ordinary` does, on ``num_threads`` threads (None: all cores).

        >>> numbatok.get_encoding("gpt2").encode_ordinary_batch(["hello world", ""])
        [[31373, 995], []]
        """
        return _as_lists(self.encode_batch_flat(text, threads=num_threads))

    def encode_batch(
        self,
        text: Iterable[Text],
        *,
        num_threads: int | None = None,
        allowed_special: Names = NOTHING,
        disallowed_special: Names = "all",
    ) -> list[list[int]]:
        """Encode many texts as :meth:`encode` does, on ``num_threads`` threads (None: all cores)."""
        texts = text if isinstance(text, (list, str, bytes)) else list(text)
        rows = join_rows(texts)
        allowed, disallowed = self._names(allowed_special, disallowed_special)
        for one in texts if disallowed else ():
            refuse(one, disallowed)
        if not allowed:
            return _as_lists(self._encode_rows(rows, num_threads))
        parts = [list(split_at_specials(one, allowed)) for one in texts]
        ids, edges = self._join_parts([part for row in parts for part in row], num_threads)
        ends = edges[np.cumsum([0, *map(len, parts)])]
        return _as_lists(Ragged(ids, ends))

    def encode_with_unstable(
        self, text: Text, *, allowed_special: Names = NOTHING, disallowed_special: Names = "all"
    ) -> tuple[list[int], list[list[int]]]:
        """Encode a text that may go on: its stable ids, and every list of ids that the rest of it may become.

        >>> numbatok.get_encoding("gpt2").encode_with_unstable("hello fanta")[0]
        [31373]
        """
        allowed = self._allowed(text, allowed_special, disallowed_special)
        ordinary = list(split_at_specials(text, allowed))[-1][0] if allowed else text
        ids = self.encode(text, allowed_special=allowed_special, disallowed_special=disallowed_special)
        span = text_span(ordinary)
        if span[1] == 0:
            return ids, []
        data = ordinary if isinstance(ordinary, bytes) else utf8(str(ordinary))
        last = len(self.encode_ordinary(data[self._last_piece(data) :]))
        stable = stable_length(self.decode_tokens_bytes(ids), last)
        found = completions(
            self.decode_bytes(ids[stable:]),
            self.token_byte_values(),
            self.encode_ordinary,
            self._encode_single_piece,
            lambda token: len(self._model.token_bytes(token)),
        )
        return ids[:stable], found

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
            token = self._model.specials.get(data.decode(errors="replace"), -1)
        if token < 0:
            raise KeyError(data)
        return int(token)

    # ---- ids to text -----------------------------------------------------------------------------------------------

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
        return self._model.specials[ENDOFTEXT]

    def is_special_token(self, token: int) -> bool:
        """Tell whether an id is that of a special token."""
        return token in self._model.specials.values()

    @functools.cached_property
    def _mergeable_ranks(self) -> dict[bytes, int]:
        special = set(self._model.specials.values())
        tokens = ((self._model.token_bytes(token), token) for token in range(self._model.ids) if token not in special)
        return {token: rank for token, rank in tokens if token}

    @property
    def _special_tokens(self) -> dict[str, int]:
        return self._model.specials

    def token_byte_values(self) -> list[bytes]:
        """Give the bytes of all tokens that are not special, in the order of their bytes (as tiktoken does)."""
        return sorted(self._mergeable_ranks)

    # ---- inside; the first three are private names of tiktoken that programs use -----------------------------------

    def _encode_single_piece(self, text_or_bytes: str | bytes) -> list[int]:
        data = utf8(text_or_bytes) if isinstance(text_or_bytes, str) else text_or_bytes
        return self._checked(merge_whole(data, self._pool)).tolist()  # type: ignore[no-any-return]

    def _encode_only_native_bpe(self, text: str) -> list[int]:
        return self.encode_ordinary(text)

    def _encode_bytes(self, text: bytes) -> list[int]:
        return self.encode_ordinary(text)

    def _names(self, allowed_special: Names, disallowed_special: Names) -> tuple[dict[str, int], frozenset[str]]:
        """Give the special tokens that are allowed, with their ids, and the strings that are refused."""
        if allowed_special is NOTHING and disallowed_special == "all":
            return {}, self.special_tokens_set
        allowed = name_set(allowed_special, self.special_tokens_set, "allowed_special")
        disallowed = name_set(disallowed_special, self.special_tokens_set - allowed, "disallowed_special")
        return {name: token for name, token in self._model.specials.items() if name in allowed}, disallowed

    def _allowed(self, text: Text, allowed_special: Names, disallowed_special: Names) -> dict[str, int]:
        """Check a text for disallowed special tokens; gives those that are allowed, with their ids."""
        allowed, disallowed = self._names(allowed_special, disallowed_special)
        if disallowed:
            refuse(text, disallowed)
        return allowed

    def _encode_allowed(self, text: Text, allowed: dict[str, int]) -> Ids:
        parts = list(split_at_specials(text, allowed))
        return self.encode_flat(text) if len(parts) == 1 else self._join_parts(parts, 1)[0]

    def _join_parts(self, parts: list[Part], threads: int | None) -> tuple[Ids, Offsets]:
        """Encode ordinary texts as one batch, put the special ids behind them; gives the ids and the edges of parts."""
        ordinary = self._encode_rows(join_rows([text for text, _ in parts]), threads)
        special = np.array([token is not None for _, token in parts], bool)
        tokens = np.array([token for _, token in parts if token is not None], np.uint32)
        ids = np.insert(ordinary.tokens, ordinary.offsets[1:][special], tokens)
        return ids, ordinary.offsets + np.concatenate(([0], np.cumsum(special)))


def _as_lists(ragged: Ragged) -> list[list[int]]:
    ids, offsets = ragged.tokens.tolist(), ragged.offsets.tolist()
    return [ids[start:end] for start, end in itertools.pairwise(offsets)]
