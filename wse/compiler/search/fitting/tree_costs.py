"""The cost of fitted trees in all: rewrites of routes that their own routes bring, less the cycles that they save.

Colours and rewrites of a stage's routes go by nothing that other stages do. So a stage is counted anew only where sizes
of its own are fitted or not.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from wse.compiler.options import TreeSize
from wse.compiler.passes.route import repaints, same_routes
from wse.compiler.rewrites.fitted_trees import with_groups
from wse.compiler.search.reduced.condense import CondensedModel
from wse.compiler.symbolic import BlockRun, SymPhase, SymSteps, distinct_phases
from wse.errors import DoesNotFit
from wse.models.graph import ops_in_order


class Saving(NamedTuple):
    """A number of groups, and the cycles per stage that an all-reduce saves with it over the tree of fewest relays."""

    groups: int
    cycles: Mapping[int, float]


class TreeCosts:
    """Cycles of a reduced model with different sets of fitted trees, computed after lowering.

    Attributes:
        savings: The groups that may be fitted to each size, and what they save.
        stages: The stages with all-reduces of each size.
        stage_count: The number of stages.
    """

    def __init__(self, small: CondensedModel, savings: Mapping[TreeSize, Saving], repaint_cycles: float) -> None:
        """Create the costs for a reduced model without fitted trees.

        ``repaint_cycles`` is the cost of rewriting a route.
        """
        self.savings = savings
        self.stages: dict[TreeSize, set[int]] = {size: set() for size in savings}
        self.stage_count = len(small.state.plans)
        self._small, self._rewrite_cycles = small, repaint_cycles
        self._phases: dict[int, list[SymPhase]] = defaultdict(list)  # of each stage
        self._patterns: dict[tuple[TreeSize, int], int] = {}  # of a size, instead of another pattern
        self._layers = [op.layer for op in ops_in_order(small.state.graph)]
        self._known: dict[tuple[int, frozenset[TreeSize]], Mapping[str, float]] = {}
        patterns = list(small.state.patterns)
        for number in distinct_phases(small.state.phases):
            phase = small.state.phases[number]
            for stage in dict.fromkeys(run.stage for run in phase.steps.runs):
                steps = SymSteps(runs=tuple(run for run in phase.steps.runs if run.stage == stage))
                self._phases[stage].append(replace(phase, steps=steps))
                for size, pattern in dict.fromkeys((s.tree, s.pattern) for block in steps.blocks for s in block.steps):
                    if size is None or size not in savings:
                        continue
                    self.stages[size].add(stage)
                    if (size, pattern) not in self._patterns:
                        self._patterns[size, pattern] = len(patterns)
                        tree = with_groups(small.state.pattern_calls[pattern], savings[size].groups)
                        patterns.append(tree.schedule(small.state.options.cache))
        self._state = replace(small.state, patterns=tuple(patterns))
        self._same_routes = same_routes(self._state.patterns)

    def of_stage(self, stage: int, fitted: frozenset[TreeSize]) -> Mapping[str, float]:
        """Return the cycles of all stages that a stage represents, by phase, with the given sizes fitted.

        Counted are rewrites of routes, less what all-reduces save; infinitely many where colours run out.
        """
        own = frozenset(size for size in fitted if stage in self.stages[size])
        if (stage, own) not in self._known:
            self._known[stage, own] = self._count(stage, own)
        return self._known[stage, own]

    def saved_cycles(self, fitted: frozenset[TreeSize]) -> dict[str, float]:
        """Return the cycles that the fitted sizes save in all stages, by phase."""
        saved: dict[str, float] = defaultdict(float)
        for stage in self._phases:
            before, after = self.of_stage(stage, frozenset()), self.of_stage(stage, fitted)
            for phase in before:
                saved[phase] += before[phase] - after[phase]
        return dict(saved)

    def _count(self, stage: int, fitted: frozenset[TreeSize]) -> Mapping[str, float]:
        phases = [self._with_trees(phase, fitted) for phase in self._phases[stage]]
        try:
            painted = repaints(replace(self._state, phases=tuple(phases)), self._same_routes)
        except DoesNotFit:
            return {phase.name: math.inf for phase in phases}
        cycles: dict[str, float] = defaultdict(float)
        for phase in phases:
            for run in phase.steps.runs:
                rewrites = int(painted[phase.steps][run.step : run.step + len(run.block.steps)].sum())
                saved = self._saved_cycles(run, fitted)
                cycles[phase.name] += self._times(run) * (rewrites * self._rewrite_cycles - saved)
        return cycles

    def _saved_cycles(self, run: BlockRun, fitted: frozenset[TreeSize]) -> float:
        """Return the cycles that the fitted all-reduces of a block save over all iterations."""
        block = run.block
        turns = [1 if step.loop < 0 else block.loops[step.loop][2] for step in block.steps]
        sizes = [step.tree if step.tree in fitted else None for step in block.steps]
        return sum(self.savings[size].cycles[run.stage] * n for size, n in zip(sizes, turns, strict=True) if size)

    def _times(self, run: BlockRun) -> int:
        """Return how often a block occurs in the whole model."""
        layer = self._layers[run.op]
        return self._small.stage_multiplicity[run.stage] if layer < 0 else self._small.layer_multiplicity[layer]

    def _with_trees(self, phase: SymPhase, fitted: frozenset[TreeSize]) -> SymPhase:
        """Return a phase with the trees of the given sizes."""
        blocks = {
            block: replace(
                block,
                steps=tuple(
                    step.copy_with(pattern=self._patterns[step.tree, step.pattern]) if step.tree in fitted else step
                    for step in block.steps
                ),
            )
            for block in phase.steps.blocks
        }
        runs = tuple(replace(run, block=blocks[run.block]) for run in phase.steps.runs)
        return replace(phase, steps=SymSteps(runs=runs))
