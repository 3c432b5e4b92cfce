"""The vocabularies in the files that other tokenizers load, made from the embedded encodings: nothing is downloaded.

Invariant: every peer gets the same ranks. They come out of numbatok's tables as a rank file (``NAME.tiktoken``) and as
a ``NAME.json`` in the form of Hugging Face's tokenizers; tiktoken itself finds the rank file in its cache folder.

    >>> vocabulary = embedded("gpt2", Path("vocabularies"))  # doctest: +SKIP
    >>> vocabulary.ranks.name  # doctest: +SKIP
    'gpt2.tiktoken'
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:  # a process that times the import of numbatok must not have done it here
    import numbatok

EMBEDDED = ("gpt2", "cl100k_base", "o200k_base")
RANK_FILE = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
"""What tiktoken names the files of its cache after."""
TIKTOKEN_NAMES = {"gpt2": "r50k_base"}
"""The same ranks under the name that has a rank file in tiktoken; its "gpt2" reads two files of another form."""
TIKTOKEN_CACHE, USER_CACHE = "tiktoken", "cache"
"""Folders below that of the vocabularies, for ``TIKTOKEN_CACHE_DIR`` and ``XDG_CACHE_HOME``."""
WORDCHIPPER_FILE = "io.crates.wordchipper/openai/{0}/{0}.tiktoken"
"""Where wordchipper looks in the user's cache; it would download a missing file, and takes an empty one silently."""


class Vocabulary(NamedTuple):
    """The files of one encoding.

    Attributes:
        name: its name; that of an embedded encoding, or one given with a ``tokenizer.json``.
        ranks: the rank file; None for an encoding that is given as a ``tokenizer.json``.
        json: the ``tokenizer.json``.
        specials: special token -> id.

    """

    name: str
    ranks: Path | None
    json: Path
    specials: dict[str, int]

    def dump(self) -> dict[str, Any]:
        """Give it as JSON values; :meth:`parse` is the way back."""
        return self._asdict() | {"ranks": str(self.ranks) if self.ranks else None, "json": str(self.json)}

    @classmethod
    def parse(cls, values: dict[str, Any]) -> Vocabulary:
        """Make it from what :meth:`dump` gave."""
        paths = {"ranks": Path(values["ranks"]) if values["ranks"] else None, "json": Path(values["json"])}
        return cls(**(values | paths))


def embedded(name: str, folder: Path) -> Vocabulary:
    """Write the files of an embedded encoding to ``folder``, unless they are there."""
    import numbatok

    enc = numbatok.get_encoding(name)
    ranks, specials = enc._mergeable_ranks, enc._special_tokens
    vocabulary = Vocabulary(name, folder / f"{name}.tiktoken", folder / f"{name}.json", specials)
    content = b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in sorted_ranks(ranks))
    own = TIKTOKEN_NAMES.get(name, name)
    digest = hashlib.sha1(RANK_FILE.format(own).encode()).hexdigest()
    for place in (f"{name}.tiktoken", f"{TIKTOKEN_CACHE}/{digest}", f"{USER_CACHE}/{WORDCHIPPER_FILE.format(own)}"):
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_bytes(content)
    if not vocabulary.json.exists():
        vocabulary.json.write_text(json.dumps(tokenizer_json(enc), ensure_ascii=False))
    return vocabulary


def given(name: str, path: Path) -> Vocabulary:
    """Take an encoding from a ``tokenizer.json`` of the user.

    Raises:
        ValueError: the file does not exist.

    """
    if not path.is_file():
        raise ValueError(f"{path} is no file; give --tokenizer NAME=PATH with the path of a tokenizer.json")
    added = json.loads(path.read_text()).get("added_tokens") or []
    return Vocabulary(name, None, path, {token["content"]: token["id"] for token in added if token["special"]})


def sorted_ranks(ranks: dict[bytes, int]) -> list[tuple[bytes, int]]:
    """Give tokens and ranks in the order of ranks."""
    return sorted(ranks.items(), key=lambda item: item[1])


def plain_pattern(name: str) -> str:
    """Give the pattern without possessive repeats: Oniguruma reads those otherwise, and peers know it by this text."""
    from numbatok.split.patterns import CL100K_OLDER_PATTERNS, GPT2_PATTERNS, O200K_PATTERN

    return dict(zip(EMBEDDED, (GPT2_PATTERNS[1], CL100K_OLDER_PATTERNS[0], O200K_PATTERN), strict=True))[name]


def tokenizer_json(enc: numbatok.Encoding) -> dict[str, Any]:
    """Give an embedded encoding in the form of a ``tokenizer.json``: byte-level BPE, merges in their order."""
    letters = byte_letters()
    spelled = {rank: "".join(letters[byte] for byte in token) for token, rank in enc._mergeable_ranks.items()}
    merges = enc._model.merges
    sides = zip(merges.lefts.tolist(), merges.rights.tolist(), strict=True)
    pairs = [(spelled[left], spelled[right]) for left, right in sides]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    split = {
        "type": "Split",
        "pattern": {"Regex": plain_pattern(enc.name)},
        "behavior": "Isolated",
        "invert": False,
    }
    pieces = {"type": "Sequence", "pretokenizers": [split, byte_level | {"use_regex": False}]}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": number, "content": token, **flags} for token, number in enc._special_tokens.items()],
        "normalizer": None,
        "pre_tokenizer": byte_level | {"use_regex": True} if enc.name == "gpt2" else pieces,
        "post_processor": None,
        "decoder": byte_level | {"use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {text: rank for rank, text in sorted(spelled.items())},
            "merges": pairs,
        },
    }


def byte_letters() -> list[str]:
    """Give the letter that stands for each byte in GPT-2's files: itself where it prints, one from U+0100 on else."""
    printed = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printed else chr(next(others)) for byte in range(256)]
