"""The rewrites of a layer's steps that pay on a layout: each is tried in small, and kept only where it saves cycles."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wse.compiler.options import Rewrites
from wse.compiler.rewrites.recipes import REWRITES
from wse.compiler.search.trials import Trial, TrialSetup


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteTrial:
    """A rewrite that was tried.

    Attributes:
        name, setting: Which, and the setting that takes the fewest cycles.
        saved_cycles: Cycles of a generated token that it saves, with all others that pay.
    """

    name: str
    setting: int
    saved_cycles: float


def try_rewrites(setup: TrialSetup, trial: Trial, *, forced: bool) -> tuple[RewriteTrial, ...]:
    """What each rewrite of a setup saves on the layout of a trial, in small; those that save nothing are left out.

    1. Of a rewrite with several settings the one with the fewest cycles is taken, the others being as they are.
    2. A rewrite without which a token takes no more cycles is dropped, the last ones first, unless all are ``forced``.
    3. What each of the others saves is the difference that leaving it out alone makes.
    """

    def cycles(rewrites: Rewrites) -> float:
        if rewrites not in known_cycles:
            result = replace(setup, rewrites=rewrites).trial(trial.layout, trial.prefill)
            known_cycles[rewrites] = float("inf") if result.token_cycles is None else result.token_cycles
        return known_cycles[rewrites]

    known_cycles: dict[Rewrites, float] = {}
    chosen = dict(setup.rewrites)
    for name in chosen:  # 1
        settings = [(name, setting) for setting in REWRITES[name].settings]
        chosen[name] = min(settings, key=lambda one: cycles(tuple((chosen | dict([one])).items())))[1]
    for name in [] if forced else reversed(list(chosen)):  # 2
        without = {other: setting for other, setting in chosen.items() if other != name}
        if cycles(tuple(without.items())) <= cycles(tuple(chosen.items())):
            chosen = without
    best = cycles(tuple(chosen.items()))
    return tuple(  # 3
        RewriteTrial(
            name=name,
            setting=setting,
            saved_cycles=cycles(tuple((other, s) for other, s in chosen.items() if other != name)) - best,
        )
        for name, setting in chosen.items()
    )
