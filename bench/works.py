"""The works of a record: what is encoded, by which operation, on how many threads.

Invariant: a work is a list of contests; nothing here measures. What a work needs beside the
corpora (chunks, short strings) is cut from them, so the same corpora give the same work.

    WORKS["chunks"](record, corpora)  ->  [Contest(threads=(1, 2), entries=[...]), ...]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bench.cases import Case
from bench.child import Entry
from bench.corpora import STRING_SIZES, cut_chunks, cut_strings, cut_tiny, mixture
from bench.peers import PEERS
from bench.record import Contest, Record

Corpora = dict[str, bytes]


def entries(record: Record, op: str, *cases: Case | None, forms: int = 2) -> list[Entry]:
    """Give an entry for each peer, each of its first ``forms`` forms of text (0: ``str`` alone), and each case."""
    return [
        Entry(name, form, op, str(case.path))
        for case in cases
        if case
        for name in record.installed
        for form in (PEERS[name].forms[:forms] or ("str",))
    ]


def whole(record: Record, corpora: Corpora) -> Iterator[Contest]:
    """One text in one call: to an array, to a list, to its number of ids, and back; and on all threads at once."""
    for name, data in corpora.items():
        case = record.sampled_case(name, [data])
        for op in ("array", "list", "count"):
            yield Contest((1,), entries(record, op, case))
        yield Contest((1,), entries(record, "decode", case, forms=1))
        if record.settings.threads[1:]:
            yield Contest(record.settings.threads[-1:], entries(record, "arrays", case, forms=1))


def chunks(record: Record, corpora: Corpora) -> Iterator[Contest]:
    """Chunks of 64 KiB that end with a line, in one call, from one thread to all."""
    for name, data in corpora.items():
        case = record.sampled_case(f"{name}, chunks", cut_chunks(data))
        for op in ("arrays", "lists"):
            yield Contest(record.settings.threads, entries(record, op, case))


def strings(record: Record, corpora: Corpora) -> Iterator[Contest]:
    """Single strings, one call for each."""
    for size in STRING_SIZES:
        case = record.case(f"strings of {size:,} bytes", cut_strings(mixture(corpora), size))
        for op in ("list", "array"):
            yield Contest((1,), entries(record, op, case, forms=0))


def tiny(record: Record, corpora: Corpora) -> Iterator[Contest]:
    """A batch of very short strings in one call."""
    case = record.case("10,000 tiny strings", cut_tiny(mixture(corpora)))
    for op in ("lists", "arrays"):
        yield Contest(record.settings.threads, entries(record, op, case, forms=0))


WORKS: dict[str, Callable[[Record, Corpora], Iterator[Contest]]] = {
    "whole": whole,
    "chunks": chunks,
    "strings": strings,
    "tiny": tiny,
}
