"""Exploration of layouts: which ones are tried, in which order, and when the search stops."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from wse.compiler.choice import Rewrites
from wse.compiler.options import OPTIMIZED, THIN_GEMM, Options, unsupported_on_mesh
from wse.compiler.pipeline import compile_choice
from wse.compiler.rewrites.catalogue import known_rewrites
from wse.compiler.search.exploring.exploration import Exploration
from wse.compiler.search.fallback_layouts import fallback_layouts
from wse.compiler.search.trials.trial import Trial
from wse.compiler.search.trials.trial_setup import TrialSetup
from wse.compiler.search.trials.try_layout import try_layout
from wse.compiler.strategies import strategy
from wse.errors import BadInput, BadMesh, DoesNotFit
from wse_mappings.regions.layout import Layout

COARSE, FINE = 1, 4
"""Number of region side lengths to try per doubling: for all layouts, and near the fastest."""


def explore(setup: TrialSetup) -> list[Trial]:
    """Try layouts on reduced models until one is found that is approximately the fastest.

    A layout is one way to divide wafers into regions. Layouts are compared by the cycles of
    a request (`Trial.request_cycles`).

    1. Choose the layouts to consider. For one user, these are layouts on whole wafers, then on
       parts of each wafer, then layouts whose regions are about as large as the fastest layout's.
       For many users, they are layouts on whole wafers, then other expert placements, then split
       blocks; the fastest layouts with whole layers are also tried with split blocks.
    2. In each set, try the layout with the best forecast among those that are forecast to fit, and
       update the forecasts with the result. If none is forecast to fit and none has been timed yet,
       try the layout with the lowest optimistic byte forecast. Repeat until at least ``MIN_TIMED``
       trials have been timed and every forecast, which is optimistic, exceeds the fastest trial by
       ``TRIAL_ERROR``, or until ``PATIENCE`` trials in a row were not the fastest.
    3. Try the untried neighbours of the fastest layout until none is faster, or until the maximum
       number of trials is reached.
    4. Try the fastest layouts with the other expert placements that the strategy asks for, and then
       the fastest layout so far with the other numbers of groups. Skip the groups if they are
       fitted to each all-reduce later.
    5. If nothing fits so far, try the layouts with the lowest optimistic byte forecasts.

    Returns:
        All trials, including those of layouts that do not fit.

    Raises:
        BadMesh: No layout fits on the mesh.
        DoesNotFit: No layout can divide the model.
    """
    exploration, on_whole_wafers = Exploration(setup), setup.layouts()
    if setup.many_users:  # 1, 2
        for layouts in (on_whole_wafers, *fallback_layouts(setup, on_whole_wafers)):
            exploration.add(layouts)
            exploration.try_while_faster()
        exploration.try_split_blocks()
    else:
        _explore_for_one_user(exploration, setup, on_whole_wafers)
    exploration.try_neighbours()  # 3
    # 4. Variants of the fastest layout.
    exploration.try_placements()
    exploration.try_groups(() if setup.fits_trees else strategy(setup.options.mapping).group_counts)
    if exploration.fastest_trial is None:  # 5
        exploration.trials += trials_until_one_fits(setup) or exploration.closest_trials()
    if exploration.errors and not exploration.trials:
        raise exploration.errors[0]
    return exploration.trials


def _explore_for_one_user(exploration: Exploration, setup: TrialSetup, on_whole_wafers: list[Layout]) -> None:
    """Try layouts for one user: on whole wafers, on parts of wafers, then variants of the fastest.

    1. Find layouts that fit: try the given layouts, lowest optimistic byte forecast first. If none
       fits, replace all layouts with variants that place experts differently. If none of these
       fits, replace them with layouts with split feed-forward blocks.
    2. Try layouts on whole wafers.
    3. Try layouts on parts of each wafer.
    4. Try layouts whose regions are about as large as the fastest layout's regions. Repeat as long
       as a different layout becomes the fastest.

    Args:
        exploration: State of the search, to which the trials are added.
        setup: Inputs that all trials share, such as model, wafer and request.
        on_whole_wafers: Layouts that use all PEs of each wafer.
    """
    for fallback in fallback_layouts(setup, on_whole_wafers):  # 1
        if any(trial.fits for trial in _try_until_one_fits(replace(setup, timing=None), on_whole_wafers)):
            break
        on_whole_wafers = fallback
    # 2. Whole wafers.
    exploration.add(on_whole_wafers)
    exploration.try_while_faster()
    # 3. Parts of each wafer.
    smaller = strategy(setup.options.mapping).smaller
    exploration.add(part for layout in on_whole_wafers for part in smaller(setup.demand, layout, COARSE))
    exploration.try_while_faster()
    # 4. Regions like the fastest.
    refined: set[Layout] = set()
    while (fastest_trial := exploration.fastest_trial) is not None and fastest_trial.layout not in refined:
        refined.add(fastest_trial.layout)
        sides = fastest_trial.layout.region(setup.demand)
        exploration.add(
            near_layout for layout in on_whole_wafers for near_layout in _near_layouts(setup, layout, sides)
        )
        exploration.try_while_faster()


def trials_until_one_fits(setup: TrialSetup) -> list[Trial]:
    """Try the layouts of the mapping in ascending order of optimistic byte forecasts until one fits.

    If none fits, fallback layouts are tried in the same way: first other expert placements, then
    layers split between stages.
    """
    layouts = setup.layouts()
    trials: list[Trial] = []
    for tried_layouts in (layouts, *fallback_layouts(setup, layouts)):
        trials += _try_until_one_fits(setup, tried_layouts)
        if any(trial.fits for trial in trials):
            break
    return trials


def _try_until_one_fits(setup: TrialSetup, layouts: Sequence[Layout]) -> list[Trial]:
    """Try the given layouts in ascending order of optimistic byte forecasts until one fits.

    Args:
        setup: Inputs that all trials share, such as model, wafer and request.
        layouts: The layouts to try.

    Returns:
        All trials, including those that do not fit.
    """
    exploration = Exploration(setup)
    exploration.add(layouts)
    while exploration.may_continue and exploration.try_smallest():
        if any(trial.fits for trial in exploration.trials):
            break
    return exploration.trials


def _near_layouts(setup: TrialSetup, layout: Layout, sides: tuple[int, int]) -> Iterator[Layout]:
    """Yield variants of a layout whose regions are about as large as the fastest layout's regions.

    The rows and columns of a region are each between half and twice the fastest layout's rows and
    columns.

    Args:
        setup: Inputs that all trials share, such as model, wafer and request.
        layout: Layout on whole wafers from which the variants are derived.
        sides: Rows and columns of the regions of the fastest layout.
    """
    demand = setup.demand
    for other_layout in strategy(setup.options.mapping).smaller(demand, layout, FINE):
        if all(
            side <= 2 * new and new <= 2 * side for side, new in zip(sides, other_layout.region(demand), strict=True)
        ):
            yield other_layout


FEW_LAYOUTS: Final = 2
"""Maximum number of layouts for which all are tried, without forecasts."""


def first_rewrites(rewrites: Rewrites, options: Options) -> Rewrites:
    """Return the rewrites to use in the first trials of layouts.

    A rewrite changes the steps of a layer to save cycles. In schedule ``optimized``, rewrites for
    layers that are split between stages are left out here; they are tried later, on the fastest
    layout.

    Args:
        rewrites: Rewrites of the requested schedule that are tried individually.
        options: The requested options.
    """
    return tuple(
        known_rewrite
        for known_rewrite in rewrites
        if options.schedule != OPTIMIZED or not known_rewrites()[known_rewrite[0]].between_stages
    )


def within_limits(setup: TrialSetup, try_all: Callable[[TrialSetup], list[Trial]]) -> tuple[TrialSetup, list[Trial]]:
    """Return the trials of layouts with as many rewrites as colours and SRAM allow.

    A rewrite changes the steps of a layer to save cycles, and may need SRAM or colours.

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
    for tried_layouts in (layouts, *fallback_layouts(setup, layouts)):
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
    products = [sorted(layout_trials, key=lambda trial: trial.request_cycles) for layout_trials in by_layout.values()]
    return sorted(products, key=lambda layout_trials: layout_trials[0].request_cycles)


def refusal(setup: TrialSetup, trials: list[Trial]) -> Exception:
    """Return the error that explains to the user why no layout can be compiled.

    If layouts were tried, this is the error from compiling the layout that needs the fewest bytes.
    If this layout compiles, it has too little room for the KV caches that the request reserves.
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
        if options.cache_tokens:
            return DoesNotFit(f"no layout found has room for KV caches of {options.cache_tokens:,} tokens")
    unsupported_property = unsupported_on_mesh(spec, options)
    if unsupported_property:
        return BadInput(
            f"{options.prefill} does not support {unsupported_property}, which {spec.name} has: "
            f"use {THIN_GEMM} for prefill"
        )
    return BadMesh(
        f"{options.prefill} needs square regions, and those on {wafer.mesh_rows}x{wafer.mesh_cols} PEs are not: "
        f"choose a square --region, or use {THIN_GEMM} for prefill"
    )
