"""The rows of tests/data/cases-surface.jsonl: special tokens, ids, pickles and vocabulary files of public bug reports.

Invariant: each row has a check of its own, which takes its input and expectation from the row.

    {"id": "dec-gap", "input": {"encoding": "cl100k_base", "ids": [100256]}, ...}  ->  KeyError that names 100256
"""

from __future__ import annotations

import base64
import copy
import itertools
import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import cloudpickle
import pytest
from cases import JIT_OFF, Case, build_input, load_cases
from test_encodings import HASHES
from test_load import ADDRESS, KEY, tiny_gpt2

import numbatok
from numbatok import Encoding, load
from numbatok.split.patterns import CL100K_PATTERN, GPT2_PATTERNS

ROWS = load_cases("cases-surface.jsonl")
BYTES = {bytes([byte]): byte for byte in range(256)}

Check = Callable[[Case, Path], None]
CHECKS: dict[str, Check] = {}


def check(function: Check) -> Check:
    """Enter a check under the name of its row."""
    CHECKS[function.__name__.strip("_").replace("_", "-")] = function
    return function


def enc_of(case: Case) -> numbatok.Encoding:
    """Give the encoding that a row names; cl100k_base is that of rows without one."""
    return numbatok.get_encoding(case["input"].get("encoding", "cl100k_base"))


def of_bytes(specials: dict[str, int], more: dict[bytes, int] | None = None) -> numbatok.Encoding:
    """Make an encoding of the 256 bytes and ``more`` tokens, with the split of cl100k_base."""
    return numbatok.Encoding(
        "toy", pat_str=CL100K_PATTERN, mergeable_ranks=BYTES | (more or {}), special_tokens=specials
    )


@pytest.mark.parametrize("case", ROWS, ids=lambda case: str(case["id"]))
def test_row(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row holds."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    CHECKS[case["id"]](case, tmp_path)


def test_no_row_is_lost() -> None:
    """22 rows, and no check without one."""
    assert len(ROWS) == 22
    assert {case["id"] for case in ROWS} == set(CHECKS)


# ---- split and special tokens ----------------------------------------------------------------------------------------


@check
def _con_long_s_ids(case: Case, folder: Path) -> None:
    enc = of_bytes({}, {"ſ".encode(): 256, "ſx".encode(): 257})
    assert enc.encode_ordinary(case["input"]["text"]) == case["expect"]["ids"]


@check
def _spc_partly_allowed(case: Case, folder: Path) -> None:
    enc, text, allowed = enc_of(case), case["input"]["text"], set(case["input"]["allowed"])
    with pytest.raises(ValueError, match="fim_prefix"):
        enc.encode(text, allowed_special=allowed)
    found = enc.encode(text, allowed_special=allowed, disallowed_special=())
    assert found == case["expect"]["ids_when_disallowed_empty"]


@check
def _spc_prefix_pair(case: Case, folder: Path) -> None:
    for order in itertools.permutations(case["input"]["special_tokens"].items()):
        assert of_bytes(dict(order)).encode(case["input"]["text"], allowed_special="all") == case["expect"]["ids_hf"]


@check
def _spc_order(case: Case, folder: Path) -> None:
    for order in itertools.permutations(case["input"]["special_tokens"].items()):
        found = of_bytes(dict(order)).encode(case["input"]["text"], allowed_special="all")
        assert found == [1001, 32, 1002, 32, 1003]


@check
def _spc_regex_chars(case: Case, folder: Path) -> None:
    enc = of_bytes(case["input"]["special_tokens"])
    assert enc.encode(case["input"]["text"], allowed_special="all") == case["expect"]["ids_tiktoken"]


@check
def _spc_newline_added(case: Case, folder: Path) -> None:
    enc = of_bytes({f"<v_{number}>": 300 + number for number in range(6400)})
    text = build_input(case["input"]["text"])[: 2_000 if JIT_OFF else None]
    enc.encode("<v_6399>", allowed_special="all")  # compiled
    start = time.perf_counter()
    assert enc.encode(text, allowed_special="all") == list(text.encode())
    assert time.perf_counter() - start < case["expect"]["time_limit_s"]


# ---- ids -------------------------------------------------------------------------------------------------------------


@check
def _dec_gap(case: Case, folder: Path) -> None:
    for call in (enc_of(case).decode, enc_of(case).decode_bytes, enc_of(case).decode_tokens_bytes):
        with pytest.raises(KeyError, match="100256"):
            call(case["input"]["ids"])


@check
def _dec_hole_special(case: Case, folder: Path) -> None:
    assert enc_of(case).decode(case["input"]["ids"]) == case["expect"]["text"]


@check
def _par_replace(case: Case, folder: Path) -> None:
    enc, ids = enc_of(case), case["input"]["ids"]
    assert (enc.decode(ids), enc.decode(ids, errors="ignore")) == (case["expect"]["text"], "")
    with pytest.raises(UnicodeDecodeError):
        enc.decode(ids, errors="strict")


@check
def _par_continuation(case: Case, folder: Path) -> None:
    enc, ids = enc_of(case), case["input"]["ids"]
    assert enc.decode(ids) == case["expect"]["text"]
    with pytest.raises(UnicodeDecodeError):
        enc.decode_with_offsets(ids)


@check
def _par_offsets(case: Case, folder: Path) -> None:
    enc = enc_of(case)
    assert list(enc.decode_with_offsets(enc.encode(case["input"]["text"]))) == case["expect"]["result"]


@check
def _par_bad_handler(case: Case, folder: Path) -> None:
    with pytest.raises(LookupError, match="nope"):
        enc_of(case).decode(case["input"]["ids"], errors="nope")


# ---- pickles ---------------------------------------------------------------------------------------------------------


@check
def _pik_roundtrip(case: Case, folder: Path) -> None:
    for copied in (pickle.dumps, cloudpickle.dumps):
        enc = pickle.loads(copied(enc_of(case)))
        assert enc.encode_ordinary("it's 12345") == case["expect"]["ids"]
    assert copy.copy(enc).encode("it's 12345") == copy.deepcopy(enc).encode("it's 12345") == case["expect"]["ids"]


@check
def _pik_closure(case: Case, folder: Path) -> None:
    for enc in (enc_of(case), of_bytes({}, {b"ab": 256})):
        call = pickle.loads(cloudpickle.dumps(lambda text, enc=enc: enc.encode(text)))
        assert call("ab") == enc.encode("ab")


# ---- vocabulary files ------------------------------------------------------------------------------------------------


def written(folder: Path, data: bytes) -> Path:
    """Write a rank file."""
    path = folder / "faulty.tiktoken"
    path.write_bytes(data)
    return path


@check
def _voc_missing_byte(case: Case, folder: Path) -> None:
    # Not refused when it is made: a byte without a token may still merge, and tiktoken takes such a vocabulary.
    ranks = {token: rank for token, rank in BYTES.items() if token != b"z"}
    enc = numbatok.Encoding("toy", pat_str=GPT2_PATTERNS[0], mergeable_ranks=ranks, special_tokens={})
    with pytest.raises(ValueError, match="no token for byte 0x7A"):
        enc.encode("az")


@check
def _voc_html(case: Case, folder: Path) -> None:
    with pytest.raises(ValueError, match=r"faulty\.tiktoken, line 1: '<html>'"):
        load.load_tiktoken_bpe(written(folder, case["input"]["file"].encode()))


@check
def _voc_bad_base64(case: Case, folder: Path) -> None:
    with pytest.raises(ValueError, match=r"faulty\.tiktoken, line 1: '!!! 0'"):
        load.load_tiktoken_bpe(written(folder, case["input"]["file"].encode()))


@check
def _voc_truncated(case: Case, folder: Path) -> None:
    ranks = numbatok.get_encoding("r50k_base")._mergeable_ranks
    data = b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks.items())
    cut = data.index(b" ", len(data) * 6 // 10)
    with pytest.raises(ValueError, match=r"faulty\.tiktoken: the sha256 .* is cut, changed or another file"):
        load.load_tiktoken_bpe(written(folder, data[: cut + 2]), HASHES["r50k_base"])
    with pytest.raises(ValueError, match=r"faulty\.tiktoken, line \d+: .* has 1 field"):
        load.load_tiktoken_bpe(written(folder, data[:cut]))
    with pytest.raises(ValueError, match=r"faulty\.tiktoken, line \d+: the rank \d comes a second time"):
        load.load_tiktoken_bpe(written(folder, data[: cut + 2]))  # the first digit of a rank
    with pytest.raises(ValueError, match="pat_str"):  # no longer the published file: nothing is known of it
        Encoding.from_tiktoken(written(folder, data[: data.rindex(b"\n", 0, cut) + 1]))


@check
def _voc_cp1252(case: Case, folder: Path) -> None:
    files = tiny_gpt2(folder, "#version: 0.2\na b\n# #\n## c\nĠ Ġ\n", ids={"ĠĠ": 259, "<|endoftext|>": 260})
    files[0].write_text(files[0].read_text("utf-8").replace("\\u0120", "Ġ"), "utf-8")
    code = (
        "import sys; from numbatok import Encoding; "
        "print(Encoding.from_gpt2(*sys.argv[1:])._encode_single_piece(b'  '))"
    )
    command = [sys.executable, "-c", code, *map(str, files)]
    done = subprocess.run(command, env=os.environ | case["input"]["env"], capture_output=True, timeout=300, check=True)
    assert json.loads(done.stdout) == [259] == Encoding.from_gpt2(*files)._encode_single_piece(b"  ")


@check
def _voc_offline(case: Case, folder: Path) -> None:
    path = written(folder, b"YQ== 0\nYg== 1\n")
    code = f"""
import socket, sys
socket.socket = socket.create_connection = socket.getaddrinfo = None
from numbatok import Encoding
from numbatok.split.patterns import GPT2_PATTERNS
print(Encoding.from_tiktoken({str(path)!r}, pat_str=GPT2_PATTERNS[0]).encode("ab"))
try:
    Encoding.from_tiktoken({ADDRESS!r})
except FileNotFoundError as error:
    print("nothing is fetched" in str(error))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.split("\n")[:2] == ["[0, 1]", "True"]


@check
def _voc_poison(case: Case, folder: Path) -> None:
    # The folder that others may write to is read only where a hash protects what is in it.
    shared = folder / "data-gym-cache"
    shared.mkdir()
    (shared / KEY).write_bytes(b"YQ== 0\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("TIKTOKEN_CACHE_DIR")
        patch.delenv("DATA_GYM_CACHE_DIR", raising=False)
        patch.setattr(load.tempfile, "gettempdir", lambda: str(folder))
        with pytest.raises(ValueError, match=f"{KEY}: the sha256"):
            load.load_tiktoken_bpe(ADDRESS, HASHES["r50k_base"])
        for call in (load.load_tiktoken_bpe, load.read_file, load.read_file_cached, Encoding.from_tiktoken):
            with pytest.raises(FileNotFoundError, match="nothing is fetched"):
                call(ADDRESS)


@check
def _voc_bom(case: Case, folder: Path) -> None:
    data = bytes.fromhex(case["input"]["file_hex"])
    assert data.startswith(b"\xef\xbb\xbf")
    assert load.load_tiktoken_bpe(written(folder, data)) == {b"!": 0}
    encoder_json, vocab_bpe = tiny_gpt2(folder)
    for path in (encoder_json, vocab_bpe):
        path.write_bytes(data[:3] + path.read_bytes())
    assert Encoding.from_gpt2(encoder_json, vocab_bpe).encode("ab") == [256]
