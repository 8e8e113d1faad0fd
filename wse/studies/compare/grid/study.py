"""``wse compare MODEL``: a row for each number of wafers, mapping and link, on all cores, and the verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from wse.compiler.demand import demand_of
from wse.compiler.search.remedies import MOST_WAFERS as MOST_TRIED
from wse.compiler.strategies import strategy
from wse.errors import BadInput, DoesNotFit, WseBug
from wse.reports.as_json import Report
from wse.reports.progress import OnProgress, ignore
from wse.reports.terminal import plural
from wse.serving.goal import LATENCY, THROUGHPUT
from wse.studies.compare.grid.combination import Combination, CombinationRows, combination_rows
from wse.studies.compare.grid.rows import assumptions_of, distinct_rows, with_best
from wse.studies.compare.grid.verdict import verdict
from wse.studies.compare.request import TIMES_THE_FEWEST, CompareRequest, check
from wse.studies.compare.result import CompareResult
from wse.studies.compile.choose import compile_with_remedies
from wse.studies.estimate.prepare import PreparedEstimate, prepare_estimate
from wse.studies.estimate.study import inputs
from wse.studies.options.engine import THIS_MACHINE, EngineChoice
from wse.studies.options.mapping_file import load_mapping
from wse.studies.results.placement import ModelResult
from wse.studies.results.published import EstimatedSpeed, published_speeds
from wse.studies.workers.engine_pool import Pool, each_output, engine_pool


class HasBug(Protocol):
    """The output of a piece of work; ``bug`` is the traceback where it ended in a bug in wse."""

    @property
    def bug(self) -> str: ...


Output = TypeVar("Output", bound=HasBug)


def compare(
    request: CompareRequest,
    on_progress: OnProgress = ignore,
    *,
    jobs: int | None = None,
    engine: EngineChoice = THIS_MACHINE,
) -> CompareResult:
    """Return a row for each number of wafers, mapping and link, and the verdict.

    A combination that cannot be is a row with its ``reason``. A mapping that chose another one has no row where that
    other one's says the same.

    Args:
        request: What is compared.
        on_progress: Called with (done, all, name) at the start and after each combination.
        jobs: Processes; all cores by default, or all CPUs of a cluster. One on this machine is this process itself.
        engine: Whose processes they are.

    Raises:
        BadInput and its kinds: something that was named is missing or cannot be used, or the system killed a process.
        DoesNotFit: no combination can be.
        WseBug: a combination ended in a bug in wse.
    """
    check(request)
    with engine_pool(engine, jobs) as pool:
        return _compare(request, on_progress, pool)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The combinations that a request asks for, compiled and timed.

    Attributes:
        first: The request on the fewest wafers.
        names: The mappings.
        counts: The numbers of wafers.
        results: What came of each combination, mapping by mapping.
    """

    first: PreparedEstimate
    names: Sequence[str]
    counts: tuple[int, ...]
    results: Sequence[CombinationRows]

    @property
    def model(self) -> ModelResult:
        """The model, its element types and its bytes."""
        return next(rows.model for rows in self.results if rows.model is not None)


def grid_of(request: CompareRequest, on_progress: OnProgress, pool: Pool) -> Grid:
    """Return the combinations of a request, on all processes of a pool; errors as of `compare`."""
    on_progress(0, 1, str(request.base.model))
    _, first = fewest_wafers(request)
    combinations = combinations_of(request, first, compared_counts(request, first))
    names = list(dict.fromkeys(combination.mapping for combination in combinations))
    counts = tuple(sorted({combination.wafers for combination in combinations}))
    rows_of = all_outputs(request, combinations, combination_rows, on_progress, pool)
    results = [rows_of[combination] for combination in combinations]
    if not any(row.possible for result in results for row in result.rows):
        message = f"none of {plural(len(combinations), 'combination')} can be: {_refusal(request, results)}"
        raise DoesNotFit(message)
    return Grid(first=first, names=names, counts=counts, results=results)


def combinations_of(request: CompareRequest, first: PreparedEstimate, counts: Iterable[int]) -> list[Combination]:
    """Return the combinations of mappings, numbers of wafers and objectives, mapping by mapping.

    Args:
        request: The comparison.
        first: The request on the fewest wafers.
        counts: The numbers of wafers.
    """
    on_all = {wafers: _names_on(wafers, request, first) for wafers in counts}
    return [
        Combination(name, wafers, objective)
        for name in request.names()
        for objective in _objectives(request, name)
        for wafers in on_all
        if name in on_all[wafers]
    ]


def _objectives(request: CompareRequest, name: str) -> tuple[str, ...]:
    """Return what the layouts of a mapping are chosen for; there is a row for each.

    Of several mappings that are tried unasked, only one that tries all others has a layout for throughput too.
    """
    if request.is_ranked:
        return (request.goal.objective,)
    both = request.mappings is not None or strategy(load_mapping(name).strategy).tries_others
    return (LATENCY, THROUGHPUT) if both else (LATENCY,)


def _compare(request: CompareRequest, on_progress: OnProgress, pool: Pool) -> CompareResult:
    """Return the result of `compare`."""
    grid = grid_of(request, on_progress, pool)
    first = grid.first
    found = [row for result in grid.results for row in result.rows]
    rows = with_best([found[position] for position in distinct_rows(found)])
    result = CompareResult(
        inputs=grid_inputs(request, grid),
        note=first.note,
        model=grid.model,
        wafer=wafer_size(first),
        economics=assumptions_of(first.economics),
        rows=rows,
        verdict=verdict(rows),
    )
    estimated = EstimatedSpeed(
        machine=first.wafer.name,
        users=first.options.batch,
        dtype=grid.model.dtype,
        tokens_per_s_per_user=max(row.tokens_per_s_per_user or 0.0 for row in result.best),
    )
    return replace(result, published=published_speeds(first.spec, estimated))


def _refusal(request: CompareRequest, results: Sequence[CombinationRows]) -> str:
    """Return why the model does not fit on its maximum number of wafers, and what would make it fit."""
    first = results[0].rows[0]
    for wafers in sorted({row.wafers for result in results for row in result.rows}, reverse=True):
        try:
            compile_with_remedies(prepare_estimate(replace(request.base, mapping=first.mapping, wafers=wafers)))
        except DoesNotFit as error:
            return f"{first.mapping} on {wafers}: {error}"
        except BadInput:
            continue  # more wafers than the model or the mapping can be on
    return f"{first.mapping} on {first.wafers}: {first.reason}; give other --wafers or --mapping"


def wafer_size(first: PreparedEstimate) -> dict[str, str | int]:
    """``wafer``: name, rows and columns."""
    return {"name": first.wafer.name, "rows": first.wafer.mesh_rows, "cols": first.wafer.mesh_cols}


def _names_on(wafers: int, request: CompareRequest, first: PreparedEstimate) -> tuple[str, ...]:
    """Return the mappings that are tried on a number of wafers: those that were requested, or those that apply.

    Without experts there are none to place apart, and on one wafer nothing spans several. Where no number of wafers was
    requested, a mapping file has its own.
    """
    if request.mappings is not None:
        any_number = (None, wafers)
        return tuple(n for n in request.names() if request.wafers or load_mapping(n).wafers in any_number)
    demand = demand_of(first.spec, first.wafer, replace(first.options, wafers=wafers))
    return tuple(name for name in request.names() if strategy(name).differs(demand))


def compared_counts(request: CompareRequest, first: PreparedEstimate) -> tuple[int, ...]:
    """Return the numbers of wafers that are compared.

    They are those of ``--wafers``. Without the option they are multiples of the smallest number that holds the model,
    and the numbers that mapping files state.

    Args:
        request: The comparison.
        first: The request on the fewest wafers.
    """
    if request.wafers is not None:
        return request.wafers
    unasked = wafer_counts(first.options.wafers, first.spec.layer_count)
    own = [load_mapping(name).wafers for name in request.names()]
    return tuple(sorted({*(unasked if None in own else ()), *(wafers for wafers in own if wafers is not None)}))


def all_outputs(
    request: CompareRequest,
    combinations: Sequence[Combination],
    work: Callable[[CompareRequest, Combination], Output],
    on_progress: OnProgress,
    pool: Pool,
) -> dict[Combination, Output]:
    """Return what a piece of work gives for each combination, on all processes of a pool.

    Raises:
        WseBug: a piece ended in a bug in wse.
    """
    found: dict[Combination, Output] = {}
    outputs = each_output(
        pool,
        combinations,
        work,
        lambda combination: (request, combination),
        owner="the comparison",
        kill_remedy="if memory ran out, compare fewer --wafers or --mapping at once",
    )
    for combination, output in outputs:
        if output.bug:
            message = f"{combination} ended in a bug\n{output.bug}"
            raise WseBug(message)
        found[combination] = output
        on_progress(len(found), len(combinations), str(combination))
    return found


def fewest_wafers(request: CompareRequest) -> tuple[int, PreparedEstimate]:
    """The fewest wafers: those given, or those that hold the model with one of the mappings; the request on them.

    Raises:
        BadInput and its kinds: something that was named is missing or cannot be used.
    """
    wafers = None if request.wafers is None else min(request.wafers)
    candidates: list[PreparedEstimate] = []
    refusals: list[BadInput] = []
    for name in request.names():
        try:
            candidates.append(prepare_estimate(replace(request.base, mapping=name, wafers=wafers)))
        except BadInput as error:  # some mappings are not for every model
            refusals.append(error)
        if candidates and wafers is not None:
            break
    if not candidates:
        raise refusals[0]
    first = min(candidates, key=lambda prepared: prepared.options.wafers)
    return first.options.wafers, first


def wafer_counts(fewest: int, layers: int) -> tuple[int, ...]:
    """Numbers of wafers that are compared unasked."""
    most = max(fewest, min(layers, MOST_TRIED))
    return tuple(fewest * times for times in TIMES_THE_FEWEST if fewest * times <= most)


def grid_inputs(request: CompareRequest, grid: Grid) -> Report:
    """``inputs``: what was requested, with defaults filled in."""
    first, names, counts = grid.first, grid.names, grid.counts
    common = {key: value for key, value in inputs(first).items() if key not in ("wafers", "mapping", "capacity")}
    links = [{"bytes_per_s": link.bytes_per_s, "latency_s": link.latency_s} for link in request.links(first.wafer)]
    link_inputs = {"links_given": True} if request.links_are_given else {}
    return {**common, "wafers": list(counts), "mapping": list(names), "links": links, **link_inputs}
