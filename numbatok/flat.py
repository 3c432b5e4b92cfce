"""The fast surface of an encoding: texts to flat arrays of ids and back, counts, pieces.

Invariant: special tokens are ordinary text here; the ids are those of ``encode_ordinary``, whatever the shape of
input and output.

    >>> import numbatok
    >>> numbatok.get_encoding("gpt2").encode_batch_flat(["hello world", "hello"]).row(1)
    array([31373], dtype=uint32)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from numbatok import batch
from numbatok.batch import encode_batch, encode_one, lane_count
from numbatok.bpe import MISSING, address
from numbatok.front import Front
from numbatok.invalid import encode_invalid
from numbatok.lookup import SLACK
from numbatok.ragged import Ids, Offsets, Ragged, Rows
from numbatok.special import Part, split_at_specials
from numbatok.split.dual import split_dual
from numbatok.split.scan import split_text
from numbatok.text import Span, Text, as_one, bytes_at, gather_rows, is_utf8, join_rows, text_list, text_span
from numbatok.vocabulary import Vocabulary
from numbatok.worker import OUTPUT_BYTES, NotUtf8, Worker, WorkerPool


class FlatEncoding(Vocabulary):
    """A vocabulary with its split. Users meet it as :class:`~numbatok.encoding.Encoding`.

    Safe to use from several threads at once.
    """

    _pool: WorkerPool
    _front: Front | None

    # ---- text to ids -----------------------------------------------------------------------------------------------

    def encode_flat(self, text: Text) -> Ids:
        """Encode one text (str, bytes or uint8 array) to a uint32 array; special tokens are ordinary text.

        >>> numbatok.get_encoding("gpt2").encode_flat(b"hello world")
        array([31373,   995], dtype=uint32)
        """
        if type(text) is str and not self._front:
            quick = self._pool.quick  # see calls.py; written out here, as in encode_ordinary: 100 ns of 600
            try:
                worker = quick.pop()
            except IndexError:
                return self._encode_single([(text, None)])
            made = worker.to_output(text)
            ids = worker.output[:made].copy() if made >= 0 else None
            quick.append(worker)  # not if that raised: see WorkerPool.give_back
            if ids is not None:
                return ids
        return self._encode_single(self._parts(text, {}) if self._front else [(text, None)])

    def encode_batch_flat(self, texts: Iterable[Text], *, threads: int | None = None) -> Ragged:
        """Encode many texts to one array of ids and the offsets of the rows; special tokens are ordinary text.

        Args:
            texts: an iterable of str or bytes.
            threads: number of threads; None is all cores (1 in a worker process of a pool or a forked child).

        >>> numbatok.get_encoding("gpt2").encode_batch_flat(["hello world", "hello"]).offsets.tolist()
        [0, 2, 3]

        """
        rows = text_list(texts)
        if len(rows) == 1 and self._is_for_one(rows[0], threads):
            ids = self.encode_flat(rows[0])  # 18 us less
            return Ragged(ids, np.array([0, len(ids)]))
        if self._front:
            return self._encode_parts([self._parts(text, {}) for text in rows], threads)
        return self._encode_rows(gather_rows(rows), threads)

    def count(self, text: Text) -> int:
        """Count the ids of a text without keeping them.

        >>> numbatok.get_encoding("gpt2").count("hello world")
        2
        """
        if self._model.incomplete or self._front:  # only ids tell of a byte that the vocabulary does not have
            return int(self.count_batch([text], threads=1)[0])
        if type(text) is str and (made := self._pool.count(text)) >= 0:
            return made
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
        if self._front:
            return self._count_parts([self._parts(text, {}) for text in text_list(texts)], threads)
        return self._count_rows(gather_rows(texts), threads)

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

    def _parts(self, text: Text, special: Mapping[str, int]) -> list[Part]:
        """Give the ordinary parts of a text between those tokens that are taken as a whole."""
        return self._front.parts(text, special) if self._front else list(split_at_specials(text, special))

    def _encode_single(self, parts: list[Part]) -> Ids:
        """Encode the parts of one text: most often it is one part, and needs no batch."""
        if len(parts) != 1 or parts[0][1] is not None:
            return self._encode_parts([parts], 1).tokens
        worker = self._pool.take()
        try:
            ids = self._encode_text(worker, parts[0][0])
            return ids.copy() if ids.base is worker.output else ids
        finally:
            self._pool.give_back(worker)

    def _encode_parts(self, texts: list[list[Part]], threads: int | None) -> Ragged:
        """Encode the parts of texts as one batch, and put the tokens between them behind each."""
        parts = [part for text in texts for part in text]
        rows = self._encode_rows(join_rows([part for part, _ in parts]), threads)
        found = np.array([token is not None for _, token in parts], bool)
        tokens = np.array([token for _, token in parts if token is not None], np.uint32)
        edges = rows.offsets + np.concatenate(([0], np.cumsum(found)))
        ids = np.insert(rows.tokens, rows.offsets[1:][found], tokens)
        return Ragged(ids, edges[np.cumsum([0, *map(len, texts)])])

    def _count_parts(self, texts: list[list[Part]], threads: int | None) -> Offsets:
        parts = [part for text in texts for part in text]
        counts = self._count_rows(join_rows([part for part, _ in parts]), threads)
        counts += np.array([token is not None for _, token in parts], np.int64)
        edges = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
        made: Offsets = np.diff(edges[np.cumsum([0, *map(len, texts)])])
        return made

    def _count_rows(self, rows: Rows, threads: int | None) -> Offsets:
        if self._model.incomplete:
            return np.diff(self._encode_rows(rows, threads).offsets)
        try:
            return np.diff(encode_batch(self._pool, rows, threads, count=True).offsets)
        except NotUtf8:
            return np.diff(self._encode_each(rows, threads).offsets)

    def _is_for_one(self, text: Text, threads: int | None) -> bool:
        """Tell whether a text is too short for several threads: a character has at most four bytes.

        Raises:
            ValueError, TypeError: what ``threads`` is refused for, as in a batch of more.

        """
        lane_count(threads)
        return type(text) in (str, bytes) and 4 * len(text) <= batch.PARALLEL_BYTES

    def _encode_rows(self, rows: Rows, threads: int | None) -> Ragged:
        try:
            ragged = encode_batch(self._pool, rows, threads)
        except NotUtf8:
            return self._encode_each(rows, threads)
        self._checked(ragged.tokens)
        return ragged

    def _encode_each(self, rows: Rows, threads: int | None) -> Ragged:
        """Encode a batch of which some rows are not UTF-8: those alone, and the rows between them as before."""
        rows = as_one(rows)
        edges = rows.offsets.tolist()
        bad = [
            row
            for row, (start, end) in enumerate(itertools.pairwise(edges))
            if not is_utf8(rows.base + start, end - start)
        ]
        parts, counts, done = [], [], 0
        for row in [*bad, len(edges) - 1]:
            try:
                good = encode_batch(self._pool, rows._replace(offsets=rows.offsets[done : row + 1]), threads)
            except NotUtf8:
                raise RuntimeError("a text changed while it was read; pass a copy") from None
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
