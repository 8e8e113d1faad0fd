"""Cycles of a pattern whose words are cut into parts, as in a ring: rounds in which every PE sends and receives a part.

All messages of a round, in which no PE sends or receives twice, are computed at once, as arrays over PEs, in the
terms of `wse.backends.fabric.line.line_time`. Nothing is fused: a PE sends in a thread of its own beside the one that
receives, so that everybody may send before it receives. For each message of a round:

1. It leaves when its PE has sent the last one, a gap ago, and when the operation is over that wrote or read its part.
2. Its first word is in the other PE after the hops between them and a ramp at either end.
3. One that combines is received when the PE has added the last one, a gap ago; one that is stored, when the last stored
   one is there and its part is no longer in use.
4. Words beyond those that the queues on the way hold leave when the receiver has taken others in: until then the sender
   is busy.

Streams of a ring never share a link: each has its own between two neighbours, at most two hops apart.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wse.arrays import F64, I32, I64
from wse.backends.fabric.causes import Cycles
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.pieces import Places
from wse_mappings.schedule import COMBINING, LineSchedule

TOTAL, HOPS, RELAYS, LAUNCH = range(4)


class _Messages(NamedTuple):
    """Messages with words, and everything about them that does not depend on when they are sent.

    Attributes:
        source, target, part: Places, and the part that is carried.
        adds: bool: whether the target combines what arrives.
        way: float64 ``[4, messages]``: from where a message leaves to its first word in the other PE.
        stream: float64 ``[4, messages]``: from the first word to the last, in the PE that sends or receives.
        waits: bool: whether there are words beyond those that the queues on the way hold.
        drained: float64 ``[4, messages]``: from the first word received to when such words have left.
    """

    source: I64
    target: I64
    part: I64
    adds: npt.NDArray[np.bool_]
    way: F64
    stream: F64
    waits: npt.NDArray[np.bool_]
    drained: F64

    @classmethod
    def of(cls, messages: I64, part: I64, words: I64, places: I64, costs: LineCosts) -> _Messages:
        """Return messages with their words between PEs at given distances from the first one."""
        source, target, arrival = messages.T
        hops = np.abs(places[target] - places[source])
        room = 2 * costs.waiting_words + hops * (costs.queue_words + costs.hop - 1)
        return cls(
            source=source,
            target=target,
            part=part,
            adds=np.isin(arrival, COMBINING),
            way=_stretch(relays=2 * costs.ramp + 1, hops=hops * costs.hop),
            stream=_stretch(relays=1, hops=costs.tails(words)),
            waits=words > room,
            drained=_stretch(relays=1, hops=costs.tails(np.maximum(words - room, 1))),
        )

    def of_round(self, which: slice) -> _Messages:
        """Return the messages of a round."""
        return _Messages._make(column[..., which] for column in self)


def part_time(schedule: LineSchedule, variant: int, words: int, costs: LineCosts, places: Places = None) -> Cycles:
    """Return the cycles of a variant of a pattern whose messages carry parts of the ``words``.

    ``places`` has the hops of the line's PEs from the first.
    """
    span = slice(*schedule.first[variant : variant + 2])
    messages, _, part = schedule.of_variant(variant)
    assert part is not None
    size = schedule.words_of_messages(words)[span]
    place = np.arange(schedule.length) if places is None else places
    has_words = size > 0
    sent = _Messages.of(
        messages[has_words].astype(np.int64), part[has_words].astype(np.int64), size[has_words], place, costs
    )
    number = np.append(0, has_words.cumsum())  # of those before each that have words
    line = _PartState(len(place), schedule.parts, costs)
    for first, end in _rounds(messages):
        if number[end] > number[first]:
            line.round(sent.of_round(slice(number[first], number[end])))
    total, hops, relays, launch = line.end
    return Cycles(total=float(total), hops=float(hops), relays=float(relays), launch=float(launch))


def _rounds(messages: I32) -> list[tuple[int, int]]:
    """Yield ranges of messages in which no PE sends or receives twice."""
    cuts, sources, targets = [0], set[int](), set[int]()
    for i, (source, target, _) in enumerate(messages.tolist()):
        if source in sources or target in targets:
            cuts.append(i)
            sources, targets = set(), set()
        sources.add(source)
        targets.add(target)
    return list(zip(cuts, [*cuts[1:], len(messages)], strict=True))


class _PartState:
    """The state of PEs during a pattern. Times are float64 ``[4, ...]``: the total, and its causes."""

    def __init__(self, length: int, parts: int, costs: LineCosts) -> None:
        self.gap = _stretch(launch=costs.gap)
        self.sending, self.adding = np.full((4, length), -np.inf), np.full((4, length), -np.inf)
        self.storing = np.zeros((4, length))
        self.used = np.zeros((4, length, parts))  # when the last operation on a part ended
        self.end = np.zeros(4)

    def round(self, messages: _Messages) -> None:
        """Compute a round: one message for each of some sources, all with different targets."""
        source, target, part, adds, way, stream, waits, drained = messages
        begin = _maximum(self.sending[:, source] + self.gap, self.used[:, source, part])  # 1
        ready = begin + way  # 2
        added, stored = self.adding[:, target] + self.gap, self.storing[:, target]  # 3
        free = np.where(adds, added, _maximum(stored, self.used[:, target, part]))
        received = _maximum(free, ready)
        last_word = received + stream
        # 4
        left = begin + stream
        sent = np.where(waits, _maximum(left, received + drained), left) if waits.any() else left
        self.sending[:, source] = sent
        self.used[:, source, part] = _maximum(self.used[:, source, part], sent)
        self.adding[:, target[adds]] = last_word[:, adds]
        self.storing[:, target[~adds]] = last_word[:, ~adds]
        self.used[:, target, part] = _maximum(self.used[:, target, part], last_word)
        last = int(np.argmax(last_word[TOTAL]))
        if last_word[TOTAL, last] > self.end[TOTAL]:
            self.end = last_word[:, last]


def _stretch(hops: F64 | I64 | int = 0, relays: int = 0, launch: int = 0) -> F64:
    """Return an interval of time to be added to times ``[4, n]``."""
    hops = np.atleast_1d(np.asarray(hops, np.float64))
    spent = np.zeros((4, len(hops)))
    spent[HOPS], spent[RELAYS], spent[LAUNCH] = hops, relays, launch
    spent[TOTAL] = hops + relays + launch
    return spent


def _maximum(first: F64, second: F64) -> F64:
    return np.where(first[TOTAL] >= second[TOTAL], first, second)
