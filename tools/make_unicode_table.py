"""Write the pinned Unicode class table that every split pattern reads.

The table says, for each of the 0x110000 code points, which classes of the split patterns it belongs to. It is made
from Unicode 16.0.0, once, and the file is committed: the interpreter's own `unicodedata` follows the Python version,
so ids would otherwise depend on the Python that runs. Invariant: the same source gives the same bytes, and no other
Unicode version than 16.0.0 is accepted.

Uncompressed layout, a two-stage table over blocks of 256 code points:

    bytes 0 .. 4351      stage 1: the block number (uint8) of code point cp is byte cp >> 8
    bytes 4352 ..        stage 2: the distinct blocks, 256 class bytes each, in order of first appearance

so that `class(cp) == data[4352 + 256 * data[cp >> 8] + (cp & 255)]`.

    $ pip install unicodedata2==16.0.0
    $ python tools/make_unicode_table.py            # writes numbatok/data/unicode-16.0.classes.xz
    $ python tools/make_unicode_table.py --check    # exit status 1 when the committed file is not what it would write
"""

from __future__ import annotations

import argparse
import hashlib
import lzma
import sys
from collections.abc import Callable
from pathlib import Path

UNICODE_VERSION = "16.0.0"
OUTPUT = Path(__file__).resolve().parent.parent / "numbatok" / "data" / "unicode-16.0.classes.xz"

CODE_POINTS = 0x110000
BLOCK = 256
STAGE_1 = CODE_POINTS // BLOCK  # 4352

UPPER, LOWER, CASELESS, MARK, NUMBER, SPACE, PUNCTUATION_OR_SYMBOL, HAN = 1, 2, 4, 8, 16, 32, 64, 128

# Title-case letters go with the upper-case ones, as the patterns that tell case apart write [\p{Lu}\p{Lt}].
LETTER_CLASS = {"Lu": UPPER, "Lt": UPPER, "Ll": LOWER, "Lm": CASELESS, "Lo": CASELESS}
MAJOR_CLASS = {"M": MARK, "N": NUMBER, "P": PUNCTUATION_OR_SYMBOL, "S": PUNCTUATION_OR_SYMBOL}

# The property White_Space, which is what \s means in the patterns. It is not a general category: six of its
# 25 members are control characters (Cc), so it has to be written out.
WHITE_SPACE = frozenset(
    [*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
)

# The script Han (Scripts.txt of 16.0.0), first and last code point of each range. Not all of them are letters: there
# are symbols (radicals), numbers (U+3007), punctuation and marks among them, so the flag stands beside the class.
HAN_RANGES = (
    *((0x2E80, 0x2E99), (0x2E9B, 0x2EF3), (0x2F00, 0x2FD5), (0x3005, 0x3005), (0x3007, 0x3007), (0x3021, 0x3029)),
    *((0x3038, 0x303B), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFA6D), (0xFA70, 0xFAD9), (0x16FE2, 0x16FE3)),
    *((0x16FF0, 0x16FF1), (0x20000, 0x2A6DF), (0x2A700, 0x2B739), (0x2B740, 0x2B81D), (0x2B820, 0x2CEA1)),
    *((0x2CEB0, 0x2EBE0), (0x2EBF0, 0x2EE5D), (0x2F800, 0x2FA1D), (0x30000, 0x3134A), (0x31350, 0x323AF)),
)
HAN_SCRIPT = frozenset(point for first, last in HAN_RANGES for point in range(first, last + 1))

Category = Callable[[str], str]


def pinned_category() -> Category:
    """The general category function of Unicode 16.0.0, or a refusal that says what to install."""
    wanted = f"unicodedata2=={UNICODE_VERSION}"
    try:
        import unicodedata2  # type: ignore[import-not-found]  # no stubs
    except ImportError:
        raise SystemExit(f"make_unicode_table: needs {wanted}; install it with: pip install {wanted}") from None
    found = unicodedata2.unidata_version
    if found != UNICODE_VERSION:
        raise SystemExit(
            f"make_unicode_table: unicodedata2 has Unicode {found}, expected {UNICODE_VERSION}; "
            f"install the pinned version with: pip install {wanted}"
        )
    category: Category = unicodedata2.category
    return category


def class_of(code_point: int, category: str) -> int:
    """The class byte of one code point: one class, and HAN beside it. White space is SPACE, whatever its category."""
    if code_point in WHITE_SPACE:
        return SPACE
    if code_point in HAN_SCRIPT:
        if category == "Cn":
            raise SystemExit(f"make_unicode_table: U+{code_point:04X} is listed as Han, but it is not assigned")
        return HAN | general_class(category)
    if category[0] == "Z":
        # Every separator of 16.0.0 is white space. One that is not would silently become "everything else".
        raise SystemExit(f"make_unicode_table: U+{code_point:04X} is a separator ({category}) but not White_Space")
    return general_class(category)


def general_class(category: str) -> int:
    """The class flag of a general category; 0 for control, format, private use, surrogate and unassigned ones."""
    return LETTER_CLASS.get(category, MAJOR_CLASS.get(category[0], 0))


def class_bytes(category: Category) -> bytes:
    """One class byte for each code point, surrogates and unassigned ones included (both are 0)."""
    return bytes(class_of(code_point, category(chr(code_point))) for code_point in range(CODE_POINTS))


def two_stage(classes: bytes) -> bytes:
    """Stage 1 followed by the distinct blocks; blocks are numbered in order of first appearance."""
    numbers: dict[bytes, int] = {}
    stage_1 = [
        numbers.setdefault(classes[start : start + BLOCK], len(numbers)) for start in range(0, CODE_POINTS, BLOCK)
    ]
    if len(numbers) > 256:
        raise SystemExit(
            f"make_unicode_table: {len(numbers)} distinct blocks of {BLOCK} code points, "
            "but stage 1 numbers blocks with one byte (at most 256)"
        )
    return bytes(stage_1) + b"".join(numbers)


def verify(table: bytes, classes: bytes) -> None:
    """Look every code point up in the table the way a reader does."""
    for code_point, expected in enumerate(classes):
        found = table[STAGE_1 + BLOCK * table[code_point >> 8] + (code_point & 255)]
        if found != expected:
            raise SystemExit(f"make_unicode_table: U+{code_point:04X} reads {found}, expected {expected}")


def compress(data: bytes) -> bytes:
    """One xz stream with every setting fixed, so that the same data gives the same file."""
    return lzma.compress(data, format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC64, preset=9 | lzma.PRESET_EXTREME)


def check_file(path: Path, data: bytes, packed: bytes) -> None:
    """Refuse a committed file that is not byte for byte what would be written, and say in what it differs."""
    if not path.is_file():
        raise SystemExit(f"make_unicode_table: {path} does not exist; run without --check to write it")
    committed = path.read_bytes()
    if committed == packed:
        return
    try:
        same_content = lzma.decompress(committed) == data
    except lzma.LZMAError as error:
        raise SystemExit(f"make_unicode_table: {path} is not a sound xz file ({error})") from None
    # Another release of liblzma may choose other matches for the same content; that is worth telling apart.
    reason = "the table is the same, only the compressed stream differs" if same_content else "the table differs"
    raise SystemExit(f"make_unicode_table: {path} is not what this script writes: {reason}; run without --check")


def main(arguments: list[str] | None = None) -> int:
    """Write the table, or with --check compare it with the committed file; then print a summary."""
    parser = argparse.ArgumentParser(description="Write the pinned Unicode class table.")
    parser.add_argument("--check", action="store_true", help="verify the committed file, write nothing")
    options = parser.parse_args(arguments)

    classes = class_bytes(pinned_category())
    table = two_stage(classes)
    verify(table, classes)
    packed = compress(table)
    if options.check:
        check_file(OUTPUT, table, packed)
    else:
        OUTPUT.write_bytes(packed)

    print(f"{'checked' if options.check else 'wrote'} {OUTPUT.name} (Unicode {UNICODE_VERSION})")
    print(f"  distinct blocks  {(len(table) - STAGE_1) // BLOCK}")
    print(f"  table            {len(table)} bytes  sha256 {hashlib.sha256(table).hexdigest()}")
    print(f"  xz file          {len(packed)} bytes  sha256 {hashlib.sha256(packed).hexdigest()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
