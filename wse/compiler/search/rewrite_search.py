"""The rewrites of a layer's steps that pay on a layout: each is tried, and kept only where it saves cycles."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from wse.compiler.options import DECODE, FITTED_TREES, FUSED, VERIFY, WIDE_UNPACKING, Choice, Options, Rewrites
from wse.compiler.rewrites.catalogue import known_rewrites
from wse.compiler.rewrites.recipes import rewrites_of
from wse.compiler.search.fitting.attention_columns import fit_pass
from wse.compiler.search.trees import fit_trees, without_fitted
from wse.compiler.search.trial import Timer, Trial
from wse.compiler.search.trial_setup import TrialSetup
from wse.compiler.search.trials import cycles_of_layers, layers_on, try_layout
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.models.spec import ModelSpec
from wse_mappings.strategies.strategy import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteTrial:
    """The trial of a rewrite: its setting and the cycles that it saves.

    Attributes:
        name, setting: Which, and the setting that takes the fewest cycles.
        saved_cycles: Cycles of a generated token, or of a pass over several, that it saves, with all others that pay.
    """

    name: str
    setting: int
    saved_cycles: float


def settings_of(rewrites: Sequence[RewriteTrial]) -> Rewrites:
    """Return the names and settings of rewrites as a choice stores them."""
    return tuple((one.name, one.setting) for one in rewrites)


def try_rewrites(setup: TrialSetup, candidates: Rewrites, trial: Trial, *, forced: bool) -> tuple[RewriteTrial, ...]:
    """Try rewrites on the layout of a trial; return the savings of those that save cycles.

    The setup has those to begin with: all, or none where all together need more colours than there are. They are timed
    on the commonest layer of each kind; where those that pay there do not fit with all that a PE stores, on the model
    on a reduced model, of which only what fits is timed.
    """
    layers = layers_on(setup, trial.layout, trial.prefill, DECODE)

    def token_cycles(rewrites: Rewrites) -> float | None:
        return try_layout(replace(setup, rewrites=rewrites), trial.layout, trial.prefill).token_cycles

    paying = _paying_rewrites(setup, candidates, partial(cycles_of_layers, setup, layers), forced=forced)
    between = [] if forced or not trial.layout.block_parts else _between_stages(candidates)
    paying = _with_paying(paying, between, token_cycles)
    chosen = replace(setup, rewrites=settings_of(paying), timing=None)
    if try_layout(chosen, trial.layout, trial.prefill).may_be_compiled(setup.options):
        return paying
    return _paying_rewrites(setup, candidates, token_cycles, forced=forced)


def _between_stages(candidates: Rewrites) -> list[tuple[str, int]]:
    return [(name, setting) for name, setting in candidates if known_rewrites()[name].between_stages]


def _with_paying(
    paying: tuple[RewriteTrial, ...], further: Sequence[tuple[str, int]], time: Callable[[Rewrites], float | None]
) -> tuple[RewriteTrial, ...]:
    """Return the rewrites in use and those further ones that save cycles when added alone."""
    for name, setting in further:
        without = settings_of(paying)
        cycles = time((*without, (name, setting))), time(without)
        saved = 0.0 if cycles[0] is None or cycles[1] is None else cycles[1] - cycles[0]
        if saved > 0:
            paying = (*paying, RewriteTrial(name=name, setting=setting, saved_cycles=saved))
    return paying


def try_verify_rewrites(
    setup: TrialSetup, candidates: Rewrites, trial: Trial, *, forced: bool
) -> tuple[RewriteTrial, ...] | None:
    """Apply `try_rewrites` to a pass over several tokens of one user, whose best rewrites differ from those of a token.

    None where those that pay do not fit with all that a PE stores.
    """
    layers = layers_on(setup, trial.layout, trial.prefill, VERIFY)
    paying = _paying_rewrites(setup, candidates, partial(cycles_of_layers, setup, layers), forced=forced)
    chosen = replace(setup, verify_rewrites=settings_of(paying), timing=None)
    return paying if try_layout(chosen, trial.layout, trial.prefill).may_be_compiled(setup.options) else None


def verify_choice(
    spec: ModelSpec, wafer: WaferSpec, software: SoftwareProfile, options: Options, choice: Choice, timing: Timer
) -> Choice:
    """Return a choice with the best rewrites, columns of attention and trees for a pass over several tokens of one
    user.

    Its layout stays. The rewrites are those of a token where others do not fit. Errors as of `rewrites_of`.
    """
    asked = rewrites_of(spec, options)
    rewrites = without_fitted(asked)
    setup = TrialSetup(
        spec=spec,
        wafer=wafer,
        software=software,
        options=options,
        rewrites=rewrites,
        attention_cols=choice.attention_cols,
        timing=timing,
    )
    layout = Layout(
        options.mapping,
        choice.bands,
        choice.per_band,
        turned=choice.turned,
        mesh=choice.mesh,
        block_parts=choice.block_parts,
    )
    trial = Trial(layout=layout, prefill=choice.prefill, needed_bytes=0, fits=False)
    paying = try_verify_rewrites(setup, rewrites, trial, forced=options.schedule != FUSED)
    of_token = tuple(one for one in choice.rewrites if one[0] != FITTED_TREES)
    unpacking = tuple(one for one in choice.rewrites if one[0] == WIDE_UNPACKING)
    of_pass = of_token if paying is None else (*settings_of(paying), *unpacking)
    choice = fit_pass(setup, trial, replace(choice, rewrites=of_token, verify_rewrites=of_pass, trees=()))
    return fit_trees(setup, layout, choice).choice if FITTED_TREES in dict(asked) else choice


def _paying_rewrites(
    setup: TrialSetup, candidates: Rewrites, time: Callable[[Rewrites], float | None], *, forced: bool
) -> tuple[RewriteTrial, ...]:
    """Return the rewrites that save cycles, according to the time of sets of rewrites; None for sets that are
    impossible.

    1. Of a rewrite with several settings the one with the fewest cycles is taken, the others being as they are.
    2. One after another is left out, or put back, where that takes fewer cycles; or, left out, no more. Again from the
       first, until none is; unless all are ``forced``.
    3. What each of those that stay saves is the difference that leaving it out alone makes.
    """

    def cycles(settings: Mapping[str, int]) -> float:
        rewrites = tuple((name, settings[name]) for name in names if name in settings)
        if rewrites not in known_cycles:
            timed = time(rewrites)
            known_cycles[rewrites] = math.inf if timed is None else timed
        return known_cycles[rewrites]

    def rank(settings: Mapping[str, int]) -> tuple[float, int]:
        return cycles(settings), len(settings)

    known_cycles: dict[Rewrites, float] = {}
    names = [name for name, _ in candidates]
    best, chosen = dict(candidates), dict(setup.rewrites)
    for name in chosen:  # 1
        best = min(({**best, name: setting} for setting in known_rewrites()[name].settings), key=cycles)
    chosen, before = {name: best[name] for name in chosen}, None
    while not forced and chosen != before:  # 2
        before = chosen
        for name in names:
            chosen = min(chosen, _toggle(chosen, name, best[name]), key=rank)
    return tuple(
        RewriteTrial(
            name=name,
            setting=chosen[name],
            saved_cycles=cycles(_toggle(chosen, name, 0)) - cycles(chosen),  # 3
        )
        for name in names
        if name in chosen
    )


def _toggle(settings: Mapping[str, int], name: str, setting: int) -> dict[str, int]:
    """Return the settings with one rewrite added, or removed if it is present."""
    if name in settings:
        return {other: value for other, value in settings.items() if other != name}
    return {**settings, name: setting}
