"""Trials of layouts on reduced models: bytes per PE, cycles per token, and time for prompts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from wse.compiler.search.trials.prompt_time import chunk_time, prompt_time
from wse.compiler.search.trials.timed_token import smallest_allocated, timed_token
from wse.compiler.search.trials.trial import PromptTime, Trial
from wse.compiler.search.trials.trial_setup import TrialSetup
from wse.errors import DoesNotFit
from wse_mappings.regions.layout import Layout


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
        allocated, stage_bytes = smallest_allocated(setup, layout, prefill)
    except DoesNotFit:
        return trial, ()
    needed_bytes = max(stage_bytes)
    trial = replace(trial, needed_bytes=needed_bytes, fits=needed_bytes <= setup.wafer.sram_bytes_per_pe)
    if setup.timing is None or allocated is None:
        return trial, stage_bytes
    token = setup.options.cache.of(timed_token, 1)(setup, layout, prefill)
    program, token_step_cycles = token.program, token.token_cycles
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
    token = setup.options.cache.of(timed_token, 1)(setup, layout, prefill)
    first_chunk = chunk_time(setup, token.allocated, token.program, token.chunk_cycles)
    prompts = prompt_time(setup, trial, first_chunk)
    if setup.many_users:  # the time of prompts does not include the head
        return prompts
    return prompts._replace(cycles=prompts.cycles - token.saved_cycles)


def try_products(setup: TrialSetup, layout: Layout, products: Sequence[str], worth_cycles: float) -> list[Trial]:
    """Try a layout with the prefill matrix products that may make a request much faster.

    The product that needs the least memory is tried first. Other products can only shorten the
    prompts, so they are not tried if the generated tokens take longer than the prompts.

    Args:
        setup: Inputs that all trials share, such as model, wafer and request.
        layout: Division of the wafers into regions.
        products: Products for prefill. The last one needs the least memory.
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
