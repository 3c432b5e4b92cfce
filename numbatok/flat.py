"""The fast surface of an encoding: texts to flat arrays of ids and back, counts, pieces.

Invariant: special tokens are ordinary text here; the ids are those of ``encode_ordinary``, whatever the shape of
input and output.

    >>> import numbatok
    >>> numbatok.get_encoding("gpt2").encode_batch_flat(["hello world", "hello"]).row(1)
    array([31373], dtype=uint32)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from numbatok.batch import NotUtf8, encode_batch, encode_one
from numbatok.bpe import MISSING, Model, address
from numbatok.encoder import SLACK
from numbatok.ids import Tokens, Unknown, decode
from numbatok.invalid import encode_invalid
from numbatok.ragged import Ids, Offsets, Ragged, Rows
from numbatok.split.dual import split_dual
from numbatok.split.scan import split_text
from numbatok.text import Span, Text, bytes_at, is_utf8, join_rows, text_span
from numbatok.worker import OUTPUT_BYTES, Worker, WorkerPool


class FlatEncoding:
    """A vocabulary with its split. Users meet it as :class:`~numbatok.encoding.Encoding`.

    Safe to use from several threads at once.
    """

    _model: Model
    _pool: WorkerPool

    # ---- text to ids -----------------------------------------------------------------------------------------------

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
        if self._model.incomplete:  # only ids tell of a byte that the vocabulary does not have
            return len(self.encode_flat(text))
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
        if self._model.incomplete:
            return np.diff(self._encode_rows(rows, threads).offsets)
        try:
            return np.diff(encode_batch(self._pool, rows, threads, count=True).offsets)
        except NotUtf8:
            return np.diff(self._encode_each(rows, threads).offsets)

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

    # ---- ids to bytes ----------------------------------------------------------------------------------------------

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

    def clear_cache(self) -> None:
        """Give the memory of idle workers and their caches back; it changes the speed of the next call, not its ids."""
        self._pool.clear()

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _encode_text(self, worker: Worker, text: Text) -> Ids:
        """Encode one text; the ids of a short one are a view of the worker's output, true until its next call."""
        span = text_span(text)
        try:
            if span[1] <= OUTPUT_BYTES:
                ids = worker.output[: encode_one(worker, span, worker.output_address)]
                return self._checked(ids) if self._model.incomplete else ids
            out = np.empty(span[1] + SLACK, np.uint32)
            made = encode_one(worker, span, address(out))
        except NotUtf8:
            return self._encode_invalid(span)
        out.resize(made, refcheck=False)  # gives the rest back without a copy
        return self._checked(out)

    def _encode_rows(self, rows: Rows, threads: int | None) -> Ragged:
        try:
            ragged = encode_batch(self._pool, rows, threads)
        except NotUtf8:
            return self._encode_each(rows, threads)
        self._checked(ragged.tokens)
        return ragged

    def _encode_each(self, rows: Rows, threads: int | None) -> Ragged:
        """Encode a batch of which some rows are not UTF-8: those alone, and the rows between them as before."""
        edges = rows.offsets.tolist()
        bad = [
            row
            for row, (start, end) in enumerate(itertools.pairwise(edges))
            if not is_utf8(rows.base + start, end - start)
        ]
        parts, counts, done = [], [], 0
        for row in [*bad, len(edges) - 1]:
            good = encode_batch(self._pool, rows._replace(offsets=rows.offsets[done : row + 1]), threads)
            parts.append(good.tokens)
            counts.append(np.diff(good.offsets))
            if row < len(edges) - 1:
                parts.append(self._encode_invalid((rows.base + edges[row], edges[row + 1] - edges[row], rows.owner)))
                counts.append(np.array([len(parts[-1])], np.int64))
            done = row + 1
        return Ragged(np.concatenate(parts), np.cumsum(np.concatenate([np.zeros(1, np.int64), *counts])))

    def _encode_invalid(self, span: Span) -> Ids:
        data = bytes_at(*span[:2])
        return encode_invalid(data, self._model, self._pool, self.encode_flat, self._last_piece)

    def _last_piece(self, data: bytes) -> int:
        ends = self._piece_ends(text_span(data))
        return int(ends[-2]) if len(ends) > 1 else 0

    def _piece_ends(self, span: Span, cursors: int = 1) -> npt.NDArray[np.int64]:
        at, size, _ = span
        ends = np.empty(size + 64, np.uint64)
        tables = self._model.address
        if cursors == 2:
            count = split_dual(tables, at, at + size, address(ends))
        else:
            count = split_text(tables, at, at + size, address(ends), size)
        return (ends[:count] - np.uint64(at)).astype(np.int64)

    def _checked(self, ids: Ids) -> Ids:
        """Give the ids back, once none stands for a byte that the vocabulary does not have.

        Raises:
            ValueError: names the byte.

        """
        if self._model.incomplete and len(ids) and ids.max() >= MISSING:
            byte = int(ids[ids >= MISSING][0]) - MISSING
            raise ValueError(
                f"the vocabulary has no token for byte 0x{byte:02X}, which stands alone in the text; "
                "add the 256 single bytes to mergeable_ranks"
            )
        return ids
