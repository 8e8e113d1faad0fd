"""The ways to cut wafers into regions that the search tries, and the products that prefill may use on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from wse.compiler.options import DECODE, EQUAL_GROUPS, MESH_GEMM_OWN, PREFILL_PRODUCTS, THIN_GEMM, Options, needs_thin
from wse.hardware.mesh import turned
from wse.hardware.spec import WaferSpec
from wse.models.counts import parameters_per_token
from wse.models.spec import ModelSpec
from wse_mappings.cuts.split import ceil_div
from wse_mappings.mesh.placement import even_bands
from wse_mappings.strategies.recipe import recipes

AUTO = "auto"
"""The mapping that is the best of all others, and of layouts that none of them has."""

GROUPS = (EQUAL_GROUPS, 4, 8, 16, 32)
"""Groups of a line that are tried besides those with the fewest relays, on the fastest layout that was found."""

MOST_STAGES = 16  # stages on a wafer that are tried when the region is not given
MOST_BANDS = 12  # bands that are tried where layouts are searched, and as many regions in a band as there are layers


class Layout(NamedTuple):
    """How a mapping cuts each wafer: bands, the most regions in one, and whether rows and columns change places.

    ``groups`` are those of the all-reduces of decode, as in `Options`, where they are not those asked for.
    """

    mapping: str
    bands: int
    per_band: int
    turned: bool = False
    groups: int | None = None

    def region(self, wafer: WaferSpec, options: Options) -> tuple[int, int]:
        """Rows and columns of a region, the columns where all of a band have as many."""
        mesh = turned(wafer) if self.turned else wafer
        return options.region or (mesh.mesh_rows // self.bands, mesh.mesh_cols // self.per_band)


def layouts(spec: ModelSpec, wafer: WaferSpec, options: Options) -> list[Layout]:
    """Those of the mapping that was asked for, the fewest regions first; with ``auto`` those of all, and more."""
    if options.mapping != AUTO:
        return list(_of_mapping(options.mapping, spec, wafer, options))
    absent = {"searched"} | ({"span", "experts"} if options.wafers == 1 else set())  # one wafer has nothing to span
    absent |= set() if spec.experts else {"experts"}
    named = [name for name, recipe in recipes().items() if recipe.regions not in absent]
    every = [layout for name in named for layout in _of_mapping(name, spec, wafer, options)]
    known = {layout._replace(mapping=AUTO) for layout in every}
    return [*every, *(layout for layout in _searched(spec, wafer, options) if layout not in known)]


def _of_mapping(name: str, spec: ModelSpec, wafer: WaferSpec, options: Options) -> Iterator[Layout]:
    if recipes()[name].regions in ("one", "span", "experts"):
        yield Layout(name, 1, 1)
        return
    per_wafer = spec.layer_count // options.wafers
    if options.region is not None:
        rows, cols = options.region
        down, across = wafer.mesh_rows // rows, wafer.mesh_cols // cols
        most = min(per_wafer, down * across)
        yield from (Layout(name, ceil_div(count, across), across) for count in range(min(2, most), most + 1))
        return
    most = min(per_wafer, wafer.mesh_rows * wafer.mesh_cols, MOST_STAGES)
    counts = range(min(2, most), most + 1)
    found = dict.fromkeys(even_bands(wafer.mesh_rows, wafer.mesh_cols, count) for count in counts)
    yield from (Layout(name, *bands) for bands in found)


def _searched(spec: ModelSpec, wafer: WaferSpec, options: Options) -> Iterator[Layout]:
    """Every number of bands and of regions in one, as the mesh lies and turned."""
    if options.region is not None:
        return
    most = ceil_div(spec.layer_count + 2, options.wafers)
    for is_turned in (False, True):
        mesh = turned(wafer) if is_turned else wafer
        for bands in range(1, min(MOST_BANDS, most, mesh.mesh_rows) + 1):
            for per_band in range(1, min(ceil_div(most, bands), mesh.mesh_cols) + 1):
                yield Layout(AUTO, bands, per_band, is_turned)


def promise(spec: ModelSpec, wafer: WaferSpec, options: Options, layout: Layout) -> float:
    """About the fewest cycles that a token can take on regions of that shape: for the order of trials alone.

    Nine all-reduces of a layer go over whole lines, seven of them along columns, from the ends to the middle and back
    (He et al., WaferLLM, OSDI 2025); a PE multiplies with its share of the weights that a token uses.
    """
    rows, cols = layout.region(wafer, options)
    hops = spec.layer_count * (7 * rows + 2 * cols) * wafer.hop_cycles
    macs = parameters_per_token(spec) / (rows * cols)
    return hops + macs / wafer.mac_fp16_fp32_per_cycle


def prefills(spec: ModelSpec, wafer: WaferSpec, options: Options, layout: Layout) -> tuple[str, ...]:
    """The products to try on regions of that shape, the least demanding last; none where only another was asked for.

    Weights of prefill's own are tried unasked where they take the place of decode's, not beside them.
    """
    rows, cols = layout.region(wafer, options)
    unasked = [p for p in PREFILL_PRODUCTS if p != MESH_GEMM_OWN or DECODE not in options.phases]
    wanted = unasked if options.prefill is None else [options.prefill]
    squares = rows == cols and not needs_thin(spec, replace(options, mapping=layout.mapping))
    return tuple(product for product in wanted if squares or product == THIN_GEMM)
