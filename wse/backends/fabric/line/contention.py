"""Contention: words of several messages over one link, or one ramp, in one window, and how long each waits for others.

A link and a ramp carry a word a cycle. The delay of one stream is computed in these steps:

1. Words on one colour do not take turns: switches let one stream pass behind the other, which waits until its last word
   has passed (`wait_on_colour`).
2. Colours that want one link take it in turn, so while two streams are there each gets half of it: a stream is held up
   by every word that another brings in the time that both are there, which is the smaller of what each of them still
   has to bring when the later one comes (processor sharing). This holds at each end of the stretch that both use, and
   where between them both come at once (`_worst`). Out of a PE the thread that was started first goes first.
3. A stream that cannot do a word a cycle leaves some to the others (`_interleave`). One that others draw out leaves
   none: it has a word for each of its turns (`Window.pace`).
4. A stream that is fed by the one that it conflicts with comes some lag behind it, and is delayed by half of it more.
5. Of several others on one link all words count but the pauses that one of them makes (`delay_cycles`). The stream is
   as long for each of them as those that it met before have drawn it out. Who they are is settled before that: what
   comes once the stream alone would have passed, but before its last word once it is drawn out, is none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

from wse.backends.fabric.line.conflicts import Conflict, SharedEnd
from wse.backends.fabric.line.pieces import Resource

Owner = TypeVar("Owner")
"""Whatever the caller keeps a line's pieces in."""


class Interleaving(NamedTuple):
    """The delay of a stream that alternates with another one, and the words that the other one sends meanwhile."""

    cycles: float
    words: float


class Share(NamedTuple):
    """A segment of a line, from place ``low`` to ``high``, in which a stream shares a resource, and its effect."""

    low: int
    high: int
    effect: Interleaving


Shares = dict[int, list[Share]]
"""The stretches that a stream shares, by resource."""


class Window(NamedTuple):
    """The times at which the first and last word of a piece leave the router of its source, and the number of words.

    An operation takes them where they arrive. If it came after they did, at most ``departed_words`` had left the source
    by then, and no more than the ``room`` between source and receiver. ``held``: cycles of it in which words wait for
    those of others.
    """

    first: float
    last: float
    words: int
    departed_words: float = 0.0
    room: int = 0
    held: float = 0.0

    @property
    def rate(self) -> float:
        """Words a cycle."""
        return self.words / (self.last - self.first + 1)

    @property
    def pace(self) -> float:
        """Words per cycle when they wait for no other words."""
        return self.words / (self.last - self.held - self.first + 1)

    def first_at(self, shift: int, room: int) -> float:
        """Return the time at which words begin to pass a place, given cycles and waiting words from the start."""
        if not self.departed_words:
            return self.first + shift
        filled = max(0.0, min(self.departed_words - shift, self.room - room))
        return self.first + shift + filled / self.rate


class Contender(NamedTuple, Generic[Owner]):
    """Another piece that a stream conflicts with, where and when, and whether it ``feeds`` this one.

    ``owner``: what its line is kept in.
    """

    conflict: Conflict
    window: Window
    feeds: bool
    owner: Owner


class Delays(NamedTuple, Generic[Owner]):
    """The delays of a stream by contention: the segments that it shares, and the effects on the other streams."""

    shares: Shares
    effects_on_others: list[tuple[Contender[Owner], Interleaving]]


def delays_of(window: Window, contenders: Sequence[Contender[Owner]]) -> Delays[Owner]:
    """Return the delays of a stream by contention; ``window`` is when it would be at the router of its source alone."""
    shares: Shares = {}
    effects_on_others: list[tuple[Contender[Owner], Interleaving]] = []
    first_out = {(c.owner, c.conflict.other_piece) for c in contenders if c.conflict.resource == Resource.OUT_OF_PE}
    held = 0.0
    for contender in sorted(contenders, key=partial(_meeting, window)):  # 5
        conflict = contender.conflict
        drawn_out = window._replace(last=window.last + held, held=window.held + held)
        effect, effect_on_other = _worst(drawn_out, contender)  # 2 to 4
        if effect.cycles > 0:
            shares.setdefault(conflict.resource, []).append(Share(conflict.low, conflict.high, effect))
            held = delay_cycles(shares)[0]
        if effect_on_other.cycles > 0 and (contender.owner, conflict.other_piece) not in first_out:
            effects_on_others.append((contender, effect_on_other))
    return Delays(shares, effects_on_others)


def _meeting(window: Window, contender: Contender[Owner]) -> float:
    """Return the time at which two streams are first at one place, in cycles of the first stream's source."""
    shift, other_shift, room = contender.conflict.shared_ends[0]
    return max(window.first, contender.window.first_at(other_shift, room) - shift)


def delay_cycles(shares: Shares) -> tuple[float, int]:
    """Return the cycles that other streams delay a stream, and the number of streams at the worst place.

    One leaves the pauses that it makes; with more than one the link has none, and waits for all words of the others.
    """
    worst = (0.0, 1)
    for stretches in shares.values():
        for begin in {share.low for share in stretches}:  # 5: the sum is greatest where some stretch begins
            effects = [share.effect for share in stretches if share.low <= begin <= share.high]
            pauses = [effect.words - effect.cycles for effect in effects]
            cycles = sum(effect.words for effect in effects) - max(pauses)
            worst = max(worst, (cycles, 1 + len(effects)))
    return worst


def wait_on_colour(first: float, before: Sequence[tuple[float, Sequence[SharedEnd]]]) -> float:
    """Return the cycles that a stream waits for others on its colour, if its first word is at its source at ``first``.

    ``before``: when the last word of each of those is at its own source, and where the two cross.
    """
    behind = [
        other_last + other_shift + 1 - first - shift  # 1
        for other_last, shared_ends in before
        for shift, other_shift, _ in shared_ends
    ]
    return max([0.0, *behind])


def meet(first: float, last: float, other_first: float, other_last: float, shared_ends: Sequence[SharedEnd]) -> bool:
    """Return whether two streams use the same places at the same time."""
    before = after = True
    for shift, other_shift, _ in shared_ends:
        before = before and last + shift < other_first + other_shift
        after = after and first + shift > other_last + other_shift
    return not (before or after)


class _Place(NamedTuple):
    """The first and last words of two streams at one place of a line, and the lead of the second stream."""

    first: float
    last: float
    other_first: float
    other_last: float
    lag: float


def _worst(window: Window, contender: Contender[Owner]) -> tuple[Interleaving, Interleaving]:
    """Return the effects of two streams on each other at the place where they are largest.

    A stream that is fed by the one that it conflicts with comes some lag behind it. What holds up the other makes gaps
    in this one when it comes round, which the other fills while they last, until as many words as take half of the lag
    are in transit; those still come at half the rate when the other has ended.
    """
    worst = Interleaving(0.0, 0.0), Interleaving(0.0, 0.0)
    rate, other_rate, other_pace = window.rate, contender.window.rate, contender.window.pace
    in_order = contender.conflict.resource == Resource.OUT_OF_PE
    for place in _places(window, contender):
        overlap_start = max(place.first, place.other_first)
        if overlap_start > min(place.last, place.other_last):
            continue
        words = rate * (place.last - overlap_start + 1)
        other_words = other_rate * (place.other_last - overlap_start + 1)
        # 2, 3
        effect, effect_on_other = _interleave(window.pace, words, other_pace, other_words, in_order=in_order)
        if contender.feeds:  # 4
            behind = min(effect.cycles, place.lag / 2)
            effect = Interleaving(effect.cycles + behind, effect.words + behind)
        worst = max(worst, (effect, effect_on_other))
    return worst


def _places(window: Window, contender: Contender[Owner]) -> list[_Place]:
    """Return the ends of the segment that both streams use, and the place where both arrive at the same time."""
    other_window, ends = contender.window, list[_Place]()
    for shift, other_shift, other_room in contender.conflict.shared_ends:
        first, other_last = window.first + shift, other_window.last + other_shift
        lag = first - other_window.first - other_shift
        ends.append(_Place(first, window.last + shift, other_window.first_at(other_shift, other_room), other_last, lag))
    between = []
    for start, end in pairwise(ends):
        before, behind = start.first - start.other_first, end.first - end.other_first
        if before * behind < 0:
            part = before / (before - behind)
            between.append(_Place(*(a + part * (b - a) for a, b in zip(start, end, strict=True))))
    return ends + between


def _interleave(
    rate: float, words: float, other_rate: float, other_words: float, *, in_order: bool
) -> tuple[Interleaving, Interleaving]:
    """Return the effects of two streams on each other, given their remaining words and their rates.

    While both are there each gets half, or what the other leaves, and the other all it can do where it goes first.
    """
    share = min(rate, 1 - other_rate if in_order else max(0.5, 1 - other_rate))
    other_share = min(other_rate, max(other_rate if in_order else 0.5, 1 - rate))
    overlap_cycles = other_words / other_share
    if share > 0:
        overlap_cycles = min(overlap_cycles, words / share)
    effect = Interleaving(overlap_cycles * (1 - share / rate), overlap_cycles * other_share)
    return effect, Interleaving(overlap_cycles * (1 - other_share / other_rate), overlap_cycles * share)
