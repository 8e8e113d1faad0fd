"""Costs of all-reduce trees: cycles by number of groups, and route rewrites that trees need.

A *size* is a line and a message length (`TreeSize`). The colours and route rewrites of a stage do
not depend on other stages. A stage is therefore re-evaluated only if its own trees change.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from wse.compiler.choice import TreeSize
from wse.compiler.passes.route import colour_stages
from wse.compiler.passes.route_demand import BlockRoutes
from wse.compiler.rewrites.fitted_trees import groups_of, with_groups
from wse.compiler.search.reduced.reduced_model import ReducedModel
from wse.compiler.search.trials.trial_setup import TrialSetup
from wse.compiler.state import PatternCall
from wse.compiler.symbolic import Block, BlockRun, SymPhase, SymSteps, distinct_phases
from wse.errors import DoesNotFit
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.models.graph import ops_in_order
from wse_mappings.patterns.k_tree import group_count, k_tree, relays_of
from wse_mappings.rounding import ceil_div
from wse_mappings.schedule import Arrival


class Saving(NamedTuple):
    """Best number of groups for all-reduces of one size, and the cycles that it saves.

    An all-reduce is a K-tree, which reduces within groups of PEs and then among the groups.

    Attributes:
        groups: Number of groups with the fewest cycles.
        cycles: Cycles that an all-reduce saves, keyed by stage index. The comparison is with the
            default number of groups, which needs the fewest relays (PEs whose code forwards
            messages).
    """

    groups: int
    cycles: Mapping[int, float]


class TreeCosts:
    """Cost model for changing the number of groups of some all-reduces.

    An all-reduce adds up values within groups of PEs, and then among the groups. With a *fitted
    tree*, it has the fastest number of groups for its size (line and message length) instead of the
    default number. This saves cycles, but more distinct trees require more changes of routes at run
    time. A search uses this class to choose the sizes to fit. The cycles are those of the whole
    model, computed from a reduced model (one layer of each kind).

    Attributes:
        savings: For each all-reduce size that may be fitted, the best number of groups and the
            cycles it saves.
        stages: For each of these sizes, the indices of the stages with all-reduces of that size.
        stage_count: Number of stages of the reduced model.
    """

    def __init__(self, reduced: ReducedModel, savings: Mapping[TreeSize, Saving]) -> None:
        """Prepare the cost model, given a reduced model whose all-reduces are not yet fitted.

        Args:
            reduced: Reduced model after lowering to steps, in which every all-reduce has the
                default number of groups.
            savings: For each all-reduce size that may be fitted, the best number of groups and the
                cycles it saves.
        """
        self.savings = savings
        self.stages: dict[TreeSize, set[int]] = {size: set() for size in savings}
        self.stage_count = len(reduced.state.plans)
        self._reduced = reduced
        self._phases: dict[int, list[SymPhase]] = defaultdict(list)  # by stage
        self._patterns: dict[tuple[TreeSize, int], int] = {}  # fitted pattern by size and original pattern
        self._layers = [op.layer for op in ops_in_order(reduced.state.graph)]
        self._known: dict[tuple[int, frozenset[TreeSize]], Mapping[str, float]] = {}
        patterns = list(reduced.state.patterns)
        for number in distinct_phases(reduced.state.phases):
            phase = reduced.state.phases[number]
            for stage in dict.fromkeys(run.stage for run in phase.steps.runs):
                steps = SymSteps(runs=tuple(run for run in phase.steps.runs if run.stage == stage))
                self._phases[stage].append(replace(phase, steps=steps))
                for size, pattern in dict.fromkeys((s.tree, s.pattern) for block in steps.blocks for s in block.steps):
                    if size is None or size not in savings:
                        continue
                    self.stages[size].add(stage)
                    if (size, pattern) not in self._patterns:
                        self._patterns[size, pattern] = len(patterns)
                        tree = with_groups(reduced.state.pattern_calls[pattern], savings[size].groups)
                        patterns.append(tree.schedule(reduced.state.options.cache))
        self._state = replace(reduced.state, patterns=tuple(patterns))
        self._routes = BlockRoutes(self._state.patterns)
        self._blocks: dict[tuple[Block, frozenset[TreeSize]], Block] = {}  # by block and its fitted sizes

    def cycles_of_stage(self, stage: int, fitted_sizes: frozenset[TreeSize]) -> Mapping[str, float]:
        """Return how the cycles of a stage change if all-reduces of some sizes use fitted trees.

        A fitted tree has the number of PE groups that is fastest for the size of the all-reduce.
        The result consists of the cycles for changing routes at run time, minus the cycles that the
        fitted trees save. It is the total of all stages of the whole model that this stage
        represents.

        Args:
            stage: Index of the stage in the reduced model.
            fitted_sizes: Sizes of the all-reduces that use fitted trees.

        Returns:
            Cycles in one run of each phase, keyed by phase name; infinity if the routers cannot
            store the routes.
        """
        stage_sizes = frozenset(size for size in fitted_sizes if stage in self.stages[size])
        if (stage, stage_sizes) not in self._known:
            self._known[stage, stage_sizes] = self._compute_cycles(stage, stage_sizes)
        return self._known[stage, stage_sizes]

    def saved_cycles(self, fitted_sizes: frozenset[TreeSize]) -> dict[str, float]:
        """Return the cycles that fitted all-reduce trees save in all stages, keyed by phase name.

        A fitted tree has the number of PE groups that is fastest for the size of the all-reduce.
        Cycles for additional changes of routes are subtracted.

        Args:
            fitted_sizes: Sizes of the all-reduces that use fitted trees.
        """
        cycles_by_phase: dict[str, float] = defaultdict(float)
        for stage in self._phases:
            cycles_before = self.cycles_of_stage(stage, frozenset())
            cycles_after = self.cycles_of_stage(stage, fitted_sizes)
            for phase in cycles_before:
                cycles_by_phase[phase] += cycles_before[phase] - cycles_after[phase]
        return dict(cycles_by_phase)

    def _compute_cycles(self, stage: int, fitted_sizes: frozenset[TreeSize]) -> Mapping[str, float]:
        """Compute the result of `cycles_of_stage`, which caches it.

        The result is the cycles for changing routes at run time, minus the cycles that fitted trees
        (with the fastest number of PE groups) save; keyed by phase name.

        Args:
            stage: Index of the stage in the reduced model.
            fitted_sizes: Sizes of the all-reduces that use fitted trees.
        """
        phases = [self._with_trees(phase, fitted_sizes) for phase in self._phases[stage]]
        try:
            _, route_rewrites = colour_stages(replace(self._state, phases=tuple(phases)), self._routes)
        except DoesNotFit:
            return {phase.name: math.inf for phase in phases}
        cycles: dict[str, float] = defaultdict(float)
        rewrite_cycles = self._state.software.route_rewrite_cycles
        for phase in phases:
            for run in phase.steps.runs:
                rewrites = int(route_rewrites[phase.steps][run.step : run.step + len(run.block.steps)].sum())
                saved_cycles = self._saved_cycles(run, fitted_sizes)
                cycles[phase.name] += self._multiplicity(run) * (rewrites * rewrite_cycles - saved_cycles)
        return cycles

    def _saved_cycles(self, run: BlockRun, fitted_sizes: frozenset[TreeSize]) -> float:
        """Return the cycles that all-reduces with fitted trees save in one run of a block.

        A fitted tree has the number of PE groups that is fastest for the size of the all-reduce.
        All iterations of the block's loops are included.

        Args:
            run: Run of a block (list of steps) in the reduced model.
            fitted_sizes: Sizes of the all-reduces that use fitted trees.
        """
        block = run.block
        iterations = [1 if step.loop < 0 else block.loops[step.loop][2] for step in block.steps]
        sizes = [step.tree if step.tree in fitted_sizes else None for step in block.steps]
        return sum(self.savings[size].cycles[run.stage] * n for size, n in zip(sizes, iterations, strict=True) if size)

    def _multiplicity(self, run: BlockRun) -> int:
        """Return how many runs of the whole model one run of the reduced model represents.

        Args:
            run: Execution of a block (the steps of one layer, or of ops outside layers) in the
                reduced model.
        """
        layer = self._layers[run.op]
        return self._reduced.stage_multiplicity[run.stage] if layer < 0 else self._reduced.layer_multiplicity[layer]

    def _with_trees(self, phase: SymPhase, fitted_sizes: frozenset[TreeSize]) -> SymPhase:
        """Return a copy of a phase in which all-reduces of some sizes use faster trees.

        An all-reduce adds up values within groups of PEs, and then among the groups. A fitted tree
        has the fastest number of groups for its size (line and message length).

        Args:
            phase: Phase, such as decode, after its ops have been translated to steps.
            fitted_sizes: Sizes of the all-reduces to change.
        """
        blocks = {block: self._block_with_trees(block, fitted_sizes) for block in phase.steps.blocks}
        runs = tuple(replace(run, block=blocks[run.block]) for run in phase.steps.runs)
        return replace(phase, steps=SymSteps(runs=runs))

    def _block_with_trees(self, block: Block, fitted_sizes: frozenset[TreeSize]) -> Block:
        """Return a copy of a block in which all-reduces of some sizes use faster trees.

        An all-reduce adds up values within groups of PEs, and then among the groups. A fitted tree
        has the fastest number of groups for its size (line and message length). A block without
        all-reduces of the given sizes is returned unchanged. Copies are cached, so that the routes
        of each copy are computed only once.

        Args:
            block: List of steps, such as those of one layer.
            fitted_sizes: Sizes of the all-reduces to change.
        """
        sizes = fitted_sizes.intersection(step.tree for step in block.steps if step.tree is not None)
        if not sizes:
            return block
        if (block, sizes) not in self._blocks:
            steps = tuple(
                step.copy_with(pattern=self._patterns[step.tree, step.pattern]) if step.tree in sizes else step
                for step in block.steps
            )
            self._blocks[block, sizes] = replace(block, steps=steps)
        return self._blocks[block, sizes]


FEWER_GROUPS: Final = (1, 2, 3, 5, 9)
"""Numbers of groups to try in addition to the number with the fewest relays.

On lines of 17 to 1,170 PEs with 24 to 1,500 words, the fastest of these is at most 2.5 % slower
than the fastest of all numbers up to 16, and 0.1 % on average.
"""


def cheapest_groups(
    setup: TrialSetup, pes: int, words: Mapping[int, int], pes_around: tuple[int, int] = (0, 0)
) -> Saving:
    """Return the number of groups that minimises the cycle count of an all-reduce along a line.

    1. Time the number of groups with the fewest relays (PEs whose code forwards words).
    2. Compute a lower bound on the cycles for smaller numbers (`min_cycles`).
    3. Time these numbers, lowest bound first, if their bound is below the best time so far.

    Args:
        setup: Inputs that all trials share, with ``timing``.
        pes: Number of PEs that add up their values.
        words: Words per message, keyed by stage index.
        pes_around: Numbers of PEs before and after these PEs on the line that also receive the
            sums.

    Returns:
        The number of groups, and the cycles that it saves in each stage.
    """
    timing, (pes_before, pes_after) = setup.timing, pes_around
    assert timing is not None
    to_all = PatternCall(k_tree, (pes_before + pes + pes_after, 1, Arrival.ADD), (("broadcast", True),))
    if any(pes_around):
        to_all = to_all.with_options(segments=((pes_before, pes),), to_all=True)

    def cycles(groups: int) -> dict[int, float]:
        """Return the cycle count of the all-reduce with ``groups`` groups, keyed by stage."""
        tree = with_groups(to_all, groups).schedule(setup.options.cache)
        cycles_of_words = {number: timing.line_cycles(tree, number) for number in set(words.values())}
        return {stage: cycles_of_words[number] for stage, number in words.items()}

    cheapest = group_count(pes)  # 1
    fewest_cycles = default_cycles = cycles(cheapest)
    costs = setup.wafer, setup.software
    lower_bounds = {  # 2
        n: sum(min_cycles(pes, n, message_words, *costs) for message_words in words.values())
        for n in FEWER_GROUPS
        if n < cheapest
    }
    for groups in sorted(lower_bounds, key=lower_bounds.__getitem__):  # 3
        if lower_bounds[groups] < sum(fewest_cycles.values()):
            fewest_cycles, cheapest = min(
                (fewest_cycles, cheapest),
                (cycles(groups), groups),
                key=lambda timed_groups: sum(timed_groups[0].values()),
            )
    return Saving(cheapest, {stage: default_cycles[stage] - fewest_cycles[stage] for stage in words})


def min_cycles(pes: int, groups: int, words: int, wafer: WaferSpec, software: SoftwareProfile) -> float:
    """Return a lower bound on the cycle count of an all-reduce, based on the path of its last word.

    The last word travels along the whole line of PEs. It waits at each relay (a PE whose code
    forwards words) and for the words before it. At a PE that receives from two sides, it also waits
    for the words from the other side.

    Args:
        pes: Number of PEs in the line.
        groups: Number of groups of PEs in the K-tree.
        words: Words per message.
        wafer: Wafer.
        software: Costs of the software on the wafer.
    """
    relays = relays_of(pes, groups_of(groups)) * (2 * wafer.ramp_cycles + 1 + software.relay_cycles)
    both_sides = (ceil_div(pes, groups) > 2) + (groups > 2)
    stream = (words - 1) / wafer.stream_words_per_cycle
    return relays + (pes - 1) * wafer.hop_cycles + (1 + both_sides) * stream + both_sides * software.reduce_gap_cycles
