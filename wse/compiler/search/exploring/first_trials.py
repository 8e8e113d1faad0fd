"""First trials of a search: layouts on reduced models, with all rewrites that fit."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from wse.compiler.choice import Rewrites
from wse.compiler.options import OPTIMIZED, THIN_GEMM, Options, unsupported_on_mesh
from wse.compiler.pipeline import compile_choice
from wse.compiler.rewrites.catalogue import known_rewrites
from wse.compiler.search.exploring.explore import explore
from wse.compiler.search.trial import Trial
from wse.compiler.search.trial_setup import TrialSetup
from wse.compiler.search.trials import dominant_cycles, try_layout
from wse.errors import BadInput, BadMesh, DoesNotFit
from wse_mappings.regions.layout import Layout

FEW_LAYOUTS: Final = 2
"""Maximum number of layouts for which all are tried, without forecasts."""


def first_rewrites(rewrites: Rewrites, options: Options) -> Rewrites:
    """Return the rewrites to use in the first trials of layouts.

    A rewrite changes the steps of a layer to save cycles. In schedule ``optimized``, rewrites for
    layers that are split between stages are left out here; they are tried later, on the fastest
    layout.
    """
    return tuple(
        known_rewrite
        for known_rewrite in rewrites
        if options.schedule != OPTIMIZED or not known_rewrites()[known_rewrite[0]].between_stages
    )


def within_limits(setup: TrialSetup, try_all: Callable[[TrialSetup], list[Trial]]) -> tuple[TrialSetup, list[Trial]]:
    """Return the trials of layouts with as many rewrites as colours and SRAM allow.

    A rewrite changes the steps of a layer to save cycles, and may need colours or SRAM.

    1. Try the layouts with all of the setup's rewrites.
    2. If this needs too many colours on every layout, try them without any rewrites.
    3. If no layout fits, try them without the rewrites that require additional weight tiles on PEs.

    Args:
        setup: Inputs that all trials share, such as model, wafer and request.
        try_all: Function that tries layouts.

    Returns:
        The inputs with the rewrites that were used, and the trials.
    """
    trials = try_all(setup)  # 1
    if setup.rewrites and trials and not any(trial.needed_bytes for trial in trials):  # 2
        setup = replace(setup, rewrites=())
        trials = try_all(setup)
    # 3. Without additional tiles.
    without_tiles = tuple(
        known_rewrite
        for known_rewrite in setup.rewrites
        if not known_rewrites()[known_rewrite[0]].holds_tiles(setup.spec)
    )
    if len(without_tiles) < len(setup.rewrites) and not any(trial.may_be_compiled(setup.options) for trial in trials):
        setup = replace(setup, rewrites=without_tiles)
        trials = try_all(setup)
    return setup, trials


def try_layouts(setup: TrialSetup) -> list[Trial]:
    """Try layouts on reduced models, with the matrix products that are possible for prefill.

    A reduced model has one layer of each kind. All layouts are tried if there are only a few for
    one user, or if layouts are not timed. Otherwise only promising layouts are tried (`explore`).

    Raises:
        BadMesh: No layout fits on the mesh.
        DoesNotFit: No layout can divide the model.
    """
    layouts = setup.layouts()
    if setup.timing is not None and (setup.many_users or len(layouts) > FEW_LAYOUTS):
        return explore(setup)
    untimed = replace(setup, timing=None)
    trials: list[Trial] = []
    misfits: list[BadMesh] = []
    for tried_layouts in (layouts, *setup.fallback_layouts(layouts)):
        for layout, product in [
            (other_layout, product) for other_layout in tried_layouts for product in setup.products(other_layout)
        ]:
            try:
                trials.append(try_layout(untimed, layout, product))
            except BadMesh as error:
                misfits.append(error)
        if any(trial.fits for trial in trials):
            break
    if misfits and not trials:
        raise misfits[0]
    return trials


def fastest_first(trials: list[Trial]) -> list[list[Trial]]:
    """Group trials by layout, with the fastest layout first and its fastest trial first.

    The trials of a layout differ in the matrix product used in prefill. Trials without times keep
    their order.
    """
    by_layout: dict[Layout, list[Trial]] = defaultdict(list)
    for trial in trials:
        by_layout[trial.layout].append(trial)
    products = [sorted(layout_trials, key=dominant_cycles) for layout_trials in by_layout.values()]
    return sorted(products, key=lambda layout_trials: dominant_cycles(layout_trials[0]))


def refusal(setup: TrialSetup, trials: list[Trial]) -> Exception:
    """Return the error that explains to the user why no layout can be compiled.

    If layouts were tried, this is the error from compiling the layout that needs the fewest bytes.
    Otherwise no layout supports the requested prefill matrix product, and the error says why.

    Args:
        setup: Inputs that all trials share, such as model, wafer and request.
        trials: The layouts that were tried.
    """
    spec, wafer, options = setup.spec, setup.wafer, setup.options
    if trials:
        least_trial = min(trials, key=lambda trial: trial.needed_bytes or math.inf)
        try:
            compile_choice(spec, wafer, setup.software, *setup.smallest_choice(least_trial.layout, least_trial.prefill))
        except DoesNotFit as error:
            return error
    unsupported_property = unsupported_on_mesh(spec, options)
    if unsupported_property:
        message = (
            f"{options.prefill} does not support {unsupported_property}, which {spec.name} has: "
            f"use {THIN_GEMM} for prefill"
        )
        return BadInput(message)
    message = (
        f"{options.prefill} needs square regions, and those on {wafer.mesh_rows}x{wafer.mesh_cols} PEs are not: "
        f"choose a square --region, or use {THIN_GEMM} for prefill"
    )
    return BadMesh(message)
