"""Time to process all prompts, whose chunks are pipelined through the stages of a model.

A stage starts a chunk when the previous stage has finished it, and the stage itself has finished
the previous chunk. The time determines the time to first token (TTFT).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

from wse.hardware.spec import WaferSpec
from wse.reports.result import Doc, Result
from wse.serving import events
from wse.serving.pipelining import chunks_cycles, idle_fraction
from wse.serving.route import PassRoute, alone_cycles, route_counts
from wse.studies.estimate.timing.servers import REGION, Server
from wse.studies.estimate.timing.stage_times import RouteReader

if TYPE_CHECKING:
    from wse.backends.fabric.model import Fabric
    from wse.backends.fabric.phase_cost import PhaseCost
    from wse.program.steps import Phase

MAX_VISITS: Final = 40_000
"""Maximum number of visits in a discrete-event run for a report, which takes about 0.1 s."""
CLOSED_FORM, EVENTS, BOUND = "closed form", "discrete-event run", "lower bound"


class ChunksResult(Result):
    """Times to process the prompts of a batch of users, chunk by chunk.

    A chunk is a part of a prompt. The chunks are pipelined: while one stage processes a chunk, the
    stage before it already processes the next chunk.
    """

    chunks: Annotated[int, Doc("number of chunks")]
    sequential_s: Annotated[float, Doc("time of the chunks one at a time", "s")]
    pipelined_s: Annotated[float, Doc("time of the chunks pipelined through the stages", "s")]
    pipelined_by: Annotated[str, Doc("source of `pipelined_s`: closed form, discrete-event run or lower bound")]
    bubble_fraction: Annotated[float, Doc("fraction of `pipelined_s` for which stages are idle")]

    def ttft_s(self, wafer: WaferSpec) -> float:
        """Return the time to first token of the last user of the batch, in seconds.

        It is the time to process all chunks, plus half of a round trip to the host: the first token
        is sent to the host. For very long prompts of several users, it may be only a lower bound.
        """
        return self.pipelined_s + wafer.host_round_trip_s / 2


class PromptRoutes:
    """Collector of prompt chunks that computes the time to process all of them.

    For each chunk, it stores which regions, links and host connections the chunk occupies, and for
    how long.
    """

    def __init__(self, fabric: Fabric) -> None:
        """Create a collector without any prompt chunks.

        Args:
            fabric: Timing model of the compiled Program that processes the chunks.
        """
        self._reader, self._wafer = RouteReader(fabric), fabric.wafer
        self._routes: list[PassRoute] = []

    def add(self, phase: Phase, cost: PhaseCost) -> None:
        """Add the next prompt chunk.

        Args:
            phase: Prefill phase of the chunk.
            cost: Cycle count of that phase.
        """
        self._routes.append(self._reader.route(phase, cost))

    def result(self) -> ChunksResult:
        """Return the times of all added chunks. At least one chunk must have been added."""
        return chunks_result(self._routes, self._reader.servers, self._wafer)


def prompts_result(fabric: Fabric, costs: Sequence[PhaseCost]) -> ChunksResult:
    """Return how long it takes to process all prompts, chunk by chunk.

    Args:
        fabric: Timing model of the compiled Program.
        costs: Cycle count of each chunk, in order.
    """
    routes = PromptRoutes(fabric)
    for phase, cost in zip(fabric.program.prefill, costs, strict=True):
        routes.add(phase, cost)
    return routes.result()


def chunks_result(routes: Sequence[PassRoute], servers: Sequence[Server], wafer: WaferSpec) -> ChunksResult:
    """Return how long it takes to process prompt chunks, both one at a time and pipelined.

    Args:
        routes: For each chunk, the servers that it visits, with the cycle count of each visit.
        servers: PE regions, links and host connections, each of which handles one chunk at a time.
        wafer: The wafer, which determines the clock rate.
    """
    regions = [number for number, server in enumerate(servers) if server.kind == REGION]
    sequential = sum(times * alone_cycles(route) for route, times in route_counts(routes).items())
    pipelined, method = _pipelined_cycles(routes)
    return ChunksResult(
        chunks=len(routes),
        sequential_s=sequential / wafer.clock_hz,
        pipelined_s=pipelined / wafer.clock_hz,
        pipelined_by=method,
        bubble_fraction=idle_fraction(routes, regions, pipelined),
    )


def _pipelined_cycles(routes: Sequence[PassRoute]) -> tuple[float, str]:
    """Return how many cycles pipelined prompt chunks take, and how the number was determined.

    1. If the formula `chunks_cycles` is exact, its result is returned.
    2. Otherwise, the chunks are simulated event by event, unless this would take too long (more
       than `MAX_VISITS` visits to pipeline stages and links).
    3. Otherwise, the result of the formula is returned as a lower bound.
    """
    closed_form = chunks_cycles(routes)
    if closed_form.exact:
        return closed_form.cycles, CLOSED_FORM
    if sum(map(len, routes)) > MAX_VISITS:
        return closed_form.cycles, BOUND
    return events.run(events.chunks(routes))[-1], EVENTS
