r"""The normalizers of a tokenizer.json that are exact here; every other one is refused by name.

NFC, NFD, NFKC and NFKD in ``tokenizers`` follow Unicode 9.0. The standard promises that the normal form of a text never
changes once its characters are assigned, so the ``unicodedata`` of any newer Python gives the same, except for
characters that came later: to the older version they are nothing special, and nothing combines with them. The text is
cut around those, and what lies between is normalized (Unicode Standard Annex 15, "Stability of Normalized Forms").

Invariant: ASCII text comes back from the four forms as it is.

    >>> normalize = normalizer_of(Node({"type": "NFC"}, "tokenizer.json"))
    >>> normalize("cafe\u0301") == "caf\u00e9"
    True
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from numbatok.added import Normalize
from numbatok.fields import Node
from numbatok.unicode import WHITE_SPACE

NEWER = (
    "558 58B-58C 5C8-5C9 7FD 897-89F 8CA-8D3 9FE C3C D3B-D3C EBA 1715 1ABF-1AF0 1DF6-1DFA 209D-209F 32FF A7F1-A7F4 "
    "A82C AB69 105C9 105D2 105DA 105E4 10781-10785 10787-107B0 107B2-107BF 10D24-10D27 10D69-10D6D 10EAB-10EAC "
    "10ECB-10ECF 10EF0-10EFB 10EFD-10EFF 10F46-10F50 10F82-10F85 11070 1133B 11382-11385 1138B 1138E 11390-11391 "
    "113B8 113BB 113C2 113C5 113C7-113C9 113CE-113D0 1145E 11839-1183A 11930 11935 11938 1193D-1193E 11943 119E0 "
    "11A34 11A47 11A99 11D42 11D44-11D45 11D97 11F41-11F42 1611E-16129 1612F 16D63 16D67-16D6A 16FF0-16FF1 "
    "1B123-1B126 1CCD6-1CCF9 1D127-1D128 1D250-1D252 1D25B-1D25C 1D25F 1D280-1D281 1D6A6 1DF95 1DFCD-1DFFF "
    "1E030-1E06D 1E08F 1E130-1E136 1E2AE 1E2EC-1E2EF 1E4EC-1E4EF 1E5EE-1E5EF 1E6E3 1E6E6 1E6EE-1E6EF 1E6F5 1F16C "
    "1FBF0-1FBF9"
)
"""Code points after Unicode 9.0, up to 18.0, that a normal form changes, moves or combines."""

Form = Literal["NFC", "NFD", "NFKC", "NFKD"]
FORMS: tuple[Form, ...] = get_args(Form)
SUPPORTED = ", ".join((*FORMS, "Sequence", "Replace (of a String)", "Prepend", "Strip"))


def normalizer_of(node: Node) -> Normalize | None:
    """Give the function that a normalizer of a tokenizer.json means; None for null.

    Raises:
        ValueError: a normalizer that is not supported, or that is not well formed.

    """
    if node.value is None:
        return None
    kind = node.text("type")
    for form in FORMS:
        if kind == form:
            return functools.partial(to_form, form)
    if kind == "Sequence":
        steps = [step for step in map(normalizer_of, node.node("normalizers").items()) if step]
        return functools.partial(_in_turn, steps) if steps else None
    if kind == "Replace":
        if "String" not in node.node("pattern").of(dict):
            raise node.node("pattern").refused(
                "the replacement of a regular expression is not supported; of a String is"
            )
        if not (old := node.node("pattern").text("String")):
            raise node.node("pattern").refused("the replacement of the empty text is not supported")
        return functools.partial(_replace, old, node.text("content"))
    if kind == "Prepend":
        return functools.partial(_prepend, node.text("prepend"))
    if kind == "Strip":
        return functools.partial(_strip, node.flag("strip_left"), node.flag("strip_right"))
    raise node.refused(f"the normalizer {kind!r} is not supported, since its ids would not be certain; {SUPPORTED} are")


def to_form(form: Form, text: str) -> str:
    """Give the normal form of a text, as Unicode 9.0 has it.

    What is normalized by newer rules is by the older ones, too: every part of a normalized text is.
    """
    if text.isascii() or unicodedata.is_normalized(form, text):
        return text
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    if not _is_newer()[points].any():  # the search below takes 50 times longer
        return unicodedata.normalize(form, text)
    parts = re.split(f"([{''.join(map('-'.join, _ranges()))}])", text)
    parts[::2] = [unicodedata.normalize(form, part) for part in parts[::2]]
    return "".join(parts)


def _ranges() -> list[tuple[str, str]]:
    """Give the first and last characters of the ranges of NEWER."""
    ends = (one.split("-") for one in NEWER.split())
    return [(chr(int(one[0], 16)), chr(int(one[-1], 16))) for one in ends]


@functools.cache
def _is_newer() -> npt.NDArray[np.bool_]:
    """Give a table over all code points: whether it is one of NEWER."""
    table = np.zeros(0x110000, np.bool_)
    for first, last in _ranges():
        table[ord(first) : ord(last) + 1] = True
    return table


def _in_turn(steps: Iterable[Callable[[str], str]], text: str) -> str:
    for step in steps:
        text = step(text)
    return text


def _replace(old: str, new: str, text: str) -> str:
    return text.replace(old, new)


def _prepend(start: str, text: str) -> str:
    return start + text if text else text


def _strip(left: bool, right: bool, text: str) -> str:
    if left:
        text = text.lstrip(WHITE_SPACE)
    return text.rstrip(WHITE_SPACE) if right else text
