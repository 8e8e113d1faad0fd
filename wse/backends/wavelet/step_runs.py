"""The steps of a phase that move words, laid on machines of their own and run: times of PEs, words on links.

Only timing and links are of interest: words are zeros, at addresses of the machine's own. Equal runs are run once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from wse.arrays import I32, I64
from wse.backends.wavelet.lines import Lines
from wse.backends.wavelet.machine import Machine
from wse.backends.wavelet.run import run
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.program.isa.pe_costs import PeCosts
from wse.program.program import Program
from wse.program.steps import ROWS
from wse.program.transfers.messages import LineMessages, Translation
from wse.program.transfers.transfer import Transfer
from wse_mappings.mesh.placement import Rect
from wse_mappings.patterns.edge_stream import edge_stream, entry_stream
from wse_mappings.patterns.translation import translation


class StepRun(NamedTuple):
    """The cycle in which each PE ended, int32 ``[rows, cols]`` (0: idle), and the other results of `MachineRun`."""

    ends: I32
    link_words: I64
    moves: I32


@dataclass(slots=True, kw_only=True)
class StepRuns:
    """A simulator of single steps of one Program.

    ``start`` int32 ``[rows, cols]`` is when each PE of a machine begins.

    Attributes:
        program: What was compiled.
        wafer: The machine.
        software: What its software costs.
        pe: What operations cost on one PE.
        workers: Cores.
        log: Whether moves are noted.
        runs_by_key: Results by what they depend on.
    """

    program: Program
    wafer: WaferSpec
    software: SoftwareProfile
    pe: PeCosts
    workers: int = 1
    log: bool = False
    runs_by_key: dict[tuple[object, ...], StepRun] = field(default_factory=dict)

    def lines(self, carried: Sequence[tuple[LineMessages, Transfer]], start: I32) -> StepRun:
        """Simulate patterns on lines of one region at the same time, each with colours and threads of its own.

        Each has the messages of a transfer, whose words they carry.
        """
        patterns: list[tuple[LineMessages, int, int]] = []
        for messages, transfer in carried:
            add = math.ceil(self.pe.vector(transfer.elements, self.pe.acc))
            patterns.append((messages.in_one_turn, transfer.words, add))
        key = ("lines", start.shape, start.tobytes(), *patterns)
        if key not in self.runs_by_key:
            machine = self._machine(start, max(1, 2 * sum(words for _, words, _ in patterns)))
            colour, address, adding = 0, 0, np.zeros(start.shape, np.int32)
            for i, (messages, words, add) in enumerate(patterns):
                pattern, along_rows = messages.schedule, messages.axis == ROWS
                lines = self._lines(
                    machine, main=2 * self.wafer.colours * i, add=add if pattern.store_and_forward else None
                )
                colour = (lines.rows if along_rows else lines.columns)(
                    pattern,
                    words,
                    source=address,
                    target=address if messages.in_place else address + words,
                    round_=messages.round,
                    colour=colour,
                    chosen=slice(messages.first_row, messages.first_row + messages.rows) if along_rows else slice(None),
                )
                address += 2 * words
                adding += lines.adding.reshape(start.shape) * np.int32(lines.add_cycles)
            ran = self._run(machine)
            self.runs_by_key[key] = ran._replace(ends=np.asarray(ran.ends + adding, np.int32))
        return self.runs_by_key[key]

    def translate(self, source: Rect, target: Rect, messages: Translation, start: I32) -> StepRun:
        """Simulate pieces that PEs of ``source`` send to PEs of ``target``."""
        key = ("translation", source, target, tuple(messages.sent_words), messages.stride, start.tobytes())
        if key not in self.runs_by_key:
            most = int(messages.words.max())
            machine = self._machine(start, 2 * most)
            schedule = translation(machine.rows, machine.cols, source, target, messages.sent_words, messages.stride)
            self._lines(machine).plane(schedule, most, target=most)
            self.runs_by_key[key] = self._run(machine)
        return self.runs_by_key[key]

    def to_edge(self, words: int, start: I32) -> StepRun:
        """Simulate ``words`` words from every PE to the last PE of its row, which represents the edge."""
        key = ("edge", words, start.shape, start.tobytes())
        if key not in self.runs_by_key:
            machine = self._machine(start, words)
            schedule = edge_stream(machine.cols - 1, machine.rows)
            self._lines(machine).rows(schedule, words)
            self.runs_by_key[key] = self._run(machine)
        return self.runs_by_key[key]

    def from_edge(self, words: int, start: I32) -> StepRun:
        """Simulate ``words`` words from the first PE of every row, which represents the edge, to each PE of the row."""
        key = ("entry", words, start.shape, start.tobytes())
        if key not in self.runs_by_key:
            machine = self._machine(start, 2 * words)
            schedule = entry_stream(machine.cols - 1, machine.rows)
            self._lines(machine).rows(schedule, words, target=words)
            self.runs_by_key[key] = self._run(machine)
        return self.runs_by_key[key]

    def _machine(self, start: I32, memory_words: int) -> Machine:
        rows, cols = start.shape
        return Machine(self.wafer, rows, cols, memory_words, start)

    def _lines(self, machine: Machine, *, main: int = 0, add: int | None = None) -> Lines:
        """Simulate messages along lines; with ``add``, transfers are stored, awaited and added in so many cycles."""
        gap = self.software.reduce_gap_cycles if add is None else self.software.transfer_sync_cycles
        relay = self.software.relay_cycles
        return Lines(machine=machine, gap_cycles=gap, relay_cycles=relay, add_cycles=add or 0, main=main)

    def _run(self, machine: Machine) -> StepRun:
        result = run(machine, workers=self.workers, log=self.log)
        return StepRun(result.pe_cycles, result.link_words, result.moves)
