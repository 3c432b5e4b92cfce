"""The tests of the two reference systems, ported to the public API, and the oracle checked against tiktoken.

Invariant: numbatok, tiktoken and the oracle give the same ids, for the article's example, nine fixture files and
pseudo-random strings. Rules first met in the C++ encoder (rank beats order, leftmost of equals) appear as GPT-2 ids.

    enc.encode_ordinary("what's the weather in goldshire?") == [10919, 338, 262, 6193, 287, 3869, 10932, 30]
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import oracle
import pytest
import tiktoken
from cases import JIT_OFF, PATHOLOGICAL, REPRESENTATIVES

import numbatok

Ranks = dict[bytes, int]

ARTICLE_TEXT = "what's the weather in goldshire?"
ARTICLE_IDS = [10919, 338, 262, 6193, 287, 3869, 10932, 30]
FIXTURES = sorted(path for path in (Path(__file__).parent / "data" / "fixtures").glob("*.*") if path.suffix != ".md")


def read_fixture(path: Path) -> str:
    """Read a fixture as it is on disk: line ends are part of the test. Shortened when kernels run as plain Python."""
    return path.read_bytes().decode("utf-8")[: 4_000 if JIT_OFF else None]


def lcg_strings(count: int, length: int, seed: int = 20240229) -> Iterator[str]:
    """Yield strings from a linear congruential generator: the same on every platform, without a library."""
    alphabet = "etaoinshrdlu ETAOIN 0123456789 '''  \n\t.,;:!?-_/(){}<>\"éß中の😀\u00a0\u0301"
    state = seed
    for _ in range(count):
        characters = []
        for _ in range(length):
            state = (state * 1664525 + 1013904223) % 2**32
            characters.append(alphabet[(state >> 16) % len(alphabet)])
        yield "".join(characters)


# ---- the GPT-2 encoder study (H10 to H12) ----------------------------------------------------------------------------


def test_article_example(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, ranks: Ranks) -> None:
    """The walk-through of the article gives its eight ids, in all three implementations, and decodes again."""
    assert enc.encode_ordinary(ARTICLE_TEXT) == ARTICLE_IDS
    assert oracle_encoding.encode_ordinary(ARTICLE_TEXT) == ARTICLE_IDS
    assert oracle.encode(ARTICLE_TEXT, ranks) == ARTICLE_IDS
    assert enc.decode(ARTICLE_IDS) == ARTICLE_TEXT


def test_all_fixtures_are_there() -> None:
    """At least nine fixtures: prose, source, structured data, log, CJK, emoji, base64, repeated boundaries, random."""
    assert len(FIXTURES) >= 9, [path.name for path in FIXTURES]


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.name)
def test_fixture_equals_tiktoken(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, path: Path) -> None:
    """A fixture gives tiktoken's ids, once and with its exact bytes repeated, and decodes to its bytes."""
    text = read_fixture(path)
    for repeated in (text, text * 3):
        tokens = enc.encode_ordinary(repeated)
        assert tokens == oracle_encoding.encode_ordinary(repeated)
        assert enc.decode_bytes(tokens) == repeated.encode("utf-8")


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.name)
def test_fixture_lines_as_a_batch(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, path: Path) -> None:
    """The lines of a fixture as a batch give what tiktoken gives line by line."""
    lines = read_fixture(path).splitlines(keepends=True)
    assert enc.encode_ordinary_batch(lines) == [oracle_encoding.encode_ordinary(line) for line in lines]


def test_hundred_pseudo_random_strings(
    enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, ranks: Ranks
) -> None:
    """On 100 strings of 64 characters the three implementations agree."""
    for text in lcg_strings(100, 64):
        expected = oracle.encode(text, ranks)
        assert oracle_encoding.encode_ordinary(text) == expected
        assert enc.encode_ordinary(text) == expected


@pytest.mark.parametrize("name", PATHOLOGICAL)
def test_adversarial_inputs(enc: numbatok.Encoding, oracle_encoding: tiktoken.Encoding, name: str) -> None:
    """Ten thousand repetitions of one unit give tiktoken's ids (a few hundred with the JIT off)."""
    text = PATHOLOGICAL[name](300 if JIT_OFF else 10_000)
    assert enc.encode_ordinary(text) == oracle_encoding.encode_ordinary(text)


# ---- the C++ encoder (T21) -------------------------------------------------------------------------------------------


def test_empty_text(enc: numbatok.Encoding) -> None:
    """Nothing in, nothing out, both ways."""
    assert enc.encode_ordinary("") == []
    assert enc.decode([]) == ""


def test_single_bytes(enc: numbatok.Encoding, ranks: Ranks) -> None:
    """Each of the 256 bytes alone is one id, its own token, and comes back."""
    for value in range(256):
        byte = bytes([value])
        tokens = enc.encode_ordinary(byte)
        assert tokens == [ranks[byte]]
        assert enc.decode_bytes(tokens) == byte


@pytest.mark.parametrize("text", ["\u1c89", "\U00010d40", "\u1c89\u1c8a"])
def test_utf8_without_merges_gives_one_id_per_byte(enc: numbatok.Encoding, ranks: Ranks, text: str) -> None:
    """Characters that the vocabulary never merged give exactly the ids of their bytes."""
    assert enc.encode_ordinary(text) == [ranks[bytes([value])] for value in text.encode("utf-8")]


@pytest.mark.parametrize("data", [b"\x00\xff\x7f", b"a\x00b", b"\x7f\x7f\x00\x00", b"\xff" * 9, bytes(range(256))])
def test_control_and_high_bytes_round_trip(enc: numbatok.Encoding, data: bytes) -> None:
    """NUL, DEL, FF and all bytes in a row come back as they were."""
    assert enc.decode_bytes(enc.encode_ordinary(data)) == data


@pytest.mark.parametrize("text", ["AUL", "AUM", "AUN", "AUR", "AUS"])
def test_rank_beats_order(enc: numbatok.Encoding, ranks: Ranks, text: str) -> None:
    """Where both pairs of three letters can merge, the pair of lower rank does, though it stands on the right."""
    first, middle, last = (letter.encode() for letter in text)
    assert ranks[middle + last] < ranks[first + middle]
    assert enc.encode_ordinary(text) == [ranks[first], ranks[middle + last]]


@pytest.mark.parametrize("letter", ["b", "c", "q", "Z"])
def test_leftmost_of_equal_pairs(enc: numbatok.Encoding, ranks: Ranks, letter: str) -> None:
    """Three equal letters merge the first two, four merge into two pairs."""
    one, two = ranks[letter.encode()], ranks[letter.encode() * 2]
    assert enc.encode_ordinary(letter * 3) == [two, one]
    assert enc.encode_ordinary(letter * 4) == [two, two]


@pytest.mark.skipif(JIT_OFF, reason="50,256 encodings: left to the compiled run")
def test_every_token_encodes_to_itself(enc: numbatok.Encoding, ranks: Ranks) -> None:
    """Every token of the vocabulary that is one piece of text gives its own id again."""
    texts = {token.decode("utf-8"): rank for token, rank in ranks.items() if _is_text(token)}
    pieces = {text: rank for text, rank in texts.items() if oracle.split(text) == [text]}
    assert len(pieces) > 49_000
    assert enc.encode_ordinary_batch(list(pieces)) == [[rank] for rank in pieces.values()]


def _is_text(token: bytes) -> bool:
    """Tell whether a token is valid UTF-8 on its own."""
    return "\ufffd" not in token.decode("utf-8", "replace")


# ---- the oracle itself -----------------------------------------------------------------------------------------------


def test_oracle_agrees_with_tiktoken(oracle_encoding: tiktoken.Encoding, ranks: Ranks) -> None:
    """On all pairs of representative characters, also between letters, the oracle gives tiktoken's ids."""
    for pair in itertools.product(REPRESENTATIVES, repeat=2):
        for text in ("".join(pair), "x" + "".join(pair) + "y", " ".join(pair)):
            assert oracle.encode(text, ranks) == oracle_encoding.encode_ordinary(text), ascii(text)


@pytest.mark.parametrize("name", PATHOLOGICAL)
def test_oracle_agrees_on_adversarial_inputs(oracle_encoding: tiktoken.Encoding, ranks: Ranks, name: str) -> None:
    """Also on short forms of the adversarial inputs."""
    for n in (1, 2, 3, 17, 64):
        text = PATHOLOGICAL[name](n)
        assert oracle.encode(text, ranks) == oracle_encoding.encode_ordinary(text)


def test_oracle_names_all_code_points_it_classifies_otherwise() -> None:
    """Outside NEWER_UNICODE the oracle sees letters, numbers and spaces as tiktoken does.

    When this fails after an update of `regex`, its Unicode tables moved on: add the new ranges to the oracle.
    """
    every = "".join(map(chr, itertools.chain(range(0xD800), range(0xE000, 0x110000))))
    known = "".join(character for character in every if oracle.comparable(character))
    single_bytes = {bytes([value]): value for value in range(256)}
    for pattern in (r"\p{L}", r"\p{N}", r"\s"):
        # tiktoken drops what its pattern does not match, so the ids that remain are the bytes of the class
        reference = tiktoken.Encoding("class", pat_str=pattern, mergeable_ranks=single_bytes, special_tokens={})
        members = bytes(reference.encode_to_numpy(known).astype("u1")).decode("utf-8")
        assert members == "".join(oracle.regex.findall(pattern, known)), pattern
