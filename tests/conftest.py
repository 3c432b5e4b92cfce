"""Fixtures of the whole suite: the encoding under test, its ranks, and tiktoken built from those very ranks.

Invariant: no network and no file outside the repository; the reference is built from what the package embeds.

    def test_same(enc, oracle_encoding):
        assert enc.encode_ordinary("a b") == oracle_encoding.encode_ordinary("a b")

`NUMBATOK_EXAMPLES` sets how many examples a Hypothesis property tries (default 100; 20 with the JIT off).
"""

import os
from collections.abc import Iterator

import numpy as np
import oracle
import pytest
import tiktoken
from cases import JIT_OFF
from hypothesis import settings

import numbatok

# A deadline would measure the machine and the first compile, not the code.
settings.register_profile(
    "numbatok", deadline=None, max_examples=int(os.environ.get("NUMBATOK_EXAMPLES", "20" if JIT_OFF else "100"))
)
settings.load_profile("numbatok")


@pytest.fixture(scope="session", autouse=True)
def _quiet_overflow() -> Iterator[None]:
    """Let uint64 arithmetic wrap silently with the JIT off, as it does in compiled code: NumPy scalars would warn."""
    with np.errstate(over="ignore" if JIT_OFF else "warn"):
        yield


@pytest.fixture(scope="session")
def enc() -> numbatok.Encoding:
    """Give numbatok's GPT-2 encoding."""
    return numbatok.get_encoding("gpt2")


@pytest.fixture(scope="session")
def ranks(enc: numbatok.Encoding) -> dict[bytes, int]:
    """Give bytes -> rank, read out of the embedded vocabulary; asked id by id, so no order of the list is assumed."""
    return {token: enc.encode_single_token(token) for token in enc.token_byte_values()}


@pytest.fixture(scope="session")
def oracle_encoding(ranks: dict[bytes, int]) -> tiktoken.Encoding:
    """Give tiktoken built from our own ranks."""
    return oracle.tiktoken_encoding(ranks, {"<|endoftext|>": 50256})
