"""Pack the tokens that one vocabulary adds to another one: the planes of their merges, without the 256 bytes.

    python tools/pack_extension.py p50k_base.tiktoken 50257 numbatok/data/p50k_base.xz

Invariant: the ranks from FIRST on follow each other without a gap, and what is written gives them back; that the ranks
below FIRST are those of the other vocabulary is for the caller to know (a test compares the hash of the whole).
"""

from __future__ import annotations

import argparse
import base64
import lzma
import sys
from pathlib import Path

from pack_vocabulary import canonical_pair, compress


def read_ranks(text: bytes) -> dict[bytes, int]:
    """The rank of each token of a rank file."""
    return {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in text.splitlines())}


def pack_from(ranks: dict[bytes, int], first: int) -> bytes:
    """The planes of the merges that make the tokens of rank ``first`` and above."""
    added = sorted((rank, token) for token, rank in ranks.items() if rank >= first)
    if [rank for rank, _ in added] != list(range(first, first + len(added))):
        raise SystemExit(f"pack_extension: the ranks from {first} on must follow each other without a gap")
    pairs = [canonical_pair(token, rank, ranks) for rank, token in added]
    return b"".join(bytes(pair[side] >> shift & 255 for pair in pairs) for side in (0, 1) for shift in (0, 8, 16))


def main(arguments: list[str] | None = None) -> int:
    """Pack the end of a rank file, or with --check compare with the file packed before."""
    parser = argparse.ArgumentParser(description="Pack the tokens from one rank on into merge pairs.")
    parser.add_argument("ranks", type=Path, metavar="RANKS.tiktoken")
    parser.add_argument("first", type=int, metavar="FIRST")
    parser.add_argument("output", type=Path, metavar="OUT.xz")
    parser.add_argument("--check", action="store_true", help="verify OUT.xz, write nothing")
    options = parser.parse_args(arguments)

    data = pack_from(read_ranks(options.ranks.read_bytes()), options.first)
    if not options.check:
        options.output.write_bytes(compress(data))
    elif lzma.decompress(options.output.read_bytes()) != data:
        raise SystemExit(f"pack_extension: {options.output} holds other merges; run without --check")
    print(f"{'checked' if options.check else 'wrote'} {options.output.name}: {len(data) // 6} merges")
    return 0


if __name__ == "__main__":
    sys.exit(main())
