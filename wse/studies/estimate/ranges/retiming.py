"""Timing of a compiled Program with different constants of its wafer and software."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Final

import numpy as np

from wse.arrays import F64
from wse.backends.fabric.model import Fabric
from wse.program.program import Program
from wse.serving.deployment.wafers import WaferDeployment
from wse.serving.route import PassRoute, alone_cycles, as_loop, busiest_server
from wse.studies.estimate.prepare import PreparedEstimate
from wse.studies.estimate.ranges.constants import Costs
from wse.studies.estimate.timing.servers import HOST_LINK
from wse.studies.estimate.timing.stage_times import RouteReader

TIMES: Final = ("token_s", "stage_s", "prompt_s", "delay_s")
"""Fields of a `WaferDeployment` that depend on constants, in the order of the arrays here."""


class Retiming:
    """Timing model that quickly times a compiled Program with different constants.

    It is faster than an estimate for two reasons:
    - Work that does not depend on the constants, such as finding equivalent steps, is done once.
    - Only one decode pass, halfway through the answer, and two chunks of a prompt are timed.

    The times are therefore not exact. They are used only in ratios: the time with changed
    constants, divided by the time with the stated constants.

    Attributes:
        costs: Wafer and software profile with the stated constants.
        stated_times: float64 ``[4]``, result of `times` for the stated constants.
    """

    def __init__(self, prepared_estimate: PreparedEstimate, program: Program) -> None:
        """Time a compiled Program once with the stated constants.

        Args:
            prepared_estimate: The request.
            program: The compiled model.
        """
        self.costs = Costs(wafer=prepared_estimate.wafer, software=prepared_estimate.software)
        self._fabric = Fabric(program, self.costs.wafer, self.costs.software, prepared_estimate.meshes)
        self._reader = RouteReader(self._fabric)
        self._context = prepared_estimate.middle_context
        self._chunk_weights = _chunk_weights(program)
        self.stated_times = self.times(self.costs)  # also fills the shared classes

    def times(self, costs: Costs) -> F64:
        """Return four durations of the Program with the given constants.

        Args:
            costs: Wafer and software profile, which must have the same mesh and generation.

        Returns:
            float64 ``[4]`` in seconds, in the order of `TIMES`: the time of a decode pass, the time
            that the busiest stage works on this pass, the time that it works on the prompts, and
            the rest of the time to first token.
        """
        fabric = self._fabric.with_costs(costs.wafer, costs.software)
        reader = self._reader.with_costs(fabric)
        decode_cost = fabric.decode_cost(*self._context)
        decode = as_loop(reader.route(fabric.program.decode, decode_cost))
        busy_by_server: defaultdict[int, float] = defaultdict(float)
        last_route: PassRoute = ()
        for index, weight in self._chunk_weights.items():
            last_route = reader.route(fabric.program.phases[index], fabric.prefill_cost(index))
            for visit in last_route:
                busy_by_server[visit.server] += weight * visit.busy_cycles
        cycles = (
            decode_cost.cycles,
            busiest_server(decode)[1],
            max(busy_by_server.values()),
            self._delay_cycles(reader, last_route, costs),
        )
        return np.array(cycles) / costs.wafer.clock_hz

    def _delay_cycles(self, reader: RouteReader, last_route: PassRoute, costs: Costs) -> float:
        """Return the cycles before the first token in which the busiest server is idle.

        A server is a PE region, a link or a host connection. The busiest server is idle while the
        last prompt chunk is on other servers, and during the round trip to the host.

        Args:
            reader: List of the servers.
            last_route: Servers that the last prompt chunk visits, with the cycle count of each
                visit.
            costs: Wafer and software profile.
        """
        host_links = (visit for visit in last_route if reader.servers[visit.server].kind == HOST_LINK)
        trip_cycles = sum(visit.latency_cycles for visit in host_links)
        path_cycles = alone_cycles(last_route) - trip_cycles - busiest_server(last_route)[1]
        return path_cycles + costs.wafer.host_round_trip_s * costs.wafer.clock_hz


def scaled_deployment(deployment: WaferDeployment, ratios: F64) -> WaferDeployment:
    """Return a copy of a deployment with each of its times multiplied by a ratio.

    Args:
        deployment: The deployment.
        ratios: float64 ``[4]``, one ratio for each field of the deployment that `TIMES` lists.
    """
    token, stage, prompt, delay = ratios.tolist()
    return replace(
        deployment,
        token_s=deployment.token_s * token,
        stage_s=deployment.stage_s * stage,
        prompt_s=deployment.prompt_s * prompt,
        chunk_s=deployment.chunk_s * prompt,
        delay_s=deployment.delay_s * delay,
    )


def _chunk_weights(program: Program) -> dict[int, int]:
    """Choose one or two chunks of a prompt to time instead of all chunks.

    The middle chunk stands for all chunks except the last, because the cost of a chunk grows nearly
    linearly with the number of tokens before it. The last chunk stands for itself.

    Returns:
        For each chosen chunk, how many chunks it stands for, keyed by its index in
        ``Program.phases``. The last chunk of the prompt comes last.
    """
    user = program.prefill[-1].user
    chunks = [index for index, phase in enumerate(program.prefill) if phase.user == user]
    middle, last = chunks[len(chunks) // 2], chunks[-1]
    return {last: 1} if middle == last else {middle: len(chunks) - 1, last: 1}
