"""The study of ``wse compare MODEL``: a row for each number of wafers, mapping and link."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from wse.errors import BadInput, DoesNotFit
from wse.reports.progress import OnProgress
from wse.reports.result import Report
from wse.studies.compare.checks import check
from wse.studies.compare.grid.axes import combinations_of, compared_counts, prepared_on_fewest_wafers
from wse.studies.compare.grid.combination import Combination, CombinationRow, CombinationRows, combination_rows
from wse.studies.compare.grid.ranges import order_sentence, orders_of
from wse.studies.compare.grid.rows import assumptions_of, with_best
from wse.studies.compare.grid.verdict import verdict
from wse.studies.compare.request import CompareRequest
from wse.studies.compare.result import CompareResult
from wse.studies.compile.choose import compile_with_remedies
from wse.studies.estimate.inputs import inputs
from wse.studies.estimate.prepare import PreparedEstimate, prepare_estimate
from wse.studies.results.placement import ModelResult
from wse.studies.results.published import EstimatedSpeed, published_speeds
from wse.studies.workers.engine_pool import Pool, each_output

Output = TypeVar("Output")


def compare(request: CompareRequest, on_progress: OnProgress, pool: Pool) -> CompareResult:
    """Compare a model on several numbers of wafers, with several mappings and wafer links.

    A mapping is a rule by which layers are distributed across PEs. The result has a row for each
    combination and a verdict derived from the rows. A combination that is impossible has a row with
    the ``reason``. Rows with the same layout as another row are left out.

    Args:
        request: The model, and what is compared.
        on_progress: Called with (combinations done, total number, last combination),
            at the start and after each combination.
        pool: Processes that compute the combinations.

    Raises:
        BadInput: A name or file in the request cannot be used, options contradict each other, or
            the system killed a process.
        DoesNotFit: No combination is possible.
        WseBug: A combination ended in a bug in wse.
    """
    check(request)  # a question compares other combinations than the user stated
    grid = grid_of(request, on_progress, pool)
    first = grid.first
    results = grid.distinct_rows
    rows = with_best([result.row for result in results])
    orders = orders_of(rows, [result.samples for result in results])
    result = CompareResult(
        inputs=grid_inputs(request, grid),
        note=first.note,
        model=grid.model,
        wafer=wafer_size(first),
        economics=assumptions_of(first.economics),
        rows=rows,
        orders=orders or None,
        verdict=tuple(filter(None, (*verdict(rows), order_sentence(rows, orders)))),
    )
    link = request.links(first.wafer)[0]  # the wafer's own link, if it is compared
    rows_of_link = [row for row in result.best if row.wafers == 1 or row.link == (link.bytes_per_s, link.latency_s)]
    fastest_row = max(rows_of_link or result.best, key=lambda row: row.tokens_per_s_per_user or 0.0)
    estimated = EstimatedSpeed(
        machine=first.wafer.name,
        chips=fastest_row.wafers,
        same_chips_only=False,
        users=1,  # a pass takes as long for one user as for a whole batch
        dtype=grid.model.dtype,
        tokens_per_s_per_user=fastest_row.tokens_per_s_per_user or 0.0,
    )
    return replace(result, published=published_speeds(first.spec, estimated))


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """All compared combinations of mapping, objective and number of wafers, with their results.

    Attributes:
        first: The model and options, prepared for the smallest number of wafers.
        results: Results of each combination: sorted by mapping, then by objective, then by number
            of wafers.
    """

    first: PreparedEstimate
    results: Sequence[CombinationRows]

    @property
    def model(self) -> ModelResult:
        """The model, its element types and its size."""
        return next(rows.model for rows in self.results if rows.model is not None)

    @property
    def distinct_rows(self) -> list[CombinationRow]:
        """Rows of all combinations, in their order and without duplicates.

        Two rows are duplicates in three cases:
        - The mapping ``auto`` chose a mapping that has its own row.
        - The same layout was chosen for two objectives.
        - Both describe impossible combinations with the same mapping, wafer count and reason.
        """
        results = [result for combination in self.results for result in combination.rows]
        positions: dict[tuple[object, ...], int] = {}
        # Mappings by name come first, so that `auto` is left out if it chose one of them.
        for position in sorted(range(len(results)), key=lambda position: results[position].row.chosen is not None):
            row = results[position].row
            layout = (row.wafers, row.link, row.chosen or row.mapping, row.tpot_s, row.tokens_per_s, row.reason)
            positions.setdefault(layout, position)
        return [results[position] for position in sorted(positions.values())]


def grid_of(request: CompareRequest, on_progress: OnProgress, pool: Pool) -> Grid:
    """Compile and time all combinations of mapping, objective and number of wafers.

    Args:
        request: Options of the comparison.
        on_progress: Called with (combinations done, total number, last combination).
        pool: Processes that compile and time the combinations.

    Raises:
        BadInput: For the same reasons as `compare`.
        DoesNotFit: No combination is possible.
        WseBug: A combination ended in a bug in wse.
    """
    on_progress(0, 1, str(request.base.model))
    first = prepared_on_fewest_wafers(request)
    combinations = combinations_of(request, first, compared_counts(request, first))
    results = [*all_outputs(request, combinations, combination_rows, on_progress, pool).values()]
    if not any(result.row.possible for rows in results for result in rows.rows):
        raise DoesNotFit(f"no combination of mapping and wafers is possible: {_refusal(request, results)}")
    return Grid(first=first, results=results)


def _refusal(request: CompareRequest, results: Sequence[CombinationRows]) -> str:
    """Return the error message for a comparison in which no combination is possible.

    The message is for the first mapping and the largest compared wafer count at which this mapping
    can be used. It says why the model does not fit and which option to change.
    """
    first = results[0].rows[0].row
    for wafers in sorted({result.row.wafers for rows in results for result in rows.rows}, reverse=True):
        try:
            compile_with_remedies(prepare_estimate(replace(request.base, mapping=first.mapping, wafers=wafers)))
        except DoesNotFit as error:
            return f"{first.mapping} on {wafers}: {error}"
        except BadInput:
            continue  # more wafers than the model or the mapping can be on
    return f"{first.mapping} on {first.wafers}: {first.reason}; give other --wafers or --mapping"


def wafer_size(first: PreparedEstimate) -> dict[str, str | int]:
    """Return the wafer of a request as a dict with the keys ``name``, ``rows`` and ``cols``."""
    return {"name": first.wafer.name, "rows": first.wafer.mesh_rows, "cols": first.wafer.mesh_cols}


def all_outputs(
    request: CompareRequest,
    combinations: Sequence[Combination],
    work: Callable[[CompareRequest, Combination], Output],
    on_progress: OnProgress,
    pool: Pool,
) -> dict[Combination, Output]:
    """Run a function for each combination of mapping, objective and number of wafers.

    Args:
        request: The comparison, which is the first argument of ``work``.
        combinations: The combinations. The last ones are started first.
        work: Function to run for each combination in a worker process.
        on_progress: Called with (combinations done, total number, last combination).
        pool: The worker processes.

    Returns:
        The result of ``work`` for each combination, in the given order.

    Raises:
        WseBug: A call ended in a bug in wse.
    """
    output_by_combination: dict[Combination, Output] = {}
    outputs = each_output(
        pool,
        combinations[::-1],  # many wafers first: they take longest, and should not be started last
        work,
        lambda combination: (request, combination),
        owner="the comparison",
        kill_remedy="if memory ran out, compare fewer --wafers or --mapping at once",
    )
    for combination, output in outputs:
        output_by_combination[combination] = output
        on_progress(len(output_by_combination), len(combinations), str(combination))
    return {combination: output_by_combination[combination] for combination in combinations}


def grid_inputs(request: CompareRequest, grid: Grid) -> Report:
    """Return the options of a comparison with defaults filled in, keyed by the option's name."""
    first, rows = grid.first, [result.row for combination in grid.results for result in combination.rows]
    common = {key: value for key, value in inputs(first).items() if key not in ("wafers", "mapping", "capacity")}
    links = [{"bytes_per_s": link.bytes_per_s, "latency_s": link.latency_s} for link in request.links(first.wafer)]
    link_inputs = {"links_given": True} if request.links_are_given else {}
    wafers, mappings = sorted({row.wafers for row in rows}), [*dict.fromkeys(row.mapping for row in rows)]
    return {**common, "wafers": wafers, "mapping": mappings, "links": links, **link_inputs}
