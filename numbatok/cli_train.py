"""The command ``numbatok train``: files of text in, a vocabulary out.

Invariant: the vocabulary depends on the texts and the options alone; its file appears whole or not at all, and not
before the options and the name of the output are known to be good.

    $ numbatok train books/*.txt -o books.bpe --vocab-size 32768 --special "<|endoftext|>"
    $ numbatok train corpus.txt -o tokenizer.json --vocab-size 50000 --pattern o200k --compat huggingface
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from numbatok.cli_names import ENDINGS, format_named

# What the command needs is imported when it runs, so that nothing here keeps `--help` waiting.

SILENT = ("tiktoken",)
"""Formats that hold neither pattern nor special tokens."""


def checked_output(ctx: click.Context, option: click.Parameter, name: str) -> str:
    """Refuse an output file whose ending does not say what to write, or whose folder is not there."""
    if format_named(name) is None:
        raise click.BadParameter(f"the ending of {name!r} is none that can be written; use {', '.join(ENDINGS)}")
    folder = os.path.dirname(name)
    if folder and not os.path.isdir(folder):
        raise click.BadParameter(f"there is no folder {folder!r}")
    return name


def checked_pattern(ctx: click.Context, option: click.Parameter, pattern: str) -> str:
    """Refuse a pattern that is not known."""
    from numbatok.pattern_names import pattern_of

    try:
        pattern_of(pattern)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return pattern


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("-o", "--output", metavar="FILE", required=True, callback=checked_output, help="What to write.")
@click.option("--vocab-size", type=click.IntRange(min=1), required=True, help="Number of ids, special tokens included.")
@click.option(
    "--pattern",
    default="gpt2",
    show_default=True,
    callback=checked_pattern,
    help="What splits text: a name or a pattern.",
)
@click.option("--special", "special_tokens", multiple=True, metavar="NAME", help="A special token; repeatable.")
@click.option(
    "--min-frequency", type=click.IntRange(min=0), default=1, show_default=True, help="Least count of a pair."
)
@click.option("--max-token-length", type=click.IntRange(min=1), help="Most bytes of a token.")
@click.option("--compat", type=click.Choice(["huggingface"]), help="Give the merges and ids of that trainer.")
@click.option("--name", help="Name of the encoding; that of the output file if left out.")
@click.option("--threads", type=click.IntRange(min=1), help="Threads to use; all cores if left out.")
def train(files: tuple[str, ...], output: str, name: str | None, **options: Any) -> None:
    """Learn a byte-level BPE vocabulary from files.

    Each FILE is one text, UTF-8, and "-" is the standard input. The name of -o tells what to write: .bpe is a BPE1
    file, .json a tokenizer.json of Hugging Face, .tiktoken a rank file, which holds neither the pattern nor special
    tokens.

    Patterns by name: gpt2, cl100k, o200k, llama3, qwen2, qwen3.5, nemotron, kimi, deepseek, starcoder.
    """
    from numbatok.files import check_target, default_name, shown, standard
    from numbatok.pattern_names import pattern_of
    from numbatok.training import train as learn

    form = format_named(output)
    if form == "bpe" and len(pattern_of(options["pattern"])) > 1:  # told before the work begins
        raise click.UsageError(f"a BPE1 file holds one pattern, and {options['pattern']} is several; use -o NAME.json")
    for file in files:
        if file != "-" and not Path(file).is_fifo():  # a pipe is opened once only
            open(file, "rb").close()  # a wrong name is told before the work begins
    check_target(output)
    sources = [standard("stdin").read() if file == "-" else Path(file) for file in files]
    enc = learn(sources, name=name or default_name(output), **options)
    enc.save(output, form)  # type: ignore[arg-type]
    left = "; pattern and special tokens are not in it" if form in SILENT else ""
    click.echo(f"numbatok: {shown(output)}: {enc.n_vocab} ids, as {form}{left}", err=True)
