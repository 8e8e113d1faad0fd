"""Candidates: layouts with what is known of them before they are tried, as arrays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wse.arrays import F64
from wse.compiler.strategies import strategy
from wse_mappings.strategies.strategy import Demand, Layout, Share


class _Spread(NamedTuple):
    """A model spread over regions, whatever their size.

    ``width`` is the mean part of a band that a layer's region has, on all of its wafers; ``fullest`` the bytes of the
    fullest wafer, and of experts beside it, for each band of the layout.
    """

    stages: int
    width: float
    fullest: float


@dataclass(kw_only=True, eq=False)
class Candidates:
    """Layouts that may be tried.

    Attributes:
        demand: What is placed.
        layouts: In the order in which they were added, each once.
        rows, cols: float64 ``[layouts]``: of a region, the mean where they differ, on all of its wafers.
        stages: float64 ``[layouts]``.
        least_bytes: float64 ``[layouts]``: of weights and cache on the fullest PE, if nothing was padded.
        open: bool ``[layouts]``: whether it is still to be tried.
    """

    demand: Demand
    layouts: list[Layout] = field(default_factory=list)
    rows: F64 = field(default_factory=lambda: np.empty(0))
    cols: F64 = field(default_factory=lambda: np.empty(0))
    stages: F64 = field(default_factory=lambda: np.empty(0))
    least_bytes: F64 = field(default_factory=lambda: np.empty(0))
    open: npt.NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    _known: set[Layout] = field(default_factory=set)
    _spreads: dict[tuple[str, int, int], _Spread] = field(default_factory=dict)

    def add(self, layouts: Iterable[Layout]) -> None:
        """Add those that are not there."""
        new = [layout for layout in dict.fromkeys(layouts) if layout not in self._known]
        if not new:
            return
        self._known.update(new)
        self.layouts += new
        numbers = np.array([self._numbers(layout) for layout in new], np.float64).T
        self.rows, self.cols, self.stages, self.least_bytes = (
            np.append(known, more)
            for known, more in zip((self.rows, self.cols, self.stages, self.least_bytes), numbers, strict=True)
        )
        self.open = np.append(self.open, np.ones(len(new), np.bool_))

    def _numbers(self, layout: Layout) -> tuple[float, float, float, float]:
        """Rows and columns of a region, stages, and bytes on the fullest PE."""
        spread = self._spread(layout)
        rows, region_cols = layout.region(self.demand)
        cols = region_cols * layout.per_band
        pes = max(1, rows) * max(1, cols)
        return rows, cols * spread.width, spread.stages, spread.fullest / pes

    def _spread(self, layout: Layout) -> _Spread:
        key = (layout.mapping, layout.bands, layout.per_band)
        if key not in self._spreads:
            shares = strategy(layout.mapping).partition(self.demand, layout)
            self._spreads[key] = _spread(shares, layout, self.demand)
        return self._spreads[key]


def _spread(shares: Iterable[Share], layout: Layout, demand: Demand) -> _Spread:
    """Bands are as high, and regions of a band as wide, as their bytes, or, where their shape is stated, all alike."""
    bands: dict[tuple[int, int], list[Share]] = defaultdict(list)
    beside = 0.0
    for share in shares:
        if share.experts:
            beside += share.bytes / share.wafers
        else:
            bands[share.wafer, share.band].append(share)
    width, of_wafers = 0.0, defaultdict[int, list[float]](list)
    for (wafer, _), across in bands.items():
        of_band = sum(share.bytes for share in across)
        parts = [1 / layout.per_band if demand.region or not of_band else share.bytes / of_band for share in across]
        width += sum(
            (share.last_layer - share.first_layer) * part * share.wafers
            for share, part in zip(across, parts, strict=True)
        )
        fullest_pes = max(share.bytes / share.wafers / part for share, part in zip(across, parts, strict=True) if part)
        of_wafers[wafer].append(fullest_pes)
    fullest = max(max(each) if demand.region else sum(each) / layout.bands for each in of_wafers.values())
    return _Spread(sum(map(len, bands.values())), width / demand.layers, fullest + beside)
