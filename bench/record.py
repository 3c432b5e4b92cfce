"""One run over one encoding: every entry is tried alone, then the equal ones are timed against each other, in turn.

Invariant: a peer is timed on a text only after its ids were found equal to those of the reference, in the very process
that times it. One that differs, fails, crashes or hangs is a verdict in the results, and the run goes on without it.

    record = Record(vocabulary, settings)
    rows = record.measure([Contest((1, 2), [Entry("numbatok", "bytes", "arrays", case.path)])])
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.cases import Case, save_case
from bench.child import NOTHING, SAME, UNSUPPORTED, Entry
from bench.corpora import SAMPLE, cut_chunks, cut_whole
from bench.peers import PEERS, installed_version
from bench.processes import START_LIMIT, Child, Lost
from bench.vocabulary import Vocabulary

REFERENCE_LIMIT = 300.0
LOST = "lost"


class Settings(NamedTuple):
    """How to measure.

    Attributes:
        folder: where texts, ids and vocabularies are kept.
        peers: the peers to take, of those that are installed.
        threads: the numbers of threads, the first one 1.
        rounds: how often each entry is timed.
        limit: seconds after which a call counts as hung.
        slow: seconds above which a call is not repeated on the whole text, but on a sample of it.

    """

    folder: Path
    peers: tuple[str, ...]
    threads: tuple[int, ...]
    rounds: int = 7
    limit: float = 20.0
    slow: float = 1.5


class Contest(NamedTuple):
    """Entries that are timed in the same rounds, in one process for each number of threads."""

    threads: tuple[int, ...]
    entries: list[Entry]


class Record:
    """The state of a run: the cases with their ids, the verdicts, and the processes that are alive.

    Attributes:
        cases: name -> case.
        samples: path of a long case -> the case that slow peers are given in its place.
        verdicts: what was not the same: peer, verdict and detail, with form, operation and case where it is about one.
        installed: the peers that are there.

    """

    def __init__(self, vocabulary: Vocabulary, settings: Settings) -> None:
        self.vocabulary, self.settings = vocabulary, settings
        self.cases: dict[str, Case] = {}
        self.samples: dict[str, Case] = {}
        self.verdicts: list[dict[str, Any]] = []
        self.settled: dict[Entry, Entry | None] = {}
        self.trials: dict[Entry, dict[str, Any]] = {}
        self.children: dict[str, Child] = {}
        self.installed = [name for name in settings.peers if installed_version(PEERS[name])]

    def ask(self, name: str, threads: int, message: dict[str, Any], limit: float) -> dict[str, Any]:
        """Ask the process of a name, started now if it is not alive; a lost one is an answer."""
        if name not in self.children:
            self.children[name] = Child(self.vocabulary, threads)
            limit += START_LIMIT
        try:
            return self.children[name].ask(message, limit)
        except Lost as error:
            self.end(name)
            return {"verdict": LOST, "detail": str(error)}

    def end(self, name: str) -> None:
        """End the process of a name, if it is alive."""
        if name in self.children:
            self.children.pop(name).close()

    def end_all(self) -> None:
        """End all processes."""
        for name in list(self.children):
            self.end(name)

    # ---- cases -------------------------------------------------------------------------------------------------------

    def case(self, name: str, texts: list[bytes]) -> Case | None:
        """Write a case and let the reference encode it; None if the reference cannot."""
        case = save_case(self.settings.folder / "cases", name, texts)
        if not case.ids_path(self.vocabulary.name).exists():
            reference = "tiktoken" if self.vocabulary.ranks else "tokenizers"
            entry = Entry(reference, "str", "list", str(case.path))
            answer = self.ask("reference", 1, {"do": "refer", "entry": entry._asdict()}, REFERENCE_LIMIT)
            if answer["verdict"] != SAME:
                say(f"{name}: no ids from the reference: {answer['detail']}")
                return None
        self.cases[name] = case
        return case

    def sampled_case(self, name: str, texts: list[bytes]) -> Case | None:
        """Write a case, and for a long one a sample for slow peers."""
        case = self.case(name, texts)
        if case and case.size > 2 * SAMPLE:
            start = cut_whole(b"".join(texts), SAMPLE)
            sample = self.case(f"{name}, first 2 MiB", cut_chunks(start) if len(texts) > 1 else [start])
            if sample:
                self.samples[str(case.path)] = sample
        return case

    def ids(self, case: Case) -> int:
        """Give the number of ids of a case."""
        return len(np.load(case.ids_path(self.vocabulary.name), mmap_mode="r"))

    # ---- trials ------------------------------------------------------------------------------------------------------

    def trial(self, entry: Entry) -> dict[str, Any]:
        """Run an entry once in the process of its peer."""
        if entry not in self.trials:
            message = {"do": "trial", "entry": entry._asdict()}
            self.trials[entry] = self.ask(entry.peer, 1, message, self.settings.limit)
        return self.trials[entry]

    def settle(self, entry: Entry) -> Entry | None:
        """Give what is timed for an entry: itself, the same on the sample if it is slow, or None with a verdict."""
        sample = self.samples.get(entry.case)
        small = entry._replace(case=str(sample.path)) if sample else entry
        answer = self.trial(small)
        if answer["verdict"] == SAME and sample:
            growth = self.case_of(entry).size / sample.size
            if answer["seconds"] * growth > self.settings.slow:
                return small
            answer = self.trial(entry)
        if answer["verdict"] == SAME:
            return entry
        self.refuse(entry, answer)
        return None

    def refuse(self, entry: Entry, answer: dict[str, Any]) -> None:
        """Keep a verdict; one line for what a peer does not have at all."""
        if answer["detail"].startswith(NOTHING):
            return
        verdict = {"peer": entry.peer, "verdict": answer["verdict"], "detail": answer["detail"]}
        if answer["verdict"] != UNSUPPORTED:
            verdict |= {"form": entry.form, "op": entry.op, "case": self.case_of(entry).name}
        if verdict not in self.verdicts:
            self.verdicts.append(verdict)
            say(f"  {verdict}")

    def case_of(self, entry: Entry) -> Case:
        """Give the case of an entry."""
        return next(case for case in self.cases.values() if str(case.path) == entry.case)

    def settle_all(self, contests: Iterable[Contest]) -> None:
        """Settle every entry, a peer at a time, so that one process is alive."""
        entries = {entry for contest in contests for entry in contest.entries} - self.settled.keys()
        for name in self.installed:
            mine = [entry for entry in entries if entry.peer == name]
            if mine:
                say(f"{self.vocabulary.name}: trying {name} on {len(mine)} entries")
            for entry in sorted(mine, key=lambda entry: (self.case_of(entry).size, entry)):
                self.settled[entry] = self.settle(entry)
            self.end(name)

    # ---- rounds ------------------------------------------------------------------------------------------------------

    def measure(self, contests: list[Contest]) -> list[dict[str, Any]]:
        """Settle all entries, then hold the contests one after the other; gives a row for each entry and threads."""
        self.end("reference")
        self.settle_all(contests)
        rows = [row for contest in contests for row in self.hold(contest)]
        self.end_all()
        return rows

    def hold(self, contest: Contest) -> list[dict[str, Any]]:
        """Time the entries of a contest."""
        if contest.entries:
            say(f"{self.vocabulary.name}: timing {self.case_of(contest.entries[0]).name}, {contest.entries[0].op}")
        settled = [(entry, self.settled[entry]) for entry in contest.entries]
        pairs = [(entry, timed) for entry, timed in settled if timed is not None]
        once = [pair for pair in pairs if self.trials[pair[1]]["seconds"] > self.settings.slow]
        rows = [self.row(*pair, 1, [self.trials[pair[1]]["seconds"]]) | {"once": True} for pair in once]
        timed = [pair for pair in pairs if pair not in once]
        lanes = {threads: self.fill(threads, timed) for threads in contest.threads}
        seconds: dict[int, list[list[float]]] = {threads: [] for threads in lanes}
        for _ in range(self.settings.rounds):
            for threads, ready in lanes.items():
                limit = self.settings.limit * max(1, len(ready))
                answer = self.ask(f"lane {threads}", threads, {"do": "round"}, limit)
                seconds[threads].append(answer.get("seconds", []))
        for threads, ready in lanes.items():
            rounds = [one for one in seconds[threads] if len(one) == len(ready)]  # fewer: the process was lost
            if rounds:
                columns = zip(ready, zip(*rounds, strict=True), strict=True)
                rows += [self.row(*pair, threads, list(times)) for pair, times in columns]
        return rows

    def fill(self, threads: int, pairs: list[tuple[Entry, Entry]]) -> list[tuple[Entry, Entry]]:
        """Make the process of a number of threads ready for the rounds; gives the entries that it takes."""
        lane = f"lane {threads}"
        self.ask(lane, threads, {"do": "clear"}, START_LIMIT)
        ready: list[tuple[Entry, Entry]] = []
        for pair in pairs:
            answer = self.ask(lane, threads, {"do": "add", "entry": pair[1]._asdict()}, 3 * self.settings.limit)
            if answer["verdict"] == SAME:
                ready.append(pair)
                continue
            if threads > 1:
                answer["detail"] += f", on {threads} threads"
            self.refuse(pair[1], answer)
            if answer["verdict"] == LOST:
                return self.fill(threads, [other for other in pairs if other != pair])
        return ready

    def row(self, entry: Entry, timed: Entry, threads: int, seconds: list[float]) -> dict[str, Any]:
        """Give the result of one entry."""
        case = self.case_of(timed)
        return {
            "case": self.case_of(entry).name,
            "op": self.trials[timed]["op"],
            "threads": threads,
            "peer": entry.peer,
            "form": entry.form,
            "bytes": case.size,
            "texts": case.texts,
            "ids": self.ids(case),
            "seconds": seconds,
        }


def say(text: str) -> None:
    """Tell the user what goes on."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
