"""Time of a request on a compiled Program, and the functions with which a search times layouts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.pattern_times import pattern_times
from wse.backends.fabric.model import Fabric
from wse.backends.fabric.phase_cost import PhaseCost
from wse.compiler.search.trials.trial import StepCycles, Timer
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.program.program import Program
from wse.serving.route import busiest_server
from wse.studies.estimate.timing.stage_times import RouteReader
from wse.studies.options.basis import PreparedPlacement


def request_cycles(prepared_placement: PreparedPlacement, program: Program) -> float:
    """Estimate how many cycles a whole request takes, including its prompts and generated tokens.

    Every generated token is timed as if it were halfway through the answer, when the KV caches
    contain the prompts and half of the new tokens. If the Program contains a verification pass (for
    draft tokens), one such pass is added for each generated token.
    """
    p = prepared_placement
    fabric = Fabric(program, p.wafer, p.software, p.meshes)
    passes = fabric.verify_cost(p.middle_before_pass).cycles if program.verify_tokens else 0.0
    return _prompt_cycles(fabric) + (fabric.decode_cost(*p.middle_context).cycles + passes) * p.new_tokens


def _prompt_cycles(fabric: Fabric) -> float:
    """Estimate the cycles to process the prompts, whose chunks are pipelined through the stages.

    The result is the time of the first chunk in all stages, plus, for each further chunk, the
    cycles of its busiest stage or link. Stages that share PEs count as one.
    """
    reader, program = RouteReader(fabric), fabric.program
    costs = [fabric.prefill_cost(index) for index in range(len(program.prefill))]
    routes = {cost: reader.route(phase, cost) for phase, cost in zip(program.prefill[1:], costs[1:], strict=True)}
    counts = Counter(costs[1:])  # chunks of one class share their cost
    further_cycles = sum(counts[cost] * busiest_server(route)[1] for cost, route in routes.items())
    return sum(cost.cycles for cost in costs[:1]) + further_cycles


def timing_of(prepared_placement: PreparedPlacement) -> Timer:
    """Return the functions with which the compiler times its candidates, such as layouts.

    A token is timed halfway through the answer, when the KV caches contain the prompt and half of
    the new tokens. Searches of one request share the result, so that they can share trials.
    """
    p = prepared_placement
    context = tuple(p.middle_context)
    return p.options.cache.of(_timer)(p.wafer, p.software, context, p.middle_before_pass, p.new_tokens)


def _timer(
    wafer: WaferSpec,
    software: SoftwareProfile,
    middle_context: tuple[int, ...],
    middle_before_pass: int,
    new_tokens: int,
) -> Timer:
    """Return the functions that time candidates for one machine and one stage of an answer.

    Args:
        wafer, software: The machine.
        middle_context: Tokens in each user's KV cache when a decode pass is timed.
        middle_before_pass: Tokens in the first user's KV cache before a timed verification pass.
        new_tokens: Number of tokens to generate per user.
    """

    def by_step(program: Program, phases: Sequence[int]) -> list[StepCycles]:
        """Return the cycle counts of the steps of some phases, without waits for the host.

        The waits are the same for all layouts. Of the chunks of a prompt, only the first one waits.

        Args:
            program: A compiled reduced model, with one layer of each kind.
            phases: Indices of the phases in the Program.

        Returns:
            The cycle counts for each index in ``phases``, in the same order.
        """
        fabric = Fabric(program, wafer, software)  # defects are ignored for reduced models
        costs = [cost_of(fabric, index) for index in phases]
        return [StepCycles(cost.on_wafer_by_step, cost.launch_by_step) for cost in costs]

    def cost_of(fabric: Fabric, phase: int) -> PhaseCost:
        """Return the cost of a phase; that of a prompt chunk does not depend on the answer."""
        match fabric.program.phases[phase].name:
            case "decode":
                return fabric.decode_cost(*middle_context)
            case "verify":
                return fabric.verify_cost(middle_before_pass)
            case _:
                return fabric.prefill_cost(phase)

    line = LineCosts.for_software(wafer, software)
    return Timer(by_step, new_tokens, pattern_times(line).alone_cycles)
