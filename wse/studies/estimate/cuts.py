"""``cuts`` of an estimate: layers of which several stages store a part, and how many wafers store all of them whole."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Annotated

from wse.compiler.search.remedies import fewest_wafers_for_whole_layers
from wse.reports.result import Doc, Result
from wse.studies.estimate.prepare import PreparedEstimate
from wse.studies.results.placement import SystemResult


@dataclass(frozen=True, kw_only=True)
class CutsResult(Result):
    """Layers in parts, which take longer than whole ones."""

    layers: Annotated[int, Doc("layers of which several stages hold a part")]
    between_wafers: Annotated[int, Doc("of these, layers with parts on several wafers")]
    wafers_for_whole_layers: Annotated[
        int | None,
        Doc("the fewest wafers, more than these, that hold all layers whole; absent where none do, and not looked for "
            "where regions are listed or PEs are dead"),
    ] = None  # fmt: skip


def cuts_result(prepared: PreparedEstimate, system: SystemResult) -> CutsResult | None:
    """Return the layers that the stages of a request cut; None where all are whole.

    More wafers are tried, none is guessed.
    """
    wafers_by_layer: dict[int, list[int]] = defaultdict(list)
    for stage in system.stages:
        for layer in dict.fromkeys(stage.layers):  # others than the first and the last are whole
            wafers_by_layer[layer].append(stage.wafer)
    cut = [wafers for wafers in wafers_by_layer.values() if len(wafers) > 1]
    if not cut:
        return None
    fixed = prepared.options.listed or prepared.meshes
    return CutsResult(
        layers=len(cut),
        between_wafers=sum(len(set(wafers)) > 1 for wafers in cut),
        wafers_for_whole_layers=None
        if fixed
        else fewest_wafers_for_whole_layers(prepared.spec, prepared.wafer, prepared.software, prepared.options),
    )
