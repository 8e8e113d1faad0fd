"""Recording of a Program: the Program at the start, then passes and chosen experts, then totals.

A run is recorded while it proceeds (``run``), an estimate when it is complete (``estimate``).
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, Self

import numpy as np

from wse.arrays import I64
from wse.backends.fabric.expert_columns import ExpertTokens
from wse.backends.fabric.links.layer_links import LayerLinks, layer_links
from wse.backends.fabric.phase_cost import CacheUse, PhaseCost
from wse.backends.fabric.run_totals import RunTotals
from wse.program.expert_pairs import pairs_of_columns
from wse.program.program import Program
from wse.program.steps import Slots, Steps
from wse.tracing.expert_load import ExpertLoad
from wse.tracing.record.program import encode_names, write_program
from wse.tracing.record.steps import BusyRectangles, Columns, PhaseSteps
from wse_traces.header import RunHeader
from wse_traces.writer.write import TraceWriter


class ExpertRecord:
    """Recorder of the experts to which tokens are routed, with totals over all passes.

    Attributes:
        load: Number of tokens routed to each expert, for each phase index and layer.
        reached: Number of passes that route tokens to experts on each wafer, int64 ``[wafers]``,
            for each phase index and layer.
    """

    def __init__(self, writer: TraceWriter, program: Program) -> None:
        self._writer, self._program = writer, program
        self.load = ExpertLoad()
        self.reached: defaultdict[int, dict[int, I64]] = defaultdict(dict)

    def count(self, phase_index: int, expert_tokens: ExpertTokens, times: int) -> None:
        """Add passes with the same routing to the totals.

        Args:
            phase_index: Phase that ran.
            expert_tokens: For each layer, int64 ``[experts]``: number of tokens routed to each
                expert in one pass.
            times: Number of passes.
        """
        self.load.add(phase_index, {layer: tokens * times for layer, tokens in expert_tokens.items()})
        for layer, tokens in expert_tokens.items():
            self._reach(phase_index, layer, tokens, times)

    def write(self, pass_index: int, expert_tokens: ExpertTokens) -> None:
        """Write the routing of one pass: a row for each layer and expert with at least one token.

        Args:
            pass_index: Index of the pass.
            expert_tokens: For each layer, int64 ``[experts]``: number of tokens routed to each
                expert.
        """
        for layer, tokens in expert_tokens.items():
            experts = np.flatnonzero(tokens)
            row = {"pass": np.full(len(experts), pass_index), "layer": np.full(len(experts), layer)}
            self._writer.append("routed", {**row, "expert": experts, "tokens": tokens[experts]})

    def _reach(self, phase_index: int, layer: int, tokens: I64, times: int) -> None:
        """Count, for each wafer, the passes in which tokens were routed to an expert on it.

        Args:
            phase_index: Phase that ran.
            layer: Layer of the experts.
            tokens: int64 ``[experts]``: number of tokens routed to each expert in one pass.
            times: Number of passes.
        """
        stage, counts = self._program.expert_stages[layer], self.reached[phase_index]
        columns = pairs_of_columns(self._program, stage, layer, tokens)
        counts.setdefault(layer, np.zeros(self._program.wafers, np.int64))
        counts[layer][list(self._program.chosen_wafers(stage, columns))] += times

    def finish(self) -> None:
        """Write the number of tokens routed to each expert over the run, including zeros."""
        for layer, tokens in self.load.over_run.items():
            row = {"layer": np.full(len(tokens), layer), "expert": np.arange(len(tokens)), "tokens": tokens}
            self._writer.append("expert_load", row)


MAX_ROWS = 1 << 14  # maximum number of rows to write at once
NO_STEPS = np.zeros(0, np.int64)


class Recorder:
    """Context manager that writes the trace of one run or estimate.

    Attributes:
        writer: Writer of the trace file.
        experts: Recorder of the routing of tokens to experts.
    """

    def __init__(self, path: Path, program: Program, header: RunHeader) -> None:
        """Create the trace and write the Program to it.

        Args:
            path: File to write.
            program: The compiled Program.
            header: Header of the trace.

        Raises:
            TraceError: The path cannot be written.
        """
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
        """Return the object that converts the steps of a phase to rows of the trace.

        Phases with the same steps, such as prompt chunks of equal length, share this object.
        """
        phase = self._program.phases[phase_index]
        if phase.steps not in self._steps:
            self._steps[phase.steps] = PhaseSteps(self._program, phase, self.writer.append_names)
        return self._steps[phase.steps]

    def sequence(
        self, phase_index: int, cost: PhaseCost, slots: Slots, key: Hashable, varying_steps: I64 = NO_STEPS
    ) -> int:
        """Write the steps of a pass with cycles and traffic as a schedule, and return its index.

        Many passes execute the same steps at the same cost. They refer to the schedule by its
        index, so that it is written only once.

        Args:
            phase_index: Phase whose steps are executed, an index into ``Program.phases``.
            cost: Cost of one pass.
            slots: Number of KV-cache slots in use in each stage.
            key: Additional value, such as a digest of the routing to experts. Passes share a
                schedule only if their steps, slots and keys are equal.
            varying_steps: Indices of the steps whose traffic differs from pass to pass. Their
                traffic is set to 0 here and written by `write_shifts`.
        """
        phase = self._program.phases[phase_index]
        sequence_key = (phase.steps, phase.begins, slots, key)
        if sequence_key not in self._sequences:
            steps = self.steps(phase_index).columns(cost, varying_steps)
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
        expert_tokens: ExpertTokens,
        wall_times_s: Iterable[float] = repeat(0.0),
    ) -> range:
        """Append passes that execute the same schedule, and return their indices.

        A schedule is a sequence of steps, with their cycles and traffic.

        Args:
            phase_index: Phase that ran, an index into ``Program.phases``.
            sequence: Index of the schedule, from `Recorder.sequence`.
            cost: Cost of one pass.
            uses: State of the KV caches before each pass, on which the pass's traffic depends: the
                cache slots in use, and the number of tokens in each user's cache.
            starts: Cycle in which each pass starts.
            expert_tokens: For each layer, the number of tokens routed to each expert in one pass.
            wall_times_s: Time that the emulator took for each pass, in seconds.
        """
        rows = [(sequence, int(start), wall_s) for start, wall_s in zip(starts, wall_times_s, strict=False)]
        index = self.writer.append_rows("pass", rows)
        for use in uses:
            self._runs[phase_index, *use] += 1
        steps = self.steps(phase_index)
        self._write_crossings(steps.crossings(cost), index)
        self._count_busy(steps.busy(cost), len(index))
        self.experts.count(phase_index, expert_tokens, len(index))
        return index

    def write_shifts(self, phase_index: int, first_pass: int, words: I64, hops: I64) -> None:
        """Write the traffic of cache shifts, which differs between passes with the same schedule.

        A cache shift moves KV-cache entries between PE rows, so that all rows stay equally full.

        Args:
            phase_index: Phase that ran, an index into ``Program.phases``.
            first_pass: Index of the first pass.
            words: int64 ``[pass, step]``: number of words that each step sends in addition to the
                words in the schedule.
            hops: int64 ``[pass, step]``: number of links that these words cross, summed over words.
        """
        shifting = self.steps(phase_index).shifting
        passes, shift_indices = (words | hops)[:, shifting].nonzero()
        if len(passes):
            step = shifting[shift_indices]
            traffic = {"words": words[passes, step], "hops": hops[passes, step]}
            self.writer.append("shift", {"pass": (first_pass + passes).astype(np.int32), "step": step, **traffic})

    def finish(self, clock: RunTotals, summary: dict[str, Any]) -> None:
        """Write the totals of all links, layers, PEs and experts, and the report.

        Args:
            clock: Totals of the run.
            summary: Report of the run.
        """
        self.experts.finish()
        for wafer in range(self._program.wafers):
            self.writer.append_plane("links/words", clock.links_on(wafer))
            self.writer.append_plane("pe/busy_cycles", self._busy[wafer])
        self._write_layer_links(layer_links(clock.fabric, self._runs, self.experts.load.totals, self.experts.reached))
        self.writer.write_summary({key: encode_names(value) for key, value in summary.items()})

    def _write_crossings(self, crossings: Columns, passes: range) -> None:
        """Write the transfers between wafers that occur in some passes.

        Args:
            crossings: Columns of the transfers in one pass, which are the same in all passes.
            passes: Indices of the passes.
        """
        rows = len(crossings["bytes"])
        at_once = max(1, MAX_ROWS // max(rows, 1))
        for first in range(passes.start, passes.stop, at_once) if rows else ():
            indices = np.arange(first, min(first + at_once, passes.stop), dtype=np.int32)
            columns = (
                crossings
                if len(indices) == 1
                else {name: np.tile(column, len(indices)) for name, column in crossings.items()}
            )
            self.writer.append("crossing", {**columns, "pass": np.repeat(indices, rows)})

    def _write_layer_links(self, links: Iterable[LayerLinks]) -> None:
        """Write the words that each layer sends over links as maps of the layer's PE rectangle.

        Identical maps are written only once, and each layer refers to its map.
        """
        patterns: dict[tuple[int, int, bytes], int] = {}  # keyed by digest, because the maps are as large as regions
        places: list[tuple[int, int, int, int, int]] = []
        for link_map in links:
            rect = link_map.rect
            key = (rect.rows, rect.cols, hashlib.sha256(link_map.words.tobytes()).digest())
            if key not in patterns:
                patterns[key] = self.writer.append_pattern(link_map.words)
            places += [(layer, link_map.wafer, rect.row, rect.col, patterns[key]) for layer in link_map.layers]
        self.writer.append_rows("placed_layer", sorted(places))

    def _count_busy(self, busy: BusyRectangles, times: int) -> None:
        """Add the compute cycles of some passes to the number of busy cycles of each PE.

        Args:
            busy: Rectangles of PEs and their compute cycles in one pass.
            times: Number of passes.
        """
        for stage_index, row, end_row, cycles in busy:
            stage = self._program.stages[stage_index]
            cols = slice(stage.rect.col, stage.rect.col + stage.rect.cols)
            for wafer in stage.wafers:
                self._busy[wafer, row:end_row, cols] += cycles * times
