"""Part of an estimate about generated tokens: their cycles, serving speed, energy and cost."""

from __future__ import annotations

from dataclasses import dataclass

from wse.backends.fabric.run_totals import TimedRun
from wse.program.program import Program
from wse.serving.deployment.wafers import WaferDeployment
from wse.serving.goal import LATENCY
from wse.serving.operating_point import users_with_room
from wse.serving.plan import saturating_users
from wse.studies.estimate.bounds.bounds import BoundsResult, bounds_result
from wse.studies.estimate.economy import CostResult, EnergyResult, cost_result, energy_result
from wse.studies.estimate.grades import Grades
from wse.studies.estimate.layouts.compiled_layout import deployment_of, timed_deployment
from wse.studies.estimate.prepare import PreparedEstimate
from wse.studies.estimate.timing.pipelining import Pipelining, PipeliningResult
from wse.studies.results.operating_points import ServingResult, serving_result
from wse.studies.results.phases import DecodeResult, decode_result


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenResults:
    """Cycles, serving speed, energy and cost of generated tokens: a part of an estimate.

    The fields that may be None are None if each request has one new token, which prefill already
    yields.

    Attributes:
        deployment: The wafers for which ``serving`` is computed.
    """

    deployment: WaferDeployment
    serving: ServingResult
    cost: CostResult
    decode: DecodeResult | None = None
    schedule: PipeliningResult | None = None
    bounds: BoundsResult | None = None
    energy: EnergyResult | None = None


def token_results(
    prepared_estimate: PreparedEstimate, program: Program, timed_run: TimedRun, grades: Grades
) -> TokenResults:
    """Return the cycles, serving speed, energy and cost of generated tokens.

    Args:
        prepared_estimate: The request.
        program: The compiled model.
        timed_run: Cycle count of prompts and decoded tokens.
        grades: Evidence grades of the constants, which say how well each is known.
    """
    clock, prompts, token_classes = timed_run
    wafer, spec, economics = prepared_estimate.wafer, prepared_estimate.spec, prepared_estimate.economics
    if not clock.decode.runs:
        deployment = timed_deployment(prepared_estimate, program)
        serving = _serving(prepared_estimate, deployment)
        cost = cost_result(program.wafers, economics, serving)
        return TokenResults(deployment=deployment, serving=serving, cost=cost)
    decode = decode_result(clock.decode, spec.layer_count, wafer.clock_hz, program.batch)
    middle_cost = clock.fabric.decode_cost(*prepared_estimate.middle_context)
    pipelining = Pipelining(clock.fabric, prompts, middle_cost, clock.decode.cycles / clock.decode.runs).result()
    deployment = deployment_of(prepared_estimate, program, pipelining)
    serving = _serving(prepared_estimate, deployment)
    return TokenResults(
        deployment=deployment,
        decode=decode,
        schedule=pipelining,
        serving=serving,
        bounds=bounds_result(clock.fabric, spec, token_classes, grades),
        energy=energy_result(clock.fabric, clock.decode, token_classes, economics, serving),
        cost=cost_result(program.wafers, economics, serving),
    )


def _serving(prepared_estimate: PreparedEstimate, deployment: WaferDeployment) -> ServingResult:
    """Return the speed and cost of a deployment for the requested number of users.

    By default, this is the number of users of one pass if the objective is latency. For throughput
    and cost, it is the number of users above which throughput no longer rises.
    """
    goal, users = prepared_estimate.goal, prepared_estimate.goal.users
    if users is None:
        users = deployment.slots if goal.objective == LATENCY else max(1, saturating_users(deployment))
    return serving_result(deployment, users, deployment.slots, goal.replicas_for(users_with_room(deployment)))
