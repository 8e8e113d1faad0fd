"""Trials in small, the layout of the best forecast first, while any promises to be faster than what was tried."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from wse.compiler.options import REPORT
from wse.compiler.search.exploring.layout_family import PATIENCE, LayoutFamily, Pick
from wse.compiler.search.trial import Trial
from wse.compiler.search.trial_setup import TrialSetup
from wse.compiler.search.trials import deciding_trials, try_layout
from wse.compiler.strategies import strategy
from wse.errors import BadMesh, DoesNotFit
from wse_mappings.strategies.strategy import Layout

MOST_TIMED, MOST_MISFITS, MOST_CUT = 24, 8, 48
"""Layouts that are timed on a reduced model; that are tried and do not fit; whose weights alone do not."""
COARSE, FINE = 1, 4
"""Sides of regions for each time that a side doubles: of all layouts, and near the fastest."""


def explore(setup: TrialSetup) -> list[Trial]:
    """Return the trials of layouts on a reduced model (one layer of each kind), among them about the fastest layout.

    Layouts are compared by the cycles of the longer phase: prefill, or decode over the passes in flight at once.

    1. The layout with the best forecast, of those forecast to fit, is tried, and the forecasts learn from it. If none
       is forecast to fit and none was timed yet, the one forecast to need the fewest bytes is tried. This is repeated
       until no forecast, less the usual error, beats the fastest trial, or ``PATIENCE`` trials in a row did not.
    2. For one user: layouts on whole wafers, then on parts of each, then with regions of about the size of the fastest.
       For many users: layouts on whole wafers, then with other placements of experts, then with blocks cut into parts.
    3. The fastest is tried with the placements of experts, and then the fastest with the groups, that the strategy
       needs tried, unless each all-reduce has groups of its own in the end. Where nothing fits so far, the emptiest
       layouts are tried.

    Raises:
        BadMesh: the mesh has room for none of them.
        DoesNotFit: none can be cut.
    """
    exploration, on_whole_wafers = _Exploration(setup), setup.layouts()
    if setup.many_users:
        for layouts in (on_whole_wafers, *setup.fallback_layouts(on_whole_wafers)):
            exploration.add(layouts)
            exploration.try_while_faster()
    else:
        _explore_for_one_user(exploration, setup, on_whole_wafers)
    exploration.try_placements()
    exploration.try_groups(() if setup.fits_trees else strategy(setup.options.mapping).group_counts)
    if exploration.fastest is None:
        exploration.trials += emptiest_trials(setup) or exploration.nearest_trials()
    if exploration.errors and not exploration.trials:
        raise exploration.errors[0]
    return exploration.trials


def _explore_for_one_user(exploration: _Exploration, setup: TrialSetup, on_whole_wafers: list[Layout]) -> None:
    """Try layouts on whole wafers, then on rectangles of each wafer, then on regions of about the size of the fastest.

    If none of the emptiest layouts fits, all layouts are replaced by those with other placements of experts, and these
    by those with blocks cut into parts.
    """
    for fallback in setup.fallback_layouts(on_whole_wafers):
        if any(trial.fits for trial in _emptiest(replace(setup, timing=None), on_whole_wafers)):
            break
        on_whole_wafers = fallback
    exploration.add(on_whole_wafers)
    exploration.try_while_faster()
    smaller = strategy(setup.options.mapping).smaller
    exploration.add(part for layout in on_whole_wafers for part in smaller(setup.demand, layout, COARSE))
    exploration.try_while_faster()
    refined: set[Layout] = set()
    while (best := exploration.fastest) is not None and best.layout not in refined:
        refined.add(best.layout)
        sides = best.layout.region(setup.demand)
        exploration.add(near for layout in on_whole_wafers for near in _near_layouts(setup, layout, sides))
        exploration.try_while_faster()


def emptiest_trials(setup: TrialSetup) -> list[Trial]:
    """Return the trials of the layouts with the lowest forecast of bytes, up to the first that fits."""
    layouts = setup.layouts()
    trials: list[Trial] = []
    for tried in (layouts, *setup.fallback_layouts(layouts)):
        trials += _emptiest(setup, tried)
        if any(trial.fits for trial in trials):
            break
    return trials


def _emptiest(setup: TrialSetup, layouts: Sequence[Layout]) -> list[Trial]:
    """Return the trials of given layouts in the order of their forecast bytes, up to the first that fits."""
    exploration = _Exploration(setup)
    exploration.add(layouts)
    while exploration.goes_on and exploration.try_emptiest():
        if any(trial.fits for trial in exploration.trials):
            break
    return exploration.trials


def _near_layouts(setup: TrialSetup, layout: Layout, sides: tuple[int, int]) -> Iterator[Layout]:
    """Yield a layout on rectangles of each wafer, with regions of half to twice the given rows and columns."""
    demand = setup.demand
    for other in strategy(setup.options.mapping).smaller(demand, layout, FINE):
        if all(side <= 2 * new and new <= 2 * side for side, new in zip(sides, other.region(demand), strict=True)):
            yield other


class _Exploration:
    """The state of a search: the layouts that may be tried, the trials so far, and the forecasts fitted to them."""

    def __init__(self, setup: TrialSetup) -> None:
        self._setup = setup
        self._families: dict[tuple[object, ...], LayoutFamily] = {}
        self._most_bytes = math.inf if setup.options.capacity == REPORT else setup.wafer.sram_bytes_per_pe
        self.trials: list[Trial] = []
        self.errors: list[BadMesh | DoesNotFit] = []
        self._cut = 0  # layouts whose weights alone do not fit
        self._misses: list[float] = []  # how far forecasts of cycles were off, relative
        self._in_vain = 0  # trials since the last that was the fastest, or since layouts were added

    @property
    def fastest(self) -> Trial | None:
        """The trial with the fewest cycles; None where no trial was timed."""
        timed = [trial for trial in self.trials if trial.dominant_cycles is not None]
        return min(timed, key=lambda trial: trial.dominant_cycles or 0.0, default=None)

    @property
    def _fastest_cycles(self) -> float:
        """The cycles of the longer phase of a request on the fastest layout; infinite where no trial was timed."""
        return math.inf if self.fastest is None else self.fastest.dominant_cycles or 0.0

    @property
    def goes_on(self) -> bool:
        """True if more may be tried."""
        misfits = sum(not trial.fits for trial in self.trials) if self._most_bytes < math.inf else 0
        return len(self.trials) - misfits < MOST_TIMED and misfits < MOST_MISFITS and self._cut < MOST_CUT

    def add(self, layouts: Iterable[Layout]) -> None:
        """Add layouts that may be tried."""
        by_family: dict[tuple[object, ...], list[Layout]] = defaultdict(list)
        for layout in layouts:
            of_layout, products = strategy(layout.mapping), self._setup.products(layout)
            if products:
                by_family[of_layout.spans_wafers, of_layout.experts_apart, products, layout.experts].append(layout)
        for key, members in by_family.items():
            if key not in self._families:
                self._families[key] = LayoutFamily(self._setup, members[0].experts, self._free_bytes)
            self._families[key].candidates.add(members)
        self._in_vain = 0

    def try_while_faster(self) -> None:
        """Try layouts in the order of their forecast cycles while one promises to be faster than the best trial."""
        while self.goes_on and (self.try_most_promising() or (self.fastest is None and self.try_emptiest())):
            pass

    def try_most_promising(self) -> bool:
        """Try the layout with the best forecast; False if no forecast is below the fastest trial."""
        pick = _first(family.fastest(self._free_bytes) for family in self._families.values())
        fastest = self._fastest_cycles
        if pick is None or self._in_vain == PATIENCE or pick.forecast * (1 - self._usual_miss) >= fastest:
            return False
        _, cycles = self._try(pick)
        if cycles is not None:
            self._misses.append(abs(pick.forecast / cycles - 1))
            self._in_vain = 0 if cycles < fastest else self._in_vain + 1
        return True

    def try_emptiest(self) -> bool:
        """Try the layout with the lowest forecast of bytes; return False if none promises to fit."""
        pick = _first(family.emptiest(self._free_bytes) for family in self._families.values())
        if pick is None:
            return False
        needed, _ = self._try(pick)
        if needed is not None:
            pick.family.byte_misses.append(abs(pick.forecast / needed - 1))
        return True

    def nearest_trials(self) -> list[Trial]:
        """Return the trial of the layout that exceeds the available memory least.

        None where no layout can be tried.
        """
        known = [
            (family, number) for family in self._families.values() for number in range(len(family.candidates.layouts))
        ]
        for family, number in sorted(known, key=lambda one: one[0].candidates.least_bytes[one[1]])[:MOST_MISFITS]:
            layout = family.candidates.layouts[number]
            try:
                return [try_layout(replace(self._setup, timing=None), layout, self._setup.products(layout)[-1])]
            except (BadMesh, DoesNotFit) as error:
                self.errors.append(error)
        return []

    @property
    def _free_bytes(self) -> float:
        return self._most_bytes - self._setup.reserved_bytes

    @property
    def _usual_miss(self) -> float:
        """Return the typical relative error of the forecasts so far."""
        return float(np.median(self._misses[-PATIENCE:])) if self._misses else 0.0

    def _try(self, pick: Pick) -> tuple[float | None, float | None]:
        """Try a layout whose weights fit, and update the forecasts of bytes and cycles.

        Returns its bytes per PE without the reserved ones, and its dominant cycles.
        """
        setup, candidates = self._setup, pick.family.candidates
        layout = candidates.layouts[pick.number]
        products = setup.products(layout)
        candidates.open[pick.number] = False
        trials: list[Trial] = []
        try:
            needed = setup.least_bytes(layout, products[-1])
            if setup.allows(needed):
                trials = deciding_trials(setup, layout, products, self._fastest_cycles)
        except (BadMesh, DoesNotFit) as error:
            self.errors.append(error)
            return None, None
        self._cut += not trials
        self.trials += trials
        needed = min((trial.needed_bytes for trial in trials if trial.needed_bytes), default=needed)
        timed = [(trial.dominant_cycles, trial.passes) for trial in trials if trial.dominant_cycles is not None]
        cycles, passes = min(timed, default=(None, 1))
        free_of_reserved = needed - setup.reserved_bytes
        pick.family.learn(pick.number, free_of_reserved, None if cycles is None else cycles * passes)
        return free_of_reserved, cycles

    def try_placements(self) -> None:
        """Try the fastest layout with the other placements of experts."""
        best, setup = self.fastest, self._setup
        if best is not None and best.layout.experts is None:
            for other in setup.with_other_expert_placements([best.layout]):
                self._try_other(other, best.prefill, self._fastest_cycles)

    def try_groups(self, counts: Sequence[int]) -> None:
        """Try the fastest layout with other numbers of groups in its all-reduces."""
        best, setup = self.fastest, self._setup
        if best is None:
            return
        shortest = setup.shortest_line(best.layout, best.prefill)
        for groups in counts:
            if groups <= shortest and groups != setup.options.groups:
                self._try_other(best.layout._replace(groups=groups), best.prefill)

    def _try_other(self, layout: Layout, prefill: str, worth_cycles: float = math.inf) -> None:
        """Try the fastest layout with one property changed, if the changed layout is possible."""
        try:
            self.trials.append(try_layout(self._setup, layout, prefill, worth_cycles))
        except (BadMesh, DoesNotFit) as error:
            self.errors.append(error)


def _first(picks: Iterable[Pick | None]) -> Pick | None:
    """Return the pick of the least forecast."""
    return min((pick for pick in picks if pick is not None), key=lambda pick: pick.forecast, default=None)
