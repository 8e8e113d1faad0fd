"""Finalists: the layouts that promise the fastest requests, each compiled fully with chunks and trees that suit it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from wse.compiler.options import FITTED_TREES, THIN_GEMM, WIDE_UNPACKING
from wse.compiler.pipeline import compile_choice
from wse.compiler.search.fitting.attention_columns import fit_attention, free_columns
from wse.compiler.search.fitting.chunks import largest_chunks
from wse.compiler.search.fitting.unpacking import fit_unpacking
from wse.compiler.search.rewrite_search import RewriteTrial
from wse.compiler.search.tile_sizes import WITHOUT_TILES
from wse.compiler.search.trees import FittedTrees, fit_trees
from wse.compiler.search.trial import Trial
from wse.compiler.search.trial_setup import TrialSetup
from wse.compiler.search.trials import dominant_cycles, fastest_product_first, request_cycles
from wse.errors import DoesNotFit
from wse.program.program import Program
from wse_mappings.strategies.strategy import Layout

Cost = Callable[[Program], float]

NEAREST = 4
"""Maximum number of layouts, fastest first, whose prompts are timed with about their best chunks."""


class Finalist(NamedTuple):
    """A fully compiled layout: its trial, the choices made for it with their savings, and the Program without tiles."""

    trial: Trial
    saved_by_attention: float
    unpacking: tuple[RewriteTrial, ...]
    trees: FittedTrees
    program: Program

    @property
    def attention_cols(self) -> int:
        """The maximum number of columns of attention; 0 for all columns."""
        return self.trees.choice.attention_cols


class Finalists:
    """The layouts of a search that are compiled fully."""

    def __init__(self, setup: TrialSetup, fitted: Collection[str], *, has_cost: bool) -> None:
        self._setup = setup
        self._fitted = fitted
        self._has_cost = has_cost
        self._trials: dict[tuple[Layout, str], Trial] = {}
        self._sized: dict[tuple[Layout, str | None], list[Trial]] = {}
        self._seen_keys: set[object] = set()
        self.finalists: list[Finalist] = []
        self.failures: list[DoesNotFit] = []

    def compile_fastest(self, fitting: Sequence[list[Trial]], max_layouts: int, margin: float) -> None:
        """Compile the layouts with the fastest requests, without those compiled before and near-duplicates of
        finalists.

        Args:
            fitting: The trials of each layout that fits, the fastest first.
            max_layouts: Maximum number of layouts; 1 without a cost function.
            margin: Maximum excess of a layout's request cycles over those of the first one, as a fraction.
        """
        compiled: list[Trial] = []
        for products in self._fastest_request_first(fitting):
            if compiled and (
                not self._has_cost
                or len(compiled) == max_layouts
                or self._is_too_slow(products[0], compiled[0], margin)
            ):
                break
            keys = self._duplicate_keys(products[0])
            if products[0].key in self._trials or keys & self._seen_keys:
                continue
            trial = self._compile_first(products)
            if trial is not None:
                self._seen_keys |= keys
                compiled.append(trial)

    def with_updated_trials(self, trials: Sequence[Trial]) -> list[Trial]:
        """Return the trials of a search, with those that were compiled replaced by trials with their own chunks."""
        return [*(trial for trial in trials if trial.key not in self._trials), *self._trials.values()]

    def _duplicate_keys(self, trial: Trial) -> set[object]:
        """Return the keys that identify near-duplicates. No two finalists share a key.

        For one user the only key is the layout. For many users there are two: the layout without the groups of its
        all-reduces, placement of experts and parts of blocks; and the bytes per PE with the cycles per token.
        """
        if not self._setup.many_users:
            return {trial.layout}
        cut = trial.layout._replace(groups=None, experts=None, block_parts=0)
        return {cut, (trial.needed_bytes, trial.token_cycles)}

    def _fastest_request_first(self, fitting: Sequence[list[Trial]]) -> Iterator[list[Trial]]:
        """Yield the trials of each layout with the best chunks, the fastest request first.

        Only the first `NEAREST` layouts are ordered by the whole request: fewer where the longer phase of one alone
        takes longer than the whole request on another. The others follow in their given order.
        """
        sized: list[list[Trial]] = []
        for products in fitting[:NEAREST]:
            fastest = min((request_cycles(self._setup, one[0]) for one in sized), default=math.inf)
            if dominant_cycles(products[0]) > fastest:
                break
            sized.append(self._with_chunks(products, sized[0][0].prefill if sized else None))
        yield from sorted(sized, key=lambda products: request_cycles(self._setup, products[0]))
        for products in fitting[len(sized) :]:
            yield self._with_chunks(products, sized[0][0].prefill)

    def _with_chunks(self, products: list[Trial], preferred: str | None) -> list[Trial]:
        """Return the trials of a layout as `fastest_product_first` orders them, one list for each preferred product."""
        key = products[0].layout, preferred
        if key not in self._sized:
            self._sized[key] = fastest_product_first(self._setup, products, preferred)
        return self._sized[key]

    def _is_too_slow(self, trial: Trial, fastest: Trial, margin: float) -> bool:
        return request_cycles(self._setup, trial) > (1 + margin) * request_cycles(self._setup, fastest)

    def _compile_first(self, products: Sequence[Trial]) -> Trial | None:
        """Compile a layout with its prefill products in order; return the first trial that compiled.

        Stop at the first that fits, unless a cost function decides between products whose prompts were not timed.
        """
        first = None
        for trial in products:
            self._trials[trial.key] = trial
            known = next((one.attention_cols for one in self.finalists if one.trial.prefill == THIN_GEMM), None)
            try:
                self.finalists.append(_compile(self._setup, trial, self._fitted, known))
            except DoesNotFit as error:
                self.failures.append(error)
                continue
            first = first or trial
            if not self._has_cost or trial.prompts is not None:
                break
        return first


def _compile(setup: TrialSetup, trial: Trial, fitted: Collection[str], attention_cols: int | None) -> Finalist:
    """Compile the layout of a trial fully, without the indices of its tiles.

    Args:
        setup: The inputs of the search.
        trial: The layout, and about its best chunk of a prompt.
        fitted: Names of rewrites whose settings are fitted to the layout.
        attention_cols: Columns of attention on a layout that is about as fast; None where there is none.

    Raises:
        DoesNotFit: the layout does not fit, or needs too many colours.
    """
    options = setup.options_on(trial.layout)
    setup = replace(setup, attention_cols=free_columns(setup, trial))
    choice, saved_by_attention = fit_attention(setup, trial, largest_chunks(setup, trial), attention_cols)
    setup = replace(setup, attention_cols=choice.attention_cols)
    choice, unpacking = fit_unpacking(setup, trial, choice) if WIDE_UNPACKING in fitted else (choice, ())
    trees = fit_trees(setup, trial.layout, choice) if FITTED_TREES in fitted else FittedTrees(choice, {})
    program = compile_choice(setup.spec, setup.wafer, setup.software, options, trees.choice, WITHOUT_TILES)
    return Finalist(trial, saved_by_attention, unpacking, trees, program)


def with_cheaper_attention(setup: TrialSetup, narrow: Finalist, fitted: Collection[str], cost: Cost) -> Finalist:
    """Return a finalist with attention on some columns, or on all columns if that costs less.

    Its sums have routes of their own, and fewer colours are left for those of all phases.
    """
    try:
        wide = _compile(setup, narrow.trial, fitted, 0)
    except DoesNotFit:
        return narrow
    return min(narrow, wide, key=lambda one: cost(one.program))


def tree_trials(trees: FittedTrees, phase: str) -> tuple[RewriteTrial, ...]:
    """Return the trial of fitted trees in a phase, if the phase has any."""
    if not trees.choice.trees:
        return ()
    return (RewriteTrial(name=FITTED_TREES, setting=1, saved_cycles=trees.saved_cycles.get(phase, 0.0)),)
