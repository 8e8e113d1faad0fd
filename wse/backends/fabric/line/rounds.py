"""Cycles of patterns round after round, where a PE goes on to the next round when its own part of the last is done.

The rounds of a reduce whose root moves along the ring do not wait for each other: far PEs are ahead of those near the
root. What a further round adds is the time from one root's last sum to the next root's, which hangs on the few PEs that
lie between them; the way along the whole line is paid once.

1. The first round is computed on the line that takes longest alone.
2. Few rounds are all computed, one after another on some lines, as in `wse.backends.fabric.line.line_time` but with
   PEs that stay busy: a further round adds the mean of what the slowest line's rounds add.
3. Of many rounds a sample is computed on the line in the middle, from the start and from the half, because the root
   goes one way in the first half and the other way in the second; the first rounds of a sample do not count, until PEs
   are busy as they are later on.

Two ways of passing sums on: fused, words stream through a PE; or stored and forwarded, a PE has received and added a
whole message before it sends its own, and each of these transfers is started and awaited at the cost of one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from wse.backends.fabric.causes import Cycles
from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.pieces import Places, hops_between
from wse_mappings.schedule import I32, LineSchedule

MOST_ROUNDS: Final = 64
"""Most rounds that are all computed; of more, some in either half, once those before them make no more difference."""

SETTLING_ROUNDS: Final = 8
COUNTED_ROUNDS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """The cycles of the first round, and those that each further round adds."""

    first: Cycles
    period: Cycles


def rounds_of(schedule: LineSchedule, words: int, add_cycles: float, costs: LineCosts, places: Places = None) -> Rounds:
    """Return the rounds of a pattern of sums, from few rounds on the slowest line or a sample on the middle line.

    Args:
        schedule: A pattern of chains, one colour on a link.
        words: Words of each message.
        add_cycles: Of adding a received message to a PE's own, where it is stored first.
        costs: Constants.
        places: Hops of the line's PEs from the first.
    """
    first = _RoundState(words, add_cycles, costs, places, store_and_forward=schedule.store_and_forward)
    # 1
    first.round(schedule.of_variant(max(schedule.critical(schedule.variants[0])))[0])
    count, lines = schedule.variants.shape
    if count <= MOST_ROUNDS:  # 2
        sample = sorted({0, 1 % lines, lines // 2, lines - 1})
        last = max(_ends(schedule, line, range(count), first)[-1] for line in sample)
        period = (last - first.end) / max(1, count - 1)
    else:  # 3
        spans = [range(at, at + COUNTED_ROUNDS) for at in (0, count // 2)]
        ends = [_ends(schedule, lines // 2, span, first) for span in spans]
        period = sum(end[-1] - end[SETTLING_ROUNDS] for end in ends) / 2 / (COUNTED_ROUNDS - 1 - SETTLING_ROUNDS)
    return Rounds(first=Cycles().plus(relays=first.end), period=Cycles().plus(relays=period))


def _ends(schedule: LineSchedule, line: int, turns: range, template: _RoundState) -> list[float]:
    """Return the cycles at which the rounds of a line end, starting with all PEs free."""
    state = _RoundState(
        template.words, template.add, template.costs, template.places, store_and_forward=template.store_and_forward
    )
    return [state.round(schedule.of_line(line, turn)) for turn in turns]


def exchange_cycles(words: int, costs: LineCosts) -> float:
    """Return the cycles of a round in which every PE exchanges words with a neighbour on one thread."""
    return costs.sync + costs.tail(2 * words)


class _RoundState:
    """The PEs of a line, with the cycle from which each is free."""

    def __init__(
        self, words: int, add_cycles: float, costs: LineCosts, places: Places, *, store_and_forward: bool
    ) -> None:
        self.words, self.costs, self.add, self.places, self.store_and_forward = (
            words,
            costs,
            add_cycles,
            places,
            store_and_forward,
        )
        self.tail = float(costs.tail(words))
        self.free: dict[int, float] = {}
        self.end = 0.0

    def round(self, messages: I32) -> float:
        """Compute a round; return the cycle at which its last sum is complete."""
        self.end = 0.0
        if self.store_and_forward:
            for source, target, _ in messages.tolist():
                self._transfer(source, target)
        else:
            self._streams(messages)
        return self.end

    def _transfer(self, source: int, target: int) -> None:
        """Send a message as soon as both its PEs are free."""
        begin = max(self.free.get(source, 0.0), self.free.get(target, 0.0))
        farther = (hops_between(self.places, source, target) - abs(target - source)) * self.costs.hop
        self.free[source] = begin + self.costs.sync + farther + self.tail
        self.free[target] = self.free[source] + self.add
        self.end = max(self.end, self.free[target])

    def _streams(self, messages: I32) -> None:
        """Yield chains of fused operations; the receives of a root are separate."""
        costs, waiting = self.costs, dict[int, tuple[float, float]]()
        for source, target, _ in messages.tolist():
            received = waiting.pop(source, None)
            first, last = self._operate(source, received)
            out = costs.ramp + 1 + (0 if received is None else costs.relay)
            way = out + hops_between(self.places, source, target) * costs.hop + costs.ramp
            if target in waiting:
                self._operate(target, waiting.pop(target))
            waiting[target] = (first + way, last + way)
        for pe, received in waiting.items():
            self.end = max(self.end, self._operate(pe, received)[1] + 1)

    def _operate(self, pe: int, received: tuple[float, float] | None) -> tuple[float, float]:
        """Return the cycles of the first and the last word of an operation."""
        begin = self.free[pe] + self.costs.gap if pe in self.free else 0.0
        last = begin + self.tail
        if received is not None:
            begin = max(begin, received[0])
            last = max(begin + self.tail, received[1])
        self.free[pe] = last + 1
        return begin, last
