"""Timing of a pattern of sums in a loop whose rounds overlap, such as the row sums of dist-GEMM-T.

Each PE starts its next round when its part of the last one is done. In dist-GEMM-T, the root of the
sum moves along the ring from round to round. PEs far from the root finish earlier than PEs near it,
so rounds overlap. A subsequent round adds only the time from one root's last sum to the next root's
last sum, which depends on the few PEs between the two roots. The time along the whole line is
needed once.

1. The first round is computed for the line that needs the most time on its own.
2. If there are up to MAX_ROUNDS rounds, all are computed on four lines: the first two, the middle
   and the last. The rules are those of `wse.backends.fabric.line.line_time`, but PEs stay busy from
   one round to the next. The time from the end of the first round to the end of the last round, on
   the slowest of these lines, is divided equally among the subsequent rounds.
3. If there are more rounds, two samples are computed on the middle line: one starting at the first
   round and one starting at the middle round, because the root moves in opposite directions in the
   two halves. The first rounds of a sample are not counted, until PEs are as busy as later on.

PEs pass on sums in one of two ways (``store_and_forward``). Fused: words stream through a PE.
Stored and forwarded: a PE receives and adds a whole message before it sends its own, so each
message costs the start and the end of a transfer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from wse.backends.fabric.causes import Cycles
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.pieces import Places, hops_between
from wse_mappings.schedule import I32, LineSchedule

MAX_ROUNDS: Final = 64
"""Maximum number of rounds that are all computed.

If there are more, only a sample in each half is computed.
"""

SETTLING_ROUNDS: Final = 8
COUNTED_ROUNDS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """Cycle counts for a loop over a pattern whose rounds (iterations) overlap in time.

    Attributes:
        first: Cycle count of the first round.
        period: Cycles that each subsequent round adds.
    """

    first: Cycles
    period: Cycles


def rounds_of(schedule: LineSchedule, words: int, add_cycles: float, costs: LineCosts, places: Places = None) -> Rounds:
    """Return the cycles of the first and of each subsequent iteration of a pattern in a loop.

    The pattern computes sums. Its iterations (rounds) overlap in time, so that subsequent rounds
    cost less. The module docstring describes the three steps of the computation.

    Args:
        schedule: Pattern in which chains of PEs add up words into a root. All messages on a link
            have one colour.
        words: Number of words per message.
        add_cycles: Cycles needed to add a received message if it is stored first.
        costs: Cycle counts and queue sizes for words on a line of PEs.
        places: Hops from the first PE to each PE; None if neighbours are one hop apart.
    """
    new_state = partial(_RoundState, words, add_cycles, costs, places, store_and_forward=schedule.store_and_forward)
    first = new_state()
    # 1
    first.round(schedule.variant_messages(max(schedule.critical(schedule.variants[0])))[0])
    count, lines = schedule.variants.shape
    if count <= MAX_ROUNDS:  # 2
        sample = sorted({0, 1 % lines, lines // 2, lines - 1})
        last = max(_ends(schedule, line, range(count), new_state())[-1] for line in sample)
        period = (last - first.end) / max(1, count - 1)
    else:  # 3
        spans = [range(at, at + COUNTED_ROUNDS) for at in (0, count // 2)]
        ends = [_ends(schedule, lines // 2, span, new_state()) for span in spans]
        period = sum(end[-1] - end[SETTLING_ROUNDS] for end in ends) / 2 / (COUNTED_ROUNDS - 1 - SETTLING_ROUNDS)
    return Rounds(first=Cycles().plus(relays=first.end), period=Cycles().plus(relays=period))


def _ends(schedule: LineSchedule, line: int, round_range: range, state: _RoundState) -> list[float]:
    """Return the cycle at which each of the given rounds of a pattern ends on one line of PEs.

    A round is one iteration of the loop that repeats the pattern.

    Args:
        schedule: The communication pattern.
        line: Index of the line.
        round_range: Indices of the rounds to compute, in order.
        state: A new state, in which all PEs are free; updated.
    """
    return [state.round(schedule.line_messages(line, index)) for index in round_range]


def exchange_cycles(words: int, costs: LineCosts) -> float:
    """Return the duration in cycles of a round in which each PE exchanges words with a neighbour.

    A PE sends and receives on the same thread, so it handles twice as many words.

    Args:
        words: Number of words that each PE sends and also receives.
        costs: Cycle counts and queue sizes for words on a line of PEs.
    """
    return costs.sync + costs.tail(2 * words)


class _RoundState:
    """State of a line of PEs while a repeated pattern is timed: when each PE becomes free.

    A round is one iteration of a loop that repeats a communication pattern.
    """

    def __init__(
        self, words: int, add_cycles: float, costs: LineCosts, places: Places, *, store_and_forward: bool
    ) -> None:
        self.costs, self.add, self.places, self.store_and_forward = costs, add_cycles, places, store_and_forward
        self.tail = float(costs.tail(words))
        self.free: dict[int, float] = {}
        self.end = 0.0

    def round(self, messages: I32) -> float:
        """Compute the times of one round and return the cycle at which its last sum is complete.

        A round is one iteration of the loop that repeats the pattern.

        Args:
            messages: int32 ``[m, 3]``: sending PE, receiving PE, effect at the receiver (Arrival).
        """
        self.end = 0.0
        if self.store_and_forward:
            for source, target, _ in messages.tolist():
                self._transfer(source, target)
        else:
            self._streams(messages)
        return self.end

    def _transfer(self, source: int, target: int) -> None:
        """Compute when the two PEs of a message are free again, if received words are added later.

        The message starts when both PEs are free. The sender is free again when the receiver has
        stored the words, and the receiver when it has added them to its own.

        Args:
            source, target: Indices of the sending and the receiving PE.
        """
        begin = max(self.free.get(source, 0.0), self.free.get(target, 0.0))
        detour_cycles = (hops_between(self.places, source, target) - abs(target - source)) * self.costs.hop
        self.free[source] = begin + self.costs.sync + detour_cycles + self.tail
        self.free[target] = self.free[source] + self.add
        self.end = max(self.end, self.free[target])

    def _streams(self, messages: I32) -> None:
        """Compute the times of one round in which each PE adds its own words to a passing stream.

        A round is one iteration of the loop that repeats the pattern. The sums end at a root PE,
        which receives the stream from each side in a separate operation.
        """
        costs, waiting_streams = self.costs, dict[int, tuple[float, float]]()
        for source, target, _ in messages.tolist():
            incoming = waiting_streams.pop(source, None)
            first, last = self._operate(source, incoming)
            out = costs.ramp + 1 + (0 if incoming is None else costs.relay)
            path_cycles = out + hops_between(self.places, source, target) * costs.hop + costs.ramp
            if target in waiting_streams:
                self._operate(target, waiting_streams.pop(target))
            waiting_streams[target] = (first + path_cycles, last + path_cycles)
        for pe, incoming in waiting_streams.items():
            self.end = max(self.end, self._operate(pe, incoming)[1] + 1)

    def _operate(self, pe: int, incoming: tuple[float, float] | None) -> tuple[float, float]:
        """Compute when a PE performs its next send, receive, or receive and send.

        Args:
            pe: Index of the PE.
            incoming: Cycles at which the first and last word to receive arrive; None if the PE only
                sends.

        Returns:
            Cycles at which the operation processes its first and its last word.
        """
        begin = self.free[pe] + self.costs.gap if pe in self.free else 0.0
        last = begin + self.tail
        if incoming is not None:
            begin = max(begin, incoming[0])
            last = max(begin + self.tail, incoming[1])
        self.free[pe] = last + 1
        return begin, last
