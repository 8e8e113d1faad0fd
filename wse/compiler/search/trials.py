"""Trials of layouts on reduced models: bytes per PE, cycles per token, and time for prompts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from wse.arrays import F64
from wse.compiler.choice import Choice
from wse.compiler.options import REPORT, Options
from wse.compiler.search.fitting.chunks import chunk_sizes
from wse.compiler.search.layer_cycles import cycles_by_step
from wse.compiler.search.reduced.reduced_model import ReducedModel
from wse.compiler.search.reduced.representatives import reduced_model
from wse.compiler.search.trial import ChunkTime, PromptTime, Trial
from wse.compiler.search.trial_setup import TrialSetup
from wse.errors import DoesNotFit
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.models.spec import ModelSpec
from wse.program.program import Program
from wse_mappings.regions.layout import Layout
from wse_mappings.rounding import ceil_div

SMALL_CHUNK = 8
"""Number of tokens per prompt chunk, or per row on the mesh, in the second trial of a layout."""


def try_layout(setup: TrialSetup, layout: Layout, prefill: str, worth_cycles: float = math.inf) -> Trial:
    """Try a layout on a reduced model; time it if the setup has ``timing`` and the layout fits.

    1. Compile with one prompt token at a time. This gives the bytes per PE and the cycles of a
       decoded token. Skip the compilation if an equivalent stage is known not to fit.
    2. If prompts with such chunks take longer than the generated tokens, also compile with a small
       chunk. Bytes and cycles are approximately linear in the number of tokens per row, so the two
       compilations determine the chunk that fits and its cycles. Skip this if the generated tokens
       alone take more than ``worth_cycles``, because the trial is then slower than another one
       anyway.

    Args:
        setup: Inputs that all trials share, such as model, wafer and request.
        layout: Division of the wafers into regions.
        prefill: Matrix product of prefill, one of ``PREFILL_PRODUCTS``.
        worth_cycles: Dominant cycles (`Trial`) beyond which the layout is of no interest.

    Raises:
        BadMesh: The regions do not fit on the mesh.
    """
    # 1. One prompt token at a time.
    trial = Trial(layout=layout, prefill=prefill, needed_bytes=0, fits=False)
    reduced = setup.reduced_model(layout, prefill, 1)
    if not setup.allows(known_bytes := setup.misfits.needed_bytes(reduced)):
        return replace(trial, needed_bytes=known_bytes)
    try:
        # The cache helps because a layout that did not fit on the fewest wafers is tried on them again.
        allocate = setup.options.cache.of(_allocated, 8)
        allocated, stage_bytes = allocate(
            setup.spec, setup.wafer, setup.software, *setup.smallest_choice(layout, prefill)
        )
    except DoesNotFit:
        return trial
    setup.misfits.learn(reduced, stage_bytes, setup.wafer.sram_bytes_per_pe)
    needed_bytes = max(stage_bytes)
    trial = replace(trial, needed_bytes=needed_bytes, fits=needed_bytes <= setup.wafer.sram_bytes_per_pe)
    if setup.timing is None or allocated is None:
        return trial
    reduced, program = allocated, _at_middle_of_prompt(setup, allocated.program())
    step = setup.row_tokens(layout, prefill)
    chunk_step_cycles, token_step_cycles = cycles_by_step(setup, program, (0, len(program.prefill)))
    first_chunk = _chunk_time(reduced, program, chunk_step_cycles)
    decoded_cycles = reduced.sum_over_model(program, program.decode, token_step_cycles)
    prompts = PromptTime(
        first_chunk.cycles_of_chunks(sum(setup.options.prompt_tokens) / step), step, first_chunk, sized=False
    )
    trial = replace(trial, token_cycles=decoded_cycles, passes=setup.passes_at_once(reduced))
    generated_cycles = decoded_cycles * setup.timing.new_tokens / trial.passes
    if generated_cycles > worth_cycles:
        return replace(trial, prompts=prompts, dominant_cycles=generated_cycles)
    # 2. A small chunk.
    trial = _time_prompts(setup, trial, prompts)
    return with_chunk(setup, trial) if prompts.cycles > generated_cycles else trial


def deciding_trials(setup: TrialSetup, layout: Layout, products: Sequence[str], worth_cycles: float) -> list[Trial]:
    """Try a layout with several prefill matrix products until its dominant cycles are known.

    A request consists of prompts and generated tokens. The dominant cycles are those of the part
    that takes longer. The product that needs the least memory is tried first. Another product only
    makes prompts faster, so none is tried if the generated tokens take longer than the prompts.

    Args:
        setup: Inputs that all trials share, such as model, wafer and request.
        layout: Division of the wafers into regions.
        products: Products for prefill, with the least memory-intensive one last.
        worth_cycles: If the generated tokens take more cycles than this, the layout is too slow,
            and its prompts are not timed in detail.

    Returns:
        The trials, one per product that was tried.

    Raises:
        BadMesh: The regions do not fit on the mesh.
    """
    trials: list[Trial] = []
    for product in reversed(products):
        trials.append(try_layout(setup, layout, product, worth_cycles))
        generated_cycles = _generated_cycles(setup, trials[-1])
        if generated_cycles is not None and trials[-1].dominant_cycles == generated_cycles:
            break
    return trials


def _generated_cycles(setup: TrialSetup, trial: Trial) -> float | None:
    """Return the cycles for generating all tokens of a request; None if the trial has no times.

    In a search for many users, several passes run at the same time. (A pass is one run of decode
    for a batch of users.) The cycles are then divided by the number of these passes, because all of
    them generate tokens in the same time.

    Args:
        setup: Inputs that all trials share, with the number of tokens to generate.
        trial: Result of trying a layout on a reduced model.
    """
    if setup.timing is None or trial.token_cycles is None:
        return None
    return trial.token_cycles * setup.timing.new_tokens / trial.passes


def dominant_cycles(trial: Trial) -> float:
    """Return the cycle count of the longer part of a request: its prompts, or its generated tokens.

    A search compares layouts by this number. The result is 0 for a trial that was not timed.
    """
    return trial.dominant_cycles or 0.0


def request_cycles(setup: TrialSetup, trial: Trial) -> float:
    """Return the cycle count of a request: all prompts and all generated tokens; 0 without times.

    If several passes (runs of decode, each for a batch of users) run at the same time, the cycles
    of generated tokens are divided by the number of these passes.

    Args:
        setup: Inputs that all trials share, with the number of tokens to generate.
        trial: Result of trying a layout on a reduced model.
    """
    return (_generated_cycles(setup, trial) or 0.0) + (0.0 if trial.prompts is None else trial.prompts.cycles)


def _time_prompts(setup: TrialSetup, trial: Trial, prompts: PromptTime) -> Trial:
    """Return a copy of a trial with the time of its prompts and the new dominant cycles.

    The dominant cycles are those of the longer part of a request, prompts or generated tokens.

    Args:
        setup: Inputs that all trials share, such as model, wafer and request.
        trial: Result of trying a layout, with the cycle count of a generated token.
        prompts: Time of all prompts of the request.
    """
    dominant_cycles = max(prompts.cycles, _generated_cycles(setup, trial) or 0.0)
    return replace(trial, prompts=prompts, dominant_cycles=dominant_cycles)


def fastest_product_first(setup: TrialSetup, trials: Sequence[Trial], preferred: str | None) -> list[Trial]:
    """Return the trials of a layout with suitable prompt chunks, one per prefill matrix product.

    Products are ordered by total prompt time, fastest first.

    Args:
        setup: Inputs that all trials share, such as model, wafer and request.
        trials: Trials of the layout. They are returned unchanged if they have no times.
        preferred: The only product to consider, if the layout supports it; None for all products.
    """
    if any(trial.prompts is None for trial in trials):
        return list(trials)
    layout, trial_of_product = trials[0].layout, {trial.prefill: trial for trial in trials}
    products = setup.products(layout)
    all_trials = [
        trial_of_product[product] if product in trial_of_product else try_layout(setup, layout, product)
        for product in ([preferred] if preferred in products else products)
        if product is not None
    ]
    timed_trials = [with_chunk(setup, trial) for trial in all_trials if trial.prompts is not None]
    return sorted(timed_trials, key=lambda trial: trial.prompts.cycles if trial.prompts else 0.0)


def with_chunk(setup: TrialSetup, trial: Trial) -> Trial:
    """Return a timed trial with approximately the best size of prompt chunks.

    Larger chunks need fewer cycles per token; smaller ones keep more stages busy.

    1. Compile with a small chunk. Comparison with the trial gives the bytes and cycles of each
       additional token per row.
    2. Find the chunk sizes that fit.
    3. Extrapolate the total prompt time for each of these sizes, and choose the fastest.

    Args:
        setup: Inputs that all trials share, such as model, wafer and request.
        trial: Trial with the time of the smallest chunk. It is returned unchanged if larger chunks
            have already been considered, or if the prompts are too short for larger chunks.
    """
    assert trial.prompts is not None
    step, longest_prompt = setup.row_tokens(trial.layout, trial.prefill), max(setup.options.prompt_tokens)
    tokens = min(SMALL_CHUNK * step, longest_prompt)
    additional_rows = ceil_div(tokens, step) - 1
    if not additional_rows or trial.prompts.sized:
        return trial
    # 1. A small chunk.
    reduced = setup.reduced_model(trial.layout, trial.prefill, tokens).allocate()
    needed_bytes, program = max(reduced.needed_bytes()), _at_middle_of_prompt(setup, reduced.program())
    (chunk_step_cycles,) = cycles_by_step(setup, program, (0,))
    first, longer_chunk = trial.prompts.shortest, _chunk_time(reduced, program, chunk_step_cycles)
    bytes_of_row = (needed_bytes - trial.needed_bytes) / additional_rows
    # 2. Chunk sizes that fit.
    sizes = chunk_sizes(longest_prompt, step)
    free = setup.wafer.sram_bytes_per_pe - trial.needed_bytes
    fitting = [size for size in sizes if (ceil_div(size, step) - 1) * bytes_of_row <= free] or sizes[-1:]
    # 3. The time of prompts.
    prompts = []
    for size in fitting:
        rows = (ceil_div(size, step) - 1) / additional_rows
        time = ChunkTime(
            *(
                short_time + rows * (long_time - short_time)
                for short_time, long_time in zip(first, longer_chunk, strict=True)
            )
        )
        cycles = time.cycles_of_chunks(sum(setup.options.prompt_tokens) / size)
        prompts.append(PromptTime(cycles, size, first, sized=True))
    return _time_prompts(setup, trial, min(prompts))


def _at_middle_of_prompt(setup: TrialSetup, program: Program) -> Program:
    """Return a copy of a Program whose prompt chunk is in the middle of the longest prompt.

    The chunk's cycles depend on the number of tokens that are already in the KV cache.

    Args:
        setup: Inputs that all trials share, including the prompt lengths.
        program: Program whose first phase is a prompt chunk.
    """
    chunk, *other_phases = program.phases
    cached_tokens = ceil_div(max(setup.options.prompt_tokens) - chunk.tokens, 2)
    return replace(program, phases=(replace(chunk, cached=cached_tokens), *other_phases))


def _chunk_time(reduced: ReducedModel, program: Program, by_step: F64) -> ChunkTime:
    """Return the time of a prompt chunk in the whole model, computed from the reduced model.

    Args:
        reduced: Model with one layer of each kind, which represents the whole model.
        program: Its Program, whose first phase is the chunk.
        by_step: float64 ``[steps]``: cycle count of the steps of the chunk.
    """
    phase = program.phases[0]
    return ChunkTime(
        reduced.sum_over_model(program, phase, by_step), reduced.slowest_stage_sum(program, phase, by_step)
    )


def _allocated(
    spec: ModelSpec, wafer: WaferSpec, software: SoftwareProfile, options: Options, choice: Choice
) -> tuple[ReducedModel | None, tuple[int, ...]]:
    """Compile a reduced model up to the allocation of SRAM. Callers cache the results.

    Returns:
        The allocated model and the bytes per PE that each of its stages needs. The model is None if
        a stage needs more SRAM than a PE has, unless the option ``capacity`` is REPORT.

    Raises:
        DoesNotFit: The model needs more colours (routes per router) than there are.
    """
    reduced = reduced_model(spec, wafer, software, options, choice).allocate()
    needed_bytes = tuple(reduced.needed_bytes())
    fits = max(needed_bytes) <= wafer.sram_bytes_per_pe or options.capacity == REPORT
    return reduced if fits else None, needed_bytes
