"""The rows of public bug reports about tokenizer.json, each a small vocabulary with the ids that tokenizers gives.

encoding(merges=[["a", "b"]], pre_tokenizer=byte_level()).encode("ab") == [256]
"""

from __future__ import annotations

import json
import timeit
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from numbatok import Encoding
from numbatok.alphabet import to_text

BYTES = [to_text(bytes([byte])) for byte in range(256)]


def byte_level(**changes: Any) -> dict[str, Any]:
    """Give the pre-tokenizer ByteLevel, without its own pattern unless it is asked for."""
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False, **changes}


def in_turn(*steps: dict[str, Any]) -> dict[str, Any]:
    """Give a sequence of pre-tokenizers."""
    return {"type": "Sequence", "pretokenizers": list(steps)}


def split(pattern: dict[str, str], behavior: str = "Isolated", invert: bool = False) -> dict[str, Any]:
    """Give the pre-tokenizer Split."""
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def document(
    merges: list[list[str]], extra: Sequence[str] = (), pre_tokenizer: Any = None, **model: Any
) -> dict[str, Any]:
    """Give a tokenizer.json: the bytes with their own ids, then what the merges make, then extra tokens."""
    spelled = [[to_text(part.encode()) for part in merge] for merge in merges]
    tokens = [*BYTES, *("".join(merge) for merge in spelled), *(to_text(token.encode()) for token in extra)]
    vocabulary = {token: number for number, token in enumerate(dict.fromkeys(tokens))}
    return {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": pre_tokenizer or byte_level(use_regex=True),
        "decoder": byte_level(),
        "model": {"type": "BPE", "vocab": vocabulary, "merges": spelled, **model},
    }


def load(folder: Path, content: dict[str, Any], **options: Any) -> Encoding:
    """Write a tokenizer.json and read it."""
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return Encoding.from_huggingface(path, **options)


ROWS = {
    "tj-ignore-merges-on": (
        document([["a", "b"]], ["abc"], byte_level(), ignore_merges=True),
        {"abc": [257]},
    ),
    "tj-prefix-space": (
        document([["a", "b"]], ["abc"], byte_level(add_prefix_space=True, use_regex=True)),
        {"ab c": [32, 256, 32, 99], " ab c": [32, 256, 32, 99]},
    ),
    "tj-use-regex-false": (
        document([[" ", "a"], ["a", " "], ["a ", "b"]], [], byte_level()),
        {"a b a": [258, 256]},
    ),
    "tj-removed-invert": (
        document(
            [["a", "b"], [" ", "x"]],
            [],
            in_turn(split({"Regex": r" ?\p{L}+|\p{N}{1,3}|."}, "Removed", invert=True), byte_level()),
        ),
        {"ab x12345\n": [256, 257, 49, 50, 51, 52, 53]},
    ),
    "tj-falcon": (
        document(
            [[".", "."], ["1", "2"], ["12", "3"]],
            [],
            in_turn(
                {"type": "Punctuation", "behavior": "Contiguous"},
                byte_level(use_regex=True),
                {"type": "Digits", "individual_digits": False},
                split({"Regex": "[0-9]{3}"}),
            ),
        ),
        {"a..12345 ..": [97, 256, 258, 52, 53, 32, 256]},
    ),
    "tj-literal-pattern": (
        document([["a", "a"], ["+", "a"]], [], in_turn(split({"String": "a+"}), byte_level())),
        {"a+aa": [97, 43, 256], "aa+a": [97, 97, 43, 97]},
    ),
}
KERNELS = {"tj-ignore-merges-on", "tj-prefix-space", "tj-use-regex-false"}


@pytest.mark.parametrize("row", ROWS)
def test_ids(row: str, tmp_path: Path) -> None:
    """The ids are those of the report and of tokenizers; what has no kernel is refused by name first."""
    content, texts = ROWS[row]
    if row not in KERNELS:
        with pytest.raises(ValueError, match="slow_split=True"):
            load(tmp_path, content)
    enc = load(tmp_path, content, slow_split=row not in KERNELS)
    reference = tokenizers.Tokenizer.from_str(json.dumps(content))
    for text, ids in texts.items():
        assert enc.encode(text) == ids == reference.encode(text).ids
        assert enc.encode_batch_flat([text, text]).to_pylist() == [ids, ids]


def test_rank_is_not_id(tmp_path: Path) -> None:
    """voc-gaps: ids in another order than merges, with holes: the list of merges decides."""
    vocabulary = {token: 755 - byte for byte, token in enumerate(BYTES)} | {"ab": 3, "bc": 2}
    content = document([], pre_tokenizer=byte_level())
    content["model"] |= {"vocab": vocabulary, "merges": [["b", "c"], ["a", "b"]]}
    enc = load(tmp_path, content)
    assert enc.encode("abc") == [658, 2]
    content["model"]["vocab"] |= {"ab": 2, "bc": 3}
    enc = load(tmp_path, content)
    assert enc.encode("abc") == [658, 3]
    with pytest.raises(ValueError, match="order of the ids"):
        enc.save(tmp_path / "x.tiktoken", format="tiktoken")


def test_both_spellings_of_merges(tmp_path: Path) -> None:
    """tj-merges-pairs: pairs, and texts with a blank between."""
    content = document([["a", "b"], ["b", "c"]], pre_tokenizer=byte_level())
    pairs = load(tmp_path, content).encode("abc")
    content["model"]["merges"] = ["a b", "b c"]
    assert load(tmp_path, content).encode("abc") == pairs == [256, 99]


def test_merges_with_blanks_and_line_ends(tmp_path: Path) -> None:
    """voc-merge-spaces, voc-merge-newline: pairs hold anything, and survive a round trip; texts cannot."""
    content = document([["\n", "\n"], ["a", " b"], [" ", "b"]], [" b"], byte_level())
    enc = load(tmp_path, content)
    enc.save(tmp_path / "again.json", format="huggingface")
    again = Encoding.from_huggingface(tmp_path / "again.json")
    for text in ("\n\n\na b", "a b", " b"):
        assert (
            again.encode(text)
            == enc.encode(text)
            == tokenizers.Tokenizer.from_str(json.dumps(content)).encode(text).ids
        )
    content["model"]["vocab"] |= {"a b": 300, "a bc": 301}
    content["model"]["merges"] = [["a b", "c"]]
    assert load(tmp_path, content).encode("abc") == [97, 98, 99]
    content["model"]["merges"] = ["a b c"]
    with pytest.raises(ValueError, match=r"model\.merges.*'a b c'.*two tokens"):
        load(tmp_path, content)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"type": "WordPiece", "vocab": {"[UNK]": 0}}, "'WordPiece' is not supported"),
        ({"type": "Unigram", "vocab": [["<unk>", 0.0]]}, "'Unigram' is not supported"),
        ({"unk_token": "[UNK]", "vocab": {"[UNK]": 0}}, r"model\.merges: the field is missing"),
        ({"type": "BPE", "byte_fallback": True, "vocab": {}, "merges": []}, "byte fallback"),
        ({"type": "BPE", "dropout": 0.1, "vocab": {}, "merges": []}, r"model\.dropout: 0\.1"),
    ],
    ids=["tj-wordpiece", "unigram", "tj-wordpiece-without-type", "tj-byte-fallback", "tj-dropout"],
)
def test_refused_by_name(model: dict[str, Any], message: str, tmp_path: Path) -> None:
    """Other models, and what makes ids random, are refused with the file and the field."""
    with pytest.raises(ValueError, match=rf"tokenizer\.json: .*{message}"):
        load(tmp_path, {"pre_tokenizer": byte_level(), "model": model})


def test_rank_file_of_whole_pieces(tmp_path: Path) -> None:
    """With ignore_merges a piece may be a token that merging misses: a rank file would merge to it anywhere."""
    content = document([["c", "c"]], [], byte_level(), ignore_merges=True)
    content["model"]["vocab"]["ccc"] = 257
    content["model"]["merges"].append(["c", "cc"])
    enc = load(tmp_path, content)
    assert [enc.encode("ccc"), enc.encode("accc")] == [[257], [97, 256, 99]]
    with pytest.raises(ValueError, match="merging does not give the token b'ccc'"):
        enc.save(tmp_path / "x.tiktoken", format="tiktoken")


def test_merges_of_foreign_characters(tmp_path: Path) -> None:
    """A merge of what is not spelled in the byte alphabet never comes about."""
    content = document([["a", "b"]], [], byte_level())
    content["model"]["vocab"] |= {"日": 300, "日a": 301}
    content["model"]["merges"].append(["日", "a"])
    enc = load(tmp_path, content)
    reference = tokenizers.Tokenizer.from_str(json.dumps(content))
    for text in ("日ab", "ab日a"):
        assert enc.encode(text) == reference.encode(text).ids


@pytest.mark.parametrize("behavior", ["MergedWithNext", "MergedWithPrevious", "Contiguous", "Isolated", "Removed"])
def test_empty_matches(behavior: str, tmp_path: Path) -> None:
    """A pattern that matches the empty text, too."""
    content = document([["a", "b"]], [], in_turn(split({"Regex": "a*"}, behavior), byte_level()))
    enc, reference = load(tmp_path, content, slow_split=True), tokenizers.Tokenizer.from_str(json.dumps(content))
    for text in ("ab", "aab", "ba", "bab", "abab", "xaay"):
        assert enc.encode(text) == reference.encode(text).ids, text


TOKEN = {"special": True, "lstrip": False, "rstrip": False, "single_word": False, "normalized": False}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"normalizer": {"type": "Replace", "pattern": {"String": ""}, "content": "x"}}, "empty text"),
        (
            {
                "normalizer": {"type": "Strip", "strip_left": True, "strip_right": False},
                "added_tokens": [{**TOKEN, "id": 257, "content": "  ", "normalized": True}],
            },
            "empty once it is normalized",
        ),
        ({"added_tokens": [{**TOKEN, "id": 257, "content": "\ud800"}]}, "surrogate"),
        ({"post_processor": {"type": "BertProcessing", "cls": ["a", 99_999], "sep": ["a", 97]}}, "99999 is no id"),
        ({"post_processor": {"type": "BertProcessing", "cls": ["a", 1 << 40], "sep": ["a", 97]}}, "is no id"),
    ],
)
def test_refused_parts(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    """What would give other ids than tokenizers, or none."""
    with pytest.raises(ValueError, match=rf"tokenizer\.json: .*{message}"):
        load(tmp_path, document([["a", "b"]]) | changes)


@pytest.mark.parametrize("text", ["[" * 200_000, '{"model": ' + "1" * 5_000 + "}", "{", "\x00"])
def test_hostile_files(text: str, tmp_path: Path) -> None:
    """A file that cannot be read is named."""
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(ValueError, match=r"bad\.json: not a JSON file"):
        Encoding.from_huggingface(tmp_path / "bad.json")


def test_many_added_tokens(tmp_path: Path) -> None:
    """Thousands of added tokens cost a place of a text little more than few."""
    content = document([["a", "b"]])
    names = [f"<{number:x}z{number * 7919 % 10_007:x}>" for number in range(5_000)]
    content["added_tokens"] = [
        {**TOKEN, "special": False, "id": 257 + place, "content": name} for place, name in enumerate(names)
    ]
    enc = load(tmp_path, content)
    assert enc.encode(names[4_321] + "ab" + names[0]) == [257 + 4_321, 256, 257]
    few = load(tmp_path, {**content, "added_tokens": content["added_tokens"][:5]})
    text = "some words <1z2> " * 20_000
    times = [min(timeit.repeat(lambda enc=enc: enc.count(text), number=1, repeat=3)) for enc in (few, enc)]
    assert times[1] < 10 * times[0]
