"""Time to first token: the chunks of the prompts, each in the next stage as soon as it can be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from wse.backends.fabric.model import Fabric
from wse.backends.fabric.phase_cost import PhaseCost
from wse.hardware.spec import WaferSpec
from wse.program.phase import Phase
from wse.reports.result import Doc, Result
from wse.serving import events
from wse.serving.pipelining import chunks_cycles, idle_fraction
from wse.serving.route import Route, alone_cycles
from wse.studies.estimate.timing.stage_times import REGION, RouteReader, Server

MOST_VISITS: Final = 40_000
"""Visits of the longest discrete-event run of a report: some 0.1 s."""
CLOSED_FORM, EVENTS, BOUND = "closed form", "discrete-event run", "lower bound"


@dataclass(frozen=True, kw_only=True)
class ChunksResult(Result):
    """The chunks of a stream's prompts."""

    chunks: Annotated[int, Doc("chunks")]
    sequential_s: Annotated[float, Doc("one after another", "s")]
    pipelined_s: Annotated[float, Doc("behind each other through the stages", "s")]
    pipelined_by: Annotated[str, Doc("how that is known: closed form, discrete-event run or lower bound")]
    bubble_fraction: Annotated[float, Doc("time that stages are idle meanwhile")]

    @property
    def are_exact(self) -> bool:
        """True if the time one after another is known, and not only bounded."""
        return self.pipelined_by != BOUND

    def ttft_s(self, wafer: WaferSpec) -> float:
        """Return the time to first token of the last user, from host to host, in seconds.

        Where the time of pipelined chunks is only bounded, the chunks count as read one after another. Half of the
        wafer's round trip to the host is that of the first token on its way out, which no chunk waits for.
        """
        return (self.pipelined_s if self.are_exact else self.sequential_s) + wafer.host_round_trip_s / 2


class PromptRoutes:
    """The routes of the chunks of the prompts through the stages, collected chunk by chunk."""

    def __init__(self, fabric: Fabric) -> None:
        self._reader, self._wafer = RouteReader(fabric), fabric.wafer
        self._routes: list[Route] = []

    def add(self, phase: Phase, cost: PhaseCost) -> None:
        """Add the next chunk."""
        self._routes.append(self._reader.route(phase, cost))

    def result(self) -> ChunksResult:
        """Return the times of all chunks that were added, at least one."""
        return chunks_result(self._routes, self._reader.servers, self._wafer)


def prompts_result(fabric: Fabric, costs: Sequence[PhaseCost]) -> ChunksResult:
    """Return the times of the chunks of all prompts, of which ``costs`` has every one in order."""
    routes = PromptRoutes(fabric)
    for phase, cost in zip(fabric.program.prefill, costs, strict=True):
        routes.add(phase, cost)
    return routes.result()


def chunks_result(routes: Sequence[Route], servers: Sequence[Server], wafer: WaferSpec) -> ChunksResult:
    """Return the times of chunks on their routes through servers, one after another and pipelined."""
    regions = [number for number, server in enumerate(servers) if server.kind == REGION]
    sequential = sum(times * alone_cycles(route) for route, times in Counter(routes).items())
    pipelined, how = _pipelined_cycles(routes)
    return ChunksResult(
        chunks=len(routes),
        sequential_s=sequential / wafer.clock_hz,
        pipelined_s=pipelined / wafer.clock_hz,
        pipelined_by=how,
        bubble_fraction=idle_fraction(routes, regions, pipelined),
    )


def _pipelined_cycles(routes: Sequence[Route]) -> tuple[float, str]:
    """Return the cycles of chunks that follow each other through the stages, and how they are known."""
    closed = chunks_cycles(routes)
    if closed.exact:
        return closed.cycles, CLOSED_FORM
    if sum(map(len, routes)) > MOST_VISITS:
        return closed.cycles, BOUND
    return events.run(events.chunks(routes))[-1], EVENTS
