"""Every embedded encoding against tiktoken, and tokenizer.json files against tokenizers: one thread, to an array.

    python -m bench.encodings CORPUS... --tokenizer llama3=tokenizer.json

Ids are compared before anything is timed, on the whole text (on 2 MB of it where the peer is slow, as the rows say).
Warm, and a first pass with an empty cache that is seeded beforehand. Writes bench/results/encodings.json.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import tiktoken

import numbatok
from bench.harness import environment, interleave, ratio, save

SLOW_BYTES = 2_000_000
"""As much text as tokenizers gets: it is some hundred times slower."""
ROUNDS = 7

Encode = Callable[[], Any]


def compare(name: str, text: str, enc: numbatok.Encoding, ours: Encode, theirs: Encode) -> dict[str, Any]:
    """Give the ratios of a peer's time to ours, once the ids are found equal."""
    if not np.array_equal(ours(), theirs()):
        raise SystemExit(f"{name}: the ids differ, nothing is timed")

    def empty_cache() -> None:
        enc.clear_cache()
        enc.encode_flat("x")  # seeding is part of loading

    contestants = {"peer": theirs, "warm": ours, "first": ours}
    seconds = interleave(contestants, ROUNDS, before={"warm": ours, "first": empty_cache})
    warm, first = ratio(seconds, "peer", "warm"), ratio(seconds, "peer", "first")
    print(f"{name:42} warm {warm}  first pass {first}", flush=True)
    return {"name": name, "bytes": len(text.encode()), "warm": warm, "first": first}


def against_tiktoken(corpora: dict[str, str]) -> list[dict[str, Any]]:
    """Compare the embedded encodings."""
    rows = []
    for name in numbatok.list_encoding_names():
        enc = numbatok.get_encoding(name)
        peer = tiktoken.Encoding(
            name, pat_str=enc._pat_str, mergeable_ranks=enc._mergeable_ranks, special_tokens=enc._special_tokens
        )
        for corpus, text in corpora.items():
            data = text.encode()
            row = compare(
                f"{name}, {corpus}",
                text,
                enc,
                lambda enc=enc, data=data: enc.encode_flat(data),
                lambda peer=peer, text=text: peer.encode_to_numpy(text, disallowed_special=()),
            )
            rows.append(row)
    return rows


def against_tokenizers(corpora: dict[str, str], files: dict[str, str]) -> list[dict[str, Any]]:
    """Compare encodings from tokenizer.json files."""
    rows = []
    for name, path in files.items():
        import tokenizers

        enc, peer = numbatok.Encoding.from_huggingface(path), tokenizers.Tokenizer.from_file(path)
        for corpus, text in corpora.items():
            text = text.encode()[:SLOW_BYTES].decode(errors="ignore")
            row = compare(
                f"{name}, {corpus}",
                text,
                enc,
                lambda enc=enc, text=text: enc.encode_to_numpy(text, allowed_special="all"),
                lambda peer=peer, text=text: peer.encode(text, add_special_tokens=False).ids,
            )
            rows.append(row)
    return rows


@click.command()
@click.argument("corpora", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@click.option("--tokenizer", "tokenizer_files", multiple=True, help="NAME=PATH of a tokenizer.json")
def main(corpora: tuple[str, ...], tokenizer_files: tuple[str, ...]) -> None:
    """Compare all encodings on text files."""
    texts = {Path(path).name: Path(path).read_bytes().decode(errors="ignore") for path in corpora}
    files = dict(one.split("=", 1) for one in tokenizer_files)
    packages = ("numbatok", "numba", "llvmlite", "numpy", "tiktoken", *(["tokenizers"] if files else []))
    results = {"tiktoken": against_tiktoken(texts), "tokenizers": against_tokenizers(texts, files)}
    print(save("encodings", {**results, "environment": environment(packages)}))


if __name__ == "__main__":
    main()
