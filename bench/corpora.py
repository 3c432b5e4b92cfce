"""The texts that are measured: corpora from a folder, else the samples of the tests, and how they are cut.

Invariant: nothing is measured that is not a whole text file: a corpus is named for its file, and its sha256 stands in
the results. ``python -m bench corpora FOLDER`` (fetch.py) makes a folder of corpora.

    >>> sorted(read_corpora(None))[0]
    'fixtures'
"""

from __future__ import annotations

import random
from pathlib import Path

SAMPLES = Path(__file__).parent.parent / "tests" / "data"
CHUNK = 1 << 16
SAMPLE = 1 << 21
"""Bytes of a long corpus that slow peers are given."""
STRING_SIZES = (20, 200, 2_000, 20_000)
TINY, TINY_BYTES = 10_000, 20


def read_corpora(folder: Path | None) -> dict[str, bytes]:
    """Read every text of a folder (``*.txt``, ``*.js``); without a folder, the small samples of the tests.

    Raises:
        ValueError: no such text there; names the command that makes some.

    """
    if folder is None:
        corpora = {path.stem: path.read_bytes() for path in sorted(SAMPLES.glob("*.txt"))}
        fixtures = sorted(path for path in (SAMPLES / "fixtures").iterdir() if path.suffix != ".md")
        return corpora | {"fixtures": b"\n".join(path.read_bytes() for path in fixtures)}
    paths = sorted(path for path in folder.iterdir() if path.suffix in (".txt", ".js")) if folder.is_dir() else []
    if not paths:
        raise ValueError(f"{folder} has no .txt or .js file; make some with: python -m bench corpora {folder}")
    return {path.stem: path.read_bytes() for path in paths}


def mixture(corpora: dict[str, bytes]) -> bytes:
    """Give the text that short strings are drawn from: the mixed corpus, else all there are."""
    mixed = [data for name, data in corpora.items() if name.startswith("mixed")]
    return b"\n".join(mixed or corpora.values())


def cut_whole(data: bytes, size: int) -> bytes:
    """Give the first ``size`` bytes, less what a cut character would take."""
    return data[:size].decode(errors="ignore").encode() if len(data) > size else data


def cut_chunks(data: bytes, size: int = CHUNK) -> list[bytes]:
    """Cut a text into chunks that end behind a newline, the last one at or before ``size`` bytes, or at its end."""
    chunks, at = [], 0
    while at < len(data):
        newline = data.rfind(b"\n", at, at + size)
        end = len(data) if at + size >= len(data) else newline + 1 or at + len(cut_whole(data[at:], size))
        chunks.append(data[at:end])
        at = end
    return chunks


def cut_strings(data: bytes, size: int) -> list[bytes]:
    """Give strings of about ``size`` bytes from evenly spaced places, some 200 KB of them and 2,000 at most."""
    number = max(10, min(2_000, 200_000 // size))
    step = max(1, (len(data) - size) // number)
    parts = [data[at : at + size].decode(errors="ignore").encode() for at in range(0, step * number, step)]
    return [part for part in parts if part]


def cut_tiny(data: bytes) -> list[bytes]:
    """Give TINY strings of up to TINY_BYTES bytes from random places."""
    draw = random.Random(len(data))
    places = [(draw.randrange(len(data)), draw.randint(1, TINY_BYTES)) for _ in range(TINY)]
    return [data[at : at + size].decode(errors="ignore").encode() for at, size in places]
