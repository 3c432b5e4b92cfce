"""What is encoded, on disk: the texts of one case in one file, and the ids that the reference gives them in another.

Invariant: a measuring process reads texts and ids from these files alone, so all processes of a run see the same ones.

    >>> case = save_case(Path("/tmp"), "two", [b"a b", b"c"])  # doctest: +SKIP
    >>> load_texts(case, "str")  # doctest: +SKIP
    ['a b', 'c']
"""

from __future__ import annotations

import hashlib
import itertools
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Case(NamedTuple):
    """The texts of one case.

    Attributes:
        name: what tables call it.
        path: the file of the texts; the ids of an encoding stand beside it.
        size: bytes of all texts together.
        texts: their number.
        sha256: of the texts, one after the other.

    """

    name: str
    path: Path
    size: int
    texts: int
    sha256: str

    def dump(self) -> dict[str, Any]:
        """Give what the results say about it."""
        return {"bytes": self.size, "texts": self.texts, "sha256": self.sha256}

    def ids_path(self, encoding: str) -> Path:
        """Give the file of the ids."""
        return self.path.with_suffix(f".{encoding}.npy")


def save_case(folder: Path, name: str, texts: list[bytes]) -> Case:
    """Write the texts of a case."""
    folder.mkdir(parents=True, exist_ok=True)
    data = b"".join(texts)
    offsets = np.concatenate(([0], np.cumsum([len(text) for text in texts], dtype=np.int64)))
    digest = hashlib.sha256(data).hexdigest()
    path = folder / f"{digest[:16]}-{len(texts)}.npz"
    np.savez(path, data=np.frombuffer(data, np.uint8), offsets=offsets)
    return Case(name, path, len(data), len(texts), digest)


def load_texts(path: Path, form: str) -> list[Any]:
    """Read the texts, as ``bytes`` or ``str``."""
    with np.load(path) as file:
        data, offsets = file["data"].tobytes(), file["offsets"].tolist()
    texts = [data[start:end] for start, end in itertools.pairwise(offsets)]
    return texts if form == "bytes" else [text.decode() for text in texts]
