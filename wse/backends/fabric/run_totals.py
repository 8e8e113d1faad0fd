"""Cycles and traffic of a run, summed over the phases that the fabric model timed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wse.arrays import I64
from wse.backends.fabric.causes import CAUSES
from wse.backends.fabric.expert_columns import ASSUMED, ExpertTokens
from wse.backends.fabric.links.link_map import NOTHING, PLANE, Link, scale_words
from wse.backends.fabric.links.routes import DIRECTIONS, Routes
from wse.backends.fabric.model import Fabric
from wse.backends.fabric.phase_cost import CacheUse, CostClass, PhaseCost, TokenClass
from wse.program.program import Program
from wse.program.steps import Phase, Steps
from wse.program.transfers.transfer_types import crossings_of

_Key = Steps | CostClass | bytes
"""Key of rectangles of links: the object that determines them, or their own content as bytes."""


@dataclass(kw_only=True, eq=False)
class PhaseTotals:
    """Totals over all prefill chunks, all decode passes or all verification passes of a run.

    Attributes:
        runs: Number of chunks or passes.
        cycles: Total cycles.
        layer_cycles: Cycles spent on ops that belong to a layer of the model.
        by_cause: float64 ``[causes]``, cycles broken down by cause.
        words: Number of words of all messages.
        hops: Number of links that each word crosses, summed over these words.
        crossed: Number of bytes per (sending, receiving) wafer pair; the host is -1.
    """

    runs: int = 0
    cycles: float = 0.0
    layer_cycles: float = 0.0
    by_cause: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(len(CAUSES)))
    words: int = 0
    hops: int = 0
    crossed: Counter[tuple[int, int]] = field(default_factory=Counter)
    _routes: Routes | None = None
    _counted_links: dict[_Key, tuple[I64, int]] = field(default_factory=dict)  # rectangles of links, repetitions

    def rectangles(self) -> I64:
        """Return the links that carried words, with the words summed over all runs.

        Returns:
            int64 ``[n, 9]``: rectangles of links with equal word counts, in the format of
            ``link_map``.
        """
        return np.concatenate([NOTHING, *(scale_words(part, times) for part, times in self._counted_links.values())])

    def busiest_links(self) -> list[Link]:
        """Return the busiest link for each wafer and direction.

        This does not create a map of all links. ``Link.plane`` is wafer * 4 + direction.
        """
        return [] if self._routes is None else self._routes.busiest_links(self.rectangles())

    def add(
        self, program: Program, phase: Phase, in_layers: npt.NDArray[np.bool_], cost: PhaseCost, runs: int = 1
    ) -> None:
        """Add several runs of a phase that have the same cost.

        Args:
            program: The compiled Program.
            phase: Prefill chunk, decode pass or verification pass of the Program.
            in_layers: bool ``[ops]``, True for ops inside layers.
            cost: Cost of one run.
            runs: Number of runs.
        """
        self.runs += runs
        self.cycles += cost.cycles * runs
        self.layer_cycles += float(cost.by_cause[in_layers[phase.steps.op]].sum()) * runs
        self.by_cause += cost.by_cause.sum(axis=0) * runs
        traffic = cost.traffic
        self.words += int(traffic.words.sum()) * runs
        self.hops += int(traffic.hops.sum()) * runs
        for step, all_pairs in crossings_of(program, phase):
            pairs = cost.used_crossings.get(step, all_pairs)
            for ends in pairs:
                self.crossed[ends] += int(traffic.bytes[step]) // len(pairs) * runs
        self._routes = cost.routes
        self._add_links(phase.steps, traffic.rectangles, runs)
        self._add_links(cost.cost_class, traffic.by_slots, runs)
        self._add_links(traffic.shifts.tobytes(), traffic.shifts, runs)

    def add_shifts(self, by_step: I64, rectangles: I64) -> None:
        """Add the traffic of cache shifts, which the cost of a ``TokenClass`` does not include.

        A cache shift moves KV-cache entries from row to row of PEs.

        Args:
            by_step: int64 ``[3, steps]``, words, hops and bytes of each step.
            rectangles: Links that carry the words, as rectangles of links with equal word counts.
        """
        words, hops, _ = by_step.sum(axis=1).tolist()
        self.words += words
        self.hops += hops
        self._add_links(rectangles.tobytes(), rectangles, 1)

    def _add_links(self, key: _Key, rectangles: I64, times: int) -> None:
        """Count ``times`` runs that all send the same words over the same links.

        Args:
            key: Key that identifies the rectangles. If rectangles with this key were added before,
                only their number of runs is increased.
            rectangles: Rectangles of links with the words of one run.
            times: Number of runs.
        """
        self._counted_links[key] = (rectangles, self._counted_links.get(key, (rectangles, 0))[1] + times)


class RunTotals:
    """Totals of a run so far, to which its phases are added in order of execution.

    The methods that add phases also update the number of tokens in each user's cache.
    """

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.lengths = [0] * fabric.program.batch  # tokens in each user's cache
        self.prefill, self.decode, self.verify = PhaseTotals(), PhaseTotals(), PhaseTotals()
        self.draft_cycles = 0.0  # cycles in which the Program waits for drafts
        self._layers = np.array(fabric.program.op_layers) >= 0

    @property
    def cycles(self) -> float:
        """Cycles since the start of the run."""
        return self.prefill.cycles + self.decode.cycles + self.verify.cycles + self.draft_cycles

    def links_on(self, wafer: int) -> I64:
        """Return the words on each physical link of one wafer, int64 ``[4, rows, cols]``."""
        rectangles = np.concatenate([totals.rectangles() for totals in (self.prefill, self.decode, self.verify)])
        return self.fabric.routes.words_on(wafer, rectangles[rectangles[:, PLANE] // DIRECTIONS == wafer])

    def prefill_chunk(self, index: int, expert_tokens: ExpertTokens = ASSUMED) -> PhaseCost:
        """Add one prefill chunk and return its cost.

        Args:
            index: Index of the chunk in ``Program.phases``.
            expert_tokens: For each layer, the number of tokens routed to each expert. In layers
                that are missing (by default, all), the routing of ``Program.routing`` is assumed.
        """
        cost, phase = self.fabric.prefill_cost(index, expert_tokens), self.fabric.program.phases[index]
        self.lengths[phase.user] = phase.cached + phase.tokens
        self._add(self.prefill, index, cost)
        return cost

    def prefill_all(self) -> list[PhaseCost]:
        """Add all prefill chunks and return the cost of each.

        Tokens are assumed to select experts as in ``Program.routing``. The totals are the same as if
        `prefill_chunk` were called for each chunk, but chunks with equal costs are added together.
        """
        program = self.fabric.program
        costs = [self.fabric.prefill_cost(index) for index in range(len(program.prefill))]
        runs = Counter(costs)  # chunks of one class have the same cost object
        for index, cost in enumerate(costs):
            if cost in runs:
                self._add(self.prefill, index, cost, runs.pop(cost))
        for phase in program.prefill:
            self.lengths[phase.user] = phase.cached + phase.tokens
        return costs

    def decode_token(self, *lengths: int, expert_tokens: ExpertTokens = ASSUMED) -> tuple[CacheUse, PhaseCost]:
        """Add one decode pass, which generates a token for each user.

        Args:
            lengths: Number of tokens in each user's cache; by default, the number after the
                previous passes.
            expert_tokens: For each layer, the number of tokens routed to each expert. In layers
                that are missing (by default, all), the routing of ``Program.routing`` is assumed.

        Returns:
            A key that determines the cost of the pass (see `Fabric.cache_use`), and the cost.
        """
        self.lengths = list(lengths) or self.lengths
        cost = self.fabric.decode_cost(*self.lengths, expert_tokens=expert_tokens)
        key = self.fabric.cache_use(self.lengths)
        self.lengths = [length + 1 for length in self.lengths]
        self._add(self.decode, self.fabric.program.decode_index, cost)
        return key, cost

    def verify_pass(self, accepted: int, user: int = 0, expert_tokens: ExpertTokens = ASSUMED) -> PhaseCost:
        """Add a verification pass over several new tokens of a user and return its cost.

        Args:
            accepted: Number of tokens that remain in the cache, that is, the tokens before the
                first wrong draft token.
            user: Index of the user.
            expert_tokens: For each layer, the number of tokens routed to each expert. In layers
                that are missing (by default, all), the routing of ``Program.routing`` is assumed.
        """
        cost, program = self.fabric.verify_cost(self.lengths[user], expert_tokens), self.fabric.program
        self._add(self.verify, program.phases.index(program.verify[user]), cost)
        self.lengths[user] += accepted
        return cost

    def decode_all(self, tokens: int) -> list[TokenClass]:
        """Add ``tokens`` decode passes and return their costs, in classes of equivalent passes.

        Tokens are assumed to select experts as in ``Program.routing``.
        """
        classes = self.fabric.decode_costs(self.lengths, tokens)
        for token_class in classes:
            self._add(self.decode, self.fabric.program.decode_index, token_class.cost, token_class.tokens)
            self.decode.add_shifts(*self.fabric.shift_traffic(token_class))
        self.lengths = [length + tokens for length in self.lengths]
        return classes

    def _add(self, totals: PhaseTotals, index: int, cost: PhaseCost, runs: int = 1) -> None:
        """Add runs with the same cost to the totals of prefill, decode or verification.

        Args:
            totals: The totals of prefill, decode or verification.
            index: Index of the phase in the Program.
            cost: Cost of one run.
            runs: Number of runs.
        """
        program = self.fabric.program
        totals.add(program, program.phases[index], self._layers, cost, runs)


class TimedRun(NamedTuple):
    """Result of timing all phases of a run.

    Attributes:
        clock: Totals of the run.
        prompts: Cost of each prefill chunk.
        token_classes: Decode passes, grouped into classes with the same cost. Empty if each pass
            was timed separately because of its selected experts.
    """

    clock: RunTotals
    prompts: list[PhaseCost]
    token_classes: list[TokenClass]
