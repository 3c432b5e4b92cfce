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

import itertools
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from numbatok.added import AddedToken, AddedTokens
from numbatok.bpe import Model
from numbatok.columns import ColumnEncoding
from numbatok.export import to_tiktoken, to_tokenizer
from numbatok.files import new_file
from numbatok.front import Front
from numbatok.huggingface import Tokenizer, read_tokenizer, source_text
from numbatok.invalid import merge_whole
from numbatok.pieces import slow_pieces
from numbatok.ragged import Ids, Ragged
from numbatok.special import Names, Part, name_set, refuse, split_at_specials
from numbatok.split.patterns import AS_ONE_PIECE, split_of
from numbatok.text import Text, join_rows, text_list, text_span, utf8
from numbatok.unstable import completions, stable_length
from numbatok.vocabulary import GPT2_NAMES
from numbatok.worker import WorkerPool

NOTHING: frozenset[str] = frozenset()


class Encoding(ColumnEncoding):
    """A vocabulary with its split: text to ids and back. Get one by name from :func:`numbatok.get_encoding`.

    Safe to use from several threads at once. One that was got by name is pickled by its name, so that a worker process
    loads its own tables; another one by what it was made of.

    Args:
        name: a name for people; encodings with other special tokens should have other names.
        pat_str: the pattern that splits text into pieces; known by its exact text, unless ``slow_split`` is set.
        mergeable_ranks: token bytes -> rank, which is the id too.
        special_tokens: special token -> id.
        explicit_n_vocab: the number of tokens that is expected, special ones included; checked if given.
        slow_split: split by the ``regex`` package where the pattern has no kernel (see pieces.py).

    Raises:
        ValueError: an unknown pattern, ranks that no table can hold, a special token with the id of another token.

    Attributes:
        name: the name.
        special_tokens_set: the special tokens, as text.

    """

    special_tokens_set: frozenset[str]
    _tokenizer: Tokenizer | None
    _around: tuple[tuple[int, ...], tuple[int, ...]]

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
        try:
            split, front = split_of(pat_str), None
        except ValueError:
            if not slow_split:
                raise
            tokens = [AddedToken(token, number, special=True) for token, number in special_tokens.items()]
            split, front = AS_ONE_PIECE, Front(AddedTokens(tokens, None), pieces=slow_pieces(pat_str))
        model = Model.from_ranks(mergeable_ranks, special_tokens, split)
        self._adopt(name, pat_str, model, model.specials, front)
        found = len(mergeable_ranks) + len(special_tokens)
        if explicit_n_vocab and (found != explicit_n_vocab or self.n_vocab != explicit_n_vocab):
            raise ValueError(
                f"explicit_n_vocab is {explicit_n_vocab}, but there are {found} tokens, "
                f"and ids go up to {self.max_token_value}"
            )

    @classmethod
    def from_tiktoken(
        cls,
        source: Any,
        *,
        name: str | None = None,
        pat_str: str | None = None,
        special_tokens: Mapping[str, int] | None = None,
        slow_split: bool = False,
    ) -> Encoding:
        """Make an encoding of a rank file, or of an encoding of tiktoken.

        What is given replaces what ``source`` says. A file says neither pattern nor special tokens, unless it is one of
        those that OpenAI published: then the default is the encoding of that name.

        Args:
            source: the path of a rank file (``.tiktoken``), the address of one that tiktoken has fetched, or an
                encoding.
            name: a name for people; the default for a file is its name without the ending.
            pat_str: the pattern that splits text; known by its exact text, unless ``slow_split`` is set.
            special_tokens: special token -> id; the default for a file is none.
            slow_split: split by the ``regex`` package where the pattern has no kernel.

        Raises:
            TypeError: ``source`` is something else.
            ValueError: the pattern is missing or has no split kernel; the file is faulty: names the line; ``source``
                was read from a tokenizer.json, which says more than ranks can.
            OSError: the file cannot be read.

        """
        from numbatok.convert import tiktoken_arguments

        return cls(**tiktoken_arguments(source, name, pat_str, special_tokens), slow_split=slow_split)

    @classmethod
    def from_gpt2(
        cls,
        encoder_json: str | os.PathLike[str],
        vocab_bpe: str | os.PathLike[str],
        *,
        name: str = "gpt2",
        special_tokens: Collection[str] = GPT2_NAMES,
    ) -> Encoding:
        """Make an encoding of the two files of GPT-2's release, with GPT-2's pattern.

        Args:
            encoder_json: the ids of all tokens.
            vocab_bpe: the merges.
            name: a name for people.
            special_tokens: tokens of ``encoder_json`` that no merge makes; those that are not there are left out.

        Raises:
            ValueError: a file is faulty, or the two do not agree: names the file and the place.
            OSError: a file cannot be read.

        """
        from numbatok.convert import gpt2_arguments

        return cls(**gpt2_arguments(encoder_json, vocab_bpe, name, special_tokens))

    @classmethod
    def from_huggingface(cls, source: Any, *, name: str | None = None, slow_split: bool = False) -> Encoding:
        """Read a byte-level BPE tokenizer of Hugging Face: the ids will be those of ``tokenizers``.

        Its added tokens that are special are tiktoken's special tokens here: ``encode`` refuses them until they are
        allowed. The others are tokens wherever they stand in a text, as in ``tokenizers``.

        Args:
            source: the path of a tokenizer.json, its folder, a ``tokenizers.Tokenizer``, or a fast tokenizer of
                ``transformers``.
            name: a name for people; the default is that of the folder.
            slow_split: split by the ``regex`` package where the pre-tokenizer has no kernel (see pieces.py).

        Raises:
            TypeError: ``source`` is something else.
            ValueError: the file is broken, or asks for what is not supported: names the field.

        """
        text, file = source_text(source)
        return cls._from_json(text, file, name or Path(file).absolute().parent.name or "tokenizer", slow_split)

    @classmethod
    def _from_json(cls, text: str, file: str, name: str, slow_split: bool) -> Encoding:
        tokenizer = read_tokenizer(text, file, slow_split)
        self = cls.__new__(cls)
        special = {token.content: token.id for token in tokenizer.added if token.special}
        self._adopt(name, tokenizer.pattern, tokenizer.model, special, tokenizer.front)
        self._tokenizer, self._around = tokenizer, (tokenizer.before, tokenizer.behind)
        return self

    def save(self, path: str | os.PathLike[str], format: Literal["huggingface", "tiktoken"]) -> None:
        """Write the encoding to a file that other libraries read: a tokenizer.json, or a rank file of tiktoken.

        The file appears whole or not at all. A rank file holds the tokens and their ranks alone: the pattern and the
        special tokens are for the reader to know.

        Raises:
            ValueError: the format is unknown, or cannot hold this encoding.

        """
        if format == "huggingface":
            data = self._to_json().encode()
        elif format == "tiktoken":
            data = to_tiktoken(self._model, self._mergeable_ranks, from_ranks=self._tokenizer is None)
        else:
            raise ValueError(f'format is {format!r}; give "huggingface" or "tiktoken"')
        with new_file(os.fspath(path)) as file:
            file.write(data)

    def _to_json(self) -> str:
        ranks, special = self._mergeable_ranks, self._special_tokens
        return to_tokenizer(self._model, self._tokenizer, self._pat_str, ranks, special)

    def _by_content(self) -> tuple[Callable[..., Encoding], tuple[Any, ...]]:
        """Give the call that makes the same encoding anew, from what pickles."""
        if self._tokenizer:
            return Encoding._from_json, (self._to_json(), self.name, self.name, self._tokenizer.slow_split)
        slow = self._front is not None
        return _from_ranks, (self.name, self._pat_str, self._mergeable_ranks, self._special_tokens, slow)

    @classmethod
    def _from_model(cls, name: str, pat_str: str, model: Model) -> Encoding:
        self = cls.__new__(cls)
        self._adopt(name, pat_str, model, model.specials, None)
        return self

    def _adopt(self, name: str, pat_str: str, model: Model, special: dict[str, int], front: Front | None) -> None:
        self.name, self._pat_str, self._model, self._front = name, pat_str, model, front
        self._pool, self._special_tokens = WorkerPool(model), special
        self._tokenizer, self._around = None, ((), ())
        self.special_tokens_set = frozenset(special)

    def __repr__(self) -> str:
        return f"<Encoding {self.name!r}>"

    # ---- text to ids -----------------------------------------------------------------------------------------------

    def encode_ordinary(self, text: Text) -> list[int]:
        """Encode a text; special tokens are read as ordinary text.

        >>> numbatok.get_encoding("gpt2").encode_ordinary("<|endoftext|>")
        [27, 91, 437, 1659, 5239, 91, 29]
        """
        if self._front:
            made: list[int] = self.encode_flat(text).tolist()
            return made
        worker = self._pool.take()
        try:
            ids: list[int] = self._encode_text(worker, text).tolist()
            return ids
        finally:
            self._pool.give_back(worker)

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
        ids: list[int] = self._encode_single(self._whole(text, allowed, add_special_tokens)).tolist()
        return ids

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
        return _as_lists(self.encode_batch_flat(text, threads=num_threads))

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
        rows = join_rows(texts)
        allowed, disallowed = self._names(allowed_special, disallowed_special)
        for one in texts if disallowed else ():
            refuse(one, disallowed)
        if allowed or self._front or add_special_tokens:
            parts = [self._whole(one, allowed, add_special_tokens) for one in texts]
            return _as_lists(self._encode_parts(parts, num_threads))
        return _as_lists(self._encode_rows(rows, num_threads))

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


def _from_ranks(
    name: str, pat_str: str, ranks: dict[bytes, int], special: dict[str, int], slow_split: bool
) -> Encoding:
    return Encoding(name, pat_str=pat_str, mergeable_ranks=ranks, special_tokens=special, slow_split=slow_split)


def _as_lists(ragged: Ragged) -> list[list[int]]:
    ids, offsets = ragged.tokens.tolist(), ragged.offsets.tolist()
    return [ids[start:end] for start, end in itertools.pairwise(offsets)]
