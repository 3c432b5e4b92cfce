r"""Merging a long piece by windows that overlap, in time that grows with its length.

Call a merge that would join a symbol before a border with one behind it a crossing. As long as no crossing is made, the
parts between borders do not know of each other: whichever part has the lowest rank goes on, and in each part the same
merges follow each other as if it were alone. So if no crossing is ever made at a border, the tokens on each side of it
are those of merging that side alone; and the other way round.

Let a text be P X S, and merge the windows P X and X S by themselves, or larger ones, A = P X A' and B = B' X S, whose
tokens have borders on both sides of X. Then the whole text merges to the tokens of A before X, and from X on to those
of B.

Proof. No crossing is ever made at these borders in A nor in B. As long as none was made in the whole, whether one at
P|X is made is decided by P and X, which have done the same merges as in A, where it was not made; and one at X|S by X
and S, as in B. Hence none is made: whichever came first in the whole would have been made in A or in B. It does not
matter what A' and B' are, nor that they are empty, and X may be one token or several. This needs nothing of the
vocabulary, and ties (the leftmost goes first) change nothing, since positions are ordered alike in a window and in the
whole.

So what is known is always: the piece, up to the end of some window, merges to some tokens and those of the window. A
new window B goes beyond. The text that is known takes the place of A, the new window ends it, and B must have two
borders in common with the tokens of the last window. B begins

* at distances chosen beforehand. Such windows need not wait for each other and are merged by turns (spread.py). What
  their first tokens are is left open, nothing depends on it;
* if one of these has no two borders in common with what is known: at one of the last tokens, so that B' is empty, and
  must have this token as its first. Where no such window is found, the last one is merged again in a larger one. That
  may begin with another token than the one on which it was joined to the window before it: then nothing was proved, and
  the piece is merged from its start by larger windows.

If two windows are the same bytes, what was found from the first to the second one is found again behind the second, as
long as the text repeats itself.

Invariant: the ids are those of merging the piece in one go. Windows are remembered in the ring, so that what comes
again is merged once.

    >>> from numbatok import get_encoding
    >>> len(get_encoding("gpt2").encode_ordinary("a" * 1_000_000))
    250000
"""

from __future__ import annotations

import numpy as np

from numbatok._jit import kernel
from numbatok._llvm import copy16, load8, load32, load64, store32, trailing_zeros
from numbatok.cache import SHORT_KEY
from numbatok.merge import LONG_SCRATCH, SHORT_LIMIT, merge_long, merge_short
from numbatok.ring import (
    LONG_KEY,
    WINDOW,
    copy_ids,
    copy_words,
    enter_long,
    find_record,
    finder_line,
    long_digest,
    next_key,
)
from numbatok.spread import (
    OVERLAP,
    bytes_of_last,
    character_start,
    comes_again,
    first_behind,
    fitting_overlap,
    join_lanes,
    merge_lanes,
)

U0, U1, U3, U4, U8, U16 = (np.uint64(value) for value in (0, 1, 3, 4, 8, 16))
MIDDLE, GROWTH = np.uint64(192), np.uint64(4)
"""A window has SHORT_LIMIT bytes; where that is too small MIDDLE, then LONG_KEY, then four times those before."""
LEAST_DROPPED, MOST_DROPPED = np.uint64(2), np.uint64(8)
"""Tokens at the end of a window that are merged again with what follows: 2, then 4, then 8."""
WINDOW_SCRATCH = LONG_SCRATCH + 5
"""Bytes of scratch for each byte of a window: to merge it, and for its ids and some more."""
WINDOW_BYTES, MERGE_BYTES = np.uint64(WINDOW_SCRATCH), np.uint64(LONG_SCRATCH)
STEPS_BACK = np.uint64(8)
"""Windows for which one is kept in mind as the earlier one."""
TOO_LONG = np.uint64(0xFFFFFFFFFFFFFFFF)


@kernel
def merge_window(w, t, at, width, ids):
    """Merge a window by itself; writes its ids and gives their number, or TOO_LONG for the scratch memory."""
    if width > SHORT_LIMIT and width > most_merged(w):
        return TOO_LONG
    if width > LONG_KEY:
        return merge_long(t, at, width, w.scratch, ids)
    if width <= SHORT_KEY:
        return merge_short(t, at, width, w.scratch, ids)
    digest = long_digest(at, width)
    line = finder_line(w, digest)
    found, count = find_record(w, line, digest, at, width, WINDOW)
    if count:
        copy_ids(ids, found, count)
        return count
    key = next_key(w)
    copy_words(key, at, width)
    if width <= SHORT_LIMIT:
        count = merge_short(t, key, width, w.scratch, ids)
    else:
        count = merge_long(t, key, width, w.scratch, ids)
    enter_long(w, line, digest, width, WINDOW, ids, count)
    return count


@kernel
def most_merged(w):
    """Give the bytes of the largest window that the scratch memory takes."""
    return w.scratch_size // WINDOW_BYTES


@kernel
def larger(width):
    """Give the width of the next larger window."""
    if width < MIDDLE:
        return MIDDLE
    return LONG_KEY if width < LONG_KEY else width * GROWTH


@kernel
def go_on(w, t, at, width, least, stop, ids, count, more):
    """Merge a window that begins with one of the last tokens of the window ``at .. at + width``, whose ids are given.

    Gives how many of these tokens stay, where the new window is, its width and the number of its ids, which go to
    ``more``; 0 stay if no window was found that begins with the token that it should.
    """
    dropped = LEAST_DROPPED
    while dropped <= MOST_DROPPED and dropped < count:
        again = bytes_of_last(t, ids, count, dropped)
        start = at + width - again
        wide = min(least if again + again < least else max(width, least), stop - start)
        made = merge_window(w, t, start, wide, more)
        if made == TOO_LONG or load32(more) == load32(ids + (count - dropped) * U4):
            return count - dropped, start, wide, made
        dropped += dropped
    return U0, at, width, count


@kernel
def same_bytes_behind(at, distance, stop):
    """Give the number of bytes from ``at`` on that are the same ``distance`` behind, up to ``stop``."""
    first, last = at, stop - distance
    while at + U8 <= last:
        differ = load64(at) ^ load64(at + distance)
        if differ:
            return at - first + (trailing_zeros(differ) >> U3)
        at += U8
    while at < last and load8(at) == load8(at + distance):
        at += U1
    return at - first


@kernel
def repeat_ids(target, period, count):
    """Write ``count`` ids, each the one that is ``period`` before it (up to three more are written)."""
    near, far, singly = target - period * U4, target - period * U16, min(count, U3 * period)
    for index in range(singly):
        store32(target + index * U4, load32(near + index * U4))
    for index in range(singly, count, U4):  # four at a time, from so far before that they are there
        copy16(target + index * U4, far + index * U4)


@kernel
def step_on(w, t, start, at, wide, least, stop, made, total, out, keep):
    """Merge a window that begins at a token, or a larger one in place of the last one, or start over.

    Gives where the window is, its width, the least width from now on, the number of its ids and of those before it.
    """
    ids, more = out + (total & keep) * U4, w.scratch + most_merged(w) * MERGE_BYTES
    if made:
        stay, at, wide, count = go_on(w, t, at, wide, least, stop, ids, made, more)
        if stay:
            total += stay
            if count != TOO_LONG:
                copy_ids(out + (total & keep) * U4, more, count)
            return at, wide, least, count, total
        first, wide = load32(ids), min(larger(wide), stop - at)
        made = merge_window(w, t, at, wide, ids)
        if total == U0 or made == TOO_LONG or load32(ids) == first:
            return at, wide, least, made, total
        least, at, total = larger(least), start, U0  # the tokens before were joined to another one
    wide = min(least, stop - at)
    return at, wide, least, merge_window(w, t, at, wide, out), total


@kernel
def repeat_window(w, earlier, at, wide, made, total, period, stop, out, keep):
    """Go on from a window that is the same bytes as an ``earlier`` one, ``period`` ids before, as far as that repeats.

    Gives the place of the last such window, and the number of ids before it.
    """
    distance = at - earlier
    same = same_bytes_behind(earlier, distance, stop)
    if same < wide + distance:
        return at, total
    times = (same - wide) // distance
    if keep:
        ids, more = out + total * U4, w.scratch + most_merged(w) * MERGE_BYTES
        copy_ids(more, ids, made)
        repeat_ids(ids, period, times * period)
        copy_ids(ids + times * period * U4, more, made)
    return at + times * distance, total + times * period


@kernel
def merge_by_windows(w, t, at, width, out, keep):
    """Merge a piece above SHORT_LIMIT bytes; writes its ids to ``out`` and gives their number.

    ``keep`` is all ones to write the ids one after the other, 0 to write over the same place again (to count only).
    Contract: ``out`` takes ``width`` ids and three more, or those of the largest window. Gives TOO_LONG, and in the
    record the width of the window, if one was met that the scratch memory does not take.
    """
    start, stop, wide, least, made, total = at, at + width, U0, SHORT_LIMIT, U0, U0
    lane, lanes, overlap, steps = U0, U0, OVERLAP, U0
    earlier, earlier_wide, earlier_total = at, U0, U0
    while at + wide < stop and made != TOO_LONG:
        if least == SHORT_LIMIT:
            lane = first_behind(w, lane, lanes, at + wide)
            if lane == lanes:
                lane, lanes = U0, U0
                first = character_start(at + wide - overlap) if made else at
                if not comes_again(first, stop):
                    lanes = merge_lanes(w, t, first, stop, SHORT_LIMIT - overlap)
                    overlap = fitting_overlap(w)
            if lane < lanes:
                before = lane
                lane, at, wide, made, total = join_lanes(w, t, lane, lanes, at, wide, made, total, out, keep)
                if lane > before:
                    steps = U0
                    continue
        at, wide, least, made, total = step_on(w, t, start, at, wide, least, stop, made, total, out, keep)
        if steps and wide == earlier_wide and at > earlier and made != TOO_LONG:
            period = total - earlier_total
            at, total = repeat_window(w, earlier, at, wide, made, total, period, stop, out, keep)
        if steps % STEPS_BACK == U0 or at <= earlier:
            earlier, earlier_wide, earlier_total = at, wide, total
        steps += U1
    if made == TOO_LONG:
        w.needed = wide
        return TOO_LONG
    return total + made
