"""The codes that a layout unpacks at once: as many as pay and as it has room for, once chunks of prompts are chosen."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Final

from wse.compiler.options import DECODE, WIDE_UNPACKING, Choice, Rewrites
from wse.compiler.rewrites.catalogue import known_rewrites
from wse.compiler.search.fitting.chunks import first_that_fits
from wse.compiler.search.rewrite_search import RewriteTrial
from wse.compiler.search.trial import Trial
from wse.compiler.search.trial_setup import TrialSetup
from wse.compiler.search.trials import cycles_of_layers, layers_on

LEAST_SAVING: Final = 0.01
"""The part of a token's cycles that twice as many codes have to save: their scratch is no room for caches any more."""


def fit_unpacking(setup: TrialSetup, trial: Trial, choice: Choice) -> tuple[Choice, tuple[RewriteTrial, ...]]:
    """Return the choice with the most codes unpacked at once that fits and still saves cycles, and the saving.

    1. Cycles of a token on the commonest layer of each kind, for twice as many codes after another while that pays.
    2. The most codes up to these that fit, with the chunks of the choice.
    """
    layers = layers_on(setup, trial.layout, trial.prefill, DECODE)
    settings = known_rewrites()[WIDE_UNPACKING].settings

    @cache
    def cycles(setting: int) -> float:
        time = cycles_of_layers(setup, layers, _with_setting(choice.rewrites, setting))
        return math.inf if time is None else time

    paying = settings[0]
    for doubled in settings[2::2]:  # 1
        if cycles(doubled) > (1 - LEAST_SAVING) * cycles(paying):
            break
        paying = doubled
    choices = [_with_codes(choice, setting) for setting in reversed(settings) if setting <= paying]
    chosen = first_that_fits(setup, setup.options_on(trial.layout), choices, 0)  # 2
    setting = dict(chosen.rewrites)[WIDE_UNPACKING]
    saved = cycles(settings[0]) - cycles(setting)
    if saved <= 0:
        return choice, ()
    return chosen, (RewriteTrial(name=WIDE_UNPACKING, setting=setting, saved_cycles=saved),)


def _with_setting(rewrites: Rewrites, setting: int) -> Rewrites:
    return (*(one for one in rewrites if one[0] != WIDE_UNPACKING), (WIDE_UNPACKING, setting))


def _with_codes(choice: Choice, setting: int) -> Choice:
    """Return a choice that unpacks a given number of codes at once in all phases."""
    of_pass = None if choice.verify_rewrites is None else _with_setting(choice.verify_rewrites, setting)
    return replace(choice, rewrites=_with_setting(choice.rewrites, setting), verify_rewrites=of_pass)
