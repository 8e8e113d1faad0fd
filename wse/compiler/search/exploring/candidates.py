"""Search candidates: layouts that have not been tried yet, and their known sizes, as arrays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wse.arrays import F64
from wse.compiler.search.exploring.forecast import TERMS, forecast_terms
from wse.compiler.strategies import layers_of_regions
from wse_mappings.cuts.layer_parts import LayerRange
from wse_mappings.regions.demand import Demand
from wse_mappings.regions.layout import Layout, RegionLayers
from wse_mappings.regions.region_shapes import fullest_bytes


class _BandSizes(NamedTuple):
    """Layout sizes that can be computed before the shapes of the regions are known.

    A layout divides wafers into bands (strips of rows), and each band into regions.

    Attributes:
        stages: Number of stages.
        width: Width of a layer's region as a fraction of the band, multiplied by the number of
            wafers that the region spans; mean over all layers.
        fullest: Bytes that a band of the fullest wafer would store if all of its PEs were as full
            as those of its fullest region: the total of all bands divided by their number, or the
            maximum if the request specifies the shape of regions. The bytes of experts on a
            separate stage are added.
    """

    stages: int
    width: float
    fullest: float


@dataclass(kw_only=True, eq=False)
class Candidates:
    """The layouts that a search may try, as arrays with one entry per layout.

    A layout is one way to divide wafers into regions. Forecasts indicate which layouts are worth
    trying.

    Attributes:
        demand: Bytes of the model's layers, and the wafers on which they are placed.
        max_bytes: Maximum size of weights and KV cache per PE, in bytes.
        layouts: Distinct layouts, in the order in which they were added.
        terms: float64 ``[layouts, 7]``: terms of the forecasts, from `forecast_terms`.
        min_bytes: float64 ``[layouts]``: lower bound on the bytes of weights and KV cache on the
            fullest PE. The bound includes padding and the feed-forward block of one token for
            layouts on whole wafers that do not exceed ``max_bytes``.
        open: bool ``[layouts]``: whether the layout has not been tried yet.
    """

    demand: Demand
    max_bytes: float
    layouts: list[Layout] = field(default_factory=list)
    terms: F64 = field(default_factory=lambda: np.empty((0, TERMS)))
    min_bytes: F64 = field(default_factory=lambda: np.empty(0))
    open: npt.NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    _known_layouts: set[Layout] = field(default_factory=set)

    def add(self, layouts: Iterable[Layout]) -> None:
        """Add layouts to try, with the terms of their forecasts and a lower bound on their bytes.

        A layout is one way to divide wafers into regions. Layouts that were added before are
        skipped.
        """
        new = [layout for layout in dict.fromkeys(layouts) if layout not in self._known_layouts]
        if not new:
            return
        self._known_layouts.update(new)
        self.layouts += new
        terms, min_bytes = zip(*(self._terms_and_bytes(layout) for layout in new), strict=True)
        self.terms = np.vstack([self.terms, terms])
        self.min_bytes = np.append(self.min_bytes, min_bytes)
        self.open = np.append(self.open, np.ones(len(new), np.bool_))

    def _terms_and_bytes(self, layout: Layout) -> tuple[tuple[float, ...], float]:
        """Return the terms of a layout's forecasts, and a lower bound on its bytes per PE.

        `forecast_terms` defines the terms. The bytes are those of weights and KV cache on the
        fullest PE.
        """
        sizes = self.demand.cache.of(_band_sizes, 1024)(self.demand, layout.without_sizes)
        rows, region_cols = layout.region(self.demand)
        cols = region_cols * layout.per_band
        min_bytes = sizes.fullest / (max(1, rows) * max(1, cols))
        if min_bytes <= self.max_bytes:
            min_bytes = self._padded_bytes(layout) or min_bytes
        even_rows, even_cols = self._even_size(rows, cols * sizes.width)
        return forecast_terms(rows, cols * sizes.width, even_rows, even_cols, sizes.stages), min_bytes

    def _even_size(self, rows: int, cols: float) -> tuple[float, float]:
        """Return the size of a region without padding that would store the same bytes per PE.

        Args:
            rows, cols: Size of the region with padding.

        Returns:
            Rows and columns, not rounded.
        """
        demand = self.demand
        if demand.column_bytes is None:
            return rows, cols
        layers = demand.column_bytes(LayerRange(0, demand.layers), 0)
        padding = layers(max(1, round(cols))) * max(1, round(cols)) / layers(1)
        return 1 / demand.row_share(max(1, rows)), cols / padding

    def _padded_bytes(self, layout: Layout) -> float | None:
        """Return the bytes on the fullest PE of a layout, including padding; None if unknown.

        The bytes are unknown if the layout uses only part of each wafer, if the request specifies
        the shape of regions, or if ops or experts are divided over several wafers.
        """
        demand = self.demand
        if layout.mesh is not None or demand.region is not None or demand.column_bytes is None:
            return None
        region_layers = layers_of_regions(demand, layout.without_sizes)
        if any(region.wafers > 1 or region.experts for region in region_layers):
            return None
        return demand.cache.of(fullest_bytes, 4096)(demand, layout._replace(groups=None, experts=None), region_layers)


def _band_sizes(demand: Demand, layout: Layout) -> _BandSizes:
    """Return the sizes of a layout that follow from its bands and layers alone.

    A band is a strip of rows that is divided into regions. Band heights and region widths are
    proportional to their bytes unless the request specifies the shape of regions.
    """
    bands: dict[tuple[int, int], list[RegionLayers]] = defaultdict(list)
    expert_bytes = 0.0
    for region in layers_of_regions(demand, layout):
        if region.experts:
            expert_bytes += region.bytes / region.wafers
        else:
            bands[region.wafer, region.band].append(region)
    width, fullest_by_wafer = 0.0, defaultdict[int, list[float]](list)
    for (wafer, _), band_regions in bands.items():
        band_bytes = sum(region.bytes for region in band_regions)
        parts = [
            1 / layout.per_band if demand.region or not band_bytes else region.bytes / band_bytes
            for region in band_regions
        ]
        width += sum(
            region.layers.layer_count * part * region.wafers for region, part in zip(band_regions, parts, strict=True)
        )
        fullest_pes = max(
            region.bytes / region.wafers / part for region, part in zip(band_regions, parts, strict=True) if part
        )
        fullest_by_wafer[wafer].append(fullest_pes)
    fullest_bytes = max(
        max(fullest_by_band) if demand.region else sum(fullest_by_band) / layout.bands
        for fullest_by_band in fullest_by_wafer.values()
    )
    return _BandSizes(sum(map(len, bands.values())), width / demand.layers, fullest_bytes + expert_bytes)
