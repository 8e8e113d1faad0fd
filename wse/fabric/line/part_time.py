"""Cycles of a pattern whose words are cut into parts, as in a ring: rounds in which every PE sends and receives a part.

All messages of a round, in which no PE sends or receives twice, are worked out at once, as arrays over PEs, in the
terms of `wse.fabric.line.line_time`. Nothing is fused: a PE sends in a thread of its own beside the one that receives,
so that everybody may send before it receives. For each message of a round:

1. It leaves when its PE has sent the last one, a gap ago, and when the operation is over that wrote or read its part.
2. Its first word is in the other PE after the hops between them and a ramp at either end.
3. One that combines is received when the PE has added the last one, a gap ago; one that is stored, when the last stored
   one is there and its part is no longer in use.
4. Words beyond those that the queues on the way hold leave when the receiver has taken others in: until then the sender
   is busy.

Streams of a ring never share a link: each has its own between two neighbours, at most two hops apart.
"""

from __future__ import annotations

import numpy as np

from wse.arrays import F64, I32, I64
from wse.fabric.causes import Cycles
from wse.fabric.line.line_costs import LineCosts
from wse.fabric.line.pieces import Places
from wse_mappings.schedule import COMBINING, LineSchedule

TOTAL, HOPS, RELAYS, LAUNCH = range(4)


def part_time(schedule: LineSchedule, variant: int, words: int, costs: LineCosts, places: Places = None) -> Cycles:
    """Cycles of a variant of a pattern whose messages carry parts of the ``words``, starting with all PEs free.

    ``places`` has the hops of the line's PEs from the first.
    """
    span = slice(*schedule.first[variant : variant + 2])
    messages, _, part = schedule.of_variant(variant)
    assert part is not None
    size = schedule.words_of_messages(words)[span]
    line = _PartState(np.arange(schedule.length) if places is None else places, schedule.parts, costs)
    for first, end in _rounds(messages):
        sent = np.arange(first, end)[size[first:end] > 0]
        if len(sent):
            line.round(messages[sent].astype(np.int64), part[sent], size[sent])
    total, hops, relays, launch = line.end
    return Cycles(total=float(total), hops=float(hops), relays=float(relays), launch=float(launch))


def _rounds(messages: I32) -> list[tuple[int, int]]:
    """Stretches of messages in which no PE sends or receives twice."""
    cuts, sources, targets = [0], set[int](), set[int]()
    for i, (source, target, _) in enumerate(messages.tolist()):
        if source in sources or target in targets:
            cuts.append(i)
            sources, targets = set(), set()
        sources.add(source)
        targets.add(target)
    return list(zip(cuts, [*cuts[1:], len(messages)], strict=True))


class _PartState:
    """Times are float64 ``[4, ...]``: the total, and what it was spent on."""

    def __init__(self, places: I64, parts: int, costs: LineCosts) -> None:
        self.costs, self.places, length = costs, places, len(places)
        self.sending, self.adding = np.full((4, length), -np.inf), np.full((4, length), -np.inf)
        self.storing = np.zeros((4, length))
        self.used = np.zeros((4, length, parts))  # when the last operation on a part ended
        self.end = np.zeros(4)

    def round(self, messages: I64, part: I32, words: I64) -> None:
        """Carry out a round: one message for each of some sources, all with different targets."""
        source, target, arrival = messages.T
        costs, tail = self.costs, self.costs.tails(words)
        gap = _spent(launch=costs.gap)
        begin = _later(self.sending[:, source] + gap, self.used[:, source, part])  # 1
        hops = np.abs(self.places[target] - self.places[source])  # 2
        ready = begin + _spent(relays=2 * costs.ramp + 1, hops=hops * costs.hop)
        adds = np.isin(arrival, COMBINING)  # 3
        free = np.where(adds, self.adding[:, target] + gap, _later(self.storing[:, target], self.used[:, target, part]))
        received = _later(free, ready)
        last_word = received + _spent(hops=tail, relays=1)
        # 4
        room = 2 * costs.waiting_words + hops * (costs.queue_words + costs.hop - 1)
        drained = received + _spent(hops=costs.tails(np.maximum(words - room, 1)), relays=1)
        sent = np.where(words > room, _later(begin + _spent(hops=tail, relays=1), drained), begin + _spent(tail, 1))
        self.sending[:, source] = sent
        self.used[:, source, part] = _later(self.used[:, source, part], sent)
        self.adding[:, target[adds]] = last_word[:, adds]
        self.storing[:, target[~adds]] = last_word[:, ~adds]
        self.used[:, target, part] = _later(self.used[:, target, part], last_word)
        last = int(np.argmax(last_word[TOTAL]))
        if last_word[TOTAL, last] > self.end[TOTAL]:
            self.end = last_word[:, last]


def _spent(hops: F64 | I64 | int = 0, relays: int = 0, launch: int = 0) -> F64:
    """A stretch of time to be added to times ``[4, n]``."""
    hops = np.atleast_1d(np.asarray(hops, np.float64))
    spent = np.zeros((4, len(hops)))
    spent[HOPS], spent[RELAYS], spent[LAUNCH] = hops, relays, launch
    spent[TOTAL] = hops + relays + launch
    return spent


def _later(first: F64, second: F64) -> F64:
    return np.where(first[TOTAL] >= second[TOTAL], first, second)
