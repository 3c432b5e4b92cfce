"""The contestants: numbatok and the tokenizers it is compared with, each behind one small adapter.

Invariant: every adapter reads text as ordinary text, and an operation it does not offer is None, not an imitation. The
threads of a library are those of its process (see processes.py), so a call never says how many, except where it must.

    >>> PEERS["tiktoken"].package
    'tiktoken'
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from bench.vocabulary import TIKTOKEN_CACHE, TIKTOKEN_NAMES, USER_CACHE, Vocabulary

Operation = Callable[..., Any]
OPERATIONS = ("array", "list", "arrays", "lists", "count", "decode")
"""One text to a NumPy array or a list; many texts in one call; the number of ids; ids to text."""


class Unsupported(Exception):
    """The peer does not have this encoding, or has no way to be given it."""


class Peer:
    """One tokenizer with one encoding loaded.

    Attributes:
        name: how tables call it.
        package: its distribution; a peer whose distribution is not installed is a line of the report.
        module: what is imported.
        forms: the forms of text that it takes, its quickest one first.
        ids_form: the quickest form of ids that its decoder takes.
        array, list, arrays, lists, count, decode: the operations; ``arrays`` gives the ids of all texts in one array.

    """

    name: ClassVar[str]
    package: ClassVar[str]
    module: ClassVar[str]
    forms: ClassVar[tuple[str, ...]] = ("str",)
    ids_form: ClassVar[str] = "list"
    array: Operation | None = None
    list: Operation | None = None
    arrays: Operation | None = None
    lists: Operation | None = None
    count: Operation | None = None
    decode: Operation | None = None

    def __init__(self, vocabulary: Vocabulary) -> None:
        raise NotImplementedError


PEERS: dict[str, type[Peer]] = {}


def peer(cls: type[Peer]) -> type[Peer]:
    """Enter an adapter into :data:`PEERS`."""
    PEERS[cls.name] = cls
    return cls


def installed_version(cls: type[Peer]) -> str | None:
    """Give the version of the distribution of a peer, or None if it is not installed."""
    try:
        return metadata.version(cls.package)
    except metadata.PackageNotFoundError:
        return None


def cores() -> int:
    """Give the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def rank_file(vocabulary: Vocabulary) -> Path:
    """Give the rank file.

    Raises:
        Unsupported: the encoding comes as a ``tokenizer.json`` only.

    """
    if vocabulary.ranks is None:
        raise Unsupported("reads rank files only")
    return vocabulary.ranks


def own_name(vocabulary: Vocabulary, names: dict[str, str]) -> str:
    """Give the peer's name of an encoding that it carries.

    Raises:
        Unsupported: it does not carry it.

    """
    if vocabulary.name not in names:
        raise Unsupported(f"carries {', '.join(names)} only")
    return names[vocabulary.name]


def words(buffers: Any) -> np.ndarray:
    """Give the ids of a pair of byte buffers (ids, offsets)."""
    return np.frombuffer(buffers[0], np.uint32)


OPENAI = {"cl100k_base": "cl100k_base", "o200k_base": "o200k_base"}


@peer
class Numbatok(Peer):
    """The package itself."""

    name, package, module = "numbatok", "numbatok", "numbatok"
    forms, ids_form = ("bytes", "str"), "array"

    def __init__(self, vocabulary: Vocabulary) -> None:
        numbatok = import_module(self.module)
        if vocabulary.ranks:
            enc = numbatok.get_encoding(vocabulary.name)
        elif hasattr(numbatok.Encoding, "from_huggingface"):
            enc = numbatok.Encoding.from_huggingface(vocabulary.json)
        else:
            raise Unsupported("this version reads no tokenizer.json")
        self.array, self.list, self.count = enc.encode_flat, enc.encode_ordinary, enc.count
        self.arrays = lambda texts: enc.encode_batch_flat(texts).tokens
        self.lists, self.decode = enc.encode_ordinary_batch, enc.decode_bytes


@peer
class Tiktoken(Peer):
    """OpenAI's, and the reference for ids."""

    name, package, module = "tiktoken", "tiktoken", "tiktoken"

    def __init__(self, vocabulary: Vocabulary) -> None:
        os.environ["TIKTOKEN_CACHE_DIR"] = str(rank_file(vocabulary).parent / TIKTOKEN_CACHE)
        enc = import_module(self.module).get_encoding(TIKTOKEN_NAMES.get(vocabulary.name, vocabulary.name))
        self.array = lambda text: enc.encode_to_numpy(text, disallowed_special=())
        self.list, self.decode = enc.encode_ordinary, enc.decode_bytes
        self.lists = lambda texts: enc.encode_ordinary_batch(texts, num_threads=cores())


@peer
class Tokenizers(Peer):
    """Hugging Face's, and the reference for a ``tokenizer.json``."""

    name, package, module = "tokenizers", "tokenizers", "tokenizers"

    def __init__(self, vocabulary: Vocabulary) -> None:
        enc = import_module(self.module).Tokenizer.from_file(str(vocabulary.json))
        plain = {"add_special_tokens": False}
        self.list = lambda text: enc.encode(text, **plain).ids
        self.lists = lambda texts: [row.ids for row in enc.encode_batch_fast(texts, **plain)]
        self.decode = lambda ids: enc.decode(ids, skip_special_tokens=False)


@peer
class Gigatoken(Peer):
    """Rust; takes bytes, gives awkward arrays for batches."""

    name, package, module = "gigatoken", "gigatoken", "gigatoken"
    forms, ids_form = ("bytes", "str"), "array"
    schemes: ClassVar = {"gpt2": "gpt2", "cl100k_base": "cl100k", "o200k_base": "o200k"}

    def __init__(self, vocabulary: Vocabulary) -> None:
        load = import_module(self.module).Tokenizer
        if vocabulary.ranks:
            enc = load.from_tiktoken(vocabulary.ranks, self.schemes[vocabulary.name], vocabulary.specials)
        else:
            enc = load(vocabulary.json)
        self.array, self.decode, self.lists = enc.encode, enc.decode, enc.encode_batch_list
        self.list = lambda text: enc.encode(text).tolist()  # quicker than a batch of one for all but long texts
        self.arrays = lambda texts: enc.encode_batch(texts).layout.content.data


class TokenizersTwin(Peer):
    """What fastokens and snaptokens have in common: the names of Hugging Face's tokenizers, and a flat batch."""

    def take(self, enc: Any) -> None:
        """Take the operations from a loaded tokenizer."""
        self.array = lambda text: words(enc.encode_batch_flat([text]))
        self.list = lambda text: enc.encode(text).ids
        self.arrays = lambda texts: words(enc.encode_batch_flat(texts))
        self.lists = lambda texts: [row.ids for row in enc.encode_batch(texts)]
        self.decode = enc.decode


@peer
class Fastokens(TokenizersTwin):
    """Rust."""

    name, package, module = "fastokens", "fastokens", "fastokens"

    def __init__(self, vocabulary: Vocabulary) -> None:
        load = import_module(self.module).Tokenizer
        if vocabulary.name in OPENAI:
            self.take(load.from_tiktoken(str(vocabulary.ranks), encoding=vocabulary.name))
        else:  # quicker for gpt2 than its rank file with the pattern
            self.take(load.from_file(str(vocabulary.json)))


@peer
class Snaptokens(TokenizersTwin):
    """Rust."""

    name, package, module = "snaptokens", "snaptokens", "snaptokens"

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.take(import_module(self.module).Tokenizer.from_file(str(vocabulary.json)))


@peer
class Quicktok(Peer):
    """C++; carries its vocabularies, has no lists for batches."""

    name, package, module = "quicktok", "quicktok-v1", "quicktok"

    def __init__(self, vocabulary: Vocabulary) -> None:
        name = own_name(vocabulary, OPENAI | {"llama3": "llama3", "qwen3": "qwen3"})
        enc = import_module(self.module).get_encoding(name)
        self.array = lambda text: enc.encode_batch([text], 1)[0]
        self.arrays = lambda texts: enc.encode_batch(texts, cores())[0]
        self.list, self.count, self.decode = enc.encode_ordinary, enc.count, enc.decode_bytes


@peer
class Splintr(Peer):
    """Rust."""

    name, package, module = "splintr", "splintr-rs", "splintr"
    patterns: ClassVar = {
        "gpt2": "GPT2_PATTERN",
        "cl100k_base": "CL100K_BASE_PATTERN",
        "o200k_base": "O200K_BASE_PATTERN",
    }

    def __init__(self, vocabulary: Vocabulary) -> None:
        splintr = import_module(self.module)
        if vocabulary.ranks:
            enc = splintr.Tokenizer(str(vocabulary.ranks), getattr(splintr, self.patterns[vocabulary.name]))
        else:
            enc = splintr.from_json(str(vocabulary.json))
        self.array = lambda text: np.frombuffer(enc.encode_flat(text), np.uint32)
        self.arrays = lambda texts: words(enc.encode_batch_flat(texts))
        self.list, self.lists, self.decode = enc.encode_raw, enc.encode_batch, enc.decode_bytes


@peer
class Tokie(Peer):
    """Rust."""

    name, package, module = "tokie", "tokie", "tokie"

    def __init__(self, vocabulary: Vocabulary) -> None:
        enc = import_module(self.module).Tokenizer.from_json(str(vocabulary.json))
        self.array = lambda text: enc.encode_batch_flat([text], False)[0]
        self.arrays = lambda texts: enc.encode_batch_flat(texts, False)[0]
        self.list = lambda text: enc.encode(text, False).ids
        self.lists = lambda texts: [row.ids for row in enc.encode_batch(texts, False)]
        self.count, self.decode = enc.count_tokens, enc.decode_bytes


@peer
class Wordchipper(Peer):
    """Rust; lists only."""

    name, package, module = "wordchipper", "wordchipper", "wordchipper"

    def __init__(self, vocabulary: Vocabulary) -> None:
        name = own_name(vocabulary, OPENAI | TIKTOKEN_NAMES)
        os.environ["XDG_CACHE_HOME"] = str(rank_file(vocabulary).parent / USER_CACHE)
        wordchipper = import_module(self.module)
        options = wordchipper.TokenizerOptions.default()
        options.set_parallel(cores() > 1)
        enc = wordchipper.Tokenizer.from_pretrained(name, options)
        self.list, self.lists, self.decode = enc.encode, enc.encode_batch, enc.decode_bytes


@peer
class BpeOpenai(Peer):
    """Rust, by backtracking; carries its vocabularies, refuses long texts."""

    name, package, module = "bpe-openai", "bpe-openai", "bpe_openai"

    def __init__(self, vocabulary: Vocabulary) -> None:
        enc = import_module(self.module).get_encoding(own_name(vocabulary, OPENAI))
        self.array = lambda text: enc.encode_to_numpy(text, disallowed_special=())
        self.list, self.decode = enc.encode_ordinary, enc.decode_bytes
        self.lists = lambda texts: enc.encode_ordinary_batch(texts, num_threads=cores())


@peer
class RsBpe(Peer):
    """Rust, by backtracking; carries its vocabularies, lists only."""

    name, package, module = "rs-bpe", "rs-bpe", "rs_bpe"

    def __init__(self, vocabulary: Vocabulary) -> None:
        openai = import_module(self.module).openai
        enc = getattr(openai, own_name(vocabulary, OPENAI))()
        options = openai.ParallelOptions(20, 100, cores())
        self.list, self.count, self.decode = enc.encode, enc.count, enc.decode
        self.lists = lambda texts: enc.encode_batch_parallel(texts, options)[0]


@peer
class Riptoken(Peer):
    """Rust; lists only."""

    name, package, module = "riptoken", "riptoken", "riptoken"

    def __init__(self, vocabulary: Vocabulary) -> None:
        os.environ["TIKTOKEN_CACHE_DIR"] = str(rank_file(vocabulary).parent / TIKTOKEN_CACHE)
        enc = import_module(self.module).get_encoding(TIKTOKEN_NAMES.get(vocabulary.name, vocabulary.name))
        self.list, self.lists, self.decode = enc.encode_ordinary, enc.encode_ordinary_batch, enc.decode_bytes


@peer
class Iree(Peer):
    """C, by backtracking."""

    name, package, module = "iree-tokenizer", "iree-tokenizer", "iree.tokenizer"

    def __init__(self, vocabulary: Vocabulary) -> None:
        load = import_module(self.module).Tokenizer
        if vocabulary.ranks:
            enc = load.from_tiktoken(str(vocabulary.ranks), vocabulary.name)
        else:
            enc = load.from_file(str(vocabulary.json))
        self.array, self.list, self.lists, self.decode = enc.encode_to_array, enc.encode, enc.encode_batch, enc.decode
        self.arrays = lambda texts: enc.encode_batch_to_array(texts)[0]


@peer
class Kitoken(Peer):
    """Rust; lists only."""

    name, package, module = "kitoken", "kitoken", "kitoken"

    def __init__(self, vocabulary: Vocabulary) -> None:
        load = import_module(self.module).Kitoken
        if vocabulary.ranks:
            enc = load.from_tiktoken_file(str(vocabulary.ranks))
        else:
            enc = load.from_tokenizers_file(str(vocabulary.json))
        self.list = lambda text: enc.encode(text, False)
        self.lists = lambda texts: enc.encode_all(texts, False)
        self.decode = enc.decode
