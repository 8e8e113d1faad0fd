"""Choice of the number of columns for attention, which may use only some columns of a region.

A sum along rows takes longer if more columns contribute to it. In a mixture of experts, the
attention weights are small, so a column has few features or only padding. With fewer columns, the
fullest column has about the same work, and the sums finish earlier. The columns in the middle of
the region are used, because their distance to all other columns is small.

Heads and features are divided over columns in whole units. With several column counts, the fullest
column therefore has the same number of units. Only the smallest of these counts is tried.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from itertools import chain

from wse.compiler.choice import Choice
from wse.compiler.options import DECODE, PREFILL, REFUSE, VERIFY
from wse.compiler.score_bytes import fullest_head_places
from wse.compiler.search.fitting.chunks import first_that_fits
from wse.compiler.search.layer_cycles import cycles_of_layers, layers_on
from wse.compiler.search.trials.trial import Trial
from wse.compiler.search.trials.trial_setup import TrialSetup
from wse.models.spec import ModelSpec
from wse_mappings.rounding import ceil_div

MAX_NARROWING = 4
"""Maximum ratio of a region's columns to its attention columns."""


def column_counts(spec: ModelSpec, region_cols: int, *, with_hidden: bool = True) -> tuple[int, ...]:
    """Return the numbers of attention columns that are worth trying, in descending order.

    Attention may use only some of the columns of a region of PEs. If several column counts divide
    heads and features into equally large blocks, only the smallest is returned.

    Args:
        spec: Model.
        region_cols: Number of columns of the region.
        with_hidden: Whether the blocks of hidden features must also be equally large. This only
            matters for latent attention, which partitions hidden features across the attention
            columns.
    """
    counts, latent = range(region_cols, region_cols // MAX_NARROWING, -1), spec.latent
    smallest_count_of: dict[tuple[int, ...], int]  # by the division on the fullest column; later counts are smaller
    if latent is None:
        kinds = dict.fromkeys((spec, spec.with_window_heads))
        smallest_count_of = {
            tuple(chain(*(fullest_head_places(kind, cols) for kind in kinds))): cols for cols in counts
        }
    else:
        extents = [latent.q_rank or spec.hidden_size, latent.kv_rank, latent.rope_size // 2]
        extents += [spec.hidden_size] if with_hidden else []
        smallest_count_of = {tuple(ceil_div(extent, cols) for extent in extents): cols for cols in counts}
    return tuple(sorted(smallest_count_of.values(), reverse=True))


def free_columns(setup: TrialSetup, trial: Trial) -> int:
    """Return the smallest number of attention columns that needs no additional memory per column.

    The comparison is with attention on all columns of the widest region. Because heads and features
    are divided into whole units, the fullest column may store the same number of units with fewer
    columns.

    Args:
        setup: Inputs that all trials share, such as model, wafer and request.
        trial: Result of trying the layout on a reduced model.

    Returns:
        The number; 0 (all columns) if no smaller number exists or attention must use all columns.
    """
    if not setup.narrows_attention(trial.prefill):
        return 0
    region_cols = setup.widest_region(trial.layout, trial.prefill)
    min_columns = column_counts(setup.spec, region_cols)[0]
    return min_columns if min_columns < region_cols else 0


def fit_attention(setup: TrialSetup, trial: Trial, choice: Choice) -> tuple[Choice, float]:
    """Return the choice with the fastest number of columns for attention that fits.

    With fewer columns, sums over columns are faster, but each column does more work.

    1. Time several numbers of columns on the most common layer of each kind: the number of
       `free_columns`, all columns, then decreasing numbers as long as they save cycles.
    2. The best number may need too much memory. Try larger numbers, up to the result of
       `free_columns`, and use the first one that fits with the chunks of the choice. If the
       choice's current number is faster, keep it.

    The phase that takes longer in the trial, prefill or decode, is timed; if the trial has no
    times, decode is timed. If verification passes are requested and decode is timed, one pass is
    timed as well.

    Args:
        setup: Inputs that all trials share, such as model, wafer and request.
        trial: Result of trying the layout on a reduced model.
        choice: Choice with the chunks, and with the number of `free_columns`.

    Returns:
        The choice with the number of columns; and the fraction of a layer's cycles that it saves
        compared with attention on all columns.
    """
    layout, free_cols = trial.layout, choice.attention_cols
    if setup.timing is None or not setup.narrows_attention(trial.prefill):
        return choice, 0.0
    phases = _timed_phases(setup, trial, choice)

    @cache
    def cycles(cols: int) -> float:
        """Return the cycle count of the timed phases when attention uses ``cols`` columns."""
        return sum(layers_cycles(setup, trial, choice, cols, *phase) for phase in phases)

    region_cols = setup.widest_region(layout, trial.prefill)
    smaller_counts = [
        cols for cols in column_counts(setup.spec, region_cols, with_hidden=False) if cols < (free_cols or region_cols)
    ]
    best = min((free_cols, 0), key=cycles)  # 1
    for cols in smaller_counts:
        if cycles(cols) >= cycles(best):
            break
        best = cols
    if best not in (0, free_cols):  # 2
        larger_counts = [
            cols
            for cols in reversed(column_counts(setup.spec, region_cols))
            if best < cols <= (free_cols or region_cols)
        ]
        choices = [replace(choice, attention_cols=cols) for cols in (best, *larger_counts)]
        strict = replace(setup, options=replace(setup.options, capacity=REFUSE))
        fitting = first_that_fits(strict, layout, choices).attention_cols if trial.fits else free_cols
        best = min(free_cols, fitting, key=cycles)
    return replace(choice, attention_cols=best), 1 - cycles(best) / cycles(0) if best else 0.0


def fit_pass(setup: TrialSetup, trial: Trial, choice: Choice) -> Choice:
    """Return settings with the fastest number of attention columns for verification passes.

    Messages are longer in a verification pass than for a single token, and longer still with fewer
    columns. Starting from the given settings, the number of columns is increased as long as this
    saves cycles. All columns are tried last. All of these numbers fit, because more columns need
    less memory per column.

    Args:
        setup: Inputs that all trials share, such as model, wafer and request.
        trial: Result of trying the layout on a reduced model.
        choice: Compiler settings for decode. Their number of attention columns is the smallest to
            try.
    """
    if setup.timing is None or not choice.attention_cols:
        return choice

    def cycles(cols: int) -> float:
        """Return the cycle count of a verification pass when attention uses ``cols`` columns."""
        return layers_cycles(setup, trial, choice, cols, VERIFY, 1)

    best, fewest_cycles = choice.attention_cols, cycles(choice.attention_cols)
    region_cols = setup.widest_region(trial.layout, trial.prefill)
    counts = reversed(column_counts(setup.spec, region_cols))
    for cols in (*(cols for cols in counts if choice.attention_cols < cols < region_cols), 0):
        time = cycles(cols)
        if time < fewest_cycles:
            best, fewest_cycles = cols, time
        elif cols:
            break
    return replace(choice, attention_cols=best)


def layers_cycles(setup: TrialSetup, trial: Trial, choice: Choice, cols: int, phase: str, tokens: int) -> float:
    """Return the approximate cycle count of all layers in a phase; infinity if colours run out.

    Colours run out if the patterns of the layers need more routes than the routers can store.

    Args:
        setup: Inputs that all trials share, such as model, wafer and request.
        trial: Result of trying the layout on a reduced model.
        choice: Compiler settings, of which only the rewrites are used.
        cols: Number of columns for attention; 0 for all columns.
        phase: Name of the phase.
        tokens: Tokens per prompt chunk.
    """
    layers = layers_on(replace(setup, attention_cols=cols), trial.layout, trial.prefill, phase, tokens)
    rewrites = choice.rewrites_of_verification if phase == VERIFY else choice.rewrites
    time = cycles_of_layers(setup, layers, rewrites)
    return math.inf if time is None else time


def _timed_phases(setup: TrialSetup, trial: Trial, choice: Choice) -> list[tuple[str, int]]:
    """Return the phases that are timed to choose the number of columns for attention.

    Only prefill or only decode is timed, whichever takes longer in the trial. If a verification
    pass is requested, it is timed together with decode.

    Args:
        setup: Inputs that all trials share, with ``timing``.
        trial: Result of trying the layout on a reduced model.
        choice: Compiler settings, of which only the size of prompt chunks is used.

    Returns:
        (phase name, tokens per prompt chunk) pairs.
    """
    assert setup.timing is not None
    prompts, token_cycles = trial.prompts, trial.token_cycles
    generated_cycles = math.inf if token_cycles is None else token_cycles * setup.timing.new_tokens
    if prompts is not None and prompts.cycles > generated_cycles:
        return [(PREFILL, choice.prefill_chunk)]
    return [(DECODE, 1), *([(VERIFY, 1)] if setup.options.verify_tokens else [])]
