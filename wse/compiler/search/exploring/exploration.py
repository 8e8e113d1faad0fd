"""Exploration: trials of some layouts, used to forecast the remaining layouts.

From the trials so far, a linear model forecasts the cycles and bytes of untried layouts
(`wse.compiler.search.exploring.candidates`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from wse.compiler.options import REPORT
from wse.compiler.search.exploring.layout_family import PATIENCE, LayoutFamily, Pick
from wse.compiler.search.fallback_layouts import with_cut_blocks, with_other_expert_placements
from wse.compiler.search.trials.trial import TRIAL_ERROR, Trial
from wse.compiler.search.trials.trial_setup import TrialSetup
from wse.compiler.search.trials.try_layout import try_layout, try_products
from wse.compiler.strategies import strategy
from wse.errors import BadMesh, DoesNotFit
from wse_mappings.regions.layout import Layout

MIN_TIMED = 5
"""Number of timed trials before a search may stop because forecasts exceed the fastest trial.

Trials of all sets of layouts count. A forecast has seven weights, and is too uncertain after fewer.
"""
MAX_TIMED, MAX_MISFITS, MAX_CUT = 24, 8, 48
"""Maximum numbers of layouts that are timed, that do not fit, and whose weights do not fit.

Searches for many users accept twice as many that do not fit, because they do not look for layouts
that fit first.
"""


MAX_PLACED = 3
"""Maximum number of layouts that are tried with other placements of experts."""
MAX_SPLIT = 2
"""Maximum number of layouts with whole layers that are tried with split feed-forward blocks."""


class Exploration:
    """State of a search that tries layouts and uses each trial to improve its forecasts.

    A trial compiles a layout on a reduced model (one layer of each kind). The forecasts predict the
    cycles and bytes of untried layouts, so that only promising ones are tried.

    Attributes:
        trials: Trials so far, including those of layouts that do not fit.
        errors: Errors of layouts that could not be tried.
    """

    def __init__(self, setup: TrialSetup) -> None:
        self._setup = setup
        self._families: dict[tuple[object, ...], LayoutFamily] = {}
        # bytes per PE for weights, KV cache and activations; infinite if layouts need not fit
        free_bytes = setup.wafer.sram_bytes_per_pe - setup.reserved_bytes
        self._free_bytes = math.inf if setup.options.capacity == REPORT else free_bytes
        self.trials: list[Trial] = []
        self.errors: list[BadMesh | DoesNotFit] = []
        self._known_places: set[object] = set()  # of the layouts tried so far
        self._oversized_count = 0  # layouts whose weights alone do not fit
        self._trials_in_vain = 0  # trials since the last fastest one, or since layouts were added

    @property
    def fastest_trial(self) -> Trial | None:
        """The trial with the fewest cycles for a request; None if no trial was timed.

        A trial compiles a layout on a reduced model (one layer of each kind).
        """
        timed_trials = [trial for trial in self.trials if trial.prompts is not None]
        return min(timed_trials, key=lambda trial: trial.request_cycles, default=None)

    @property
    def _fastest_cycles(self) -> float:
        """Lowest cycle count of a request over all trials; infinity if no trial was timed."""
        return math.inf if self.fastest_trial is None else self.fastest_trial.request_cycles

    @property
    def may_continue(self) -> bool:
        """True until the search has tried the maximum number of layouts.

        There are separate limits for layouts that were timed, layouts that did not fit, and layouts
        whose weights alone did not fit.
        """
        misfits = sum(not trial.fits for trial in self.trials) if self._free_bytes < math.inf else 0
        max_misfits = 2 * MAX_MISFITS if self._setup.many_users else MAX_MISFITS
        return len(self.trials) - misfits < MAX_TIMED and misfits < max_misfits and self._oversized_count < MAX_CUT

    def add(self, layouts: Iterable[Layout]) -> None:
        """Add layouts (ways to divide wafers into regions) to the layouts that may be tried.

        Layouts of the same kind, for example with the same expert placement, form a family. Their
        cycles and bytes are forecast by the same fitted models. Layouts on which no requested
        matrix product is possible for prefill are skipped.
        """
        by_family: dict[tuple[object, ...], list[Layout]] = defaultdict(list)
        for layout in layouts:
            mapping_strategy, products = strategy(layout.mapping), self._setup.products(layout)
            if products:
                by_family[
                    mapping_strategy.spans_wafers, mapping_strategy.experts_apart, products, layout.experts
                ].append(layout)
        for key, members in by_family.items():
            if key not in self._families:
                self._families[key] = LayoutFamily(self._setup, members[0].experts, self._free_bytes)
            self._families[key].candidates.add(members)
        self._trials_in_vain = 0

    def try_while_faster(self) -> None:
        """Try layouts in ascending order of forecast cycles, as long as one may become the fastest.

        If no layout is forecast to fit and none has been timed yet, the layout with the lowest byte
        forecast is tried instead.
        """
        while self.may_continue and (self.try_most_promising() or (self.fastest_trial is None and self.try_smallest())):
            pass

    def try_most_promising(self) -> bool:
        """Try the layout with the lowest cycle forecast; return whether one was tried.

        Only layouts that are forecast to fit are considered. None is tried if the last `PATIENCE`
        timed trials brought no improvement. After `MIN_TIMED` timed trials, none is tried either if
        the lowest forecast, which is optimistic, exceeds the cycle count of the fastest trial by
        `TRIAL_ERROR`. (A layout that exceeds it by less may be the fastest one when the whole model
        is compiled.)
        """
        pick = _first(family.best_candidate() for family in self._families.values())
        fastest_cycles = self._fastest_cycles
        if pick is None or self._trials_in_vain == PATIENCE:
            return False
        timed_count = sum(trial.generated_cycles is not None for trial in self.trials)
        if timed_count >= MIN_TIMED and pick.forecast >= (1 + TRIAL_ERROR) * fastest_cycles:
            return False
        trial = self._try(pick)
        if trial is not None:
            self._trials_in_vain = 0 if trial.request_cycles < fastest_cycles else self._trials_in_vain + 1
        return True

    def try_neighbours(self) -> None:
        """Try the untried neighbours of the fastest layout, as long as one of them is faster.

        The search stops earlier if it has tried the maximum number of layouts.

        A neighbour has one band more or one fewer, has one region per band more or one fewer, is
        transposed, or has slightly larger or smaller regions. Its cycles may be below the forecast
        by more than the usual error, for example because its sizes need less padding.
        """
        explored: set[Layout] = set()
        while (best := self.fastest_trial) is not None and best.layout not in explored:
            explored.add(best.layout)
            for family in self._families.values():
                for number in family.neighbours(best.layout):
                    if self.may_continue:
                        self._try(Pick(forecast=0.0, family=family, number=number))

    def try_smallest(self) -> bool:
        """Try the layout with the lowest optimistic forecast of bytes; return False if none may fit."""
        pick = _first(family.smallest_candidate() for family in self._families.values())
        if pick is None:
            return False
        self._try(pick)
        return True

    def closest_trials(self) -> list[Trial]:
        """Return a trial of the layout that comes closest to fitting, for the error message.

        This layout has the smallest lower bound on its bytes per PE among the layouts that can be
        tried.

        Returns:
            A list with the trial; an empty list if none of the first `MAX_MISFITS` layouts can be
            tried.
        """
        candidates = [
            (family, number) for family in self._families.values() for number in range(len(family.candidates.layouts))
        ]
        for family, number in sorted(candidates, key=lambda candidate: candidate[0].candidates.min_bytes[candidate[1]])[
            :MAX_MISFITS
        ]:
            layout = family.candidates.layouts[number]
            try:
                return [try_layout(replace(self._setup, timing=None), layout, self._setup.products(layout)[-1])]
            except (BadMesh, DoesNotFit) as error:
                self.errors.append(error)
        return []

    def _try(self, pick: Pick) -> Trial | None:
        """Compile and time a layout on a reduced model, and improve the forecasts with the result.

        A layout whose weights alone do not fit is not compiled. Neither is a layout with the same
        regions as an earlier one.

        Returns:
            The fastest trial of the layout; None if the layout was not timed.
        """
        setup, candidates = self._setup, pick.family.candidates
        layout = candidates.layouts[pick.number]
        products = setup.products(layout)
        candidates.open[pick.number] = False
        trials: list[Trial] = []
        try:
            reduced = setup.reduced_model(layout, products[-1])
            if reduced.place_key in self._known_places:
                return None
            self._known_places.add(reduced.place_key)
            needed_bytes = reduced.min_bytes()
            if setup.allows(needed_bytes):
                trials = try_products(setup, layout, products, self._fastest_cycles)
        except (BadMesh, DoesNotFit) as error:
            self.errors.append(error)
            return None
        self._oversized_count += not trials
        self.trials += trials
        needed_bytes = min((trial.needed_bytes for trial in trials if trial.needed_bytes), default=needed_bytes)
        timed_trials = [trial for trial in trials if trial.generated_cycles is not None]
        fastest_trial = min(timed_trials, key=lambda trial: trial.request_cycles, default=None)
        pick.family.learn(pick.number, needed_bytes - setup.reserved_bytes, fastest_trial)
        return fastest_trial

    def try_placements(self) -> None:
        """Try the fastest layouts with the other expert placements that the mapping offers.

        A placement says which columns of PEs store which experts. How much time it saves depends on
        the layout, so it is tried on `MAX_PLACED` layouts.
        """
        unplaced_trials = [trial for trial in self.trials if trial.layout.experts is None]
        self._try_variants(
            unplaced_trials, MAX_PLACED, lambda layout: with_other_expert_placements(self._setup, [layout])
        )

    def try_split_blocks(self) -> None:
        """Try the fastest layouts with whole layers also with split feed-forward blocks.

        Forecasts are fitted mostly to layouts with whole layers, and can be wrong for other layouts.
        """
        tried_layouts = {trial.layout for trial in self.trials}
        whole_trials = [trial for trial in self.trials if not trial.layout.block_parts]

        def variants(layout: Layout) -> list[Layout]:
            """Return the untried variants of a layout with split feed-forward blocks."""
            return [other for other in with_cut_blocks(self._setup, [layout]) if other not in tried_layouts]

        self._try_variants(whole_trials, MAX_SPLIT, variants)

    def _try_variants(
        self, trials: Iterable[Trial], max_layouts: int, variants: Callable[[Layout], Iterable[Layout]]
    ) -> None:
        """Try variants of the fastest layouts.

        Args:
            trials: Trials of the layouts to consider. Those without times are left out.
            max_layouts: Maximum number of trials whose layouts are varied.
            variants: Function that returns the variants of a layout.
        """
        timed_trials = [trial for trial in trials if trial.prompts is not None]
        for trial in sorted(timed_trials, key=lambda trial: trial.request_cycles)[:max_layouts]:
            for variant in variants(trial.layout):
                self._try_other(variant, trial.prefill, self._fastest_cycles)

    def try_groups(self, counts: Sequence[int]) -> None:
        """Try the fastest layout with different numbers of groups in its all-reduces.

        An all-reduce is a K-tree, which adds up values within groups of PEs and then among the
        groups.

        Args:
            counts: Numbers of groups to try. Numbers that exceed the PE count of the shortest line
                are skipped.
        """
        best, setup = self.fastest_trial, self._setup
        if best is None:
            return
        shortest_line = setup.shortest_line(best.layout, best.prefill)
        for groups in counts:
            if groups <= shortest_line and groups != setup.options.groups:
                self._try_other(best.layout._replace(groups=groups), best.prefill)

    def _try_other(self, layout: Layout, prefill: str, worth_cycles: float = math.inf) -> None:
        """Try a variant of the fastest layout, and record the error if the variant is impossible.

        Args:
            layout: The variant.
            prefill: Matrix product of prefill, one of ``PREFILL_PRODUCTS``.
            worth_cycles: If the generated tokens of a request take more cycles than this, the
                variant is too slow, and its prompts are not timed.
        """
        try:
            self.trials.append(try_layout(self._setup, layout, prefill, worth_cycles))
        except (BadMesh, DoesNotFit) as error:
            self.errors.append(error)


def _first(picks: Iterable[Pick | None]) -> Pick | None:
    """Return the pick with the lowest forecast; None if there are no picks.

    A pick is a layout with its forecast.
    """
    return min((pick for pick in picks if pick is not None), key=lambda pick: pick.forecast, default=None)
