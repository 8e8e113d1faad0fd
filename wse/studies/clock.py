"""The cycles and the traffic of a run, summed from the fabric model phase by phase."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from wse.fabric.causes import CAUSES
from wse.fabric.link_map import I64, WORDS
from wse.fabric.phase_cost import CacheUse, Fabric, PhaseCost, wafer_links
from wse.fabric.routed import EVEN, Pairs
from wse.phase import Field, Kind


@dataclass(kw_only=True, eq=False)
class PhaseTotals:
    """Sums over the runs of prefill or of decode.

    ``layer_cycles`` are those of ops inside layers; ``crossed`` counts bytes by (from, to) wafer, the host being -1.
    """

    runs: int = 0
    cycles: float = 0.0
    layer_cycles: float = 0.0
    by_cause: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(len(CAUSES)))
    hops: int = 0
    crossed: Counter[tuple[int, int]] = field(default_factory=Counter)
    _mesh: tuple[int, int, int] = (0, 0, 0)
    _moved: dict[int | bytes, tuple[I64, int]] = field(default_factory=dict)  # rectangles of links, and how often

    @property
    def links(self) -> I64 | None:
        """Words by link, int64 ``[wafers, 4, mesh rows, mesh cols]``; None when nothing has run."""
        if not self.runs:
            return None
        parts = [np.column_stack([found[:, :WORDS], found[:, WORDS] * times]) for found, times in self._moved.values()]
        return wafer_links(np.concatenate(parts), self._mesh)

    def add_links(self, cost: PhaseCost) -> None:
        """Count the words on links of one more run."""
        self._mesh = cost.mesh
        for key, found in ((id(cost.rectangles), cost.rectangles), (cost.shifts.tobytes(), cost.shifts)):
            self._moved[key] = (found, self._moved.get(key, (found, 0))[1] + 1)


class Clock:
    """Counts as a run goes on."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.lengths = [0] * fabric.program.batch  # tokens in each user's cache
        self.prefill, self.decode = PhaseTotals(), PhaseTotals()
        self._layers = np.array(fabric.program.op_layers) >= 0

    @property
    def cycles(self) -> float:
        """Cycles since the start of the run."""
        return self.prefill.cycles + self.decode.cycles

    def prefill_chunk(self, index: int, pairs: Pairs = EVEN) -> PhaseCost:
        """Count one prefill chunk, whose tokens chose experts as ``pairs`` says; its cost."""
        cost, phase = self.fabric.prefill_cost(index, pairs), self.fabric.program.prefill[index]
        self.lengths[phase.user] += phase.tokens
        self._add(self.prefill, index, cost)
        return cost

    def decoded(self, *lengths: int, pairs: Pairs = EVEN) -> tuple[CacheUse, PhaseCost]:
        """Count one decoded token of each user, after so many others of that user where they are given.

        Tokens chose experts as ``pairs`` says. Gives what the cost depends on, and the cost.
        """
        self.lengths = list(lengths) or self.lengths
        cost, key = self.fabric.decode_cost(*self.lengths, pairs=pairs), self.fabric.cache_use(self.lengths)
        self.lengths = [length + 1 for length in self.lengths]
        self._add(self.decode, len(self.fabric.program.phases) - 1, cost)
        return key, cost

    def _add(self, totals: PhaseTotals, index: int, cost: PhaseCost) -> None:
        phase = self.fabric.program.phases[index]
        totals.runs += 1
        totals.cycles += cost.cycles
        totals.layer_cycles += float(cost.by_cause[self._layers[phase.op]].sum())
        totals.by_cause += cost.by_cause.sum(axis=0)
        totals.hops += int(cost.hops.sum())
        for step in np.flatnonzero(phase.kind == Kind.CROSS):
            ends = (int(phase.fixed[step, Field.FROM_WAFER]), int(phase.fixed[step, Field.TO_WAFER]))
            totals.crossed[ends] += int(cost.bytes[step])
        totals.add_links(cost)
