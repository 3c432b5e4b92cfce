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

from collections.abc import Iterable, Mapping

from numbatok.arguments import checked_special_tokens
from numbatok.bpe import Model
from numbatok.calls import list_of_ids, lists_of_ids
from numbatok.invalid import merge_whole
from numbatok.ragged import Ids, Ragged
from numbatok.special import Names, Part, name_set, refuse, split_at_specials
from numbatok.stored import StoredEncoding, way_to_split
from numbatok.text import Text, gather_rows, text_list, text_span, utf8
from numbatok.unstable import completions, stable_length

NOTHING: frozenset[str] = frozenset()


class Encoding(StoredEncoding):
    """A vocabulary with its split: text to ids and back. Get one by name from :func:`numbatok.get_encoding`.

    Safe to use from several threads at once. One that was got by name is pickled by its name, so that a worker process
    loads its own tables; another one by what it holds.

    Args:
        name: a name for people; encodings with other special tokens should have other names.
        pat_str: the pattern that splits text into pieces; known by its exact text, unless ``slow_split`` is set.
        mergeable_ranks: token bytes -> rank, which is the id too.
        special_tokens: special token -> id.
        explicit_n_vocab: the number of tokens that is expected, special ones included; checked if given.
        slow_split: split by the ``regex`` package where the pattern has no kernel (see pieces.py).

    Raises:
        TypeError: the name or a special token is no ``str``, or its id no integer.
        ValueError: an unknown pattern, ranks that no table can hold, a special token with the id of another token.

    Attributes:
        name: the name.
        special_tokens_set: the special tokens, as text.

    """

    def __init__(
        self,
        name: str,
        *,
        pat_str: str,
        mergeable_ranks: Mapping[bytes, int],
        special_tokens: Mapping[str, int],
        explicit_n_vocab: int | None = None,
        slow_split: bool = False,
    ) -> None:
        special = checked_special_tokens(special_tokens)
        split, front = way_to_split(pat_str, special, slow_split)
        model = Model.from_ranks(mergeable_ranks, special, split)
        self._adopt(name, pat_str, model, model.specials, front)
        found = len(mergeable_ranks) + len(special)
        if explicit_n_vocab and (found != explicit_n_vocab or self.n_vocab != explicit_n_vocab):
            raise ValueError(
                f"explicit_n_vocab is {explicit_n_vocab}, but there are {found} tokens, "
                f"and ids go up to {self.max_token_value}"
            )

    def __repr__(self) -> str:
        return f"<Encoding {self.name!r}>"

    # ---- text to ids -----------------------------------------------------------------------------------------------

    def encode_ordinary(self, text: Text) -> list[int]:
        """Encode a text; special tokens are read as ordinary text.

        >>> numbatok.get_encoding("gpt2").encode_ordinary("<|endoftext|>")
        [27, 91, 437, 1659, 5239, 91, 29]
        """
        if type(text) is str and not self._front:
            quick = self._pool.quick  # see calls.py; written out here: 60 ns of 400
            try:
                worker = quick.pop()
            except IndexError:
                return self._to_list(self.encode_flat(text))
            ids: list[int] | str = worker.to_list(text)
            quick.append(worker)  # not if that raised: see WorkerPool.give_back
            if isinstance(ids, list):
                return ids
        return self._to_list(self.encode_flat(text))

    def encode(
        self,
        text: Text,
        *,
        allowed_special: Names = NOTHING,
        disallowed_special: Names = "all",
        add_special_tokens: bool = False,
    ) -> list[int]:
        """Encode a text; special tokens in it are refused, unless the caller says what they mean.

        Args:
            text: a ``str``, or bytes (read as UTF-8).
            allowed_special: special tokens that become their id; "all", or a collection of strings.
            disallowed_special: strings that are refused; "all" (all special tokens that are not allowed), or a
                collection of strings, empty to read every special token as ordinary text.
            add_special_tokens: put around the ids what the post-processor of a tokenizer.json puts there.

        Raises:
            ValueError: the text holds a disallowed special token.

        >>> numbatok.get_encoding("gpt2").encode("hello<|endoftext|>", allowed_special="all")
        [31373, 50256]

        """
        allowed = self._allowed(text, allowed_special, disallowed_special)
        if not (allowed or self._front or add_special_tokens):
            return self.encode_ordinary(text)
        return self._to_list(self._encode_single(self._whole(text, allowed, add_special_tokens)))

    def encode_to_numpy(
        self,
        text: Text,
        *,
        allowed_special: Names = NOTHING,
        disallowed_special: Names = "all",
        add_special_tokens: bool = False,
    ) -> Ids:
        """Encode as :meth:`encode` does, to a new, writable, contiguous uint32 array."""
        allowed = self._allowed(text, allowed_special, disallowed_special)
        if not (allowed or self._front or add_special_tokens):
            return self.encode_flat(text)
        return self._encode_single(self._whole(text, allowed, add_special_tokens))

    def encode_ordinary_batch(self, text: Iterable[Text], *, num_threads: int | None = None) -> list[list[int]]:
        """Encode many texts as :meth:`encode_ordinary` does, on ``num_threads`` threads (None: all cores).

        >>> numbatok.get_encoding("gpt2").encode_ordinary_batch(["hello world", ""])
        [[31373, 995], []]
        """
        return self._to_lists(self.encode_batch_flat(text, threads=num_threads))

    def encode_batch(
        self,
        text: Iterable[Text],
        *,
        num_threads: int | None = None,
        allowed_special: Names = NOTHING,
        disallowed_special: Names = "all",
        add_special_tokens: bool = False,
    ) -> list[list[int]]:
        """Encode many texts as :meth:`encode` does, on ``num_threads`` threads (None: all cores)."""
        texts = text_list(text)
        rows = gather_rows(texts)
        allowed, disallowed = self._names(allowed_special, disallowed_special)
        for one in texts if disallowed else ():
            refuse(one, disallowed)
        if allowed or self._front or add_special_tokens:
            parts = [self._whole(one, allowed, add_special_tokens) for one in texts]
            return self._to_lists(self._encode_parts(parts, num_threads))
        return self._to_lists(self._encode_rows(rows, num_threads))

    def encode_with_unstable(
        self, text: Text, *, allowed_special: Names = NOTHING, disallowed_special: Names = "all"
    ) -> tuple[list[int], list[list[int]]]:
        """Encode a text that may go on: its stable ids, and every list of ids that the rest of it may become.

        Raises:
            ValueError: the encoding changes texts before it splits them, or splits slowly: there is no such thing then.

        >>> numbatok.get_encoding("gpt2").encode_with_unstable("hello fanta")[0]
        [31373]

        """
        if self._front:
            raise ValueError(
                f"{self!r} changes a text before it is split, so that no part of it is stable; call encode"
            )
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

    # ---- inside; the first three are private names of tiktoken that programs use -----------------------------------

    def _encode_single_piece(self, text_or_bytes: str | bytes) -> list[int]:
        data = utf8(text_or_bytes) if isinstance(text_or_bytes, str) else text_or_bytes
        return self._to_list(self._checked(merge_whole(data, self._pool)))

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
        return {name: token for name, token in self._special_tokens.items() if name in allowed}, disallowed

    def _allowed(self, text: Text, allowed_special: Names, disallowed_special: Names) -> dict[str, int]:
        """Check a text for disallowed special tokens; gives those that are allowed, with their ids."""
        allowed, disallowed = self._names(allowed_special, disallowed_special)
        if disallowed:
            refuse(text, disallowed)
        return allowed

    def _whole(self, text: Text, allowed: Mapping[str, int], add_special_tokens: bool) -> list[Part]:
        """Give the parts of a text, with what the post-processor puts around it if that is wanted."""
        before, behind = self._around if add_special_tokens else ((), ())
        return [*(("", token) for token in before), *self._parts(text, allowed), *(("", token) for token in behind)]

    def _to_list(self, ids: Ids) -> list[int]:
        """Give ids as a list."""
        return list_of_ids(ids, self._model.ints)

    def _to_lists(self, rows: Ragged) -> list[list[int]]:
        """Give rows of ids as lists."""
        return lists_of_ids(rows, self._model.ints)
