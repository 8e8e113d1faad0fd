"""The columns that attention works on: fewer than a region has where tokens or prompts take fewer cycles so.

A sum along rows goes over all columns that have a part of it. Attention has few bytes in a mixture, and so few features
on a column, or padding, that fewer columns have about as much to do and are sooner at their sums. They are those in the
middle, from where what attention adds to the residual stream is near to all.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from wse.compiler.options import DECODE, PREFILL, REFUSE, VERIFY, Choice
from wse.compiler.search.fitting.attention_widths import column_counts
from wse.compiler.search.fitting.chunks import first_that_fits
from wse.compiler.search.trial import Trial
from wse.compiler.search.trial_setup import TrialSetup
from wse.compiler.search.trials import cycles_of_layers, layers_on


class FittedAttention(NamedTuple):
    """A choice of columns for attention, and the fraction of a layer's cycles that it saves over all columns."""

    choice: Choice
    saved_fraction: float


def free_columns(setup: TrialSetup, trial: Trial) -> int:
    """Return the smallest number of columns on which no column needs more memory for attention than with all columns.

    0, for all, where there are no fewer, or attention may not be on some alone.
    """
    if not setup.narrows_attention(trial.prefill):
        return 0
    of_region = setup.widest_region(trial.layout, trial.prefill)
    fewest = column_counts(setup.spec, of_region)[0]
    return fewest if fewest < of_region else 0


def fit_attention(setup: TrialSetup, trial: Trial, choice: Choice, known: int | None = None) -> FittedAttention:
    """Return the choice with the fastest number of columns for attention that fits with the chunks of the choice.

    1. Numbers of columns are timed on the commonest layer of each kind, all columns and then the most first, while
       fewer take fewer cycles; or there is one that is ``known`` from a layout that is about as fast.
    2. The fewest from there on that fit, if they take no more cycles than the choice.

    Whichever of tokens and prompts takes longer in the trial is timed, tokens where that was not. A request for passes
    over several tokens of one user has one for every token.
    """
    layout, free = trial.layout, choice.attention_cols
    if setup.timing is None or not setup.narrows_attention(trial.prefill):
        return FittedAttention(choice, 0.0)
    phases = _timed_phases(setup, trial, choice)

    @cache
    def cycles(cols: int) -> float:
        return sum(layers_cycles(setup, trial, choice, cols, *phase) for phase in phases)

    of_region = setup.widest_region(layout, trial.prefill)
    fewer = [cols for cols in column_counts(setup.spec, of_region, with_hidden=False) if cols < (free or of_region)]
    if known is None:  # 1
        best = min((free, 0), key=cycles)
        for cols in fewer:
            if cycles(cols) >= cycles(best):
                break
            best = cols
    else:
        best = min(known, free or known)
    if best not in (0, free):  # 2
        more = [cols for cols in reversed(column_counts(setup.spec, of_region)) if best < cols <= (free or of_region)]
        choices = [replace(choice, attention_cols=cols) for cols in (best, *more)]
        strict = replace(setup, options=replace(setup.options, capacity=REFUSE))
        fitting = first_that_fits(strict, setup.options_on(layout), choices, 0).attention_cols if trial.fits else free
        best = min(free, fitting, key=cycles)
    fitted = replace(choice, attention_cols=best)
    return FittedAttention(fitted, 1 - cycles(best) / cycles(0) if best else 0.0)


def fit_pass(setup: TrialSetup, trial: Trial, choice: Choice) -> Choice:
    """Return the choice with the number of columns that makes a pass over several tokens of one user fastest.

    Sums of a pass have as many times the words, of which a column has the more the fewer columns there are. More are
    tried than the choice has, while a pass takes fewer cycles, and all: whatever fits on some columns fits on more.
    """
    if setup.timing is None or not choice.attention_cols:
        return choice

    def cycles(cols: int) -> float:
        return layers_cycles(setup, trial, choice, cols, VERIFY, 1)

    best, fewest = choice.attention_cols, cycles(choice.attention_cols)
    of_region = setup.widest_region(trial.layout, trial.prefill)
    counts = reversed(column_counts(setup.spec, of_region))
    for cols in (*(cols for cols in counts if choice.attention_cols < cols < of_region), 0):
        time = cycles(cols)
        if time < fewest:
            best, fewest = cols, time
        elif cols:
            break
    return replace(choice, attention_cols=best)


def layers_cycles(setup: TrialSetup, trial: Trial, choice: Choice, cols: int, phase: str, tokens: int) -> float:
    """Return about the cycles of all layers in a phase with attention on some columns; infinite without colours."""
    layers = layers_on(replace(setup, attention_cols=cols), trial.layout, trial.prefill, phase, tokens)
    of_pass = choice.rewrites if choice.verify_rewrites is None else choice.verify_rewrites
    time = cycles_of_layers(setup, layers, of_pass if phase == VERIFY else choice.rewrites)
    return math.inf if time is None else time


def _timed_phases(setup: TrialSetup, trial: Trial, choice: Choice) -> list[tuple[str, int]]:
    """Return the phases for which columns are chosen, with the tokens of a chunk: those with most cycles."""
    assert setup.timing is not None
    prompts, token_cycles = trial.prompts, trial.token_cycles
    generated = math.inf if token_cycles is None else token_cycles * setup.timing.new_tokens
    if prompts is not None and prompts.cycles > generated:
        return [(PREFILL, choice.prefill_chunk)]
    return [(DECODE, 1), *([(VERIFY, 1)] if setup.options.verify_tokens else [])]
