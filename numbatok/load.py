r"""Vocabulary files, by tiktoken's names: rank files (``.tiktoken``), and GPT-2's ``vocab.bpe`` with ``encoder.json``.

A rank file has one line a token: its bytes in base64, a blank, its rank. Nothing is ever fetched: the address of a file
is looked up in the folder where tiktoken keeps what it has fetched (``TIKTOKEN_CACHE_DIR``), and else refused.
Invariant: a file gives exactly the tokens that it spells, or an error that names the file and the place of the fault.

    >>> parse_ranks(b"aGk= 7\neW8= 8\n", "tiny.tiktoken")
    {b'hi': 7, b'yo': 8}
"""

from __future__ import annotations

import binascii
import codecs
import functools
import hashlib
import json
import os
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from operator import itemgetter
from typing import Any, NoReturn
from urllib.parse import unquote, urlsplit

from numbatok.alphabet import ORDER, to_bytes, to_text
from numbatok.files import new_file
from numbatok.vocabulary import GPT2_NAMES

FileName = str | os.PathLike[str]
Ranks = dict[bytes, int]

CACHE_VARIABLES = ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR")
LINE = "a token in base64, a blank and its rank"
SHOWN = 60
"""So much of a faulty line is shown."""

_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
_decode = functools.partial(binascii.a2b_base64, strict_mode=True)


# ---- bytes of files --------------------------------------------------------------------------------------------------


def read_file(blobpath: FileName) -> bytes:
    """Give the bytes of a local file, or of the cached copy of an address.

    Raises:
        OSError: there is no such file, or no such copy; says where it would have to be.

    """
    with open(_place(blobpath, checked=False), "rb") as file:
        return file.read()


def read_file_cached(blobpath: FileName, expected_hash: str | None = None) -> bytes:
    """Give the bytes of a local file, or of the cached copy of an address, once their hash was found right.

    A local file is always read itself, never a copy. The cache in the common temporary folder, which others may write
    to, is used only if there is a hash to check.

    Args:
        blobpath: a path, or the address that tiktoken fetched the file from.
        expected_hash: sha256 of the file, in hexadecimal digits; None to take the file as it is.

    Raises:
        OSError: there is no such file, or no such copy; says where it would have to be.
        ValueError: another hash.

    """
    place = _place(blobpath, checked=bool(expected_hash))
    with open(place, "rb") as file:
        data = file.read()
    if expected_hash and not check_hash(data, expected_hash):
        raise ValueError(
            f"{place}: the sha256 of this file is {hashlib.sha256(data).hexdigest()}, and {expected_hash} is expected. "
            "It is cut, changed or another file; replace it"
        )
    return data


def check_hash(data: bytes, expected_hash: str) -> bool:
    """Tell whether data has this sha256.

    >>> check_hash(b"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
    True
    """
    return hashlib.sha256(data).hexdigest() == expected_hash


def _place(blobpath: FileName, checked: bool) -> str:
    """Give the path to read for a path or an address; ``checked`` tells that a hash will be compared."""
    name = os.fspath(blobpath)
    if not isinstance(name, str):
        raise TypeError(f"the name of a file is {type(name).__name__}; give a str or a path")
    if "://" not in name:
        return name
    parts = urlsplit(name)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        path = unquote(parts.path)
        return path.removeprefix("/") if os.name == "nt" else path
    return _cached_copy(name, checked)


def _cached_copy(address: str, checked: bool) -> str:
    named = next((os.environ[name] for name in CACHE_VARIABLES if name in os.environ), None)
    folder = os.path.join(tempfile.gettempdir(), "data-gym-cache") if named is None else named
    key = hashlib.sha1(address.encode(), usedforsecurity=False).hexdigest()
    copy = os.path.join(folder, key)
    if folder and os.path.exists(copy) and (checked or named is not None):
        return copy
    raise FileNotFoundError(
        f"{address} is not on this machine, and nothing is fetched. Fetch it by other means, and pass the path of the "
        f"file; or put it into the folder that {CACHE_VARIABLES[0]} names, as {key}"
    )


# ---- rank files ------------------------------------------------------------------------------------------------------


def load_tiktoken_bpe(tiktoken_bpe_file: FileName, expected_hash: str | None = None) -> Ranks:
    """Read a rank file: token bytes -> rank, in the order of the lines.

    Ranks may have gaps and come in any order; lines may end in CR LF, and blank lines mean nothing.

    Args:
        tiktoken_bpe_file: a path, or the address that tiktoken fetched the file from.
        expected_hash: sha256 of the file, checked if given.

    Raises:
        OSError: the file cannot be read.
        ValueError: another hash, a file without tokens, a line that is not a token in base64 and its rank, a token or
            a rank that comes twice; names the file and the line.

    """
    return parse_ranks(read_file_cached(tiktoken_bpe_file, expected_hash), os.fspath(tiktoken_bpe_file))


def parse_ranks(data: bytes, name: str) -> Ranks:
    """Give the tokens and ranks of the bytes of a rank file; ``name`` is the file to tell in errors.

    Raises:
        ValueError: see :func:`load_tiktoken_bpe`.

    """
    data = data.removeprefix(codecs.BOM_UTF8)  # left by editors
    found = _parse_plain(data) or _parse_lines(data, name)
    if not found:
        raise ValueError(f"{name}: there is no token in this file; expected lines of {LINE}")
    return found


def _parse_plain(data: bytes) -> Ranks | None:
    """Read a file that is all ``token blank rank newline``, in bulk; None for another or a faulty one."""
    lines = data.count(b"\n")
    fields = data.split()
    # With one blank and one line end in turn, no line has more than two fields, so none has less.
    if data.translate(None, _BASE64) != b" \n" * lines or len(fields) != 2 * lines:
        return None
    if not b"".join(fields[1::2]).isdigit():
        return None
    try:
        found = dict(zip(map(_decode, fields[0::2]), map(int, fields[1::2]), strict=True))
    except ValueError:
        return None
    return found if len(found) == len(set(found.values())) == lines else None


def _parse_lines(data: bytes, name: str) -> Ranks:
    """Read a file line by line: slower, takes what else is legal, and finds the line of a fault."""
    found: Ranks = {}
    seen: dict[bytes | int, int] = {}  # a token or a rank -> its line
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        token, rank = _parse_line(line, where)
        for kind, value in (("token", token), ("rank", rank)):
            first = seen.setdefault(value, number)
            if first != number:
                raise ValueError(f"{where}: the {kind} {value!r} comes a second time; it is on line {first} too")
        found[token] = rank
    return found


def _parse_line(line: bytes, where: str) -> tuple[bytes, int]:
    shown = line[:SHOWN].decode(errors="backslashreplace")
    fields = line.split()
    if len(fields) != 2:
        raise ValueError(f"{where}: {shown!r} has {len(fields)} field(s); expected {LINE}")
    if not fields[1].isdigit():
        raise ValueError(f"{where}: the rank in {shown!r} is not a whole number; expected {LINE}")
    try:
        return _decode(fields[0]), int(fields[1])
    except ValueError as error:
        raise ValueError(f"{where}: {shown!r} cannot be read ({error}); expected {LINE}") from None


def dump_tiktoken_bpe(bpe_ranks: Mapping[bytes, int], tiktoken_bpe_file: FileName) -> None:
    """Write a rank file in the order of the ranks; it takes its name only when it is complete.

    The same ranks give the same bytes, whatever their order.

    Raises:
        ValueError: no token, an empty token, a negative rank, or a rank that two tokens have: no file can hold them.
        OSError: the file cannot be written.

    """
    ordered = sorted(bpe_ranks.items(), key=itemgetter(1))
    if not ordered:
        raise ValueError("there is no token to write")
    last = -1
    for token, rank in ordered:
        if not token or rank <= last:
            why = "is empty" if not token else "has a negative rank" if rank < 0 else "has the rank of another token"
            raise ValueError(f"token {token!r} (rank {rank}) {why}; a rank file cannot hold it")
        last = rank
    lines = (b"%b %d\n" % (binascii.b2a_base64(token, newline=False), rank) for token, rank in ordered)
    with new_file(os.fspath(tiktoken_bpe_file)) as file:
        file.write(b"".join(lines))


# ---- GPT-2's two files -----------------------------------------------------------------------------------------------


def data_gym_to_mergeable_bpe_ranks(
    vocab_bpe_file: FileName,
    encoder_json_file: FileName,
    vocab_bpe_hash: str | None = None,
    encoder_json_hash: str | None = None,
    clobber_one_byte_tokens: bool = False,
) -> Ranks:
    """Read GPT-2's two files: token bytes -> rank, without special tokens.

    Args:
        vocab_bpe_file: the merges, one a line, in GPT-2's byte alphabet. Only a first line that starts with
            ``#version`` is a comment; a merge may start with "#" too.
        encoder_json_file: the ids of all tokens; they must be those that the order of the merges gives.
        vocab_bpe_hash: sha256 of the first file, checked if given.
        encoder_json_hash: sha256 of the second file, checked if given.
        clobber_one_byte_tokens: take the ids of single bytes from ``encoder.json``, instead of 0 to 255 in the order
            of the alphabet.

    Raises:
        OSError: a file cannot be read.
        ValueError: another hash, a faulty file, or files that do not agree; names the file and the place.

    """
    return load_gpt2(
        vocab_bpe_file, encoder_json_file, vocab_bpe_hash, encoder_json_hash, clobber=clobber_one_byte_tokens
    )[0]


def load_gpt2(
    vocab_bpe_file: FileName,
    encoder_json_file: FileName,
    vocab_bpe_hash: str | None = None,
    encoder_json_hash: str | None = None,
    *,
    clobber: bool = False,
    specials: Collection[str] = GPT2_NAMES,
) -> tuple[Ranks, dict[str, int]]:
    """Read GPT-2's two files as :func:`data_gym_to_mergeable_bpe_ranks` does; gives the special tokens too.

    ``specials`` are tokens of ``encoder.json`` that no merge makes; those that are not there are left out.
    """
    if isinstance(specials, str):
        raise TypeError(f"special_tokens is one text; give a list: [{specials!r}]")
    merges_name, ids_name = os.fspath(vocab_bpe_file), os.fspath(encoder_json_file)
    made = _parse_merges(read_file_cached(vocab_bpe_file, vocab_bpe_hash), merges_name)
    ids = parse_ids(read_file_cached(encoder_json_file, encoder_json_hash), ids_name)
    special = {name: ids.pop(name) for name in specials if name in ids and to_bytes(name) not in made}
    found: Ranks = {}
    for text, token in ids.items():
        spelled = to_bytes(text)
        if spelled is None:
            raise ValueError(f"{ids_name}: {text!r} (id {token}) has a character that is not in GPT-2's byte alphabet")
        found[spelled] = token
    singles = [bytes([byte]) for byte in ORDER]
    ranks = {token: found.get(token, place) if clobber else place for place, token in enumerate(singles)}
    ranks |= {token: len(singles) + place for place, token in enumerate(made)}
    if ranks != found:
        _refuse_difference(ranks, found, made, (merges_name, ids_name))
    return ranks, special


def _parse_merges(data: bytes, name: str) -> dict[bytes, int]:
    """Give the tokens that merges make, in their order, each with the number of its line."""
    made: dict[bytes, int] = {}
    for number, left, right in parse_pairs(data, name):
        token = left + right
        if made.setdefault(token, number) != number:
            line = f"{to_text(left)} {to_text(right)}"
            raise ValueError(f"{name}, line {number}: {line!r} makes the token that line {made[token]} makes")
    return made


def parse_pairs(data: bytes, name: str) -> Iterator[tuple[int, bytes, bytes]]:
    """Give the merges of a ``vocab.bpe`` or ``merges.txt``: number of the line, left part, right part.

    Raises:
        ValueError: a line is not a merge; ``name`` is the file to tell.

    """
    for number, line in _lines_of_merges(_as_text(data, name)):
        left, blank, right = line.partition(" ")
        parts = (to_bytes(left), to_bytes(right))
        if not (left and blank and right) or parts[0] is None or parts[1] is None:
            expected = "two tokens in GPT-2's byte alphabet with a blank between"
            raise ValueError(f"{name}, line {number}: {line[:SHOWN]!r} is not a merge; expected {expected}")
        yield number, parts[0], parts[1]


def _lines_of_merges(text: str) -> Iterator[tuple[int, str]]:
    """Give the lines with their numbers, without the comment at the top and the empty line at the end."""
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")  # other line ends are characters of the alphabet
    first = 2 if lines[0].startswith("#version") else 1
    yield from enumerate(lines[first - 1 :], first)


def _as_text(data: bytes, name: str) -> str:
    """Decode UTF-8, whatever the language of the system is."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{name}, line {line}: byte 0x{data[error.start]:02X} is not UTF-8") from None


def parse_ids(data: bytes, name: str) -> dict[str, int]:
    """Read an ``encoder.json`` or ``vocab.json``: one object, token -> id; ``name`` is the file to tell.

    Raises:
        ValueError: it is something else, or a token or an id comes twice.

    """
    ids = _parse_object(_as_text(data, name), name)
    if not isinstance(ids, dict):
        raise ValueError(f"{name}: holds {type(ids).__name__}; expected an object of tokens and their ids")
    owners: dict[int, str] = {}
    for text, token in ids.items():
        if type(token) is not int or token < 0:
            raise ValueError(f"{name}: {text!r} has {token!r}; expected an id, 0 or greater")
        if owners.setdefault(token, text) != text:
            raise ValueError(f"{name}: {text!r} has id {token}, which is the id of {owners[token]!r} too")
    return ids


def _parse_object(text: str, name: str) -> Any:
    """Read JSON in which no object has a key twice."""
    twice: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            twice.append(Counter(key for key, _ in pairs).most_common(1)[0][0])
        return found

    try:
        found = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise ValueError(f"{name}, line {error.lineno}, column {error.colno}: not JSON ({error.msg})") from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, objects in objects without end
        raise ValueError(f"{name}: not a JSON file that can be read: {error}") from None
    if twice:
        raise ValueError(f"{name}: {twice[0]!r} comes twice")
    return found


def _refuse_difference(ranks: Ranks, found: Ranks, made: Mapping[bytes, int], names: tuple[str, str]) -> NoReturn:
    """Raise for the first token on which the two files do not agree."""
    merges_name, ids_name = names
    for token, rank in ranks.items():
        if found.get(token) != rank:
            origin = f"line {made[token]} of {merges_name}" if token in made else "being a single byte"
            has = f"has id {found[token]}" if token in found else "does not have it"
            raise ValueError(f"{ids_name}: token {token!r} has id {rank} by {origin}, but this file {has}")
    token = next(token for token in found if token not in ranks)
    raise ValueError(
        f"{ids_name}: token {token!r} (id {found[token]}) is made by no line of {merges_name}. "
        "If it is a special token, name it: from_gpt2(..., special_tokens=[...])"
    )
