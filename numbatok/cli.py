"""The command line: encode, decode, count, convert, train, bench, warmup, info.

Invariant: data goes to stdout and all else to stderr. Text is read as bytes, never decoded, and cut at safe cuts only
(see split/cuts.py), so the ids are those of one call over the whole. Exit status: 0 done, 1 refused with one line that
says why, 2 wrong usage, 130 interrupted.

    $ numbatok encode moby.txt -o moby.npy
    $ numbatok decode moby.npy | cmp - moby.txt
    $ numbatok count *.txt
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from numbatok.cli_convert import convert
from numbatok.cli_names import open_encoding
from numbatok.cli_train import train

# The commands import what they need themselves, so that nothing here keeps `--help` and a wrong option waiting.
if TYPE_CHECKING:
    import numpy.typing as npt

    from numbatok.encoding import Encoding
    from numbatok.files import Bytes
    from numbatok.ragged import Ids

PART_BYTES = 1 << 26
"""Text that goes through between two moves of the bar."""
BAR_DELAY = 0.5
"""Seconds of work before a bar appears: short work shows none."""
REFUSED, INTERRUPTED = 1, 130
ENDINGS = (".npy", ".bin")


# ---- errors ----------------------------------------------------------------------------------------------------------


class Failure(click.ClickException):
    """An error that the user can mend: one line on stderr."""

    exit_code = REFUSED

    def show(self, file: Any = None) -> None:
        """Print the line."""
        click.echo(f"numbatok: {self.message}", file=file, err=True)


class Interrupted(Failure):
    """Ctrl-C."""

    exit_code = INTERRUPTED


def told(error: Exception) -> str:
    """Give the line for an error of the package or of the system."""
    if isinstance(error, OSError) and error.strerror:
        return f"{click.format_filename(error.filename)}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, MemoryError):
        return "out of memory"
    if isinstance(error, KeyError) and error.args:
        return str(error.args[0])  # the text of a KeyError is a quoted one
    return str(error) or type(error).__name__


class Commands(click.Group):
    """A group of commands whose expected errors end as one line, and a closed pipe as none."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was asked for."""
        try:
            result = super().invoke(ctx)
            if sys.stdout is not None:
                sys.stdout.flush()  # here, where a full disk or a closed pipe can still be told
            return result
        except BrokenPipeError:
            drop_output()
            raise click.exceptions.Exit(REFUSED) from None
        except KeyboardInterrupt:
            drop_output()
            raise Interrupted("interrupted") from None
        except OSError as error:
            drop_output()
            raise Failure(told(error)) from None
        except (ValueError, KeyError, OverflowError, MemoryError, ImportError) as error:
            raise Failure(told(error)) from None


def drop_output() -> None:
    """Send what stdout still holds to nowhere: the interpreter would try again at its end, and complain."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# ---- a long text in parts --------------------------------------------------------------------------------------------


def parts(data: Bytes) -> Iterator[Bytes]:
    """Cut a text into parts of about PART_BYTES whose ids, one after the other, are those of the whole."""
    from numbatok.bpe import address
    from numbatok.split.cuts import find_cut

    at, size = 0, len(data)
    while size - at > PART_BYTES:
        cut = find_cut(address(data), at + PART_BYTES, size)
        # From the first byte on that is not UTF-8 everything is one piece (see invalid.py): that rest stays whole.
        if cut == size or not is_utf8(data[at:cut]):
            break
        yield data[at:cut]
        at = cut
    if at < size:
        yield data[at:]


def is_utf8(data: Bytes) -> bool:
    """Tell whether all bytes are UTF-8. Arrow checks them in place, ten times as fast as decoding them."""
    import numpy as np
    import pyarrow as pa

    buffers = [None, pa.py_buffer(np.array([0, len(data)], np.int64)), pa.py_buffer(data)]
    try:
        pa.Array.from_buffers(pa.large_string(), 1, buffers).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def between_specials(enc: Encoding, data: Bytes) -> Iterator[tuple[Bytes, int | None]]:
    """Give the ordinary texts between special tokens, each with the id of the special token behind it (or None)."""
    names = sorted((name.encode() for name in enc.special_tokens_set), key=len, reverse=True)
    start = 0
    for found in re.finditer(b"|".join(map(re.escape, names)), data.data) if names else ():
        yield data[start : found.start()], enc.encode_single_token(found.group())
        start = found.end()
    yield data[start:], None


def encode_parts(enc: Encoding, data: Bytes, threads: int | None, special: bool, bar: Any) -> Iterator[Ids]:
    """Encode a text part by part, and move the bar."""
    import numpy as np

    from numbatok.batch import PARALLEL_BYTES

    for text, token in between_specials(enc, data) if special else [(data, None)]:
        for part in parts(text):
            if len(part) < PARALLEL_BYTES:  # texts between special tokens are many and short
                yield enc.encode_flat(part)
            else:
                yield enc.encode_batch_flat([part], threads=threads).tokens
            bar.update(len(part))
        if token is not None:
            yield np.array([token], np.uint32)


def count_parts(enc: Encoding, data: Bytes, threads: int | None, bar: Any) -> int:
    """Count the ids of a text part by part, and move the bar."""
    total = 0
    for part in parts(data):
        total += int(enc.count_batch([part], threads=threads)[0])
        bar.update(len(part))
    return total


def progress(size: int) -> Any:
    """Give a bar over bytes on stderr, which shows only on a terminal, and only when the work is long."""
    from tqdm import tqdm

    look = {"unit": "B", "unit_scale": True, "unit_divisor": 1024, "leave": False}
    return tqdm(total=size or None, disable=None, delay=BAR_DELAY, **look)


# ---- the commands ----------------------------------------------------------------------------------------------------

encoding_help = "Name of the encoding, or a file that holds one: a .bpe, or a tokenizer.json."
encoding_option = click.option("--encoding", default="gpt2", show_default=True, help=encoding_help)
threads_option = click.option("--threads", type=click.IntRange(min=1), help="Threads to use; all cores if left out.")


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="numbatok", message="%(prog)s %(version)s")
def main() -> None:
    """Text to token ids and back, exactly as tiktoken does it, and fast. A FILE of "-" is the standard input."""


main.add_command(convert)
main.add_command(train)


def checked_output(ctx: click.Context, option: click.Parameter, name: str | None) -> str | None:
    """Refuse an output file whose ending does not say what to write."""
    if name is not None and os.path.splitext(name)[1].lower() not in ENDINGS:
        raise click.BadParameter(f"the ending of {name!r} is none that can be written; use {' or '.join(ENDINGS)}")
    return name


@main.command()
@click.argument("file")
@encoding_option
@click.option("-o", "--output", metavar="FILE", callback=checked_output, help="Write to FILE (.npy or .bin) instead.")
@threads_option
@click.option("--special", is_flag=True, help="Give special tokens in the text their id; else they are ordinary text.")
def encode(file: str, encoding: str, output: str | None, threads: int | None, special: bool) -> None:
    """Write the ids of a text.

    They go to stdout with spaces between them. With -o they go to a file instead: .npy is a NumPy array of uint32, .bin
    bare little-endian ids, uint16 where the largest id of the encoding fits and uint32 otherwise.
    """
    from numbatok.files import WRITERS, bin_type, ending, new_file, read_bytes, write_text

    enc = open_encoding(encoding)
    data = read_bytes(file)
    write = WRITERS[ending(output)] if output else write_text
    with new_file(output) as out, progress(len(data)) as bar:
        made = write(out, encode_parts(enc, data, threads, special, bar), enc)
    if output and ending(output) == ".bin":
        click.echo(f"numbatok: {output}: {made} ids as little-endian {bin_type(enc).name}", err=True)


@main.command()
@click.argument("file")
@encoding_option
@click.option("-o", "--output", metavar="FILE", help="Write to FILE instead.")
@click.option("--skip-unknown", is_flag=True, help="Leave out ids that the encoding does not have.")
def decode(file: str, encoding: str, output: str | None, skip_unknown: bool) -> None:
    """Write the text of ids, byte for byte.

    FILE is a .npy or .bin file as encode writes it, or text: whole numbers with whitespace or commas between.
    """
    from numbatok.files import new_file, read_ids, shown

    enc = open_encoding(encoding)
    done = 0
    with new_file(output) as out:
        for ids in read_ids(file, enc):
            try:
                out.write(enc.decode_bytes(ids, unknown="skip" if skip_unknown else "error"))
            except KeyError:
                bad = first_unknown(enc, ids)
                raise Failure(
                    f"{shown(file)}: {enc.name} has no id {ids[bad]}, which is number {done + bad}, counted from 0; "
                    "name the encoding of the ids (--encoding) or leave such ids out (--skip-unknown)"
                ) from None
            except OverflowError as error:
                raise Failure(f"{shown(file)}: {error}") from None
            done += len(ids)


def first_unknown(enc: Encoding, ids: npt.NDArray[Any]) -> int:
    """Find the first id that does not decode, by halving."""
    low, high = 0, len(ids)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            enc.decode_bytes(ids[low:middle])
            low = middle
        except KeyError:
            high = middle
    return low


@main.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@encoding_option
@threads_option
@click.pass_context
def count(ctx: click.Context, files: tuple[str, ...], encoding: str, threads: int | None) -> None:
    """Count the ids and the bytes of files.

    The rows are laid out as wc does it: ids, bytes, name, and a total for several files.
    """
    from numbatok.files import plain_size, read_bytes, standard

    enc, out = open_encoding(encoding), standard("stdout")
    sizes = [plain_size(name) for name in files]
    width = max(len(str(sum(sizes))), 1 if all(map(os.path.isfile, files)) else 7)  # the rule of wc
    rows: list[tuple[int, int]] = []
    with progress(sum(sizes)) as bar:
        for name in files:
            try:
                data = read_bytes(name)
            except OSError as error:
                bar.clear()
                Failure(told(error)).show()
                continue
            rows.append((count_parts(enc, data, threads, bar), len(data)))
            bar.clear()
            write_row(out, width, rows[-1], name)
    if len(files) > 1:
        write_row(out, width, (sum(ids for ids, _ in rows), sum(size for _, size in rows)), "total")
    ctx.exit(REFUSED if len(rows) < len(files) else 0)


def write_row(out: BinaryIO, width: int, numbers: tuple[int, int], name: str) -> None:
    """Write one row of ``count`` at once, so that whoever reads has it while the next file is counted."""
    out.write(b"%*d %*d %s\n" % (width, numbers[0], width, numbers[1], os.fsencode(name)))
    out.flush()


@main.command()
@click.argument("file")
@encoding_option
@click.option("--rounds", type=click.IntRange(min=1), default=7, show_default=True, help="How often to time each.")
@threads_option
def bench(file: str, encoding: str, rounds: int, threads: int | None) -> None:
    """Measure the speed on a text, beside tiktoken, gigatoken and fastokens where they are installed.

    Ids are compared first. The contestants take turns; the figures are medians with the least and the greatest.
    """
    from numbatok.files import read_bytes, shown
    from numbatok.measure import measure, table

    data = read_bytes(file).tobytes()
    if not data:
        raise Failure(f"{shown(file)} is empty; give a text of some kilobytes or more")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise Failure(f"{shown(file)} is not UTF-8 at byte {error.start}; other tokenizers take text only") from None
    click.echo(table(measure(open_encoding(encoding), text, rounds=rounds, threads=threads)))


@main.command()
def warmup() -> None:
    """Compile every kernel and keep it on disk.

    Run it when an image is built or after an upgrade: no later call waits for the compiler.
    """
    from numbatok.warm import warmup

    done = warmup()
    place = f"kept in {done.folder}" if done.folder else "in memory only: no folder for a cache can be written"
    click.echo(
        f"{done.kernels} kernels ready in {done.seconds:.1f} s: "
        f"{done.compiled} compiled, {done.loaded} loaded from the cache; {place}"
    )


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
def info(as_json: bool) -> None:
    """Tell versions, threads and folders.

    This is what a report of an error should hold.
    """
    facts = gather_facts()
    if as_json:
        click.echo(json.dumps(facts, indent=2))
        return
    for name, value in facts.items():
        text = ", ".join(value) if isinstance(value, list) else str(UNSET.get(name) if value is None else value)
        click.echo(f"{name.replace('_', ' '):<16}{text}")


UNSET = {"threading_layer": "not started", "cache_folder": "none: kernels live in memory only"}
"""What it means that a fact is None."""


def gather_facts() -> dict[str, Any]:
    """Collect what ``info`` tells."""
    import llvmlite
    import numba
    import numpy as np
    from llvmlite import binding

    import numbatok
    from numbatok import _jit, batch

    layer = None
    with contextlib.suppress(ValueError):  # no parallel region has run, and asking must not start one
        layer = numba.threading_layer()  # type: ignore[attr-defined]
    return {
        "numbatok": numbatok.__version__,
        "encodings": numbatok.list_encoding_names(),
        "python": platform.python_version(),
        "numba": numba.__version__,
        "numpy": np.__version__,
        "llvmlite": llvmlite.__version__,
        "cpu": binding.get_host_cpu_name(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": batch.THREADS,
        "threading_layer": layer,
        "jit": not _jit.JIT_DISABLED,
        "cache_folder": _jit.cache_folder(),
    }
