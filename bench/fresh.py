"""A fresh process with one peer: how long it takes to load, the first pass over a text, and the memory of that pass.

Invariant: nothing of the peer, and no numbatok, is imported before the clock runs; the ids are compared when it has
stopped. Told by one line of JSON on stdin; answers with one line.

    {"vocabulary": {...}, "entry": {"peer": "gigatoken", "form": "bytes", "op": "arrays", "case": "..."}, "tiny": true}
    {"import": 0.03, "load": 0.1, "tiny": 0.2, "first": 0.31, "verdict": "same", "extra_peak": 123456, ...}
"""

from __future__ import annotations

import importlib
import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.cases import load_texts
from bench.child import DIFFERS, SAME, Entry, difference, keep_to_cores, offered, private_output, runner
from bench.peers import PEERS
from bench.vocabulary import Vocabulary

TINY = "hello"
KIB = 1024


def memory(field: str) -> int:
    """Give a field of the process's status in bytes (``VmRSS``, ``VmHWM``); 0 where the system does not tell."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0
    values = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return int(values[field].split()[0]) * KIB


def reset_peak() -> bool:
    """Let the peak of memory start anew; tells whether the system can do that."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def measure(vocabulary: Vocabulary, entry: Entry, tiny: bool) -> dict[str, Any]:
    """Load a peer, make a tiny call if it is wanted, and time its first pass over the texts of a case."""
    texts = load_texts(Path(entry.case), entry.form)
    ids = np.load(Path(entry.case).with_suffix(f".{vocabulary.name}.npy"))
    clock = [time.perf_counter()]
    importlib.import_module(PEERS[entry.peer].module)
    clock.append(time.perf_counter())
    peer = PEERS[entry.peer](vocabulary)
    clock.append(time.perf_counter())
    op = offered(peer, entry.op)
    if tiny:
        runner(peer, op, [TINY.encode() if entry.form == "bytes" else TINY], None)()
    clock.append(time.perf_counter())
    run = runner(peer, op, texts, None)
    before, resettable = memory("VmRSS"), reset_peak()
    start = time.perf_counter()
    result = run()
    first = time.perf_counter() - start
    peak = memory("VmHWM") - before if resettable else 0
    detail = difference(op, result, ids, b"")
    steps = [later - earlier for earlier, later in itertools.pairwise(clock)]
    return {
        "verdict": DIFFERS if detail else SAME,
        "detail": detail,
        **dict(zip(("import", "load", "tiny"), steps, strict=True)),
        "first": first,
        "resident": before,
        "extra_peak": peak,
    }


if __name__ == "__main__":
    keep_to_cores()
    answers = private_output()
    job = json.loads(sys.stdin.readline())
    told = measure(Vocabulary.parse(job["vocabulary"]), Entry(**job["entry"]), job["tiny"])
    answers.write(json.dumps(told) + "\n")
    answers.flush()
