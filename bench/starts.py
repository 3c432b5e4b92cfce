"""What only a fresh process can tell: the first pass over text not seen before, loading, compiling, and peak memory.

Invariant: each figure comes from a process of its own, and the processes of all peers take turns.

    first_passes(record, corpora)  ->  [{"peer": "gigatoken", "tiny": True, "seconds": [...], "load": [...], ...}, ...]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from typing import Any

from bench.child import SAME, Entry
from bench.corpora import cut_chunks
from bench.fresh import TINY
from bench.processes import ROOT, START_LIMIT, environment
from bench.record import LOST, Contest, Record
from bench.works import Corpora, entries

FRESH = ("mixed", "multilingual")
COMPILES = 3
"""Rounds with nothing compiled: they take much longer than the others."""
COMPILED = "numbatok, nothing compiled"
MEASURES = ("import", "load", "tiny", "resident", "extra_peak")


def fresh(record: Record, entry: Entry, tiny: bool, threads: int, **variables: str) -> dict[str, Any]:
    """Measure an entry in a fresh process."""
    job = {"vocabulary": record.vocabulary.dump(), "entry": entry._asdict(), "tiny": tiny}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "bench.fresh"],
            input=json.dumps(job).encode(),
            capture_output=True,
            cwd=ROOT,
            env=environment(threads, **variables),
            timeout=START_LIMIT + 3 * record.settings.limit,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").splitlines() or [f"ended with status {error.returncode}"]
        return {"verdict": LOST, "detail": lines[-1][:200]}
    except subprocess.TimeoutExpired as error:
        return {"verdict": LOST, "detail": f"more than {error.timeout:.0f} s"}
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def rounds_of(record: Record, jobs: Iterable[tuple[Entry, Entry, bool, int]]) -> list[dict[str, Any]]:
    """Measure jobs (entry, what is timed for it, tiny call first, threads) round by round; a refused one is dropped."""
    answers: dict[tuple[Entry, Entry, bool, int], list[dict[str, Any]]] = {job: [] for job in jobs}
    for _ in range(record.settings.rounds):
        for job in list(answers):
            answer = fresh(record, *job[1:])
            if answer["verdict"] == SAME:
                answers[job].append(answer)
            else:
                record.refuse(job[0], answer)
                del answers[job]
    return [
        fresh_row(record, entry, timed, threads, told) | {"after_tiny_call": tiny}
        for (entry, timed, tiny, threads), told in answers.items()
    ]


def fresh_row(record: Record, entry: Entry, timed: Entry, threads: int, told: list[dict[str, Any]]) -> dict[str, Any]:
    """Give the result of one entry."""
    row = record.row(entry, timed, threads, [one["first"] for one in told])
    return row | {name: [one[name] for one in told] for name in MEASURES}


def first_passes(record: Record, corpora: Corpora) -> list[dict[str, Any]]:
    """Let each peer meet the mixed and the multilingual corpus for the first time, in chunks of 64 KiB.

    One thread: as the first call of a process, and after a tiny call, so that what is made at the first call is told
    apart. All threads: after a tiny call.
    """
    names = [name for name in corpora if name.startswith(FRESH)] or list(corpora)
    cases = [record.sampled_case(f"{name}, chunks", cut_chunks(corpora[name])) for name in names]
    wanted = entries(record, "bests", *cases)
    record.settle_all([Contest((1,), wanted)])
    settled = [(entry, timed) for entry in wanted if (timed := record.settled[entry])]
    protocols = dict.fromkeys(((False, 1), (True, 1), (True, record.settings.threads[-1])))
    return rounds_of(record, [(*pair, *protocol) for protocol in protocols for pair in settled])


def starts(record: Record, _: Corpora) -> list[dict[str, Any]]:
    """Load each peer and encode one word; numbatok also with nothing compiled, and the import of numba alone."""
    case = record.case("one word", [TINY.encode()])
    wanted = entries(record, "best", case, forms=0)
    record.settle_all([Contest((1,), wanted)])
    rows = rounds_of(record, [(entry, timed, False, 1) for entry in wanted if (timed := record.settled[entry])])
    for entry in wanted:
        if entry.peer == "numbatok":
            told = [fresh_cache(record, entry) for _ in range(COMPILES)]
            rows.append(fresh_row(record, entry, entry, 1, told) | {"peer": COMPILED})
    return [*rows, import_alone(record.settings.rounds)]


def fresh_cache(record: Record, entry: Entry) -> dict[str, Any]:
    """Measure an entry in a process that finds nothing compiled."""
    with tempfile.TemporaryDirectory() as folder:
        return fresh(record, entry, False, 1, NUMBA_CACHE_DIR=folder)


def import_alone(rounds: int) -> dict[str, Any]:
    """Time the import of numba."""
    code = "import time; start = time.perf_counter(); import numba; print(time.perf_counter() - start)"
    told = [subprocess.run([sys.executable, "-c", code], capture_output=True, check=True) for _ in range(rounds)]
    return {"peer": "numba alone", "case": "one word", "import": [float(one.stdout) for one in told]}


def warm_up() -> None:
    """Compile what numbatok needs, so that no trial waits for the compiler."""
    subprocess.run([sys.executable, "-m", "numbatok", "warmup"], check=True, cwd=ROOT, env=dict(os.environ))
