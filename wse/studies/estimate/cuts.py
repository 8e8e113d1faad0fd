"""``cuts`` of an estimate: layers split between stages, and how to avoid the splits."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Annotated

from wse.cache.content_key import content_key
from wse.cache.records import cached
from wse.reports.result import Doc, Result

if TYPE_CHECKING:
    from wse.studies.estimate.prepare import PreparedEstimate
    from wse.studies.results.placement import SystemResult


class CutsResult(Result):
    """The number of layers split between pipeline stages, and how to avoid the splits.

    Split layers are slower than whole layers.
    """

    layers: Annotated[int, Doc("layers that are split between stages")]
    between_wafers: Annotated[int, Doc("layers that are split between stages on several wafers")]
    wafers_for_whole_layers: Annotated[
        int | None,
        Doc("the fewest wafers, more than these, on which no layer is split; absent if there is no such number, if "
            "regions are listed, or with dead PEs"),
    ] = None  # fmt: skip


def cuts_result(prepared_estimate: PreparedEstimate, system: SystemResult) -> CutsResult | None:
    """Return how many layers are split between pipeline stages; None if no layer is split.

    The result suggests the smallest number of wafers on which no layer is split. This number is not
    searched for if a mapping file or dead PEs determine the layout.

    Args:
        prepared_estimate: The request.
        system: Placement of the compiled model, with its pipeline stages.
    """
    wafers_by_layer: dict[int, list[int]] = defaultdict(list)
    for stage in system.stages:
        for layer in dict.fromkeys(stage.layers):  # (first, last); layers between the two are never split
            wafers_by_layer[layer].append(stage.wafer)
    cut = [wafers for wafers in wafers_by_layer.values() if len(wafers) > 1]
    if not cut:
        return None
    is_fixed_layout = prepared_estimate.options.listed or prepared_estimate.meshes
    return CutsResult(
        layers=len(cut),
        between_wafers=sum(len(set(wafers)) > 1 for wafers in cut),
        wafers_for_whole_layers=None if is_fixed_layout else _fewest_wafers_for_whole_layers(prepared_estimate),
    )


def _fewest_wafers_for_whole_layers(prepared_estimate: PreparedEstimate) -> int | None:
    """Return the smallest number of wafers on which no layer is split, from the cache if possible."""
    from wse.compiler.search.remedies import fewest_wafers_from  # slow to load, and rarely needed

    p = prepared_estimate
    inputs = p.spec, p.wafer, p.software, p.options
    first_count = p.options.wafers + 1
    key = content_key("wafers for whole layers", *inputs)
    return cached(key, int | None, lambda: fewest_wafers_from(first_count, *inputs, whole_layers=True))
