"""Families of layouts that share forecasts of cycles and bytes, which learn from every layout that is tried."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wse.arrays import F64
from wse.compiler.search.exploring.candidates import Candidates
from wse.compiler.search.exploring.forecast import Forecast, features
from wse.compiler.search.trial_setup import TrialSetup
from wse.models.tensors.model_tensors import parameters_per_token

PATIENCE = 3
"""Layouts that are tried one after the other, none of them the fastest so far, before a search stops."""
ROW_HOPS, COLUMN_HOPS = 2, 7
"""Hops of a layer in lengths of a row and of a column, as a first guess: all-reduces from the ends to the middle and
back (He et al., WaferLLM, OSDI 2025)."""


class Pick(NamedTuple):
    """A candidate layout by its index in its family, with its forecast cycles or bytes."""

    forecast: float
    family: LayoutFamily
    number: int


class LayoutFamily:
    """Layouts that share one forecast: with the same prefill product and the same tensors divided over wafers.

    Their ``experts`` are placed alike; they may need ``most_bytes`` beside those that are reserved.
    """

    def __init__(self, setup: TrialSetup, experts: str | None, most_bytes: float) -> None:
        spec, wafer = setup.spec, setup.wafer
        hops = setup.options.context * spec.layer_count * wafer.hop_cycles
        macs = setup.options.context * parameters_per_token(spec) / wafer.mac_fp16_fp32_per_cycle
        self.candidates = Candidates(demand=setup.demand_with(experts), most_bytes=most_bytes)
        self._cycles = Forecast((0.0, COLUMN_HOPS * hops, ROW_HOPS * hops, 0.0, 0.0, macs, 0.0))
        # beside the least, on a part of a mesh and on all of it
        self._further_bytes = {is_part: Forecast((0.0,) * 7) for is_part in (True, False)}
        self._many_users = setup.many_users
        self._cache_bytes = setup.options.batch * setup.cache_bytes_per_pe
        self.byte_misses: list[float] = []  # how far forecasts of bytes were off, of the emptiest layouts, relative

    def fastest(self, free_bytes: float) -> Pick | None:
        """Return the untried candidate with the lowest forecast of cycles among those that may fit; None without one.

        As long as none was timed it is one of a whole mesh, so that each mapping as it is has its turn.
        """
        known, features_of_all = self.candidates, self._features()
        needed_bytes = self._bytes(features_of_all)
        fits = needed_bytes <= free_bytes
        numbers = np.flatnonzero(known.open & fits).tolist()
        if not self._cycles.trials:
            numbers = [number for number in numbers if known.layouts[number].mesh is None] or numbers
        cycles = self._cycles.of(features_of_all)
        if self._many_users:
            cycles = cycles / self._passes_at_once(free_bytes - needed_bytes)
        return self._least(numbers, cycles)

    def _passes_at_once(self, free_bytes: F64) -> F64:
        """Estimate the passes in flight of each candidate: at most one per stage, and no more than KV caches fit.

        Args:
            free_bytes: Free bytes per PE beside the caches of one pass, as forecast; float64 ``[candidates]``.
        """
        passes = 1 + np.floor(free_bytes / self._cache_bytes)
        return np.asarray(np.clip(passes, 1.0, np.maximum(1.0, self.candidates.stages)), np.float64)

    def emptiest(self, free_bytes: float) -> Pick | None:
        """Return the untried candidate with the lowest forecast of bytes among those that may fit; None without one.

        Nor is there one where it would need too many even if the forecast were off by as much as the last ones were.
        """
        known, misses = self.candidates, self.byte_misses[-PATIENCE:]
        numbers = np.flatnonzero(known.open & (known.least_bytes <= free_bytes)).tolist()
        pick = self._least(numbers, self._bytes(self._features()))
        settled = len(misses) == PATIENCE and pick is not None and pick.forecast * (1 - max(misses)) > free_bytes
        return None if settled else pick

    def _least(self, numbers: list[int], forecasts: F64) -> Pick | None:
        if not numbers:
            return None
        best = numbers[int(np.argmin(forecasts[numbers]))]
        return Pick(float(forecasts[best]), self, best)

    def learn(self, number: int, needed_bytes: float, cycles: float | None) -> None:
        """Update the forecasts with the bytes that a candidate needs, and with its cycles if it was timed."""
        of_candidate = self._features()[number]
        further = self._further_bytes[self.candidates.layouts[number].mesh is not None]
        further.learn(of_candidate, max(1.0, needed_bytes - self.candidates.least_bytes[number]))
        if cycles is not None:
            self._cycles.learn(of_candidate, cycles)

    def _bytes(self, features_of_all: F64) -> F64:
        """Return the forecast bytes of each candidate; those on a part of the mesh are forecast from each other."""
        is_part = np.array([layout.mesh is not None for layout in self.candidates.layouts])
        further = {part: forecast.of(features_of_all) for part, forecast in self._further_bytes.items()}
        return self.candidates.least_bytes + np.where(is_part, further[True], further[False])

    def _features(self) -> F64:
        of = self.candidates
        return features(of.rows, of.cols, of.even_rows, of.even_cols, of.stages)
