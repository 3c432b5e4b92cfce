"""The command ``numbatok convert``: from any form of a vocabulary to any other one.

Invariant: the format of a source is told by its contents, or by ``--from``; where two readings are possible, and where
a pattern is needed that the source does not say, nothing is guessed and nothing is written. What is written gives the
ids that the source gives.

    $ numbatok convert gpt2 -o gpt2.bpe
    $ numbatok convert vocab.json merges.txt --pattern gpt2 -o tokenizer.json
    $ numbatok convert my.tiktoken --pattern cl100k --special "<|end|>=100300" -o my.bpe
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import click

from numbatok.cli_names import format_named

# What the command needs is imported when it runs, so that nothing here keeps `--help` waiting.
if TYPE_CHECKING:
    from numbatok.encoding import Encoding

SOURCES = ("bpe", "tiktoken", "huggingface", "merges", "gpt2", "name")
TARGETS = ("bpe", "bpe-v1", "tiktoken", "huggingface", "merges", "gpt2")
SILENT = ("bpe-v1", "tiktoken", "merges", "gpt2")
"""Formats that hold neither pattern nor special tokens."""
HALVES = ("vocab.json", "encoder.json", "vocab.bpe")
"""Files that are one of two, though their ending is that of another format."""
TOKENIZER = "tokenizer.json"
MOST_DIGITS = 20
"""No id has more digits, and Python does not read numbers of thousands."""


# ---- what a source is ------------------------------------------------------------------------------------------------


def find_source(names: tuple[str, ...], form: str | None) -> tuple[str, tuple[str, ...]]:
    """Tell the format of a source, and its files; ``form`` is what the user says it is, if anything.

    Raises:
        ValueError: the format cannot be told, or not for certain; a source is a pipe.

    """
    if form != "name":
        _refuse_streams(names)
    if len(names) == 2:
        if form not in (None, "merges", "gpt2"):
            raise ValueError(f"two sources are a vocabulary and its merges; --from {form} takes one")
        first, second = names
        return "merges", (second, first) if _is_json(second) and not _is_json(first) else (first, second)
    (name,) = names
    if form == "name":
        return form, names
    if os.path.isdir(name):
        return _find_in_folder(name, form)
    if form in ("merges", "gpt2"):
        raise ValueError(f"{name}: --from {form} takes two files, the vocabulary and the merges, or their folder")
    if form is not None:
        return form, names
    from numbatok.embedded import EMBEDDED

    if name in EMBEDDED:
        if os.path.exists(name):
            raise ValueError(f"{name} is a file and the name of an encoding: write ./{name}, or --from name")
        return "name", names
    return _format_of(name), names


def _refuse_streams(names: tuple[str, ...]) -> None:
    """Refuse what gives its bytes once: a source is opened to tell its format, and again to read it."""
    for name in names:
        if name == "-" or (os.path.exists(name) and not (os.path.isfile(name) or os.path.isdir(name))):
            what = "the standard input" if name == "-" else "a pipe or a device"
            raise ValueError(f"{name}: this is {what}, and a pipe cannot be read twice; write it to a file first")


def _find_in_folder(folder: str, form: str | None) -> tuple[str, tuple[str, ...]]:
    from numbatok.stored import FILE_NAMES

    known = {"huggingface": (TOKENIZER,), **FILE_NAMES}
    paths = {kind: tuple(os.path.join(folder, name) for name in names) for kind, names in known.items()}
    found = [kind for kind in known if all(map(os.path.exists, paths[kind])) and form in (None, kind)]
    if len(found) != 1:
        listed = ", ".join(f"{' and '.join(names)} ({kind})" for kind, names in known.items())
        what = f"holds {' and '.join(found)}: choose with --from" if found else f"none of these is in it: {listed}"
        raise ValueError(f"{folder}: the folder {what}")
    _refuse_streams(paths[found[0]])
    return ("merges" if found[0] in FILE_NAMES else found[0]), paths[found[0]]


def _format_of(name: str) -> str:
    """Tell the format of one file by its contents."""
    from numbatok.bpe1 import MAGIC
    from numbatok.embedded import EMBEDDED
    from numbatok.load import parse_ranks

    try:
        with open(name, "rb") as file:
            head = file.read(1 << 10)
    except FileNotFoundError:
        known = ", ".join(EMBEDDED)
        raise ValueError(f"{name}: there is no such file, and no such encoding ({known})") from None
    if head.startswith(MAGIC):
        return "bpe"
    if _is_json(name):
        if _has_model(name):
            return "huggingface"
        raise ValueError(f"{name}: a vocabulary without merges; give the file of merges, too: convert {name} MERGES")
    if head.startswith(b"#version"):
        raise ValueError(f"{name}: merges without a vocabulary; give that, too: convert VOCABULARY {name}")
    try:
        parse_ranks(head[: head.find(b"\n") + 1] or head, name)
    except ValueError:
        raise ValueError(
            f"{name}: the first line is not that of a rank file, nor is this a BPE1 file or JSON; "
            f"name the format with --from ({', '.join(SOURCES)})"
        ) from None
    return "tiktoken"


def _is_json(name: str) -> bool:
    """Tell whether the contents of a file start as an object of JSON does."""
    with open(name, "rb") as file:
        return file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"


def _has_model(name: str) -> bool:
    with open(name, "rb") as file:
        try:
            found = json.load(file)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{name}: not a JSON file that can be read: {error}") from None
    return isinstance(found.get("model"), dict)


# ---- reading and writing ---------------------------------------------------------------------------------------------


def read_source(
    form: str,
    files: tuple[str, ...],
    name: str | None,
    pattern: str | None,
    special: dict[str, int] | None,
    slow_split: bool,
) -> Encoding:
    """Make the encoding of a source whose format is known.

    Raises:
        ValueError: a pattern or special tokens are given to a source that says its own, or it cannot be read.

    """
    from numbatok.encoding import Encoding
    from numbatok.registry import get_encoding

    if form in ("huggingface", "name"):
        if pattern is not None or special is not None:
            raise ValueError(f"{files[0]} says its own pattern and special tokens; leave out --pattern and --special")
        if form == "name":
            return get_encoding(files[0])
        return Encoding.from_huggingface(files[0], name=name, slow_split=slow_split)
    more: dict[str, Any] = {"name": name, "pat_str": pattern, "special_tokens": special, "slow_split": slow_split}
    if form == "merges":
        return Encoding.from_merges(*files, **more)
    return Encoding.load(*files, **more) if form == "bpe" else Encoding.from_tiktoken(*files, **more)


def target_of(outputs: tuple[str, ...], form: str | None) -> str:
    """Tell the format of the target by the names of its files; ``form`` is what the user says it is, if anything.

    Raises:
        ValueError: the names do not tell it.

    """
    if form is not None:
        return form
    if len(outputs) == 2:
        return "merges"
    last = os.path.basename(outputs[0])
    found = format_named(last)
    if found is None or last in HALVES or os.path.isdir(outputs[0]):
        raise ValueError(f"{outputs[0]}: the name does not tell what to write; choose with --to ({', '.join(TARGETS)})")
    return found


def write_target(enc: Encoding, outputs: tuple[str, ...], form: str) -> None:
    """Write an encoding in a format; see :meth:`Encoding.save` for errors."""
    path: Any = outputs if len(outputs) == 2 else outputs[0]
    if form == "huggingface" and os.path.isdir(path):
        path = os.path.join(path, TOKENIZER)
    if form in ("bpe", "bpe-v1"):
        enc.save(path, "bpe", version=1 if form == "bpe-v1" else 2)
    else:
        enc.save(path, form)  # type: ignore[arg-type]


# ---- the command -----------------------------------------------------------------------------------------------------


def special_of(ctx: click.Context, option: click.Parameter, values: tuple[str, ...]) -> dict[str, int] | None:
    """Read NAME=ID; None if no special token is given."""
    found: dict[str, int] = {}
    for value in values:
        name, _, number = value.rpartition("=")
        if not (name and number.isascii() and number.isdigit() and len(number) <= MOST_DIGITS):
            raise click.BadParameter(f"{value!r} is not NAME=ID, as in '<|endoftext|>=50256'")
        if found.setdefault(name, int(number)) != int(number):
            raise click.BadParameter(f"{name!r} has two ids, {found[name]} and {number}")
    return found or None


@click.command()
@click.argument("sources", metavar="SOURCE [MERGES]", nargs=-1, required=True)
@click.option("-o", "--output", "outputs", metavar="FILE", multiple=True, required=True, help="What to write.")
@click.option("--from", "source", type=click.Choice(SOURCES), help="Format of the source, if it does not show.")
@click.option("--to", "target", type=click.Choice(TARGETS), help="Format to write, if the name does not tell.")
@click.option("--pattern", help="Pattern that splits text: a name (gpt2, cl100k, llama3, o200k, ...) or its text.")
@click.option("--special", multiple=True, metavar="NAME=ID", callback=special_of, help="A special token; repeatable.")
@click.option("--slow-split", is_flag=True, help="Take patterns without a split kernel, too (needs regex).")
@click.option("--name", help="Name of the encoding, kept in BPE1 files of version 2.")
def convert(
    sources: tuple[str, ...],
    outputs: tuple[str, ...],
    source: str | None,
    target: str | None,
    pattern: str | None,
    special: dict[str, int] | None,
    slow_split: bool,
    name: str | None,
) -> None:
    """Convert a vocabulary from one format to another.

    SOURCE is a BPE1 file, a rank file of tiktoken, a tokenizer.json, a vocab.json followed by its merges.txt (or
    encoder.json and vocab.bpe), a folder with these, or the name of an encoding, such as gpt2.

    The names of -o tell what to write: .bpe is a BPE1 file, .tiktoken a rank file, .json a tokenizer.json, and two -o
    are a vocabulary and its merges. --to says it for other names; with --to merges and --to gpt2 one -o is a folder.

    Rank files, merges and BPE1 files of version 1 hold neither the pattern nor special tokens: as a source they need
    --pattern, unless OpenAI published them, and as a target they leave both to whoever reads them.
    """
    from numbatok.files import shown
    from numbatok.split.named import PATTERNS, pattern_named

    if len(sources) > 2 or len(outputs) > 2:
        raise click.UsageError("give one SOURCE or a vocabulary and its merges, and one or two -o")
    target = target_of(outputs, target)
    form, files = find_source(sources, source)
    chosen = PATTERNS.get(pattern or "", pattern)
    if chosen is not None and not slow_split:
        chosen = pattern_named(chosen)
    if chosen is None and target in SILENT and _says_no_pattern(form, files):
        chosen = PATTERNS["gpt2"]  # any would do: the tables need one, and it is not written
    enc = read_source(form, files, name, chosen, special, slow_split)
    if name is not None and enc.name != name:
        raise ValueError(f"{files[0]} says its own name; leave out --name")
    write_target(enc, outputs, target)
    written = " and ".join(map(shown, outputs))
    left = "; pattern and special tokens are not in it" if target in SILENT else ""
    click.echo(f"numbatok: {written}: {enc.name}, {enc.n_vocab} ids, as {target}{left}", err=True)


def _says_no_pattern(form: str, files: tuple[str, ...]) -> bool:
    from numbatok.bpe1 import VERSION_AT, version_of

    if form != "bpe":
        return form in ("tiktoken", "merges")
    with open(files[0], "rb") as file:
        return version_of(file.read(VERSION_AT + 1)) == 1
