r"""Files of text and of ids, for the command line: mapped, never decoded, written under their name only when complete.

Invariant: reading gives the bytes that are in the file, or an error that names it; nothing is guessed and nothing is
held in memory that the system can map. Ids are written and read in parts of any size with the same result.

    >>> parse_ids(b"31373, 995\n", "ids.txt").tolist()
    [31373, 995]
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy_format

from numbatok.ids import LARGEST
from numbatok.ragged import Ids
from numbatok.vocabulary import Vocabulary

Bytes = npt.NDArray[np.uint8]
Write = Callable[[BinaryIO, Iterable[Ids], Vocabulary], int]

PART_IDS = 1 << 22
"""Ids of an array that are handed on at a time."""
BLOCK_BYTES = 1 << 22
"""Text with ids that is read at a time."""
IDS_AS_TEXT = 1 << 16
"""Ids that become text at a time: few enough to stay in the processor's cache."""
SEPARATORS = (b" ", b",", b"\n", b"\r", b"\t", b"\v", b"\f")


def standard(name: str) -> BinaryIO:
    """Give "stdin" or "stdout" for bytes; OSError if whoever started the program closed it."""
    stream = getattr(sys, name)
    if stream is None:
        raise OSError(f"{name} is closed")
    return cast(BinaryIO, stream.buffer)


def shown(name: str) -> str:
    """Give a file name as a line of text can hold it."""
    return "stdin" if name == "-" else as_text(name)


def as_text(name: str) -> str:
    r"""Give a file name as text: bytes of it that are not UTF-8 become replacement characters.

    >>> as_text("caf\udce9.bpe") == "caf\N{REPLACEMENT CHARACTER}.bpe"
    True
    """
    return os.fsencode(name).decode(errors="replace")


def default_name(file: str) -> str:
    """Give the name of what a file holds: the name of the file without folder and ending, as text.

    >>> default_name("folder/my.bpe")
    'my'
    """
    return as_text(Path(file).stem)


# ---- bytes -----------------------------------------------------------------------------------------------------------


def read_bytes(name: str) -> Bytes:
    """Give the bytes of a file, mapped into memory where the system can do that and else read; "-" is stdin."""
    if name == "-":
        return np.frombuffer(standard("stdin").read(), np.uint8)
    with open(name, "rb") as file:
        if plain_size(name):
            return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
        return np.frombuffer(file.read(), np.uint8)  # empty, a device, a pipe, or a file that the system makes up


def plain_size(name: str) -> int:
    """Give the size of a regular file, 0 for anything else."""
    with contextlib.suppress(OSError):
        found = os.stat(name)
        return found.st_size if stat.S_ISREG(found.st_mode) else 0
    return 0


@contextlib.contextmanager
def new_file(name: str | None) -> Iterator[BinaryIO]:
    """Open a file for writing that takes its name when it is complete: it may replace the input. None is stdout."""
    if name is None:
        yield standard("stdout")
        return
    target = os.path.realpath(name)
    if os.path.exists(target) and not os.path.isfile(target):  # a device or a pipe is written as it is
        with open(target, "wb") as file:
            yield file
        return
    draft = _draft_of(target, name)
    try:
        with draft:
            with contextlib.suppress(FileNotFoundError):  # then it keeps the mode of any new file
                shutil.copymode(target, draft.name)
            yield draft
        os.replace(draft.name, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(draft.name)
        if isinstance(error, OSError) and error.filename == draft.name:
            error.filename = name
        raise


def _draft_of(target: str, name: str) -> BinaryIO:
    """Make the file that will become the target, in its folder; an error tells the name that the user gave.

    No other thread or process has it: "x" follows no link and takes no file that is there. Its mode is that of any new
    file, which tempfile would not give.
    """
    try:
        return open(os.path.join(os.path.dirname(target), f".{os.urandom(8).hex()}.part"), "xb")
    except OSError as error:
        error.filename = name
        raise


def check_target(name: str) -> None:
    """Raise the OSError that :func:`new_file` would raise, when long work is still to be done."""
    target = os.path.realpath(name)
    with contextlib.suppress(FileNotFoundError):
        kind = os.stat(name).st_mode  # raises for a name that is too long
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        if not stat.S_ISREG(kind):
            return
    with _draft_of(target, name) as draft:
        pass
    os.unlink(draft.name)


# ---- ids to a file: each gives the number of ids that it wrote -------------------------------------------------------


def write_text(out: BinaryIO, parts: Iterable[Ids], enc: Vocabulary) -> int:
    """Write ids in decimal, a space between them and a newline at the end."""
    words = np.array([f" {token}" for token in range(enc.n_vocab)], "S")  # of one width, filled up with NULs
    count = 0
    for ids in parts:
        for start in range(0, len(ids), IDS_AS_TEXT):
            text = words[ids[start : start + IDS_AS_TEXT]].tobytes().translate(None, b"\0")
            out.write(text if count or start else text[1:])
        count += len(ids)
    out.write(b"\n")
    return count


def write_npy(out: BinaryIO, parts: Iterable[Ids], enc: Vocabulary) -> int:
    """Write a NumPy file of one uint32 array; its header is written again once the number of ids is known."""
    _write_header(out, 0)
    count = 0
    for ids in parts:
        out.write(ids.astype("<u4", copy=False).data)
        count += len(ids)
    out.seek(0)
    _write_header(out, count)
    return count


def _write_header(out: BinaryIO, count: int) -> None:
    # NumPy pads a header so that it keeps its size whatever the length of the array.
    npy_format.write_array_header_1_0(out, {"descr": "<u4", "fortran_order": False, "shape": (count,)})


def write_bin(out: BinaryIO, parts: Iterable[Ids], enc: Vocabulary) -> int:
    """Write bare ids of :func:`bin_type`."""
    count = 0
    for ids in parts:
        out.write(ids.astype(bin_type(enc)).data)
        count += len(ids)
    return count


def bin_type(enc: Vocabulary) -> np.dtype[Any]:
    """Give the type of ids in a .bin file: little-endian, uint16 where the largest id fits, else uint32."""
    return np.dtype("<u2" if enc.max_token_value <= 0xFFFF else "<u4")


WRITERS: dict[str, Write] = {".npy": write_npy, ".bin": write_bin}


def ending(name: str) -> str:
    """Give the ending of a file name with its dot, in small letters."""
    return os.path.splitext(name)[1].lower()


# ---- ids from a file -------------------------------------------------------------------------------------------------


def read_ids(name: str, enc: Vocabulary) -> Iterator[npt.NDArray[Any]]:
    """Give the ids of a file in parts: .npy, .bin as :func:`write_bin` makes it, anything else as text.

    Raises:
        ValueError: the file does not hold ids.

    """
    if ending(name) not in WRITERS:
        yield from _read_text(name)
        return
    ids = _load_npy(name) if ending(name) == ".npy" else _load_bin(name, enc)
    yield from (ids[start : start + PART_IDS] for start in range(0, len(ids), PART_IDS))


def _load_npy(name: str) -> npt.NDArray[Any]:
    try:
        ids = np.load(name, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError):
        raise ValueError(f"{shown(name)}: not a NumPy file of ids; name it .txt if the ids are text") from None
    if not isinstance(ids, np.ndarray) or ids.ndim != 1 or ids.dtype.kind not in "iu":
        found = f"{ids.dtype} of shape {ids.shape}" if isinstance(ids, np.ndarray) else "several arrays"
        raise ValueError(f"{shown(name)}: holds {found}; give a one-dimensional array of integers")
    return ids


def _load_bin(name: str, enc: Vocabulary) -> npt.NDArray[Any]:
    data, kind = read_bytes(name), bin_type(enc)
    if len(data) % kind.itemsize:
        raise ValueError(
            f"{shown(name)}: {len(data)} bytes are not whole ids of {enc.name}, which have {kind.itemsize} bytes each; "
            "name the encoding that the file was made with"
        )
    return data.view(kind)


def _read_text(name: str) -> Iterator[npt.NDArray[Any]]:
    with contextlib.ExitStack() as opened:
        file = standard("stdin") if name == "-" else opened.enter_context(open(name, "rb"))
        rest = b""
        while block := file.read(BLOCK_BYTES):
            rest += block
            whole = 1 + max(map(rest.rfind, SEPARATORS))  # the last number may go on in the next block
            yield parse_ids(rest[:whole], name)
            rest = rest[whole:]
        yield parse_ids(rest, name)


def parse_ids(text: bytes, name: str) -> Ids:
    """Give the ids of a text: whole numbers with whitespace or commas between.

    Raises:
        ValueError: something else is in it, or a number above 32 bits; ``name`` is the file to tell.

    """
    text = text.replace(b",", b" ").strip()
    if strange := text.translate(None, b"0123456789" + b"".join(SEPARATORS)):
        at = text.index(strange[:1])
        start = len(text[:at].rstrip(b"0123456789"))
        word = text[start : at + 20].split()[0].decode(errors="backslashreplace")
        raise ValueError(f"{shown(name)}: {word!r} is not an id; give whole numbers with whitespace or commas between")
    if not text:
        return np.empty(0, np.uint32)
    ids = np.fromstring(text, np.uint64, sep=" ")  # what 64 bits cannot hold becomes the largest number
    if ids.max() > LARGEST:
        word = text.split()[int(ids.argmax())][:40].decode()
        raise ValueError(f"{shown(name)}: {word} is no id: ids are 0 to {LARGEST}")
    return ids.astype(np.uint32)
