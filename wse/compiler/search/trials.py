"""Trials of layouts on reduced models: bytes per PE, cycles per token, and time for prompts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from wse.compiler.choice import Choice
from wse.compiler.options import DECODE, MESH_GEMM_OWN, MODEL, PREFILL, REPORT, Options
from wse.compiler.search.fitting.chunks import chunk_sizes, head_chunks
from wse.compiler.search.layer_cycles import cycles_by_step
from wse.compiler.search.reduced.reduced_model import ReducedModel, head_steps, stage_transfers
from wse.compiler.search.reduced.representatives import head_alone, reduced_model
from wse.compiler.search.trial import ChunkTime, PromptTime, StepCycles, Trial
from wse.compiler.search.trial_setup import TrialSetup
from wse.errors import DoesNotFit
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.models.spec import ModelSpec
from wse.program.program import Program
from wse_mappings.regions.layout import Layout
from wse_mappings.rounding import ceil_div


def saved_by_large_head_chunk(setup: TrialSetup, layout: Layout, reduced: ReducedModel, needed_bytes: int) -> float:
    """Estimate the cycles that the head saves in a pass with the largest chunk that fits.

    A head chunk is the number of vocabulary entries per column whose logits are computed at a time.
    Trials use the smallest one, with which a layout needs the fewest bytes.

    1. Find the largest chunk whose additional logits fit. (They may share memory with the
       activations of layers, so that larger chunks may fit, too.)
    2. Time the head, without layers, with both chunks. The savings are those of launches and hops,
       which hardly depend on the number of tokens, so they also apply to prompts.

    Args:
        setup: Inputs that all trials share, with ``timing``.
        layout: Division of the wafers into regions.
        reduced: Reduced model of the layout with the smallest head chunk, after `allocate`.
        needed_bytes: Bytes on its fullest PE.
    """
    state = reduced.state
    if state.options.scope != MODEL:
        return 0.0
    # 1. The largest chunk.
    (head_cut,) = (cut for cut, plan in zip(state.cuts, state.plans, strict=True) if plan.has_head)
    bytes_of_entry = state.options.batch * state.options.element_bytes("acc")
    smallest_chunk, *larger_chunks = reversed(head_chunks(setup, layout))
    fitting_chunks = [
        chunk
        for chunk in larger_chunks
        if setup.allows(needed_bytes + (min(chunk, head_cut.vocab_per_pe) - smallest_chunk) * bytes_of_entry)
    ]
    if not fitting_chunks or smallest_chunk >= head_cut.vocab_per_pe:
        return 0.0
    # 2. The times with both chunks.
    head = head_alone(reduced)
    return _pass_cycles(setup, head, smallest_chunk) - _pass_cycles(setup, head, fitting_chunks[-1])


def _pass_cycles(setup: TrialSetup, head: ReducedModel, chunk: int) -> float:
    """Return the cycles of a decode pass through a model without layers.

    Args:
        setup: Inputs that all trials share, with ``timing``.
        head: Reduced model that has only the embedding and the head.
        chunk: Vocabulary entries per column whose logits are computed at a time.
    """
    options = replace(head.state.options, phases=(DECODE,), verify_tokens=0)
    choice = replace(head.state.choice, head_chunk=chunk)
    state = replace(head.state, options=options, choice=choice, last_pass="partition")
    program = replace(head, state=state).allocate().program()
    return float(cycles_by_step(setup, program, (0,))[0].all.sum())


SMALL_CHUNK = 8
"""Number of tokens per prompt chunk, or per row on the mesh, in the second trial of a layout."""


def try_layout(setup: TrialSetup, layout: Layout, prefill: str, worth_cycles: float = math.inf) -> Trial:
    """Try a layout on a reduced model; time it if the setup has ``timing`` and the layout fits.

    1. Skip the compilation if an equivalent stage is known not to fit. Otherwise compile with one
       prompt token at a time (`_decode_trial`). This gives the bytes per PE and the cycles of a
       decoded token.
    2. Find the time of the prompts with the best size of chunks (`_prompts`). Skip this if the
       generated tokens alone take more than ``worth_cycles``, because the layout is then slower
       than another one anyway.

    Both results are cached for other searches for several users that differ only in their number.

    Args:
        setup: Inputs that all trials share, such as model, wafer and request.
        layout: Division of the wafers into regions.
        prefill: Matrix product of prefill, one of ``PREFILL_PRODUCTS``.
        worth_cycles: Cycles of a request beyond which the layout is of no interest.

    Raises:
        BadMesh: The regions do not fit on the mesh.
    """
    # 1. One prompt token at a time.
    reduced = setup.reduced_model(layout, prefill)
    if not setup.allows(known_bytes := setup.misfits.needed_bytes(reduced)):
        return Trial(layout=layout, prefill=prefill, needed_bytes=known_bytes, fits=False)
    cache = setup.options.cache
    trial, stage_bytes = cache.of(_decode_trial)(setup.for_any_users, layout, prefill)
    if stage_bytes:
        setup.misfits.learn(reduced, stage_bytes, setup.wafer.sram_bytes_per_pe)
    trial = trial.with_max_passes(setup.max_passes)
    if trial.token_cycles is None or trial.decode_cycles > worth_cycles:
        return trial
    # 2. Prompts.
    return replace(trial, prompts=cache.of(_prompts)(setup.for_any_users, layout, prefill))


class _TimedToken(NamedTuple):
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


def _decode_trial(setup: TrialSetup, layout: Layout, prefill: str) -> tuple[Trial, tuple[int, ...]]:
    """Return the trial of a layout without prompts, and the bytes per PE of each stage.

    The trial has as many passes in flight as KV caches fit. If there are too few colours, its bytes
    are 0, and those of the stages are unknown (an empty tuple).

    Args:
        setup: Inputs that all trials share, for any number of users.
        layout: Division of the wafers into regions.
        prefill: Matrix product of prefill, one of ``PREFILL_PRODUCTS``.
    """
    trial = Trial(layout=layout, prefill=prefill, needed_bytes=0, fits=False)
    try:
        allocated, stage_bytes = _smallest_allocated(setup, layout, prefill)
    except DoesNotFit:
        return trial, ()
    needed_bytes = max(stage_bytes)
    trial = replace(trial, needed_bytes=needed_bytes, fits=needed_bytes <= setup.wafer.sram_bytes_per_pe)
    if setup.timing is None or allocated is None:
        return trial, stage_bytes
    timed_token = setup.options.cache.of(_timed_token, 1)(setup, layout, prefill)
    program, token_step_cycles = timed_token.program, timed_token.token_cycles
    token_cycles = allocated.sum_over_model(program, program.decode, token_step_cycles.all)
    trial = replace(trial, token_cycles=token_cycles, generated_cycles=token_cycles * setup.timing.new_tokens)
    if setup.many_users:
        busiest_cycles = allocated.busiest_cycles(program, program.decode, token_step_cycles)
        users = allocated.users_that_fit(setup.request_tokens, setup.options.prefix_tokens)
        passes = max(1.0, users // setup.options.batch)
        trial = replace(trial, busiest_cycles=busiest_cycles * setup.timing.new_tokens, passes=passes)
    return trial, stage_bytes


def _prompts(setup: TrialSetup, layout: Layout, prefill: str) -> PromptTime:
    """Return the time of all prompts of a layout that fits, with the best size of chunks.

    Args:
        setup: Inputs that all trials share, for any number of users.
        layout: Division of the wafers into regions.
        prefill: Matrix product of prefill, one of ``PREFILL_PRODUCTS``.
    """
    trial, _ = setup.options.cache.of(_decode_trial)(setup, layout, prefill)
    timed_token = setup.options.cache.of(_timed_token, 1)(setup, layout, prefill)
    first_chunk = _chunk_time(setup, timed_token.allocated, timed_token.program, timed_token.chunk_cycles)
    prompts = _prompt_time(setup, trial, first_chunk)
    if setup.many_users:  # the time of prompts does not include the head
        return prompts
    return prompts._replace(cycles=prompts.cycles - timed_token.saved_cycles)


def _timed_token(setup: TrialSetup, layout: Layout, prefill: str) -> _TimedToken:
    """Time a reduced model that fits, with one prompt token at a time and the largest head chunk.

    Args:
        setup: Inputs that all trials share, with ``timing``.
        layout: Division of the wafers into regions.
        prefill: Matrix product of prefill, one of ``PREFILL_PRODUCTS``.
    """
    allocated, stage_bytes = _smallest_allocated(setup, layout, prefill)
    assert allocated is not None  # the layout fits
    program = _at_middle_of_prompt(setup, allocated.program())
    chunk_cycles, token_cycles = cycles_by_step(setup, program, (0, len(program.prefill)))
    saved_cycles = saved_by_large_head_chunk(setup, layout, allocated, max(stage_bytes))
    token_cycles = _with_faster_head(program, token_cycles, saved_cycles)
    return _TimedToken(allocated, program, chunk_cycles, token_cycles, saved_cycles)


def _smallest_allocated(setup: TrialSetup, layout: Layout, prefill: str) -> tuple[ReducedModel | None, tuple[int, ...]]:
    """Compile a layout with the smallest chunks up to the allocation of SRAM (`_allocated`).

    The cache helps because a layout that did not fit on the fewest wafers is tried on them again.
    """
    allocate = setup.options.cache.of(_allocated, 8)
    return allocate(setup.spec, setup.wafer, setup.software, *setup.smallest_choice(layout, prefill))


def try_products(setup: TrialSetup, layout: Layout, products: Sequence[str], worth_cycles: float) -> list[Trial]:
    """Try a layout with the prefill matrix products that may make a request much faster.

    The product that needs the least memory is tried first. Another product only makes prompts
    faster, so none is tried if the generated tokens take longer than the prompts.

    Args:
        setup: Inputs that all trials share, such as model, wafer and request.
        layout: Division of the wafers into regions.
        products: Products for prefill, with the least memory-intensive one last.
        worth_cycles: If the generated tokens take more cycles than this, the layout is too slow,
            and its prompts are not timed.

    Returns:
        The trials, one per product that was tried.

    Raises:
        BadMesh: The regions do not fit on the mesh.
    """
    trials: list[Trial] = []
    for product in reversed(products):
        trial = try_layout(setup, layout, product, worth_cycles)
        trials.append(trial)
        if math.isfinite(trial.decode_cycles) and (
            trial.prompts is None or trial.prompts.cycles <= trial.decode_cycles
        ):
            break
    return trials


def fastest_product_first(setup: TrialSetup, trials: Sequence[Trial], preferred: str | None) -> list[Trial]:
    """Return the trials of a layout with timed prompts, one per prefill matrix product.

    Products are ordered by total prompt time, fastest first.

    Args:
        setup: Inputs that all trials share, such as model, wafer and request.
        trials: Trials of the layout. They are returned unchanged if trials are not timed, or if no
            product that is considered fits.
        preferred: The only product to consider, if the layout supports it; None for all products.
    """
    if any(trial.generated_cycles is None for trial in trials):
        return list(trials)
    layout, timed_trials = trials[0].layout, {trial.prefill: trial for trial in trials if trial.prompts is not None}
    products = setup.products(layout)
    all_trials = [
        timed_trials[product] if product in timed_trials else try_layout(setup, layout, product)
        for product in ([preferred] if preferred in products else products)
        if product is not None
    ]
    with_prompts = [trial for trial in all_trials if trial.prompts is not None]
    return sorted(with_prompts, key=lambda trial: trial.request_cycles) or list(trials)


def _prompt_time(setup: TrialSetup, trial: Trial, first_chunk: ChunkTime) -> PromptTime:
    """Return the time of all prompts with approximately the best size of chunks.

    Larger chunks need fewer cycles per token; smaller ones keep more stages busy.

    1. Compile with a small chunk, unless the prompts are too short for it. Comparison with the
       smallest chunk gives the bytes and cycles of each additional token per row.
    2. Find the chunk sizes that fit.
    3. Extrapolate the total prompt time for each of these sizes, and choose the fastest.

    Args:
        setup: Inputs that all trials share, such as model, wafer and request.
        trial: Trial with the bytes per PE that the smallest chunk needs.
        first_chunk: Time of the smallest chunk, which is one token or, if PE rows divide the
            tokens, one token per row.
    """
    step, longest_prompt = setup.min_chunk_tokens(trial.layout, trial.prefill), max(setup.options.unread_tokens)
    prompt_tokens = sum(setup.options.unread_tokens)
    tokens = min(SMALL_CHUNK * step, longest_prompt)
    additional_rows = ceil_div(tokens, step) - 1
    if not additional_rows:
        return PromptTime(first_chunk.cycles_of_chunks(prompt_tokens / step), min(step, longest_prompt))
    # 1. A small chunk.
    options, choice = setup.smallest_choice(trial.layout, trial.prefill, tokens)
    if trial.prefill != MESH_GEMM_OWN:  # decode has no weights of its own, and smaller buffers
        options = replace(options, phases=(PREFILL,))
    reduced = reduced_model(setup.spec, setup.wafer, setup.software, options, choice).allocate()
    needed_bytes, program = max(reduced.needed_bytes()), _at_middle_of_prompt(setup, reduced.program())
    (chunk_cycles,) = cycles_by_step(setup, program, (0,))
    longer_chunk = _chunk_time(setup, reduced, program, chunk_cycles)
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
                for short_time, long_time in zip(first_chunk, longer_chunk, strict=True)
            )
        )
        prompts.append(PromptTime(time.cycles_of_chunks(prompt_tokens / size), size))
    return min(prompts)


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


def _at_middle_of_prompt(setup: TrialSetup, program: Program) -> Program:
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


def _chunk_time(setup: TrialSetup, reduced: ReducedModel, program: Program, cycles: StepCycles) -> ChunkTime:
    """Return the time of a prompt chunk in the whole model, computed from the reduced model.

    In a search for many users, chunks of different prompts follow each other directly. A chunk then
    adds only the cycles of the busiest stage or link to the total, so both results are these cycles.

    Args:
        setup: Inputs that all trials share.
        reduced: Model with one layer of each kind, which represents the whole model.
        program: Its Program, whose first phase is the chunk.
        cycles: Cycle counts of the steps of the chunk.
    """
    phase = program.phases[0]
    busiest_cycles = reduced.busiest_cycles(program, phase, cycles)
    all_cycles = busiest_cycles if setup.many_users else reduced.sum_over_model(program, phase, cycles.all)
    return ChunkTime(all_cycles, busiest_cycles)


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
