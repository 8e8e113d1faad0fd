"""The search for mapping, regions, the prefill product, and how much is processed at once.

Layouts are tried on reduced models (`wse.compiler.search.reduced.condense`); of many, only those that promise to be
fast (`wse.compiler.search.exploring.explore`). The fastest are compiled fully, so what is chosen fits; a cost function,
given by the caller, decides between them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from wse.compiler.options import DECODE, FUSED, REFUSE, VERIFY, Choice, Options, Rewrites
from wse.compiler.pipeline import with_tiles
from wse.compiler.rewrites.recipes import rewrites_of
from wse.compiler.search.check import check_mesh, check_names
from wse.compiler.search.exploring.explore import emptiest_trials
from wse.compiler.search.exploring.first_trials import fastest_first, refusal, tried_first, try_layouts, within_limits
from wse.compiler.search.finalists import Cost, Finalist, Finalists, tree_trials, with_cheaper_attention
from wse.compiler.search.fitting.attention_columns import free_columns
from wse.compiler.search.reduced.misfits import Misfits
from wse.compiler.search.rewrite_search import RewriteTrial, settings_of, try_rewrites, try_verify_rewrites
from wse.compiler.search.trees import without_fitted
from wse.compiler.search.trial import Timer, Trial
from wse.compiler.search.trial_setup import TrialSetup
from wse.errors import BadMesh, TooFewColours
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.models.spec import ModelSpec
from wse.program.program import Program

FINALISTS, MARGIN = 2, 0.004
"""Layouts that are compiled whole, the fastest in small, and by how much longer than the first others may take for a
request: what trials in small are off, one beside the other (the median of 45 pairs of layouts of 25 models). Attention
that saves no more on some columns is fully compiled on all as well."""


class Breadth(NamedTuple):
    """The number of layouts that a search compiles fully, and the criterion by which it compares them.

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
    """A fully compiled layout: its Program, and the options and choices from which `compile_choice` makes it."""

    program: Program
    options: Options
    choice: Choice


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Compilation:
    """The result of a search: the chosen Program, the trials on reduced models, and the fully compiled layouts.

    ``options`` and ``choice`` are what the Program was compiled from. ``compiled`` has those of ``trials`` that were
    fully compiled, the chosen one first, with the costs of their Programs; None where there was one alone. ``rewrites``
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
    """Compile the best Program that fits.

    Arguments and errors are those of `search`.
    """
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
    """Compile the Program with the lowest ``cost`` that fits; without a cost function, the first one that fits.

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
        BadMesh: the region is larger than the mesh, or not the square that the product requested needs, or more stages
            are requested than there are layers.
        DoesNotFit: nothing that was tried fits; the error is that of the smallest demand.
    """
    check_names(options)
    check_mesh(spec, wafer, options)
    asked = rewrites_of(spec, options)
    rewrites = without_fitted(asked)
    is_timed = timing is not None
    setup = TrialSetup(
        spec=spec,
        wafer=wafer,
        software=software,
        options=options,
        rewrites=tried_first(rewrites, options) if is_timed else rewrites,
        timing=timing,
        many_users=breadth.many_users,
    )
    # 1. Trials on a reduced model.
    setup, trials = within_limits(setup, try_layouts)
    fitting = fastest_first([trial for trial in trials if trial.may_be_compiled(options)])
    # 2. Rewrites that pay.
    paying = _PayingRewrites(setup)
    if is_timed and fitting:
        paying = _paying_rewrites(setup, rewrites, fitting[0][0])
    # 3. The fastest, fully compiled.
    fitted_later = {name for name, _ in asked} - {name for name, _ in rewrites} if is_timed else set[str]()
    finalist_search = Finalists(paying.setup, fitted_later, has_cost=cost is not None)
    finalist_search.compile_fastest(fitting, breadth.finalists, breadth.margin)
    if breadth.whole_wafer_finalists:
        on_whole_wafers = [products for products in fitting if products[0].layout.mesh is None]
        finalist_search.compile_fastest(on_whole_wafers, breadth.whole_wafer_finalists, breadth.margin)
    trials = finalist_search.with_updated_trials(trials)
    if not finalist_search.finalists:
        raise finalist_search.failures[0] if finalist_search.failures else refusal(paying.setup, trials)
    # 4. The least cost.
    ranked = _cheapest_first(paying.setup, finalist_search.finalists, fitted_later, cost)
    return _compilation(paying, trials, ranked)


class _PayingRewrites(NamedTuple):
    """The setup of a search with the rewrites that save cycles on the fastest layout, and their savings.

    Attributes:
        setup: Inputs of further trials.
        of_token: The rewrites that pay in decode.
        of_pass: Those that pay in a pass over several tokens of one user; None where it has the same.
    """

    setup: TrialSetup
    of_token: tuple[RewriteTrial, ...] = ()
    of_pass: tuple[RewriteTrial, ...] | None = None


def _paying_rewrites(setup: TrialSetup, rewrites: Rewrites, fastest: Trial) -> _PayingRewrites:
    """Fit the columns of attention to the fastest layout, and drop the rewrites that save nothing there."""
    options = setup.options
    setup = replace(setup, attention_cols=free_columns(setup, fastest))
    if not rewrites:
        return _PayingRewrites(setup)
    forced = options.schedule != FUSED
    of_token = try_rewrites(setup, rewrites, fastest, forced=forced)
    of_pass = try_verify_rewrites(setup, rewrites, fastest, forced=forced) if options.verify_tokens else None
    setup = replace(setup, rewrites=settings_of(of_token))
    if of_pass is not None:
        setup = replace(setup, verify_rewrites=settings_of(of_pass))
    return _PayingRewrites(setup, of_token, of_pass)


def _cheapest_first(
    setup: TrialSetup, finalists: Sequence[Finalist], fitted_later: Collection[str], cost: Cost | None
) -> list[tuple[Finalist, float | None]]:
    """Return the finalists with their costs, the cheapest first; without a cost function the first finalist alone.

    The cost is None where there is one finalist. The cheapest one is also compiled with attention on all columns where
    that may cost less.
    """
    ranked: list[tuple[Finalist, float | None]] = [(finalists[0], None)]
    if cost is None:
        return ranked
    if len(finalists) > 1:
        costs = [cost(one.program) for one in finalists]
        ranked = [(finalists[i], costs[i]) for i in sorted(range(len(costs)), key=costs.__getitem__)]
    best = ranked[0][0]
    if best.attention_cols and best.saved_by_attention < MARGIN:
        best = with_cheaper_attention(setup, best, fitted_later, cost)
        ranked[0] = best, cost(best.program) if len(ranked) > 1 else None
    return ranked


def _compilation(
    paying: _PayingRewrites, trials: Sequence[Trial], ranked: Sequence[tuple[Finalist, float | None]]
) -> Compilation:
    """Return the best finalist with its tiles, and the trials of the search."""
    setup, best, of_pass = paying.setup, ranked[0][0], paying.of_pass
    options, choice = setup.options_on(best.trial.layout), best.trees.choice
    return Compilation(
        program=with_tiles(best.program, setup.spec, setup.wafer, setup.software, options, choice),
        options=options,
        choice=choice,
        trials=tuple(trials),
        compiled=tuple((one.trial, cycles) for one, cycles in ranked),
        rewrites=(*paying.of_token, *best.unpacking, *tree_trials(best.trees, DECODE)),
        verify_rewrites=None if of_pass is None else (*of_pass, *tree_trials(best.trees, VERIFY)),
        candidates=tuple(
            Candidate(one.program, setup.options_on(one.trial.layout), one.trees.choice) for one, _ in ranked
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
    """Return whether any choice fits, by trying the least demanding choice of the layouts with the fewest bytes.

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
        rewrites=tried_first(without_fitted(rewrites_of(spec, options)), options),
        misfits=Misfits() if misfits is None else misfits,
        whole_layers=whole_layers,
    )
    try:
        check_mesh(spec, wafer, options)
    except BadMesh:
        return False
    setup, trials = within_limits(setup, emptiest_trials)
    if trials and not any(trial.needed_bytes for trial in trials):
        error = refusal(setup, trials)
        if isinstance(error, TooFewColours):
            raise error
    return any(trial.fits for trial in trials)
