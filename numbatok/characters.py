r"""The characters that Digits and Punctuation of a tokenizer.json mean: not the classes of any split pattern.

``Digits`` are the numbers (N) of Unicode 17.0, since they come from Rust's standard library; ``Punctuation`` is the
punctuation of about Unicode 8, with the ASCII symbols. Patterns follow 16.0. Found by asking ``tokenizers`` 0.23 about
every code point; the tests ask again.

Invariant: the table for kernels differs from the pinned one in what a family with such a step reads, nothing else.

    >>> ord("!") in punctuation(), 0x11DE0 in digits()
    (True, True)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from numbatok.unicode import NUMBER, STAGE1_SIZE, all_classes, load_class_table

NEWER_DIGITS = (*range(0x11DE0, 0x11DEA), *range(0x16FF4, 0x16FF7))
"""Numbers of Unicode 17.0 that 16.0 does not have."""

PUNCTUATION = (
    "21-2F 3A-40 5B-60 7B-7E A1 A7 AB B6-B7 BB BF 37E 387 55A-55F 589-58A 5BE 5C0 5C3 5C6 5F3-5F4 609-60A 60C-60D 61B "
    "61E-61F 66A-66D 6D4 700-70D 7F7-7F9 830-83E 85E 964-965 970 AF0 DF4 E4F E5A-E5B F04-F12 F14 F3A-F3D F85 FD0-FD4 "
    "FD9-FDA 104A-104F 10FB 1360-1368 1400 166D-166E 169B-169C 16EB-16ED 1735-1736 17D4-17D6 17D8-17DA 1800-180A "
    "1944-1945 1A1E-1A1F 1AA0-1AA6 1AA8-1AAD 1B5A-1B60 1BFC-1BFF 1C3B-1C3F 1C7E-1C7F 1CC0-1CC7 1CD3 2010-2027 "
    "2030-2043 2045-2051 2053-205E 207D-207E 208D-208E 2308-230B 2329-232A 2768-2775 27C5-27C6 27E6-27EF 2983-2998 "
    "29D8-29DB 29FC-29FD 2CF9-2CFC 2CFE-2CFF 2D70 2E00-2E2E 2E30-2E42 3001-3003 3008-3011 3014-301F 3030 303D 30A0 "
    "30FB A4FE-A4FF A60D-A60F A673 A67E A6F2-A6F7 A874-A877 A8CE-A8CF A8F8-A8FA A8FC A92E-A92F A95F A9C1-A9CD "
    "A9DE-A9DF AA5C-AA5F AADE-AADF AAF0-AAF1 ABEB FD3E-FD3F FE10-FE19 FE30-FE52 FE54-FE61 FE63 FE68 FE6A-FE6B "
    "FF01-FF03 FF05-FF0A FF0C-FF0F FF1A-FF1B FF1F-FF20 FF3B-FF3D FF3F FF5B FF5D FF5F-FF65 10100-10102 1039F 103D0 "
    "1056F 10857 1091F 1093F 10A50-10A58 10A7F 10AF0-10AF6 10B39-10B3F 10B99-10B9C 11047-1104D 110BB-110BC "
    "110BE-110C1 11140-11143 11174-11175 111C5-111C9 111CD 111DB 111DD-111DF 11238-1123D 112A9 114C6 115C1-115D7 "
    "11641-11643 1173C-1173E 12470-12474 16A6E-16A6F 16AF5 16B37-16B3B 16B44 1BC9F 1DA87-1DA8B"
)


def digits() -> set[int]:
    """Give the code points that Digits cuts out."""
    return {*np.flatnonzero(all_classes(load_class_table()) & NUMBER).tolist(), *NEWER_DIGITS}


def punctuation() -> set[int]:
    """Give the code points that Punctuation cuts out."""
    ends = (one.split("-") for one in PUNCTUATION.split())
    return {point for one in ends for point in range(int(one[0], 16), int(one[-1], 16) + 1)}


def as_set(points: Iterable[int]) -> str:
    """Give a set of a pattern that matches these code points."""
    members = "".join(f"\\U{first:08X}-\\U{last:08X}" for first, last in ranges(points))
    return f"[{members}]"


def ranges(points: Iterable[int]) -> list[tuple[int, int]]:
    """Give the first and last of each run of neighbours.

    >>> ranges([7, 5, 6, 9])
    [(5, 7), (9, 9)]
    """
    runs = [
        [point for _, point in run] for _, run in itertools.groupby(enumerate(sorted(points)), lambda i: i[1] - i[0])
    ]
    return [(run[0], run[-1]) for run in runs]


def with_newer_digits() -> npt.NDArray[np.uint8]:
    """Give the class table with the newer numbers in it, for splits that begin with Digits."""
    table = load_class_table().copy()
    for point in NEWER_DIGITS:
        table[STAGE1_SIZE + (int(table[point >> 8]) << 8) + (point & 0xFF)] = NUMBER
    return table
