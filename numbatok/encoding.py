"""The class that users touch.

Invariant: every way in gives the ids of tiktoken; the methods differ only in the shape of what they take and give.

    >>> import numbatok
    >>> enc = numbatok.get_encoding("gpt2")
    >>> enc.encode("hello world")
    [31373, 995]
    >>> enc.decode([31373, 995])
    'hello world'
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from numbatok.batch import NotUtf8, encode_batch, encode_one, lane_count
from numbatok.encoder import SLACK
from numbatok.ids import Tokens, Unknown, decode
from numbatok.invalid import encode_invalid
from numbatok.model import Model, address
from numbatok.ragged import Ids, Offsets, Ragged, Rows
from numbatok.special import Names, name_set, refuse, split_at_specials
from numbatok.split.dual import split_dual
from numbatok.split.gpt2 import split_text
from numbatok.table import find_token
from numbatok.text import Span, Text, bytes_at, join_rows, text_span, utf8
from numbatok.worker import OUTPUT_BYTES, Worker, WorkerPool

NOTHING: frozenset[str] = frozenset()
ENDOFTEXT = "<|endoftext|>"


class Encoding:
    """A vocabulary with its split: text to ids and back. Get one from :func:`numbatok.get_encoding`.

    Safe to use from several threads at once. Pickled by name, so that a worker process loads its own tables.

    Attributes:
        name: the name by which :func:`~numbatok.registry.get_encoding` knows it.
        special_tokens_set: the special tokens, as text.

    """

    name: str
    special_tokens_set: frozenset[str]
    _model: Model
    _pool: WorkerPool

    @classmethod
    def _from_model(cls, name: str, model: Model) -> Encoding:
        self = cls.__new__(cls)
        self.name = name
        self._model = model
        self._pool = WorkerPool(model)
        self.special_tokens_set = frozenset(model.specials)
        return self

    def __repr__(self) -> str:
        return f"<Encoding {self.name!r}>"

    # ---- text to ids, as tiktoken does it -------------------------------------------------------------------------

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
        allowed = [self._allowed(one, allowed_special, disallowed_special) for one in texts]
        if not any(allowed):
            return _as_lists(self._encode_rows(rows, num_threads))
        lane_count(num_threads)
        specials = {"allowed_special": allowed_special, "disallowed_special": disallowed_special}
        return [self.encode(one, **specials) for one in texts]

    def encode_single_token(self, text_or_bytes: str | bytes) -> int:
        """Give the id of the token with exactly this text, special or not.

        Raises:
            KeyError: there is no such token.

        >>> numbatok.get_encoding("gpt2").encode_single_token(" world")
        995

        """
        data = utf8(text_or_bytes) if isinstance(text_or_bytes, str) else bytes(text_or_bytes)
        at, size, _ = text_span(data)
        token = find_token(self._model.address, at, size) if data else -1
        if token < 0:
            token = self._model.specials.get(data.decode(errors="replace"), -1)
        if token < 0:
            raise KeyError(data)
        return int(token)

    # ---- text to ids, flat ----------------------------------------------------------------------------------------

    def encode_flat(self, text: Text) -> Ids:
        """Encode one text (str, bytes or uint8 array) to a uint32 array; special tokens are ordinary text.

        >>> numbatok.get_encoding("gpt2").encode_flat(b"hello world")
        array([31373,   995], dtype=uint32)
        """
        worker = self._pool.take()
        try:
            ids = self._encode_text(worker, text)
            return ids.copy() if ids.base is worker.output else ids
        finally:
            self._pool.give_back(worker)

    def encode_batch_flat(self, texts: Iterable[Text], *, threads: int | None = None) -> Ragged:
        """Encode many texts to one array of ids and the offsets of the rows; special tokens are ordinary text.

        Args:
            texts: an iterable of str or bytes.
            threads: number of threads; None is all cores (1 in a worker process of a pool or a forked child).

        >>> numbatok.get_encoding("gpt2").encode_batch_flat(["hello world", "hello"]).offsets.tolist()
        [0, 2, 3]

        """
        return self._encode_rows(join_rows(texts), threads)

    def count(self, text: Text) -> int:
        """Count the ids of a text without keeping them.

        >>> numbatok.get_encoding("gpt2").count("hello world")
        2
        """
        span = text_span(text)
        worker = self._pool.take()
        try:
            return encode_one(worker, span, 0)
        except NotUtf8:
            return len(self._encode_invalid(span))
        finally:
            self._pool.give_back(worker)

    def count_batch(self, texts: Iterable[Text], *, threads: int | None = None) -> Offsets:
        """Count the ids of each text without keeping them; gives an int64 array.

        >>> numbatok.get_encoding("gpt2").count_batch(["hello world", ""])
        array([2, 0])
        """
        rows = join_rows(texts)
        try:
            return np.diff(encode_batch(self._pool, rows, threads, count=True).offsets)
        except NotUtf8:
            return np.diff(self._encode_each(rows).offsets)

    def split(self, text: Text, *, cursors: int = 1) -> list[tuple[int, int]]:
        """Give the byte ranges of the pieces that are merged apart from each other.

        Args:
            text: a str, bytes or uint8 array.
            cursors: 1 for the scanner that encoding uses; 2 for the dual cursor (same pieces, see split/dual.py).

        Raises:
            ValueError: the bytes are not UTF-8, or there is no such number of cursors.

        >>> numbatok.get_encoding("gpt2").split("hello world")
        [(0, 5), (5, 11)]

        """
        span = text_span(text)
        if cursors not in (1, 2):
            raise ValueError(f"cursors is {cursors!r}; give 1 or 2")
        ends = self._piece_ends(span, cursors)
        done = int(ends[-1]) if len(ends) else 0
        if done != span[1]:
            raise ValueError(f"the bytes are not UTF-8 in the piece at index {done}; give valid text")
        return list(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)) if done else []

    # ---- ids to text ----------------------------------------------------------------------------------------------

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
        data = self.decode_bytes(tokens)
        ids = np.asarray(tokens if isinstance(tokens, np.ndarray) else list(tokens), np.int64)
        sizes = np.diff(self._model.starts.astype(np.int64))[ids]
        ends = np.cumsum(sizes)
        return [data[end - size : end] for size, end in zip(sizes.tolist(), ends.tolist(), strict=True)]

    # ---- what the encoding is -------------------------------------------------------------------------------------

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

    def token_byte_values(self) -> list[bytes]:
        """Give the bytes of all tokens that are not special, in the order of their bytes (as tiktoken does)."""
        special = set(self._model.specials.values())
        tokens = (self._model.token_bytes(token) for token in range(self._model.ids) if token not in special)
        return sorted(token for token in tokens if token)

    def clear_cache(self) -> None:
        """Give the memory of idle workers and their caches back; it changes the speed of the next call, not its ids."""
        self._pool.clear()

    # ---- inside ---------------------------------------------------------------------------------------------------

    def _allowed(self, text: Text, allowed_special: Names, disallowed_special: Names) -> dict[str, int]:
        """Check a text for disallowed special tokens; gives those that are allowed, with their ids."""
        if allowed_special is NOTHING and disallowed_special == "all":
            refuse(text, self.special_tokens_set)
            return {}
        allowed = name_set(allowed_special, self.special_tokens_set, "allowed_special")
        disallowed = name_set(disallowed_special, self.special_tokens_set - allowed, "disallowed_special")
        if disallowed:
            refuse(text, disallowed)
        return {name: token for name, token in self._model.specials.items() if name in allowed}

    def _encode_text(self, worker: Worker, text: Text) -> Ids:
        """Encode one text; the ids of a short one are a view of the worker's output, true until its next call."""
        span = text_span(text)
        try:
            if span[1] <= OUTPUT_BYTES:
                return worker.output[: encode_one(worker, span, worker.output_address)]
            out = np.empty(span[1] + SLACK, np.uint32)
            made = encode_one(worker, span, address(out))
        except NotUtf8:
            return self._encode_invalid(span)
        out.resize(made, refcheck=False)  # gives the rest back without a copy
        return out

    def _encode_allowed(self, text: Text, allowed: dict[str, int]) -> Ids:
        parts: list[Ids] = []
        for ordinary, token in split_at_specials(text, allowed):
            parts.append(self.encode_flat(ordinary))
            if token is not None:
                parts.append(np.array([token], np.uint32))
        return np.concatenate(parts)

    def _encode_rows(self, rows: Rows, threads: int | None) -> Ragged:
        try:
            return encode_batch(self._pool, rows, threads)
        except NotUtf8:
            return self._encode_each(rows)

    def _encode_each(self, rows: Rows) -> Ragged:
        """Encode row by row: some are not UTF-8."""
        spans = zip(rows.offsets[:-1].tolist(), rows.offsets[1:].tolist(), strict=True)
        ids = [self.encode_flat(bytes_at(rows.base + start, end - start)) for start, end in spans]
        offsets = np.cumsum([0, *map(len, ids)], dtype=np.int64)
        return Ragged(np.concatenate([*ids, np.empty(0, np.uint32)]), offsets)

    def _encode_invalid(self, span: Span) -> Ids:
        data = bytes_at(*span[:2])
        return encode_invalid(data, self._model, self._pool, self.encode_flat, self._last_piece)

    def _last_piece(self, data: bytes) -> int:
        ends = self._piece_ends(text_span(data))
        return int(ends[-2]) if len(ends) > 1 else 0

    def _piece_ends(self, span: Span, cursors: int = 1) -> npt.NDArray[np.int64]:
        at, size, _ = span
        ends = np.empty(size + 64, np.uint64)
        classes = address(self._model.classes)
        if cursors == 2:
            count = split_dual(classes, at, at + size, address(ends))
        else:
            count = split_text(classes, at, at + size, address(ends), size)
        return (ends[:count] - np.uint64(at)).astype(np.int64)


def _as_lists(ragged: Ragged) -> list[list[int]]:
    ids, offsets = ragged.tokens.tolist(), ragged.offsets.tolist()
    return [ids[start:end] for start, end in itertools.pairwise(offsets)]
