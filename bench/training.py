"""Training a vocabulary: numbatok beside the trainers that can be installed, time and peak memory.

Each figure comes from a process of its own that imports one library, makes its input ready, and trains once: the time
is that of the call, whatever is loaded or compiled in it included; memory is the peak of the call above what was there
before it. Trainers that read files get the file; the others get its documents as a list of str, cut at places where the
pieces are those of the whole. numbatok runs as both, and line by line, which is how gigabpe reads a file.
Invariant: the merges of all are compared. Those of tokenizers, gigabpe and gigatoken have to be the ones of
compat="huggingface", those of rustbpe the ones of the default rule; what differs is marked.

    python -m pip install tokenizers rustbpe bpeasy gigabpe gigatoken
    python -m bench.training mixed-32m.txt multilingual-15m.txt          # some fifteen minutes
    python -m bench.training mixed-32m.txt --vocab-size 2000 --rounds 1 --out try.json      # a try
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import metadata, util
from pathlib import Path
from typing import Any, NamedTuple

from bench.fresh import memory, reset_peak
from bench.processes import ROOT
from bench.processes import environment as variables

DOCUMENT_BYTES = 1 << 16
GROWTH = (8_000_000, 32_000_000)
"""Bytes of the two prefixes whose times are compared."""
PATIENCE = 20
"""Seconds after which a slow trainer has no more rounds."""
LIMIT = 600
OURS = "numbatok"
NO_PATTERN = "has no such pattern"
Tokens = list[bytes]


class Task(NamedTuple):
    """What a process trains: files made by the parent, so that it imports nothing of numbatok but for numbatok."""

    path: str
    edges: list[int]
    pattern: str
    text: str
    huggingface: str
    size: int

    def documents(self) -> list[str]:
        """Give the documents of the file."""
        data = Path(self.path).read_bytes()
        return [data[at:end].decode() for at, end in zip(self.edges, self.edges[1:], strict=False)]

    def lines(self) -> list[str]:
        """Give the lines of the file, each with its end."""
        return [f"{line}\n" for line in Path(self.path).read_bytes().decode().split("\n")]


Prepared = tuple[Callable[[], Any], Callable[[Any], Tokens]]
"""A call that trains, and the way from what it gives to the tokens that merging makes, in their order."""


# ---- the trainers ----------------------------------------------------------------------------------------------------


def numbatok_trainer(task: Task, compat: str | None, source: Any) -> Prepared:
    """The package itself."""
    from numbatok import train

    def run() -> Any:
        return train(source, task.size, pattern=task.pattern, compat=compat, progress=False)  # type: ignore

    def tokens(enc: Any) -> Tokens:
        return [enc.decode_single_token_bytes(token) for token in range(256, enc.n_vocab)]

    return run, tokens


def tokenizers_trainer(task: Task) -> Prepared:
    """BpeTrainer with a byte-level pre-tokenizer and its whole alphabet."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    document = json.loads(Tokenizer(models.BPE()).to_str())
    document["pre_tokenizer"] = json.loads(task.huggingface)
    tokenizer, documents = Tokenizer.from_str(json.dumps(document)), task.documents()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=task.size, initial_alphabet=alphabet, show_progress=False)

    def run() -> Any:
        tokenizer.train_from_iterator(documents, trainer)
        return tokenizer

    return run, lambda made: spelled(["".join(pair) for pair in json.loads(made.to_str())["model"]["merges"]])


def spelled(tokens: list[str]) -> Tokens:
    """Give the bytes of tokens in the byte alphabet."""
    from numbatok.alphabet import to_bytes

    return [to_bytes(token) or b"" for token in tokens]


def gigabpe_trainer(task: Task) -> Prepared:
    """It reads files, each line of which is a text, and has GPT-2's split only."""
    import gigabpe

    if task.pattern != "gpt2":
        raise ValueError(NO_PATTERN)
    run = lambda: gigabpe.train_bpe([task.path], task.size, pretokenizer="bytelevel")  # noqa: E731
    return run, lambda made: spelled(["".join(pair) for pair in made[1]])


def gigatoken_trainer(task: Task) -> Prepared:
    """It reads files, and has GPT-2's split only."""
    import gigatoken

    if task.pattern != "gpt2":
        raise ValueError(NO_PATTERN)
    run = lambda: gigatoken.train_bpe(gigatoken.TextFileSource([task.path]), task.size, [])  # noqa: E731
    return run, lambda made: [left + right for left, right in made[1]]


def rustbpe_trainer(task: Task) -> Prepared:
    """It takes an iterator of str, and any pattern."""
    import rustbpe

    made, documents = rustbpe.Tokenizer(), task.documents()

    def run() -> Any:
        made.train_from_iterator(iter(documents), task.size, pattern=task.text)
        return made

    return run, lambda made: [bytes(token) for token, rank in made.get_mergeable_ranks() if rank >= 256]


def bpeasy_trainer(task: Task) -> Prepared:
    """It takes an iterator of str, and any pattern; a token may be as long as the longest that we make."""
    import bpeasy

    documents = task.documents()
    run = lambda: bpeasy.train_bpe(iter(documents), task.text, 1 << 20, task.size)  # noqa: E731
    return run, lambda made: [token for token, rank in sorted(made.items(), key=lambda item: item[1]) if rank >= 256]


OURS_IN_ALL_WAYS = tuple(f"{OURS}{how}" for how in ("", ", list", ", huggingface", ", huggingface, lines"))
FILE, LIST, COMPAT, LINES = OURS_IN_ALL_WAYS
"""numbatok from a file, from a list of documents, with compat="huggingface", and so from a list of lines."""
TRAINERS: dict[str, Callable[[Task], Prepared]] = {
    FILE: lambda task: numbatok_trainer(task, None, Path(task.path)),
    LIST: lambda task: numbatok_trainer(task, None, task.documents()),
    COMPAT: lambda task: numbatok_trainer(task, "huggingface", Path(task.path)),
    LINES: lambda task: numbatok_trainer(task, "huggingface", task.lines()),
    "gigabpe": gigabpe_trainer,
    "gigatoken": gigatoken_trainer,
    "rustbpe": rustbpe_trainer,
    "bpeasy": bpeasy_trainer,
    "tokenizers": tokenizers_trainer,
}
RULE = {COMPAT: "tokenizers", "tokenizers": COMPAT, "gigatoken": COMPAT, LINES: "gigabpe", "gigabpe": LINES}
"""Whose merges are to be those of another contestant than numbatok with its default rule."""


def one(name: str, task: Task) -> dict[str, Any]:
    """Train in this process; gives seconds, bytes, and the number and a digest of the tokens."""
    try:
        run, tokens_of = TRAINERS[name](task)
    except ValueError as error:
        return {"error": str(error)}
    before, resettable = memory("VmRSS"), reset_peak()
    start = time.perf_counter()
    made = run()
    seconds = time.perf_counter() - start
    peak = memory("VmHWM") - before if resettable else 0
    tokens = tokens_of(made)
    compared = tokens[: task.size - 256]  # gigabpe leaves out bytes that are not in the text, and merges more
    digest = hashlib.sha256(json.dumps([token.hex() for token in compared]).encode()).hexdigest()
    return {"seconds": seconds, "peak": peak, "before": before, "merges": len(tokens), "digest": digest}


# ---- the comparison --------------------------------------------------------------------------------------------------


def make_task(path: Path, pattern: str, size: int) -> Task:
    """Cut a file into documents, and spell the pattern as each library reads it."""
    import numpy as np

    from numbatok.bpe import address
    from numbatok.export import _pre_tokenizer
    from numbatok.pattern_names import PATTERNS
    from numbatok.split.cuts import find_cut

    data = np.frombuffer(path.read_bytes(), np.uint8)
    edges = [0]
    while edges[-1] < len(data):
        least = min(edges[-1] + DOCUMENT_BYTES, len(data))
        edges.append(len(data) if least == len(data) else int(find_cut(address(data), least, len(data))))
    text = PATTERNS[pattern][0]
    return Task(str(path), edges, pattern, text, json.dumps(_pre_tokenizer(text)), size)


def ask(name: str, task: Task, threads: int) -> dict[str, Any]:
    """Train in a new process."""
    command = [sys.executable, "-m", "bench.training", "--one", name]
    given = json.dumps(task._asdict()).encode()
    try:
        done = subprocess.run(
            command, input=given, cwd=ROOT, env=variables(threads), capture_output=True, timeout=LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return {"error": f"more than {LIMIT} s"}
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return {"error": done.stderr.decode(errors="replace").strip().splitlines()[-1:]}
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer


def compare(task: Task, names: list[str], rounds: int, threads: int) -> list[dict[str, Any]]:
    """Train in turns; gives a row for each contestant."""
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            past = sum(run.get("seconds", PATIENCE) for run in runs[name])
            if past < PATIENCE:
                runs[name].append(ask(name, task, threads))
    return [row(name, runs) for name in names]


def row(name: str, runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Sum up the rounds of one contestant."""
    made = [run for run in runs[name] if "seconds" in run]
    if not made:
        return {"trainer": name, "error": runs[name][0]["error"]}
    model = [run for run in runs.get(RULE.get(name, FILE), []) if "seconds" in run]
    seconds = [run["seconds"] for run in made]
    return {
        "trainer": name,
        "seconds": statistics.median(seconds),
        "least": min(seconds),
        "greatest": max(seconds),
        "peak MiB": statistics.median(run["peak"] for run in made) / (1 << 20),
        "merges": made[0]["merges"],
        "merges as": RULE.get(name, FILE) if model else None,
        "same merges": all(run["digest"] == model[0]["digest"] for run in made) if model else None,
        "rounds": len(made),
    }


def growth(path: Path, size: int, rounds: int, threads: int) -> dict[str, Any]:
    """Time prefixes of a file, in processes that have trained before: what grows is the work alone."""
    data = path.read_bytes()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in (FILE, "gigabpe"):
            for number in GROWTH:
                part = Path(folder) / f"{number}.txt"
                part.write_bytes(data[:number].decode(errors="ignore").encode())
                runs = [ask(name, make_task(part, "gpt2", size), threads) for _ in range(rounds)]
                seconds = [run["seconds"] for run in runs if "seconds" in run]
                found[f"{name}, {number} bytes"] = statistics.median(seconds) if seconds else None
    return found


def table(results: dict[str, Any]) -> str:
    """Give the results as a table of Markdown: seconds and MiB of each trainer."""
    sections = {name: made["trainers"] for name, made in results.items() if "trainers" in made}
    lines = [f"| s / MiB | {' | '.join(sections)} |", "|---|" + "---:|" * len(sections)]
    for name in TRAINERS:
        found = [next((one for one in rows if one["trainer"] == name), {}) for rows in sections.values()]
        if any("seconds" in one for one in found):
            cells = [f"{one['seconds']:.2f} / {one['peak MiB']:.0f}" if "seconds" in one else "-" for one in found]
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def installed(name: str) -> bool:
    """Tell whether the library of a contestant is there."""
    return util.find_spec(name.split(",")[0]) is not None


def main() -> None:
    """Compare the trainers, print a table, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", type=Path, nargs="*")
    parser.add_argument("--vocab-size", type=int, default=32768)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--patterns", nargs="+", default=["gpt2", "cl100k"])
    parser.add_argument("--only", nargs="+", choices=[*TRAINERS], default=[*TRAINERS])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", choices=[*TRAINERS], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print("\n" + json.dumps(one(options.one, Task(**json.load(sys.stdin)))))
        return
    measure(options)


def measure(options: argparse.Namespace) -> None:
    """Run everything that was asked for."""
    from bench.harness import PACKAGES, RESULTS, environment, write_section

    out = options.out or RESULTS / "training.json"
    names = [name for name in options.only if installed(name)]
    for name in set(options.only) - set(names):
        print(f"{name} is not installed")
    libraries = {name.split(",")[0] for name in names} - {OURS}
    warm = make_task(Path(__file__), options.patterns[0], 300)
    ask(FILE, warm, options.threads)  # the kernels are on disk from here on
    facts = environment(sorted({*PACKAGES, *libraries} & {one.metadata["Name"] for one in metadata.distributions()}))
    settings = {"vocab_size": options.vocab_size, "threads": options.threads, "load average": os.getloadavg()[0]}
    write_section(out, "environment", {**facts, **settings})
    for path in options.corpora:
        for pattern in options.patterns:
            task = make_task(path.resolve(), pattern, options.vocab_size)
            rows = compare(task, names, options.rounds, options.threads)
            write_section(out, f"{path.stem}, {pattern}", {"bytes": task.edges[-1], "trainers": rows})
            for made in rows:
                print(f"{path.stem}, {pattern}:", json.dumps(made))
    first = options.corpora[0].resolve()
    grown = growth(first, options.vocab_size, options.rounds, options.threads)
    write_section(out, f"growth, {first.stem}", grown)
    print(json.dumps(grown), table(json.loads(out.read_text())), sep="\n")


if __name__ == "__main__":
    main()
