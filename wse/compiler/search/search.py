"""The search for mapping, regions, the prefill product, and how much is processed at once.

Layouts are tried on reduced models (`wse.compiler.search.condense`); of many, only those that promise to be fast
(`wse.compiler.search.explore`). The fastest are compiled fully, so what is chosen fits; a cost function, given by the
caller, decides between them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from wse.compiler.options import (
    DECODE,
    FUSED,
    REFUSE,
    THIN_GEMM,
    VERIFY,
    Choice,
    Options,
    Rewrites,
    unsupported_on_mesh,
)
from wse.compiler.pipeline import compile_choice, with_tiles
from wse.compiler.rewrites.catalogue import known_rewrites
from wse.compiler.rewrites.recipes import rewrites_of
from wse.compiler.search.attention_columns import free_columns
from wse.compiler.search.check import check_mesh, check_names
from wse.compiler.search.explore import emptiest_trials, explore
from wse.compiler.search.finalists import Cost, Finalists, dominant_cycles, tree_trials, with_cheaper_attention
from wse.compiler.search.misfits import Misfits
from wse.compiler.search.rewrite_search import RewriteTrial, settings_of, try_rewrites, try_verify_rewrites
from wse.compiler.search.trees import without_fitted
from wse.compiler.search.trial import Timer, Trial
from wse.compiler.search.trial_setup import TrialSetup
from wse.errors import BadInput, BadMesh, DoesNotFit, TooFewColours
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.models.spec import ModelSpec
from wse.program.program import Program
from wse_mappings.strategies.strategy import Layout

FINALISTS, MARGIN = 2, 0.004
"""Layouts that are compiled whole, the fastest in small, and by how much longer than the first others may take for a
request: what trials in small are off, one beside the other (the median of 45 pairs of layouts of 25 models). Attention
that saves no more on some columns is compiled whole on all as well."""


class Breadth(NamedTuple):
    """The layouts that a search compiles fully.

    Attributes:
        finalists: Number of layouts at most.
        margin: Largest relative excess of the cycles of a request over the fastest layout, both on reduced models.
        whole_wafer_finalists: Maximum number of further layouts, which use all PEs of each wafer.
        many_users: Whether layouts are compared with as many passes in flight as they allow. Only layouts on all PEs
            are then tried.
    """

    finalists: int = FINALISTS
    margin: float = MARGIN
    whole_wafer_finalists: int = 0
    many_users: bool = False


class Candidate(NamedTuple):
    """A layout that was compiled fully: its Program, and what `compile_choice` makes it from."""

    program: Program
    options: Options
    choice: Choice


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Compilation:
    """The Program that was chosen, the trials in small in the order of layouts, and those compiled whole.

    ``options`` and ``choice`` are what the Program was compiled from. ``compiled`` has those of ``trials`` that were
    compiled whole, the chosen one first, with the costs of their Programs; None where there was one alone. ``rewrites``
    are those that pay, ``verify_rewrites`` those that pay in a pass over several tokens of one user, None where that
    has the same. ``candidates`` are the Programs of ``compiled``, without the indices of their tiles.
    """

    program: Program
    options: Options
    choice: Choice
    trials: tuple[Trial, ...]
    compiled: tuple[tuple[Trial, float | None], ...]
    rewrites: tuple[RewriteTrial, ...] = ()
    verify_rewrites: tuple[RewriteTrial, ...] | None = None
    candidates: tuple[Candidate, ...] = ()


def compile_model(
    spec: ModelSpec, wafer: WaferSpec, software: SoftwareProfile, options: Options, cost: Cost | None = None
) -> Program:
    """Compile the best Program that fits; arguments and errors as of `search`."""
    return search(spec, wafer, software, options, cost).program


def search(
    spec: ModelSpec,
    wafer: WaferSpec,
    software: SoftwareProfile,
    options: Options,
    cost: Cost | None = None,
    timing: Timer | None = None,
    breadth: Breadth = Breadth(),  # noqa: B008
) -> Compilation:
    """Compile the best Program that fits, by ``cost`` (lower is better); without one, the first that fits.

    1. Layouts of the mapping are tried in small with each product that prefill may use on them: all of them, or, with
       ``timing``, those that promise to be the fastest (`explore`).
    2. With ``timing`` attention is on the fewest columns that hold no more of it from here on, and rewrites of a
       layer's steps that do not pay on the fastest layout are left out: of a decoded token, and of a pass over several
       tokens of one user, where others may pay.
    3. The layouts with the fastest requests, as many as ``breadth`` says, are compiled fully: each with the product
       that promises to be the fastest, with the best chunks that fit, and with columns of attention and trees that are
       fitted to these (`Finalists`).
    4. The one of the least cost is chosen.

    Raises:
        UnknownName: there is no such mapping, element type, or product for prefill.
        BadInput: types that do not go together, or a product that is not known for what the model has.
        BadMesh: the region is larger than the mesh, or not the square that the product asked for needs, or more stages
            are asked for than there are layers.
        DoesNotFit: nothing that was tried fits; the error is that of the smallest demand.
    """
    check_names(options)
    check_mesh(spec, wafer, options)
    asked = rewrites_of(spec, options)
    rewrites = without_fitted(asked)
    fitted = {name for name, _ in asked} - {name for name, _ in rewrites} if timing is not None else set[str]()
    at_first = rewrites if timing is None else _tried_first(rewrites, options)
    setup = TrialSetup(
        spec=spec,
        wafer=wafer,
        software=software,
        options=options,
        rewrites=at_first,
        timing=timing,
        many_users=breadth.many_users,
    )
    # 1. Trials in small.
    setup, trials = _within_limits(setup, _trials)
    fitting = _fastest_first([trial for trial in trials if trial.may_be_compiled(options)])
    best = fitting[0][0] if fitting else None
    # 2. Rewrites that pay.
    rewritten: tuple[RewriteTrial, ...] = ()
    of_pass: tuple[RewriteTrial, ...] | None = None
    if timing is not None and best is not None:
        setup = replace(setup, attention_cols=free_columns(setup, best))
    if timing is not None and rewrites and best is not None:
        forced, all_rewrites = options.schedule != FUSED, setup
        rewritten = try_rewrites(setup, rewrites, best, forced=forced)
        setup = replace(setup, rewrites=settings_of(rewritten))
        of_pass = try_verify_rewrites(all_rewrites, rewrites, best, forced=forced) if options.verify_tokens else None
        if of_pass is not None:
            setup = replace(setup, verify_rewrites=settings_of(of_pass))
    # 3. The fastest, compiled whole.
    finalist_search = Finalists(setup, fitted, has_cost=cost is not None)
    finalist_search.compile_fastest(fitting, breadth.finalists, breadth.margin)
    if breadth.whole_wafer_finalists:
        whole_wafer_layouts = [products for products in fitting if products[0].layout.mesh is None]
        finalist_search.compile_fastest(whole_wafer_layouts, breadth.whole_wafer_finalists, breadth.margin)
    finalists = finalist_search.finalists
    trials = finalist_search.with_updated_trials(trials)
    if not finalists:
        raise finalist_search.failures[0] if finalist_search.failures else _refusal(setup, trials)
    # 4. The least cost.
    costs = [0.0] if cost is None or len(finalists) == 1 else [cost(one.program) for one in finalists]
    order = sorted(range(len(costs)), key=lambda i: costs[i])
    best_finalist = finalists[order[0]]
    if cost is not None and best_finalist.attention_cols and best_finalist.saved_by_attention < MARGIN:
        best_finalist = with_cheaper_attention(setup, best_finalist, fitted, cost)
        finalists[order[0]] = best_finalist
        costs[order[0]] = cost(best_finalist.program) if len(costs) > 1 else 0.0
    trees, chosen_options = best_finalist.trees, setup.options_on(best_finalist.trial.layout)
    return Compilation(
        program=with_tiles(best_finalist.program, spec, wafer, software, chosen_options, trees.choice),
        options=chosen_options,
        choice=trees.choice,
        trials=tuple(trials),
        compiled=tuple((finalists[i].trial, costs[i] if len(costs) > 1 else None) for i in order),
        rewrites=(*rewritten, *best_finalist.unpacking, *tree_trials(trees, DECODE)),
        verify_rewrites=None if of_pass is None else (*of_pass, *tree_trials(trees, VERIFY)),
        candidates=tuple(
            Candidate(finalists[i].program, setup.options_on(finalists[i].trial.layout), finalists[i].trees.choice)
            for i in order
        ),
    )


def fits(
    spec: ModelSpec,
    wafer: WaferSpec,
    software: SoftwareProfile,
    options: Options,
    misfits: Misfits | None = None,
    *,
    whole_layers: bool = False,
) -> bool:
    """Whether any choice fits: the least demanding one of the emptiest layouts is tried.

    ``misfits`` has, and is given, what was learnt of requests that differ in the number of wafers alone. With
    ``whole_layers`` none may be cut.

    Raises TooFewColours where every layout needs too many, which neither a larger mesh nor more wafers change.
    """
    check_names(options)
    setup = TrialSetup(
        spec=spec,
        wafer=wafer,
        software=software,
        options=replace(options, capacity=REFUSE),
        rewrites=_tried_first(without_fitted(rewrites_of(spec, options)), options),
        misfits=Misfits() if misfits is None else misfits,
        whole_layers=whole_layers,
    )
    try:
        check_mesh(spec, wafer, options)
    except BadMesh:
        return False
    setup, trials = _within_limits(setup, emptiest_trials)
    if trials and not any(trial.needed_bytes for trial in trials):
        refusal = _refusal(setup, trials)
        if isinstance(refusal, TooFewColours):
            raise refusal
    return any(trial.fits for trial in trials)


def _tried_first(rewrites: Rewrites, options: Options) -> Rewrites:
    """Those of some rewrites that layouts are tried with: of all that are valid, not those between stages.

    These are tried on the fastest layout alone.
    """
    return tuple(one for one in rewrites if options.schedule != FUSED or not known_rewrites()[one[0]].between_stages)


def _within_limits(
    setup: TrialSetup, try_layouts: Callable[[TrialSetup], list[Trial]]
) -> tuple[TrialSetup, list[Trial]]:
    """The trials with the rewrites of a setup, as far as there are colours and SRAM for them.

    Without any where all of these need too many colours everywhere; without those that PEs hold tiles for where
    nothing fits with these.
    """
    trials = try_layouts(setup)
    if setup.rewrites and trials and not any(trial.needed_bytes for trial in trials):
        setup = replace(setup, rewrites=())
        trials = try_layouts(setup)
    without_tiles = tuple(one for one in setup.rewrites if not known_rewrites()[one[0]].holds_tiles(setup.spec))
    if len(without_tiles) < len(setup.rewrites) and not any(trial.may_be_compiled(setup.options) for trial in trials):
        setup = replace(setup, rewrites=without_tiles)
        trials = try_layouts(setup)
    return setup, trials


def _trials(setup: TrialSetup) -> list[Trial]:
    """Try layouts and products on reduced models: all, or the promising ones where many of them are to be timed.

    Raises BadMesh where the mesh has room for none of them, DoesNotFit where none can be cut.
    """
    layouts = setup.layouts()
    if setup.timing is not None and (setup.many_users or len(layouts) > FINALISTS):
        return explore(setup)
    untimed = replace(setup, timing=None)
    trials: list[Trial] = []
    misfits: list[BadMesh] = []
    for tried in (layouts, *setup.fallback_layouts(layouts)):
        for layout, product in [(other, product) for other in tried for product in setup.products(other)]:
            try:
                trials.append(untimed.trial(layout, product))
            except BadMesh as error:
                misfits.append(error)
        if any(trial.fits for trial in trials):
            break
    if misfits and not trials:
        raise misfits[0]
    return trials


def _fastest_first(trials: list[Trial]) -> list[list[Trial]]:
    """The trials of each layout, the fastest first, and the fastest layout first; where none was timed, as they are."""
    by_layout: dict[Layout, list[Trial]] = defaultdict(list)
    for trial in trials:
        by_layout[trial.layout].append(trial)
    products = [sorted(alike, key=dominant_cycles) for alike in by_layout.values()]
    return sorted(products, key=lambda alike: dominant_cycles(alike[0]))


def _refusal(setup: TrialSetup, trials: list[Trial]) -> Exception:
    """The error that says why nothing that was tried can be."""
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
