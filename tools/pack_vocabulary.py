"""Pack a `.tiktoken` rank file into merge pairs, about a fifth of its size, and prove that nothing was lost.

A rank file lists every token as bytes. A byte-pair vocabulary holds less than that: each token beyond the single bytes
is the concatenation of two earlier ones, so two ids are enough. Invariant: unpacking what was written gives the rank
file back, byte for byte (its sha256 is compared after every run); a file for which that cannot hold is refused.

Uncompressed layout, with M = number of tokens - 256, and planes because columns of like bytes compress better:

    bytes 0 .. 255       the byte that is token 0, 1, ... 255
    then 6 planes of M   low, middle, high byte of the left ids; low, middle, high byte of the right ids; in rank order

so that `token[256 + i] == token[left[i]] + token[right[i]]`.

    $ python tools/pack_vocabulary.py r50k_base.tiktoken numbatok/data/r50k_base.xz
    $ python tools/pack_vocabulary.py r50k_base.tiktoken numbatok/data/r50k_base.xz --check
"""

from __future__ import annotations

import argparse
import base64
import binascii
import hashlib
import lzma
import sys
from itertools import pairwise
from pathlib import Path

SINGLE_BYTES = 256
PLANES = 6
MAX_TOKENS = 1 << 24  # an id has three bytes


def parse_ranks(text: bytes) -> list[bytes]:
    """The tokens in rank order. Ranks must be 0 .. n - 1, tokens distinct, the first 256 the single bytes."""
    rank_of: dict[bytes, int] = {}
    token_of: dict[int, bytes] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            encoded, rank_text = line.split(b" ")
            token, rank = base64.b64decode(encoded, validate=True), int(rank_text)
        except (ValueError, binascii.Error):
            raise SystemExit(f"pack_vocabulary: line {number}: expected a base64 token, a space, a rank") from None
        if not token or rank < 0 or token in rank_of or rank in token_of:
            raise SystemExit(
                f"pack_vocabulary: line {number}: token {token!r} with rank {rank} is empty, negative or seen before"
            )
        rank_of[token], token_of[rank] = rank, token
    check_contiguous(token_of)
    tokens = [token_of[rank] for rank in range(len(token_of))]
    if len(tokens) > MAX_TOKENS or sorted(tokens[:SINGLE_BYTES]) != [bytes([b]) for b in range(SINGLE_BYTES)]:
        raise SystemExit(f"pack_vocabulary: ranks 0..255 must be the 256 single bytes, and ranks below {MAX_TOKENS}")
    return tokens


def check_contiguous(token_of: dict[int, bytes]) -> None:
    """Refuse ranks that leave a gap: the packed form gives a token its id by its position alone."""
    for expected, rank in enumerate(sorted(token_of)):
        if rank != expected:
            gap = f"rank {expected} is" if rank == expected + 1 else f"ranks {expected} to {rank - 1} are"
            raise SystemExit(f"pack_vocabulary: ranks must be 0, 1, 2, ... without gaps, but {gap} missing")


def canonical_pair(token: bytes, rank: int, rank_of: dict[bytes, int]) -> tuple[int, int]:
    """The two tokens that byte-pair encoding joins last to make this one: merge its bytes with lower ranks only."""
    parts = [token[i : i + 1] for i in range(len(token))]
    while True:
        # (rank, position), so that the lowest rank wins and the leftmost among equals.
        candidates = [(rank_of.get(left + right, rank), i) for i, (left, right) in enumerate(pairwise(parts))]
        best, i = min(candidates, default=(rank, 0))
        if best >= rank:
            break
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    if len(parts) != 2:
        raise SystemExit(
            f"pack_vocabulary: token {rank} ({token!r}) ends in {len(parts)} parts under lower ranks, expected 2: "
            "this is not a byte-pair vocabulary"
        )
    return rank_of[parts[0]], rank_of[parts[1]]


def pack(tokens: list[bytes]) -> bytes:
    """The uncompressed packed form of a vocabulary."""
    rank_of = {token: rank for rank, token in enumerate(tokens)}
    pairs = [canonical_pair(tokens[rank], rank, rank_of) for rank in range(SINGLE_BYTES, len(tokens))]
    planes = (bytes(pair[side] >> shift & 255 for pair in pairs) for side in (0, 1) for shift in (0, 8, 16))
    return b"".join(tokens[:SINGLE_BYTES]) + b"".join(planes)


def unpack(data: bytes) -> list[bytes]:
    """The tokens in rank order, from the uncompressed packed form."""
    merges, rest = divmod(len(data) - SINGLE_BYTES, PLANES)
    if merges < 0 or rest:
        raise SystemExit(f"pack_vocabulary: {len(data)} bytes are not {SINGLE_BYTES} bytes and {PLANES} equal planes")
    tokens = [data[i : i + 1] for i in range(SINGLE_BYTES)]
    planes = [data[start : start + merges] for start in range(SINGLE_BYTES, len(data), merges or 1)]
    for low_l, middle_l, high_l, low_r, middle_r, high_r in zip(*planes, strict=True):
        left, right = low_l | middle_l << 8 | high_l << 16, low_r | middle_r << 8 | high_r << 16
        if max(left, right) >= len(tokens):
            raise SystemExit(f"pack_vocabulary: token {len(tokens)} is made of tokens {left} and {right}: not earlier")
        tokens.append(tokens[left] + tokens[right])
    return tokens


def rank_text(tokens: list[bytes]) -> bytes:
    """The text of the `.tiktoken` file with these tokens."""
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(tokens))


def compress(data: bytes) -> bytes:
    """One xz stream with every setting fixed, so that the same data gives the same file."""
    return lzma.compress(data, format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC64, preset=9 | lzma.PRESET_EXTREME)


def check_file(path: Path, data: bytes, packed: bytes) -> None:
    """Refuse a committed file that is not byte for byte what would be written, and say in what it differs."""
    if not path.is_file():
        raise SystemExit(f"pack_vocabulary: {path} does not exist; run without --check to write it")
    committed = path.read_bytes()
    if committed == packed:
        return
    try:
        same_content = lzma.decompress(committed) == data
    except lzma.LZMAError as error:
        raise SystemExit(f"pack_vocabulary: {path} is not a sound xz file ({error})") from None
    # Another release of liblzma may choose other matches for the same content; that is worth telling apart.
    reason = "the pairs are the same, only the compressed stream differs" if same_content else "the pairs differ"
    raise SystemExit(f"pack_vocabulary: {path} is not what this script writes: {reason}; run without --check")


def check_round_trip(packed: bytes, text: bytes) -> str:
    """Rebuild the rank text from a packed file and give its sha256; refuse another one than the input's."""
    rebuilt = hashlib.sha256(rank_text(unpack(lzma.decompress(packed)))).hexdigest()
    expected = hashlib.sha256(text).hexdigest()
    if rebuilt != expected:
        raise SystemExit(
            f"pack_vocabulary: the rebuilt rank text has sha256 {rebuilt}, the input has {expected}; "
            "the input must be lines in rank order, each ended by a line feed"
        )
    return rebuilt


def main(arguments: list[str] | None = None) -> int:
    """Pack a rank file, or with --check compare with the file packed before; then print a summary."""
    parser = argparse.ArgumentParser(description="Pack a .tiktoken rank file into merge pairs.")
    parser.add_argument("ranks", type=Path, metavar="RANKS.tiktoken")
    parser.add_argument("output", type=Path, metavar="OUT.xz")
    parser.add_argument("--check", action="store_true", help="verify OUT.xz, write nothing")
    options = parser.parse_args(arguments)

    text = options.ranks.read_bytes()
    tokens = parse_ranks(text)
    data = pack(tokens)
    packed = compress(data)
    check_round_trip(packed, text)  # before anything is written: a refusal must not leave a wrong file behind
    if options.check:
        check_file(options.output, data, packed)
    else:
        options.output.write_bytes(packed)
    text_hash = check_round_trip(options.output.read_bytes(), text)

    print(f"{'checked' if options.check else 'wrote'} {options.output.name}")
    print(f"  tokens     {len(tokens)} ({len(tokens) - SINGLE_BYTES} merges)")
    print(f"  rank text  {len(text)} bytes  sha256 {text_hash} (rebuilt and compared)")
    print(f"  packed     {len(data)} bytes  sha256 {hashlib.sha256(data).hexdigest()}")
    print(f"  xz file    {len(packed)} bytes  sha256 {hashlib.sha256(packed).hexdigest()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
