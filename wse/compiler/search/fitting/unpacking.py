"""Choice of the number of quantised weights to unpack at a time.

It is made after the prompt chunks have been chosen, using the remaining memory.
"""

from __future__ import annotations

import math
from functools import cache

from wse.compiler.choice import Choice
from wse.compiler.options import DECODE, WIDE_UNPACKING
from wse.compiler.rewrites.catalogue import known_rewrites
from wse.compiler.search.fitting.chunks import first_that_fits
from wse.compiler.search.layer_cycles import cycles_of_layers, layers_on
from wse.compiler.search.rewrite_search import RewriteTrial
from wse.compiler.search.trials.trial import MARGIN, Trial
from wse.compiler.search.trials.trial_setup import TrialSetup


def fit_unpacking(setup: TrialSetup, trial: Trial, choice: Choice) -> tuple[Choice, tuple[RewriteTrial, ...]]:
    """Choose how many quantised weights to unpack at a time: the fastest number that fits in SRAM.

    1. Time a token on the most common layer of each kind. Double the number as long as this saves
       at least the fraction `MARGIN` of the cycles.
    2. Use the largest number up to this limit that fits with the chunks in ``choice``.

    Args:
        setup: Inputs that all trials share, such as model, wafer and request.
        trial: Result of trying the layout on a reduced model.
        choice: Compiler settings, including the sizes of chunks.

    Returns:
        The settings with the chosen number, and a tuple with a record of the cycles that it saves.
        If it saves nothing, the settings are unchanged and the tuple is empty.
    """
    layers = layers_on(setup, trial.layout, trial.prefill, DECODE)
    settings = known_rewrites()[WIDE_UNPACKING].settings

    @cache
    def cycles(setting: int) -> float:
        """Return the cycles per token when ``setting`` weights are unpacked at a time.

        The result is infinity if this is impossible.
        """
        time = cycles_of_layers(setup, layers, choice.with_rewrite(WIDE_UNPACKING, setting).rewrites)
        return math.inf if time is None else time

    best_setting = settings[0]
    for doubled in settings[2::2]:  # 1
        if cycles(doubled) > (1 - MARGIN) * cycles(best_setting):
            break
        best_setting = doubled
    choices = [
        choice.with_rewrite(WIDE_UNPACKING, setting) for setting in reversed(settings) if setting <= best_setting
    ]
    fitting_choice = first_that_fits(setup, trial.layout, choices)  # 2
    setting = dict(fitting_choice.rewrites)[WIDE_UNPACKING]
    saved_cycles = cycles(settings[0]) - cycles(setting)
    if saved_cycles <= 0:
        return choice, ()
    return fitting_choice, (RewriteTrial(name=WIDE_UNPACKING, setting=setting, saved_cycles=saved_cycles),)
