"""Measuring processes as objects: started with a number of threads, asked by lines of JSON, given up when they hang.

Invariant: what a peer does to its process harms no other one: a crash and a call that does not end are answers here.
A process has as many cores as it may use threads, so no library can use more, whatever it thinks it is.

    >>> with Child(vocabulary, threads=1) as child:  # doctest: +SKIP
    ...     child.ask({"do": "round"}, limit=10)
    {'seconds': []}
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.child import CORES_VARIABLE
from bench.vocabulary import Vocabulary

ROOT = Path(__file__).parent.parent
START_LIMIT = 60
THREAD_VARIABLES = ("RAYON_NUM_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Lost(Exception):
    """A process crashed or did not answer in time."""


def environment(threads: int, **more: str) -> dict[str, str]:
    """Give the variables of a process with so many threads, and without network for those who would use it."""
    told = dict.fromkeys((*THREAD_VARIABLES, CORES_VARIABLE), str(threads))
    told |= {"TOKENIZERS_PARALLELISM": "true", "HF_HUB_OFFLINE": "1"}
    return dict(os.environ) | told | more


class Child:
    """One process of child.py."""

    def __init__(self, vocabulary: Vocabulary, threads: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bench.child"],
            cwd=ROOT,
            env=environment(threads),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.selector = selectors.DefaultSelector()
        assert self.process.stdout is not None
        self.selector.register(self.process.stdout, selectors.EVENT_READ)
        self.send(vocabulary.dump())

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, message: dict[str, Any]) -> None:
        """Write one line.

        Raises:
            Lost: the process is gone.

        """
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            raise Lost(self.end()) from None

    def ask(self, message: dict[str, Any], limit: float) -> dict[str, Any]:
        """Write one line and read the answer.

        Raises:
            Lost: the process crashed, or gave no answer within ``limit`` seconds and was ended.

        """
        self.send(message)
        if not self.selector.select(limit):
            self.close()
            raise Lost(f"more than {limit:.0f} s")
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise Lost(self.end())
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> str:
        """Wait for a process that is ending, and tell how it ended."""
        code = self.process.wait(START_LIMIT)
        self.close()
        return f"crashed with {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"

    def close(self) -> None:
        """End the process."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.selector.close()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None and not stream.closed:
                try:
                    stream.close()
                except OSError:  # what was not written yet has nobody to read it
                    continue
