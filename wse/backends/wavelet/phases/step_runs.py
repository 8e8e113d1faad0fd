"""Simulation of single transfer steps, each on a WaveletMachine of its own.

Only times and links matter: all words are zero, at addresses that the simulation chooses. Equal
steps are simulated once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from wse.arrays import I32, I64
from wse.backends.wavelet.lines import Lines
from wse.backends.wavelet.machine import WaveletMachine
from wse.backends.wavelet.run import run
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.program.isa.pe_costs import PeCosts
from wse.program.steps import ROWS
from wse.program.transfers.messages import LineMessages, Translation
from wse.program.transfers.transfer import Transfer
from wse_mappings.mesh.placement import Rect
from wse_mappings.patterns.streams import edge_stream, entry_stream, translation


class StepRun(NamedTuple):
    """Result of simulating one step (one kernel or transfer on a rectangle of PEs).

    Attributes:
        ends: int32 ``[rows, cols]``: cycle in which each PE finished; 0 if it was idle.
        link_words: int64 ``[4, rows, cols]``: words that left each PE to the north, east, south and
            west.
        moves: int32 ``[n, 6]``: moves of wavelets (cycle, row, column, colour, port through which
            the wavelet leaves the router, port through which it came); empty unless requested.
    """

    ends: I32
    link_words: I64
    moves: I32


@dataclass(slots=True, kw_only=True)
class StepRuns:
    """Simulator for individual steps of a phase, with a cache of results.

    In all methods, ``start`` int32 ``[rows, cols]`` is the cycle at which each PE of the machine
    starts to work.

    Attributes:
        wafer: Wafer type.
        software: Software profile.
        pe: Model of the cycles that a PE needs for its operations.
        log: Whether moves of wavelets are recorded.
        runs_by_key: Results of earlier simulations, by everything that they depend on.
    """

    wafer: WaferSpec
    software: SoftwareProfile
    pe: PeCosts
    log: bool = False
    runs_by_key: dict[tuple[object, ...], StepRun] = field(default_factory=dict)

    def lines(self, messages_and_transfers: Sequence[tuple[LineMessages, Transfer]], start: I32) -> StepRun:
        """Simulate patterns that run concurrently on lines of one region.

        Each communication pattern has its own colours, threads and addresses. In memory, the words
        that it sends are followed by an equal number of received words. If a PE stores messages
        before it adds them to its own words, it is busy until it has added the last message.

        Args:
            messages_and_transfers: Messages of each pattern, with the transfer whose words they
                carry.
            start: int32 ``[rows, cols]``, cycle at which each PE starts to work.
        """
        patterns: list[tuple[LineMessages, int, int]] = []
        for messages, transfer in messages_and_transfers:
            add = math.ceil(self.pe.vector(transfer.elements, self.pe.acc))
            patterns.append((messages.with_reduced_round, transfer.words, add))
        key = ("lines", start.shape, start.tobytes(), *patterns)
        if key not in self.runs_by_key:
            machine = self._machine(start, max(1, 2 * sum(words for _, words, _ in patterns)))
            colour, address, adding = 0, 0, np.zeros(start.shape, np.int32)
            for i, (messages, words, add) in enumerate(patterns):
                pattern, along_rows = messages.schedule, messages.axis == ROWS
                lines = self._lines(
                    machine, main=2 * self.wafer.colours * i, add=add if pattern.store_and_forward else None
                )
                first_row, last_row = messages.first_row, messages.first_row + messages.rows
                colour = lines.rows(
                    pattern,
                    words,
                    source=address,
                    target=address if messages.in_place else address + words,
                    round_=messages.round,
                    colour=colour,
                    line_slice=slice(first_row, last_row) if along_rows else slice(None),
                    transposed=not along_rows,
                )
                address += 2 * words
                adding += lines.operations.adding.reshape(start.shape) * np.int32(lines.operations.add_cycles)
            step_run = self._run(machine)
            self.runs_by_key[key] = step_run._replace(ends=np.asarray(step_run.ends + adding, np.int32))
        return self.runs_by_key[key]

    def translate(self, source: Rect, target: Rect, messages: Translation, start: I32) -> StepRun:
        """Simulate the words that the PEs of one rectangle send to the PEs of another.

        Args:
            source, target: Sending and receiving rectangle, within the simulated region.
            messages: Number of words that each row sends to each row.
            start: int32 ``[rows, cols]``, cycle at which each PE starts to work.
        """
        key = ("translation", source, target, tuple(messages.sent_words), messages.stride, start.tobytes())
        if key not in self.runs_by_key:
            max_words = int(messages.words.max())
            machine = self._machine(start, 2 * max_words)
            schedule = translation(machine.rows, machine.cols, source, target, messages.sent_words, messages.stride)
            self._lines(machine).plane(schedule, max_words, target=max_words)
            self.runs_by_key[key] = self._run(machine)
        return self.runs_by_key[key]

    def edge(self, words: int, start: I32, *, entering: bool) -> StepRun:
        """Simulate words that PEs of a region send to the edge of the wafer, or receive from it.

        The edge is one more column of the machine. If words leave the wafer, it is the last column,
        to which they are sent. If words enter the wafer, it is the first column, from which they
        come.

        Args:
            words: Number of words per PE.
            start: int32 ``[rows, cols + 1]``, cycle at which each PE and each row of the edge
                starts.
            entering: Whether words enter the wafer.
        """
        key = ("edge", entering, words, start.shape, start.tobytes())
        if key not in self.runs_by_key:
            rows, cols = start.shape
            machine = self._machine(start, 2 * words)
            schedule = (entry_stream if entering else edge_stream)(cols - 1, rows)
            self._lines(machine).rows(schedule, words, target=words)
            self.runs_by_key[key] = self._run(machine)
        return self.runs_by_key[key]

    def _machine(self, start: I32, memory_words: int) -> WaveletMachine:
        """Create a simulated machine without routes and operations.

        ``start`` is the cycle at which each PE starts, int32 ``[rows, cols]``.
        """
        rows, cols = start.shape
        return WaveletMachine(self.wafer, rows, cols, memory_words, start)

    def _lines(self, machine: WaveletMachine, *, main: int = 0, add: int | None = None) -> Lines:
        """Return an object that adds communication patterns to a simulated machine.

        Args:
            machine: The machine to configure.
            main: Number of the main thread on each PE.
            add: Cycles needed to add a stored message to a PE's own words; None if the pattern adds
                words as they arrive.
        """
        gap = self.software.reduce_gap_cycles if add is None else self.software.transfer_sync_cycles
        relay = self.software.relay_cycles
        return Lines(machine=machine, gap_cycles=gap, relay_cycles=relay, add_cycles=add or 0, main=main)

    def _run(self, machine: WaveletMachine) -> StepRun:
        """Simulate a machine and return the results that are needed for a step.

        The results are the cycles in which PEs finish, the words on links, and the moves of
        wavelets.
        """
        result = run(machine, log=self.log)
        return StepRun(result.pe_cycles, result.link_words, result.moves)
