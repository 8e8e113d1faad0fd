"""A trace of what a Program does: itself and its mapping at the start, then passes, then totals.

Written by a run as it goes on (`run`) and by an estimate at its end (`estimate`).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, Self

import numpy as np

from wse.arrays import I64
from wse.backends.fabric.expert_costs import Pairs
from wse.backends.fabric.links.layer_links import LayerLinks, layer_links
from wse.backends.fabric.model import CacheUse
from wse.backends.fabric.phase_cost import PhaseCost
from wse.backends.fabric.run_totals import RunTotals
from wse.program.program import Program
from wse.program.steps import Slots, Steps
from wse.tracing.expert_load import ExpertLoad
from wse.tracing.record.experts import ExpertRecord
from wse.tracing.record.header import encode_names
from wse.tracing.record.program import write_program
from wse.tracing.record.steps import BusyRectangles, Columns, PhaseSteps
from wse_traces.header import RunHeader
from wse_traces.write import TraceWriter

MOST_ROWS = 1 << 14  # of crossings at once
NO_STEPS = np.zeros(0, np.int64)


class Recorder:
    """A writer of one trace, used as a context manager like TraceWriter."""

    def __init__(self, path: Path, program: Program, header: RunHeader) -> None:
        """Raises TraceError when the path cannot be written."""
        self._program = program
        self._sequences: dict[Hashable, int] = {}
        self._steps: dict[Steps, PhaseSteps] = {}
        self._runs: Counter[tuple[int, Slots, tuple[int, ...]]] = Counter()
        self._busy = np.zeros((program.wafers, header.rows, header.cols), np.int64)
        self.writer = TraceWriter(path, header)
        self.experts = ExpertRecord(self.writer, program)
        write_program(self.writer, program, program.sram_bytes_per_pe)

    def __enter__(self) -> Self:
        self.writer.__enter__()
        return self

    def __exit__(self, *details: Any) -> None:
        self.writer.__exit__(*details)

    def steps(self, phase_index: int) -> PhaseSteps:
        """Return the steps of a phase, which several chunks of a prompt may share."""
        phase = self._program.phases[phase_index]
        if phase.steps not in self._steps:
            self._steps[phase.steps] = PhaseSteps(self._program, phase, self.writer.append_names)
        return self._steps[phase.steps]

    def sequence(self, phase_index: int, cost: PhaseCost, slots: Slots, key: Hashable, apart: I64 = NO_STEPS) -> int:
        """Return the index of a sequence of steps, written once for each ``key``.

        What the steps ``apart`` send is left out, as it differs from pass to pass.
        """
        phase = self._program.phases[phase_index]
        sequence_key = (phase.steps, phase.begins, slots, key)
        if sequence_key not in self._sequences:
            steps = self.steps(phase_index).columns(cost, apart)
            self._sequences[sequence_key] = self.writer.append_schedule(
                steps, phase=phase.name, kv_slots=max(slots), cycles=int(cost.cycles)
            )
        return self._sequences[sequence_key]

    def passes(
        self,
        phase_index: int,
        sequence: int,
        cost: PhaseCost,
        uses: Sequence[CacheUse],
        starts: Sequence[float],
        pairs: Pairs,
        wall_times_s: Iterable[float] = repeat(0.0),
    ) -> range:
        """Append passes with one sequence of steps; return their indices.

        Args:
            phase_index: The phase that ran.
            sequence: As ``sequence`` gave it.
            cost: What one of them cost.
            uses: Of each, what its traffic depends on.
            starts: The cycle that each starts in.
            pairs: Number of tokens of one pass that chose each expert.
            wall_times_s: Seconds that the emulator needed for each pass.
        """
        rows = [
            self.writer.append_pass(schedule=sequence, start_cycle=int(start), wall_s=wall_s)
            for start, wall_s in zip(starts, wall_times_s, strict=False)
        ]
        count, index = len(rows), range(rows[0], rows[-1] + 1)
        for use in uses:
            self._runs[phase_index, *use] += 1
        steps = self.steps(phase_index)
        self._write_crossings(steps.crossings(cost), index)
        self._count_busy(steps.busy(cost), count)
        self.experts.count(phase_index, pairs, count)
        return index

    def write_shifts(self, phase_index: int, first_pass: int, words: I64, hops: I64) -> None:
        """Write the words and hops of cache shifts that are not part of their sequence, int64 ``[passes, steps]``."""
        shifting = self.steps(phase_index).shifting
        passes, which = (words | hops)[:, shifting].nonzero()
        if len(passes):
            step = shifting[which]
            sent = {"words": words[passes, step], "hops": hops[passes, step]}
            self.writer.append("shift", {"pass": (first_pass + passes).astype(np.int32), "step": step, **sent})

    def finish(self, clock: RunTotals, load: ExpertLoad, summary: dict[str, Any]) -> None:
        """Write totals by link, by layer and link, by PE and by expert, and the report."""
        self.experts.finish(load)
        for wafer in range(self._program.wafers):
            self.writer.append_plane("links/words", clock.links_on(wafer))
            self.writer.append_plane("pe/busy_cycles", self._busy[wafer])
        self._write_layer_links(layer_links(clock.fabric, self._runs, self.experts.chosen, self.experts.reached))
        self.writer.write_summary({key: encode_names(value) for key, value in summary.items()})

    def _write_crossings(self, crossings: Columns, passes: range) -> None:
        rows = len(crossings["bytes"])
        at_once = max(1, MOST_ROWS // max(rows, 1))
        for first in range(passes.start, passes.stop, at_once) if rows else ():
            some = np.arange(first, min(first + at_once, passes.stop), dtype=np.int32)
            columns = (
                crossings
                if len(some) == 1
                else {name: np.tile(column, len(some)) for name, column in crossings.items()}
            )
            self.writer.append("crossing", {**columns, "pass": np.repeat(some, rows)})

    def _write_layer_links(self, links: Iterable[LayerLinks]) -> None:
        """Write each distinct map of words once, and the map of each layer and wafer."""
        patterns: dict[tuple[int, int, bytes], int] = {}  # by digest: the maps themselves are as large as regions
        placed: list[tuple[int, int, int, int, int]] = []
        for link_map in links:
            rect = link_map.rect
            key = (rect.rows, rect.cols, hashlib.sha256(link_map.words.tobytes()).digest())
            if key not in patterns:
                patterns[key] = self.writer.append_pattern(link_map.words)
            placed += [(layer, link_map.wafer, rect.row, rect.col, patterns[key]) for layer in link_map.layers]
        if placed:
            columns = dict(
                zip(("layer", "wafer", "row", "col", "pattern"), zip(*sorted(placed), strict=True), strict=True)
            )
            self.writer.append("placed_layer", columns)

    def _count_busy(self, busy: BusyRectangles, times: int) -> None:
        for stage, row, end_row, cycles in busy:
            placed = self._program.stages[stage]
            cols = slice(placed.rect.col, placed.rect.col + placed.rect.cols)
            for wafer in placed.wafers:
                self._busy[wafer, row:end_row, cols] += cycles * times
