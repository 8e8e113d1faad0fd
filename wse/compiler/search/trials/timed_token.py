"""Memory and times of a layout that processes one prompt token at a time, on a reduced model."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from wse.compiler.choice import Choice
from wse.compiler.options import REPORT, Options
from wse.compiler.search.layer_cycles import cycles_by_step
from wse.compiler.search.reduced.reduced_model import ReducedModel, head_steps, stage_transfers
from wse.compiler.search.reduced.representatives import reduced_model
from wse.compiler.search.trials.head_chunk import saved_by_large_head_chunk
from wse.compiler.search.trials.trial import StepCycles
from wse.compiler.search.trials.trial_setup import TrialSetup
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.models.spec import ModelSpec
from wse.program.program import Program
from wse_mappings.regions.layout import Layout
from wse_mappings.rounding import ceil_div


class TimedToken(NamedTuple):
    """A reduced model that processes one prompt token at a time, and its times.

    Attributes:
        allocated: The reduced model, with allocated buffers.
        program: Its Program, whose prompt chunk is in the middle of the longest prompt.
        chunk_cycles: Cycle counts of the steps of this chunk.
        token_cycles: Cycle counts of the steps of a decode pass.
        saved_cycles: Cycles of a pass that the largest head chunk saves.
    """

    allocated: ReducedModel
    program: Program
    chunk_cycles: StepCycles
    token_cycles: StepCycles
    saved_cycles: float


def timed_token(setup: TrialSetup, layout: Layout, prefill: str) -> TimedToken:
    """Time a reduced model that fits, with one prompt token at a time and the largest head chunk.

    Args:
        setup: Inputs that all trials share, with ``timing``.
        layout: Division of the wafers into regions.
        prefill: Matrix product of prefill, one of ``PREFILL_PRODUCTS``.
    """
    allocated, stage_bytes = smallest_allocated(setup, layout, prefill)
    assert allocated is not None  # the layout fits
    program = at_middle_of_prompt(setup, allocated.program())
    chunk_cycles, token_cycles = cycles_by_step(setup, program, (0, len(program.prefill)))
    saved_cycles = saved_by_large_head_chunk(setup, layout, allocated, max(stage_bytes))
    token_cycles = _with_faster_head(program, token_cycles, saved_cycles)
    return TimedToken(allocated, program, chunk_cycles, token_cycles, saved_cycles)


def smallest_allocated(setup: TrialSetup, layout: Layout, prefill: str) -> tuple[ReducedModel | None, tuple[int, ...]]:
    """Compile a layout with the smallest chunks up to the allocation of SRAM (`_allocated`).

    The cache helps because a layout that did not fit on the fewest wafers is tried on them again.
    """
    allocate = setup.options.cache.of(_allocated, 8)
    return allocate(setup.spec, setup.wafer, setup.software, *setup.smallest_choice(layout, prefill))


def _allocated(
    spec: ModelSpec, wafer: WaferSpec, software: SoftwareProfile, options: Options, choice: Choice
) -> tuple[ReducedModel | None, tuple[int, ...]]:
    """Compile a reduced model up to the allocation of SRAM. Callers cache the results.

    Returns:
        The allocated model and the bytes per PE that each of its stages needs. The model is None if
        a stage needs more SRAM than a PE has, unless the option ``capacity`` is REPORT.

    Raises:
        DoesNotFit: The model needs more colours than there are.
    """
    reduced = reduced_model(spec, wafer, software, options, choice).allocate()
    needed_bytes = tuple(reduced.needed_bytes())
    fits = max(needed_bytes) <= wafer.sram_bytes_per_pe or options.capacity == REPORT
    return reduced if fits else None, needed_bytes


def at_middle_of_prompt(setup: TrialSetup, program: Program) -> Program:
    """Return a copy of a Program whose prompt chunk is in the middle of the longest prompt.

    The chunk's cycles depend on the number of tokens that are already in the KV cache.

    Args:
        setup: Inputs that all trials share, including the prompt lengths.
        program: Program whose first phase is a prompt chunk.
    """
    chunk, *other_phases = program.phases
    prefix_tokens = setup.options.prefix_tokens
    cached_tokens = prefix_tokens + ceil_div(max(setup.options.unread_tokens) - chunk.tokens, 2)
    chunk = replace(chunk, cached=cached_tokens, prefix_tokens=prefix_tokens)
    return replace(program, phases=(chunk, *other_phases))


def _with_faster_head(program: Program, cycles: StepCycles, saved_cycles: float) -> StepCycles:
    """Subtract cycles from the steps of the final norm and the head, in proportion to their cycles.

    Transfers between stages are not changed.

    Args:
        program: The Program.
        cycles: Cycle counts of the steps of its decode phase.
        saved_cycles: Cycles to subtract in total.
    """
    is_head = head_steps(program, program.decode) & ~stage_transfers(program.decode.steps)
    factor = np.where(is_head, 1 - saved_cycles / max(1.0, float(cycles.all[is_head].sum())), 1.0)
    return StepCycles(cycles.all * factor, cycles.launch * factor)
