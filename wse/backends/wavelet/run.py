"""Simulation of a WaveletMachine: cycles of PEs, values, words on links, and deadlock messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from wse.arrays import F32, I32, I64
from wse.backends.wavelet.components import circular_wait
from wse.backends.wavelet.flatten import Tables, tables
from wse.backends.wavelet.machine import STEP, Port, WaveletMachine
from wse.backends.wavelet.wiring import INTO_PE
from wse.errors import BadInput, Deadlock
from wse.hardware.spec import burst_words
from wse_kernels.library import compiled_kernel
from wse_kernels.operands import wavelet_tables as k

MAX_NAMED: Final = 8
SIDES: Final = ("from north", "from east", "from south", "from west", "out of the PE", "into the PE")


def check_finished(machine: WaveletMachine, table: Tables) -> None:
    """Raise Deadlock if a simulation ended with unfinished operations or with words in queues.

    Args:
        machine: Routes and operations of the simulated PEs.
        table: Arrays of the simulation kernel after the simulation.
    """
    stuck = [i for i, row in enumerate(table.threads) if row[k.CURRENT] != row[k.LAST]]
    full = [i for i, row in enumerate(table.queues) if row[k.TAIL] != row[k.HEAD]]
    if not stuck and not full:
        return
    waits = _Waits(table)
    cycle = circular_wait([*(-1 - thread for thread in stuck), *full], waits.of)
    if cycle:
        reason = f"{_describe(machine, table, cycle)} wait for each other in a cycle"
    elif stuck:
        reason = (
            f"{_describe(machine, table, [-1 - stuck[0], *waits.of(-1 - stuck[0])])}: waits for words that nobody sends"
        )
    else:
        reason = f"{_describe(machine, table, full)}: words arrived that no operation receives"
    raise Deadlock(
        f"wavelet reference: deadlock: {reason} ({len(stuck)} operations unfinished, {len(full)} queues not empty); "
        "give the transfers other colours or another order"
    )


class _Waits:
    """Wait-for graph of the queues and threads of a stopped simulation.

    A queue is identified by its index, and a thread by -1 - index.
    """

    def __init__(self, table: Tables) -> None:
        self.table = table
        self.waiting_words = (table.queues[:, k.TAIL] - table.queues[:, k.HEAD]).tolist()
        self.feeders: dict[int, list[int]] = {}  # nodes that may still send into a queue
        self.holders: dict[tuple[int, int], list[int]] = {}  # queues that may release a (PE, colour)
        for outputs, *row in table.routes.tolist():
            if row[k.ROUTE_RELEASED - 1] >= 0:
                pe, _, colour = table.identity[table.routes[row[k.ROUTE_RELEASED - 1], k.ROUTE_QUEUE]].tolist()
                self.holders.setdefault((pe, colour), []).append(row[k.ROUTE_QUEUE - 1])
            for target in row[:outputs]:
                self.feeders.setdefault(target, []).append(row[k.ROUTE_QUEUE - 1])
        self.reader: dict[int, int] = {}
        self.enabled: dict[tuple[int, int], int] = {}  # queue that a (PE, colour) currently takes wavelets from
        for i, queue in enumerate(table.queues):
            if queue[k.OUTPUTS]:
                self.enabled[int(table.identity[i][0]), int(table.identity[i][2])] = i
        for thread, row in enumerate(table.threads):
            for op in range(row[k.CURRENT], row[k.LAST]):
                if table.ops[op, k.RECEIVE] >= 0:
                    self.reader.setdefault(int(table.ops[op, k.RECEIVE]), -1 - thread)
                if table.ops[op, k.SEND] >= 0:
                    self.feeders.setdefault(int(table.ops[op, k.SEND]), []).append(-1 - thread)

    def of(self, node: int) -> list[int]:
        """Return the queues and threads that a queue or thread waits for.

        - A thread waits for the thread of an operation that must end first; otherwise for its empty
          receive queue; otherwise for its full send queue.
        - An empty queue waits for the queues and threads that may still send into it.
        - A queue with words into a PE waits for the thread that reads it.
        - Any other queue with words waits for a switch position that lets them pass, or for full
          queues on their route.
        """
        table = self.table
        if node < 0:
            op = table.ops[table.threads[-1 - node, k.CURRENT]]
            if op[k.AFTER] >= 0 and table.times[op[k.AFTER], 1] < 0:
                awaited_op = int(op[k.AFTER])
                owner = next(i for i, row in enumerate(table.threads) if row[k.CURRENT] <= awaited_op < row[k.LAST])
                return [-1 - owner]
            if op[k.RECEIVE] >= 0 and not self.waiting_words[op[k.RECEIVE]]:
                return [int(op[k.RECEIVE])]
            return [int(op[k.SEND])] if op[k.SEND] >= 0 else []
        queue = table.queues[node]
        if not self.waiting_words[node]:
            return self.feeders.get(node, [])
        pe, side, colour = table.identity[node].tolist()
        if side == INTO_PE:
            return [self.reader[node]] if node in self.reader else []
        if not queue[k.OUTPUTS]:
            return [self.enabled[pe, colour]] if (pe, colour) in self.enabled else self.holders.get((pe, colour), [])
        targets = queue[k.OUTPUT : k.OUTPUT + queue[k.OUTPUTS]].tolist()
        return [target for target in targets if self.waiting_words[target] >= table.queues[target, k.CAPACITY]]


def _describe(machine: WaveletMachine, table: Tables, nodes: list[int]) -> str:
    """Return a message that names waiting queues by PE, colour and side, at most MAX_NAMED of them.

    Args:
        machine: Routes and operations of the simulated PEs.
        table: Arrays of the simulation kernel after the simulation.
        nodes: Indices of queues. Negative numbers, which stand for threads, are ignored.
    """
    names: dict[str, None] = {}
    for node in nodes:
        if node >= 0:
            pe, side, colour = table.identity[node].tolist()
            names[f"{machine.pe_text(pe)} colour {colour} {SIDES[side]}"] = None
    shown_names = list(names)[:MAX_NAMED]
    rest = f" and {len(names) - len(shown_names)} more" if len(names) > len(shown_names) else ""
    return ", ".join(shown_names) + rest


LIMIT_CYCLES = 2**29


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
        log: True to record every move of a wavelet. The machine is then simulated twice, because
            the first run determines the length of the log.
        shuffle: Seed for a random numbering of the queues; None for the usual numbering. It does
            not affect results.

    Raises:
        Deadlock: Some operation can never finish.
        BadInput: A route leads nowhere, or the memory has the wrong shape.
    """
    table = tables(machine, shuffle=shuffle)
    shape = (machine.rows, machine.cols, machine.memory_words)
    values = np.zeros(shape, np.float32) if memory is None else np.array(memory, np.float32, copy=True)
    if values.shape != shape:
        raise BadInput(
            f"wavelet reference: memory of shape {values.shape}; the machine has {shape} (rows, cols, words)"
        )
    events = execute(machine, table, values.reshape(-1))
    check_finished(machine, table)
    if log:
        entered = int(table.queues[table.identity[:, 1] != Port.RAMP, k.TAIL].sum())
        fresh_table = tables(machine, shuffle=shuffle)
        events = execute(machine, fresh_table, np.zeros(values.size, np.float32), entered)
    return _result(machine, table, values, events)


def execute(machine: WaveletMachine, table: Tables, memory: F32, log: int = 0) -> I32:
    """Run the simulation kernel on the arrays of a machine, which are changed in place.

    Args:
        machine: Routes and operations of the simulated PEs.
        table: Arrays of the simulation kernel for this machine.
        memory: float32 ``[PEs * words]``: words of all PEs, changed in place.
        log: Maximum number of events (moves of a wavelet) to record.

    Returns:
        The recorded events, int32 ``[n, 3]``.
    """
    events, counts = np.zeros((log, 3), np.int32), np.zeros(2, np.int64)
    burst = burst_words(machine.wafer.stream_words_per_cycle)
    compiled_kernel("run_wavelets").serial(
        table.kernel_tables(memory), table.spans, events, counts, burst, LIMIT_CYCLES
    )
    return events[: counts[1]]


def _result(machine: WaveletMachine, table: Tables, memory: F32, events: I32) -> MachineRun:
    """Collect the results of a simulation from the tables that the kernel has updated.

    Args:
        machine: Routes and operations of the simulated PEs.
        table: Arrays of the simulation kernel after the simulation.
        memory: float32 words of all PEs.
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
        moves=_moves(machine, table, events),
    )


def _moves(machine: WaveletMachine, table: Tables, events: I32) -> I32:
    """Convert the events that the simulator recorded to moves of wavelets.

    An event consists of a cycle, the queue that a wavelet enters, and the queue that it leaves. A
    move describes the same event from the sending router: cycle, row and column of its PE, colour,
    and the ports through which the wavelet leaves the router and came in.

    Returns:
        int32 ``[n, 6]``, in the format of `MachineRun.moves`.
    """
    events = events[np.argsort(events[:, 0], kind="stable")]
    pe, side, colour = table.identity[events[:, 1]].T
    leaves, exit_port = pe.copy(), np.full(len(pe), Port.RAMP, np.int32)
    for port in STEP:
        is_after = side == port
        leaves[is_after], exit_port[is_after] = machine.neighbours(pe[is_after], port), port.opposite
    entry_port = table.identity[events[:, 2], 1]
    return np.stack(
        [events[:, 0], leaves // machine.cols, leaves % machine.cols, colour, exit_port, entry_port], axis=1
    )
