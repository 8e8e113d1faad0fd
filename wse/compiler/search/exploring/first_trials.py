"""The first trials of a search: layouts on reduced models, with the rewrites for which there are colours and SRAM."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from wse.compiler.options import FUSED, THIN_GEMM, Options, Rewrites, unsupported_on_mesh
from wse.compiler.pipeline import compile_choice
from wse.compiler.rewrites.catalogue import known_rewrites
from wse.compiler.search.exploring.explore import explore
from wse.compiler.search.trial import Trial
from wse.compiler.search.trial_setup import TrialSetup
from wse.compiler.search.trials import dominant_cycles, try_layout
from wse.errors import BadInput, BadMesh, DoesNotFit
from wse_mappings.strategies.strategy import Layout

FEW_LAYOUTS: Final = 2
"""Layouts that are all tried, without forecasts."""


def tried_first(rewrites: Rewrites, options: Options) -> Rewrites:
    """Return the rewrites with which layouts are tried: all valid ones except those between stages.

    These are tried on the fastest layout alone.
    """
    return tuple(one for one in rewrites if options.schedule != FUSED or not known_rewrites()[one[0]].between_stages)


def within_limits(setup: TrialSetup, try_all: Callable[[TrialSetup], list[Trial]]) -> tuple[TrialSetup, list[Trial]]:
    """Return the trials with a set of rewrites, reduced until the colours and the SRAM suffice.

    Without any where all of these need too many colours everywhere; without those that PEs store tiles for where
    nothing fits with these.
    """
    trials = try_all(setup)
    if setup.rewrites and trials and not any(trial.needed_bytes for trial in trials):
        setup = replace(setup, rewrites=())
        trials = try_all(setup)
    without_tiles = tuple(one for one in setup.rewrites if not known_rewrites()[one[0]].holds_tiles(setup.spec))
    if len(without_tiles) < len(setup.rewrites) and not any(trial.may_be_compiled(setup.options) for trial in trials):
        setup = replace(setup, rewrites=without_tiles)
        trials = try_all(setup)
    return setup, trials


def try_layouts(setup: TrialSetup) -> list[Trial]:
    """Compile layouts and products for prefill on reduced models: all of them, or the promising ones if there are many.

    Raises BadMesh where the mesh has room for none of them, DoesNotFit where none can be cut.
    """
    layouts = setup.layouts()
    if setup.timing is not None and (setup.many_users or len(layouts) > FEW_LAYOUTS):
        return explore(setup)
    untimed = replace(setup, timing=None)
    trials: list[Trial] = []
    misfits: list[BadMesh] = []
    for tried in (layouts, *setup.fallback_layouts(layouts)):
        for layout, product in [(other, product) for other in tried for product in setup.products(other)]:
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
    """Return the trials ordered by layout, the fastest layout first, and within a layout the fastest product first.

    Where none was timed, as they are.
    """
    by_layout: dict[Layout, list[Trial]] = defaultdict(list)
    for trial in trials:
        by_layout[trial.layout].append(trial)
    products = [sorted(alike, key=dominant_cycles) for alike in by_layout.values()]
    return sorted(products, key=lambda alike: dominant_cycles(alike[0]))


def refusal(setup: TrialSetup, trials: list[Trial]) -> Exception:
    """Return the error that explains why no trial was possible."""
    spec, wafer, options = setup.spec, setup.wafer, setup.options
    if trials:
        least = min(trials, key=lambda trial: trial.needed_bytes or math.inf)
        try:
            compile_choice(spec, wafer, setup.software, *setup.least_choice(least.layout, least.prefill))
        except DoesNotFit as error:
            return error
    what = unsupported_on_mesh(spec, options)
    if what:
        message = f"{options.prefill}: not known for {what}, which {spec.name} has: prefill by {THIN_GEMM}"
        return BadInput(message)
    message = (
        f"{options.prefill}: needs a square region, and those of {wafer.mesh_rows}x{wafer.mesh_cols} PEs are not: "
        f"choose a square --region, or prefill by {THIN_GEMM}"
    )
    return BadMesh(message)
