"""Small models and splits for tests.

toy_model([ord("a")], [ord("b")], [256])  # 256 bytes, and "ab"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from numbatok.bpe import Merges, Model
from numbatok.split.patterns import GPT2_PATTERNS, Split, split_of

GPT2 = split_of(GPT2_PATTERNS[0])


def toy_model(
    lefts: Sequence[int], rights: Sequence[int], merged: Sequence[int], specials: Mapping[str, int] | None = None
) -> Model:
    """Build a model of the 256 bytes (id = byte) and merges in rank order, with the GPT-2 split."""
    ranks = np.arange(len(merged), dtype=np.uint32)
    merges = Merges(np.asarray(lefts, np.uint32), np.asarray(rights, np.uint32), ranks, np.asarray(merged, np.uint32))
    return Model.from_merges(np.arange(256, dtype=np.uint8), merges, specials or {}, GPT2)


def split_model(split: Split) -> Model:
    """Build a model of the 256 bytes and no merge, to look at a split alone."""
    none = np.empty(0, np.uint32)
    return Model.from_merges(np.arange(256, dtype=np.uint8), Merges(none, none, none, none), {}, split)
