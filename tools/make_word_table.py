r"""Write the table of word characters, which decide whether an added token of a tokenizer.json stands alone.

A word character is what ``\w`` means in Unicode Technical Standard 18: letters, marks, decimal and letter numbers,
connecting punctuation, the two joiners, and the letters in circles and squares. It is made from Unicode 16.0.0, which
``tokenizers`` follows, and committed, so that ids do not depend on the Python that runs.

Layout: uint32, little-endian, compressed by xz: first and behind-last code point of each range, rising.

    $ pip install unicodedata2==16.0.0
    $ python tools/make_word_table.py            # writes numbatok/data/unicode-16.0.words.xz
    $ python tools/make_word_table.py --check    # exit status 1 when the committed file is not what it would write
"""

from __future__ import annotations

import itertools
import lzma
import struct
import sys

from make_unicode_table import CODE_POINTS, OUTPUT, pinned_category

WORDS = OUTPUT.with_name("unicode-16.0.words.xz")
CATEGORIES = ("L", "M", "Nd", "Nl", "Pc")
MORE = ((0x200C, 0x200D), (0x24B6, 0x24E9), (0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189))
"""The joiners, and symbols that have the property Alphabetic."""


def edges() -> list[int]:
    """Give the first and the behind-last code point of each range of word characters."""
    category = pinned_category()
    more = {point for first, last in MORE for point in range(first, last + 1)}
    word = [point in more or category(chr(point)).startswith(CATEGORIES) for point in range(CODE_POINTS)]
    return [point for point, (before, here) in enumerate(itertools.pairwise([False, *word, False])) if before != here]


def main() -> None:
    """Write the file, or compare it."""
    places = edges()
    packed = lzma.compress(struct.pack(f"<{len(places)}I", *places), preset=9 | lzma.PRESET_EXTREME)
    if "--check" in sys.argv[1:]:
        sys.exit(WORDS.read_bytes() != packed)
    WORDS.write_bytes(packed)


if __name__ == "__main__":
    main()
