"""One line of a LineSchedule, planned: streams, their colours, the switch positions and operations of each PE.

Places are indices on the line; where the line lies on the mesh does not matter here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from wse_mappings.schedule import Arrival

I32 = npt.NDArray[np.int32]
Config = tuple[int, tuple[int, ...]]  # on a line: from and to, -1 toward index 0, 1 toward the end, 0 the PE itself

COMBINING = (Arrival.ADD, Arrival.LARGER, Arrival.LARGER_PAIR)


@dataclass(slots=True)
class Flow:
    """One stream: a message, or the messages of a multicast that leave together."""

    source: int
    arrival: Arrival
    targets: list[int]
    channel: int = -1
    part: int = 0

    def configs(self) -> dict[int, Config]:
        """How each PE on the way routes it."""
        sides = tuple(sorted(1 if target > self.source else -1 for target in self.targets))
        found: dict[int, Config] = {self.source: (0, sides)}
        for target in self.targets:
            step = 1 if target > self.source else -1
            here = (0,) if self.arrival == Arrival.MULTICAST else ()
            for pe in range(self.source + step, target, step):
                found[pe] = (-step, (*here, step))
            found[target] = (-step, (0,))
        return found

    def receivers(self) -> list[int]:
        """The PEs that take its words."""
        if self.arrival != Arrival.MULTICAST:
            return self.targets
        return [pe for pe in self.configs() if pe != self.source]


@dataclass(frozen=True, slots=True)
class Step:
    """One vector operation of a PE: the stream that it receives, the one that it sends, or both at once."""

    place: int
    flow: Flow  # either of them: both carry the same words
    receive: Flow | None
    send: Flow | None


@dataclass(slots=True)
class Turn:
    """A switch position on a line: its sides, the streams that cross it, and what ends with it."""

    config: Config
    flows: list[Flow]
    held: bool = False
    releases: tuple[int, int] | None = None


@dataclass(slots=True)
class LinePlan:
    """The streams of one line, the operations of its PEs in order, and the turns of each (PE, channel)."""

    flows: list[Flow]
    steps: list[Step] = field(default_factory=list)
    turns: dict[tuple[int, int], list[Turn]] = field(default_factory=dict)
    channels: int = 0

    def marked(self, flow: Flow) -> bool:
        """Whether a switch on its way counts the stream's control bit."""
        return any(self._counts(pe, flow.channel) for pe in flow.configs())

    def _counts(self, pe: int, channel: int) -> bool:
        turns = self.turns[pe, channel]
        return len(turns) > 1 or turns[0].releases is not None


def plan_line(messages: I32, channel: I32 | None = None, part: I32 | None = None) -> LinePlan:
    """Streams, operations, colours and switch positions of the messages ``[m, 3]`` of one line."""
    plan = LinePlan(_flows(messages, channel, part))
    if channel is None:
        _choose_channels(plan.flows)
    for flow in plan.flows:
        for pe, config in flow.configs().items():
            turns = plan.turns.setdefault((pe, flow.channel), [])
            if not turns or turns[-1].config != config:
                turns.append(Turn(config, []))
            turns[-1].flows.append(flow)
    plan.steps = _steps(plan.flows, fuse=part is None)
    _hold(plan)
    plan.channels = max((flow.channel + 1 for flow in plan.flows), default=0)
    return plan


def _steps(flows: list[Flow], *, fuse: bool) -> list[Step]:
    """What each PE does, in order; where they ``fuse``, a receive that combines and the next send are one."""
    steps: list[Step] = []
    waiting: dict[int, Flow] = {}
    for flow in flows:
        steps.append(Step(flow.source, flow, waiting.pop(flow.source, None), flow))
        for place in flow.receivers():
            if not fuse or flow.arrival not in COMBINING:
                steps.append(Step(place, flow, flow, None))
                continue
            before = waiting.pop(place, None)
            if before:
                steps.append(Step(place, before, before, None))
            waiting[place] = flow
    return steps + [Step(place, flow, flow, None) for place, flow in waiting.items()]


def _hold(plan: LinePlan) -> None:
    """Where a PE's receive is fused with its send, its receive colour moves on behind the last word sent."""
    for step in plan.steps:
        if step.receive is None or step.send is None:
            continue
        receiving = plan.turns[step.place, step.receive.channel]
        sending = plan.turns[step.place, step.send.channel]
        at = next(i for i, turn in enumerate(receiving) if step.receive in turn.flows)
        by = next(turn for turn in sending if step.send in turn.flows)
        lasts = receiving[at].flows[-1] is step.receive and by.flows[-1] is step.send
        if lasts and at + 1 < len(receiving) and by.releases is None:
            receiving[at].held = True
            by.releases = (step.receive.channel, at + 1)


def _flows(messages: I32, channel: I32 | None, part: I32 | None) -> list[Flow]:
    flows: list[Flow] = []
    for i, (source, target, arrival) in enumerate(messages.tolist()):
        if arrival == Arrival.KEEP or source == target:
            continue
        before = flows[-1] if flows else None
        if arrival == Arrival.MULTICAST and before and (before.source, before.arrival) == (source, arrival):
            before.targets.append(target)
        else:
            chosen, carried = -1 if channel is None else int(channel[i]), 0 if part is None else int(part[i])
            flows.append(Flow(source, Arrival(arrival), [target], chosen, carried))
    return flows


def _choose_channels(flows: list[Flow]) -> None:
    """The lowest colour on which no PE of the way is configured otherwise; from low indices on, which needs fewest.

    What is combined and what is stored come on different colours, because different threads take them.
    """
    used: dict[tuple[int, int], tuple[Config, bool]] = {}
    for flow in sorted(flows, key=lambda flow: min(flow.source, *flow.targets)):
        uses = {pe: (config, flow.arrival in COMBINING) for pe, config in flow.configs().items()}
        flow.channel = 0
        while any(used.get((pe, flow.channel), use) != use for pe, use in uses.items()):
            flow.channel += 1
        used |= {(pe, flow.channel): use for pe, use in uses.items()}
