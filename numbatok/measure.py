"""A quick measurement on a text of the user: numbatok beside the tokenizers that are installed, with the same ranks.

Invariant: ids are compared before anything is timed, and what gives other ids is not timed. Contestants take turns, so
that what disturbs the machine disturbs all. The full benchmark, with many more of them, is bench/ in the sources.

    >>> import numbatok
    >>> [line.name for line in measure(numbatok.get_encoding("gpt2"), "hello world", rounds=1, threads=1)][0]
    'numbatok'
"""

from __future__ import annotations

import base64
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from numbatok.encoding import Encoding

Rounds = dict[str, list[float]]
Operations = dict[str, Callable[[], Any]]

COLUMNS = ("array", "list", "decode")
"""Text to a NumPy array, text to a list, ids to bytes."""
OTHER = "gives other ids, or other text: not timed"
SCHEMES = {"cl100k_base": "cl100k", "o200k_base": "o200k", "o200k_harmony": "o200k"}
"""What gigatoken calls the splits; the others are GPT-2's."""


class Line(NamedTuple):
    """What was measured of one contestant.

    Attributes:
        name: its name.
        speeds: column -> MB/s of each round; empty if it was not timed.
        note: why it was not.

    """

    name: str
    speeds: dict[str, list[float]]
    note: str = ""


def interleave(
    contestants: Mapping[str, Callable[[], Any]], rounds: int = 9, before: Mapping[str, Callable[[], Any]] | None = None
) -> Rounds:
    """Time each contestant once a round, in turn; ``before`` runs untimed ahead of its contestant.

    Throwing away what a contestant made is not timed. Gives the seconds of each round, by name.

    >>> [len(seconds) for seconds in interleave({"a": list, "b": dict}, rounds=3).values()]
    [3, 3]
    """
    seconds: Rounds = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            if before and name in before:
                before[name]()
            start = time.perf_counter()
            made = run()
            seconds[name].append(time.perf_counter() - start)
            del made
    return seconds


@contextmanager
def _rank_file(enc: Encoding) -> Iterator[str]:
    """Write the ranks to a file in tiktoken's format, for peers that read one."""
    ranks = sorted(enc._mergeable_ranks.items(), key=lambda item: item[1])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{enc.name}.tiktoken")
        path.write_bytes(b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks))
        yield str(path)


def _tiktoken(enc: Encoding, text: str, ids: list[int]) -> Operations:
    arguments = {"mergeable_ranks": enc._mergeable_ranks, "special_tokens": enc._special_tokens}
    peer = import_module("tiktoken").Encoding(enc.name, pat_str=enc._pat_str, **arguments)
    return {
        "array": lambda: peer.encode_to_numpy(text, disallowed_special=()),
        "list": lambda: peer.encode_ordinary(text),
        "decode": lambda: peer.decode_bytes(ids),
    }


def _gigatoken(enc: Encoding, text: str, ids: list[int]) -> Operations:
    with _rank_file(enc) as path:
        load = import_module("gigatoken").Tokenizer.from_tiktoken
        peer = load(path, SCHEMES.get(enc.name, "gpt2"), enc._special_tokens)
    array = np.array(ids, np.uint32)
    return {
        "array": lambda: peer.encode(text),
        "list": lambda: peer.encode(text).tolist(),
        "decode": lambda: peer.decode(array),
    }


def _fastokens(enc: Encoding, text: str, ids: list[int]) -> Operations:
    preset = {"encoding": enc.name} if enc.name in ("cl100k_base", "o200k_base") else {"pattern": enc._pat_str}
    with _rank_file(enc) as path:
        load = import_module("fastokens").Tokenizer.from_tiktoken
        peer = load(path, special_tokens=enc._special_tokens, **preset)
    return {
        "array": lambda: np.frombuffer(peer.encode_batch_flat([text])[0], np.uint32),
        "list": lambda: peer.encode(text).ids,
        "decode": lambda: peer.decode(ids),
    }


PEERS: dict[str, Callable[[Encoding, str, list[int]], Operations]] = {
    "tiktoken": _tiktoken,
    "gigatoken": _gigatoken,
    "fastokens": _fastokens,
}
"""Distribution -> its operations on a text and its ids."""


def _own(enc: Encoding, text: str, array: Any, threads: int | None) -> dict[str, Operations]:
    lanes = f"numbatok, {threads} threads" if threads else "numbatok, all threads"
    own: Operations = {
        "array": lambda: enc.encode_flat(text),
        "list": lambda: enc.encode_ordinary(text),
        "decode": lambda: enc.decode_bytes(array),
    }
    return {"numbatok": own, lanes: {"array": lambda: enc.encode_batch_flat([text], threads=threads).tokens}}


def _same(operations: Operations, ids: list[int], text: str) -> bool:
    """Tell whether each operation gives what it should; runs it once, warm from then on."""
    for column, run in operations.items():
        made = run()
        if column == "decode":
            same = (made if isinstance(made, str) else made.decode()) == text
        else:
            same = np.array_equal(made, ids)
        if not same:
            return False
    return True


def measure(enc: Encoding, text: str, *, rounds: int = 7, threads: int | None = None) -> list[Line]:
    """Time numbatok and the peers that are installed on a text.

    Args:
        enc: one of the embedded encodings.
        text: the text; special tokens in it are ordinary text.
        rounds: how often each operation is timed.
        threads: for the line of several threads; all cores if left out.

    """
    array = enc.encode_flat(text)
    ids = array.tolist()
    contestants, lines = _own(enc, text, array, threads), dict[str, Line]()
    for name, make in PEERS.items():
        try:
            metadata.version(name)
            contestants[name] = make(enc, text, ids)
        except metadata.PackageNotFoundError:
            lines[name] = Line(name, {}, "not installed")
        except Exception as error:
            lines[name] = Line(name, {}, f"does not load this encoding: {error}")
    for name, operations in contestants.items():
        lines[name] = Line(name, {}, "" if _same(operations, ids, text) else OTHER)
    megabytes = len(text.encode()) / 1e6
    for column in COLUMNS:
        runs = {name: runs[column] for name, runs in contestants.items() if column in runs and not lines[name].note}
        # Each call comes right behind one of its own, so that nobody's tables are pushed out of the processor's caches.
        for name, seconds in interleave(runs, rounds, before=runs).items():
            lines[name].speeds[column] = [megabytes / one for one in seconds]
    return [lines[name] for name in (*contestants, *(name for name in lines if name not in contestants))]


def table(lines: list[Line]) -> str:
    """Lay lines out: MB/s, the median of the rounds with the least and the greatest in brackets.

    >>> print(table([Line("one", {"array": [1.0, 3.0, 2.0]}), Line("two", {}, "not installed")]))
    MB/s                                 array                 list               decode
    one                          2.0 (1.0-3.0)
    two                    not installed
    """
    rows = [f"{'MB/s':21}" + "".join(f"{column:>21}" for column in COLUMNS)]
    for line in lines:
        speeds = (f"{statistics.median(told):.1f} ({min(told):.1f}-{max(told):.1f})" for told in line.speeds.values())
        rows.append(f"{line.name:21}" + (f"  {line.note}" if line.note else "".join(f"{cell:>21}" for cell in speeds)))
    return "\n".join(rows)
