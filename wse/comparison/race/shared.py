"""Lanes of machines whose users come at random and wait for each other, played by ``wse serve-sim``.

The pace is that of an average request: mean time in the queue, to the first token, and between tokens.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wse.comparison.race.pace import Pace
from wse.comparison.race.result import LaneCost, LaneResult, lane_result
from wse.errors import BadInput
from wse.report.price import scale_note
from wse.report.shared_tables import with_settings_text
from wse.report.terminal import count, plural
from wse.request.estimate_request import EstimateRequest
from wse.request.race_request import RaceRequest
from wse.request.serve_request import ServeRequest
from wse.serving.network import Network
from wse.studies.serve.serve import serve

REQUESTS: Final = 4_000
"""Requests that are played."""
AUTO: Final = "auto"


def shared_lane(request: RaceRequest, machine: EstimateRequest, network: Network, tokens: int) -> LaneResult:
    """The lane of a machine at the load or rate of a race.

    Raises:
        BadInput: more requests come than it can serve.
    """
    result = serve(
        ServeRequest(
            base=replace(machine, draft=None),
            draft=machine.draft,
            load=request.load,
            rate=request.rate,
            requests=REQUESTS,
        )
    ).result
    capacity = f"{count(result.load.capacity_requests_per_s)} requests/s"
    served = result.served
    if served is None or served.all.tpot is None:
        message = (
            f"--rate {request.rate:g}: {result.machine.systems} can serve {capacity} at most; give less, or --load"
        )
        raise BadInput(message)
    step_tokens = served.tokens_per_pass or 1.0
    pace = Pace(
        name=f"{result.machine.systems}, among {plural(max(1, round(served.use.users)), 'user')}",
        first_token_s=served.all.ttft.mean + network.seconds,
        queue_s=served.all.queueing.mean,
        step_s=step_tokens * served.all.tpot.mean,
        tokens_per_step=step_tokens,
    )
    amount, price, cost = served.usd_per_million_tokens, served.usd_per_hour, None
    if amount is not None and price is not None:
        low, high = amount.range
        machines = result.machine.wafers or result.machine.gpus or 1
        ends = (price.range[0] / machines, price.value / machines, price.range[1] / machines)
        hour = scale_note(ends, result.machine.name)
        cost = LaneCost(low=low, value=amount.value, high=high, price=f"{hour}; {price.source}")
    software = result.inputs.get("stack", result.machine.mapping)
    text = f"{software}, {result.model.dtype}, {result.load.offered:.0%} of {capacity}"
    note = with_settings_text(text, result.inputs)
    return lane_result(pace, tokens, cost=cost, note=note)
