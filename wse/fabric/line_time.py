"""Cycles of a pattern along one line of PEs: a max-plus recurrence over its messages.

A message is a stream of words. Its first word leaves the sender's router at some time, crosses a hop in ``hop`` cycles,
and the rest follow at the stream rate. A PE does its operations in their order:

- an operation begins when its first word is in the PE, one ramp after it came to the router, and the PE is free; it
  does a word a cycle, and its results are at the router one ramp later: a word sent from memory one ramp and one cycle
  after the operation begins;
- a receive that combines and is followed by a send is one fused operation: the first word leaves two ramps and one
  add after it arrived, so a chain costs hop + 2 ramp + 1 a relay (6 on WSE-2) and streams;
- from the end of one operation of a PE to the start of the next lies a launch gap; words that wait meanwhile do so in
  the PE's queue and have the ramp behind them;
- a receive that only stores does not hold up the PE's own sends (another microthread takes it).

Source of the rules: the cycle logs of chain and two-phase reduces of the WSE-2 fabric simulator
(github.com/pr0f3ss/SpMM_Cerebras) and the model of Luczynski et al., HPDC 2024 (arXiv 2404.15888), whose additive
form is the closed form of what this computes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wse.fabric.causes import NO_CYCLES, Cycles
from wse_mappings.schedule import Arrival

COMBINING = (Arrival.ADD, Arrival.LARGER, Arrival.LARGER_PAIR)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineCosts:
    """Constants of the recurrence, in cycles and words a cycle."""

    hop: int
    ramp: int
    gap: int
    words_per_cycle: float
    relay: int = 0


@dataclass(slots=True)
class _Stream:
    """When the first and the last word of a message are at its receiver's router."""

    first: Cycles
    last: Cycles


def line_cycles(messages: npt.NDArray[np.int32], words: int, costs: LineCosts) -> Cycles:
    """Cycles from the start of the first operation to the end of the last, starting with all PEs free.

    Args:
        messages: int32 ``[m, 3]``: source, target, Arrival.
        words: Words of each message.
        costs: Constants.
    """
    run = _Line(words, costs)
    for source, target, arrival in messages.tolist():
        run.message(source, target, arrival)
    return run.finish()


class _Line:
    def __init__(self, words: int, costs: LineCosts) -> None:
        self.costs = costs
        self.tail = (words - 1) / costs.words_per_cycle
        self.free: dict[int, Cycles] = {}  # when a PE's last operation ended
        self.waiting: dict[int, _Stream] = {}  # a combining receive that may yet be fused with a send
        self.sent: dict[int, _Stream] = {}  # a multicast whose injection another direction may share
        self.ends: list[Cycles] = [NO_CYCLES]

    def message(self, source: int, target: int, arrival: int) -> None:
        if arrival == Arrival.KEEP:
            return
        out = self.sent.get(source) if arrival == Arrival.MULTICAST else None
        if out is None:
            out = self._send(source)
            if arrival == Arrival.MULTICAST:
                self.sent[source] = out
        hops = abs(target - source) * self.costs.hop
        stream = _Stream(out.first.plus(hops=hops), out.last.plus(hops=hops))
        if arrival in COMBINING:
            self._settle(target)
            self.waiting[target] = stream
        else:
            self.ends.append(stream.last.plus(relays=self.costs.ramp + 1))

    def finish(self) -> Cycles:
        for pe in list(self.waiting):
            self._settle(pe)
        return max([*self.ends, *self.free.values()])

    def _start(self, pe: int) -> Cycles:
        """When the PE can start another operation."""
        free = self.free.get(pe)
        return NO_CYCLES if free is None else free.plus(launch=self.costs.gap)

    def _send(self, pe: int) -> _Stream:
        received = self.waiting.pop(pe, None)
        begin, last = self._operate(pe, received)
        out = self.costs.ramp + 1 + (self.costs.relay if received is not None else 0)
        return _Stream(begin.plus(relays=out), last.plus(relays=out))

    def _settle(self, pe: int) -> None:
        """A waiting receive that was not fused: it ends in memory."""
        received = self.waiting.pop(pe, None)
        if received is not None:
            self._operate(pe, received)

    def _operate(self, pe: int, received: _Stream | None) -> tuple[Cycles, Cycles]:
        """The cycles in which the PE does the first and the last word of an operation."""
        begin = self._start(pe)
        last = begin.plus(hops=self.tail)
        if received is not None:
            begin = max(begin, received.first.plus(relays=self.costs.ramp))
            last = max(begin.plus(hops=self.tail), received.last.plus(relays=self.costs.ramp))
        self.free[pe] = last.plus(relays=1)
        return begin, last
