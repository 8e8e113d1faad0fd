"""Trials of layouts on reduced models: the bytes that they need, how long a token takes, and prompts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from wse.arrays import F64
from wse.compiler.options import REPORT, VERIFY, Choice, Options, Rewrites, Trees
from wse.compiler.search.fitting.sizes import chunk_sizes
from wse.compiler.search.reduced.condense import CondensedModel, commonest_layers, condense
from wse.compiler.search.trial import ChunkTime, PromptTime, Trial
from wse.compiler.search.trial_setup import TrialSetup
from wse.errors import DoesNotFit
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.models.spec import ModelSpec
from wse.program.program import Program
from wse_mappings.cuts.split import ceil_div
from wse_mappings.strategies.strategy import Layout

SMALL_CHUNK = 8
"""Tokens of a prompt at once in a trial that tells how chunks grow; as many on a row where they lie on rows."""


def try_layout(setup: TrialSetup, layout: Layout, prefill: str, worth_cycles: float = math.inf) -> Trial:
    """Return a trial on a reduced model, timed if that is requested and it fits.

    1. With a token of the prompt at once: what a PE needs, and what a decoded token takes. Where one of the stages
       is as one that did not fit, what that needed.
    2. If prompts that are read so take longer than what is generated, with a small chunk too: bytes and cycles are
       about linear in the tokens on a row, so that this tells the chunk that fits, and what it takes. Not where
       what is generated takes more than ``worth_cycles`` alone: then it is what counts.

    Raises:
        BadMesh: the mesh has no room for the regions.
    """
    # 1. A token at once.
    trial = Trial(layout=layout, prefill=prefill, needed_bytes=0, fits=False)
    small = setup.condense(layout, prefill, 1)
    if not setup.allows(known := setup.misfits.needed_bytes(small)):
        return replace(trial, needed_bytes=known)
    try:
        # What did not fit on the fewest wafers is tried on them again.
        allocate = setup.options.cache.of(_allocated, 8)
        allocated, of_stages = allocate(setup.spec, setup.wafer, setup.software, *setup.least_choice(layout, prefill))
    except DoesNotFit:
        return trial
    setup.misfits.learn(small, of_stages, setup.wafer.sram_bytes_per_pe)
    needed = max(of_stages)
    trial = replace(trial, needed_bytes=needed, fits=needed <= setup.wafer.sram_bytes_per_pe)
    if setup.timing is None or allocated is None:
        return trial
    small, program = allocated, _amid_prompt(setup, allocated.program())
    step, (of_chunk, of_token) = setup.row_tokens(layout, prefill), _by_step(setup, program, (0, len(program.prefill)))
    first, decoded = _chunk_time(small, program, of_chunk), small.sum_over_model(program, program.decode, of_token)
    prompts = PromptTime(first.of_all(sum(setup.options.prompt_tokens) / step), step, first, sized=False)
    trial = replace(trial, token_cycles=decoded, passes=setup.passes_at_once(small))
    generated = decoded * setup.timing.new_tokens / trial.passes
    if generated > worth_cycles:
        return replace(trial, prompts=prompts, dominant_cycles=generated)
    # 2. A small chunk.
    trial = _time_prompts(setup, trial, prompts)
    return with_chunk(setup, trial) if prompts.cycles > generated else trial


def deciding_trials(setup: TrialSetup, layout: Layout, products: Sequence[str], worth_cycles: float) -> list[Trial]:
    """Return the trials of a layout with its products, the least demanding last, up to the one that ranks the layout.

    The least demanding comes first. Another product makes prompts faster, which count where they take longer than
    what is generated. Errors and ``worth_cycles`` as of `try_layout`.
    """
    trials: list[Trial] = []
    for product in reversed(products):
        trials.append(try_layout(setup, layout, product, worth_cycles))
        generated = _generated_cycles(setup, trials[-1])
        if generated is not None and trials[-1].dominant_cycles == generated:
            break
    return trials


def _generated_cycles(setup: TrialSetup, trial: Trial) -> float | None:
    """Return the cycles of all generated tokens divided by the passes in flight, if the trial was timed."""
    if setup.timing is None or trial.token_cycles is None:
        return None
    return trial.token_cycles * setup.timing.new_tokens / trial.passes


def dominant_cycles(trial: Trial) -> float:
    """Return the cycles by which a search compares layouts; 0 for a trial that was not timed."""
    return trial.dominant_cycles or 0.0


def request_cycles(setup: TrialSetup, trial: Trial) -> float:
    """Return the cycles of prompts and generated tokens divided by the passes in flight; 0 for an untimed trial."""
    return (_generated_cycles(setup, trial) or 0.0) + (0.0 if trial.prompts is None else trial.prompts.cycles)


def _time_prompts(setup: TrialSetup, trial: Trial, prompts: PromptTime) -> Trial:
    """Return a trial whose token was timed, with the time of its prompts added."""
    dominant_cycles = max(prompts.cycles, _generated_cycles(setup, trial) or 0.0)
    return replace(trial, prompts=prompts, dominant_cycles=dominant_cycles)


def fastest_product_first(setup: TrialSetup, trials: Sequence[Trial], preferred: str | None) -> list[Trial]:
    """Return the trials of a layout with all products and about the best chunks, by the time of all prompts.

    With the ``preferred`` product alone where the layout has that. As they are where they were not timed.
    """
    if any(trial.prompts is None for trial in trials):
        return list(trials)
    layout, tried = trials[0].layout, {trial.prefill: trial for trial in trials}
    products = setup.products(layout)
    all_trials = [
        tried[product] if product in tried else try_layout(setup, layout, product)
        for product in ([preferred] if preferred in products else products)
        if product is not None
    ]
    timed = [with_chunk(setup, trial) for trial in all_trials if trial.prompts is not None]
    return sorted(timed, key=lambda trial: trial.prompts.cycles if trial.prompts else 0.0)


def with_chunk(setup: TrialSetup, trial: Trial) -> Trial:
    """Return a timed trial with about the best chunk size, from the bytes and cycles of one token per row.

    Larger chunks take fewer cycles a token; smaller ones follow each other sooner through the stages.
    """
    assert trial.prompts is not None
    step, longest = setup.row_tokens(trial.layout, trial.prefill), max(setup.options.prompt_tokens)
    tokens = min(SMALL_CHUNK * step, longest)
    further = ceil_div(tokens, step) - 1
    if not further or trial.prompts.sized:
        return trial
    small = setup.condense(trial.layout, trial.prefill, tokens).allocate()
    needed, program = max(small.needed_bytes()), _amid_prompt(setup, small.program())
    (of_chunk,) = _by_step(setup, program, (0,))
    first, longer = trial.prompts.shortest, _chunk_time(small, program, of_chunk)
    bytes_of_row = (needed - trial.needed_bytes) / further
    sizes = chunk_sizes(longest, step)
    free = setup.wafer.sram_bytes_per_pe - trial.needed_bytes
    fitting = [size for size in sizes if (ceil_div(size, step) - 1) * bytes_of_row <= free] or sizes[-1:]
    prompts = []
    for size in fitting:
        rows = (ceil_div(size, step) - 1) / further
        time = ChunkTime(*(one + rows * (other - one) for one, other in zip(first, longer, strict=True)))
        cycles = time.of_all(sum(setup.options.prompt_tokens) / size)
        prompts.append(PromptTime(cycles, size, first, sized=True))
    return _time_prompts(setup, trial, min(prompts))


def layers_on(setup: TrialSetup, layout: Layout, prefill: str, phase: str, tokens: int = 1) -> CondensedModel:
    """Return the most common layer of each kind, for a decoded token, a verification pass, or a chunk of ``tokens``."""
    options, choice = setup.least_choice(layout, prefill, tokens)
    verify_tokens = options.verify_tokens if phase == VERIFY else 0
    of_phase = replace(options, phases=(phase,), verify_tokens=verify_tokens)
    return commonest_layers(condense(setup.spec, setup.wafer, setup.software, of_phase, choice)).compile_until("place")


def cycles_of_layers(setup: TrialSetup, layers: CondensedModel, rewrites: Rewrites, trees: Trees = ()) -> float | None:
    """Return the approximate cycles of the layers with some rewrites; None where colours run out."""
    try:
        small = layers.with_rewrites(rewrites, trees).allocate()
    except DoesNotFit:
        return None
    program = small.program()
    return small.sum_over_model(program, program.phases[0], _by_step(setup, program, (0,))[0])


def _by_step(setup: TrialSetup, program: Program, phases: Sequence[int]) -> list[F64]:
    """Return the cycles of the steps of some phases of a Program on a reduced model."""
    assert setup.timing is not None
    return setup.timing.by_step(program, phases)


def _amid_prompt(setup: TrialSetup, program: Program) -> Program:
    """Return a reduced Program with its first chunk in the middle of the longest prompt."""
    chunk, *others = program.phases
    before = ceil_div(max(setup.options.prompt_tokens) - chunk.tokens, 2)
    return replace(program, phases=(replace(chunk, cached=before), *others))


def _chunk_time(small: CondensedModel, program: Program, by_step: F64) -> ChunkTime:
    """Return the time of the first chunk in the whole model."""
    phase = program.phases[0]
    return ChunkTime(small.sum_over_model(program, phase, by_step), small.slowest_stage_sum(program, phase, by_step))


def _allocated(
    spec: ModelSpec, wafer: WaferSpec, software: SoftwareProfile, options: Options, choice: Choice
) -> tuple[CondensedModel | None, tuple[int, ...]]:
    """Return an allocated reduced model and the bytes of its stages; None for a model that does not fit and must.

    Raises DoesNotFit where colours run out.
    """
    small = condense(spec, wafer, software, options, choice).allocate()
    needed = tuple(small.needed_bytes())
    fits = max(needed) <= wafer.sram_bytes_per_pe or options.capacity == REPORT
    return small if fits else None, needed
