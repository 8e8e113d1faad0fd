"""Plan of a pattern: its streams, their colours, the switch positions and operations of each PE.

On a line, places are indices and sides are directions along it: where the line lies on the mesh does not matter here.
On a plane, places are numbers of PEs, row by row, and sides are ports.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from wse.arrays import I32
from wse.backends.wavelet.machine import STEP, Port
from wse_mappings.plane import PlaneSchedule, PlaneStream
from wse_mappings.schedule import COMBINING, Arrival

Config = tuple[int, tuple[int, ...]]
"""A switch position: the side that words come from, and those that they go to. On a line a side is -1 toward index 0, 1
toward the end, 0 the PE itself; on a plane it is a Port."""


@dataclass(slots=True)
class Flow:
    """A stream: a message, or the messages of a multicast that leave as one.

    Attributes:
        source: The place that sends.
        arrival: What its words do where they are received.
        way: How each place on the way routes it.
        receivers: The places that take its words.
        colour: Its colour.
        part: The part of the words that it carries.
        slot: Where its words are stored, in lengths behind the target address.
        words: Its words, where streams of a pattern differ in them.
    """

    source: int
    arrival: Arrival
    way: dict[int, Config]
    receivers: list[int]
    colour: int
    part: int = 0
    slot: int = 0
    words: int | None = None


@dataclass(frozen=True, slots=True)
class PlannedOperation:
    """A vector operation of a PE: the stream that it receives, the stream that it sends, or both at once."""

    place: int
    flow: Flow  # either of them: both carry the same words
    receive: Flow | None
    send: Flow | None


@dataclass(slots=True)
class PlannedPosition:
    """A switch position on a line: its sides, the streams that cross it, and what ends it."""

    config: Config
    flows: list[Flow]
    waits_for_release: bool = False
    releases: tuple[int, int] | None = None


@dataclass(slots=True)
class Plan:
    """The streams of a pattern, the operations of its PEs in order, and the switch positions of each (PE, colour)."""

    flows: list[Flow]
    operations: list[PlannedOperation] = field(default_factory=list)
    positions: dict[tuple[int, int], list[PlannedPosition]] = field(default_factory=dict)
    colours: int = 0

    def carries_control_bit(self, flow: Flow) -> bool:
        """Return whether a switch on the path counts the stream's control bit."""
        return any(self._counts(pe, flow.colour) for pe in flow.way)

    def _counts(self, pe: int, colour: int) -> bool:
        turns = self.positions[pe, colour]
        return len(turns) > 1 or turns[0].releases is not None


def plan_line(
    messages: I32, colours: I32 | None = None, part: I32 | None = None, *, store_and_forward: bool = False
) -> Plan:
    """Return the plan of the messages ``[m, 3]`` of one line.

    ``store_and_forward``: no receive is fused with a send.
    """
    flows = _flows(messages, colours, part)
    if colours is None:
        _choose_colours(flows)
    return _plan(flows, fuse=part is None and not store_and_forward)


def plan_plane(schedule: PlaneSchedule) -> Plan:
    """Return the plan of a rectangle."""
    pairs = zip(schedule.streams, schedule.stream_colours, strict=True)
    return _plan([_tree(stream, schedule.cols, colour) for stream, colour in pairs], fuse=True)


def _plan(flows: list[Flow], *, fuse: bool) -> Plan:
    plan = Plan(flows)
    for flow in flows:
        for place, config in flow.way.items():
            turns = plan.positions.setdefault((place, flow.colour), [])
            if not turns or turns[-1].config != config:
                turns.append(PlannedPosition(config, []))
            turns[-1].flows.append(flow)
    plan.operations = _steps(flows, fuse=fuse)
    _hold(plan)
    plan.colours = max((flow.colour + 1 for flow in flows), default=0)
    return plan


def _steps(flows: list[Flow], *, fuse: bool) -> list[PlannedOperation]:
    """Return the operations of all PEs in order.

    Where they ``fuse``, a receive that combines and the next send are one.
    """
    steps: list[PlannedOperation] = []
    waiting: dict[int, Flow] = {}
    for flow in flows:
        steps.append(PlannedOperation(flow.source, flow, waiting.pop(flow.source, None), flow))
        for place in flow.receivers:
            if not fuse or flow.arrival not in COMBINING:
                steps.append(PlannedOperation(place, flow, flow, None))
                continue
            before = waiting.pop(place, None)
            if before:
                steps.append(PlannedOperation(place, before, before, None))
            waiting[place] = flow
    return steps + [PlannedOperation(place, flow, flow, None) for place, flow in waiting.items()]


def _hold(plan: Plan) -> None:
    """Keep the receive colour of a PE whose receive is fused with its send until the last word is sent."""
    for step in plan.operations:
        if step.receive is None or step.send is None:
            continue
        receiving = plan.positions[step.place, step.receive.colour]
        sending = plan.positions[step.place, step.send.colour]
        at = next(i for i, turn in enumerate(receiving) if step.receive in turn.flows)
        by = next(turn for turn in sending if step.send in turn.flows)
        lasts = receiving[at].flows[-1] is step.receive and by.flows[-1] is step.send
        if lasts and at + 1 < len(receiving) and by.releases is None:
            receiving[at].waits_for_release = True
            by.releases = (step.receive.colour, at + 1)


def _flows(messages: I32, colours: I32 | None, part: I32 | None) -> list[Flow]:
    flows: list[Flow] = []
    multicast: list[int] = []  # targets of the multicast that the last message belongs to
    for i, (source, target, arrival) in enumerate(messages.tolist()):
        if arrival == Arrival.COPY or source == target:
            continue
        before = flows.pop() if multicast and flows[-1].source == source and arrival == Arrival.MULTICAST else None
        multicast = [*(multicast if before else ()), target] if arrival == Arrival.MULTICAST else []
        way = _along_line(source, multicast or [target], tap=bool(multicast))
        receivers = [place for place in way if place != source] if multicast else [target]
        chosen, carried = -1 if colours is None else int(colours[i]), 0 if part is None else int(part[i])
        flows.append(Flow(source, Arrival(arrival), way, receivers, before.colour if before else chosen, carried))
    return flows


def _along_line(source: int, targets: list[int], *, tap: bool) -> dict[int, Config]:
    """Return the switch positions along a line for words from ``source`` to ``targets``.

    With ``tap`` all between take them.
    """
    sides = tuple(sorted(1 if target > source else -1 for target in targets))
    way: dict[int, Config] = {source: (0, sides)}
    for target in targets:
        step = 1 if target > source else -1
        for place in range(source + step, target, step):
            way[place] = (-step, (*((0,) if tap else ()), step))
        way[target] = (-step, (0,))
    return way


def _tree(stream: PlaneStream, cols: int, colour: int) -> Flow:
    """Return a stream of a plane, with its links from the source outward."""
    entered: dict[int, int] = {stream.source[0] * cols + stream.source[1]: Port.RAMP}
    leaving: dict[int, list[int]] = {place: [] for place in entered}
    for row, col, side in stream.links.tolist():
        down, right = STEP[Port(side)]
        entered_pe = (row + down) * cols + col + right
        leaving[row * cols + col].append(side)
        entered[entered_pe], leaving[entered_pe] = Port(side).opposite, []
    receivers = [row * cols + col for row, col in stream.receivers]
    for place in receivers:
        leaving[place].append(Port.RAMP)
    way = {place: (entered[place], tuple(sorted(leaving[place]))) for place in entered}
    return Flow(next(iter(entered)), Arrival.REPLACE, way, receivers, colour, slot=stream.slot, words=stream.words)


def _choose_colours(flows: list[Flow]) -> None:
    """Return for each stream the lowest colour that no PE on its path uses differently.

    What is combined and what is stored come on different colours, because different threads take them.
    """
    uses_by_colour: dict[tuple[int, int], tuple[Config, bool]] = {}
    for flow in sorted(flows, key=lambda flow: min(flow.way)):
        uses = {pe: (config, flow.arrival in COMBINING) for pe, config in flow.way.items()}
        flow.colour = 0
        while any(uses_by_colour.get((pe, flow.colour), use) != use for pe, use in uses.items()):
            flow.colour += 1
        uses_by_colour |= {(pe, flow.colour): use for pe, use in uses.items()}
