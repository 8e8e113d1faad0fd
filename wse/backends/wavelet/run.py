"""Simulation of a WaveletMachine: cycles of each PE, values, and words on every link."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wse.arrays import F32, I32, I64
from wse.backends.wavelet.deadlock import check_finished
from wse.backends.wavelet.flatten import Tables, tables
from wse.backends.wavelet.machine import STEP, Port, WaveletMachine
from wse.errors import BadInput
from wse.hardware.spec import burst_words
from wse_kernels.library import compiled_kernel
from wse_kernels.operands import wavelet_tables as k

LIMIT_CYCLES = 2**29
NO_EVENTS = np.zeros((0, 3), np.int32)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MachineRun:
    """Times, values and traffic of a simulation of wavelets (32-bit words in the fabric).

    Attributes:
        cycles: Cycles from the start to the end of the last vector operation.
        pe_cycles: int32 ``[rows, cols]``: end of each PE's last operation; 0 for a PE without
            operations.
        op_times: int32 ``[operations, 2]``: first cycle of each operation and the cycle after its
            last, in the numbering of the machine.
        memory: float32 ``[rows, cols, words]``: memory after the simulation.
        link_words: int64 ``[4, rows, cols]``: words that left each PE to the north, east, south and
            west.
        visits: Number of times that the simulator processed a queue or a thread, as a measure of
            its own work.
        moves: int32 ``[n, 6]``: moves of wavelets in order of cycles; empty unless requested.
            Columns are the cycle in which the wavelet leaves a router; row and column of the PE;
            colour; Port through which it leaves (RAMP: into the PE); Port through which it came
            (RAMP: from the PE). The moves of a wavelet through several ports are next to each
            other.
    """

    cycles: int
    pe_cycles: I32
    op_times: I32
    memory: F32
    link_words: I64
    visits: int
    moves: I32

    @property
    def hops(self) -> int:
        """Number of links that words have crossed between neighbouring routers, ramps excluded."""
        return int(self.link_words.sum())


def run(
    machine: WaveletMachine,
    memory: F32 | None = None,
    *,
    log: bool = False,
    shuffle: int | None = None,
) -> MachineRun:
    """Simulate all operations of a machine.

    Args:
        machine: Routes and operations.
        memory: Initial contents, float32 ``[rows, cols, words]``; None for zeros. The array is not
            changed.
        log: Whether to record every move of a wavelet. This requires a second run, because the
            first run determines the length of the log.
        shuffle: Seed for a different numbering of the queues, which does not affect results.

    Raises:
        Deadlock: Some operation can never finish.
        BadInput: A route leads nowhere, or the memory has the wrong shape.
    """
    table = tables(machine, shuffle=shuffle)
    shape = (machine.rows, machine.cols, machine.memory_words)
    values = np.zeros(shape, np.float32) if memory is None else np.array(memory, np.float32, copy=True)
    if values.shape != shape:
        msg = f"wavelet reference: memory of shape {values.shape}; the machine has {shape} (rows, cols, words)"
        raise BadInput(msg)
    visits, _ = execute(machine, table, values.reshape(-1))
    check_finished(machine, table)
    events = NO_EVENTS
    if log:
        entered = int(table.queues[table.identity[:, 1] != Port.RAMP, k.TAIL].sum())
        fresh_table = tables(machine, shuffle=shuffle)
        _, events = execute(machine, fresh_table, np.zeros(values.size, np.float32), entered)
    return _result(machine, table, values, visits, events)


def execute(machine: WaveletMachine, table: Tables, memory: F32, log: int = 0) -> tuple[int, I32]:
    """Run the simulation kernel on the arrays of a machine, which are changed in place.

    Args:
        machine: The machine.
        table: Arrays of the machine.
        memory: float32 ``[PEs * words]``: words of all PEs, changed in place.
        log: Maximum number of events (moves of a wavelet) to record.

    Returns:
        The number of visits (see `MachineRun`), and the recorded events.
    """
    events, counts = np.zeros((log, 3), np.int32) if log else NO_EVENTS, np.zeros(3, np.int64)
    burst = burst_words(machine.wafer.stream_words_per_cycle)
    compiled_kernel("run_wavelets").serial(
        table.kernel_tables(memory), table.spans, events, counts, burst, LIMIT_CYCLES
    )
    return int(counts[2]), events[: counts[1]]


def _result(machine: WaveletMachine, table: Tables, memory: F32, visits: int, events: I32) -> MachineRun:
    """Collect the results of a simulation from the tables that the kernel has updated.

    Args:
        machine: The machine.
        table: Its tables.
        memory: float32 words of all PEs.
        visits: Number of times that a queue or thread was processed.
        events: Recorded moves of wavelets between queues.
    """
    shape = (machine.rows, machine.cols)
    pe_cycles = np.zeros(machine.rows * machine.cols, np.int32)
    if len(table.threads):
        ends = table.times[table.threads[:, k.LAST] - 1, 1]
        np.maximum.at(pe_cycles, table.thread_pe, ends)
    op_times = np.empty_like(table.times)
    op_times[table.op_order] = table.times
    words = np.zeros((4, machine.rows * machine.cols), np.int64)
    for port in STEP:
        queues_after_port = table.identity[:, 1] == port
        senders = machine.neighbours(table.identity[queues_after_port, 0], port)
        np.add.at(words[port.opposite], senders, table.queues[queues_after_port, k.TAIL])
    return MachineRun(
        cycles=int(pe_cycles.max(initial=0)),
        pe_cycles=pe_cycles.reshape(shape),
        op_times=op_times,
        memory=memory,
        link_words=words.reshape(4, *shape),
        visits=visits,
        moves=_moves(machine, table, events),
    )


def _moves(machine: WaveletMachine, table: Tables, events: I32) -> I32:
    """Convert the events that the simulator recorded to moves of wavelets.

    An event names the cycle, the queue that a wavelet enters, and the queue that it leaves. A move
    names the router that the wavelet leaves instead; `MachineRun` describes its columns.
    """
    events = events[np.argsort(events[:, 0], kind="stable")]
    pe, side, colour = table.identity[events[:, 1]].T
    leaves, exit_port = pe.copy(), np.full(len(pe), Port.RAMP, np.int32)
    for port in STEP:
        is_after = side == port
        leaves[is_after], exit_port[is_after] = (
            machine.neighbours(pe[is_after], port),
            port.opposite,
        )
    entry_port = table.identity[events[:, 2], 1]
    return np.stack(
        [events[:, 0], leaves // machine.cols, leaves % machine.cols, colour, exit_port, entry_port], axis=1
    )
