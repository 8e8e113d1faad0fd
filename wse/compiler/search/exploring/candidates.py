"""Candidates: layouts with what is known of them before they are tried, as arrays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wse.arrays import F64
from wse.compiler.strategies import shares_of
from wse_mappings.cuts.layer_parts import LayerRange
from wse_mappings.region_shapes import fullest_bytes
from wse_mappings.strategies.strategy import Demand, Layout, Share


class _Spread(NamedTuple):
    """Bytes and columns of a model that is distributed over regions of any size.

    ``width`` is the mean part of a band that a layer's region has, on all of its wafers; ``fullest`` the bytes of the
    fullest wafer, and of experts beside it, for each band of the layout.
    """

    stages: int
    width: float
    fullest: float


@dataclass(kw_only=True, eq=False)
class Candidates:
    """The layouts that a search may try, as arrays with one entry per layout.

    Attributes:
        demand: What is placed.
        most_bytes: Bytes of weights and cache that a PE may be asked to hold.
        layouts: In the order in which they were added, each once.
        rows, cols: float64 ``[layouts]``: of a region, the mean where they differ, on all of its wafers.
        even_rows, even_cols: float64 ``[layouts]``: of a region whose PEs would hold as little if nothing was padded.
        stages: float64 ``[layouts]``.
        least_bytes: float64 ``[layouts]``: of weights and cache on the fullest PE, with padding and a block of one
            token where all of a wafer is cut, else, and where these are too many, as if nothing was padded.
        open: bool ``[layouts]``: whether it is still to be tried.
    """

    demand: Demand
    most_bytes: float
    layouts: list[Layout] = field(default_factory=list)
    rows: F64 = field(default_factory=lambda: np.empty(0))
    cols: F64 = field(default_factory=lambda: np.empty(0))
    even_rows: F64 = field(default_factory=lambda: np.empty(0))
    even_cols: F64 = field(default_factory=lambda: np.empty(0))
    stages: F64 = field(default_factory=lambda: np.empty(0))
    least_bytes: F64 = field(default_factory=lambda: np.empty(0))
    open: npt.NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    _known: set[Layout] = field(default_factory=set)

    def add(self, layouts: Iterable[Layout]) -> None:
        """Add those that are not there."""
        new = [layout for layout in dict.fromkeys(layouts) if layout not in self._known]
        if not new:
            return
        self._known.update(new)
        self.layouts += new
        numbers = np.array([self._numbers(layout) for layout in new], np.float64).T
        known = (self.rows, self.cols, self.even_rows, self.even_cols, self.stages, self.least_bytes)
        self.rows, self.cols, self.even_rows, self.even_cols, self.stages, self.least_bytes = (
            np.append(numbers_known, more) for numbers_known, more in zip(known, numbers, strict=True)
        )
        self.open = np.append(self.open, np.ones(len(new), np.bool_))

    def _numbers(self, layout: Layout) -> tuple[float, float, float, float, float, float]:
        """Return the size of a region, its size without padding, the stages, and the bytes of the fullest PE of a
        layout.
        """
        spread = self.demand.cache.of(_spread, 1024)(self.demand, layout.of_bands)
        rows, region_cols = layout.region(self.demand)
        cols = region_cols * layout.per_band
        least = spread.fullest / (max(1, rows) * max(1, cols))
        if least <= self.most_bytes:
            least = self._padded_bytes(layout) or least
        even_rows, even_cols = self._even(rows, cols * spread.width)
        return rows, cols * spread.width, even_rows, even_cols, spread.stages, least

    def _even(self, rows: int, cols: float) -> tuple[float, float]:
        """Return the rows and columns of a region without padding that has the same bytes per PE."""
        demand = self.demand
        if demand.column_bytes is None:
            return rows, cols
        layers = demand.column_bytes(LayerRange(0, demand.layers), 0)
        padding = layers(max(1, round(cols))) * max(1, round(cols)) / layers(1)
        return 1 / demand.row_share(max(1, rows)), cols / padding

    def _padded_bytes(self, layout: Layout) -> float | None:
        """Return the bytes of the fullest PE of a layout, padding included.

        None on a part of a wafer, and where wafers share an op.
        """
        demand = self.demand
        if layout.mesh is not None or demand.region is not None or demand.column_bytes is None:
            return None
        shares = shares_of(demand, layout.of_bands)
        if any(share.wafers > 1 or share.experts for share in shares):
            return None
        return demand.cache.of(fullest_bytes, 4096)(demand, layout._replace(groups=None, experts=None), shares)


def _spread(demand: Demand, layout: Layout) -> _Spread:
    """Return the heights of bands and the widths of their regions, in proportion to their bytes.

    If the request states the shape of regions, all have that shape.
    """
    bands: dict[tuple[int, int], list[Share]] = defaultdict(list)
    beside = 0.0
    for share in shares_of(demand, layout):
        if share.experts:
            beside += share.bytes / share.wafers
        else:
            bands[share.wafer, share.band].append(share)
    width, of_wafers = 0.0, defaultdict[int, list[float]](list)
    for (wafer, _), across in bands.items():
        of_band = sum(share.bytes for share in across)
        parts = [1 / layout.per_band if demand.region or not of_band else share.bytes / of_band for share in across]
        width += sum(share.layers.layer_count * part * share.wafers for share, part in zip(across, parts, strict=True))
        fullest_pes = max(share.bytes / share.wafers / part for share, part in zip(across, parts, strict=True) if part)
        of_wafers[wafer].append(fullest_pes)
    fullest = max(max(each) if demand.region else sum(each) / layout.bands for each in of_wafers.values())
    return _Spread(sum(map(len, bands.values())), width / demand.layers, fullest + beside)
