"""Hostile texts, each met once: what a tokenizer does with them, not what it remembers of them.

Invariant: no process encodes a text twice. Each turn has other texts of each kind, small and large ones; the peers take
turns on them in one process that is warm but for the text, and the ids are compared when the clock has stopped.

    hostile_rows(record, corpora)  ->  [{"peer": "quicktok", "case": "one letter, 1 MB", "seconds": [...], ...}, ...]
"""

from __future__ import annotations

from typing import Any

from bench.child import SAME, Entry
from bench.hostile import KINDS, hostile
from bench.peers import PEERS
from bench.record import Record, say
from bench.works import Corpora

SIZES = {"1 MB": 1_000_000, "4 MB": 4_000_000}
PROCESS = "hostile texts"


def hostile_rows(record: Record, _: Corpora) -> list[dict[str, Any]]:
    """Measure all kinds of hostile texts."""
    rows = []
    for kind in KINDS:
        say(f"{record.vocabulary.name}: {kind}")
        rows += kind_rows(record, kind)
    record.end_all()
    return rows


def kind_rows(record: Record, kind: str) -> list[dict[str, Any]]:
    """Measure one kind: a row for each peer and size, with the seconds of each turn."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    out: set[tuple[str, str]] = set()
    for turn in range(record.settings.rounds):
        for size, number in SIZES.items():
            case = record.case(f"{kind}, {size}", [hostile(kind, number, turn)])
            if case is None:
                continue
            for name in record.installed:
                if (name, size) not in out:
                    entry = Entry(name, PEERS[name].forms[0], "best", str(case.path))
                    out |= {(name, one) for one in meet(record, entry, size, rows)}
            case.path.unlink()
            case.ids_path(record.vocabulary.name).unlink()
    return list(rows.values())


def meet(record: Record, entry: Entry, size: str, rows: dict[tuple[str, str], dict[str, Any]]) -> set[str]:
    """Let a peer meet a text, and add its time to its row; gives the sizes that it is not given again."""
    message = {"do": "trial", "entry": entry._asdict()}
    answer = record.trials[entry] = record.ask(PROCESS, 1, message, record.settings.limit)
    if answer["verdict"] != SAME:
        record.refuse(entry, answer)
        rows.pop((entry.peer, size), None)
        return {size, list(SIZES)[-1]}
    row = rows.setdefault((entry.peer, size), record.row(entry, entry, 1, []))
    row["seconds"].append(answer["seconds"])
    if answer["seconds"] > record.settings.slow:
        row["once"] = len(row["seconds"]) == 1
        return {size}
    return set()
