"""Search candidates that have not been tried yet, with forecasts of their cycles and bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wse.arrays import F64
from wse.compiler.strategies import layers_of_regions
from wse_mappings.cuts.layer_parts import LayerRange
from wse_mappings.regions.demand import Demand
from wse_mappings.regions.layout import Layout, RegionLayers
from wse_mappings.regions.region_shapes import fullest_bytes

PRIOR_WEIGHT = 1e-3
"""Weight of the initial guess relative to one trial. It matters only where trials do not decide."""
ERROR = 0.01
"""Assumed standard deviation of a trial from the linear model of cycles, as a fraction of its value.

After seven trials, the median error of decode forecasts is 0.8 to 8.7 % (2 % in the median of 20
requests of 10 models), that of prompt forecasts 3 to 17 %. The value itself was chosen on these
requests, as a compromise between the fastest layout found and the number of trials.
"""
TERMS = 7
"""Number of terms of the linear models."""


def forecast_terms(rows: float, cols: float, even_rows: float, even_cols: float, stages: int) -> tuple[float, ...]:
    """Return the inputs from which a linear model predicts the cycles or bytes of a layout.

    There are seven inputs (terms), one for each of the following costs:

    1. launches, which are the same for every layout
    2. hops and relays, proportional to the rows
    3. hops and relays, proportional to the columns
    4. work on values that are partitioned across rows only
    5. work on values that are partitioned across columns only
    6. multiply-adds, which are distributed across all PEs of a region
    7. transfers between stages, proportional to their number

    Args:
        rows, cols: Total size of a region on all of its wafers; the mean if sizes differ.
        even_rows, even_cols: Size of a region that would have the same bytes per PE without
            padding.
        stages: Number of stages that a token passes through in sequence.
    """
    return 1.0, rows, cols, 1 / even_rows, 1 / even_cols, 1 / (even_rows * even_cols), stages


class Forecast:
    """A linear model of a property of layouts, such as cycles, fitted to past trials.

    A trial compiles and possibly times a layout. The fit minimises the sum of squared relative
    errors, with a small penalty for deviations from the initial weights (ridge regression; Hoerl
    and Kennard, Technometrics 1970). Terms with a negative weight are removed, and the weights of
    the remaining terms are fitted again.
    """

    def __init__(self, prior: Sequence[float] | F64, error: float = ERROR) -> None:
        """Create a forecast from initial estimates of the weights of its linear model.

        Args:
            prior: The estimates, one per term.
            error: Assumed standard deviation of a trial from the linear model, as a fraction of its
                value.
        """
        self._error = error
        self._prior = np.asarray(prior, np.float64)
        self._weights = self._prior
        self._covariance = np.zeros((len(self._prior), len(self._prior)))
        self._terms = np.empty((0, len(self._prior)))

    @property
    def trials(self) -> int:
        """Number of trials to which the linear model has been fitted."""
        return len(self._terms)

    def learn(self, layout_terms: F64, value: float) -> None:
        """Fit the model to one more trial.

        Args:
            layout_terms: float64 ``[terms]``: the layout's values of the linear model's terms.
            value: Measured value of the property, such as the cycle count of the layout.
        """
        self._terms = np.vstack([self._terms, layout_terms / value])
        mean_terms = self._terms.mean(axis=0)  # scale of each term
        penalty = np.sqrt(PRIOR_WEIGHT)
        equations = np.vstack([self._terms / mean_terms, penalty * np.eye(len(mean_terms))])
        sums = np.concatenate([np.ones(len(self._terms)), penalty * self._prior * mean_terms])
        used_terms = np.ones(len(mean_terms), np.bool_)
        weights = np.linalg.lstsq(equations, sums, rcond=None)[0]
        while (weights < 0).any():
            used_terms &= weights >= 0
            weights = np.zeros(len(mean_terms))
            weights[used_terms] = np.linalg.lstsq(equations[:, used_terms], sums, rcond=None)[0]
        self._weights = weights / mean_terms
        self._covariance = np.linalg.inv(equations.T @ equations) / np.outer(mean_terms, mean_terms)

    def of(self, layout_terms: F64) -> F64:
        """Return the forecast values, such as cycles, of several layouts.

        Args:
            layout_terms: float64 ``[layouts, terms]``: values of the linear model's terms for each
                layout.

        Returns:
            float64 ``[layouts]``.
        """
        return np.asarray(layout_terms @ self._weights, np.float64)

    def deviation(self, layout_terms: F64) -> F64:
        """Return the standard deviation of the forecast values of several layouts.

        It follows from the errors of trials and from the uncertainty of weights that few
        trials determine (Bayesian linear regression; Bishop, Pattern Recognition and Machine
        Learning 2006, section 3.3). Layouts that differ much from all trials have large deviations.
        It is 0 before the first trial, when every forecast is a guess.

        Args:
            layout_terms: float64 ``[layouts, terms]``: values of the linear model's terms for each
                layout.

        Returns:
            float64 ``[layouts]``.
        """
        variances = ((layout_terms @ self._covariance) * layout_terms).sum(axis=1)
        return np.asarray(self._error * np.sqrt(variances), np.float64)


class _BandSizes(NamedTuple):
    """Layout sizes that can be computed before the shapes of the regions are known.

    A layout divides wafers into bands (strips of rows), and each band into regions (rectangles of
    PEs that store consecutive layers).

    Attributes:
        stages: Number of stages.
        width: Fraction of the band's width that a layer's region occupies, summed over the wafers
            that the region spans; mean over all layers.
        fullest: Bytes of a band if all of its PEs were as full as its fullest PE; dividing it by
            the number of PEs of a band gives the bytes on that PE. It is the mean over the bands of
            the fullest wafer, because fuller bands get more rows. If the request specifies the
            shape of regions, it is the maximum. Bytes of experts on a separate stage are added.
        max_layers: Largest number of layers that a stage stores, as a fraction of all layers.
    """

    stages: int
    width: float
    fullest: float
    max_layers: float


@dataclass(kw_only=True, eq=False)
class Candidates:
    """The layouts that a search may try, as arrays with one entry per layout.

    A layout is one way to divide wafers into regions. Forecasts indicate which layouts are worth
    trying.

    Attributes:
        demand: Bytes of the model's layers, and the wafers on which they are placed.
        max_bytes: Maximum size of weights and KV cache per PE, in bytes.
        layouts: Distinct layouts, in the order in which they were added.
        terms: float64 ``[layouts, 7]``: values of the terms of the linear forecasts of generated
            tokens and bytes, from `forecast_terms`.
        prompt_terms: float64 ``[layouts, 7]``: the same for prompts. Stages work on different
            chunks of a prompt at the same time, so the stage with the most layers decides how fast
            chunks follow each other. All terms except the number of stages, which have to be
            filled, are multiplied by the fraction of the layers that this stage stores.
        max_layers: float64 ``[layouts]``: fraction of all layers that the stage with the most
            layers stores.
        min_bytes: float64 ``[layouts]``: lower bound on the bytes of weights and KV cache on the
            fullest PE. For most layouts on whole wafers that may fit in ``max_bytes``, the bound
            includes padding and the feed-forward activations of one token.
        open: bool ``[layouts]``: whether the layout has not been tried yet.
    """

    demand: Demand
    max_bytes: float
    layouts: list[Layout] = field(default_factory=list)
    terms: F64 = field(default_factory=lambda: np.empty((0, TERMS)))
    prompt_terms: F64 = field(default_factory=lambda: np.empty((0, TERMS)))
    max_layers: F64 = field(default_factory=lambda: np.empty(0))
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
        terms, max_layers, min_bytes = zip(*(self._terms_and_bytes(layout) for layout in new), strict=True)
        new_terms = np.array(terms)
        new_max_layers = np.array(max_layers)
        prompt_terms = np.hstack([new_terms[:, :-1] * new_max_layers[:, None], new_terms[:, -1:]])
        self.terms, self.prompt_terms = np.vstack([self.terms, new_terms]), np.vstack([self.prompt_terms, prompt_terms])
        self.max_layers = np.append(self.max_layers, new_max_layers)
        self.min_bytes = np.append(self.min_bytes, min_bytes)
        self.open = np.append(self.open, np.ones(len(new), np.bool_))

    def _terms_and_bytes(self, layout: Layout) -> tuple[tuple[float, ...], float, float]:
        """Return a layout's forecast terms, its largest stage, and a lower bound on its bytes per PE.

        `forecast_terms` defines the terms. The largest stage is the fraction of all layers that the
        stage with the most layers stores. The bytes are those of weights and KV cache on the
        fullest PE.
        """
        sizes = self.demand.cache.of(_band_sizes, 1024)(self.demand, layout.without_sizes)
        rows, region_cols = layout.region(self.demand)
        cols = region_cols * layout.per_band
        min_bytes = sizes.fullest / (max(1, rows) * max(1, cols))
        if min_bytes <= self.max_bytes:
            min_bytes = self._padded_bytes(layout) or min_bytes
        even_rows, even_cols = self._unpadded_size(rows, cols * sizes.width)
        terms = forecast_terms(rows, cols * sizes.width, even_rows, even_cols, sizes.stages)
        return terms, sizes.max_layers, min_bytes

    def _unpadded_size(self, rows: int, cols: float) -> tuple[float, float]:
        """Return the size of a region without padding that would store the same bytes per PE.

        Heads and features that do not divide evenly over rows or columns are padded, so PEs store
        more than their even share. Forecasts of work per PE use the smaller size without padding.

        Args:
            rows, cols: Actual size of the region.

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
        the shape of regions, or if ops or experts are partitioned across several wafers.
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

    Args:
        demand: Bytes of the model's layers, and the available wafers.
        layout: Division of the wafers into regions, without the sizes of the regions.
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
    max_layers = max(region.layers.layer_count for band_regions in bands.values() for region in band_regions)
    return _BandSizes(
        sum(map(len, bands.values())),
        width / demand.layers,
        fullest_bytes + expert_bytes,
        max_layers / demand.layers,
    )
