"""Every row of tests/data/cases-gpt2.jsonl through the public API.

Invariant: the calls that a row names give exactly its ids, and so do the flat surface, `count` and bytes input.

    {"input": "p\\n\\nq", "api": "encode_ordinary", "expect": {"ids": {...}}}  ->  enc.encode_ordinary("p\\n\\nq")
"""

from collections.abc import Callable
from typing import Any

import oracle
import pytest
from cases import JIT_OFF, LONGEST_WITHOUT_JIT, Case, assert_expected, build_input, digest, load_cases

import numbatok

CASES = load_cases()

Call = Callable[[numbatok.Encoding, Any, Case], Any]


def _ordinary(enc: numbatok.Encoding, text: Any, case: Case) -> Any:
    return enc.encode_ordinary(text)


def _encode(enc: numbatok.Encoding, text: Any, case: Case) -> Any:
    return enc.encode(text)


def _to_numpy(enc: numbatok.Encoding, text: Any, case: Case) -> Any:
    return enc.encode_to_numpy(text).tolist()


def _encode_all(enc: numbatok.Encoding, text: Any, case: Case) -> Any:
    return enc.encode(text, allowed_special="all")


def _encode_allowed(enc: numbatok.Encoding, text: Any, case: Case) -> Any:
    return enc.encode(text, allowed_special=case["input"]["allowed"])


def _batch(enc: numbatok.Encoding, text: Any, case: Case) -> Any:
    return enc.encode_ordinary_batch(text)


# The `api` of a row -> what to call; a new spelling in the data fails loudly with a KeyError.
CALLS: dict[str, tuple[Call, ...]] = {
    "encode_ordinary": (_ordinary,),
    "encode_bytes": (_ordinary,),  # bytes are legal wherever str is
    "encode_ordinary / encode": (_ordinary, _encode),
    "encode, encode_ordinary, encode_to_numpy": (_encode, _ordinary, _to_numpy),
    "encode(allowed_special='all')": (_encode_all,),
    "encode(allowed_special={'<|nope|>'})": (_encode_allowed,),
    "encode(allowed_special=[...])": (_encode_allowed,),
    "encode_ordinary_batch": (_batch,),
}
PLAIN = [case for case in CASES if "batch" not in case["api"] and "allowed_special" not in case["api"]]


def expected_ids(case: Case) -> Any:
    """Give the expected ids of a row, whichever of the three names they have."""
    names = ("ids", "ids_digest", "tiktoken_private_encode_bytes")
    return next(case["expect"][name] for name in names if name in case["expect"])


def input_of(case: Case) -> Any:
    """Build the input of a row, or skip the row where plain Python kernels would take minutes."""
    text = build_input(case["input"])
    if JIT_OFF and isinstance(text, str | bytes) and len(text) > LONGEST_WITHOUT_JIT:
        pytest.skip("long input: left to the compiled run")
    return text


def by_id(case: Case) -> str:
    """Name a parametrised test after its row."""
    return str(case["id"])


@pytest.mark.parametrize("case", CASES, ids=by_id)
def test_row_gives_the_recorded_ids(enc: numbatok.Encoding, case: Case) -> None:
    """Each call that the row names gives the ids that tiktoken gave."""
    for call in CALLS[case["api"]]:
        assert_expected(call(enc, input_of(case), case), expected_ids(case))


@pytest.mark.parametrize("case", PLAIN, ids=by_id)
def test_flat_surface_agrees(enc: numbatok.Encoding, case: Case) -> None:
    """encode_flat gives the same ids for text and for its bytes, count their number, and decoding gives the bytes."""
    text = input_of(case)
    data = text if isinstance(text, bytes) else oracle.repair(text).encode("utf-8")
    tokens = enc.encode_flat(text)
    expected = expected_ids(case)
    assert_expected(tokens, expected if isinstance(expected, dict) else digest(expected))
    assert (enc.encode_flat(data) == tokens).all()
    assert enc.count(text) == tokens.size
    assert enc.decode_bytes(tokens) == data


def test_table_is_complete() -> None:
    """No row was lost: 108 rows with distinct names."""
    assert len({case["id"] for case in CASES}) == len(CASES) == 108
