"""Axes of a comparison: the mappings, objectives and numbers of wafers that are compared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from wse.compiler.demand import demand_of
from wse.compiler.search.remedies import MAX_WAFERS as MAX_TRIED
from wse.compiler.strategies import strategy
from wse.errors import BadInput
from wse.serving.goal import LATENCY, THROUGHPUT
from wse.studies.compare.grid.combination import Combination
from wse.studies.compare.request import TIMES_THE_FEWEST, CompareRequest
from wse.studies.estimate.prepare import PreparedEstimate, prepare_estimate
from wse.studies.options.mapping_file import load_mapping


def prepared_on_fewest_wafers(request: CompareRequest) -> PreparedEstimate:
    """Load a model and wafer type, with the smallest number of wafers that a comparison includes.

    This is the smallest number in ``--wafers``. Without ``--wafers``, it is the smallest number on
    which the model fits with any of the mappings.

    Raises:
        BadInput: A name or file in the request cannot be used with any of the mappings.
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
    return min(candidates, key=lambda candidate: candidate.options.wafers)


def wafer_counts(min_wafers: int, layers: int) -> tuple[int, ...]:
    """Return the default numbers of wafers to compare: multiples of the smallest number.

    Args:
        min_wafers: Smallest number of wafers on which the model fits.
        layers: Number of layers of the model. At most one wafer per layer is useful.
    """
    max_wafers = max(min_wafers, min(layers, MAX_TRIED))
    return tuple(min_wafers * times for times in TIMES_THE_FEWEST if min_wafers * times <= max_wafers)


def _names_on(wafers: int, request: CompareRequest, first: PreparedEstimate) -> tuple[str, ...]:
    """Return the mappings (rules for distributing layers across PEs) to try on a number of wafers.

    These are the requested mappings, or by default the ``candidates`` of the comparison. A mapping
    is left out in two cases:

    - It was not requested and makes no difference for the model, such as a mapping that separates
      experts for a model without experts.
    - It is a mapping file (a list of PE rectangles and their layers) for another number of wafers,
      and no numbers of wafers were requested.

    Args:
        wafers: Number of wafers.
        request: Options of the comparison.
        first: The model and options, prepared for the smallest number of wafers.
    """
    if request.mappings is not None:
        allowed_counts = (None, wafers)
        return tuple(n for n in request.names() if request.wafers or load_mapping(n).wafers in allowed_counts)
    demand = demand_of(first.spec, first.wafer, replace(first.options, wafers=wafers))
    return tuple(name for name in request.names() if strategy(name).differs(demand))


def compared_counts(request: CompareRequest, first: PreparedEstimate) -> tuple[int, ...]:
    """Return the numbers of wafers to compare.

    They are the values of ``--wafers``. Without this option, they are multiples of the smallest
    number on which the model fits, and the numbers for which requested mapping files were written.

    Args:
        request: Options of the comparison.
        first: The model and options, prepared for the smallest number of wafers.
    """
    if request.wafers is not None:
        return request.wafers
    default_counts = wafer_counts(first.options.wafers, first.spec.layer_count)
    has_free_mapping = any(load_mapping(name).wafers is None for name in request.names())
    return tuple(sorted(mapping_counts(request).union(default_counts if has_free_mapping else ())))


def mapping_counts(request: CompareRequest) -> set[int]:
    """Return the numbers of wafers for which requested mapping files were written."""
    counts = (load_mapping(name).wafers for name in request.names())
    return {wafers for wafers in counts if wafers is not None}


def combinations_of(request: CompareRequest, first: PreparedEstimate, counts: Iterable[int]) -> list[Combination]:
    """Return the cases to compare: combinations of mapping, objective and number of wafers.

    A mapping is a rule for distributing layers across PEs. An objective is what its layout is
    optimised for, such as ``latency``. The cases are sorted by mapping, then by objective, then by
    number of wafers.

    Args:
        request: Options of the comparison.
        first: The model and options, prepared for the smallest number of wafers.
        counts: The numbers of wafers.
    """
    mappings_by_count = {wafers: _names_on(wafers, request, first) for wafers in counts}
    return [
        Combination(name, wafers, objective)
        for name in request.names()
        for objective in _objectives(request, name)
        for wafers in mappings_by_count
        if name in mappings_by_count[wafers]
    ]


def _objectives(request: CompareRequest, name: str) -> tuple[str, ...]:
    """Return the objectives, such as ``latency``, for which a mapping's layout is optimised.

    The comparison has a row for each objective:
    - A ranking of machines uses its single objective.
    - Otherwise, requested mappings, and ``auto`` (which tries all mappings), have a layout for
      latency and one for throughput.
    - All other mappings have only a layout for latency.
    """
    if request.is_ranked:
        return (request.goal.objective,)
    has_both = request.mappings is not None or strategy(load_mapping(name).strategy).tries_others
    return (LATENCY, THROUGHPUT) if has_both else (LATENCY,)
