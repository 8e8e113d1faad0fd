"""The search for mapping, regions, the prefill product, and how much is processed at once.

Every layout is tried in small (`wse.compiler.search.condense`). The most promising are compiled whole, so what is
chosen fits; a cost function, given by the caller, decides between them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from wse.compiler.options import (
    FUSED,
    PREFILL_PRODUCTS,
    REFUSE,
    REPORT,
    THIN_GEMM,
    Choice,
    Options,
    check_types,
    unsupported_on_mesh,
)
from wse.compiler.pipeline import compile_choice
from wse.compiler.rewrites.recipes import rewrites_of
from wse.compiler.search.rewriting import RewriteTrial, try_rewrites
from wse.compiler.search.trials import ByOp, Trial, TrialSetup
from wse.compiler.strategies import strategy
from wse.errors import BadInput, BadMesh, DoesNotFit, UnknownName
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.models.spec import ModelSpec
from wse.program.program import Program
from wse_mappings.strategies.strategy import Layout

Cost = Callable[[Program], float]

MOST_PROMISING, MOST_EMPTY = 5, 4  # layouts of a mapping that are tried in small

FINALISTS = 2
"""Layouts of a mapping that are compiled whole, those with the fastest tokens in small; of those that none has too."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Compilation:
    """The Program that was chosen, the trials in small in the order of layouts, and those compiled whole.

    ``options`` and ``choice`` are what the Program was compiled from. ``compiled`` has trials with the costs of their
    Programs, the chosen one's first; none where there was one alone. ``rewrites`` are those that pay.
    """

    program: Program
    options: Options
    choice: Choice
    trials: tuple[Trial, ...]
    compiled: tuple[tuple[Trial, float], ...] = ()
    rewrites: tuple[RewriteTrial, ...] = ()


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
    by_op: ByOp | None = None,
) -> Compilation:
    """Compile the best Program that fits, by ``cost`` (lower is better); without one, the first that fits.

    1. Every layout of the mapping is tried in small with each product that prefill may use on it. With ``by_op``, which
       times a generated token, only the most promising and the emptiest layouts of each mapping are tried.
    2. With ``by_op`` rewrites of a layer's steps that do not pay on the fastest layout are left out from here on.
    3. With ``by_op`` only the fastest in small stay: ``FINALISTS`` layouts of each mapping, with all their products.
    4. Those are compiled whole, with the largest chunks that fit.
    5. The one of the least cost is chosen.

    Raises:
        UnknownName: there is no such mapping, element type, or product for prefill.
        BadInput: types that do not go together, or a product that is not known for what the model has.
        BadMesh: the region is larger than the mesh, or not the square that the product asked for needs, or more stages
            are asked for than there are layers.
        DoesNotFit: nothing that was tried fits; the error is that of the smallest demand.
    """
    _check_names(options)
    _check_mesh(spec, wafer, options)
    rewrites = rewrites_of(spec, options)
    setup = TrialSetup(spec=spec, wafer=wafer, software=software, options=options, rewrites=rewrites)
    # 1. Trials in small.
    trials = _trials(setup, by_op)
    fitting = [trial for trial in trials if trial.fits or options.capacity == REPORT]
    # 2. Rewrites that pay.
    rewritten: tuple[RewriteTrial, ...] = ()
    timed = [trial for trial in fitting if trial.token_cycles is not None]
    if by_op is not None and rewrites and fitting:
        fastest = min(timed or fitting, key=lambda trial: trial.token_cycles or 0.0)
        rewritten = try_rewrites(setup, fastest, by_op, forced=options.schedule != FUSED)
        setup = replace(setup, rewrites=tuple((one.name, one.setting) for one in rewritten))
    compilations: list[tuple[Trial, Compilation]] = []
    failures: list[DoesNotFit] = []
    # 3. The fastest. 4. Compiled whole.
    for trial in _finalists(fitting):
        on = setup.options_on(trial.layout)
        try:
            choice = setup.largest_chunks(trial)
            program = compile_choice(spec, wafer, software, on, choice)
        except DoesNotFit as error:
            failures.append(error)
            continue
        compilation = Compilation(program=program, options=on, choice=choice, trials=tuple(trials), rewrites=rewritten)
        compilations.append((trial, compilation))
        if cost is None:
            break
    if not compilations:
        raise failures[0] if failures else _refusal(setup, trials)
    if cost is None or len(compilations) == 1:
        return compilations[0][1]
    # 5. The least cost.
    costs = [cost(compilation.program) for _, compilation in compilations]
    order = sorted(range(len(costs)), key=lambda i: costs[i])
    compiled = tuple((compilations[i][0], costs[i]) for i in order)
    return replace(compilations[order[0]][1], compiled=compiled)


def fits(spec: ModelSpec, wafer: WaferSpec, software: SoftwareProfile, options: Options) -> bool:
    """Whether any choice fits: the least demanding one of the layouts that hold the fewest bytes is tried."""
    _check_names(options)
    options = replace(options, capacity=REFUSE)
    setup = TrialSetup(spec=spec, wafer=wafer, software=software, options=options, rewrites=rewrites_of(spec, options))
    try:
        _check_mesh(spec, wafer, options)
    except BadMesh:
        return False
    least = {layout: products[-1] for layout in setup.layouts() if (products := setup.products(layout))}
    try:
        holding = _holding(setup, _by_bytes(setup, least))
    except DoesNotFit:
        return False
    return any(setup.trial(layout, least[layout]).fits for layout in holding[:MOST_EMPTY])


def _trials(setup: TrialSetup, by_op: ByOp | None) -> list[Trial]:
    """Layouts and products in small, of each mapping the most promising and those that hold the fewest bytes.

    Raises BadMesh where the mesh has room for none of them, DoesNotFit where none can be cut.
    """
    products = {layout: setup.products(layout) for layout in setup.layouts()}
    groups: dict[str, list[Layout]] = defaultdict(list)
    for layout in products:
        groups[layout.mapping].append(layout)
    chosen: set[Layout] = set()
    uncut: list[DoesNotFit] = []
    for group in groups.values():
        if by_op is None or len(group) <= FINALISTS:
            chosen.update(group)
            continue
        try:
            emptiest = _emptiest(setup, {layout: products[layout][-1] for layout in group if products[layout]})
        except DoesNotFit as error:
            uncut.append(error)
            continue
        order = sorted(emptiest, key=setup.least_token_cycles)
        chosen.update(order[:MOST_PROMISING] + emptiest[:MOST_EMPTY])
    if uncut and not chosen:
        raise uncut[0]
    few = len(chosen) <= FINALISTS
    trials, misfits = [], []
    for layout in products:
        for product in products[layout] if layout in chosen else ():
            try:
                trials.append(setup.trial(layout, product, None if few else by_op))
            except BadMesh as error:
                misfits.append(error)
    if misfits and not trials:
        raise misfits[0]
    return trials + _with_other_groups(setup, trials, by_op)


def _with_other_groups(setup: TrialSetup, trials: list[Trial], by_op: ByOp | None) -> list[Trial]:
    """The fastest layout with other groups in its all-reduces, those that the strategy wants tried."""
    mapping = setup.options.mapping
    counts = [groups for groups in strategy(mapping).group_counts if groups != setup.options.groups]
    timed = [trial for trial in trials if trial.token_cycles is not None]
    if not counts or not timed:
        return []
    best = min(timed, key=lambda trial: trial.token_cycles or 0.0)
    others = [best.layout._replace(mapping=mapping, groups=groups) for groups in counts]
    shortest = setup.shortest_line(best.layout, best.prefill)
    fitting = [layout for layout in others if (layout.groups or 0) <= shortest]
    return [setup.trial(layout, best.prefill, by_op) for layout in fitting]


def _emptiest(setup: TrialSetup, products: Mapping[Layout, str]) -> list[Layout]:
    """The layouts that may fit, the emptiest first; one that is too full if none does."""
    sizes = _by_bytes(setup, products)
    return _holding(setup, sizes) or [layout for _, layout in sizes[:1]]


def _holding(setup: TrialSetup, sizes: list[tuple[int, Layout]]) -> list[Layout]:
    """The layouts that may fit."""
    return [layout for size, layout in sizes if size <= setup.wafer.sram_bytes_per_pe]


def _by_bytes(setup: TrialSetup, products: Mapping[Layout, str]) -> list[tuple[int, Layout]]:
    """The least bytes on the fullest PE, and the layout, of those that the mesh has room for, in order.

    Raises DoesNotFit where there is room for some, and none of them can be cut.
    """
    sizes, uncut = [], []
    for layout, product in products.items():
        try:
            sizes.append((setup.least_bytes(layout, product), layout))
        except BadMesh:
            continue
        except DoesNotFit as error:
            uncut.append(error)
    if uncut and not sizes:
        raise uncut[0]
    return sorted(sizes)


def _finalists(trials: list[Trial]) -> list[Trial]:
    """The trials that are compiled whole: of each mapping the fastest layouts in small, with all their products."""
    groups: dict[object, list[Trial]] = defaultdict(list)
    for trial in trials:
        groups[trial.layout.mapping].append(trial)
    chosen: dict[Layout, None] = {}
    for group in groups.values():
        if any(trial.token_cycles is None for trial in group):
            chosen |= dict.fromkeys(trial.layout for trial in group)
            continue
        order = sorted(group, key=lambda trial: trial.token_cycles or 0.0)
        chosen |= dict.fromkeys(list(dict.fromkeys(trial.layout for trial in order))[:FINALISTS])
    return [trial for trial in trials if trial.layout in chosen]


def _refusal(setup: TrialSetup, trials: list[Trial]) -> Exception:
    """The error that says why nothing that was tried can be."""
    spec, wafer, options = setup.spec, setup.wafer, setup.options
    if trials:
        least = min(trials, key=lambda trial: trial.needed_bytes)
        try:
            compile_choice(spec, wafer, setup.software, *setup.smallest(least.layout, least.prefill))
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


def _check_names(options: Options) -> None:
    strategy(options.mapping)
    if options.prefill not in (None, *PREFILL_PRODUCTS):
        raise UnknownName("product for prefill", str(options.prefill), PREFILL_PRODUCTS)
    check_types(options.dtype, options.activations)


def _check_experts(spec: ModelSpec, options: Options) -> None:
    """Whether there are experts to spread over wafers."""
    if spec.experts is None:
        message = (
            f"--mapping {options.mapping}: {spec.name} has no experts to spread over wafers; "
            "use --mapping region or tensor"
        )
        raise BadInput(message)
    if spec.experts.count < options.wafers:
        message = (
            f"--wafers {options.wafers}: {spec.name} has {spec.experts.count} experts and --mapping {options.mapping} "
            f"puts at least one on a wafer; choose at most {spec.experts.count}"
        )
        raise BadMesh(message)


def _check_mesh(spec: ModelSpec, wafer: WaferSpec, options: Options) -> None:
    if options.region is not None:
        rows, cols = options.region
        if rows > wafer.mesh_rows or cols > wafer.mesh_cols:
            message = (
                f"--region {rows}x{cols}: larger than the mesh of {wafer.mesh_rows}x{wafer.mesh_cols} PEs; "
                f"choose at most {wafer.mesh_rows}x{wafer.mesh_cols}"
            )
            raise BadMesh(message)
    if strategy(options.mapping).experts_apart:
        _check_experts(spec, options)
    if options.wafers > spec.layer_count and not options.across_wafers:
        message = (
            f"--wafers {options.wafers}: {spec.name} has {spec.layer_count} layers and a wafer holds at least one; "
            f"choose at most {spec.layer_count}"
        )
        raise BadMesh(message)
