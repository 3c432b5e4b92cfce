"""The pre-tokenizer of a tokenizer.json: to the split kernel that gives the same pieces, or on request to slow stages.

Invariant: a kernel is taken only where the whole pre-tokenizer is known by its exact text; what is not known is refused
by name, with the way out.

    >>> plan_of(Node({"type": "ByteLevel", "add_prefix_space": True, "use_regex": True}, "tokenizer.json")).prefix_space
    True
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from numbatok.alphabet import to_bytes
from numbatok.characters import as_set, digits, punctuation, with_newer_digits
from numbatok.fields import Node
from numbatok.front import Pieces
from numbatok.pieces import Spans, Stage, checked_spans, read_otherwise, run_stages, set_spans, spell_stage, split_stage
from numbatok.split.patterns import AS_ONE_PIECE, DIGITS_THEN_GPT2, GPT2_PATTERNS, Split, split_of

STAGES = "ByteLevel, Split, Digits, Punctuation and Sequence"
SLOW = "from_huggingface(..., slow_split=True) splits exactly, by the regex package, some ten times slower"


class Plan(NamedTuple):
    """How text is split: by a kernel, or by slow pieces (then the kernel takes each piece as a whole).

    Attributes:
        split: the kernel and its parameters.
        pattern: its pattern, where there is a single one.
        prefix_space: whether each part of a text starts with a space.
        pieces: the slow split.
        classes: the class table that the kernel reads, where it is not the pinned one.

    """

    split: Split
    pattern: str = ""
    prefix_space: bool = False
    pieces: Pieces | None = None
    classes: npt.NDArray[np.uint8] | None = None


def plan_of(node: Node, slow_split: bool = False) -> Plan:
    """Give the way to split that a pre-tokenizer means.

    Raises:
        ValueError: it is not byte-level, or not known and ``slow_split`` is not set.

    """
    steps = list(_flat(node))
    if sum(step.text("type") == "ByteLevel" for step in steps) != 1:
        found = ", ".join(step.text("type") for step in steps) or "nothing"
        raise node.refused(
            f"one ByteLevel is expected, and {found} was met; byte-level BPE alone is supported, "
            "not SentencePiece's (Metaspace), WordPiece or Unigram"
        )
    plan = _kernel_plan(steps)
    if plan is None and not slow_split:
        raise _unknown(node, steps)
    if plan is None:
        plan = Plan(AS_ONE_PIECE, pieces=functools.partial(_pieces, list(map(_stage, steps))))
    return plan


def _flat(node: Node) -> Iterator[Node]:
    """Give the steps of a pre-tokenizer, those of a Sequence one by one."""
    if node.value is None:
        return
    if node.text("type") == "Sequence":
        for step in node.node("pretokenizers").items():
            yield from _flat(step)
    else:
        yield node


def _kernel_plan(steps: list[Node]) -> Plan | None:
    """Give the plan of a kernel, if the steps are splits that end in ByteLevel, and known; else None."""
    *before, last = steps
    if last.text("type") != "ByteLevel":
        return None
    prefix_space = last.flag("add_prefix_space", True)
    if last.flag("use_regex", True):
        if not before:
            return Plan(split_of(GPT2_PATTERNS[0]), GPT2_PATTERNS[0], prefix_space)
        alone = len(before) == 1 and before[0].text("type") == "Digits" and before[0].flag("individual_digits")
        return Plan(DIGITS_THEN_GPT2, classes=with_newer_digits()) if alone and not prefix_space else None
    if not before:
        return Plan(AS_ONE_PIECE, prefix_space=prefix_space)
    patterns = [_isolated_pattern(step) for step in before]
    if prefix_space or None in patterns:
        return None
    try:
        return Plan(split_of(tuple(patterns)), patterns[0] if len(patterns) == 1 else "")  # type: ignore
    except ValueError:
        return None


def _isolated_pattern(step: Node) -> str | None:
    """Give the pattern of a plain Split that both engines read alike, or None."""
    if step.text("type") != "Split" or step.text("behavior") != "Isolated" or step.flag("invert", False):
        return None
    pattern = step.node("pattern").text("Regex", "")
    return None if read_otherwise(pattern) else pattern


def _unknown(node: Node, steps: list[Node]) -> ValueError:
    patterns = [step.node("pattern").text("Regex", "") for step in steps if step.text("type") == "Split"]
    try:
        split_of(tuple(patterns))
        known = "this combination has none"
    except ValueError as error:
        known = str(error)
    names = ", ".join(step.text("type") for step in steps)
    return node.refused(f"there is no split kernel for {names}: {known}. {SLOW}")


def _stage(step: Node) -> Stage:
    """Give the slow stage of one step."""
    kind, owner = step.text("type"), f"{step.file}: {step.path}"
    if kind == "ByteLevel":
        return spell_stage(step.flag("add_prefix_space", True), step.flag("use_regex", True))
    if kind == "Digits":
        behavior = "Isolated" if step.flag("individual_digits", False) else "Contiguous"
        return split_stage(set_spans(as_set(digits())), behavior, False, owner)
    if kind == "Punctuation":
        return split_stage(set_spans(as_set(punctuation())), step.text("behavior", "Isolated"), False, owner)
    if kind == "Split":
        return split_stage(_spans(step, owner), step.text("behavior"), step.flag("invert", False), owner)
    raise step.refused(f"the pre-tokenizer {kind!r} is not supported; {STAGES} are")


def _spans(step: Node, owner: str) -> Spans:
    """Give what finds the pattern of a Split, be it a text or a regular expression."""
    pattern = step.node("pattern")
    if "String" in pattern.of(dict):
        text = pattern.text("String")
        return set_spans(re.escape(text)) if text else lambda _: iter(())
    return checked_spans(pattern.text("Regex"), owner)


def _pieces(stages: list[Stage], text: str) -> list[bytes]:
    spelled = run_stages(stages, text)
    return [to_bytes(piece) or piece.encode() for piece in spelled]
