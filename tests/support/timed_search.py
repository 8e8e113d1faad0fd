"""Machine, options and timers for tests of searches that compare the cycles of Programs."""

from collections.abc import Sequence

from session import region_options

from wse.backends.fabric.line.line_costs import LineCosts
from wse.backends.fabric.line.pattern_times import pattern_times
from wse.backends.fabric.model import Fabric
from wse.backends.fabric.phase_cost import PhaseCost
from wse.compiler.options import DECODE, OPTIMIZED, PREFILL, THIN_GEMM
from wse.compiler.search.trials.trial import StepCycles, Timer
from wse.hardware.load import load_software, load_wafer
from wse.hardware.spec import SoftwareProfile, WaferSpec, mesh_on
from wse.program.program import Program

TOKENS, CONTEXT, AFTER = 64, 136, 96
"""Lengths in tokens: the prompt and the answer; the maximum context; the cache before the timed decode pass."""

OPTIONS = region_options(
    context=CONTEXT, prompt_tokens=(TOKENS,), schedule=OPTIMIZED, capacity="report", prefill=THIN_GEMM
)


def machine_of(
    wafer: str = "wse3", profile: str = "production", mesh: tuple[int, int] = (12, 60)
) -> tuple[WaferSpec, SoftwareProfile]:
    machine = mesh_on(load_wafer(wafer), *mesh)
    return machine, load_software(profile, machine.generation)


def timing_of(machine: WaferSpec, software: SoftwareProfile, new_tokens: int = TOKENS, after: int = AFTER) -> Timer:
    """Return a timer of Programs for a request of ``new_tokens`` tokens.

    Args:
        machine: The wafer.
        software: Costs of the software.
        new_tokens: Number of generated tokens.
        after: Number of cached tokens at which a decode pass is timed.
    """

    def by_step(program: Program, phases: Sequence[int]) -> list[StepCycles]:
        costs = [cost_of(program, number, machine, software, after) for number in phases]
        return [StepCycles(cost.on_wafer_by_step, cost.launch_by_step) for cost in costs]

    line = pattern_times(LineCosts.for_software(machine, software))
    return Timer(by_step, new_tokens, line.alone_cycles)


def cost_of(
    program: Program, number: int, machine: WaferSpec, software: SoftwareProfile, after: int = AFTER
) -> PhaseCost:
    """Return the cost of the phase with index ``number``; decode and verification have ``after`` cached tokens."""
    fabric, name = Fabric(program, machine, software), program.phases[number].name
    if name == PREFILL:
        return fabric.prefill_cost(number)
    return fabric.decode_cost(after) if name == DECODE else fabric.verify_cost(after)
