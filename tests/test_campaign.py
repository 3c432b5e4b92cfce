"""The long campaign: every family of splits against the library that it comes from, exhaustive where it can be.

python -m pytest -m campaign tests/test_campaign.py        # about half an hour on two cores
NUMBATOK_TUPLES=6 python -m pytest -m campaign tests/test_campaign.py -k "library and o200k"

The library is tiktoken, given the pattern and the ranks of o200k_base; or tokenizers, where there is a sequence of
patterns. Ids do not show every boundary, so the two scanners are compared piece by piece beside it. The smaller form of
each test is in the default run (test_split_families.py, test_split_sequences.py, test_encodings.py).
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import hf
import numpy as np
import pytest
import tiktoken
from test_split_families import FRAGMENTS
from test_split_families import PATTERNS as SINGLE
from toys import first_disagreement, split_model

import numbatok
from numbatok.bpe import address
from numbatok.split import patterns

pytestmark = pytest.mark.campaign

REPRESENTATIVES = [*"aStlrvAé中ſʰǅ9²' \n\r\t!/。😀", "\u0301", "\u3000", "\x01", "あ", "・", "\u0085"]
TAIL = "xy zzz, " * 10
TUPLES = int(os.environ.get("NUMBATOK_TUPLES", "5"))
CORPORA = os.environ.get("NUMBATOK_CORPORA")
PATTERNS = {**SINGLE, "kimi": patterns.KIMI_PATTERN}
SEQUENCES = {"deepseek": patterns.split_of(patterns.DEEPSEEK_PATTERNS), "starcoder": patterns.DIGITS_THEN_GPT2}
SPLITS = {**{name: patterns.split_of(pattern) for name, pattern in PATTERNS.items()}, **SEQUENCES}
RANDOM_TEXTS = 1_000_000

Rows = list[list[int]]


def pair(name: str) -> tuple[numbatok.Encoding, Callable[[list[str]], Rows]]:
    """Give an encoding with the split, and what the library gives for a list of texts."""
    if name in SEQUENCES:
        tokenizer = hf.build(hf.PRE_TOKENIZERS[name]())
        batch = tokenizer.encode_batch_fast
        return numbatok.Encoding.from_huggingface(tokenizer), lambda texts: [
            one.ids for one in batch(texts, add_special_tokens=False)
        ]
    parts = {"pat_str": PATTERNS[name], "mergeable_ranks": numbatok.get_encoding("o200k_base")._mergeable_ranks}
    theirs = tiktoken.Encoding(name, **parts, special_tokens={})
    ours = numbatok.Encoding(name, **parts, special_tokens={})
    return ours, lambda texts: theirs.encode_ordinary_batch(texts, num_threads=2)


def check(name: str, batches: Iterable[list[str]]) -> int:
    """Compare batches of texts; gives the number of texts."""
    ours, library = pair(name)
    done = 0
    for texts in batches:
        for one, other, text in zip(ours.encode_ordinary_batch(texts), library(texts), texts, strict=True):
            if one != other:
                at = next((i for i, (mine, its) in enumerate(zip(one, other, strict=False)) if mine != its), 0)
                raise AssertionError(f"behind {ours.decode(one[max(at - 9, 0) : at])!a} in a text of {len(text)}")
        done += len(texts)
    return done


def tuples(length: int, joined: int) -> Iterator[str]:
    """Give all tuples of the representatives; those that differ in their last ``joined`` places as one text."""
    ends = ["".join(one) for one in itertools.product(REPRESENTATIVES, repeat=joined)]
    for start in map("".join, itertools.product(REPRESENTATIVES, repeat=length - joined)):
        yield "".join(start + end for end in ends)


def in_batches(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    """Give texts in lists of ``size``."""
    texts = iter(texts)
    while batch := list(itertools.islice(texts, size)):
        yield batch


@pytest.mark.parametrize("name", SPLITS)
def test_tuples_by_both_scanners(name: str) -> None:
    """All 594,823,321 tuples of six, and all shorter ones, at the start of a long text: blocks and steps agree."""
    assert len(REPRESENTATIVES) == 29
    widths = np.array([len(one.encode()) for one in REPRESENTATIVES])
    units = np.array([list(one.encode().ljust(4)) for one in REPRESENTATIVES], np.uint8)
    text = np.frombuffer(b" " * 32 + TAIL.encode(), np.uint8).copy()
    model = split_model(SPLITS[name])
    for length in range(1, 7):
        assert first_disagreement(model.address, units, widths, text, address(text), length) == -1


@pytest.mark.parametrize("name", SPLITS)
def test_tuples_by_the_library(name: str) -> None:
    """All 732,540 tuples of one to four as texts of their own; all of five (or six) in a row."""
    alone = check(name, in_batches((one for n in (1, 2, 3, 4) for one in tuples(n, 0)), 100_000))
    assert alone == 29 + 29**2 + 29**3 + 29**4
    assert check(name, in_batches(tuples(TUPLES, 3), 29)) == 29 ** (TUPLES - 3)


@pytest.mark.parametrize("name", SPLITS)
def test_random_texts(name: str) -> None:
    """A million random texts of three mixes: representatives, runs of them, fragments that have trapped others."""
    rng = random.Random(f"campaign {name}")
    runs = [one * times for one in REPRESENTATIVES for times in (1, 1, 1, 2, 3, 8)]
    mixes = itertools.cycle([REPRESENTATIVES, runs, [*FRAGMENTS, *REPRESENTATIVES, *hf.FRAGMENTS]])
    texts = ("".join(rng.choices(next(mixes), k=rng.randint(1, 40))) for _ in range(RANDOM_TEXTS))
    assert check(name, in_batches(texts, 20_000)) == RANDOM_TEXTS


@pytest.mark.parametrize("name", SPLITS)
def test_code_points(name: str) -> None:
    """Every code point alone, in six surroundings, and behind 52 to 64 bytes, so that it lies across a block's end."""
    characters = [chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000]
    contexts = [
        "{}",
        "a{}B",
        " {} ",
        "'{}x",
        "x  {}1",
        "!{}!",
        "\n{}\n",
        *("x" * n + " {}y z" for n in range(51, 64, 3)),
    ]
    for context in contexts:
        rows = (context.replace("{}", character) for character in characters)
        assert check(name, in_batches(rows, 100_000)) == len(characters)


@pytest.mark.skipif(not CORPORA, reason="NUMBATOK_CORPORA does not name a folder of large texts")
@pytest.mark.parametrize("name", SPLITS)
def test_corpora(name: str) -> None:
    """Each corpus whole (8 MB of it against tokenizers), and cut at random places."""
    rng = random.Random(name)
    for path in sorted(Path(str(CORPORA)).iterdir()):
        text = path.read_bytes()[: 1 << 23 if name in SEQUENCES else None].decode(errors="ignore")
        cuts = sorted({0, len(text), *(rng.randrange(len(text)) for _ in range(2_000))})
        check(name, [[text], [text[start:stop] for start, stop in itertools.pairwise(cuts)]])
