"""One measuring process: it loads peers, compares their ids, and runs rounds, as lines of JSON on its stdin tell it.

Invariant: :meth:`Stand.round` times only what :meth:`Stand.add` has run in this process and found equal to the
reference. What a call makes is thrown away after the clock has stopped, and no garbage collector runs.

    {"do": "trial", "entry": {"peer": "tiktoken", "form": "str", "op": "list", "case": ".../1f3a-1.npz"}}
    {"verdict": "same", "seconds": 0.12}
"""

from __future__ import annotations

import functools
import gc
import json
import os
import sys
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.cases import load_texts
from bench.peers import PEERS, Peer, Unsupported
from bench.vocabulary import Vocabulary

SAME, DIFFERS, ERROR, UNSUPPORTED = "same", "differs", "error", "unsupported"
NOTHING = "has no operation"
CORES_VARIABLE = "NUMBATOK_BENCH_CORES"


LONG = 0.25
"""Seconds of a call from which on it does not matter that another contestant has just filled the processor's caches."""
TICK = 0.02
"""Seconds that a shorter call is repeated for in each round."""


class Entry(NamedTuple):
    """One contestant: a peer, the form of text it is given, the operation, and the file of the case."""

    peer: str
    form: str
    op: str
    case: str


def flat(result: Any) -> np.ndarray:
    """Give the ids of a result in one array, whatever nests them."""
    if isinstance(result, np.ndarray):
        return result
    if result and isinstance(result[0], np.ndarray):
        return np.concatenate(result)
    if result and isinstance(result[0], int):
        return np.array(result, np.int64)
    return np.fromiter(chain.from_iterable(result), np.int64)


def difference(op: str, result: Any, ids: np.ndarray, text: bytes) -> str:
    """Tell how a result differs from that of the reference; empty if it is the same."""
    if op == "decode":
        decoded = result[0].encode() if isinstance(result[0], str) else bytes(result[0])
        return "" if decoded == text else f"{len(decoded)} bytes for {len(text)}, or other ones"
    if op == "count":
        return "" if sum(result) == len(ids) else f"counts {sum(result)} ids for {len(ids)}"
    found = flat(result)
    if np.array_equal(found, ids):
        return ""
    shared = min(len(found), len(ids))
    unequal = np.flatnonzero(found[:shared] != ids[:shared])
    first = int(unequal[0]) if len(unequal) else shared
    return f"{len(found)} ids for {len(ids)}, the first other one at {first}"


def offered(peer: Peer, op: str) -> str:
    """Give the operation that a peer is asked for: ``best`` and ``bests`` are an array, else a list.

    Raises:
        Unsupported: it does not have it.

    """
    for name in {"best": ("array", "list"), "bests": ("arrays", "lists")}.get(op, (op,)):
        if getattr(peer, name) is not None:
            return name
    raise Unsupported(f"{NOTHING} {op}")


def runner(peer: Peer, op: str, texts: list[Any], ids: Any) -> Callable[[], Any]:
    """Give the call that is timed."""
    call = getattr(peer, op)
    if op in ("arrays", "lists"):
        return lambda: call(texts)
    inputs = [ids] if op == "decode" else texts
    return lambda: [call(value) for value in inputs]


class Run(NamedTuple):
    """A call and the seconds that it took."""

    call: Callable[[], Any]
    seconds: float


def mean_time(run: Callable[[], Any], times: int) -> float:
    """Give the seconds of one run, without those of throwing the result away."""
    total = 0.0
    for _ in range(times):
        start = time.perf_counter()
        result = run()
        total += time.perf_counter() - start
        del result
    return total / times


class Stand:
    """The peers and cases of this process."""

    def __init__(self, vocabulary: Vocabulary, peers: dict[str, type[Peer]] = PEERS) -> None:
        self.vocabulary = vocabulary
        self.classes = peers
        self.loaded: dict[str, Peer] = {}
        self.runs: list[Run] = []
        self.texts = functools.lru_cache(maxsize=8)(lambda case, form: load_texts(Path(case), form))
        self.ids = functools.lru_cache(maxsize=2)(self._ids)

    def _ids(self, case: str, form: str) -> Any:
        path = Path(case).with_suffix(f".{self.vocabulary.name}.npy")
        ids = np.load(path)
        return ids if form == "array" else ids.tolist()

    def peer(self, name: str) -> Peer:
        """Give a peer, loaded once."""
        if name not in self.loaded:
            self.loaded[name] = self.classes[name](self.vocabulary)
        return self.loaded[name]

    def start(self, entry: Entry) -> Callable[[], Any]:
        """Give the call of an entry."""
        peer = self.peer(entry.peer)
        ids = self.ids(entry.case, peer.ids_form) if entry.op == "decode" else None
        return runner(peer, offered(peer, entry.op), self.texts(entry.case, entry.form), ids)

    def refer(self, entry: Entry) -> dict[str, Any]:
        """Let the reference encode a case, and keep its ids."""
        ids = flat(self.start(entry)()).astype(np.uint32)
        np.save(Path(entry.case).with_suffix(f".{self.vocabulary.name}.npy"), ids)
        return {"verdict": SAME, "ids": len(ids)}

    def trial(self, entry: Entry) -> dict[str, Any]:
        """Run an entry once and compare it with the reference."""
        run = self.start(entry)
        start = time.perf_counter()
        result = run()
        seconds = time.perf_counter() - start
        text = b"".join(self.texts(entry.case, "bytes")) if entry.op == "decode" else b""
        detail = difference(entry.op, result, self.ids(entry.case, "array"), text)
        told = {"verdict": DIFFERS if detail else SAME, "detail": detail, "seconds": seconds}
        return told | {"op": offered(self.peer(entry.peer), entry.op)}

    def add(self, entry: Entry) -> dict[str, Any]:
        """Add an entry to the rounds, if it is the same: it runs twice before, warm from then on."""
        verdict = self.trial(entry)
        if verdict["verdict"] == SAME:
            run = self.start(entry)
            self.runs.append(Run(run, mean_time(run, 1)))
        return verdict

    def clear(self) -> dict[str, Any]:
        """Begin with no entry in the rounds."""
        self.runs = []
        gc.collect()
        return {}

    def round(self) -> dict[str, Any]:
        """Time each entry, in turn: short ones after a run that is not timed, and so often that a clock can tell."""
        seconds = []
        for run, expected in self.runs:
            if expected < LONG:
                run()
            seconds.append(mean_time(run, max(1, int(TICK / expected))))
        return {"seconds": seconds}

    def obey(self, message: dict[str, Any]) -> dict[str, Any]:
        """Do what a message says; an error of a peer is an answer, a panic of compiled code too."""
        try:
            if "entry" in message:
                action = {"refer": self.refer, "trial": self.trial, "add": self.add}[message["do"]]
                return action(Entry(**message["entry"]))
            return {"clear": self.clear, "round": self.round}[message["do"]]()
        except Unsupported as error:
            return {"verdict": UNSUPPORTED, "detail": str(error)}
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            return {"verdict": ERROR, "detail": f"{type(error).__name__}: {error}"[:200]}


def keep_to_cores() -> None:
    """Keep to as many cores as CORES_VARIABLE says, where the system can do that; libraries see no more of them."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(os.environ[CORES_VARIABLE])])


def private_output() -> Any:
    """Give a stream to the parent that no print of a library can reach: its stdout becomes our stderr."""
    stream = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return stream


def main() -> None:
    """Answer every line until stdin ends; the first line is the vocabulary."""
    keep_to_cores()
    answers = private_output()
    stand = Stand(Vocabulary.parse(json.loads(sys.stdin.readline())))
    gc.disable()
    for line in sys.stdin:
        answers.write(json.dumps(stand.obey(json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
