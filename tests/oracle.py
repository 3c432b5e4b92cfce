"""The oracle: GPT-2's split by a regular expression and byte-pair merging by the book, sharing no code with numbatok.

Invariant: nothing here imports numbatok, and nothing here is clever. A reader can check each function by eye, so a
difference between the oracle and the package is a bug of the package. `tiktoken_encoding` adds a second, faster opinion
built from the same ranks without any network.

    >>> split("It's 12  o'clock")
    ['It', "'s", ' 12', ' ', ' o', "'", 'clock']
    >>> merge(b"aab", {b"a": 0, b"b": 1, b"ab": 2})
    [0, 2]

Known limit: the Unicode version. tiktoken 0.14 classifies by Unicode 16.0, while the `regex` package follows newer
tables: 2026.11 knows letters and numbers of Unicode 17 and later that are unassigned, hence "other", in 16.0.
`NEWER_UNICODE` lists all 17,480 of them in 52 ranges (17,144 became letters, 336 numbers; whitespace is the same in
both; nothing changed from one class to another). Outside these ranges the two agree on every code point, which a
test checks. So a test over all code points takes tiktoken as its reference; others may ask `comparable`.
"""

import base64
import itertools
from pathlib import Path

import regex
import tiktoken

# The pattern as GPT-2 was released with. Greedy and backtracking, so nothing depends on possessive quantifiers.
GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

# The form that tiktoken runs. Equal to the above piece by piece; possessive, so that it needs no backtracking stack.
TIKTOKEN_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"

# fmt: off
# First and last code point of each range whose class (letter, number, space, other) is not the one of Unicode 16.0.
NEWER_UNICODE: tuple[tuple[int, int], ...] = (
    (0x558, 0x558), (0x58B, 0x58C), (0x88F, 0x88F), (0xC5C, 0xC5C), (0xCDC, 0xCDC),
    (0x208F, 0x208F), (0x209D, 0x209F), (0xA7CE, 0xA7CF), (0xA7D2, 0xA7D2), (0xA7D4, 0xA7D4),
    (0xA7DD, 0xA7DD), (0xA7E2, 0xA7E2), (0xA7F1, 0xA7F1), (0xAB6C, 0xAB6D), (0x107BB, 0x107BF),
    (0x10940, 0x10959), (0x10EC5, 0x10EC7), (0x10ED9, 0x10EEE), (0x11B0A, 0x11B0A), (0x11DB0, 0x11DDB),
    (0x11DE0, 0x11DE9), (0x11DF1, 0x11DF1), (0x1246F, 0x1246F), (0x12475, 0x1247F), (0x12550, 0x12686),
    (0x16EA0, 0x16EB8), (0x16EBB, 0x16ED3), (0x16FF2, 0x16FF6), (0x187F8, 0x187FF), (0x18CD6, 0x18CDA),
    (0x18D09, 0x18D20), (0x18D80, 0x18DF2), (0x18E00, 0x19191), (0x191A0, 0x191D2), (0x1B123, 0x1B128),
    (0x1B168, 0x1B168), (0x1D6A6, 0x1D6A6), (0x1DF1F, 0x1DF24), (0x1DF2B, 0x1DF81), (0x1DF90, 0x1DF96),
    (0x1DFCD, 0x1DFFF), (0x1E6C0, 0x1E6DE), (0x1E6E0, 0x1E6E2), (0x1E6E4, 0x1E6E5), (0x1E6E7, 0x1E6ED),
    (0x1E6F0, 0x1E6F4), (0x1E6FE, 0x1E6FF), (0x2B73A, 0x2B73F), (0x2B81E, 0x2B81E), (0x2CEA2, 0x2CEAD),
    (0x323B0, 0x33479), (0x3D000, 0x3FC3F),
)
# fmt: on

_PIECES = regex.compile(GPT2_PATTERN)
_NEWER = regex.compile("[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in NEWER_UNICODE) + "]")


def comparable(text: str) -> bool:
    """Tell whether `split` may be compared with Unicode 16.0: the text holds no code point of `NEWER_UNICODE`.

    >>> comparable("plain"), comparable(chr(0x10940))
    (True, False)
    """
    return _NEWER.search(text) is None


def repair(text: str) -> str:
    """Join surrogate halves that form a pair and turn each other half into U+FFFD, so that the text has a UTF-8 form.

    >>> repair(chr(0xD83D) + chr(0xDC4D) + chr(0xD83D)) == chr(0x1F44D) + chr(0xFFFD)
    True
    """
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def split(text: str) -> list[str]:
    """Cut text into the pieces of the GPT-2 pattern; joined they give the text back.

    >>> split("we'll  go")
    ['we', "'ll", ' ', ' go']
    """
    return [match.group() for match in _PIECES.finditer(text)]


def merge(piece: bytes, ranks: dict[bytes, int]) -> list[int]:
    """Merge one piece: the adjacent pair of lowest rank, the leftmost of equals, one merge a round, until none is left.

    Quadratic on purpose (short is clear); keep pieces below a few thousand bytes.

    >>> merge(b"aaa", {b"a": 0, b"aa": 1})
    [1, 0]
    """
    parts = [piece[i : i + 1] for i in range(len(piece))]
    while True:
        candidates = [
            (ranks[left + right], i)
            for i, (left, right) in enumerate(itertools.pairwise(parts))
            if left + right in ranks
        ]
        if not candidates:
            return [ranks[part] for part in parts]
        _, i = min(candidates)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]


def merge_pairs(piece: bytes, pairs: dict[tuple[bytes, bytes], int], ids: dict[bytes, int]) -> list[int]:
    """Merge one piece as `merge` does, by the ranks of listed pairs: two neighbours that are not listed stay apart.

    >>> merge_pairs(b"abc", {(b"b", b"c"): 0}, {b"a": 0, b"b": 1, b"c": 2, b"ab": 3, b"bc": 4})
    [0, 4]
    """
    parts = [piece[i : i + 1] for i in range(len(piece))]
    while candidates := [(pairs[pair], i) for i, pair in enumerate(itertools.pairwise(parts)) if pair in pairs]:
        _, i = min(candidates)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return [ids[part] for part in parts]


def merge_list(ids: list[int], merges: dict[tuple[int, int], tuple[int, int]]) -> list[int]:
    """Merge ids as `merge` does, by a list of merges in any order: pair of ids -> its rank, and the id that it makes.

    >>> merge_list([1, 2, 2], {(2, 2): (5, 9), (1, 2): (7, 8)})
    [1, 9]
    """
    ids = list(ids)
    while candidates := [(merges[pair][0], i) for i, pair in enumerate(itertools.pairwise(ids)) if pair in merges]:
        _, i = min(candidates)
        ids[i : i + 2] = [merges[ids[i], ids[i + 1]][1]]
    return ids


def encode(text: str, ranks: dict[bytes, int]) -> list[int]:
    """Encode text without special tokens: split, then merge each piece.

    >>> encode("a a", {b"a": 0, b" ": 1, b" a": 2})
    [0, 2]
    """
    return [token for piece in split(repair(text)) for token in merge(piece.encode("utf-8"), ranks)]


def tiktoken_encoding(ranks: dict[bytes, int], specials: dict[str, int]) -> tiktoken.Encoding:
    """Build tiktoken's encoder for the GPT-2 family from ranks at hand: the reference, without a download."""
    return tiktoken.Encoding("oracle", pat_str=TIKTOKEN_PATTERN, mergeable_ranks=ranks, special_tokens=specials)


def read_tiktoken(path_or_bytes: str | Path | bytes) -> dict[bytes, int]:
    """Read a `.tiktoken` file, or its content: one token a line, base64, a blank, its rank.

    >>> read_tiktoken(b"IQ== 0\\nIg== 1\\n")
    {b'!': 0, b'"': 1}
    """
    content = path_or_bytes if isinstance(path_or_bytes, bytes) else Path(path_or_bytes).read_bytes()
    pairs = (line.split() for line in content.splitlines() if line)
    return {base64.b64decode(token, validate=True): int(rank) for token, rank in pairs}


def train(
    words: dict[bytes, int],
    merges: int,
    *,
    least: int = 1,
    longest: int | None = None,
    order: bytes = bytes(range(256)),
) -> list[tuple[bytes, bytes]]:
    """Learn merges as a reader would do it by hand: count all pairs anew for each merge; gives the pairs as bytes.

    The highest count comes first, of equal counts the pair with the smaller ids, left one first. Overlapping pairs
    count each ("aaa" has "a a" twice), and a run is merged from its left end. `order` has the bytes in the order of
    their ids; pairs below the count `least`, or of more than `longest` bytes together, are not merged.

    >>> train({b"aaabdaaabac": 1}, 3)
    [(b'a', b'a'), (b'a', b'b'), (b'aa', b'ab')]
    """
    rows = [([order.index(byte) for byte in word], count) for word, count in words.items()]
    tokens = [bytes([byte]) for byte in order]
    made: list[tuple[bytes, bytes]] = []
    for new in range(256, 256 + merges):
        counts: dict[tuple[int, int], int] = {}
        for ids, count in rows:
            for pair in itertools.pairwise(ids):
                counts[pair] = counts.get(pair, 0) + count
        fit = [pair for pair in counts if longest is None or len(tokens[pair[0]]) + len(tokens[pair[1]]) <= longest]
        best = min(fit, key=lambda pair: (-counts[pair], pair), default=None)
        if best is None or counts[best] < least:
            break
        made.append((tokens[best[0]], tokens[best[1]]))
        tokens.append(tokens[best[0]] + tokens[best[1]])
        for ids, _ in rows:
            at = 0
            while at + 1 < len(ids):
                if (ids[at], ids[at + 1]) == best:
                    ids[at : at + 2] = [new]
                at += 1
    return made


def count_pieces(texts: list[str], pattern: str = GPT2_PATTERN) -> dict[bytes, int]:
    """Count the pieces of texts, split by any pattern that the `regex` package reads.

    >>> count_pieces(["to the", " the"])
    {b'to': 1, b' the': 2}
    """
    counts: dict[bytes, int] = {}
    for text in texts:
        for match in regex.finditer(pattern, text):
            piece = match.group().encode()
            counts[piece] = counts.get(piece, 0) + 1
    return counts
