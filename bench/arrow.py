"""A column of text to a column of ids: numbatok's way, and the ways that other tokenizers leave to their users.

The text column of two Parquet files made of one corpus: documents of 200 bytes to 20 kB, and tiny strings of about 20
bytes, cut at blanks. A contestant gets the column as pyarrow reads it and gives a column of lists; what it does on the
way, as making Python strings and lists, is its own.
Invariant: ids are compared with tiktoken's before anything is timed; contestants take turns in one process for each
number of threads; memory is the peak of one warm call above what was there before it, each in a process of its own.

    python -m bench.arrow CORPUS.txt                              # some ten minutes; writes bench/results/arrow.json
    python -m bench.arrow CORPUS.txt --bytes 2000000 --tiny 20000 --rounds 3 --out try.json      # a try
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.child import keep_to_cores, private_output
from bench.fresh import memory, reset_peak
from bench.harness import PACKAGES, RESULTS, environment, interleave, ratio
from bench.peers import PEERS, cores
from bench.processes import ROOT
from bench.processes import environment as variables
from bench.vocabulary import Vocabulary, embedded

SIZES = (200, 20_000)
"""Bytes of the shortest and of the longest document; their logarithms are spread evenly."""
TINY_BYTES = 20
OURS, COUNT, ONE, REFERENCE = "numbatok", "count_arrow", "the same bytes in one string", "tiktoken"
OTHER_IDS = "gives other ids: not timed"

Route = Callable[[Any], Any]


# ---- columns ---------------------------------------------------------------------------------------------------------


def documents(text: str) -> list[str]:
    """Cut a text into documents that end with a line where a line ends within them."""
    draw, (least, most) = random.Random(1), np.log(SIZES)
    data, at = text.encode(), 0
    cut: list[str] = []
    while at < len(data):
        stop = at + int(np.exp(draw.uniform(least, most)))
        line = data.rfind(b"\n", at + SIZES[0], stop) + 1
        part = data[at : line or stop].decode(errors="ignore")
        cut.append(part)
        at += len(part.encode())
    return cut


def tiny_strings(text: str, rows: int) -> list[str]:
    """Cut a text into strings of about TINY_BYTES, before blanks if there are any, so that most pieces stay whole."""
    at = 0
    cut: list[str] = []
    while at < len(text) and len(cut) < rows:
        blank = text.find(" ", at + TINY_BYTES // 2 + 2, at + 3 * TINY_BYTES)
        stop = blank if blank >= 0 else at + TINY_BYTES
        cut.append(text[at:stop])
        at = stop
    return cut


def write_columns(corpus: bytes, tiny: int, folder: Path) -> dict[str, Path]:
    """Write the Parquet files of a corpus."""
    text = corpus.decode(errors="ignore")
    paths = {}
    for name, rows in (("documents", documents(text)), ("tiny strings", tiny_strings(text, tiny))):
        paths[name] = folder / f"{name}.parquet"
        pq.write_table(pa.table({"text": rows}), paths[name])
    return paths


# ---- contestants -----------------------------------------------------------------------------------------------------


def numbatok_route(vocabulary: Vocabulary) -> Route:
    """The package itself."""
    import numbatok

    return numbatok.get_encoding(vocabulary.name).encode_arrow


def tiktoken_route(vocabulary: Vocabulary) -> Route:
    """Through lists of Python's strings, and lists of lists of integers."""
    lists = PEERS["tiktoken"](vocabulary).lists
    assert lists
    return lambda column: pa.array(lists(column.to_pylist()), pa.list_(pa.uint32()))


def gigatoken_route(vocabulary: Vocabulary) -> Route:
    """Through a list of bytes, the form that it takes quickest; the arrays that it gives are Arrow's layout."""
    load = import_module("gigatoken").Tokenizer
    scheme = PEERS["gigatoken"].schemes[vocabulary.name]  # type: ignore[attr-defined]
    enc = load.from_tiktoken(vocabulary.ranks, scheme, vocabulary.specials)

    def run(column: Any) -> Any:
        layout = enc.encode_batch(column.cast(pa.large_binary()).to_pylist()).layout
        offsets = np.asarray(layout.offsets, np.int64)
        return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(np.asarray(layout.content.data)))

    return run


def arrow_tokenize_route(vocabulary: Vocabulary) -> Route:
    """Hugging Face's tokenizers in Rust, from a string array to a list array."""
    enc = import_module("arrow_tokenize").ArrowTokenizer(vocabulary.json.read_text())
    return lambda column: pa.chunked_array([enc.tokenize(chunk) for chunk in column.chunks])


ROUTES: dict[str, Callable[[Vocabulary], Route]] = {
    OURS: numbatok_route,
    "tiktoken": tiktoken_route,
    "gigatoken": gigatoken_route,
    "arrow-tokenize": arrow_tokenize_route,
}


def version(name: str) -> str | None:
    """Give the version of a distribution, or None if it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def flat(lists: Any) -> tuple[Any, Any]:
    """Give the ids of a column of lists in one array, and the sizes of its rows."""
    lists = lists if isinstance(lists, pa.ChunkedArray) else pa.chunked_array([lists])
    return pc.list_flatten(lists).to_numpy(), pc.list_value_length(lists).to_numpy()


# ---- in a process of its own -----------------------------------------------------------------------------------------


def time_routes(vocabulary: Vocabulary, path: Path, rounds: int) -> dict[str, Any]:
    """Compare all contestants with the reference, and time those that give its ids."""
    import numbatok

    column = pq.read_table(path)["text"]
    routes = {name: make(vocabulary) for name, make in ROUTES.items() if version(name)}
    ids, sizes = flat(routes[REFERENCE](column))
    calls: dict[str, Callable[[], Any]] = {}
    verdicts = {name: "not installed" for name in ROUTES if name not in routes}
    for name, run in routes.items():
        found = flat(run(column))
        if np.array_equal(found[0], ids) and np.array_equal(found[1], sizes):
            calls[name] = lambda run=run: run(column)  # type: ignore[misc]
        else:
            verdicts[name] = OTHER_IDS
    enc = numbatok.get_encoding(vocabulary.name)
    if not np.array_equal(enc.count_arrow(column).to_numpy(), sizes):
        raise SystemExit("count_arrow gives other numbers: nothing is timed")
    one = pa.array(["".join(column.to_pylist())], pa.large_string())
    calls |= {COUNT: lambda: enc.count_arrow(column), ONE: lambda: enc.encode_arrow(one)}
    calls[ONE]()
    facts = {"rows": len(column), "bytes": one.nbytes - 16, "ids": len(ids)}
    return {"column": facts, "verdicts": verdicts, "seconds": interleave(calls, rounds)}


def measure_memory(vocabulary: Vocabulary, path: Path, contestant: str) -> dict[str, Any]:
    """Give the bytes that one call takes beyond those that were there before it, its result included.

    A tenth of the column goes before: threads are started, and kernels are loaded.
    """
    column = pq.read_table(path)["text"]
    run = ROUTES[contestant](vocabulary)
    run(column[: len(column) // 10])
    before = memory("VmRSS")
    resettable = reset_peak()
    result = run(column)
    peak = memory("VmHWM") - before if resettable else 0
    return {"peak": peak, "before": before, "rows": len(result)}


def answer() -> None:
    """Do the job that stands on stdin."""
    keep_to_cores()
    answers = private_output()
    job = json.loads(sys.stdin.readline())
    vocabulary, path = Vocabulary.parse(job["vocabulary"]), Path(job["path"])
    if job["contestant"]:
        told = measure_memory(vocabulary, path, job["contestant"])
    else:
        told = time_routes(vocabulary, path, job["rounds"])
    answers.write(json.dumps(told))
    answers.flush()


# ---- the whole -------------------------------------------------------------------------------------------------------


def ask(threads: int, **job: Any) -> dict[str, Any]:
    """Start a process with so many threads, and give its answer."""
    command = [sys.executable, "-c", "from bench.arrow import answer; answer()"]
    told = subprocess.run(
        command, cwd=ROOT, env=variables(threads), input=json.dumps(job), capture_output=True, text=True, check=False
    )
    if told.returncode:
        raise SystemExit(told.stderr)
    answered: dict[str, Any] = json.loads(told.stdout)
    return answered


def figures(told: dict[str, Any], memories: dict[str, dict[str, int]]) -> dict[str, Any]:
    """Give the ratios of one column and one number of threads."""
    peaks = {name: found["peak"] for name, found in memories.items()}
    seconds, ours = told["seconds"], peaks[OURS]
    peers = [name for name in ROUTES if name in seconds and name != OURS]
    speeds = {name: told["column"]["bytes"] / 1e6 / float(np.median(rounds)) for name, rounds in seconds.items()}
    return {
        "times the time of encode_arrow": {name: ratio(seconds, name, OURS)._asdict() for name in peers},
        "time of encode_arrow, times that of": {name: ratio(seconds, OURS, name)._asdict() for name in (COUNT, ONE)},
        "times the memory of encode_arrow": {name: peaks[name] / ours for name in peers if ours},
        "peak bytes of the call": peaks,
        "bytes of the process before it": {name: found["before"] for name, found in memories.items()},
        "median MB/s": speeds,
        "not timed": told["verdicts"],
    }


def show(name: str, threads: int, found: dict[str, Any]) -> None:
    """Print the figures of one column and one number of threads."""
    print(f"{name}, {threads} threads")
    for what, values in found.items():
        print(f"  {what}")
        for key, value in values.items():
            median = value["median"] if isinstance(value, dict) else value
            print(f"    {key:32s} {median if isinstance(median, str) else round(median, 3):>14}")


def main() -> None:
    """Measure everything, print it, and write the results."""
    parser = argparse.ArgumentParser(prog="python -m bench.arrow", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("corpus", type=Path, help="a text file, best a mixed one of some 30 MB")
    parser.add_argument("--encoding", default="gpt2", help="default: %(default)s")
    parser.add_argument("--threads", default=f"1,{cores()}", help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=7, help="default: %(default)s")
    parser.add_argument("--bytes", type=int, help="use this much of the corpus; default: all")
    parser.add_argument("--tiny", type=int, default=1_000_000, help="number of tiny strings; default: %(default)s")
    parser.add_argument("--out", type=Path, default=RESULTS / "arrow.json", help="default: %(default)s")
    options = parser.parse_args()
    corpus = options.corpus.read_bytes()[: options.bytes]
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        vocabulary = embedded(options.encoding, folder)
        for column, path in write_columns(corpus, options.tiny, folder).items():
            results[column] = {}
            for threads in sorted({int(text) for text in options.threads.split(",")}):
                job = {"vocabulary": vocabulary.dump(), "path": str(path), "rounds": options.rounds}
                told = ask(threads, **job, contestant=None)
                timed = [route for route in ROUTES if route in told["seconds"]]
                memories = {route: ask(threads, **job, contestant=route) for route in timed}
                found = figures(told, memories)
                show(column, threads, found)
                results[column] |= {"column": told["column"], f"{threads} threads": found}
    packages = [route for route in ROUTES if version(route) and route not in PACKAGES]
    told = {"environment": environment((*PACKAGES, "pyarrow", *packages)), "encoding": options.encoding}
    told |= {"rounds": options.rounds, "corpus": {"bytes": len(corpus), "sha256": hashlib.sha256(corpus).hexdigest()}}
    options.out.write_text(json.dumps(told | results, indent=1) + "\n")
    print("written to", options.out)


if __name__ == "__main__":
    main()
