"""tokenizer.json: a byte-level BPE tokenizer of Hugging Face, read to the tables and steps that give the same ids.

Everything that bears on ids is read, or refused by name: a setting that is passed over in silence would give other ids.

Invariant: what :func:`read_tokenizer` gives encodes any text to the ids of the ``tokenizers`` library.

    >>> text = '{"model": {"type": "WordPiece"}}'
    >>> read_tokenizer(text, "my.json")
    Traceback (most recent call last):
    ValueError: my.json: model.type: 'WordPiece' is not supported; byte-level BPE is
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from numbatok.added import AddedToken, AddedTokens, Normalize
from numbatok.alphabet import to_bytes
from numbatok.bpe import BLOB_SLACK, MISSING, Merges, Model
from numbatok.fields import Node, shown
from numbatok.front import Front
from numbatok.normalize import normalizer_of
from numbatok.pretokenizer import Plan, plan_of
from numbatok.table import RANK_BITS

MOST_MERGES = (1 << RANK_BITS) - 1
PARTS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
"""The fields of a tokenizer.json that are kept, to be written back."""


class Tokenizer(NamedTuple):
    """What a tokenizer.json says.

    Attributes:
        pattern: the pattern of the split kernel; empty where there is no single one.
        model: the tables.
        front: what is done before merging; None if nothing is.
        added: the added tokens.
        before, behind: ids that the post-processor puts around a text.
        foreign: tokens of the vocabulary that are not spelled in the byte alphabet, and their ids.
        parts: the fields PARTS, as they stand in the file.
        slow_split: whether the regex package may split.

    """

    pattern: str
    model: Model
    front: Front | None
    added: tuple[AddedToken, ...]
    before: tuple[int, ...]
    behind: tuple[int, ...]
    foreign: dict[str, int]
    parts: dict[str, Any]
    slow_split: bool


def source_text(source: Any) -> tuple[str, str]:
    """Give the text of a tokenizer.json, and the name for errors.

    Args:
        source: its path, the folder it is in, a ``tokenizers.Tokenizer``, or a fast tokenizer of ``transformers``.

    Raises:
        TypeError: something else.
        ValueError: the folder has no tokenizer.json.

    """
    source = getattr(source, "backend_tokenizer", source)
    if hasattr(source, "to_str"):
        return source.to_str(), "the tokenizer"
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(
            f"source is {type(source).__name__}; give a path of a tokenizer.json, its folder, or a tokenizers.Tokenizer"
        )
    path = Path(source)
    if path.is_dir():
        path = path / "tokenizer.json"
        if not path.exists():
            raise ValueError(f"{path.parent}: the folder holds no tokenizer.json; give the path of the file")
    try:
        return path.read_text(encoding="utf-8"), str(path)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not a JSON file: {error}") from None


def read_tokenizer(text: str, file: str, slow_split: bool = False) -> Tokenizer:
    """Read the text of a tokenizer.json; ``file`` names it in errors.

    Raises:
        ValueError: it is not one, or it asks for something that is not supported: names the field.

    """
    try:
        root = Node(json.loads(text), file)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file}: not a JSON file that can be read: {error}") from None
    _refuse_cutting(root)
    model = _checked_model(root.node("model"))
    vocabulary = _vocabulary(model.node("vocab"))
    normalize = normalizer_of(root.node("normalizer", None))
    plan = plan_of(root.node("pre_tokenizer", None), slow_split)
    added = _added_tokens(root.node("added_tokens", []), vocabulary, normalize)
    before, behind = around(root.node("post_processor", None))
    foreign = {token: number for token, number in vocabulary.items() if not to_bytes(token)}
    merges = _merges(model.node("merges"), vocabulary, foreign)
    tables = _tables(vocabulary, merges, foreign, added, normalize, plan, model)
    if strange := [number for number in (*before, *behind) if not 0 <= number < tables.ids]:
        raise root.node("post_processor").refused(f"{strange[0]} is no id of the vocabulary")
    parts = {name: root.node(name, None).value for name in PARTS}
    front = _front(plan, added, normalize)
    return Tokenizer(plan.pattern, tables, front, added, before, behind, foreign, parts, slow_split)


def is_text(words: str) -> bool:
    """Tell whether a ``str`` is text: a JSON file can spell halves of surrogate pairs, which are none."""
    return words.isascii() or not any("\ud800" <= character <= "\udfff" for character in words)


def _refuse_cutting(root: Node) -> None:
    for name in ("truncation", "padding"):
        node = root.node(name, None)
        if node.value is not None:
            raise node.refused(f"it changes the ids; load it with tokenizers, call no_{name}() and pass the Tokenizer")


def _checked_model(model: Node) -> Node:
    """Refuse every setting of the model that would give other ids."""
    kind = model.text("type", "BPE")
    if kind != "BPE":
        raise model.node("type").refused(f"{kind!r} is not supported; byte-level BPE is")
    for name in ("continuing_subword_prefix", "end_of_word_suffix", "dropout"):
        node = model.node(name, None)
        if node.value not in (None, "", 0, 0.0):
            raise node.refused(f"{node.shown()} is not supported; byte-level BPE has none")
    if model.flag("byte_fallback", False):
        raise model.node("byte_fallback").refused("SentencePiece's byte fallback is not supported; byte-level BPE is")
    return model


def _vocabulary(node: Node) -> dict[str, int]:
    vocabulary: dict[str, int] = node.of(dict)
    for token in vocabulary if not is_text("".join(vocabulary)) else ():
        if not is_text(token):
            raise node.refused(f"{shown(token)} holds half of a surrogate pair, which no text does")
    seen: set[int] = set()
    for token, number in vocabulary.items():
        if type(number) is not int or not 0 <= number < MISSING or number in seen:
            why = "is the id of another token, too" if number in seen else f"is no id (0 to {MISSING - 1})"
            raise node.refused(f"{number!r}, of token {shown(token)}, {why}; each token has a whole number of its own")
        seen.add(number)
    return vocabulary


def _merges(node: Node, vocabulary: Mapping[str, int], foreign: Mapping[str, int]) -> Merges:
    """Read the merges, written as pairs or as texts with a blank between; of a pair met twice the last one counts.

    One that has a part which is not spelled in the byte alphabet never comes about, and is left out.
    """
    rows: dict[tuple[int, int], tuple[int, int]] = {}
    lines = [line for line in node.of(list) if not (isinstance(line, str) and line.startswith("#version"))]
    for rank, pair in enumerate(lines):
        parts = pair.split(" ") if isinstance(pair, str) else pair
        if not isinstance(parts, list) or len(parts) != 2:
            raise node.refused(f"[{rank}] is {shown(pair)}; a merge is two tokens, as a list or with a blank between")
        left, right = parts
        try:
            pair_ids, made_id = (vocabulary[left], vocabulary[right]), vocabulary[left + right]
            if left not in foreign and right not in foreign:
                rows[pair_ids] = rank, made_id
        except (KeyError, TypeError) as error:
            raise node.refused(
                f"[{rank}], {shown(pair)}, names a token that is not in the vocabulary: {shown(error)}"
            ) from None
    if len(lines) >= MOST_MERGES:
        raise node.refused(f"{len(lines)} merges are too many; at most {MOST_MERGES - 1} are supported")
    pairs, made = (
        np.array(list(rows), np.uint32).reshape(-1, 2),
        np.array(list(rows.values()), np.uint32).reshape(-1, 2),
    )
    merged = np.zeros(len(lines), np.uint32)
    merged[made[:, 0]] = made[:, 1]
    return Merges(pairs[:, 0].copy(), pairs[:, 1].copy(), made[:, 0].copy(), merged)


def _tables(
    vocabulary: Mapping[str, int],
    merges: Merges,
    foreign: Mapping[str, int],
    added: tuple[AddedToken, ...],
    normalize: Normalize | None,
    plan: Plan,
    node: Node,
) -> Model:
    """Build the tables. Tokens that are not spelled in the byte alphabet decode, but merging cannot make them."""
    spelled = sorted((number, to_bytes(token) or b"") for token, number in vocabulary.items() if token not in foreign)
    taken = {number for number, _ in spelled}
    sizes = np.zeros(spelled[-1][0] + 1 if spelled else 0, np.int64)
    sizes[[number for number, _ in spelled]] = [len(data) for _, data in spelled]
    starts = np.concatenate(([0], np.cumsum(sizes))).astype(np.uint32)
    blob = np.frombuffer(b"".join(data for _, data in spelled) + bytes(BLOB_SLACK), np.uint8)
    outside = {**foreign, **_texts([token for token in added if token.id not in taken], normalize)}
    model = Model(merges, starts, blob, outside, plan.split, node.flag("ignore_merges", False), plan.classes)
    unknown = node.node("unk_token", None)
    if model.incomplete and unknown.value is not None:
        raise unknown.refused("a vocabulary without all 256 bytes and with an unknown token is not supported")
    return model


def _texts(added: list[AddedToken], normalize: Normalize | None) -> dict[str, int]:
    """Give the texts that added tokens decode to: the normalized one where that is looked for."""
    texts: dict[str, int] = {}
    for token in sorted(added, key=lambda token: token.normalized):
        text = normalize(token.content) if normalize and token.normalized else token.content
        texts[token.content if text in texts else text] = token.id
    return texts


def _added_tokens(node: Node, vocabulary: Mapping[str, int], normalize: Normalize | None) -> tuple[AddedToken, ...]:
    """Read the added tokens; one that is there twice has the flags of its last place.

    ``tokenizers`` does not take their ids from the file: those in the vocabulary have its id, the others are counted on
    from its size. A file that says otherwise would be read differently here and there.
    """
    found: dict[str, AddedToken] = {}
    following = len(vocabulary)
    for one in node.items():
        flags = {name: one.flag(name) for name in ("special", "lstrip", "rstrip", "single_word", "normalized")}
        token = AddedToken(one.text("content"), one.number("id"), **flags)
        if not token.content:
            continue
        if not is_text(token.content):
            raise one.refused(f"{shown(token.content)} holds half of a surrogate pair, which no text does")
        expected = found[token.content].id if token.content in found else vocabulary.get(token.content, following)
        if token.id != expected:
            raise one.refused(
                f"{token.content!r} has id {token.id} here, but tokenizers gives it {expected}; mend the id"
            )
        following = max(following, token.id + 1) if token.id >= len(vocabulary) else following
        found[token.content] = token
    _refuse_twins(node, list(found.values()), normalize)
    return tuple(found.values())


def _refuse_twins(node: Node, added: list[AddedToken], normalize: Normalize | None) -> None:
    """Refuse tokens that are looked for by the same normalized text, since chance would decide, and by an empty one."""
    seen: dict[str, AddedToken] = {}
    for token in added:
        if token.normalized and normalize:
            text = normalize(token.content)
            if not text:
                raise node.refused(f"{token.content!r} is empty once it is normalized")
            twin = seen.setdefault(text, token)
            if twin is not token:
                raise node.refused(f"{twin.content!r} and {token.content!r} are the same once they are normalized")


def _front(plan: Plan, added: tuple[AddedToken, ...], normalize: Normalize | None) -> Front | None:
    """Give the steps before merging; None if a kernel splits the text as it is, and tokens are as tiktoken's are."""
    plain = all(token.is_plain for token in added) and len({token.normalized for token in added}) < 2
    if plain and not (normalize or plan.prefix_space or plan.pieces):
        return None
    return Front(AddedTokens(added, normalize), plan.prefix_space, plan.pieces)


def around(node: Node) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Give the ids that a post-processor puts before and behind a text.

    Raises:
        ValueError: a post-processor that is not supported.

    """
    kind = None if node.value is None else node.text("type")
    if kind in (None, "ByteLevel"):
        return (), ()
    if kind == "Sequence":
        before: tuple[int, ...] = ()
        behind: tuple[int, ...] = ()
        for step in node.node("processors").items():
            more = around(step)
            before, behind = more[0] + before, behind + more[1]
        return before, behind
    if kind in ("RobertaProcessing", "BertProcessing"):
        return (_pair_id(node.node("cls")),), (_pair_id(node.node("sep")),)
    if kind != "TemplateProcessing":
        raise node.refused(f"the post-processor {kind!r} is not supported")
    return _around_template(node)


def _pair_id(node: Node) -> int:
    pair = list(node.items())
    if len(pair) != 2:
        raise node.refused(f"{node.shown()} was met, and a token with its id was expected")
    number: int = pair[1].of(int)
    return number


def _around_template(node: Node) -> tuple[tuple[int, ...], tuple[int, ...]]:
    sides: list[list[int]] = [[]]
    for piece in node.node("single").items():
        if "Sequence" in piece.of(dict) and piece.node("Sequence").text("id") == "A":
            sides.append([])
        else:
            name = piece.node("SpecialToken").text("id")
            sides[-1] += [one.of(int) for one in node.node("special_tokens").node(name).node("ids").items()]
    if len(sides) != 2:
        raise node.node("single").refused("a template that holds the text once is expected")
    return tuple(sides[0]), tuple(sides[1])
