"""Cycle count of a pattern whose words are divided into parts, such as a ring all-reduce.

Such a pattern consists of rounds in which no PE sends or receives twice. The messages of a round
are computed together, as arrays over PEs, with the same costs as in
`wse.backends.fabric.line.line_time`. No receive is fused with a send: a PE sends in one thread and
receives in another, so all PEs can send before they receive. For each message of a round:

1. The message leaves when its PE has sent its previous message, plus a launch gap, and when the
   last operation on the part that it carries has ended.
2. Its first word is in the other PE after the hops between them and a ramp at either end.
3. A message whose words are combined is received when the PE has combined its previous message,
   plus a gap. A message that is stored is received when the previous one is stored and its part is
   no longer in use.
4. Words that do not fit into the queues on the path leave when the receiver has accepted other
   words. The sender is busy until then.

Streams of a ring never share a link, because each has its own link between two neighbours, at most
two hops apart.
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
    """Arrays with the properties of a pattern's messages, one item per message.

    The words of a PE are divided into parts, and each message sends one part. A duration is stored
    as four float64 numbers, ``[4, messages]``: the total cycles, and how many of them are due to
    hops, relays (forwarding PEs) and launches.

    Attributes:
        source, target, part: Sending PE, receiving PE, and the index of the part that is sent.
        adds: Whether the target combines the words with its own.
        path_cycles: Duration from the departure of a message until its first word is in the
            receiving PE.
        stream: Duration from the first word to the last, at the sender or the receiver.
        waits: Whether some words do not fit into the queues on the path.
        drained: Duration from the first received word until the last word has left the sender, if
            ``waits``.
    """

    source: I64
    target: I64
    part: I64
    adds: npt.NDArray[np.bool_]
    path_cycles: F64
    stream: F64
    waits: npt.NDArray[np.bool_]
    drained: F64

    @classmethod
    def of(cls, messages: I64, part: I64, words: I64, places: I64, costs: LineCosts) -> _Messages:
        """Compute the properties of messages that do not depend on when the messages are sent.

        Args:
            messages: int64 ``[m, 3]``: sending PE, receiving PE, effect at the receiver (Arrival).
            part: int64 ``[m]``: index of the part of the words that each message sends.
            words: int64 ``[m]``: words of each message, at least 1.
            places: int64 ``[PEs]``: hops from the first PE to each PE.
            costs: Cycle counts and queue sizes for words on a line of PEs.
        """
        source, target, arrival = messages.T
        hops = np.abs(places[target] - places[source])
        room = 2 * costs.waiting_words + hops * costs.hop_room
        return cls(
            source=source,
            target=target,
            part=part,
            adds=np.isin(arrival, COMBINING),
            path_cycles=_interval(relays=2 * costs.ramp + 1, hops=hops * costs.hop),
            stream=_interval(relays=1, hops=costs.tail(words)),
            waits=words > room,
            drained=_interval(relays=1, hops=costs.tail(np.maximum(words - room, 1))),
        )

    def messages_of_round(self, message_range: slice) -> _Messages:
        """Return the messages at the indices in ``message_range``, which form one round.

        In a round, no PE sends or receives twice.
        """
        return _Messages._make(column[..., message_range] for column in self)


def part_time(schedule: LineSchedule, variant: int, words: int, costs: LineCosts, places: Places = None) -> Cycles:
    """Return the cycles of a pattern that divides a PE's words into parts, one per message.

    An example is a ring all-reduce, in which P PEs divide their words into P parts.

    Args:
        schedule: The communication pattern.
        variant: Index of the list of messages to time. Each line of PEs executes one of the
            pattern's lists.
        words: Number of 32-bit words per PE, before they are divided into parts.
        costs: Cycle counts and queue sizes for words on a line of PEs.
        places: Hops from the first PE to each PE; None if neighbours are one hop apart.
    """
    span = slice(*schedule.first[variant : variant + 2])
    messages, _, part = schedule.variant_messages(variant)
    assert part is not None
    size = schedule.words_of_messages(words)[span]
    place = np.arange(schedule.length) if places is None else places
    has_words = size > 0
    sent_messages = _Messages.of(
        messages[has_words].astype(np.int64), part[has_words].astype(np.int64), size[has_words], place, costs
    )
    number = np.append(0, has_words.cumsum())  # number of earlier messages with words
    line = _PartState(len(place), schedule.parts, costs)
    for first, end in _rounds(messages):
        if number[end] > number[first]:
            line.round(sent_messages.messages_of_round(slice(number[first], number[end])))
    total, hops, relays, launch = line.end
    return Cycles(total=float(total), hops=float(hops), relays=float(relays), launch=float(launch))


def _rounds(messages: I32) -> list[tuple[int, int]]:
    """Divide a list of messages into rounds, in which no PE sends or receives twice.

    Returns:
        (first message, one past the last message) of each round, as indices into the list.
    """
    cuts, sources, targets = [0], set[int](), set[int]()
    for i, (source, target, _) in enumerate(messages.tolist()):
        if source in sources or target in targets:
            cuts.append(i)
            sources, targets = set(), set()
        sources.add(source)
        targets.add(target)
    return list(zip(cuts, [*cuts[1:], len(messages)], strict=True))


class _PartState:
    """Times at which the last operations of each PE on a line ended, updated round by round.

    A line is a row or column of PEs that exchange words. The words of a PE are divided into parts,
    and each message sends one part. Every time is stored as four float64 numbers (first axis): the
    total cycles, and how many of them are due to hops, relays (forwarding PEs) and launches.

    Attributes:
        gap: Launch gap between two sends, or two combining receives, of a PE.
        sending, adding, storing: When each PE's last send, combining receive and storing receive
            ended, ``[4, PEs]``.
        used: When the last operation on each part of a PE's words ended, ``[4, PEs, parts]``.
        end: When the last message of all rounds so far was received, ``[4]``.
    """

    def __init__(self, length: int, parts: int, costs: LineCosts) -> None:
        self.gap = _interval(launch=costs.gap)
        self.sending, self.adding = np.full((4, length), -np.inf), np.full((4, length), -np.inf)
        self.storing = np.zeros((4, length))
        self.used = np.zeros((4, length, parts))
        self.end = np.zeros(4)

    def round(self, messages: _Messages) -> None:
        """Compute when the messages of one round are sent and received, and record these times.

        In a round, no PE sends or receives twice. The module docstring describes the four steps of
        the computation.
        """
        source, target, part, adds, path_cycles, stream, waits, drained = messages
        begin = _maximum(self.sending[:, source] + self.gap, self.used[:, source, part])  # 1
        ready = begin + path_cycles  # 2
        last_added, last_stored = self.adding[:, target] + self.gap, self.storing[:, target]  # 3
        free = np.where(adds, last_added, _maximum(last_stored, self.used[:, target, part]))
        receive_start = _maximum(free, ready)
        last_word = receive_start + stream
        # 4
        left = begin + stream
        send_end = np.where(waits, _maximum(left, receive_start + drained), left) if waits.any() else left
        self.sending[:, source] = send_end
        self.used[:, source, part] = _maximum(self.used[:, source, part], send_end)
        self.adding[:, target[adds]] = last_word[:, adds]
        self.storing[:, target[~adds]] = last_word[:, ~adds]
        self.used[:, target, part] = _maximum(self.used[:, target, part], last_word)
        last = int(np.argmax(last_word[TOTAL]))
        if last_word[TOTAL, last] > self.end[TOTAL]:
            self.end = last_word[:, last]


def _interval(hops: F64 | I64 | int = 0, relays: int = 0, launch: int = 0) -> F64:
    """Return durations in cycles with their causes, float64 ``[4, n]``.

    The rows are total, hops, relays and launch; the total is the sum of the other three.
    """
    hops = np.atleast_1d(np.asarray(hops, np.float64))
    interval = np.zeros((4, len(hops)))
    interval[HOPS], interval[RELAYS], interval[LAUNCH] = hops, relays, launch
    interval[TOTAL] = hops + relays + launch
    return interval


def _maximum(first: F64, second: F64) -> F64:
    """Return the later of two times for each message.

    Times are float64 ``[4, n]``, broken down by cause. The first row, the total, is compared.
    """
    return np.where(first[TOTAL] >= second[TOTAL], first, second)
