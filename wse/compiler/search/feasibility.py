"""Feasibility: whether a model fits on the wafers in any layout, without a choice of the fastest."""

from __future__ import annotations

from dataclasses import replace

from wse.compiler.options import REFUSE, Options
from wse.compiler.rewrites.recipes import rewrites_of
from wse.compiler.search.check import check_mesh, check_names
from wse.compiler.search.exploring.explore import first_rewrites, refusal, trials_until_one_fits, within_limits
from wse.compiler.search.reduced.misfits import Misfits
from wse.compiler.search.trees import without_fitted
from wse.compiler.search.trials.trial import Trial
from wse.compiler.search.trials.trial_setup import TrialSetup
from wse.errors import BadMesh, TooFewColours
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.models.spec import ModelSpec


def fits(
    spec: ModelSpec,
    wafer: WaferSpec,
    software: SoftwareProfile,
    options: Options,
    misfits: Misfits | None = None,
    *,
    whole_layers: bool = False,
) -> bool:
    """Return whether the model fits in any layout, with the smallest chunks.

    The arguments and errors are those of `fitting_trial`.
    """
    return fitting_trial(spec, wafer, software, options, misfits, whole_layers=whole_layers) is not None


def fitting_trial(
    spec: ModelSpec,
    wafer: WaferSpec,
    software: SoftwareProfile,
    options: Options,
    misfits: Misfits | None = None,
    *,
    whole_layers: bool = False,
) -> Trial | None:
    """Return the first layout that is found in which the model fits, with the smallest chunks.

    Layouts are tried in ascending order of optimistic byte forecasts. The result is None if the
    model fits in no layout.

    Args:
        spec: Model.
        wafer: Wafer.
        software: Costs of the software on the wafer.
        options: The requested options.
        misfits: Stages that did not fit in earlier calls, which may differ only in the number of
            wafers. New misfits are added.
        whole_layers: Whether layers must not be split between stages.

    Raises:
        TooFewColours: Every layout needs too many colours. A larger mesh or more wafers would not
            change this.
    """
    check_names(options)
    setup = TrialSetup(
        spec=spec,
        wafer=wafer,
        software=software,
        options=replace(options, capacity=REFUSE),
        rewrites=first_rewrites(without_fitted(rewrites_of(spec, options)), options),
        misfits=Misfits() if misfits is None else misfits,
        whole_layers=whole_layers,
    )
    try:
        check_mesh(spec, wafer, options)
    except BadMesh:
        return None
    setup, trials = within_limits(setup, trials_until_one_fits)
    if trials and not any(trial.needed_bytes for trial in trials):
        error = refusal(setup, trials)
        if isinstance(error, TooFewColours):
            raise error
    return next((trial for trial in trials if trial.fits), None)
