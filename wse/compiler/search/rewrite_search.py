"""Search for the rewrites that save cycles on a layout, by compiling with and without each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from wse.compiler.choice import Choice, Rewrites
from wse.compiler.options import DECODE, FITTED_TREES, OPTIMIZED, VERIFY, WIDE_UNPACKING, Options
from wse.compiler.rewrites.catalogue import known_rewrites
from wse.compiler.rewrites.recipes import rewrites_of
from wse.compiler.search.fitting.attention_columns import fit_pass, free_columns
from wse.compiler.search.layer_cycles import cycles_of_layers, layers_on
from wse.compiler.search.trees import fit_trees, without_fitted
from wse.compiler.search.trials.trial import Timer, Trial
from wse.compiler.search.trials.trial_setup import TrialSetup
from wse.compiler.search.trials.try_layout import try_layout
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.models.spec import ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteTrial:
    """A rewrite that saves cycles, with its best setting.

    A rewrite changes the steps of a layer to save cycles. Some rewrites have a setting, an integer.

    Attributes:
        name: Name of the rewrite.
        setting: The setting with the fewest cycles.
        saved_cycles: Cycles per generated token or verification pass that the rewrite saves when
            combined with all other rewrites in use; None if this was not computed for the layout.
    """

    name: str
    setting: int
    saved_cycles: float | None


def settings_of(rewrites: Sequence[RewriteTrial]) -> Rewrites:
    """Return rewrites as (name, setting) pairs, the form in which a `Choice` lists its rewrites."""
    return tuple((trial.name, trial.setting) for trial in rewrites)


class UsefulRewrites(NamedTuple):
    """The rewrites that save cycles on a layout, and the inputs for trials that use them.

    A rewrite changes the steps of a layer to save cycles.

    Attributes:
        setup: Inputs for additional trials.
        decode_trials: Rewrites that save cycles in decode.
        verify_trials: Rewrites that save cycles in verification passes; None if they are the same.
    """

    setup: TrialSetup
    decode_trials: tuple[RewriteTrial, ...] = ()
    verify_trials: tuple[RewriteTrial, ...] | None = None

    def has_same_settings(self, other: UsefulRewrites) -> bool:
        """Return whether these are the same rewrites, with the same settings, as those of another layout."""
        setup, other_setup = self.setup, other.setup
        return (setup.rewrites, setup.verify_rewrites) == (other_setup.rewrites, other_setup.verify_rewrites)

    def with_rewrite(self, name: str, setting: int) -> UsefulRewrites:
        """Return a copy with one more rewrite, whose saved cycles are not known.

        Verification passes use the rewrite as well, unless they have rewrites of their own.
        """
        return self._replace(
            setup=replace(self.setup, rewrites=(*self.setup.rewrites, (name, setting))),
            decode_trials=(*self.decode_trials, RewriteTrial(name=name, setting=setting, saved_cycles=None)),
        )


def useful_rewrites(setup: TrialSetup, rewrites: Rewrites, trial: Trial) -> UsefulRewrites:
    """Find the rewrites that save cycles on a layout.

    1. Let attention use as few columns of PEs as possible without more memory.
    2. Find the rewrites that save cycles in decode and, if requested, in verification passes.
       Without ``timing``, the setup's rewrites are used.

    Args:
        setup: Inputs that all trials share, such as model, wafer and request.
        rewrites: Rewrites to try.
        trial: Trial of the layout.
    """
    setup = replace(setup, attention_cols=free_columns(setup, trial))
    if not rewrites or setup.timing is None:
        return UsefulRewrites(setup)
    decode_trials = _try_rewrites(setup, rewrites, trial)
    verify_trials = _try_verify_rewrites(setup, rewrites, trial) if setup.options.verify_tokens else None
    setup = replace(setup, rewrites=settings_of(decode_trials))
    if verify_trials is not None:
        setup = replace(setup, verify_rewrites=settings_of(verify_trials))
    return UsefulRewrites(setup, decode_trials, verify_trials)


def _try_rewrites(setup: TrialSetup, candidates: Rewrites, trial: Trial) -> tuple[RewriteTrial, ...]:
    """Return the rewrites that save cycles per generated token on a layout.

    A rewrite changes the steps of a layer to save cycles, but may not save any on a given layout.

    1. Find the rewrites that save cycles on the most common layer of each kind, which is fast to
       compile.
    2. If layers are split between stages, add the rewrites for such layers that save cycles on the
       whole reduced model (one layer of each kind).
    3. If the rewrites together do not fit in memory, start again on the whole reduced model, where
       combinations that do not fit are excluded.

    Args:
        setup: Inputs that all trials share. Its rewrites are the starting point: all rewrites, or
            none if all of them need too many colours.
        candidates: Rewrites to try.
        trial: Trial with the layout and the prefill matrix product.
    """
    layers = layers_on(setup, trial.layout, trial.prefill, DECODE)

    def token_cycles(rewrites: Rewrites) -> float | None:
        """Return the cycles per token with the given rewrites; None if they do not fit."""
        setup_with_rewrites = replace(setup, rewrites=rewrites)
        return try_layout(setup_with_rewrites, trial.layout, trial.prefill, worth_cycles=0.0).token_cycles  # no prompts

    used_rewrites = _rewrites_that_save(setup, candidates, partial(cycles_of_layers, setup, layers))  # 1
    may_add = setup.options.schedule == OPTIMIZED and trial.layout.block_parts  # 2
    split_layer_rewrites = [
        (name, setting) for name, setting in candidates if may_add and known_rewrites()[name].between_stages
    ]
    used_rewrites = _with_useful_candidates(used_rewrites, split_layer_rewrites, token_cycles)
    setup_with_rewrites = replace(setup, rewrites=settings_of(used_rewrites), timing=None)
    if try_layout(setup_with_rewrites, trial.layout, trial.prefill).may_be_compiled(setup.options):
        return used_rewrites
    return _rewrites_that_save(setup, candidates, token_cycles)  # 3


def _with_useful_candidates(
    used_rewrites: tuple[RewriteTrial, ...],
    candidates: Sequence[tuple[str, int]],
    time: Callable[[Rewrites], float | None],
) -> tuple[RewriteTrial, ...]:
    """Return the rewrites in use, extended by those candidates that save cycles.

    Each candidate is timed together with the rewrites in use and the candidates added before it.

    Args:
        used_rewrites: Rewrites in use.
        candidates: Additional rewrites with their settings, in the order in which they are tried.
        time: Function that returns the cycle count with the given rewrites; None if they cannot be
            applied.
    """
    for name, setting in candidates:
        current_rewrites = settings_of(used_rewrites)
        cycles = time((*current_rewrites, (name, setting))), time(current_rewrites)
        saved_cycles = 0.0 if cycles[0] is None or cycles[1] is None else cycles[1] - cycles[0]
        if saved_cycles > 0:
            used_rewrites = (*used_rewrites, RewriteTrial(name=name, setting=setting, saved_cycles=saved_cycles))
    return used_rewrites


def _try_verify_rewrites(setup: TrialSetup, candidates: Rewrites, trial: Trial) -> tuple[RewriteTrial, ...] | None:
    """Return the rewrites that save cycles in a verification pass; None if they do not fit.

    They may differ from the rewrites that save cycles in decode.

    Args:
        setup: Inputs that all trials share. Its rewrites are the starting point.
        candidates: Rewrites to try.
        trial: Trial with the layout and the prefill matrix product.
    """
    layers = layers_on(setup, trial.layout, trial.prefill, VERIFY)
    used_rewrites = _rewrites_that_save(setup, candidates, partial(cycles_of_layers, setup, layers))
    setup_with_rewrites = replace(setup, verify_rewrites=settings_of(used_rewrites), timing=None)
    verify_trial = try_layout(setup_with_rewrites, trial.layout, trial.prefill)
    return used_rewrites if verify_trial.may_be_compiled(setup.options) else None


def verify_choice(
    spec: ModelSpec, wafer: WaferSpec, software: SoftwareProfile, options: Options, choice: Choice, timing: Timer
) -> Choice:
    """Adapt the compiler settings for decode to verification passes, and return the new settings.

    A verification pass processes several draft tokens of one user. Layout and chunk sizes are not
    changed.

    1. Find the rewrites that save cycles. If the model does not fit with them, use the rewrites of
       decode.
    2. Find the number of columns for attention.
    3. Choose the numbers of groups of all-reduce trees, if the request includes this rewrite.

    Args:
        spec, wafer, software, options: Inputs of the compilation.
        choice: Compiler settings for decode.
        timing: Functions that time Programs.

    Raises:
        UnknownName: The requested schedule names an unknown rewrite.
        BadInput: A requested rewrite is invalid for the model or the request.
    """
    requested_rewrites = rewrites_of(spec, options)
    rewrites = without_fitted(requested_rewrites)
    setup = TrialSetup(
        spec=spec,
        wafer=wafer,
        software=software,
        options=options,
        rewrites=rewrites,
        attention_cols=choice.attention_cols,
        timing=timing,
    )
    layout = choice.layout(options.mapping)
    trial = Trial(layout=layout, prefill=choice.prefill, needed_bytes=0, fits=False)
    # 1. Rewrites.
    used_rewrites = _try_verify_rewrites(setup, rewrites, trial)
    decode_rewrites = choice.without_rewrite(FITTED_TREES).rewrites
    unpacking = tuple(rewrite for rewrite in choice.rewrites if rewrite[0] == WIDE_UNPACKING)
    verify_rewrites = decode_rewrites if used_rewrites is None else (*settings_of(used_rewrites), *unpacking)
    # 2. Columns for attention.
    choice = fit_pass(
        setup, trial, replace(choice, rewrites=decode_rewrites, verify_rewrites=verify_rewrites, trees=())
    )
    # 3. Trees.
    return fit_trees(setup, layout, choice).choice if FITTED_TREES in dict(requested_rewrites) else choice


def _rewrites_that_save(
    setup: TrialSetup, candidates: Rewrites, time: Callable[[Rewrites], float | None]
) -> tuple[RewriteTrial, ...]:
    """Return the rewrites that save cycles, with their best settings and savings.

    1. For each rewrite with several settings, choose the setting with the fewest cycles, leaving
       all other rewrites unchanged.
    2. Add or remove one rewrite at a time if that saves cycles, or if removing it costs none.
       Repeat until nothing changes. This step is for schedule ``optimized`` only. In a list of
       rewrites, all of them are used.
    3. Compute the cycles that each rewrite saves: the difference when only that rewrite is removed.

    Args:
        setup: Inputs that all trials share, with the rewrites to start from.
        candidates: Rewrites to try.
        time: Function that returns the cycle count with the given rewrites; None if they cannot be
            applied.
    """

    def cycles(settings: Mapping[str, int]) -> float:
        """Return the cycles with the given rewrites; infinity if they are impossible."""
        rewrites = tuple((name, settings[name]) for name in names if name in settings)
        if rewrites not in known_cycles:
            timed_cycles = time(rewrites)
            known_cycles[rewrites] = math.inf if timed_cycles is None else timed_cycles
        return known_cycles[rewrites]

    def rank(settings: Mapping[str, int]) -> tuple[float, int]:
        """Return a sort key for sets of rewrites: fewest cycles first, then fewest rewrites."""
        return cycles(settings), len(settings)

    known_cycles: dict[Rewrites, float] = {}
    names = [name for name, _ in candidates]
    best, chosen_rewrites = dict(candidates), dict(setup.rewrites)
    for name in chosen_rewrites:  # 1
        best = min(({**best, name: setting} for setting in known_rewrites()[name].settings), key=cycles)
    chosen_rewrites, previous_choice = {name: best[name] for name in chosen_rewrites}, None
    while setup.options.schedule == OPTIMIZED and chosen_rewrites != previous_choice:  # 2
        previous_choice = chosen_rewrites
        for name in names:
            chosen_rewrites = min(chosen_rewrites, _toggle(chosen_rewrites, name, best[name]), key=rank)
    return tuple(
        RewriteTrial(
            name=name,
            setting=chosen_rewrites[name],
            saved_cycles=cycles(_toggle(chosen_rewrites, name, 0)) - cycles(chosen_rewrites),  # 3
        )
        for name in names
        if name in chosen_rewrites
    )


def _toggle(settings: Mapping[str, int], name: str, setting: int) -> dict[str, int]:
    """Return a copy of the used rewrites in which one rewrite is added, or removed if it is used.

    Args:
        settings: Setting of each used rewrite, keyed by name.
        name: Name of the rewrite to add or remove.
        setting: Setting of this rewrite if it is added.
    """
    if name in settings:
        return {other_name: value for other_name, value in settings.items() if other_name != name}
    return {**settings, name: setting}
