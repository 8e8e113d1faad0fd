"""Routes of phases: the steps of a Program as visits to regions, links and the host.

A server (`Server`) handles one token at a time. Stages that share PEs share their time and form one
server.

A stream of words from one stage to another is launched by the sender's PEs and is then in transit:
microthreads send it from a buffer while the PEs work on the next token. How long it keeps its links
busy is determined by the words on the busiest link or by the bytes on the inter-wafer link,
whichever takes longer. The rest of its time is latency.

Streams between different pairs of regions are assumed not to share links on the mesh. Streams that
leave the same wafer share its link. The cycle counts of all visits add up to the cycle count of the
phase.
"""

from __future__ import annotations

import math
from copy import copy
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from wse.backends.fabric.links.link_map import cached_max_link_words
from wse.hardware.spec import WaferSpec
from wse.program.steps import HOST
from wse.program.transfers.stage_streams import StageStream
from wse.program.transfers.transfer_types import transfer_of, transfer_steps
from wse.serving.route import PassRoute, Visit, alone_cycles, busiest_server
from wse.serving.simulation.costs.staged_costs import PassTime
from wse.studies.estimate.timing.servers import HOST_LINK, LINK, REGION, WAFER_LINK, Server

if TYPE_CHECKING:
    from wse.backends.fabric.model import Fabric
    from wse.backends.fabric.phase_cost import PhaseCost
    from wse.program.steps import Phase, Steps
    from wse.program.transfers.transfer import Transfer

_LINK_RATES: Final = ("clock_hz", "stream_words_per_cycle", "host_bytes_per_s", "wafer_link_bytes_per_s")


class _Stream(NamedTuple):
    """Transfer of words from one PE region to another, or between a region and the host.

    Attributes:
        link: Index of the link that carries the words, in the list of servers (regions and links).
        link_cycles: Number of cycles for which the link is busy.
        from_host: Whether the host sends the words.
        receiver: Index of the region that receives the words; -1 if the host sends or receives
            them.
    """

    link: int
    link_cycles: int
    from_host: bool
    receiver: int


class _Segment(NamedTuple):
    """Part of a phase: consecutive steps on one server, or one step that sends words to another.

    A server is a PE region, a link or a host connection.

    Attributes:
        first_step: Index of the first step. The segment ends where the next segment begins.
        server: Index of the server that executes the steps.
        stream: The transfer, if the step sends words; otherwise None.
        is_before_arrival: Whether the server receives words from another server right after the
            steps.
    """

    first_step: int
    server: int
    stream: _Stream | None
    is_before_arrival: bool


class RouteReader:
    """Converter of the cycle counts of a phase to a route: the servers that it occupies, in order.

    A server is a PE region, a link or a host connection. Regions have the lowest indices. Other
    servers get an index when they first occur in a route.
    """

    def __init__(self, fabric: Fabric) -> None:
        """Create a reader for a compiled Program. Stages that share PEs form one region.

        Args:
            fabric: Timing model of the Program.
        """
        self._fabric, self._program = fabric, fabric.program
        self._empty = self._program.cache_slots(0)
        self._numbers: dict[tuple[object, ...], int] = {}
        self.servers: list[Server] = []
        self._segments: dict[Steps, list[_Segment]] = {}
        self._routes: WeakKeyDictionary[PhaseCost, PassRoute] = WeakKeyDictionary()  # costs of a run's chunks are large
        stages: dict[tuple[object, ...], list[int]] = {}
        spans = [number for number, stage in enumerate(self._program.stages) if stage.span > 1]
        for number, stage in enumerate(self._program.stages):
            overlapping_stages = [other_stage for other_stage in spans if self._program.shares_pes(number, other_stage)]
            key = (REGION, *overlapping_stages) if overlapping_stages else (REGION, stage.wafer, stage.rect)
            stages.setdefault(key, []).append(number)
        server_of_stage = np.zeros(len(self._program.stages), np.int64)
        for key, stage_group in stages.items():
            wafer = self._program.stages[stage_group[0]].wafer
            server_of_stage[stage_group] = self._number(key, Server(REGION, wafer, tuple(stage_group)))
        self._server_of_stage = server_of_stage

    def with_costs(self, fabric: Fabric) -> RouteReader:
        """Return a reader for the same Program with changed costs of the wafer and its software.

        Both readers share the list of servers. If the link rates and the clock are the same, they
        also share a cache with the cycles for which transfers keep links busy.

        Args:
            fabric: Timing model with the changed costs, from ``Fabric.with_costs``.
        """
        reader, old, new = copy(self), self._fabric.wafer, fabric.wafer
        reader._fabric, reader._routes = fabric, WeakKeyDictionary()
        if any(getattr(old, rate) != getattr(new, rate) for rate in _LINK_RATES):
            reader._segments = {}
        return reader

    def route(self, phase: Phase, cost: PhaseCost) -> PassRoute:
        """Return the servers that a phase occupies, in order, with the cycle count of each visit.

        Consecutive visits to the same server are merged unless there is a latency between them.
        Work that a stage does right before it receives words from another server counts as if it
        were done after the words arrive.

        Args:
            phase: Phase of the Program.
            cost: Cycle count of each step of the phase.
        """
        if cost not in self._routes:  # chunks of one class share their cost
            self._routes[cost] = self._route(phase, cost)
        return self._routes[cost]

    def _route(self, phase: Phase, cost: PhaseCost) -> PassRoute:
        """Compute the result of `route` without its cache.

        A step that sends words becomes two visits: one to the sender, which starts the transfer,
        and one to a link. Every other segment of steps becomes one visit.
        """
        if phase.steps not in self._segments:  # segments do not depend on the costs
            self._segments[phase.steps] = self._segments_of(phase)
        segments = self._segments[phase.steps]
        first_steps = [segment.first_step for segment in segments]
        cycles = np.add.reduceat(cost.by_step, first_steps).tolist()
        launches = cost.launch_by_step[first_steps].tolist()
        visits: list[Visit] = []
        postponed = 0.0  # work of a receiver right before the words arrive; counted after their arrival
        for (_, server, stream, is_before_arrival), total, launch_cycles in zip(
            segments, cycles, launches, strict=True
        ):
            if stream is None:
                if is_before_arrival:
                    postponed += total
                else:
                    _add(visits, Visit(server, total + postponed))
                    postponed = 0.0
                continue
            rest = total - launch_cycles
            busy = min(float(stream.link_cycles), rest)
            launch, transit = Visit(server, launch_cycles), Visit(stream.link, busy, rest - busy)
            _add(visits, *((transit, launch) if stream.from_host else (launch, transit)))
        return tuple(visits)

    def _segments_of(self, phase: Phase) -> list[_Segment]:
        """Divide the steps of a phase into segments, which become visits to servers.

        A step that sends words to another server forms its own segment. Other consecutive steps
        form a segment as long as they run on the same server.
        """
        streams, servers = self._streams_of(phase), self._server_of_stage[phase.steps.stage]
        stream_steps = np.array([*streams], np.int64)
        cuts = np.unique(np.concatenate([[0], np.flatnonzero(np.diff(servers)) + 1, stream_steps, stream_steps + 1]))
        first_steps = cuts[cuts < len(phase.steps)].tolist()
        segments = []
        for first, end in zip(first_steps, [*first_steps[1:], -1], strict=True):
            server, is_before_arrival = int(servers[first]), False
            if first not in streams and end in streams:
                is_before_arrival = int(servers[end]) != server == streams[end].receiver
            segments.append(_Segment(first, server, streams.get(first), is_before_arrival))
        return segments

    def _streams_of(self, phase: Phase) -> dict[int, _Stream]:
        """Return the transfers of a phase from one server to another, keyed by step index.

        Two transfers to the host are not included:
        - sending logits: the stage must wait for the transfer, because the next logits need the
          same buffer
        - sending the token id: it takes no time
        """
        places = np.flatnonzero(transfer_steps(phase.steps, lambda kind: kind.by_place)).tolist()
        classes = self._fabric.shape_classes(phase)
        cycles: dict[int, int] = {}  # by class, because steps of a class keep their links busy for equally long
        streams = ((step, self._stream(phase, step, int(classes[step]), cycles)) for step in places)
        return {step: stream for step, stream in streams if stream is not None}

    def _stream(self, phase: Phase, step: int, step_class: int, cycles: dict[int, int]) -> _Stream | None:
        """Return a step's transfer of words to another PE region or from the host.

        The result is None if the words neither leave a region nor come from the host.

        Args:
            phase: Phase of the Program.
            step: Index of the step that sends the words.
            step_class: Class of the step, from ``Fabric.shape_classes``.
            cycles: For each class of steps, how many cycles a step keeps its link busy. The class
                is added if it is missing.
        """
        source, transfer = int(phase.steps.stage[step]), transfer_of(self._program, phase, step, self._empty)
        wafer = self._program.stages[source].wafer
        from_host = any(sender == HOST for sender, _ in transfer.crossings)
        ends = (source, transfer.target_stage) if isinstance(transfer, StageStream) else ()
        regions = tuple(int(self._server_of_stage[stage]) for stage in ends)
        if len(set(regions)) < 2 and not from_host:
            return None
        link_kind = HOST_LINK if from_host else WAFER_LINK if transfer.leaves_wafer else LINK
        link = (regions, ends) if link_kind == LINK else ((wafer,), ())
        number = self._number((link_kind, *link[0]), Server(link_kind, wafer, link[1]))
        if step_class not in cycles:
            cycles[step_class] = self._link_cycles(phase, step, transfer, from_host=from_host)
        return _Stream(number, cycles[step_class], from_host, regions[-1] if regions else -1)

    def _link_cycles(self, phase: Phase, step: int, transfer: Transfer, *, from_host: bool) -> int:
        """Return how many cycles a transfer keeps its link busy.

        It is the longer of two times: for the words on the busiest link of the mesh, and for the
        bytes on the link to another wafer or the host, if there is one.

        Args:
            phase: Phase of the Program.
            step: Index of the step that sends the words.
            transfer: The transfer.
            from_host: Whether the host sends the words.
        """
        wafer = self._fabric.wafer
        words = cached_max_link_words(self._fabric.traffic.step_traffic(phase, step, self._empty).rectangles)
        cycles = words / wafer.stream_words_per_cycle
        if transfer.leaves_wafer:
            rate = wafer.host_bytes_per_s if from_host else wafer.wafer_link_bytes_per_s
            cycles = max(cycles, transfer.crossing_bytes / rate * wafer.clock_hz)
        return math.ceil(cycles)

    def _number(self, key: tuple[object, ...], server: Server) -> int:
        """Return the index of a server in the list of servers, adding the server if it is new.

        Args:
            key: Key that identifies the server.
            server: The server.
        """
        if key not in self._numbers:
            self._numbers[key] = len(self.servers)
            self.servers.append(server)
        return self._numbers[key]


def pass_time(reader: RouteReader, wafer: WaferSpec, route: PassRoute) -> PassTime:
    """Return the duration of a pass, and how long it occupies the busiest server.

    The duration excludes the round trip to the host, because it does not delay other requests.

    Args:
        reader: Reader that returned the route.
        wafer: The wafer, which determines the clock rate.
        route: The pass's visits to PE regions, links and the host.
    """
    trips = sum(visit.latency_cycles for visit in route if reader.servers[visit.server].kind == HOST_LINK)
    return PassTime((alone_cycles(route) - trips) / wafer.clock_hz, busiest_server(route)[1] / wafer.clock_hz)


def _add(visits: list[Visit], *new_visits: Visit) -> None:
    """Append visits to a route, except visits without any cycles.

    A visit to the same server as the previous visit is merged with it, unless there is a latency
    between them.
    """
    for visit in new_visits:
        last = visits[-1] if visits else None
        if last is not None and last.server == visit.server and not last.latency_cycles:
            visits[-1] = Visit(visit.server, last.busy_cycles + visit.busy_cycles, visit.latency_cycles)
        elif visit.busy_cycles or visit.latency_cycles:
            visits.append(visit)
