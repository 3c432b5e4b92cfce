"""The figures of the GPT-2 encoding against tiktoken: encode, threads, decode, short texts, load, start, dual cursor.

Run ``python bench/gpt2.py CORPUS...`` (text files; without any, the samples of the tests). Ids are compared before
anything is timed. Prints a table and writes bench/results/gpt2.json.

    python bench/gpt2.py shakespeare.txt react.js
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tiktoken
from harness import Ratio, interleave, ratio, save

import numbatok
from numbatok.batch import encode_one
from numbatok.bpe import address, load_embedded
from numbatok.split.dual import split_dual
from numbatok.split.patterns import GPT2_PATTERNS, split_of
from numbatok.split.scan import split_text
from numbatok.text import text_span
from numbatok.worker import WorkerPool

GPT2 = split_of(GPT2_PATTERNS[0])
ROOT = Path(__file__).parent.parent
PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
SHORT = "a 20-byte string !!!"
RANGE = 1 << 16


def reference(enc: numbatok.Encoding) -> tiktoken.Encoding:
    """Give tiktoken's encoding, made of our own ranks so that nothing is fetched."""
    ranks = {token: enc.encode_single_token(token) for token in enc.token_byte_values()}
    return tiktoken.Encoding("gpt2", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256})


def encode_figures(enc: numbatok.Encoding, peer: tiktoken.Encoding, text: str) -> dict[str, Ratio]:
    """One thread to a NumPy array, warm and first pass; two threads; decode."""
    data = text.encode()
    expected = peer.encode_ordinary(text)
    ids = enc.encode_flat(data)
    if not np.array_equal(ids, expected) or enc.decode_bytes(ids) != data or enc.count(data) != len(ids):
        raise SystemExit("the ids differ from tiktoken's: nothing is timed")
    many = {f"{n} threads": lambda n=n: enc.encode_batch_flat([data], threads=n) for n in (1, 2)}
    if not np.array_equal(many["2 threads"]().tokens, ids):
        raise SystemExit("two threads give other ids: nothing is timed")
    rounds = 5 if len(data) > 1 << 23 else 9
    peers = {
        "tiktoken": lambda: peer.encode_ordinary(text),
        "tiktoken numpy": lambda: peer.encode_to_numpy(text, disallowed_special=()),
    }
    ours = {
        "warm": lambda: enc.encode_flat(data),
        "first": lambda: enc.encode_flat(data),
        "count": lambda: enc.count(data),
        "list": lambda: enc.encode_ordinary(data),
    }
    # Apart, since dropping the caches before each first pass would make the second lane build a worker in each round.
    seconds = interleave({**peers, **ours}, rounds, before={"first": lambda: forget(enc)})
    seconds |= interleave(many, rounds)
    decoders = {
        "peer decode": lambda: peer.decode_bytes(expected),
        "decode": lambda: enc.decode_bytes(ids),
        "decode list": lambda: enc.decode_bytes(expected),
    }
    seconds |= interleave(decoders, rounds)
    return {
        "encode, warm": ratio(seconds, "tiktoken", "warm"),
        "encode, first pass": ratio(seconds, "tiktoken", "first"),
        "encode to list, warm": ratio(seconds, "tiktoken", "list"),
        "count, warm": ratio(seconds, "tiktoken", "count"),
        "encode to numpy, against encode_to_numpy": ratio(seconds, "tiktoken numpy", "warm"),
        "two threads against one": ratio(seconds, "1 threads", "2 threads"),
        "decode of an array": ratio(seconds, "peer decode", "decode"),
        "decode of a list": ratio(seconds, "peer decode", "decode list"),
    }


def forget(enc: numbatok.Encoding) -> None:
    """Drop the caches, then make one tiny call: the first pass is timed, not the making of a worker."""
    enc.clear_cache()
    enc.encode_flat("hello")


def short_figures(enc: numbatok.Encoding, peer: tiktoken.Encoding) -> dict[str, Ratio]:
    """A string of 20 bytes, to a list."""
    if enc.encode_ordinary(SHORT) != peer.encode_ordinary(SHORT):
        raise SystemExit("the ids of the short string differ: nothing is timed")

    def repeat(call: Callable[[str], Any]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(5_000):
                call(SHORT)

        return run

    calls = {
        "ordinary": (enc, "encode_ordinary"),
        "encode": (enc, "encode"),
        "peer ordinary": (peer, "encode_ordinary"),
        "peer encode": (peer, "encode"),
    }
    seconds = interleave({name: repeat(getattr(owner, method)) for name, (owner, method) in calls.items()}, 15)
    return {name: ratio(seconds, f"peer {name}", name) for name in ("ordinary", "encode")}


def load_figures(peer_ranks: bytes) -> dict[str, Ratio]:
    """Making the tables from the embedded data, against tiktoken's from its rank file (on disk already)."""
    import base64

    def load_peer() -> None:
        lines = (line.split() for line in peer_ranks.splitlines())
        ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
        tiktoken.Encoding("gpt2", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256})

    def load_with_worker() -> None:
        worker = WorkerPool(load_embedded("r50k_base", {}, GPT2)).take()
        encode_one(worker, text_span("x"), address(worker.output))  # the first call fills the cache

    runs = {
        "peer": load_peer,
        "tables": lambda: load_embedded("r50k_base", {}, GPT2),
        "tables and cache": load_with_worker,
    }
    seconds = interleave(runs, 9)
    return {name: ratio(seconds, "peer", name) for name in ("tables", "tables and cache")}


def dual_figures(enc: numbatok.Encoding, data: bytes) -> dict[str, Ratio]:
    """The dual cursor and one cursor of scalar steps, against the block scanner, on ranges of 64 KiB."""
    parts = [text_span(data[at : at + RANGE].decode(errors="ignore").encode()) for at in range(0, len(data), RANGE)][
        :64
    ]
    tables, ends = enc._model.address, np.empty(RANGE + 64, np.uint64)

    def run(split: Callable[..., int], *more: int) -> Callable[[], list[int]]:
        return lambda: [split(tables, at, at + size, address(ends), *more) for at, size, _ in parts]

    runs = {"block": run(split_text, RANGE), "dual": run(split_dual), "single": run(single_steps())}
    if len({tuple(split()) for split in runs.values()}) != 1:
        raise SystemExit("the scanners find other pieces: nothing is timed")
    seconds = interleave(runs, 9)
    return {
        "dual cursor, gain over single steps": ratio(seconds, "single", "dual"),
        "block scanner, gain over the dual cursor": ratio(seconds, "dual", "block"),
    }


def single_steps() -> Callable[..., int]:
    """Compile the one cursor of scalar steps, which only this comparison needs."""
    import numba

    from numbatok.split.dual import step_all
    from numbatok.table import tables_at

    @numba.njit(nogil=True, error_model="numpy")
    def split_single(tables, at, stop, ends):  # type: ignore[no-untyped-def]
        return np.int64(step_all(tables_at(np.uint64(tables)), np.uint64(at), np.uint64(stop), np.uint64(ends)))

    return split_single


def start_figures() -> dict[str, Ratio]:
    """A whole process from its start to the first ids, with kernels in the cache, against ``import numba`` alone."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def process(code: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, "-c", code], check=True, env=environment)

    ours = "import numbatok; numbatok.get_encoding('gpt2').encode('hello world')"
    process(ours)()
    seconds = interleave({"ours": process(ours), "import numba": process("import numba")}, 15)
    return {"start to first ids against import numba": ratio(seconds, "ours", "import numba")}


def main(paths: list[str]) -> None:
    """Measure everything, print it, and write bench/results/gpt2.json."""
    enc = numbatok.get_encoding("gpt2")
    peer = reference(enc)
    figures: dict[str, dict[str, Ratio]] = {"start": start_figures(), "20 bytes": short_figures(enc, peer)}
    ranks = b"".join(base64_line(token, enc.encode_single_token(token)) for token in enc.token_byte_values())
    figures["load"] = load_figures(ranks)
    for path in map(Path, paths or sorted((ROOT / "tests" / "data").glob("*.txt"))):
        data = path.read_bytes()
        text = data.decode()
        figures[path.name] = encode_figures(enc, peer, text) | dual_figures(enc, data)
    for subject, rows in figures.items():
        print(subject)
        for name, value in rows.items():
            print(f"  {name:45s} {value}")
    plain = {subject: {name: value._asdict() for name, value in rows.items()} for subject, rows in figures.items()}
    print("written to", save("gpt2", {"ratios": plain}).relative_to(ROOT))


def base64_line(token: bytes, rank: int) -> bytes:
    """Give one line of a rank file."""
    import base64

    return base64.b64encode(token) + b" %d\n" % rank


if __name__ == "__main__":
    main(sys.argv[1:])
