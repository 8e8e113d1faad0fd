"""Families of similar layouts, whose cycles and bytes are forecast by models fitted to trials."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from wse.arrays import F64
from wse.compiler.search.exploring.candidates import TERMS, Candidates, Forecast
from wse.compiler.search.trials.trial import Trial, cycles_between_requests
from wse.compiler.search.trials.trial_setup import TrialSetup
from wse.models.tensors.model_tensors import parameters_per_token
from wse_mappings.regions.layout import Layout

PATIENCE = 5
"""Number of consecutive trials without a new fastest layout after which a search stops."""
MAX_OPTIMISM = 0.2
"""Maximum deviation that is subtracted from a forecast, as a fraction of the forecast."""
FURTHER_BYTES_ERROR = 0.3
"""Assumed standard deviation of the additional bytes from their linear model, as a fraction.

It was chosen as a compromise: in 88 trials of ten models, half of the forecasts of these bytes were
wrong by more than 44 %, but larger values make the search try more layouts.
"""
ROW_HOPS, COLUMN_HOPS = 2, 7
"""Initial estimate of the hops per layer, in row lengths and column lengths.

All-reduces travel from the ends to the middle and back (He et al., WaferLLM, OSDI 2025).
"""


class Pick(NamedTuple):
    """The layout to be tried next, and the forecast for which it was chosen.

    Attributes:
        forecast: Forecast of the cycles or bytes of the layout.
        family: The family of layouts that it belongs to.
        number: Index of the layout among the family's candidates.
    """

    forecast: float
    family: LayoutFamily
    number: int


class LayoutFamily:
    """Group of similar layouts, for which a search predicts cycles and bytes with one fitted model.

    All layouts of a family have the same prefill matrix products and the same expert placement, and
    divide ops over wafers in the same way.

    Attributes:
        candidates: The layouts.
    """

    def __init__(self, setup: TrialSetup, experts: str | None, max_bytes: float) -> None:
        """Create an empty family of layouts.

        Args:
            setup: Inputs that all trials share, such as model, wafer and request.
            experts: Expert placement of all layouts; None for the requested placement.
            max_bytes: Maximum bytes per PE for weights, KV cache and activations.
        """
        spec, wafer = setup.spec, setup.wafer
        hops = spec.layer_count * wafer.hop_cycles
        macs = parameters_per_token(spec) / wafer.mac_fp16_fp32_per_cycle
        token_weights = np.array((0.0, COLUMN_HOPS * hops, ROW_HOPS * hops, 0.0, 0.0, macs, 0.0))
        self.candidates = Candidates(demand=setup.demand_with(experts), max_bytes=max_bytes)
        self._generated = Forecast(setup.timing.new_tokens * token_weights if setup.timing else token_weights)
        self._prompts = Forecast(sum(setup.options.unread_tokens) * token_weights)
        # bytes in addition to ``Candidates.min_bytes``, on a part of the mesh and on the whole mesh
        self._further_bytes = {is_part: Forecast((0.0,) * TERMS, FURTHER_BYTES_ERROR) for is_part in (True, False)}
        self._max_passes = setup.max_passes
        self._cache_bytes = setup.options.batch * setup.cache_bytes_per_pe
        self._planned_passes = setup.options.planned_cache_tokens / (setup.request_tokens * setup.options.batch)

    def best_candidate(self) -> Pick | None:
        """Return the untried layout with the lowest optimistic cycle forecast that may fit, or None.

        The forecast of a request follows from the forecasts of its prompts and of its generated
        tokens in the same way as `Trial.request_cycles`. It is optimistic: its standard deviation
        is subtracted, so layouts unlike those tried so far are tried as well (lower confidence
        bound; Auer, JMLR 2002).

        Until a layout of the family has been timed, layouts on whole meshes are preferred to
        layouts on parts of them, so that each mapping is tried in its basic form.
        """
        candidates = self.candidates
        needed_bytes = self._bytes()
        numbers = np.flatnonzero(candidates.open & (needed_bytes <= candidates.max_bytes)).tolist()
        if not self._generated.trials:
            numbers = [number for number in numbers if candidates.layouts[number].mesh is None] or numbers
        terms, prompt_terms = candidates.terms, candidates.prompt_terms
        token_cycles, token_deviation = self._generated.of(terms), self._generated.deviation(terms)
        prompt_cycles, prompt_deviation = self._prompts.of(prompt_terms), self._prompts.deviation(prompt_terms)
        passes = self._passes_at_once(candidates.max_bytes - needed_bytes) if self._max_passes > 1 else 1.0
        all_cycles = _optimistic(token_cycles + prompt_cycles, np.hypot(token_deviation, prompt_deviation))
        busiest_cycles = _optimistic(
            token_cycles * candidates.max_layers + prompt_cycles,
            np.hypot(token_deviation * candidates.max_layers, prompt_deviation),
        )
        cycles = cycles_between_requests(all_cycles, busiest_cycles, passes)
        return self._lowest_forecast(numbers, np.asarray(cycles))

    def _passes_at_once(self, free_bytes: F64) -> F64:
        """Estimate how many passes can be in flight concurrently for each layout.

        A pass is one run of decode for a batch of users. There is at most one pass per batch of
        users, and the KV caches of all passes must fit.

        Args:
            free_bytes: float64 ``[candidates]``: forecast of the free bytes per PE after placing
                the caches that the request plans for.
        """
        passes = self._planned_passes + np.floor(free_bytes / self._cache_bytes)
        return np.asarray(np.clip(passes, 1.0, self._max_passes), np.float64)

    def neighbours(self, layout: Layout) -> list[int]:
        """Return the indices of the untried layouts that differ from a layout by one change.

        A change adds or removes one band (a strip of the wafer), adds or removes one region of
        every band, or transposes the layout. For layouts on a part of each wafer, there is one more
        kind of change: to the next larger or smaller number of rows or columns of the regions. The
        other changes keep the size of their regions.
        """
        numbers: list[int] = []
        by_side: dict[tuple[int, bool], list[tuple[int, int]]] = defaultdict(list)
        for number in np.flatnonzero(self.candidates.open).tolist():
            other = self.candidates.layouts[number]
            if not _differ_in_counts_and_sides(layout, other):
                continue
            counts = _counts(layout), _counts(other)
            count_changes = sum(abs(new - old) for old, new in zip(*counts, strict=True))
            sides = enumerate(zip(_sides(layout), _sides(other), strict=True))
            side_changes = [(side, new - old) for side, (old, new) in sides if new != old]
            if count_changes == 1 and not side_changes:
                numbers.append(number)
            elif count_changes == 0 and len(side_changes) == 1:
                ((side, change),) = side_changes
                by_side[side, change > 0].append((abs(change), number))
        return numbers + [min(changes)[1] for changes in by_side.values()]

    def smallest_candidate(self) -> Pick | None:
        """Return the untried layout with the lowest optimistic byte forecast that may fit, or None.

        Forecasts are optimistic: their standard deviation is subtracted. It is large for layouts
        that differ much from those tried so far, so these are tried as well.
        """
        needed_bytes = self._bytes(optimistic=True)
        numbers = np.flatnonzero(self.candidates.open & (needed_bytes <= self.candidates.max_bytes)).tolist()
        return self._lowest_forecast(numbers, needed_bytes)

    def _lowest_forecast(self, numbers: list[int], forecasts: F64) -> Pick | None:
        """Return the layout with the lowest forecast among some layouts of the family.

        Args:
            numbers: Indices of the layouts to consider.
            forecasts: float64 ``[candidates]``: forecast cycles or bytes of each layout of the
                family.

        Returns:
            The layout; None if there are none to consider.
        """
        if not numbers:
            return None
        best = numbers[int(np.argmin(forecasts[numbers]))]
        return Pick(float(forecasts[best]), self, best)

    def learn(self, number: int, needed_bytes: float, trial: Trial | None) -> None:
        """Update the forecasts of the family with the result of a trial.

        Args:
            number: Index of the layout.
            needed_bytes: Bytes per PE that the layout needs for weights, KV cache and activations.
            trial: The fastest trial of the layout; None if the layout was not timed.
        """
        terms = self.candidates.terms[number]
        byte_forecast = self._further_bytes[self.candidates.layouts[number].mesh is not None]
        byte_forecast.learn(terms, max(1.0, needed_bytes - self.candidates.min_bytes[number]))
        if trial is not None and trial.generated_cycles is not None:
            self._generated.learn(terms, max(1.0, trial.generated_cycles))
        if trial is not None and trial.prompts is not None:
            self._prompts.learn(self.candidates.prompt_terms[number], trial.prompts.cycles)

    def _bytes(self, *, optimistic: bool = False) -> F64:
        """Return the forecast of each layout's bytes per PE, float64 ``[candidates]``.

        The forecast is the lower bound of the layout plus a linear model of the additional bytes.
        Layouts on a part of the mesh and on the whole mesh have separate models.

        Args:
            optimistic: True to subtract the standard deviation of the additional bytes.
        """
        is_part = np.array([layout.mesh is not None for layout in self.candidates.layouts])
        on_part, on_whole = (self._forecast_further_bytes(part=part, optimistic=optimistic) for part in (True, False))
        return self.candidates.min_bytes + np.where(is_part, on_part, on_whole)

    def _forecast_further_bytes(self, *, part: bool, optimistic: bool) -> F64:
        """Return the forecast of each layout's bytes beyond its lower bound, float64 ``[candidates]``.

        Args:
            part: True to use the linear model of layouts on a part of the mesh.
            optimistic: True to subtract the standard deviation.
        """
        forecast, terms = self._further_bytes[part], self.candidates.terms
        return forecast.of(terms) if not optimistic else np.maximum(forecast.of(terms) - forecast.deviation(terms), 0.0)


def _optimistic(cycles: F64, deviation: F64) -> F64:
    """Return forecasts minus their standard deviations, limited to `MAX_OPTIMISM` of the forecasts.

    Args:
        cycles, deviation: float64 ``[candidates]``.
    """
    return np.asarray(cycles - np.minimum(deviation, MAX_OPTIMISM * cycles), np.float64)


def _counts(layout: Layout) -> tuple[int, int, int]:
    """Return the bands of a layout, the regions of each band, and 1 if it is transposed, else 0."""
    return layout.bands, layout.per_band, int(layout.is_transposed)


def _sides(layout: Layout) -> tuple[int, int]:
    """Return the rows and columns of a region on a part of each wafer; zeros for whole wafers."""
    if layout.mesh is None:
        return 0, 0
    return layout.mesh[0] // layout.bands, layout.mesh[1] // layout.per_band


def _differ_in_counts_and_sides(layout: Layout, other: Layout) -> bool:
    """Return whether two layouts differ at most in the counts and sides of their regions.

    Both are on whole wafers, or both on parts of them.
    """
    bands, per_band, is_transposed = layout.bands, layout.per_band, layout.is_transposed
    same_kind = other._replace(bands=bands, per_band=per_band, is_transposed=is_transposed, mesh=layout.mesh)
    return same_kind == layout and (layout.mesh is None) == (other.mesh is None)
