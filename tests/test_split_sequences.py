r"""The splits of DeepSeek, StarCoder and Kimi, with walls and Han, against their patterns and the engines they run in.

The oracle is the definition: each pattern of a sequence cuts the pieces that the one before has left, and what is
between its matches is a piece, too.

    split_by([r"\p{N}", GPT2], "a  12")  ->  ["a", "  ", "1", "2"]
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import oracle
import pytest
import regex
import tiktoken
from cases import JIT_OFF
from toys import piece_ends, split_model

import numbatok
from numbatok.bpe import Model, address
from numbatok.split import patterns
from numbatok.split.cuts import find_cut
from numbatok.split.dual import split_dual
from numbatok.unicode import MARK, PUNCTUATION_OR_SYMBOL, class_of, load_class_table

GPT2 = patterns.GPT2_PATTERNS[2]
SPLITS = {
    "deepseek": patterns.split_of(patterns.DEEPSEEK_PATTERNS),
    "starcoder": patterns.DIGITS_THEN_GPT2,
    "kimi": patterns.split_of(patterns.KIMI_PATTERN),
}
# (?V1) makes regex read && in a class as what both sides have.
STAGES = {
    "deepseek": patterns.DEEPSEEK_PATTERNS,
    "starcoder": (r"\p{N}", GPT2),
    "kimi": ("(?V1)" + patterns.KIMI_PATTERN,),
}
Split = Callable[[str], list[str]]
CLASSES = load_class_table()
MARK_OR_PUNCTUATION = regex.compile(r"[\p{M}\p{P}\p{S}]")
SURROGATES = range(0xD800, 0xE000)
ASCII = [*"aStl1 '\n\r\t!/.", "\x01"]
LETTERS = [*"éſ中一あʰ々\u9fa6\u30fc", "\U00020000"]
OTHERS = [*"²٢〇。・゛⺀😀", "\u0301", "\u3099", "\u3000", "\u00a0", "\ufe0f", "\u200d", "\u3040"]
RARE = ["\U00016ff0", "\U00016fe2", "\U000e0001", "\u2028"]
CHARACTERS = [*ASCII, *LETTERS, *OTHERS, *RARE]
FRAGMENTS = [
    *("don't", " HTTPResponse", "camelCase", "  ", "\n\n  ", "   \n  x", "x'LL", "12345", "..\n//", "\r\n", "a's's"),
    *(
        ".abc",
        ".abcé",
        "..abc",
        " .abc",
        "\t.abc",
        "1.a",
        ".a\u0301",
        "!\n",
        "・\n",
        "・.abc",
        "\u3000.a",
        "'s中",
        "'S1",
    ),
    *(
        "中文",
        "中文Abc",
        " 中",
        "\u3000中",
        "  1",
        " \n 1",
        " \n 中",
        "カタカナ・ab",
        "中中中中中中中中中中中中中中中中中中中中中中",
    ),
    *("\x01\x01a", "\u200d\u200da", "\u200d\u200d中", "\U000e0001\U000e0001x", "\u3040\u3040あ", "a\x01", " \x01"),
    *(
        "!⺀中",
        "12〇1",
        "〇〇12",
        "⺀!",
        "中〇中",
        "a⺀a",
        "!\U00016ff0",
        "中々",
        "ひらがなとカタカナと漢字のながいならび",
    ),
]
TAIL = " and some more words" * 4
LONG_TAIL = " " + "y" * 70
"""Makes the first block of a text one that is decided, and is a single piece."""
CONTEXTS = [("a", "b"), ("  ", "a"), (".", "\n"), ("1", "1"), ("中", "。"), ("あ", "中"), ("\x01", "A"), (" \n ", "'s")]


@functools.cache
def model_of(name: str) -> Model:
    """Give a model with the split and no merges."""
    return split_model(SPLITS[name])


@functools.cache
def compiled(pattern: str) -> regex.Pattern[str]:
    """Compile once."""
    return regex.compile(pattern)


def isolate(pattern: str, piece: str) -> Iterator[str]:
    """Give the matches of a pattern and what is between them."""
    done = 0
    for found in compiled(pattern).finditer(piece):
        if found.start() > done:
            yield piece[done : found.start()]
        yield found.group()
        done = found.end()
    if done < len(piece):
        yield piece[done:]


def split_by(stages: Iterable[str], text: str) -> list[str]:
    """Split by each pattern in turn."""
    found = [text]
    for pattern in stages:
        found = [part for piece in found for part in isolate(pattern, piece)]
    return found


def check(name: str, texts: list[str], split: Split | None = None) -> None:
    """Assert that blocks and steps give the pieces of the patterns, or of another reference."""
    rows = [text.encode() for text in texts]
    expected = [piece for text in texts for piece in (split(text) if split else split_by(STAGES[name], text))]
    ends = np.cumsum([len(piece.encode()) for piece in expected])
    for blocks in (True, False):
        found = piece_ends(model_of(name), rows, blocks=blocks)
        if not np.array_equal(found, ends):
            place, data = int(np.setxor1d(found, ends)[0]), b"".join(rows)
            near = data[max(place - 70, 0) : place + 70].decode(errors="replace")
            which = "blocks" if blocks else "steps"
            pytest.fail(f"{name}: only one of {which} and the reference cuts at byte {place}, near {near!r}")


def random_texts(seed: str, count: int, most: int = 40) -> Iterator[str]:
    """Give texts of characters and of fragments that are likely to trap."""
    rng = random.Random(seed)
    for _ in range(count):
        yield "".join(rng.choice(rng.choice([CHARACTERS, FRAGMENTS])) for _ in range(rng.randrange(1, most)))


def tuples(length: int) -> Iterator[str]:
    """Give all tuples of the representative characters."""
    return map("".join, itertools.product(CHARACTERS, repeat=length))


def in_parts(texts: Iterable[str], size: int = 20_000) -> Iterator[list[str]]:
    """Give the texts in lists of a size that memory holds easily."""
    texts = iter(texts)
    return iter(lambda: list(itertools.islice(texts, size)), [])


# ---- against the patterns --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SPLITS)
@pytest.mark.parametrize("length", [1, 2, 3])
def test_tuples(name: str, length: int) -> None:
    """Every tuple of up to three characters as a text, and every third one before a text that blocks decide."""
    step = 4**length * 20 if JIT_OFF else 1
    for texts in in_parts(itertools.islice(tuples(length), 0, None, step)):
        check(name, texts)
        check(name, [text + LONG_TAIL for text in texts[::3]])


@pytest.mark.parametrize("name", SPLITS)
@pytest.mark.parametrize("size", [4, 40, 300])
def test_random_texts(name: str, size: int) -> None:
    """Random texts, short and long, alone and before more words."""
    texts = list(random_texts(f"{name} {size}", 6 if JIT_OFF else 40_000 // (size + 40), size))
    check(name, texts + [text + TAIL for text in texts])


@pytest.mark.campaign
@pytest.mark.parametrize("name", SPLITS)
def test_campaign_random_texts(name: str) -> None:
    """A million random texts, and tuples of three at every place around the end of a block."""
    for texts in in_parts(random_texts(f"campaign {name}", 1_000_000)):
        check(name, texts)
    for padding in range(52, 70):
        for texts in in_parts(itertools.islice(tuples(3), padding % 5, None, 5)):
            check(name, ["x" * padding + " " + text + LONG_TAIL for text in texts])


def newer(character: str) -> bool:
    """Tell whether the regex package has a class for a character that Unicode 16.0 does not know."""
    unknown = not class_of(CLASSES, ord(character)) & (MARK | PUNCTUATION_OR_SYMBOL)
    return not oracle.comparable(character) or (unknown and MARK_OR_PUNCTUATION.match(character) is not None)


def code_points(before: str, behind: str, points: Iterable[int]) -> str:
    """Give one text of code points, each in the same surroundings."""
    return "".join(before + chr(point) + behind for point in points if point not in SURROGATES)


def usual_points() -> list[int]:
    """Give the code points of the planes that Unicode 16.0 uses, and some of all others."""
    assigned = [*range(0x33480), *range(0xE0000, 0xE0200)]
    return [*assigned, *range(0x33480, 0x110000, 97)][:: 509 if JIT_OFF else 1]


@pytest.mark.parametrize("name", SPLITS)
@pytest.mark.parametrize("context", CONTEXTS[:2])
def test_code_points(name: str, context: tuple[str, str]) -> None:
    """All code points of Unicode 16.0 in one text."""
    points = (point for point in usual_points() if not newer(chr(point)))
    check(name, [code_points(*context, points)])


@pytest.mark.campaign
@pytest.mark.parametrize("name", SPLITS)
@pytest.mark.parametrize("context", CONTEXTS)
def test_campaign_code_points(name: str, context: tuple[str, str]) -> None:
    """All 1,114,112 code points but those of a newer Unicode, in each of the surroundings."""
    points = (point for point in range(0x110000) if not newer(chr(point)))
    check(name, [code_points(*context, points)])


# ---- against the engines ---------------------------------------------------------------------------------------------


def hugging_face(name: str) -> Split:
    """Give the split of Hugging Face, whose engine knows Unicode 16.0."""
    tokenizers = pytest.importorskip("tokenizers", reason="compares with the package tokenizers")
    pre = tokenizers.pre_tokenizers
    stages = [pre.Split(tokenizers.Regex(stage.removeprefix("(?V1)")), "isolated") for stage in STAGES[name]]
    sequence = pre.Sequence([pre.Digits(individual_digits=True), *stages[1:]] if name == "starcoder" else stages)
    return lambda text: [piece for piece, _ in sequence.pre_tokenize_str(text)]


@pytest.mark.parametrize("name", SPLITS)
def test_hugging_face(name: str) -> None:
    """Random texts split as the package tokenizers does."""
    check(name, list(random_texts(f"hugging face {name}", 20 if JIT_OFF else 3_000)), hugging_face(name))


@pytest.mark.parametrize("name", ["deepseek", "kimi"])
@pytest.mark.parametrize("context", CONTEXTS[2:4])
def test_code_points_by_hugging_face(name: str, context: tuple[str, str]) -> None:
    """The code points split as the package tokenizers does."""
    check(name, [code_points(*context, usual_points())], hugging_face(name))


@pytest.mark.campaign
@pytest.mark.parametrize("name", ["deepseek", "kimi"])
@pytest.mark.parametrize("context", CONTEXTS)
def test_campaign_code_points_by_hugging_face(name: str, context: tuple[str, str]) -> None:
    """All 1,114,112 code points, in each of the surroundings, split as the package tokenizers does."""
    check(name, [code_points(*context, range(0x110000))], hugging_face(name))


@pytest.mark.skipif(JIT_OFF, reason="half a minute in plain Python; the pieces are compared all the same")
def test_kimi_by_tiktoken(ranks: dict[bytes, int]) -> None:
    """Kimi's pattern, with the vocabulary of GPT-2, gives the ids of tiktoken, the engine that Kimi is used with."""
    made = {"pat_str": patterns.KIMI_PATTERN, "mergeable_ranks": ranks, "special_tokens": {}}
    found, expected = numbatok.Encoding("kimi", **made), tiktoken.Encoding("kimi", **made)
    for text in random_texts("tiktoken", 5_000):
        assert found.encode_ordinary(text) == expected.encode_ordinary(text), repr(text)


# ---- cuts and cursors ------------------------------------------------------------------------------------------------


def cuts_of(data: bytes) -> Iterator[int]:
    """Give the safe cuts of a text."""
    text, cut = np.frombuffer(data, np.uint8), 0
    while (cut := find_cut(address(text), cut + 1, len(data))) < len(data):
        yield cut


@pytest.mark.parametrize("name", SPLITS)
def test_halves_at_safe_cuts(name: str) -> None:
    """Wherever a text may be cut, the pieces of both halves are those of the whole."""
    rng, done = random.Random(f"cuts {name}"), 0
    parts = [*CHARACTERS, *FRAGMENTS, *"abcXYZ019", *("中。", "文，", "word", "1a", "a1")]
    for _ in range(20 if JIT_OFF else 3_000):
        data = "".join(rng.choices(parts, k=rng.randrange(2, 14))).encode()
        whole = piece_ends(model_of(name), [data], blocks=False)
        for cut in cuts_of(data):
            halves = piece_ends(model_of(name), [data[:cut], data[cut:]], blocks=False)
            assert np.array_equal(halves, whole), (data[:cut].decode(), data[cut:].decode())
            done += 1
    assert JIT_OFF or done > 3_000


@pytest.mark.parametrize("name", SPLITS)
def test_two_cursors(name: str) -> None:
    """The dual cursor gives the same pieces."""
    for text in random_texts(f"dual {name}", 3 if JIT_OFF else 500, 200):
        data = text.encode()
        ends, at = np.empty(len(data) + 64, np.uint64), address(np.frombuffer(data, np.uint8))
        count = split_dual(model_of(name).address, at, at + len(data), address(ends))
        found = (ends[:count] - np.uint64(at)).astype(np.int64)
        np.testing.assert_array_equal(found, piece_ends(model_of(name), [data], blocks=True))


def is_utf8(data: bytes | bytearray) -> bool:
    """Tell whether bytes are UTF-8 by Python's decoder."""
    try:
        return data.decode() is not None
    except UnicodeDecodeError:
        return False


@pytest.mark.parametrize("name", SPLITS)
def test_bytes_that_are_not_utf8(name: str) -> None:
    """With a byte changed or lost, both scanners stop at the same place, and have split only what is UTF-8."""
    rng, broken = random.Random(f"bytes {name}"), 0
    for text in random_texts(f"bytes {name}", 10 if JIT_OFF else 2_000, 60):
        data = bytearray((text + TAIL).encode())
        place = rng.randrange(len(text.encode()))
        data[place : place + 1] = rng.choice([b"", b"\x80", b"\xbf", b"\xe3", b"\xe4\xb8", b"\xe5", b"\xff"])
        ends = [piece_ends(model_of(name), [bytes(data)], blocks=blocks) for blocks in (True, False)]
        np.testing.assert_array_equal(*ends)
        done = int(ends[0][-1]) if len(ends[0]) else 0
        assert is_utf8(data[:done])
        assert is_utf8(data) == (done == len(data))
        broken += done < len(data)
    assert broken > 3


# ---- the patterns ----------------------------------------------------------------------------------------------------


def test_sequences_are_known_by_their_texts() -> None:
    """A sequence of one is the pattern; part of a sequence, or another order, is unknown and named in the message."""
    assert patterns.split_of((patterns.O200K_PATTERN,)) == patterns.split_of(patterns.O200K_PATTERN)
    assert patterns.split_of((r"\p{N}", GPT2)) == patterns.DIGITS_THEN_GPT2 != patterns.split_of(GPT2)
    first, second, third = patterns.DEEPSEEK_PATTERNS
    for unknown in ((first, second), (second, first, third), (first, third), (), third, (GPT2, r"\p{N}")):
        with pytest.raises(ValueError, match=r"no split kernel for the (pattern|sequence).*deepseek"):
            patterns.split_of(unknown)


def test_slash_and_newline_of_the_patterns() -> None:
    """The third pattern of DeepSeek holds CR and LF as characters, as its file does; Kimi's has them by escapes."""
    assert patterns.DEEPSEEK_PATTERNS[2].count("\r\n") == 3
    assert "\\r" not in patterns.DEEPSEEK_PATTERNS[2]
    assert "\r" not in patterns.KIMI_PATTERN
