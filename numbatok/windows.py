r"""Merging a long piece by windows that overlap, in time that grows with its length.

Let a text be P X S. Merge the window P X by itself: if a token ends where P ends, let x be the token behind it. Merge
the window X S by itself: if its first token is x too, then the whole text merges to the tokens of P and those of X S.

Proof. Call a merge that would join a symbol before a border with one behind it a crossing. As long as no crossing is
made, the parts between borders do not know of each other: whichever part has the lowest rank goes on, and in each part
the same merges follow each other as if it were alone. So whether a crossing at the border P|x is made is decided by P
and the bytes of x, and at the border behind x by the bytes of x and what follows. In P X the first is never made, and x
comes out whole; in X S the second is not. Hence neither is made in P X S: whichever of the two were made first there
would have been made in its window too. This needs nothing of the vocabulary, and ties (the leftmost goes first) change
nothing, since positions are ordered alike in a window and in the whole.

A window that has to grow may begin with another token than the one on which it was joined to the window before it: then
nothing was proved, and the piece is merged from its start by larger windows.

Invariant: the ids are those of merging the piece in one go. Windows are remembered in the ring, so that what repeats
is merged once.

    >>> from numbatok import get_encoding
    >>> len(get_encoding("gpt2").encode_ordinary("a" * 1_000_000))
    250000
"""

from __future__ import annotations

import numpy as np

from numbatok._jit import kernel
from numbatok._llvm import load32
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

U0, U1, U4 = (np.uint64(value) for value in (0, 1, 4))
MIDDLE, GROWTH = np.uint64(192), np.uint64(4)
"""A window has SHORT_LIMIT bytes; where that is too small MIDDLE, then LONG_KEY, then four times those before."""
LEAST_DROPPED, MOST_DROPPED = np.uint64(2), np.uint64(8)
"""Tokens at the end of a window that are merged again with what follows: 2, then 4, then 8."""
WINDOW_SCRATCH = LONG_SCRATCH + 5
"""Bytes of scratch for each byte of a window: to merge it, and for its ids and some more."""
WINDOW_BYTES, MERGE_BYTES = np.uint64(WINDOW_SCRATCH), np.uint64(LONG_SCRATCH)
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
    if width == SHORT_LIMIT:
        return MIDDLE
    return LONG_KEY if width == MIDDLE else width * GROWTH


@kernel
def bytes_of_last(t, ids, count, dropped):
    """Give the number of bytes of the last ``dropped`` of ``count`` ids; an id without bytes stands for a byte."""
    width = U0
    for index in range(count - dropped, count):
        token = load32(ids + index * U4)
        if token < t.ids:
            width += load32(t.starts + token * U4 + U4) - load32(t.starts + token * U4)
        else:
            width += U1
    return width


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
        wide = min(least if again + again < least else width, stop - start)
        made = merge_window(w, t, start, wide, more)
        if made == TOO_LONG or load32(more) == load32(ids + (count - dropped) * U4):
            return count - dropped, start, wide, made
        dropped += dropped
    return U0, at, width, count


@kernel
def merge_by_windows(w, t, at, width, out, keep):
    """Merge a piece above SHORT_LIMIT bytes; writes its ids to ``out`` and gives their number.

    ``keep`` is all ones to write the ids one after the other, 0 to write over the same place again (to count only).
    Contract: ``out`` takes ``width`` ids and three more, or those of the largest window. Gives TOO_LONG, and in the
    record the width of the window, if one was met that the scratch memory does not take.
    """
    more, start, stop, total = w.scratch + most_merged(w) * MERGE_BYTES, at, at + width, U0
    least = wide = SHORT_LIMIT
    made = merge_window(w, t, at, wide, out)
    while at + wide < stop and made != TOO_LONG:
        ids = out + (total & keep) * U4
        stay, at, wide, count = go_on(w, t, at, wide, least, stop, ids, made, more)
        if stay:
            total += stay
            made = count
            if count != TOO_LONG:
                copy_ids(out + (total & keep) * U4, more, count)
            continue
        first, wide = load32(ids), min(larger(wide), stop - at)
        made = merge_window(w, t, at, wide, ids)
        if total and made != TOO_LONG and load32(ids) != first:  # the tokens before were joined to another one
            least, at, total = larger(least), start, U0
            wide = min(least, width)
            made = merge_window(w, t, at, wide, out)
    if made == TOO_LONG:
        w.needed = wide
        return TOO_LONG
    return total + made
