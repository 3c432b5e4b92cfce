"""Encodings from files and to files: every format that is read and written, as methods of the encoding.

Invariant: what is read gives the ids that the file describes, and what is written is read back to the same ids, here
and by the library that the format belongs to. A pattern is never guessed, and a file appears whole or not at all.

    >>> import tempfile
    >>> path = f"{tempfile.mkdtemp()}/gpt2.bpe"
    >>> numbatok.get_encoding("gpt2").save(path)
    >>> numbatok.Encoding.load(path).encode("hello world")
    [31373, 995]
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Literal, Self

from numbatok.added import AddedToken, AddedTokens
from numbatok.arguments import checked_name, checked_special_tokens
from numbatok.bpe import Model
from numbatok.bpe1 import MAGIC, Content, pack, unpack
from numbatok.columns import ColumnEncoding
from numbatok.contents import content_of, model_of, with_special_tokens
from numbatok.export import to_bpe1, to_merges, to_tiktoken, to_tokenizer
from numbatok.files import as_text, default_name, new_file
from numbatok.front import Front
from numbatok.huggingface import Tokenizer, read_tokenizer, source_text
from numbatok.listing import listed_merges, made_from_ranks
from numbatok.pieces import slow_pieces
from numbatok.split.patterns import AS_ONE_PIECE, Split, split_of
from numbatok.vocabulary import GPT2_NAMES
from numbatok.worker import WorkerPool

FilePath = str | os.PathLike[str]
Format = Literal["bpe", "huggingface", "tiktoken", "merges", "gpt2"]

FILE_NAMES = {"merges": ("vocab.json", "merges.txt"), "gpt2": ("encoder.json", "vocab.bpe")}
"""The formats of two files, and what these are called in a folder."""
ONE_FILE = ("bpe", "huggingface", "tiktoken")


class StoredEncoding(ColumnEncoding):
    """The reading and writing side of :class:`~numbatok.encoding.Encoding`."""

    special_tokens_set: frozenset[str]
    _pat_str: str
    _tokenizer: Tokenizer | None
    _around: tuple[tuple[int, ...], tuple[int, ...]]
    _from_ranks: bool
    """Whether ranks are known to make the tables, so that tiktoken gives the same ids."""

    # ---- from files --------------------------------------------------------------------------------------------------

    @classmethod
    def load(
        cls,
        path: FilePath,
        *,
        name: str | None = None,
        pat_str: str | None = None,
        special_tokens: Mapping[str, int] | None = None,
        slow_split: bool = False,
    ) -> Self:
        """Read a BPE1 file (docs/file-format.md): one that :meth:`save` wrote, or another program.

        What is given replaces what the file says. A file of version 1 says neither pattern nor special tokens: the
        pattern has to be given, and special tokens too if there are some.

        Args:
            path: the file.
            name: a name for people; the default is that in the file, or else the file's name without the ending.
            pat_str: the pattern that splits text; known by its exact text, unless ``slow_split`` is set.
            special_tokens: special token -> id. One that is among the tokens of the file is one of them no more.
            slow_split: split by the ``regex`` package where the pattern has no kernel.

        Raises:
            ValueError: the pattern is missing or has no split kernel; the file is no BPE1 file, cut, changed, or
                contradicts itself: names the field, what was met and what was expected.
            OSError: the file cannot be read.

        """
        with open(path, "rb") as file:
            data = file.read(len(MAGIC))
            if data == MAGIC:  # else the file may be a large one of another kind
                data += file.read()
        return cls._from_bpe(data, os.fspath(path), name, pat_str, special_tokens, slow_split)

    @classmethod
    def _from_bpe(
        cls,
        data: bytes,
        file: str,
        name: str | None = None,
        pat_str: str | None = None,
        special_tokens: Mapping[str, int] | None = None,
        slow_split: bool = False,
    ) -> Self:
        content = unpack(data, file)
        if special_tokens is not None:
            content = with_special_tokens(content, checked_special_tokens(special_tokens), file)
        content = content if pat_str is None else content._replace(pattern=pat_str)
        if not content.pattern:
            raise ValueError(
                f"{file}: a file of version {data[len(MAGIC)]} without the pattern that splits text, and none is "
                "guessed: load(path, pat_str=..., special_tokens=...), or --pattern on the command line"
            )
        return cls._from_content(content, file, name or content.name or default_name(file), slow_split)

    @classmethod
    def _from_content(cls, content: Content, file: str, name: str, slow_split: bool) -> Self:
        special = {extra.text: extra.id for extra in content.extras if extra.special}
        try:
            split, front = way_to_split(content.pattern, special, slow_split)
        except ValueError as error:
            raise ValueError(f"{file}: {error}") from None
        self = cls.__new__(cls)
        self._adopt(name, content.pattern, model_of(content, file, split), special, front)
        self._from_ranks = False
        return self

    @classmethod
    def from_tiktoken(
        cls,
        source: Any,
        *,
        name: str | None = None,
        pat_str: str | None = None,
        special_tokens: Mapping[str, int] | None = None,
        slow_split: bool = False,
    ) -> Self:
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
                was read from a tokenizer.json or a BPE1 file, which say more than ranks can.
            OSError: the file cannot be read.

        """
        from numbatok.convert import tiktoken_arguments

        arguments = tiktoken_arguments(source, name, pat_str, special_tokens)
        return cls(**arguments, **{"slow_split": slow_split})

    @classmethod
    def from_gpt2(
        cls,
        encoder_json: FilePath,
        vocab_bpe: FilePath,
        *,
        name: str = "gpt2",
        special_tokens: Collection[str] = GPT2_NAMES,
    ) -> Self:
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
    def from_merges(
        cls,
        vocab_json: FilePath,
        merges_txt: FilePath,
        *,
        pat_str: str | None = None,
        name: str | None = None,
        special_tokens: Mapping[str, int] | None = None,
        slow_split: bool = False,
    ) -> Self:
        """Make an encoding of a ``vocab.json`` with any ids and its ``merges.txt``: the form of GPT-2 for other models.

        The two files do not say the pattern; it has to be given, unless the merges are GPT-2's own. Tokens that are not
        spelled in GPT-2's byte alphabet only decode.

        Args:
            vocab_json: the ids of all tokens.
            merges_txt: the merges, one a line, in their order.
            pat_str: the pattern that splits text; known by its exact text, unless ``slow_split`` is set.
            name: a name for people; the default is that of the folder.
            special_tokens: special token -> id, in ``vocab_json`` or not; the default is ``<|endoftext|>``, and
                ``<|startoftext|>``, where ``vocab_json`` has them and no merge makes them.
            slow_split: split by the ``regex`` package where the pattern has no kernel.

        Raises:
            ValueError: a file is faulty, or the two do not agree: names the file and the place; no split kernel.
            OSError: a file cannot be read.

        """
        from numbatok.convert import merges_content

        content = merges_content(vocab_json, merges_txt, pat_str, special_tokens)
        name = name or folder_name(vocab_json) or "merges"
        return cls._from_content(content, os.fspath(vocab_json), name, slow_split)

    @classmethod
    def from_huggingface(cls, source: Any, *, name: str | None = None, slow_split: bool = False) -> Self:
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
        return cls._from_json(text, file, name or folder_name(file) or "tokenizer", slow_split)

    @classmethod
    def _from_json(cls, text: str, file: str, name: str, slow_split: bool) -> Self:
        tokenizer = read_tokenizer(text, file, slow_split)
        self = cls.__new__(cls)
        special = {token.content: token.id for token in tokenizer.added if token.special}
        self._adopt(name, tokenizer.pattern, tokenizer.model, special, tokenizer.front)
        self._tokenizer, self._around = tokenizer, (tokenizer.before, tokenizer.behind)
        self._from_ranks = False
        return self

    @classmethod
    def _from_model(cls, name: str, pat_str: str, model: Model) -> Self:
        self = cls.__new__(cls)
        self._adopt(name, pat_str, model, model.specials, None)
        return self

    def _adopt(self, name: str, pat_str: str, model: Model, special: dict[str, int], front: Front | None) -> None:
        self.name, self._pat_str, self._model, self._front = checked_name(name), pat_str, model, front
        self._pool, self._special_tokens = WorkerPool(model), special
        self._tokenizer, self._around = None, ((), ())
        self._from_ranks = True
        self.special_tokens_set = frozenset(special)

    # ---- to files ----------------------------------------------------------------------------------------------------

    def save(
        self, path: FilePath | tuple[FilePath, FilePath], format: Format = "bpe", *, version: int | None = None
    ) -> None:
        """Write the encoding to a file that is read back to the same ids. A file appears whole or not at all.

        Only a BPE1 file of version 2 and a tokenizer.json hold the pattern and the special tokens. For the other
        formats these are for the reader to know.

        Args:
            path: the file; for "merges" and "gpt2" a folder, or the names of the two files.
            format: "bpe" for a BPE1 file (docs/file-format.md), which :meth:`load` reads; "huggingface" for a
                tokenizer.json; "tiktoken" for a rank file; "merges" for ``vocab.json`` and ``merges.txt``; "gpt2" for
                the same two as ``encoder.json`` and ``vocab.bpe``.
            version: of a BPE1 file: 2 (the default), or 1, which other programs read that know tokens and merges only.

        Raises:
            ValueError: the format or the version is unknown, or cannot hold this encoding: says what would be lost;
                two names are one file.
            OSError: the file cannot be written.

        """
        if version is not None and (format != "bpe" or version not in (1, 2)):
            raise ValueError(f'version is {version}; give 1 or 2, with format="bpe" only')
        if format not in (*ONE_FILE, *FILE_NAMES):
            known = ", ".join(f'"{one}"' for one in (*ONE_FILE, *FILE_NAMES))
            raise ValueError(f"format is {format!r}; give one of {known}")
        parts = self._to_files(format, version or 2)
        for place, data in zip(places(path, format, len(parts)), parts, strict=True):
            with new_file(place) as file:
                file.write(data)

    def _to_files(self, format: Format, version: int) -> tuple[bytes, ...]:
        """Give the bytes of the files of a format."""
        ranks, special = self._mergeable_ranks, self._special_tokens
        if format == "huggingface":
            return (self._to_json().encode(),)
        if format == "bpe" and version == 2:
            return (self._to_bpe(),)
        if changed := self._changes_texts():
            raise ValueError(f'{self!r} has {changed}, which is lost in this format; save it with format="huggingface"')
        if format == "tiktoken":
            return (to_tiktoken(self._model, ranks, self._from_ranks),)
        if format == "bpe":
            return (to_bpe1(self._model, ranks, special, self._from_ranks),)
        return to_merges(self._model, ranks, special, self._from_ranks)

    def _changes_texts(self) -> str | None:
        """Tell what changes a text before it is split; None if nothing does."""
        if self._tokenizer and self._tokenizer.parts["normalizer"]:
            return "a normalizer"
        added = self._tokenizer.added if self._tokenizer else ()
        if any(token.lstrip or token.rstrip or token.single_word for token in added):
            return "added tokens that take whitespace with them or look at words beside them"
        return "a space put before texts" if self._front and self._front.prefix_space else None

    def _to_content(self) -> Content:
        beyond = self._changes_texts()
        if self._tokenizer and not beyond:
            if self._front:
                beyond = "steps that split, or added tokens of other kinds than special ones"
            elif any(self._around):
                beyond = "ids that are put around texts"
            elif not self._pat_str:
                beyond = "a split that is not one pattern"
        if beyond:
            raise ValueError(f'{self!r} has {beyond}, which a BPE1 file cannot hold; save it with format="huggingface"')
        return content_of(self._model, self._special_tokens, self._pat_str, self.name)

    def _to_bpe(self) -> bytes:
        """Give the BPE1 file of version 2, with one merge a token where that gives the same ids as all pairs do."""
        content = self._to_content()
        if not (self._from_ranks or made_from_ranks(self._model, self._mergeable_ranks)) or not content.whole:
            return pack(content, 2)
        try:
            listing = listed_merges(self._model, self._mergeable_ranks, from_ranks=True)
        except ValueError:  # no list gives the same ids
            return pack(content, 2)
        return pack(content if listing.whole else content._replace(merges=listing.columns, whole=False), 2)

    def _to_json(self) -> str:
        parts = (self._model, self._tokenizer, self._pat_str, self._mergeable_ranks, self._special_tokens)
        return to_tokenizer(*parts, self._from_ranks)

    def _by_content(self) -> tuple[Callable[..., Self], tuple[Any, ...]]:
        """Give the call that makes the same encoding anew, from what pickles."""
        if self._tokenizer:
            return self._from_json, (self._to_json(), self.name, self.name, self._tokenizer.slow_split)
        return self._from_bpe, (pack(self._to_content(), 2), self.name, self.name, None, None, self._front is not None)


def folder_name(file: FilePath) -> str:
    """Give the name of the folder of a file, as text."""
    return as_text(Path(file).absolute().parent.name)


def places(path: FilePath | tuple[FilePath, FilePath], format: Format, count: int) -> list[str]:
    """Give the paths of the files to write; the folder of a format of two files is made.

    Raises:
        ValueError: these are not ``count`` files.

    """
    if isinstance(path, tuple):
        paths = [os.fspath(one) for one in path]
    elif format in FILE_NAMES:
        os.makedirs(path, exist_ok=True)
        paths = [os.path.join(path, name) for name in FILE_NAMES[format]]
    else:
        paths = [os.fspath(path)]
    if len(paths) != count:
        raise ValueError(f'format "{format}" is {count} file(s), and {len(paths)} name(s) were given')
    if len({os.path.normcase(os.path.realpath(one)) for one in paths}) < count:
        raise ValueError(f"{' and '.join(paths)} are one file, and two are to be written; give another name for one")
    return paths


def way_to_split(pattern: str, special: Mapping[str, int], slow_split: bool) -> tuple[Split, Front | None]:
    """Give the split kernel of a pattern, or the slow split where it has none and that is allowed.

    Raises:
        ValueError: it has none, and ``slow_split`` is not set.

    """
    try:
        return split_of(pattern), None
    except ValueError:
        if not slow_split:
            raise
    tokens = [AddedToken(text, number, special=True) for text, number in special.items()]
    return AS_ONE_PIECE, Front(AddedTokens(tokens, None), pieces=slow_pieces(pattern))
