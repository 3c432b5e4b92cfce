"""The merges of a vocabulary as one list, the way text files hold them: a pair, then the next one.

Rank files know no merges: any two neighbours that together are a token may become it, and a piece that is a token is
that token. Where such a vocabulary can be said as a list, the list is found here.

Invariant: merging by the list, lowest place first, gives the ids that the vocabulary gives; or an error says why not.

    >>> last_pair(b"abc", 7, {b"a": 0, b"b": 1, b"c": 2, b"bc": 5, b"abc": 7})
    (b'a', b'bc')
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from numbatok.bpe import MISSING, Ids, Model


class Listing(NamedTuple):
    """Merges in the order in which they count.

    Attributes:
        lefts, rights, made: uint32[merges], the ids of the parts and of the result of each merge.
        whole: a piece that is a token is that token, before any merge is tried.

    """

    lefts: Ids
    rights: Ids
    made: Ids
    whole: bool

    @property
    def columns(self) -> Ids:
        """Left part, right part, rank and result, as a BPE1 file has them: uint32[4, merges]."""
        return np.stack((self.lefts, self.rights, np.arange(len(self.made), dtype=np.uint32), self.made))


def listed_merges(model: Model, ranks: Mapping[bytes, int], from_ranks: bool) -> Listing:
    """Give the merges of a model as a list.

    Args:
        model: the tables.
        ranks: its tokens that are not special, with their ids.
        from_ranks: the tables are known to be those that ranks make.

    Raises:
        ValueError: no list gives the same ids.

    """
    lefts, rights, places, merged = model.merges
    shared = len(np.unique(places)) < len(places)
    if not shared and not (from_ranks and model.whole):  # then fewer merges may do, and no look at whole pieces
        order = np.argsort(places)
        listing = Listing(lefts[order], rights[order], merged[places[order]], model.whole)
    elif from_ranks or made_from_ranks(model, ranks):
        pairs = canonical_merges(ranks)
        known = {bytes([byte]): MISSING + byte for byte in range(256)} | dict(ranks)
        rows = [(known[left], known[right], ranks[left + right]) for left, right in pairs]
        made = np.array(rows, np.uint32).reshape(-1, 3).T
        listing = Listing(made[0], made[1], made[2], len(pairs) < sum(len(token) > 1 for token in ranks))
    else:
        raise ValueError("several merges share a rank, and ranks alone do not make these merges: they cannot be listed")
    lost = np.concatenate((listing.lefts, listing.rights)) >= MISSING
    if lost.any():
        byte = int(np.concatenate((listing.lefts, listing.rights))[lost][0]) - MISSING
        raise ValueError(f"a merge takes the byte 0x{byte:02X}, which has no token: it cannot be listed")
    return listing


def made_from_ranks(model: Model, ranks: Mapping[bytes, int]) -> bool:
    """Tell whether the tables are those that ranks make, so that tiktoken gives the same ids."""
    if not model.whole:
        return False
    twin = Model.from_ranks(ranks, {}, model.split).merges
    rows = (np.stack((merges.lefts, merges.rights, merges.merged[merges.ranks])) for merges in (twin, model.merges))
    one, other = (some[:, np.lexsort(some)] for some in rows)
    return np.array_equal(one, other) and not np.any(np.diff(model.merges.merged.astype(np.int64)) < 0)


def unreached(model: Model, ranks: Mapping[bytes, int]) -> bytes | None:
    """Give a token that merging its bytes does not give, whole pieces not looked up; None if there is none."""
    lefts, rights, places, merged = (array.tolist() for array in model.merges)
    pairs = {(left, right): (place, merged[place]) for left, right, place in zip(lefts, rights, places, strict=True)}
    for token, rank in ranks.items():
        ids = model.byte_ids[list(token)].tolist()
        while found := [(pairs[pair], at) for at, pair in enumerate(itertools.pairwise(ids)) if pair in pairs]:
            (_, made), at = min(found)
            ids[at : at + 2] = [made]
        if ids != [rank]:
            return token
    return None


def canonical_merges(ranks: Mapping[bytes, int]) -> list[tuple[bytes, bytes]]:
    """Give for each token the two that its last merge joins, in the order of ranks; none for one that merging misses.

    These pairs are enough. When the turn of a token comes all lower ranks are used up, and no merge reached across the
    ends of what will be the token; so its bytes look as they do alone, before their last merge. No other pair that
    spells it can be there, nor later, for then it is a token already. That holds while no token is missed that could be
    spelled by a pair later on.

    Raises:
        ValueError: such a token is there.

    """
    pairs = []
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        pair = last_pair(token, rank, ranks) if len(token) > 1 else None
        if pair:
            pairs.append(pair)
        elif late := late_part(token, rank, ranks):
            raise ValueError(
                f"token {token!r} has rank {rank}, its part {late!r} the higher rank {ranks[late]}: "
                "no list of merges gives the same ids"
            )
    return pairs


def late_part(token: bytes, rank: int, ranks: Mapping[bytes, int]) -> bytes | None:
    """Give a part of two that make the token, if it is made by a merge of a higher rank than the token's own."""
    cuts = ((token[:cut], token[cut:]) for cut in range(1, len(token)))
    both = (pair for pair in cuts if pair[0] in ranks and pair[1] in ranks)
    return next((part for pair in both for part in pair if len(part) > 1 and ranks[part] > rank), None)


def last_pair(token: bytes, rank: int, ranks: Mapping[bytes, int]) -> tuple[bytes, bytes] | None:
    """Merge the bytes of a token by lower ranks than its own; gives the two parts that are left, None for more."""
    parts = [token[place : place + 1] for place in range(len(token))]
    while len(parts) > 2:
        best = min(
            (ranks.get(left + right, rank), place) for place, (left, right) in enumerate(itertools.pairwise(parts))
        )
        if best[0] >= rank:
            return None
        parts[best[1] : best[1] + 2] = [parts[best[1]] + parts[best[1] + 1]]
    return parts[0], parts[1]
