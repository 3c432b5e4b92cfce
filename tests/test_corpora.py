"""Whole texts against tiktoken: those of the repository, and large ones from a folder that the caller names.

Invariant: a whole file, and any slice of it, has tiktoken's ids, with a cold cache and a warm one, on one thread and on
two, as one text and line by line, and decodes to its bytes.

    NUMBATOK_CORPORA=/some/folder python -m pytest tests/test_corpora.py

The folder may hold any UTF-8 text files; without the variable the tests of large files are skipped.
"""

import os
import random
from pathlib import Path

import numpy as np
import pytest
import tiktoken
from cases import JIT_OFF

import numbatok
from numbatok.split.patterns import GPT2_PATTERNS

DATA = Path(__file__).parent / "data"
TEXTS = sorted(path for path in [*DATA.glob("*.txt"), *(DATA / "fixtures").glob("*.*")] if path.suffix != ".md")
CORPORA = os.environ.get("NUMBATOK_CORPORA")
LARGE = sorted(path for path in Path(CORPORA).iterdir() if path.is_file()) if CORPORA else []
LONGEST = 3_000 if JIT_OFF else None

no_corpora = pytest.mark.skipif(not LARGE, reason="NUMBATOK_CORPORA names no folder with files")
compiled_only = pytest.mark.skipif(JIT_OFF, reason="large files: left to the compiled run")


def read(path: Path) -> str:
    """Read a text as it is on disk, line ends and all."""
    return path.read_bytes().decode()[:LONGEST]


def reference_ids(reference: tiktoken.Encoding, text: str) -> np.ndarray:
    """Give tiktoken's ids as an array."""
    return np.asarray(reference.encode_to_numpy(text, disallowed_special=()))


def fresh(enc: numbatok.Encoding) -> numbatok.Encoding:
    """Give an encoding with the same tables and a cold cache (with the JIT off the one at hand: seeding takes long)."""
    return enc if JIT_OFF else numbatok.Encoding._from_model("fresh", GPT2_PATTERNS[0], enc._model)


def same(found: np.ndarray, expected: np.ndarray) -> None:
    """Assert that two arrays of ids are equal; says where they part, as a diff of a million ids takes minutes."""
    common = min(len(found), len(expected))
    place = int(np.append(found[:common] != expected[:common], True).argmax())
    assert np.array_equal(found, expected), (place, found[place : place + 8], expected[place : place + 8])


# ---- texts of the repository -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_text(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, path: Path) -> None:
    """A text of the repository, cold and warm, from one thread and from two, and back."""
    text = read(path)
    expected, cold = reference_ids(oracle_encoding, text), fresh(enc)
    for _ in range(2):
        same(cold.encode_flat(text), expected)
        same(cold.encode_batch_flat([text] * 5, threads=2).tokens, np.tile(expected, 5))
    assert cold.count(text) == len(expected)
    assert cold.decode(expected) == text


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_slices(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, path: Path) -> None:
    """Random slices of a text, as a batch and one by one: any place may be the start or the end of a text."""
    rng, text = random.Random(51), read(path)
    starts = [rng.randrange(len(text)) for _ in range(5 if JIT_OFF else 400)]
    slices = [text[start : start + rng.choice([1, 7, 60, 70, 500])] for start in starts]
    expected = [oracle_encoding.encode_ordinary(part) for part in slices]
    assert enc.encode_ordinary_batch(slices) == expected
    assert [enc.encode_ordinary(part) for part in slices] == expected


def test_repository_has_texts() -> None:
    """The texts are there: an empty list would pass every test above."""
    assert len(TEXTS) >= 12


# ---- large texts -----------------------------------------------------------------------------------------------------


@no_corpora
@compiled_only
@pytest.mark.parametrize("path", LARGE, ids=lambda path: path.name)
def test_large_text(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, path: Path) -> None:
    """A whole large file, cold and warm, on one thread and on two, as one text and as lines; counted and decoded."""
    text = read(path)
    expected = reference_ids(oracle_encoding, text)
    for threads in (1, 2):
        cold = fresh(enc)
        for _ in range(2):
            same(cold.encode_batch_flat([text], threads=threads).tokens, expected)
        assert cold.count_batch([text], threads=threads).tolist() == [len(expected)]
    same(fresh(enc).encode_flat(text), expected)
    assert enc.decode_bytes(expected) == text.encode()


@no_corpora
@compiled_only
@pytest.mark.parametrize("path", LARGE, ids=lambda path: path.name)
def test_lines_of_a_large_text(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, path: Path) -> None:
    """The lines of a large file as rows, on one thread and on two."""
    lines = read(path).splitlines(keepends=True)
    expected = [oracle_encoding.encode_ordinary(line) for line in lines]
    flat = np.fromiter((token for row in expected for token in row), np.uint32)
    for threads in (1, 2):
        found = fresh(enc).encode_batch_flat(lines, threads=threads)
        same(found.tokens, flat)
        same(np.diff(found.offsets), np.fromiter(map(len, expected), np.int64))
