"""Cycle counts of the most common layers of a layout, with given rewrites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wse.compiler.choice import Rewrites
from wse.compiler.options import VERIFY
from wse.compiler.search.reduced.reduced_model import ReducedModel
from wse.compiler.search.reduced.representatives import most_common_layers, reduced_model
from wse.compiler.search.trials.trial import StepCycles
from wse.compiler.search.trials.trial_setup import TrialSetup
from wse.errors import DoesNotFit
from wse.program.program import Program
from wse_mappings.regions.layout import Layout


def layers_on(setup: TrialSetup, layout: Layout, prefill: str, phase: str, tokens: int = 1) -> ReducedModel:
    """Compile a small part of a model on a layout: only its most common layers, and one phase.

    The result is a reduced model. It is compiled only up to its placement on PEs, so that
    `cycles_of_layers` can complete and time it with different rewrites.

    Args:
        setup: Inputs that all trials share, such as model, wafer and request.
        layout: Division of the wafers into regions.
        prefill: Matrix product of prefill, one of ``PREFILL_PRODUCTS``.
        phase: Name of the phase, such as DECODE or VERIFY.
        tokens: Tokens per prompt chunk.
    """
    options, choice = setup.smallest_choice(layout, prefill, tokens)
    verify_tokens = options.verify_tokens if phase == VERIFY else 0
    phase_options = replace(options, phases=(phase,), verify_tokens=verify_tokens)
    return most_common_layers(
        reduced_model(setup.spec, setup.wafer, setup.software, phase_options, choice)
    ).compile_until("place")


def cycles_of_layers(setup: TrialSetup, layers: ReducedModel, rewrites: Rewrites) -> float | None:
    """Estimate how many cycles all layers take with given rewrites; None if the layers do not fit.

    A rewrite changes the steps of a layer to save cycles. The layers do not fit if they need more
    colours than the wafer has.

    Args:
        setup: Inputs that all trials share, such as model, wafer and request.
        layers: Result of `layers_on`.
        rewrites: Rewrites with their settings.
    """
    try:
        reduced = layers.with_rewrites(rewrites).allocate()
    except DoesNotFit:
        return None
    program = reduced.program()
    return reduced.sum_over_model(program, program.phases[0], cycles_by_step(setup, program, (0,))[0].all)


def cycles_by_step(setup: TrialSetup, program: Program, phases: Sequence[int]) -> list[StepCycles]:
    """Return the cycle counts of the steps of several phases of a Program.

    Args:
        setup: Inputs that all trials share, with ``timing``.
        program: The Program.
        phases: Indices of the phases.

    Returns:
        The cycle counts for each index in ``phases``, in the same order.
    """
    assert setup.timing is not None
    return setup.timing.by_step(program, phases)
