"""Plan of a pattern: streams with their colours, switch positions, and operations of PEs.

A plan does not depend on the position of a line on the mesh. On a line, places are indices of PEs,
and sides are directions along the line. On a plane, places are numbers of PEs, row by row, and
sides are ports.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from wse.arrays import I32
from wse.backends.wavelet.machine import STEP, Port
from wse_mappings.plane import PlaneSchedule, PlaneStream
from wse_mappings.schedule import COMBINING, Arrival

Config = tuple[int, tuple[int, ...]]
"""Routing of a switch position: the side that words come from, and the sides that they go to.

On a line, a side is -1 toward index 0, 1 toward the end, or 0 for the PE itself. On a plane, a side
is a Port.
"""


@dataclass(slots=True)
class Flow:
    """Stream of words from one PE: a message, or the two messages of a multicast.

    A place is the index of a PE on a line, or the number of a PE on a rectangle.

    Attributes:
        source: Place of the sender.
        arrival: How the receiving PEs combine or store the words.
        path: Routing at each place on the path.
        receivers: Places that receive the words.
        colour: Colour of the stream.
        part: Index of the part of a PE's words carried by the stream.
        slot: Index of the receive buffer that stores the words. The buffers follow the target
            address.
        words: Number of words if the streams of the pattern differ in length; otherwise None.
    """

    source: int
    arrival: Arrival
    path: dict[int, Config]
    receivers: list[int]
    colour: int
    part: int = 0
    slot: int = 0
    words: int | None = None


@dataclass(frozen=True, slots=True)
class PlannedOperation:
    """Vector operation of a PE, which receives a stream, sends a stream, or does both at once.

    Attributes:
        place: Index of the PE: on the line of the pattern or, if the pattern covers a rectangle of
            PEs, counted row by row.
        flow: The stream that is sent, if there is one; otherwise the received stream.
        receive: Received stream, or None.
        send: Sent stream, or None.
    """

    place: int
    flow: Flow  # the received or the sent stream; both have the same words
    receive: Flow | None
    send: Flow | None


@dataclass(slots=True)
class PlannedPosition:
    """Switch position (setting of a router for one colour), and the streams that use it.

    Attributes:
        config: Side that words come from, and sides that they are sent to.
        flows: Streams that cross the router in this position, in order.
        waits_for_release: Whether the colour accepts nothing after this position until another
            position of the PE releases it.
        releases: (colour, index of a position of that colour) to which the router changes when this
            position ends; None if this position releases nothing.
    """

    config: Config
    flows: list[Flow]
    waits_for_release: bool = False
    releases: tuple[int, int] | None = None


@dataclass(slots=True)
class Plan:
    """Configuration of PEs for a communication pattern: streams, router settings and operations.

    A switch position is a setting of a router for one colour.

    Attributes:
        flows: Streams of the pattern.
        operations: Operations of the PEs, in order.
        positions: Keys are (PE, colour); values are the switch positions there, in order.
        colours: Number of colours.
    """

    flows: list[Flow]
    operations: list[PlannedOperation] = field(default_factory=list)
    positions: dict[tuple[int, int], list[PlannedPosition]] = field(default_factory=dict)
    colours: int = 0

    def carries_control_bit(self, flow: Flow) -> bool:
        """Return True if the last word of a stream must carry the control bit.

        Routers on its path count these bits to know when to change to their next switch position.
        """
        return any(self._counts(pe, flow.colour) for pe in flow.path)

    def _counts(self, pe: int, colour: int) -> bool:
        """Return True if the router of a PE counts the control bits of a colour.

        This is the case if the colour has several switch positions (settings of the router) there,
        or if one of its positions releases another colour.
        """
        positions = self.positions[pe, colour]
        return len(positions) > 1 or positions[0].releases is not None


def plan_line(
    messages: I32, colours: I32 | None = None, part: I32 | None = None, *, store_and_forward: bool = False
) -> Plan:
    """Plan how the PEs and routers of a line exchange the given messages.

    The plan lists streams of words, router settings (switch positions), and operations of PEs.

    Args:
        messages: int32 ``[m, 3]``: index of the sending PE, index of the receiving PE, and
            `Arrival` (how the words are combined or stored) of each message.
        colours: int32 ``[m]``, colour of each message. None to choose colours.
        part: int32 ``[m]``. If a vector of words is divided into parts, each message carries one
            part, and this is its index; None if vectors are not divided.
        store_and_forward: Whether a PE receives all words of a message before it sends. If False
            and ``part`` is None, a PE can combine arriving words with its own and send the results
            on in one operation.
    """
    flows = _flows(messages, colours, part)
    if colours is None:
        _choose_colours(flows)
    return _plan(flows, fuse=part is None and not store_and_forward)


def plan_plane(schedule: PlaneSchedule) -> Plan:
    """Plan how the PEs and routers of a rectangle execute a communication pattern.

    The plan lists streams of words, router settings (switch positions), and operations of PEs.
    """
    pairs = zip(schedule.streams, schedule.stream_colours, strict=True)
    return _plan([_tree(stream, schedule.cols, colour) for stream, colour in pairs], fuse=True)


def _plan(flows: list[Flow], *, fuse: bool) -> Plan:
    """Plan the switch positions and operations that the given streams need on PEs.

    1. Each stream gets a switch position (setting of a router) at every place on its path.
       Consecutive streams with the same routing share a position.
    2. The operations of the PEs are put in order.
    3. If a PE receives and sends in one operation, the colour that it receives on is blocked until
       its words have left.

    Args:
        flows: The streams.
        fuse: Whether a PE that combines received words with its own, and then sends the results,
            does both in one operation.
    """
    plan = Plan(flows)
    for flow in flows:  # 1
        for place, config in flow.path.items():
            positions = plan.positions.setdefault((place, flow.colour), [])
            if not positions or positions[-1].config != config:
                positions.append(PlannedPosition(config, []))
            positions[-1].flows.append(flow)
    plan.operations = _operations_in_order(flows, fuse=fuse)  # 2
    _hold_receive_colours(plan)  # 3
    plan.colours = max((flow.colour + 1 for flow in flows), default=0)
    return plan


def _operations_in_order(flows: list[Flow], *, fuse: bool) -> list[PlannedOperation]:
    """Return the vector operations that all PEs need to send and receive the given streams.

    Each PE executes its operations in the order of the list.

    Args:
        flows: Streams, in order.
        fuse: Whether a PE that combines received words with its own, and then sends the results,
            does both in one operation.
    """
    steps: list[PlannedOperation] = []
    pending_receives: dict[int, Flow] = {}
    for flow in flows:
        steps.append(PlannedOperation(flow.source, flow, pending_receives.pop(flow.source, None), flow))
        for place in flow.receivers:
            if not fuse or flow.arrival not in COMBINING:
                steps.append(PlannedOperation(place, flow, flow, None))
                continue
            pending_receive = pending_receives.pop(place, None)
            if pending_receive:
                steps.append(PlannedOperation(place, pending_receive, pending_receive, None))
            pending_receives[place] = flow
    return steps + [PlannedOperation(place, flow, flow, None) for place, flow in pending_receives.items()]


def _hold_receive_colours(plan: Plan) -> None:
    """Make later streams wait outside a PE while the PE receives and forwards an earlier stream.

    For each operation that receives and sends at once, the colour that it receives on is blocked
    until its last word has been sent.

    Args:
        plan: Streams, switch positions and operations of a pattern. Switch positions (settings of
            routers) are changed.
    """
    for step in plan.operations:
        if step.receive is None or step.send is None:
            continue
        receiving = plan.positions[step.place, step.receive.colour]
        sending = plan.positions[step.place, step.send.colour]
        index = next(i for i, position in enumerate(receiving) if step.receive in position.flows)
        send_position = next(position for position in sending if step.send in position.flows)
        both_last = receiving[index].flows[-1] is step.receive and send_position.flows[-1] is step.send
        if both_last and index + 1 < len(receiving) and send_position.releases is None:
            receiving[index].waits_for_release = True
            send_position.releases = (step.receive.colour, index + 1)


def _flows(messages: I32, colours: I32 | None, part: I32 | None) -> list[Flow]:
    """Convert the messages of a line of PEs to `Flow` objects, the streams of words to simulate.

    The two directions of a multicast become one stream. Copies within a PE are left out.

    Args:
        messages: int32 ``[m, 3]``: index of the sending PE, index of the receiving PE, and
            `Arrival` (how the words are combined or stored) of each message.
        colours: int32 ``[m]``, colour of each message. None if the colours are
            chosen later.
        part: int32 ``[m]``. If a vector of words is divided into parts, each message carries one
            part, and this is its index; None if vectors are not divided.
    """
    flows: list[Flow] = []
    multicast: list[int] = []  # targets of the multicast to which the last message belongs
    for i, (source, target, arrival) in enumerate(messages.tolist()):
        if arrival == Arrival.COPY or source == target:
            continue
        continues = bool(multicast) and flows[-1].source == source and arrival == Arrival.MULTICAST
        first_direction = flows.pop() if continues else None
        multicast = [*(multicast if first_direction else ()), target] if arrival == Arrival.MULTICAST else []
        path = _along_line(source, multicast or [target], tap=bool(multicast))
        receivers = [place for place in path if place != source] if multicast else [target]
        message_colour, message_part = -1 if colours is None else int(colours[i]), 0 if part is None else int(part[i])
        colour = first_direction.colour if first_direction else message_colour
        flows.append(Flow(source, Arrival(arrival), path, receivers, colour, message_part))
    return flows


def _along_line(source: int, targets: list[int], *, tap: bool) -> dict[int, Config]:
    """Return how each router of a line forwards words from ``source`` to ``targets``.

    Args:
        source: Index of the sending PE.
        targets: Index of the last receiving PE in each direction.
        tap: Whether all PEs in between also receive the words, as in a multicast.
    """
    sides = tuple(sorted(1 if target > source else -1 for target in targets))
    path: dict[int, Config] = {source: (0, sides)}
    for target in targets:
        step = 1 if target > source else -1
        for place in range(source + step, target, step):
            path[place] = (-step, (*((0,) if tap else ()), step))
        path[target] = (-step, (0,))
    return path


def _tree(stream: PlaneStream, cols: int, colour: int) -> Flow:
    """Convert a stream of words that may branch to a `Flow`, which includes its routing.

    Args:
        stream: Sender, receivers and links of the stream in a rectangle of PEs.
        cols: Number of columns of the rectangle.
        colour: Colour (index of the routes in the routers) that the stream uses.
    """
    entered: dict[int, int] = {stream.source[0] * cols + stream.source[1]: Port.RAMP}
    leaving: dict[int, list[int]] = {place: [] for place in entered}
    for row, col, side in stream.links.tolist():
        row_step, col_step = STEP[Port(side)]
        entered_pe = (row + row_step) * cols + col + col_step
        leaving[row * cols + col].append(side)
        entered[entered_pe], leaving[entered_pe] = Port(side).opposite, []
    receivers = [row * cols + col for row, col in stream.receivers]
    for place in receivers:
        leaving[place].append(Port.RAMP)
    path = {place: (entered[place], tuple(sorted(leaving[place]))) for place in entered}
    return Flow(next(iter(entered)), Arrival.REPLACE, path, receivers, colour, slot=stream.slot, words=stream.words)


def _choose_colours(flows: list[Flow]) -> None:
    """Assign a colour to each stream: the lowest one that fits at all PEs on its path.

    A colour does not fit if a PE on the path uses it with a different routing. Streams whose words
    are added and streams whose words are stored also get different colours, because different
    threads receive them.
    """
    uses_by_colour: dict[tuple[int, int], tuple[Config, bool]] = {}
    for flow in sorted(flows, key=lambda flow: min(flow.path)):
        uses = {pe: (config, flow.arrival in COMBINING) for pe, config in flow.path.items()}
        flow.colour = 0
        while any(uses_by_colour.get((pe, flow.colour), use) != use for pe, use in uses.items()):
            flow.colour += 1
        uses_by_colour |= {(pe, flow.colour): use for pe, use in uses.items()}
