"""Finalists of a search: the layouts that promise the fastest requests, compiled fully."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from wse.compiler.choice import Rewrites
from wse.compiler.options import OPTIMIZED
from wse.compiler.rewrites.catalogue import known_rewrites
from wse.compiler.search.finalist import Finalist, compile_finalist
from wse.compiler.search.rewrite_search import UsefulRewrites, useful_rewrites
from wse.compiler.search.trials.trial import Trial
from wse.compiler.search.trials.trial_setup import TrialSetup
from wse.compiler.search.trials.try_layout import fastest_product_first
from wse.errors import DoesNotFit
from wse.program.program import Program
from wse_mappings.regions.layout import Layout

Cost = Callable[[Program], float]

NEAREST = 4
"""Maximum number of layouts, fastest first, whose prompts are timed with all matrix products."""


class Finalists:
    """Layouts on which a search has compiled the whole model so far.

    `search` calls `compile_fastest`, possibly several times with different lists of layouts.

    Attributes:
        finalists: The compiled layouts.
        failures: Errors of layouts that did not fit when compiled fully.
    """

    def __init__(self, setup: TrialSetup, rewrites: Rewrites, fitted_names: Iterable[str], *, has_cost: bool) -> None:
        """Create an empty collection of compiled layouts.

        Args:
            setup: Inputs that all trials share, such as model, wafer and request.
            rewrites: Rewrites of which those that save cycles on the first layout are used.
            fitted_names: Names of the rewrites whose settings are fitted to each layout.
            has_cost: Whether a cost function will choose between the layouts.
        """
        self._setup = setup
        self._rewrites = rewrites
        self._useful_rewrites: UsefulRewrites | None = None  # on the first layout that is tried
        self._rewrites_layout: Layout | None = None  # the first layout that is tried
        self._fitted_names = frozenset(fitted_names)
        self._has_cost = has_cost
        self._trials: dict[tuple[Layout, str], Trial] = {}
        self._timed_products: dict[tuple[Layout, str | None], list[Trial]] = {}
        self._seen_keys: set[object] = set()
        self.finalists: list[Finalist] = []
        self.failures: list[DoesNotFit] = []

    def compile_fastest(
        self, fitting: Sequence[list[Trial]], max_layouts: int, margin: float, *, near_duplicates: bool = False
    ) -> None:
        """Compile the whole model on the layouts that complete a request in the fewest cycles.

        Layouts that were compiled before are skipped.

        Args:
            fitting: Trials of each layout that fits, the fastest first.
            max_layouts: Maximum number of layouts to compile. Without a cost function, which would
                choose between them, only one is compiled.
            margin: Maximum excess of a layout's request cycles over the first layout's, as a
                fraction.
            near_duplicates: Whether to compile near-duplicates of compiled layouts as well.
        """
        compiled: list[Trial] = []
        for products in self._fastest_request_first(fitting):
            if compiled and (
                not self._has_cost
                or len(compiled) == max_layouts
                or products[0].request_cycles > (1 + margin) * compiled[0].request_cycles
            ):
                break
            keys = self._duplicate_keys(products[0])
            if products[0].key in self._trials or (keys & self._seen_keys and not near_duplicates):
                continue
            trial = self._compile_first(products)
            if trial is not None:
                self._seen_keys |= keys
                compiled.append(trial)

    def with_updated_trials(self, trials: Sequence[Trial]) -> list[Trial]:
        """Return trials with updated prompt times for the layouts whose compilation was attempted.

        A trial contains estimates for a layout. Before the whole model is compiled on a layout, a
        better prompt chunk size may be chosen for it. Its trial is replaced by one with this size
        and the resulting times, even if the whole model then did not fit. These trials come last.

        Args:
            trials: Trials of all layouts.
        """
        return [*(trial for trial in trials if trial.key not in self._trials), *self._trials.values()]

    def with_own_rewrites(self, finalist: Finalist, cost: Cost) -> Finalist:
        """Return a compiled layout, or its variant with other rewrites if that is cheaper.

        The variant has the rewrites that save cycles on this layout. The given layout has those
        that save cycles on the first compiled layout.

        Args:
            finalist: The compiled layout.
            cost: Function that returns the cost of a Program, such as its cycles.
        """
        if finalist.trial.layout == self._rewrites_layout:
            return finalist
        try:
            own_rewrites = self._useful_rewrites_on(finalist.trial)
            if own_rewrites.has_same_settings(finalist.rewrites):
                return finalist
            variant = self._compiled(own_rewrites, finalist.trial)
        except DoesNotFit:
            return finalist
        return min(finalist, variant, key=lambda compiled: cost(compiled.program))

    def with_more_rewrites(self, finalist: Finalist, cost: Cost) -> Finalist:
        """Return a compiled layout, or its variant with more of the rewrites if that is cheaper.

        Rewrites are chosen by the cycles of a layer in decode, with default all-reduce trees. With
        fitted trees, or in prefill, others may save cycles as well. They are added one after another,
        with their preferred settings, and kept if the whole request becomes cheaper. If the request
        lists its rewrites, none is added.

        Args:
            finalist: The compiled layout.
            cost: Function that returns the cost of a Program, such as its cycles.
        """
        if self._setup.options.schedule != OPTIMIZED:
            return finalist
        trial = finalist.trial
        used_names = {name for name, _ in finalist.rewrites.setup.rewrites}
        for name, setting in self._rewrites:
            is_useless = known_rewrites()[name].between_stages and not trial.layout.block_parts
            if name in used_names or is_useless:
                continue
            try:
                variant = self._compiled(finalist.rewrites.with_rewrite(name, setting), trial)
            except DoesNotFit:
                continue
            finalist = min(finalist, variant, key=lambda compiled: cost(compiled.program))
        return finalist

    def with_cheaper_attention(self, narrow_finalist: Finalist, cost: Cost) -> Finalist:
        """Return a compiled layout, or its variant with attention on all columns if that is cheaper.

        Attention on fewer columns needs additional routes for sums over these columns, which leaves
        fewer colours for other routes. Attention on all columns may therefore cost less.

        Args:
            narrow_finalist: The compiled layout, with attention on some columns.
            cost: Function that returns the cost of a Program, such as its cycles.
        """
        rewrites, trial = narrow_finalist.rewrites, narrow_finalist.trial
        try:
            wide_finalist = self._compiled(rewrites, trial, all_columns=True)
        except DoesNotFit:
            return narrow_finalist
        return min(narrow_finalist, wide_finalist, key=lambda finalist: cost(finalist.program))

    def _useful_rewrites_on(self, trial: Trial) -> UsefulRewrites:
        """Return the rewrites that save cycles on the layout of a trial.

        They are cached for other searches for several users that differ only in their number.
        """
        shared_setup = self._setup.for_any_users
        find = shared_setup.options.cache.of(useful_rewrites)
        return find(shared_setup, self._rewrites, trial.with_max_passes(1))

    def _compiled(self, rewrites: UsefulRewrites, trial: Trial, *, all_columns: bool = False) -> Finalist:
        """Compile the whole model on the layout of a trial (`compile_finalist`).

        The result is cached for other searches for several users that differ only in their number.
        """
        compile_cached = self._setup.options.cache.of(compile_finalist, 32)
        shared_trial = trial.with_max_passes(1)
        finalist = compile_cached(rewrites, shared_trial, self._fitted_names, all_columns=all_columns)
        return finalist._replace(trial=trial)

    def _duplicate_keys(self, trial: Trial) -> set[object]:
        """Return keys by which near-duplicates of compiled layouts are recognised and skipped.

        A layout is not compiled if it shares a key with a compiled layout. For one user, the only
        key is the layout. For many users there are two keys:

        - the layout, ignoring its number of all-reduce groups, its expert placement and the number
          of parts of split blocks
        - the bytes per PE together with the cycles per token
        """
        if not self._setup.many_users:
            return {trial.layout}
        cut = trial.layout._replace(groups=None, experts=None, block_parts=0)
        return {cut, (trial.needed_bytes, trial.token_cycles)}

    def _fastest_request_first(self, fitting: Sequence[list[Trial]]) -> Iterator[list[Trial]]:
        """Yield the trials of each layout with suitable prompt chunks, fastest request first.

        1. Time the first layouts with all prefill matrix products, and yield these layouts in order
           of their request cycles. At most `NEAREST` layouts are timed. Timing stops at a layout
           whose generated tokens alone take longer than the whole request on another layout.
        2. Yield the remaining layouts in the given order.

        Args:
            fitting: Trials of each layout that fits, the fastest first.
        """
        timed_layouts: list[list[Trial]] = []
        for products in fitting[:NEAREST]:  # 1
            fastest_cycles = min((layout_trials[0].request_cycles for layout_trials in timed_layouts), default=math.inf)
            if products[0].decode_cycles > fastest_cycles:
                break
            timed_layouts.append(self._with_products(products, timed_layouts[0][0].prefill if timed_layouts else None))
        yield from sorted(timed_layouts, key=lambda products: products[0].request_cycles)
        for products in fitting[len(timed_layouts) :]:  # 2
            yield self._with_products(products, timed_layouts[0][0].prefill)

    def _with_products(self, products: list[Trial], preferred: str | None) -> list[Trial]:
        """Return the trials of a layout with timed prompts, fastest matrix product first.

        `fastest_product_first` computes the result, which is cached per layout.

        Args:
            products: Trials of the layout, one per prefill matrix product.
            preferred: The only product to consider, if the layout supports it; None for all.
        """
        key = products[0].layout, preferred
        if key not in self._timed_products:
            self._timed_products[key] = fastest_product_first(self._setup, products, preferred)
        return self._timed_products[key]

    def _compile_first(self, products: Sequence[Trial]) -> Trial | None:
        """Compile the whole model on a layout, with one or more prefill matrix products.

        If the search is for one user, or if the products have not been timed, all given products
        are compiled, and the cost function decides between them later. Otherwise, and without a
        cost function, products are tried until one fits.

        Args:
            products: Trials of the layout, one per matrix product.

        Returns:
            The first trial that compiled; None if none fits.
        """
        first_compiled = None
        for trial in products:
            self._trials[trial.key] = trial
            try:
                if self._useful_rewrites is None:
                    self._useful_rewrites = self._useful_rewrites_on(trial)
                    self._rewrites_layout = trial.layout
                self.finalists.append(self._compiled(self._useful_rewrites, trial))
            except DoesNotFit as error:
                self.failures.append(error)
                continue
            first_compiled = first_compiled or trial
            if not self._has_cost or (trial.prompts is not None and self._setup.many_users):
                break
        return first_compiled
