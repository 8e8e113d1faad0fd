"""The search for layout, prefill product, chunk sizes and rewrites of a compilation.

A *layout* is one way to divide the wafers into regions. A *trial* compiles a layout on a reduced
model, which has one layer of each kind (`wse.compiler.search.reduced`). If there are many layouts,
only the most promising ones are tried (`wse.compiler.search.exploring.explore`). The fastest become
*finalists*, which are compiled fully, so the chosen layout is known to fit. The caller's cost
function is used to choose between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from wse.compiler.choice import Choice
from wse.compiler.options import DECODE, VERIFY, Options
from wse.compiler.pipeline import with_tiles
from wse.compiler.rewrites.recipes import rewrites_of
from wse.compiler.search.check import check_mesh, check_names
from wse.compiler.search.exploring.explore import (
    fastest_first,
    first_rewrites,
    refusal,
    try_layouts,
    within_limits,
)
from wse.compiler.search.finalist import Finalist, tree_trials
from wse.compiler.search.finalists import Cost, Finalists
from wse.compiler.search.rewrite_search import RewriteTrial
from wse.compiler.search.trees import without_fitted
from wse.compiler.search.trials.trial import MARGIN, TRIAL_ERROR, Timer, Trial
from wse.compiler.search.trials.trial_setup import TrialSetup
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.models.spec import ModelSpec
from wse.program.program import Program

FINALISTS = 3
"""Maximum number of layouts to compile fully."""


class Breadth(NamedTuple):
    """Number of layouts that a search compiles fully, and the way it compares them.

    Attributes:
        finalists: Maximum number of layouts.
        margin: A layout is compiled only if its request cycles exceed the fastest layout's by at
            most this fraction. Both are measured on reduced models.
        whole_wafer_finalists: Maximum number of additional layouts that use all PEs of each wafer.
        users: Number of users in flight; may be infinite. Layouts are compared with concurrent
            passes for all of them, up to the number of passes that a layout allows. A pass is one
            run of decode for a batch of users. For several users, only layouts on all PEs of each
            wafer are tried. If all layouts to compile split layers between stages, the fastest
            layout with whole layers is compiled in addition.
        prefers_room: Whether to choose, among the nearly fastest layouts, the one with the most room
            for KV caches. It is done for requests of one user, after the search.
    """

    finalists: int = FINALISTS
    margin: float = TRIAL_ERROR
    whole_wafer_finalists: int = 0
    users: float = 1
    prefers_room: bool = False


class Candidate(NamedTuple):
    """A layout on which a search has compiled the whole model.

    Attributes:
        program: The compiled Program, without weight tiles.
        options: The request, with the settings of the layout filled in.
        choice: Decisions of the search. `compile_choice` creates the same Program again from them
            and ``options``.
    """

    program: Program
    options: Options
    choice: Choice


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Compilation:
    """The result of a search for the best layout of a model.

    Attributes:
        program: The chosen Program.
        options: The request, with the settings of the chosen layout filled in.
        choice: Decisions of the search. `compile_choice` creates the chosen Program again from them
            and ``options``.
        trials: All layouts that were tried.
        compiled_trials: The trials that were compiled fully, chosen trial first, each with the cost
            of its Program. The cost is None if it was not needed. If the chosen Program is a changed
            version of the layout of its trial, the cost is that of the version.
        rewrites: Rewrites that save cycles in decode.
        verify_rewrites: Rewrites that save cycles in verification passes; None if they are the
            same.
        candidates: The fully compiled layouts, in the order of ``compiled_trials``.
    """

    program: Program
    options: Options
    choice: Choice
    trials: tuple[Trial, ...]
    compiled_trials: tuple[tuple[Trial, float | None], ...]
    rewrites: tuple[RewriteTrial, ...] = ()
    verify_rewrites: tuple[RewriteTrial, ...] | None = None
    candidates: tuple[Candidate, ...] = ()


def search(
    spec: ModelSpec,
    wafer: WaferSpec,
    software: SoftwareProfile,
    options: Options,
    cost: Cost | None = None,
    timing: Timer | None = None,
    breadth: Breadth = Breadth(),  # noqa: B008
) -> Compilation:
    """Compile the Program with the lowest cost that fits.

    1. Try the layouts of the mapping on reduced models, with each matrix product that prefill may
       use: all layouts, or with ``timing`` the most promising ones (`explore`).
    2. Fully compile the layouts with the fastest requests, as many as ``breadth`` specifies: each
       with its fastest prefill products, the best chunks that fit, and attention columns and
       all-reduce trees fitted to these (`Finalists`). With ``timing``, the rewrites are those that
       save cycles on the first of these layouts, separately for decode and for verification passes.
    3. Try, on each layout that is nearly as cheap as the cheapest, the rewrites that save cycles on
       it. Choose the Program with the lowest cost.

    Args:
        spec: Model to compile.
        wafer: Wafer to compile for.
        software: Costs of the software on the wafer.
        options: The requested options.
        cost: Function that returns the cost of a Program. Without it, the first layout that fits is
            chosen.
        timing: Functions that time Programs on reduced models. Without them, layouts are tried in
            the order of the mapping.
        breadth: How many layouts are compiled fully.

    Raises:
        UnknownName: The mapping, an element type or the prefill product does not exist.
        BadInput: Element types do not match, or the prefill product does not support the model.
        BadMesh: The region is larger than the mesh or is not a square although the requested
            product needs one, or there are more wafers than layers.
        DoesNotFit: No layout fits. The error describes the layout that needs the fewest bytes.
    """
    check_names(options)
    check_mesh(spec, wafer, options)
    cost = None if cost is None else cache(cost)
    requested_rewrites = rewrites_of(spec, options)
    rewrites = without_fitted(requested_rewrites)
    is_timed = timing is not None
    setup = TrialSetup(
        spec=spec,
        wafer=wafer,
        software=software,
        options=options,
        rewrites=first_rewrites(rewrites, options) if is_timed else rewrites,
        timing=timing,
        users=breadth.users,
    )
    setup, trials = within_limits(setup, try_layouts)  # 1
    fitting = fastest_first([trial for trial in trials if trial.may_be_compiled(options)])
    # 2. Compile the fastest layouts fully.
    fitted_later = {name for name, _ in requested_rewrites} - {name for name, _ in rewrites} if is_timed else set[str]()
    finalist_search = Finalists(setup, rewrites, fitted_later, has_cost=cost is not None)
    finalist_search.compile_fastest(fitting, breadth.finalists, breadth.margin)
    if breadth.whole_wafer_finalists:
        on_whole_wafers = [products for products in fitting if products[0].layout.mesh is None]
        finalist_search.compile_fastest(on_whole_wafers, breadth.whole_wafer_finalists, breadth.margin)
    if not finalist_search.finalists:
        raise finalist_search.failures[0] if finalist_search.failures else refusal(setup, trials)
    if breadth.users > 1 and cost is not None:
        _compile_whole_layers(finalist_search, fitting, breadth.margin, cost)
    ranked_finalists = _cheapest_first(finalist_search, cost)  # 3
    return _compilation(setup, finalist_search.with_updated_trials(trials), ranked_finalists)


def _compile_whole_layers(
    finalist_search: Finalists, fitting: Sequence[list[Trial]], margin: float, cost: Cost
) -> None:
    """Compile the fastest layout with whole layers if all compiled layouts split layers.

    Trials of layouts that split layers can be too optimistic for many users. The layout is compiled
    with its own rewrites.

    Args:
        finalist_search: The fully compiled layouts, to which the layout is added.
        fitting: Trials of each layout that fits, the fastest first.
        margin: As for `Finalists.compile_fastest`.
        cost: Function that returns the cost of a Program.
    """
    finalists = finalist_search.finalists
    if all(finalist.trial.layout.block_parts for finalist in finalists):
        compiled_count = len(finalists)
        with_whole_layers = [products for products in fitting if not products[0].layout.block_parts]
        finalist_search.compile_fastest(with_whole_layers, 1, margin, near_duplicates=True)
        finalists[compiled_count:] = [
            finalist_search.with_own_rewrites(finalist, cost) for finalist in finalists[compiled_count:]
        ]


def _cheapest_first(finalist_search: Finalists, cost: Cost | None) -> list[tuple[Finalist, float | None]]:
    """Return the fully compiled layouts with their costs, the cheapest first.

    At first, all layouts use the rewrites that save cycles on the first one that was tried.

    1. Each layout whose cost exceeds the lowest by at most `TRIAL_ERROR` is also compiled with its
       own rewrites, those that save cycles on it.
    2. The cheapest layout is also compiled with each unused rewrite, and with attention on all
       columns if restricting attention to some columns saves little.

    Of each layout, the cheapest version is kept.

    Args:
        finalist_search: The fully compiled layouts.
        cost: Function that returns the cost of a Program. Without it, only the first layout is
            returned.

    Returns:
        (layout, cost) pairs. The cost is None if there is a single layout.
    """
    finalists = finalist_search.finalists
    if cost is None:
        return [(finalists[0], None)]
    limit = (1 + TRIAL_ERROR) * min(cost(finalist.program) for finalist in finalists)
    finalists = [
        finalist_search.with_own_rewrites(finalist, cost) if cost(finalist.program) <= limit else finalist
        for finalist in finalists
    ]
    cheapest, *other_finalists = sorted(finalists, key=lambda finalist: cost(finalist.program))
    best = finalist_search.with_more_rewrites(cheapest, cost)
    if best.attention_cols and best.saved_by_attention < MARGIN:
        best = finalist_search.with_cheaper_attention(best, cost)
    if not other_finalists:
        return [(best, None)]
    return [(finalist, cost(finalist.program)) for finalist in (best, *other_finalists)]


def _compilation(
    setup: TrialSetup, trials: Sequence[Trial], ranked_finalists: Sequence[tuple[Finalist, float | None]]
) -> Compilation:
    """Create the result of a search, and add the weight tiles to the best Program.

    Args:
        setup: Inputs that all trials share, such as model, wafer and request.
        trials: All layouts that were tried.
        ranked_finalists: Fully compiled layouts with their costs, the best first.
    """
    best = ranked_finalists[0][0]
    _, decode_trials, verify_trials = best.rewrites
    options, choice = setup.options_on(best.trial.layout), best.trees.choice
    return Compilation(
        program=with_tiles(best.program, setup.spec, setup.wafer, setup.software, options, choice),
        options=options,
        choice=choice,
        trials=tuple(trials),
        compiled_trials=tuple((finalist.trial, cycles) for finalist, cycles in ranked_finalists),
        rewrites=(*decode_trials, *best.unpacking, *tree_trials(best.trees, DECODE)),
        verify_rewrites=None if verify_trials is None else (*verify_trials, *tree_trials(best.trees, VERIFY)),
        candidates=tuple(
            Candidate(finalist.program, setup.options_on(finalist.trial.layout), finalist.trees.choice)
            for finalist, _ in ranked_finalists
        ),
    )
