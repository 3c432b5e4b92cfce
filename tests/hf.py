r"""Small tokenizers of Hugging Face for tests, texts that are hard on them, and the comparison with numbatok.

Invariant: nothing is fetched. The one vocabulary is trained here, in a blink, without any split: so its merges join
letters, blanks, digits and signs of all kinds, and a split in the wrong place shows in the ids.

    tokenizer = build(pre_tokenizers.ByteLevel(add_prefix_space=False), added=[AddedToken("<s>", special=True)])
    assert_same(tokenizer, ["hello<s> world"])
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import random
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # else it warns when a later test forks

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import numbatok
from numbatok.split import patterns

DATA = Path(__file__).parent / "data"
ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())

FORMS = ("NFC", "NFD", "NFKC", "NFKD")
SPECIAL = {"special": True, "normalized": False}

# fmt: off
# Each is a way in which a pattern, a normalizer or a token can look at a text; glued at random.
FRAGMENTS = (
    *(" ", "  ", "   ", "\n", "\n\n", " \n", "\r\n", "\t", "\u00a0", "\u3000", "\u0085", "\u2028", "\x1c", "\x00"),
    *("a", "b", "st", "the", " the", "The", "THE", "camelCase", "ABCdef", "x", "don't", "'s", "'S", "'\u017f", "'ll"),
    *("1", "12", "123", "1234", "3.14", "\u00bd", "\u0663", "\u00b2", "\u216b", "\u3007", "\U0001d7d8"),
    *("!", "?!", "...", "/", "//", "\n/", "_", "-", "--", "#", "$", "<", ">", "<|", "|>", "\u3002", "\uff01", "\u00b7"),
    *("\u00e9", "e\u0301", "\u00c5", "\u212b", "A\u030a", "o\u0323\u0302", "o\u0302\u0323", "\u0344", "\u1e9b\u0323"),
    *("\ufb01", "\uff21", "\u2460", "\u01c5", "\u02b0", "\u00aa", "\u017f", "\u212a", "\u00df", "\u0130", "\u0149"),
    *("\u4e2d\u6587", "\u306e", "\u30ab\u3099", "\uff76\uff9e", "\ud55c", "\u1112\u1161\u11ab", "\u0e01\u0e33"),
    *("\U0001f600", "\U0001f468\u200d\U0001f467", "\u200d", "\ufeff", "\ufe0f", "\u0301"),
    *("\u0915\u093c", "'VE", "\ue000", "\U0010ffff"),
    *("\U00011382\U000113c9", "\U00016d67\U00016d67", "\U000105d2\u0307", "\U0001e030", "\U00011935\U00011930"),
    *("\u0897", "\U00011de0", "\U000323b0", "\U0001df1f", "\u0295", "\u058a", "\u19da"),
)

# Contents of added tokens: they overlap, hide each other, hold blanks, look alike once normalized.
CONTENTS = (
    *("<s>", "</s>", "<|end|>", "<|end", "|>", "<mask>", "ab", "abc", "bc", "b", "the", " the", "the ", "  ", "\n"),
    *("\u00e9", "e\u0301x", "\ufb01x", "\u212b", "\u0301", "<\uff5cend\u2581of\u2581sentence\uff5c>"),
    *("123", "2", "!", "'s", "\u4e2d", "\u0120a"),
)
# fmt: on


def glued(rng: random.Random, parts: Sequence[str], most: int = 12) -> str:
    """Glue up to ``most`` random parts."""
    return "".join(rng.choices(parts, k=rng.randint(0, most)))


def random_texts(seed: int, count: int, parts: Sequence[str] = FRAGMENTS) -> list[str]:
    """Give random texts, the same ones for the same seed."""
    rng = random.Random(seed)
    return [glued(rng, parts) for _ in range(count)]


@functools.cache
def sample_texts() -> list[str]:
    """Give the paragraphs of languages.txt, the fixtures cut to a thousand characters, and the empty text."""
    languages = (DATA / "languages.txt").read_bytes().decode().split("\n\n")
    fixtures = [path.read_bytes().decode()[:1000] for path in sorted((DATA / "fixtures").iterdir())]
    return [*languages, *fixtures, ""]


# ---- tokenizers ------------------------------------------------------------------------------------------------------


@functools.cache
def trained(size: int = 600) -> str:
    """Give the JSON of a tokenizer trained on the samples and on glued fragments, without any split."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=ALPHABET, show_progress=False)
    lines = [line for text in sample_texts() for line in text.splitlines(keepends=True)]
    tokenizer.train_from_iterator([*lines, *random_texts(1, 3000)], trainer)
    return tokenizer.to_str()


def build(
    pre_tokenizer: Any = None, *, normalizer: Any = None, added: Iterable[AddedToken] = (), **model: Any
) -> Tokenizer:
    """Give a tokenizer with the trained vocabulary; ``model`` changes fields of its model."""
    fields = json.loads(trained())
    fields["model"].update(model)
    tokenizer = Tokenizer.from_str(json.dumps(fields))
    tokenizer.pre_tokenizer = pre_tokenizer or pre_tokenizers.ByteLevel(add_prefix_space=False)
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens(list(added))
    return tokenizer


def document(tokenizer: Tokenizer | None = None) -> dict[str, Any]:
    """Give the fields of a tokenizer.json, to be changed; of the plain small tokenizer if none is given."""
    fields: dict[str, Any] = json.loads((tokenizer or build()).to_str())
    return fields


def split_sequence(*stages: str, behavior: str = "isolated") -> pre_tokenizers.PreTokenizer:
    """Give a Split for each pattern, then ByteLevel: the form of all files with a pattern of their own."""
    splits = [pre_tokenizers.Split(Regex(stage), behavior) for stage in stages]
    return pre_tokenizers.Sequence([*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def byte_level(*before: Any, prefix: bool = False, use_regex: bool = True) -> Callable[[], Any]:
    """Give a maker of a ByteLevel, alone or behind other steps."""

    def make() -> Any:
        last = pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=use_regex)
        return pre_tokenizers.Sequence([*before, last]) if before else last

    return make


ISOLATED_PATTERNS: dict[str, tuple[str, ...]] = {
    "gpt2-released": (patterns.GPT2_PATTERNS[2],),
    "gpt2-in-sets": (patterns.GPT2_PATTERNS[1],),
    "gpt2-2023": (patterns.GPT2_PATTERNS[3],),
    "llama3": (patterns.CL100K_OLDER_PATTERNS[0],),
    "cl100k-2023": (patterns.CL100K_OLDER_PATTERNS[1],),
    "qwen2": (patterns.QWEN2_PATTERN,),
    "qwen3.5": (patterns.QWEN35_PATTERN,),
    "o200k": (patterns.O200K_PATTERN,),
    "nemotron": (patterns.NEMOTRON_PATTERN,),
    "kimi": (patterns.KIMI_PATTERN,),
    "deepseek": patterns.DEEPSEEK_PATTERNS,
    "starcoder-as-splits": (r"\p{N}", patterns.GPT2_PATTERNS[2]),
}

PRE_TOKENIZERS: dict[str, Callable[[], Any]] = {
    "byte-level": byte_level(),
    "byte-level-prefix": byte_level(prefix=True),
    "no-split": byte_level(use_regex=False),
    "no-split-prefix": byte_level(prefix=True, use_regex=False),
    "starcoder": byte_level(pre_tokenizers.Digits(individual_digits=True)),
    **{name: functools.partial(split_sequence, *stages) for name, stages in ISOLATED_PATTERNS.items()},
}
"""Those that a kernel splits."""

SLOW_PRE_TOKENIZERS: dict[str, Callable[[], Any]] = {
    "digits-prefix": byte_level(pre_tokenizers.Digits(individual_digits=True), prefix=True),
    "digits-runs": byte_level(pre_tokenizers.Digits(individual_digits=False)),
    "llama3-prefix": byte_level(
        pre_tokenizers.Split(Regex(patterns.CL100K_OLDER_PATTERNS[0]), "isolated"), prefix=True, use_regex=False
    ),
    "a-text": byte_level(pre_tokenizers.Split("the", "merged_with_next"), use_regex=False),
    "punctuation": byte_level(pre_tokenizers.Punctuation("isolated")),
    "nested": byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(True)]), pre_tokenizers.Split(" ", "isolated")),
    "falcon": lambda: pre_tokenizers.Sequence(
        [
            pre_tokenizers.Punctuation("contiguous"),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
            pre_tokenizers.Digits(individual_digits=False),
            pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated"),
        ]
    ),
    **{
        f"{behavior}{'-inverted' if invert else ''}": byte_level(
            pre_tokenizers.Split(Regex(r"[\s!.']|\p{N}{2}"), behavior, invert), use_regex=False
        )
        for behavior, invert in itertools.product(
            ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"), (False, True)
        )
    },
}
"""Those that take ``slow_split=True``."""


START, END = ("<s>", 600), ("</s>", 601)
POST_PROCESSORS: dict[str, Callable[[], Any]] = {
    "byte-level": processors.ByteLevel,
    "bert": lambda: processors.BertProcessing(END, START),
    "roberta": lambda: processors.RobertaProcessing(END, START),
    "template": lambda: processors.TemplateProcessing("<s> $A </s>", special_tokens=[START, END]),
    "template, other id": lambda: processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 7)]),
    "template, text alone": lambda: processors.TemplateProcessing("$A", special_tokens=[]),
    "template, type ids": lambda: processors.TemplateProcessing("</s> <s> $A:1 </s>:2", special_tokens=[START, END]),
    "template, many ids": lambda: processors.TemplateProcessing(
        "X $0", special_tokens=[{"id": "X", "ids": [600, 5, 601], "tokens": ["a", "b", "c"]}]
    ),
    "sequence": lambda: processors.Sequence(
        [processors.ByteLevel(), processors.TemplateProcessing("<s> $A", special_tokens=[START])]
    ),
    "sequence of two": lambda: processors.Sequence(
        [
            processors.RobertaProcessing(END, START),
            processors.TemplateProcessing("</s> $A <s>", special_tokens=[START, END]),
        ]
    ),
}


NORMALIZERS: dict[str, Callable[[], Any]] = {
    **{form: getattr(normalizers, form) for form in FORMS},
    "sequence": lambda: normalizers.Sequence([normalizers.NFKC(), normalizers.NFD()]),
    "empty sequence": lambda: normalizers.Sequence([]),
    "replace": lambda: normalizers.Replace("the", "\u00e9!"),
    "strip": normalizers.Strip,
    "strip left": lambda: normalizers.Strip(right=False),
    "prepend": lambda: normalizers.Prepend(" x"),
}


def tiny(merges: list[Any], tokens: list[str], ids: dict[str, int] | None = None, **model: Any) -> Tokenizer:
    """Give a tokenizer of the byte alphabet, some tokens and some merges, with the split of Qwen 2."""
    vocabulary = {token: number for number, token in enumerate([*ALPHABET, *tokens])} | (ids or {})
    fields = document(build(split_sequence(patterns.QWEN2_PATTERN)))
    fields["model"] |= {"vocab": vocabulary, "merges": merges, **model}
    return Tokenizer.from_str(json.dumps(fields))


MODELS: dict[str, Callable[[], Tokenizer]] = {
    "merges as pairs": lambda: tiny([["a", "b"], ["ab", "c"]], ["ab", "abc"]),
    "merges as texts": lambda: tiny(["a b", "ab c"], ["ab", "abc"]),
    "two ways to a token": lambda: tiny(["b c", "a b", "ab c", "a bc"], ["ab", "bc", "abc"]),
    "two ways, later one first": lambda: tiny(["a bc", "ab c", "a b", "b c"], ["ab", "bc", "abc"]),
    "a merge twice": lambda: tiny(["a b", "b c", "a b"], ["ab", "bc"]),
    "a version line": lambda: tiny(["#version: 0.2", "a b"], ["ab"]),
    "ranks against ids": lambda: tiny(["b c", "a b"], ["ab", "bc"]),
    "no merges": lambda: tiny([], []),
    "a token that nothing makes": lambda: tiny(["a b"], ["ab", "abc", "cab"]),
    "that token, merges ignored": lambda: tiny(["a b"], ["ab", "abc", "cab"], ignore_merges=True),
    "holes in ids": lambda: tiny(["a b", "ab c"], [], {"ab": 1000, "abc": 5000}),
    "ids backwards": lambda: tiny(["a b"], [], {"ab": 256, **dict(zip(ALPHABET, range(255, -1, -1), strict=True))}),
    "doubled letters": lambda: tiny(["a a", "aa aa", "aa a"], ["aa", "aaaa", "aaa"]),
    "a foreign token": lambda: tiny(["a b"], ["ab", "a b", "\u4e2d"]),
    "empty prefix and suffix": lambda: tiny(["a b"], ["ab"], continuing_subword_prefix="", end_of_word_suffix=""),
    "no dropout": lambda: tiny(["a b"], ["ab"], dropout=0.0),
    "unknown token that is never met": lambda: tiny(["a b"], ["ab", "<unk>"], unk_token="<unk>", fuse_unk=True),
}


def random_tokenizer(rng: random.Random) -> Tokenizer:
    """Give a tokenizer with a few of CONTENTS as added tokens, with random flags, normalizer and pre-tokenizer."""
    form = rng.choice([*FORMS, None, None])
    normalizer = getattr(normalizers, form)() if form else None
    added, seen = [], set()
    for content in rng.sample(CONTENTS, rng.randint(2, 8)):
        flags = {name: rng.random() < 0.3 for name in ("lstrip", "rstrip", "single_word", "special")}
        flags["lstrip"] &= not content.isspace()  # within the blanks of a token before it, tokenizers panics
        token = AddedToken(content, normalized=rng.random() < 0.5, **flags)
        shape = normalizer.normalize_str(content) if normalizer and token.normalized else content
        if (shape, token.normalized) not in seen:
            added.append(token)
        seen.add((shape, token.normalized))
    pre_tokenizer = PRE_TOKENIZERS[rng.choice(sorted(PRE_TOKENIZERS))]()
    return build(pre_tokenizer, normalizer=normalizer, added=added, ignore_merges=rng.random() < 0.5)


def with_everything() -> Tokenizer:
    """Give a tokenizer that uses all steps."""
    added = [AddedToken("<s>", lstrip=True, **SPECIAL), AddedToken("e\u0301x")]
    tokenizer = build(PRE_TOKENIZERS["byte-level-prefix"](), normalizer=normalizers.NFC(), added=added)
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[START])
    return tokenizer


# ---- comparison ------------------------------------------------------------------------------------------------------


def reference_ids(
    tokenizer: Tokenizer, texts: list[str], *, ordinary: bool = False, whole: bool = False
) -> list[list[int]]:
    """Give the ids of ``tokenizers``: with special tokens read as text (ordinary), with the post-processor (whole)."""
    tokenizer.encode_special_tokens = ordinary
    found = [one.ids for one in tokenizer.encode_batch(texts, add_special_tokens=whole)]
    tokenizer.encode_special_tokens = False
    return found


def assert_rows(found: Iterable[Iterable[int]], expected: list[list[int]], texts: list[str]) -> None:
    """Assert that rows of ids are equal; names the first text whose ids differ."""
    rows = [list(row) for row in found]
    assert len(rows) == len(expected)
    for row, want, text in zip(rows, expected, texts, strict=True):
        assert row == want, f"text {text!a}"


def contents_of(tokenizer: Tokenizer) -> list[str]:
    """Give the texts of the added tokens."""
    return [token.content for token in tokenizer.get_added_tokens_decoder().values()]


def is_misread(content: str) -> bool:
    """Tell whether tokenizers decodes an added token to another text, since it looks spelled in the byte alphabet."""
    return not content.isascii() and set(unicodedata.normalize("NFC", content)) <= set(ALPHABET)


def assert_same(tokenizer: Tokenizer, texts: list[str], enc: numbatok.Encoding | None = None) -> None:
    """Assert that every way of encoding, and decoding, gives what ``tokenizers`` gives."""
    enc = enc or numbatok.Encoding.from_huggingface(tokenizer)
    allowed = reference_ids(tokenizer, texts)
    ordinary = reference_ids(tokenizer, texts, ordinary=True)
    whole = reference_ids(tokenizer, texts, whole=True)
    assert_rows((enc.encode(text, allowed_special="all") for text in texts), allowed, texts)
    assert_rows((enc.encode(text, allowed_special="all", add_special_tokens=True) for text in texts), whole, texts)
    assert_rows((enc.encode(text, disallowed_special=()) for text in texts), ordinary, texts)
    assert_rows((enc.encode_ordinary(text) for text in texts), ordinary, texts)
    assert_rows((enc.encode_ordinary(text.encode()) for text in texts), ordinary, texts)
    assert_rows((enc.encode_flat(text).tolist() for text in texts), ordinary, texts)
    assert [enc.count(text) for text in texts] == [len(row) for row in ordinary]
    for threads in (1, 2):
        assert_rows(enc.encode_batch(texts, allowed_special="all", num_threads=threads), allowed, texts)
        assert_rows((row.tolist() for row in enc.encode_batch_flat(texts, threads=threads).rows()), ordinary, texts)
    assert_rows(enc.encode_batch(texts, allowed_special="all", add_special_tokens=True), whole, texts)
    if not any(map(is_misread, contents_of(tokenizer))):
        assert [enc.decode(row) for row in whole] == tokenizer.decode_batch(whole, skip_special_tokens=False)
