"""The groups of K-tree all-reduces that are fitted to their words: what is timed, and what is worth it.

The sizes are those of the layout, the chunks and the rewrites that were chosen, in all phases. A condensed model
(`wse.compiler.search.reduced.condense`) has all of them after lowering.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from wse.compiler.options import (
    DECODE,
    FITTED_TREES,
    PREFILL,
    VERIFY,
    WIDE_UNPACKING,
    Choice,
    Options,
    Rewrites,
    TreeSize,
)
from wse.compiler.rewrites.fitted_trees import groups_of, with_groups
from wse.compiler.search.fitting.tree_costs import Saving, TreeCosts
from wse.compiler.search.reduced.condense import CondensedModel, condense
from wse.compiler.search.trial import Timer
from wse.compiler.search.trial_setup import TrialSetup
from wse.compiler.state import PatternCall, State
from wse.compiler.symbolic import BlockRun, SymPhase, distinct_phases
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.models.spec import ModelSpec
from wse.number_formats import WORD_BYTES
from wse_mappings.cuts.cache_balance import CacheBalance
from wse_mappings.cuts.split import ceil_div
from wse_mappings.patterns.k_tree import group_count, k_tree, relays_of
from wse_mappings.schedule import Arrival
from wse_mappings.strategies.strategy import Layout

FEWER_GROUPS: Final = (1, 2, 3, 5, 9)
"""Groups to try besides those with the fewest relays. On lines of 17 to 1,170 PEs with 24 to 1,500 words the cheapest
of these takes at most 2.5 % longer than the cheapest of all up to 16, and 0.1 % on the average."""


class FittedTrees(NamedTuple):
    """A choice with fitted trees, and the cycles that they save per run of each phase."""

    choice: Choice
    saved_cycles: Mapping[str, float]


def without_fitted(rewrites: Rewrites) -> Rewrites:
    """Return the rewrites that are tried one by one: all except those fitted to a layout and its chunks."""
    return tuple(one for one in rewrites if one[0] not in {WIDE_UNPACKING, FITTED_TREES})


def fit_trees(setup: TrialSetup, layout: Layout, choice: Choice) -> FittedTrees:
    """Fit the number of groups of each all-reduce to its words, in all phases of a choice.

    1. Each size is timed with other groups.
    2. Of those that save something one after another is taken, or left out, where all prompts and all generated tokens
       take fewer cycles then, with the rewrites of routes that trees of their own bring; again from the first, until
       none is.
    """
    timing = setup.timing
    assert timing is not None
    with_trees = _with_trees(choice)
    # 1. Each size.
    small = _lower(setup, layout, with_trees)
    words = _words(small.state, _tokens(setup, timing))
    timed = {size: cheapest_groups(setup, size.pes, words[size], (size.before, size.behind)) for size in words}
    savings = {size: saving for size, saving in timed.items() if sum(saving.cycles.values()) > 0}
    # 2. All of them.
    costs = TreeCosts(small, savings, setup.software.route_rewrite_cycles)
    paying = _paying_sizes(costs, _runs(setup, timing, small, choice))
    if not paying:
        return FittedTrees(choice, {})
    trees = tuple((size, saving.groups) for size, saving in savings.items() if size in paying)
    return FittedTrees(replace(with_trees, trees=trees), costs.saved_cycles(paying))


def _paying_sizes(costs: TreeCosts, runs: Mapping[str, float]) -> frozenset[TreeSize]:
    """Return the sizes to fit, starting from none or from all, whichever leads to fewer cycles."""

    def rank(stages: Iterable[int], fitted: frozenset[TreeSize]) -> tuple[float, int]:
        by_phase = (costs.of_stage(stage, fitted) for stage in stages)
        cycles = sum(runs[phase] * cycles for of_stage in by_phase for phase, cycles in of_stage.items())
        return cycles, len(fitted)

    def descent(chosen: frozenset[TreeSize]) -> frozenset[TreeSize]:
        before = None
        while chosen != before:
            before = chosen
            for size, stages in costs.stages.items():
                chosen = min(chosen, chosen ^ {size}, key=partial(rank, stages))
        return chosen

    all_stages = range(costs.stage_count)
    return min(descent(frozenset()), descent(frozenset(costs.stages)), key=partial(rank, all_stages))


def _runs(setup: TrialSetup, timing: Timer, small: CondensedModel, choice: Choice) -> dict[str, float]:
    """Return how often each phase runs in a request; for prompt chunks, which overlap, how often per stage."""
    chunks = sum(ceil_div(tokens, choice.prefill_chunk) for tokens in setup.options.prompt_tokens)
    tokens = max(1, timing.new_tokens)
    return {PREFILL: chunks / sum(small.stage_multiplicity), DECODE: tokens, VERIFY: tokens}


def cheapest_groups(setup: TrialSetup, pes: int, words: Mapping[int, int], around: tuple[int, int] = (0, 0)) -> Saving:
    """Return the number of groups with which all-reduces over some PEs take the fewest cycles.

    So many PEs ``around`` them, before and behind, get the sums too. Only those are timed that may be cheaper by
    `least_cycles`.
    """
    timing, (before_them, behind_them) = setup.timing, around
    assert timing is not None
    to_all = PatternCall(k_tree, (before_them + pes + behind_them, 1, Arrival.ADD), (("broadcast", True),))
    if any(around):
        to_all = to_all.with_options(segments=((before_them, pes),), to_all=True)

    def cycles(groups: int) -> dict[int, float]:
        tree = with_groups(to_all, groups).schedule(setup.options.cache)
        of_words = {number: timing.line_cycles(tree, number) for number in set(words.values())}
        return {stage: of_words[number] for stage, number in words.items()}

    cheapest = group_count(pes)
    fewest = before = cycles(cheapest)
    costs = setup.wafer, setup.software
    least = {n: sum(least_cycles(pes, n, of, *costs) for of in words.values()) for n in FEWER_GROUPS if n < cheapest}
    for groups in sorted(least, key=least.__getitem__):
        if least[groups] < sum(fewest.values()):
            fewest, cheapest = min((fewest, cheapest), (cycles(groups), groups), key=lambda one: sum(one[0].values()))
    return Saving(cheapest, {stage: before[stage] - fewest[stage] for stage in words})


def least_cycles(pes: int, groups: int, words: int, wafer: WaferSpec, software: SoftwareProfile) -> float:
    """Return a lower bound of the cycles of an all-reduce, from the path of its last word.

    It goes along the whole line and waits at each relay, for the words before it, and, wherever a PE receives from two
    sides, for those of the other side.
    """
    relays = relays_of(pes, groups_of(groups)) * (2 * wafer.ramp_cycles + 1 + software.relay_cycles)
    both_sides = (ceil_div(pes, groups) > 2) + (groups > 2)
    stream = (words - 1) / wafer.stream_words_per_cycle
    return relays + (pes - 1) * wafer.hop_cycles + (1 + both_sides) * stream + both_sides * software.reduce_gap_cycles


def in_groups(
    spec: ModelSpec, wafer: WaferSpec, software: SoftwareProfile, options: Options, choice: Choice, groups: int
) -> Choice:
    """Return a choice in which every all-reduce that can be fitted has a given number of groups.

    In one of each PE where it has fewer.
    """
    choice = _with_trees(choice)
    state = condense(spec, wafer, software, options, choice).compile_until("lower_ops").state
    sizes = dict.fromkeys(size for phase in state.phases for run in phase.steps.runs for size in _sizes(run))
    return replace(choice, trees=tuple((size, min(groups, size.pes)) for size in sizes))


def _with_trees(choice: Choice) -> Choice:
    """Return a choice with the rewrite in all phases."""
    one = ((FITTED_TREES, 1),)
    of_pass = None if choice.verify_rewrites is None else choice.verify_rewrites + one
    return replace(choice, rewrites=choice.rewrites + one, verify_rewrites=of_pass)


def _lower(setup: TrialSetup, layout: Layout, choice: Choice) -> CondensedModel:
    """Return the reduced model after lowering, with one representative prompt chunk."""
    prompts = (min(choice.prefill_chunk, max(setup.options.prompt_tokens)),) * setup.options.batch
    options = replace(setup.options_on(layout), prompt_tokens=prompts)
    return condense(setup.spec, setup.wafer, setup.software, options, choice).compile_until("lower_ops")


def _sizes(run: BlockRun) -> list[TreeSize]:
    """Return the sizes of the all-reduces of a block that can be fitted, in the order of its steps."""
    return list(dict.fromkeys(step.tree for step in run.block.steps if step.tree is not None))


def _tokens(setup: TrialSetup, timing: Timer) -> dict[str, int]:
    """Return the tokens in a cache in the middle of each phase."""
    longest, context = max(setup.options.prompt_tokens), setup.options.context
    generated = min(longest + timing.new_tokens // 2, context)
    return {PREFILL: ceil_div(longest, 2), DECODE: generated, VERIFY: generated}


def _words(state: State, tokens: Mapping[str, int]) -> dict[TreeSize, dict[int, int]]:
    """Return the words of the all-reduces of each size by stage, with a given number of cached tokens per phase."""
    words: dict[TreeSize, dict[int, int]] = defaultdict(dict)
    for phase in (state.phases[number] for number in distinct_phases(state.phases)):
        for run in phase.steps.runs:
            for size in _sizes(run):
                words[size][run.stage] = _words_of(size, state, phase, run.stage, tokens[phase.name])
    return dict(words)


def _words_of(size: TreeSize, state: State, phase: SymPhase, stage: int, tokens: int) -> int:
    """Return the words of a message on the fullest row or column, assuming that tokens choose experts evenly."""
    payload = size.bytes + size.bytes_per_slot * CacheBalance.slots_after(tokens, state.plans[stage].rows)
    mixture = state.cuts[stage].mixture
    if size.bytes_per_pair and mixture is not None:
        pairs = int(mixture.pairs_by_column(mixture.even_pairs(phase.tokens)).max())
        payload -= (mixture.most_pairs(phase.tokens) - pairs) * size.bytes_per_pair
    return ceil_div(payload, WORD_BYTES)
