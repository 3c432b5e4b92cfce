"""Loading each encoding in a new process, time and memory, against tiktoken with a warm cache folder.

Each figure comes from a process of its own that imports one library, gets one encoding and encodes two words; the
processes of the two libraries take turns. Time is that of ``get_encoding``, and of the first ids, without the import;
memory is the peak of the process without that of a process that only imports the library. tiktoken finds the published
files in its cache folder; they are rebuilt from the embedded tables, and tiktoken checks their hashes.

BPE1 files are read in one process, in turns with tiktoken's own loading of the same encoding; ids are compared first.

    python bench/loading.py
    python bench/loading.py files
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROUNDS = 7
FILE_ROUNDS = 21
NAMES = ("gpt2", "r50k_base", "p50k_base", "p50k_edit", "cl100k_base", "o200k_base", "o200k_harmony")
LIBRARIES = ("numbatok", "tiktoken")
TEXT = "hello world"
ADDRESS = "https://openaipublic.blob.core.windows.net/"
RANK_FILES = ("r50k_base", "p50k_base", "cl100k_base", "o200k_base")
MEBIBYTE = 1 << 20


# ---- in processes of their own ---------------------------------------------------------------------------------------


def peak() -> int:
    """Give the highest number of bytes that this process has had in memory."""
    try:  # what getrusage gives may be the peak of the parent: Linux keeps it through the start of a program
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def load_one(library: str, name: str) -> dict[str, Any]:
    """Load one encoding ("" for none); gives seconds, peaks in bytes, and ids to compare."""
    module = __import__(library)
    found: dict[str, Any] = {"import": peak()}
    if name:
        start = time.perf_counter()
        enc = module.get_encoding(name)
        found["load_seconds"] = time.perf_counter() - start
        found["load"] = peak()
        found["ids"] = enc.encode(TEXT)
        found["first_ids_seconds"] = time.perf_counter() - start
        found["first_ids"] = peak()
    return found


def make_cache(folder: Path) -> None:
    """Write the published files under the names that tiktoken looks for."""
    import numbatok
    from numbatok.alphabet import to_text

    def place(path: str) -> Path:
        return folder / hashlib.sha1(f"{ADDRESS}{path}".encode()).hexdigest()

    for name in RANK_FILES:
        enc = numbatok.get_encoding(name)
        numbatok.load.dump_tiktoken_bpe(enc._mergeable_ranks, place(f"encodings/{name}.tiktoken"))
    enc = numbatok.get_encoding("gpt2")
    texts = {rank: to_text(token) for token, rank in enc._mergeable_ranks.items()}
    ids = {text: rank for rank, text in texts.items()} | enc._special_tokens
    merges = enc._model.merges
    pairs = zip(merges.lefts.tolist(), merges.rights.tolist(), strict=True)
    lines = ["#version: 0.2", *(f"{texts[left]} {texts[right]}" for left, right in pairs), ""]
    place("gpt-2/encodings/main/encoder.json").write_text(json.dumps(ids))
    place("gpt-2/encodings/main/vocab.bpe").write_text("\n".join(lines), "utf-8", newline="")


# ---- the comparison --------------------------------------------------------------------------------------------------


def run(cache: Path, *arguments: str) -> Any:
    """Run this file in a new process; gives what it reports."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["TIKTOKEN_CACHE_DIR"] = str(cache)
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def measure(cache: Path, name: str) -> dict[str, dict[str, float]]:
    """Give seconds and MiB of both libraries for one encoding, medians of the rounds."""
    rounds: dict[str, list[dict[str, Any]]] = {library: [] for library in LIBRARIES}
    bare: dict[str, list[int]] = {library: [] for library in LIBRARIES}
    for _ in range(ROUNDS):
        for library in LIBRARIES:
            rounds[library].append(run(cache, library, name))
            bare[library].append(run(cache, library, "")["import"])
    if len({tuple(one["ids"]) for runs in rounds.values() for one in runs}) != 1:
        raise SystemExit(f"{name}: the ids differ, so nothing is reported")
    figures = {}
    for library, runs in rounds.items():
        base = statistics.median(bare[library])
        figures[library] = {
            "load, s": statistics.median(one["load_seconds"] for one in runs),
            "load, s, least": min(one["load_seconds"] for one in runs),
            "load, s, greatest": max(one["load_seconds"] for one in runs),
            "load and first ids, s": statistics.median(one["first_ids_seconds"] for one in runs),
            "load, MiB": (statistics.median(one["load"] for one in runs) - base) / MEBIBYTE,
            "load and first ids, MiB": (statistics.median(one["first_ids"] for one in runs) - base) / MEBIBYTE,
            "import, MiB": base / MEBIBYTE,
        }
    return {library: {name: round(value, 4) for name, value in row.items()} for library, row in figures.items()}


def load_files(cache: Path) -> dict[str, dict[str, Any]]:
    """Give seconds for GPT-2's BPE1 files and for tiktoken, whose r50k_base has the same ranks in one rank file."""
    import tiktoken
    import tiktoken.registry

    import numbatok

    enc = numbatok.get_encoding("gpt2")
    paths = {version: cache / f"version-{version}.bpe" for version in (1, 2)}
    for version, path in paths.items():
        enc.save(path, version=version)
    given = {"pat_str": enc._pat_str, "special_tokens": enc._special_tokens}

    def of_tiktoken(name: str) -> Any:
        tiktoken.registry.ENCODINGS.clear()
        return tiktoken.get_encoding(name)

    loaders = {
        "BPE1 version 1": lambda: numbatok.Encoding.load(paths[1], **given),
        "BPE1 version 2": lambda: numbatok.Encoding.load(paths[2]),
        "embedded": lambda: numbatok.bpe.load_embedded("r50k_base", enc._special_tokens, enc._model.split),
        "tiktoken": lambda: of_tiktoken("gpt2"),
        "tiktoken, r50k": lambda: of_tiktoken("r50k_base"),
    }
    if any(loaders[name]().encode(TEXT) != enc.encode(TEXT) for name in loaders if name != "embedded"):
        raise SystemExit("the ids differ, so nothing is reported")
    seconds: dict[str, list[float]] = {name: [] for name in loaders}
    for _ in range(FILE_ROUNDS):
        for name, loader in loaders.items():
            start = time.perf_counter()
            loader()
            seconds[name].append(time.perf_counter() - start)
    rows = {}
    for name, times in seconds.items():
        ratios = [theirs / ours for ours, theirs in zip(times, seconds["tiktoken"], strict=True)]
        figures = {"s": statistics.median(times), "s, least": min(times), "s, greatest": max(times)}
        figures |= {"times tiktoken": statistics.median(ratios), "times tiktoken, least": min(ratios)}
        rows[name] = {key: round(value, 4) for key, value in figures.items()}
    return rows


def main_files() -> None:
    """Measure BPE1 files, print a table, and write bench/results/loading-files.json."""
    from harness import RESULTS, save

    started = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        run(Path(name), "make")
        os.environ["TIKTOKEN_CACHE_DIR"] = name
        rows = load_files(Path(name))
    for name, row in rows.items():
        print(f"{name:15s}", "  ".join(f"{key} {value:.3g}" for key, value in row.items()))
    load_average = {"before": round(started, 2), "after": round(os.getloadavg()[0], 2)}
    path = save("loading-files", {"rounds": FILE_ROUNDS, "load average": load_average, "gpt2": rows})
    print("written to", path.relative_to(RESULTS.parent.parent))


def main() -> None:
    """Measure all encodings, print a table, and write bench/results/loading.json."""
    from harness import RESULTS, save  # here, since it imports numbatok, which the processes of tiktoken must not have

    started = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        cache = Path(name)
        run(cache, "make")
        for library in LIBRARIES:  # kernels and bytecode are on disk from here on
            for encoding in NAMES:
                run(cache, library, encoding)
        figures = {encoding: measure(cache, encoding) for encoding in NAMES}
    for encoding, libraries in figures.items():
        for library, row in libraries.items():
            print(f"{encoding:14s} {library:9s}", "  ".join(f"{key} {value:.3g}" for key, value in row.items()))
    load_average = {"before": round(started, 2), "after": round(os.getloadavg()[0], 2)}
    path = save("loading", {"rounds": ROUNDS, "load average": load_average, "encodings": figures})
    print("written to", path.relative_to(RESULTS.parent.parent))


if __name__ == "__main__":
    if sys.argv[1:] == ["make"]:
        make_cache(Path(os.environ["TIKTOKEN_CACHE_DIR"]))
        print("null")
    elif sys.argv[1:] == ["files"]:
        main_files()
    elif len(sys.argv) == 3:
        print(json.dumps(load_one(*sys.argv[1:])))
    else:
        main()
