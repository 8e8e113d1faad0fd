"""Fitting of all-reduce trees: choose the number of groups for each line and message length.

An all-reduce is a K-tree: groups of PEs add up in their middles, and then the middles add up. The
best number of groups depends on the lengths of the line and of the message. Both follow from the
chosen layout, chunks and rewrites, in all phases. A reduced model (`wse.compiler.search.reduced`)
contains all such lengths after lowering. In this module, a *size* is a `TreeSize`: a line and a
message length.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from wse.compiler.choice import Choice, Rewrites, TreeSize
from wse.compiler.options import DECODE, FITTED_TREES, PREFILL, VERIFY, WIDE_UNPACKING, Options
from wse.compiler.search.fitting.tree_costs import TreeCosts, cheapest_groups
from wse.compiler.search.reduced.reduced_model import ReducedModel
from wse.compiler.search.reduced.representatives import reduced_model
from wse.compiler.search.trials.trial import Timer
from wse.compiler.search.trials.trial_setup import TrialSetup
from wse.compiler.state import State
from wse.compiler.symbolic import BlockRun, SymPhase, distinct_phases
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.models.spec import ModelSpec
from wse.number_formats import WORD_BYTES
from wse_mappings.cuts.cache_balance import CacheBalance
from wse_mappings.regions.layout import Layout
from wse_mappings.rounding import ceil_div


class FittedTrees(NamedTuple):
    """Compiler settings in which each all-reduce uses a fast number of groups for its size.

    An all-reduce adds up values within groups of PEs, and then among the groups. Its size is mainly
    the length of its line of PEs and of its messages.

    Attributes:
        choice: The settings, including the number of groups for each size.
        saved_cycles: Cycles that the trees save in one run of each phase, keyed by phase name.
    """

    choice: Choice
    saved_cycles: Mapping[str, float]


def without_fitted(rewrites: Rewrites) -> Rewrites:
    """Remove the rewrites whose settings are tuned separately for each layout.

    These settings are the number of PE groups of each all-reduce (`fitted_trees`), and the number
    of quantised weights that a PE unpacks at a time (`wide_unpacking`). A search tries the
    remaining rewrites one by one.
    """
    return tuple(rewrite for rewrite in rewrites if rewrite[0] not in {WIDE_UNPACKING, FITTED_TREES})


def fit_trees(setup: TrialSetup, layout: Layout, choice: Choice) -> FittedTrees:
    """Choose the number of groups for each all-reduce, so that a request takes fewer cycles.

    An all-reduce is a K-tree, which adds up values within groups of PEs and then among the groups.
    By default, the number of groups with the fewest relays (PEs whose code forwards words) is used.
    All-reduces of one size (length of line and messages) have the same number.

    1. Time each size of all-reduces with other numbers of groups.
    2. Among the sizes that save cycles, choose the ones to change (`_useful_sizes`). More distinct
       trees need more routes, so the cost of rewriting routes is also counted.

    Args:
        setup: Inputs that all trials share, with ``timing``.
        layout: Division of the wafers into regions.
        choice: Compiler settings, including the sizes of chunks and the rewrites.
    """
    timing = setup.timing
    assert timing is not None
    with_trees = choice.with_rewrite(FITTED_TREES)
    # 1. Time each size.
    reduced = _lower(setup, layout, with_trees)
    words = _words(reduced.state, _tokens(setup, timing))
    timed_sizes = {
        size: cheapest_groups(setup, size.pes, words[size], (size.pes_before, size.pes_after)) for size in words
    }
    savings = {size: saving for size, saving in timed_sizes.items() if sum(saving.cycles.values()) > 0}
    # 2. Choose the sizes to fit.
    costs = TreeCosts(reduced, savings)
    fitted_sizes = _useful_sizes(costs, _runs(setup, timing, reduced, choice))
    if not fitted_sizes:
        return FittedTrees(choice, {})
    trees = tuple((size, saving.groups) for size, saving in savings.items() if size in fitted_sizes)
    return FittedTrees(replace(with_trees, trees=trees), costs.saved_cycles(fitted_sizes))


def with_refitted_trees(
    spec: ModelSpec, wafer: WaferSpec, software: SoftwareProfile, options: Options, choice: Choice, timing: Timer
) -> Choice:
    """Return settings whose all-reduce trees are fitted again (`fit_trees`), if they are fitted.

    This is needed after other settings have changed, such as the size of prompt chunks. The sizes
    of all-reduces are then different, and trees that were fitted to other sizes are not used.

    Args:
        spec, wafer, software, options: Inputs of the compilation.
        choice: Compiler settings, with trees that may be fitted to other settings.
        timing: Functions that time Programs.
    """
    if not choice.uses(FITTED_TREES):
        return choice
    bare_choice = replace(choice.without_rewrite(FITTED_TREES), trees=())
    setup = TrialSetup(
        spec=spec, wafer=wafer, software=software, options=options, rewrites=bare_choice.rewrites, timing=timing
    )
    return fit_trees(setup, choice.layout(options.mapping), bare_choice).choice


def _useful_sizes(costs: TreeCosts, runs: Mapping[str, float]) -> frozenset[TreeSize]:
    """Choose which all-reduces use the best number of PE groups instead of the default number.

    The best number for the size of an all-reduce saves cycles, but may need additional routes. The
    result contains the sizes for which the best number is used.

    1. Start with no sizes. Add or remove one size at a time if that saves cycles, until nothing
       changes.
    2. Repeat this, but start with all sizes.
    3. Use the better result.

    Args:
        costs: Costs of fitted trees.
        runs: How often each phase runs in a request, keyed by phase name.
    """

    def rank(stages: Iterable[int], sizes: frozenset[TreeSize]) -> tuple[float, int]:
        """Return a sort key for sets of all-reduce sizes; it is smaller for a better set.

        Args:
            stages: Indices of the stages whose cycles are compared.
            sizes: Sizes of the all-reduces that use the best number of PE groups.

        Returns:
            Cycle count of these stages in a request, and the number of sizes, which decides ties.
        """
        by_phase = (costs.cycles_of_stage(stage, sizes) for stage in stages)
        cycles = sum(runs[phase] * cycles for stage_cycles in by_phase for phase, cycles in stage_cycles.items())
        return cycles, len(sizes)

    def descent(fitted_sizes: frozenset[TreeSize]) -> frozenset[TreeSize]:
        """Improve a set of all-reduce sizes by adding or removing one size at a time.

        This local search ends when no single change saves cycles.

        Args:
            fitted_sizes: Sizes that use the best number of PE groups at the start.
        """
        previous_sizes = None
        while fitted_sizes != previous_sizes:
            previous_sizes = fitted_sizes
            for size, stages in costs.stages.items():
                fitted_sizes = min(fitted_sizes, fitted_sizes ^ {size}, key=partial(rank, stages))
        return fitted_sizes

    results = descent(frozenset()), descent(frozenset(costs.stages))  # 1, 2
    return min(results, key=partial(rank, range(costs.stage_count)))  # 3


def _runs(setup: TrialSetup, timing: Timer, reduced: ReducedModel, choice: Choice) -> dict[str, float]:
    """Return how often each phase runs in a request, keyed by phase name.

    The number of prompt chunks is divided by the number of stages, because the stages process
    different chunks at the same time.

    Args:
        setup: Inputs that all trials share, such as model, wafer and request.
        timing: Functions that time Programs, with the number of tokens to generate.
        reduced: Model with one layer and one stage of each kind, which knows the number of stages
            of the whole model.
        choice: Compiler settings, of which only the size of prompt chunks is used.
    """
    chunks = sum(ceil_div(tokens, choice.prefill_chunk) for tokens in setup.options.unread_tokens)
    tokens = max(1, timing.new_tokens)
    return {PREFILL: chunks / sum(reduced.stage_multiplicity), DECODE: tokens, VERIFY: tokens}


def with_group_count(
    spec: ModelSpec, wafer: WaferSpec, software: SoftwareProfile, options: Options, choice: Choice, groups: int
) -> Choice:
    """Return settings with a given number of groups for every all-reduce that allows it.

    Args:
        spec, wafer, software, options: Inputs of the compilation.
        choice: Compiler settings to change.
        groups: Number of groups. An all-reduce over fewer PEs has one group per PE.
    """
    choice = choice.with_rewrite(FITTED_TREES)
    state = reduced_model(spec, wafer, software, options, choice).compile_until("lower_ops").state
    sizes = dict.fromkeys(size for phase in state.phases for run in phase.steps.runs for size in _sizes(run))
    return replace(choice, trees=tuple((size, min(groups, size.pes)) for size in sizes))


def _lower(setup: TrialSetup, layout: Layout, choice: Choice) -> ReducedModel:
    """Compile a layout's reduced model up to its steps, with every prompt shortened to one chunk.

    A reduced model has one layer of each kind.

    Args:
        setup: Inputs that all trials share, such as model, wafer and request.
        layout: Division of the wafers into regions.
        choice: Compiler settings, including the rewrites and the size of prompt chunks.
    """
    options = setup.options_on(layout).with_one_chunk(choice.prefill_chunk)
    return reduced_model(setup.spec, setup.wafer, setup.software, options, choice).compile_until("lower_ops")


def _sizes(run: BlockRun) -> list[TreeSize]:
    """Return the distinct sizes of a block's all-reduces whose number of groups may be changed.

    Such an all-reduce adds up values within groups of PEs, and then among the groups. A size
    (`TreeSize`) consists mainly of the length of the line of PEs and of the messages.
    """
    return list(dict.fromkeys(step.tree for step in run.block.steps if step.tree is not None))


def _tokens(setup: TrialSetup, timing: Timer) -> dict[str, int]:
    """Return the number of tokens in a user's KV cache halfway through each phase of the request.

    Args:
        setup: Inputs that all trials share, such as model, wafer and request.
        timing: Functions that time Programs, with the number of tokens to generate.

    Returns:
        Number of tokens, keyed by phase name.
    """
    longest_prompt, context = max(setup.options.prompt_tokens), setup.options.context
    prompt_tokens = ceil_div(setup.options.prefix_tokens + longest_prompt, 2)
    generated_tokens = min(longest_prompt + timing.new_tokens // 2, context)
    return {PREFILL: prompt_tokens, DECODE: generated_tokens, VERIFY: generated_tokens}


def _words(state: State, tokens: Mapping[str, int]) -> dict[TreeSize, dict[int, int]]:
    """Return how many words the messages of each all-reduce have, for given KV-cache lengths.

    Args:
        state: Compilation state after lowering to steps.
        tokens: Number of tokens in a user's KV cache, keyed by phase name.

    Returns:
        Number of words per message, keyed by all-reduce size and then by stage index. A size
        describes the message length as a function of the cache length.
    """
    words: dict[TreeSize, dict[int, int]] = defaultdict(dict)
    for phase in (state.phases[number] for number in distinct_phases(state.phases)):
        for run in phase.steps.runs:
            for size in _sizes(run):
                words[size][run.stage] = _words_of(size, state, phase, run.stage, tokens[phase.name])
    return dict(words)


def _words_of(size: TreeSize, state: State, phase: SymPhase, stage: int, tokens: int) -> int:
    """Return the number of words per message of an all-reduce, on the fullest line of a stage.

    A line is a row or column of PEs. Tokens are assumed to select experts evenly.

    Args:
        size: Size of the all-reduce.
        state: State after lowering.
        phase: The phase.
        stage: Index of the stage.
        tokens: Number of tokens in a user's KV cache.
    """
    payload = size.bytes + size.bytes_per_slot * CacheBalance.slots_after(tokens, state.plans[stage].rows)
    mixture = state.cuts[stage].mixture
    if size.bytes_per_pair and mixture is not None:
        pairs = int(mixture.pairs_by_column(mixture.even_pairs(phase.tokens)).max())
        payload -= (mixture.max_pairs(phase.tokens) - pairs) * size.bytes_per_pair
    return ceil_div(payload, WORD_BYTES)
