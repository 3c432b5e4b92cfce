"""Every embedded encoding against tiktoken, made from our own ranks; our ranks against the hashes that tiktoken pins.

sha256 of the rank text rebuilt from the tables == the published one, so "our own ranks" are the published ranks
"""

from __future__ import annotations

import base64
import functools
import hashlib
import random
from pathlib import Path
from typing import Any

import pytest
import tiktoken
import tiktoken.model
import tiktoken_ext.openai_public as published
from cases import JIT_OFF, PATHOLOGICAL, assert_expected, build_input, load_cases, token_glued_text
from test_cases_gpt2 import CALLS, LONGEST_WITHOUT_JIT

import numbatok
from numbatok import model

DATA = Path(__file__).parent / "data"
# In plain Python the seeding of a cache takes ten seconds with the largest vocabulary; its split is tested elsewhere.
NAMES = [name for name in numbatok.list_encoding_names() if not (JIT_OFF and name.startswith("o200k"))]
HASHES = {
    "r50k_base": "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
    "p50k_base": "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
}
CASES = [case for case in load_cases("cases-encodings.jsonl") if case["encoding"] in NAMES]
TEXTS = [*sorted(DATA.glob("*.txt")), *sorted((DATA / "fixtures").iterdir())]


@functools.cache
def reference(name: str) -> tiktoken.Encoding:
    """Give tiktoken's encoding with its own pattern and special tokens, and our ranks in place of a download."""
    ranks = numbatok.get_encoding(name)._mergeable_ranks
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(published, "load_tiktoken_bpe", lambda *args, **options: ranks)
        patch.setattr(published, "data_gym_to_mergeable_bpe_ranks", lambda *args, **options: ranks)
        return tiktoken.Encoding(**getattr(published, name)())


def check(name: str, texts: list[str]) -> None:
    """Compare ids of many texts, text by text, and decode them."""
    ours, theirs = numbatok.get_encoding(name), reference(name).encode_ordinary_batch(texts)
    found = ours.encode_ordinary_batch(texts)
    for text, one, other in zip(texts, found, theirs, strict=True):
        assert one == other, repr(text[:200])
    assert ours.decode_batch(found) == texts


@pytest.mark.parametrize("name", HASHES)
def test_rank_text_has_the_pinned_hash(name: str) -> None:
    """The tables hold the published vocabulary, to the last byte of its file."""
    ranks = numbatok.get_encoding(name)._mergeable_ranks
    lines = (base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks.items())
    assert hashlib.sha256(b"".join(lines)).hexdigest() == HASHES[name]


@pytest.mark.parametrize("name", NAMES)
def test_facts(name: str) -> None:
    """Sizes, special tokens, ids of both kinds and the bytes of all tokens are tiktoken's."""
    ours, theirs = numbatok.get_encoding(name), reference(name)
    for fact in (
        "name",
        "n_vocab",
        "max_token_value",
        "eot_token",
        "special_tokens_set",
        "_special_tokens",
        "_pat_str",
    ):
        assert getattr(ours, fact) == getattr(theirs, fact), fact
    assert ours.token_byte_values() == theirs.token_byte_values()
    tokens = set(theirs._special_tokens.values()) | {0, 255, 256, 50255, 50256, 50257, theirs.max_token_value}
    for token in tokens - {200018}:  # two names for this one in o200k_harmony: tiktoken's choice is not fixed
        assert ours.is_special_token(token) == theirs.is_special_token(token)
        if token in {50257} and name in ("gpt2", "r50k_base"):
            continue
        assert ours.decode_single_token_bytes(token) == theirs.decode_single_token_bytes(token)


@pytest.mark.parametrize("name", NAMES)
def test_texts(name: str) -> None:
    """All sample texts, whole and by lines."""
    texts = [path.read_bytes()[: 2_000 if JIT_OFF else None].decode(errors="ignore") for path in TEXTS]
    check(name, texts + [line for text in texts[3:] for line in text.splitlines(keepends=True)])


@pytest.mark.parametrize("name", [name for name in ("p50k_base", "cl100k_base", "o200k_base") if name in NAMES])
def test_glued_tokens(name: str) -> None:
    """Random texts made of random tokens."""
    rng = random.Random(name)
    ranks = numbatok.get_encoding(name)._mergeable_ranks
    check(name, [token_glued_text(rng, ranks, rng.randrange(1, 40)) for _ in range(20 if JIT_OFF else 4_000)])


@pytest.mark.parametrize("name", [name for name in ("cl100k_base", "o200k_base") if name in NAMES])
def test_pathological_texts(name: str) -> None:
    """Long repetitions, where tiktoken manages them."""
    check(name, [make(200 if JIT_OFF else 10_000) for make in PATHOLOGICAL.values()])


@pytest.mark.skipif(JIT_OFF, reason="minutes in plain Python; the classes are tested by test_unicode.py")
@pytest.mark.parametrize("name", ["cl100k_base", "o200k_base"])
def test_all_code_points(name: str) -> None:
    """Every code point alone, between letters, between blanks, behind an apostrophe, and past the start of a block."""
    characters = [chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000]
    contexts = ("{}", "a{}B", " {} ", "'{}x", "x  {}1", "0123456789" * 5 + " word {}{}z\n" + "tail " * 20)
    ours, theirs = numbatok.get_encoding(name), reference(name)
    for context in contexts:
        for plane in range(0, len(characters), 1 << 16):
            texts = [context.replace("{}", one) for one in characters[plane : plane + (1 << 16)]]
            joined = "\n".join(texts) if "\n" in context else "\x00".join(texts)
            assert ours.encode_ordinary(joined) == theirs.encode_ordinary(joined), (context, plane)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['encoding']}-{case['id']}")
def test_rows(case: dict[str, Any]) -> None:
    """The rows of public bug reports."""
    enc, text = numbatok.get_encoding(case["encoding"]), build_input(case["input"])
    if JIT_OFF and isinstance(text, str | bytes) and len(text) > LONGEST_WITHOUT_JIT:
        pytest.skip("long input: left to the compiled run")
    for call in CALLS[case["api"]]:
        assert_expected(call(enc, text, case), case["expect"]["ids"])


@pytest.mark.parametrize(
    "name", [name for name in ("gpt2", "p50k_edit", "cl100k_base", "o200k_harmony") if name in NAMES]
)
def test_specials(name: str) -> None:
    """Special tokens allowed, all and some, side by side, and within text."""
    ours, theirs = numbatok.get_encoding(name), reference(name)
    names = sorted(ours.special_tokens_set)[:6]
    text = "a " + " b ".join(names) + "".join(names) + "  <|nope|>"
    assert ours.encode(text, allowed_special="all") == theirs.encode(text, allowed_special="all")
    some = set(names[:1])
    assert ours.encode(text, allowed_special=some, disallowed_special=()) == theirs.encode(
        text, allowed_special=some, disallowed_special=()
    )
    with pytest.raises(ValueError, match="disallowed special token"):
        ours.encode(text)


def test_models() -> None:
    """Models lead to the encodings that tiktoken knows, by name and by prefix; another name is a KeyError."""
    assert model.MODEL_TO_ENCODING == tiktoken.model.MODEL_TO_ENCODING
    assert model.MODEL_PREFIX_TO_ENCODING == tiktoken.model.MODEL_PREFIX_TO_ENCODING
    for name in ("gpt-4o", "gpt-4o-mini", "gpt-4-0314", "ft:gpt-4o:x", "gpt2", "gpt-oss-120b"):
        assert numbatok.encoding_name_for_model(name) == tiktoken.encoding_name_for_model(name)
    assert numbatok.encoding_for_model("gpt-4") is numbatok.get_encoding("cl100k_base")
    with pytest.raises(KeyError, match="Could not automatically map"):
        numbatok.encoding_name_for_model("no-such-model")
