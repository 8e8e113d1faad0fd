"""The steps of a Program as visits to servers: its regions, the links between them, the host.

Stages that share PEs share their time and are one server. A stream from one stage to another is launched
by its PEs and then in transit: microthreads send it out of a buffer while the PEs work on the next token. Its links are
busy for the words of the busiest one, or for its bytes on the link between wafers if that takes longer; the rest is
latency. Streams between different pairs of regions are taken not to meet, those that leave one wafer share its link.
Nothing is lost: all visits together are the cycles of the phase.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from wse.backends.fabric.causes import CAUSES
from wse.backends.fabric.links.link_map import cached_most_words
from wse.backends.fabric.model import Fabric
from wse.backends.fabric.phase_cost import PhaseCost
from wse.hardware.spec import WaferSpec
from wse.program.phase import Phase
from wse.program.program import Program
from wse.program.steps import HOST, Steps
from wse.program.transfers.kinds import transfer_of, transfer_steps
from wse.program.transfers.messages import Translation
from wse.program.transfers.transfer import Transfer
from wse.reports.terminal import number_ranges
from wse.serving.route import Route, Visit, alone_cycles, slowest
from wse.serving.simulation.staged_costs import PassTime

REGION, LINK, WAFER_LINK, HOST_LINK = "region", "link", "wafer link", "host"
KINDS: Final = (REGION, LINK, WAFER_LINK, HOST_LINK)


@dataclass(frozen=True, slots=True)
class Server:
    """A server of one token at a time.

    Attributes:
        kind: One of ``KINDS``.
        wafer: The wafer that it is on, or whose streams to other wafers or the host it carries.
        stages: A region's stages; the two that a link joins.
    """

    kind: str
    wafer: int
    stages: tuple[int, ...]

    @property
    def name(self) -> str:
        """The name of the server for people."""
        stages = number_ranges(self.stages)
        match self.kind:
            case "region":
                return f"stage {stages}" if len(self.stages) == 1 else f"stages {stages}"
            case "link":
                return f"link of stages {stages}"
            case "wafer link":
                return f"link out of wafer {self.wafer}"
            case _:
                return f"link of the host to wafer {self.wafer}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTimes:
    """Servers, and the routes of the prompts' chunks in order and of one decoded token of each user, in cycles."""

    servers: tuple[Server, ...]
    prefill: tuple[Route, ...]
    decode: Route

    def of_kind(self, kind: str) -> tuple[int, ...]:
        """Return the servers of a kind."""
        return tuple(number for number, server in enumerate(self.servers) if server.kind == kind)


class _Stream(NamedTuple):
    """A step whose words go from one server to another: its link, cycles that this is busy, whether the host sends.

    ``receiver`` is the server of the stage that they go to; -1 where they come from the host or go there.
    """

    link: int
    link_cycles: int
    from_host: bool
    receiver: int


def stage_times(fabric: Fabric, prefill: Sequence[PhaseCost], decode: PhaseCost) -> StageTimes:
    """Return the routes of a Program's phases.

    Args:
        fabric: The model that made the costs.
        prefill: The cost of each chunk, as ``Fabric.prefill_cost`` gives it.
        decode: That of one token of each user at some length of the caches.
    """
    reader = RouteReader(fabric)
    program = fabric.program
    return StageTimes(
        prefill=tuple(reader.route(phase, cost) for phase, cost in zip(program.prefill, prefill, strict=True)),
        decode=reader.route(program.decode, decode),
        servers=tuple(reader.servers),
    )


def streams_in_cache(program: Program) -> int:
    """Streams, of ``program.batch`` users each, whose caches fit if they get all SRAM that is free."""
    return min(
        (max(0, room) // stream_bytes for stream_bytes, room in program.cache_bytes() if stream_bytes), default=1
    )


class RouteReader:
    """Reads phases as routes, and numbers servers as it meets them, regions first."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric, self._program = fabric, fabric.program
        self._empty = self._program.cache_slots(0)
        self._numbers: dict[tuple[object, ...], int] = {}
        self.servers: list[Server] = []
        self._streams: dict[Steps, dict[int, _Stream]] = {}
        self._routes: WeakKeyDictionary[PhaseCost, Route] = WeakKeyDictionary()  # costs of a run's chunks are large
        stages: dict[tuple[object, ...], list[int]] = {}
        spans = [number for number, stage in enumerate(self._program.stages) if stage.span > 1]
        for number, stage in enumerate(self._program.stages):
            joined = [other_stage for other_stage in spans if self._program.shares_pes(number, other_stage)]
            key = (REGION, *joined) if joined else (REGION, stage.wafer, stage.rect)
            stages.setdefault(key, []).append(number)
        of_stage = np.zeros(len(self._program.stages), np.int64)
        for key, shared in stages.items():
            wafer = self._program.stages[shared[0]].wafer
            of_stage[shared] = self._number(key, Server(REGION, wafer, tuple(shared)))
        self._of_stage = of_stage

    def route(self, phase: Phase, cost: PhaseCost) -> Route:
        """Return the visits of one run of a phase; those to one server without latency between are one.

        What a stage does for words to come, right before they are sent, counts when they are there.
        """
        if cost not in self._routes:  # chunks of one class share their cost
            self._routes[cost] = self._route(phase, cost)
        return self._routes[cost]

    def _route(self, phase: Phase, cost: PhaseCost) -> Route:
        if phase.steps not in self._streams:  # the same ones for all costs of these steps
            self._streams[phase.steps] = self._streams_of(phase)
        streams = self._streams[phase.steps]
        at, alone = self._of_stage[phase.steps.stage], np.array([*streams], np.int64)
        cuts = np.unique(np.concatenate([[0], np.flatnonzero(np.diff(at)) + 1, alone, alone + 1]))
        cuts = cuts[cuts < len(phase.steps)]
        cycles = np.add.reduceat(cost.by_step, cuts)
        launches = cost.by_cause[:, CAUSES.index("launch")]
        visits: list[Visit] = []
        ready = 0.0  # for the next words
        for first, after, total in zip(cuts.tolist(), [*cuts[1:].tolist(), -1], cycles.tolist(), strict=True):
            server, stream = int(at[first]), streams.get(first)
            if stream is None:
                if after in streams and at[after] != server == streams[after].receiver:
                    ready += total
                else:
                    _add(visits, Visit(server, total + ready))
                    ready = 0.0
                continue
            launch = Visit(server, float(launches[first]))
            rest = total - launch.busy_cycles
            busy = min(float(stream.link_cycles), rest)
            sent = Visit(stream.link, busy, rest - busy)
            _add(visits, *((sent, launch) if stream.from_host else (launch, sent)))
        return tuple(visits)

    def _streams_of(self, phase: Phase) -> dict[int, _Stream]:
        """Return the streams between servers, by step.

        A stage waits while its logits leave: the next ones want their buffer. The id that leaves takes no time.
        """
        places = np.flatnonzero(transfer_steps(phase.steps, lambda kind: kind.by_place)).tolist()
        streams = ((step, self._stream(phase, step)) for step in places)
        return {step: stream for step, stream in streams if stream is not None}

    def _stream(self, phase: Phase, step: int) -> _Stream | None:
        """Return the stream of a step; None where its words stay at one server, or are not waited for."""
        source, transfer = int(phase.steps.stage[step]), transfer_of(self._program, phase, step, self._empty)
        wafer, messages = self._program.stages[source].wafer, transfer.messages
        from_host = any(sender == HOST for sender, _ in transfer.crossings)
        ends = (source, messages.target_stage) if isinstance(messages, Translation) else ()
        regions = tuple(int(self._of_stage[stage]) for stage in ends)
        if len(set(regions)) < 2 and not from_host:
            return None
        kind = HOST_LINK if from_host else WAFER_LINK if transfer.leaves_wafer else LINK
        link = (regions, ends) if kind == LINK else ((wafer,), ())
        number = self._number((kind, *link[0]), Server(kind, wafer, link[1]))
        cycles = self._link_cycles(phase, step, transfer, from_host=from_host)
        return _Stream(number, cycles, from_host, regions[-1] if regions else -1)

    def _link_cycles(self, phase: Phase, step: int, transfer: Transfer, *, from_host: bool) -> int:
        """Return the cycles in which the links of a stream are busy."""
        wafer = self._fabric.wafer
        words = cached_most_words(self._fabric.traffic.step_traffic(phase, step, self._empty).rectangles)
        cycles = words / wafer.stream_words_per_cycle
        if transfer.leaves_wafer:
            rate = wafer.host_bytes_per_s if from_host else wafer.wafer_link_bytes_per_s
            cycles = max(cycles, transfer.crossing_bytes / rate * wafer.clock_hz)
        return math.ceil(cycles)

    def _number(self, key: tuple[object, ...], server: Server) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self.servers)
            self.servers.append(server)
        return self._numbers[key]


def pass_time(reader: RouteReader, wafer: WaferSpec, route: Route) -> PassTime:
    """Return the time of a pass without the host's round trip, which no other request waits for."""
    trips = sum(visit.latency_cycles for visit in route if reader.servers[visit.server].kind == HOST_LINK)
    return PassTime((alone_cycles(route) - trips) / wafer.clock_hz, slowest(route)[1] / wafer.clock_hz)


def _add(visits: list[Visit], *more: Visit) -> None:
    """Append visits that take time."""
    for visit in more:
        last = visits[-1] if visits else None
        if last is not None and last.server == visit.server and not last.latency_cycles:
            visits[-1] = visit._replace(busy_cycles=last.busy_cycles + visit.busy_cycles)
        elif visit.busy_cycles or visit.latency_cycles:
            visits.append(visit)
