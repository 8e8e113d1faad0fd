"""Study behind ``wse estimate --what-if``: estimates of all changes, using all cores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wse.cache.records import cached
from wse.errors import BadInput, WseError
from wse.hardware.load import load_software, load_wafer
from wse.reports.number_text import plural
from wse.reports.progress import OnProgress, ignore
from wse.reports.shared_tables import price_source, scale_note
from wse.studies.estimate.cached import request_key
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.result import EstimateResult
from wse.studies.estimate.study import estimate_on_best_layout
from wse.studies.options.engine import THIS_MACHINE, EngineChoice
from wse.studies.options.option import replace_options
from wse.studies.options.settings import SOFTWARE, WAFER, with_settings
from wse.studies.what_if.changes import Change
from wse.studies.what_if.result import WhatIfResult, WhatIfRow
from wse.studies.workers.engine_pool import each_output, engine_pool

AS_IT_IS = "as it is"
COMPARED = ("wafers", "tokens_per_s_per_user", "tokens_per_s", "ttft_s", "usd_per_million_tokens", "max_users")


def what_if(
    request: EstimateRequest,
    changes: Sequence[Change],
    on_progress: OnProgress = ignore,
    *,
    jobs: int | None = None,
    engine: EngineChoice = THIS_MACHINE,
) -> WhatIfResult:
    """Estimate a request on its machine and on variants of the machine with one change each.

    The layout search is repeated for each change. The result may come from the cache on disk.

    Args:
        request: The request, which must be for wafers.
        changes: The changes, each applied on its own.
        on_progress: Called with (estimates done, total, name) at the start and after each estimate.
        jobs: Number of processes. None uses all cores; 1 uses the calling process.
        engine: Whether the processes run on this computer or on a Ray cluster.

    Returns:
        The estimates, with the largest effect first.

    Raises:
        BadInput: A named item is missing or cannot be used, nothing is decoded, or the model cannot
            run with any of the changes. The subclass indicates which.
        DoesNotFit: The model does not fit on the unchanged machine.
        WseBug: An estimate triggered a bug in wse.
    """
    check(request)
    key = request_key("what-if", (request, *changes))
    return cached(key, WhatIfResult, lambda: _estimate_all(request, changes, on_progress, jobs, engine))


def _estimate_all(
    request: EstimateRequest, changes: Sequence[Change], on_progress: OnProgress, jobs: int | None, engine: EngineChoice
) -> WhatIfResult:
    """Estimate a request on its machine and on all variants. Arguments and errors are those of `what_if`."""
    base_request = with_settings(request)
    requests = [base_request, *(replace_options(base_request, settings=change.settings) for change in changes)]
    names = [AS_IT_IS, *(f"{change.name} {change.value}" for change in changes)]
    on_progress(0, len(requests), AS_IT_IS)
    outcomes: dict[int, EstimateResult | WseError] = {}
    with engine_pool(engine, jobs) as pool:
        outputs = each_output(
            pool,
            range(len(requests)),
            estimate_change,
            lambda item: (requests[item],),
            owner="the estimates",
            kill_remedy="if memory ran out, try fewer changes at once",
            name=lambda item: names[item],
        )
        for item, outcome in outputs:
            if item == 0 and isinstance(outcome, WseError):
                raise outcome
            outcomes[item] = outcome
            on_progress(len(outcomes), len(requests), names[item])
    unchanged = outcomes[0]
    assert isinstance(unchanged, EstimateResult)  # its error is raised above
    base = _figures(unchanged)
    rows = [_row(change, outcomes[at], base, base_request) for at, change in enumerate(changes, 1)]
    if all(row.reason is not None for row in rows):
        raise BadInput(f"--what-if: none of {plural(len(rows), 'change')} is possible: {names[1]}: {rows[0].reason}")
    rows.sort(key=lambda row: row.effect, reverse=True)
    price = scale_note(unchanged.cost.price_ends, "wafer"), price_source(unchanged.cost.assumptions)
    return WhatIfResult(inputs=unchanged.inputs, base=base, changes=tuple(rows), price=price)


def check(request: EstimateRequest) -> None:
    """Check that a request can be used with ``--what-if``.

    Raises:
        BadInput: The request is for GPUs, generates only one token, or uses an option for a single
            machine (``--trace``, ``--sensitivity``, ``--uncertainty`` or ``--most-users``).
    """
    if request.gpu is not None:
        raise BadInput(f"--gpu {request.gpu}: --what-if changes numbers of wafers and of their software; leave out one")
    options = (
        ("--trace", request.trace is not None),
        ("--sensitivity", request.sensitivity),
        ("--uncertainty", request.uncertainty),
        ("--most-users", request.most_users),
    )
    for option, is_given in options:
        if is_given:
            raise BadInput(f"{option}: applies to one machine, but --what-if tries several; leave out one")
    if request.workload.new_tokens == 1:
        raise BadInput("--new-tokens 1: nothing is decoded after the first token; give at least 2 for --what-if")


def estimate_change(request: EstimateRequest) -> EstimateResult | WseError:
    """Estimate a request on its best layout, or return an error that the user can correct."""
    try:
        return estimate_on_best_layout(request)
    except WseError as error:
        return error


def _figures(result: EstimateResult) -> WhatIfRow:
    """Return the compared figures of an estimate."""
    return WhatIfRow.from_parts(result.serving, result.system, result.cost, batch=result.batch)


def _row(change: Change, estimate: EstimateResult | WseError, base: WhatIfRow, request: EstimateRequest) -> WhatIfRow:
    """Build the row of a change, with the ratios of its figures to the unchanged machine's figures.

    Args:
        change: Change of the machine, such as ``clock=x2``.
        estimate: Estimate for the changed machine, or the error.
        base: Row of the unchanged machine.
        request: The request on the unchanged machine.
    """
    if isinstance(estimate, WseError):
        return WhatIfRow(change=change.name, value=change.value, reason=str(estimate))
    row = _figures(estimate)
    pairs = ((key, getattr(base, key), getattr(row, key)) for key in COMPARED)
    return replace(
        row,
        change=change.name,
        value=change.value,
        numbers=_before_and_after(change, request),
        factors={key: new_value / old_value for key, old_value, new_value in pairs if old_value and new_value},
    )


def _before_and_after(change: Change, request: EstimateRequest) -> dict[str, tuple[float, ...]]:
    """Return the (old, new) values of all wafer and software constants affected by a change.

    The values are keyed by constant name, such as ``wafer.clock_hz``.
    """
    with_change = with_settings(replace_options(request, settings=change.settings))
    wafer = load_wafer(request.machine.wafer, request.machine.wafer_values)
    software = load_software(request.machine.software, wafer.generation, request.machine.software_values)
    new_values = {WAFER: dict(with_change.machine.wafer_values), SOFTWARE: dict(with_change.machine.software_values)}
    names = [setting.partition("=")[0] for setting in change.settings]
    numbers: dict[str, tuple[float, ...]] = {}
    for name in names:
        prefix, key = name[: name.index(".") + 1], name[name.index(".") + 1 :]
        numbers[name] = (getattr(wafer if prefix == WAFER else software, key), new_values[prefix][key])
    return numbers
