"""The case table: recorded inputs with their GPT-2 ids, and input makers that every implementation runs against.

Invariant: a row is data only. `build_input` turns its `input` into text, bytes or a batch, and `assert_expected`
compares ids with its `expect`, which is a list, or for long results a digest (count, sha256, both ends).

    >>> build_input({"concat": [" ", {"repeat": ["ab", 2]}]})
    ' abab'
    >>> assert_expected([10919, 338], [10919, 338])
    >>> PATHOLOGICAL["carets"](3)
    '^^^'
"""

import hashlib
import itertools
import json
import os
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

Case = dict[str, Any]

# Kernels run as plain Python then, some hundred times slower: long inputs are left to the compiled run.
JIT_OFF = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
LONGEST_WITHOUT_JIT = 4_000

_END = 8  # ids kept at each end of a digest: enough to see what kind of difference it is


def load_cases(name: str = "cases-gpt2.jsonl") -> list[Case]:
    """Read a case file of tests/data, one JSON object a line."""
    lines = (Path(__file__).parent / "data" / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


# ---- inputs ----------------------------------------------------------------------------------------------------------


def build_input(spec: Any) -> Any:
    """Make the input that a row describes; the forms are listed in tests/data/README-cases.md.

    >>> build_input("as it is"), build_input(["a", "b"]), build_input({"bytes_hex": "68c3"})
    ('as it is', ['a', 'b'], b'h\\xc3')
    >>> build_input({"text": "only the text", "allowed": []})
    'only the text'
    """
    if not isinstance(spec, dict):
        return spec
    if "repeat" in spec:
        unit, times = spec["repeat"]
        return unit * times
    if "concat" in spec:
        return "".join(build_input(part) for part in spec["concat"])
    if "bytes_hex" in spec:
        return bytes.fromhex(spec["bytes_hex"])
    if "python" in spec:  # an expression from our own data file, with nothing in reach but what such rows need
        return eval(spec["python"], {"__builtins__": {}, "chr": chr, "range": range})
    if "text" in spec:
        return build_input(spec["text"])
    raise ValueError(f"unknown input form {sorted(spec)}; known: repeat, concat, bytes_hex, python, text")


# ---- expectations ----------------------------------------------------------------------------------------------------


def digest(ids: Iterable[int]) -> dict[str, Any]:
    """Give count, sha256 over little-endian int32, and the ids at both ends.

    >>> digest([198, 628])["count"], digest([198, 628])["head"]
    (2, [198, 628])
    """
    flat = np.asarray(list(ids) if not isinstance(ids, np.ndarray) else ids).astype("<i4")
    return {
        "count": int(flat.size),
        "sha256_int32le": hashlib.sha256(flat.tobytes()).hexdigest(),
        "head": flat[:_END].tolist(),
        "tail": flat[-_END:].tolist(),
    }


def assert_expected(ids: Any, expected: list[Any] | dict[str, Any]) -> None:
    """Assert that ids, or the rows of a batch, are the expected ones; a digest of a batch is of its joined rows."""
    if isinstance(expected, list):
        assert [row if isinstance(row, int) else list(row) for row in ids] == expected
        return
    if len(ids) and not isinstance(ids[0], int | np.integer):
        ids = list(itertools.chain.from_iterable(ids))
    assert digest(ids) == expected


# ---- tables shared by all implementations ----------------------------------------------------------------------------


def _repeated(unit: str) -> Callable[[int], str]:
    """Give a builder of texts of n units."""
    return lambda n: unit * n


# Name -> builder of a text of n units: inputs that are slow, deep or wrong in encoders that were not made for them.
PATHOLOGICAL: dict[str, Callable[[int], str]] = {
    "carets": _repeated("^"),
    "zeros": _repeated("0"),
    "letters": _repeated("a"),
    "capitals": _repeated("Z"),
    "contractions": _repeated("'s"),
    "apostrophes": _repeated("'"),
    "spaces": _repeated(" "),
    "newlines": _repeated("\n"),
    "tabs": _repeated("\t"),
    "crlf": _repeated("\r\n"),
    "nul": _repeated("\0"),
    "no-break spaces": _repeated("\u00a0"),
    "han": _repeated("中"),
    "emoji": _repeated("😀"),
    "marks": lambda n: "a" + "\u0301" * n,
    "space newline": _repeated(" \n"),
    "space letter": _repeated(" a"),
    "letter digit": _repeated("a1"),
    "letter mark": _repeated("a\u0301"),
    "letter punctuation": _repeated("a."),
    "two letters": _repeated("ab"),
    "wide and narrow": _repeated("é!"),
    "spaces, word": lambda n: " " * n + "x",
    "word, spaces": lambda n: "x" + " " * n,
    "newlines, word": lambda n: "\n" * n + "x",
    "one long word": lambda n: ("qzjxkvwpybghfdmculrnsoitae" * (n // 26 + 1))[:n],
    "base64": lambda n: "".join(random.Random(n).choices("ABCDEFGHIJKLMNOPabcdefghijklmnop0123456789+/", k=n)),
}

# One or more code points for each way that the GPT-2 pattern can look at a character; tuples of them are exhaustive.
REPRESENTATIVES: tuple[str, ...] = (
    *"astlvSéſ中ʰǅ",  # letters: those of contractions, cased, foldable to s, caseless, modifier, title case
    *"9²٢",  # numbers: digit, superscript, Arabic-Indic digit
    "'",
    *" \n\t\r\u0085\u00a0\u3000\u2028",  # whitespace of one, two and three bytes
    *"!/\u0301\ufeff\u200b\x01😀",  # other: punctuation, mark, things that only look like spaces, control, four bytes
)

# The last vocabulary and its tokens: listing them takes 10 ms, too long for each example of a property.
_text_tokens: list[tuple[dict[bytes, int], list[str]]] = []


def text_tokens(ranks: dict[bytes, int]) -> list[str]:
    """List the tokens that are valid UTF-8 on their own, in rank order."""
    if not _text_tokens or _text_tokens[0][0] is not ranks:
        decoded = (token.decode("utf-8", "replace") for token in sorted(ranks, key=ranks.__getitem__))
        _text_tokens[:] = [(ranks, [token for token in decoded if "\ufffd" not in token])]
    return _text_tokens[0][1]


def token_glued_text(rng: random.Random, ranks: dict[bytes, int], n: int) -> str:
    """Glue n random tokens: finds merge errors sooner than random characters, as nearly every seam could merge.

    >>> token_glued_text(random.Random(1), {b"a": 0, b"ab": 1, bytes([255]): 2}, 4)
    'aababa'
    """
    return "".join(rng.choices(text_tokens(ranks), k=n))
