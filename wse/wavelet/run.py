"""Runs a Machine to its end: cycles per PE, values, words on every link, or the deadlock that it is in."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wse.errors import BadInput
from wse.wavelet.deadlock import check_finished
from wse.wavelet.flatten import tables
from wse.wavelet.machine import STEP, Machine
from wse.wavelet.tables import F32, I32, Tables
from wse_kernels import wavelet as k
from wse_kernels.library import compiled

I64 = npt.NDArray[np.int64]

LIMIT_CYCLES = 2**29
NO_EVENTS = np.zeros((0, 2), np.int32)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Result:
    """What a run did.

    Attributes:
        cycles: From the start to the end of the last vector operation.
        pe_cycles: int32 ``[rows, cols]``: the end of each PE's last operation, 0 where it has none.
        op_times: int32 ``[operation, 2]``: first cycle and the cycle after the last, in the machine's numbering.
        memory: float32 ``[rows, cols, words]`` afterwards.
        link_words: int64 ``[4, rows, cols]``: words that left each PE to the north, east, south and west.
        visits: Queues and threads looked at: the emulation's own work.
        events: int32 ``[n, 5]``: cycle, row, col, colour and the side (0 to 3 of ``Port``, 4 and 5: from and into the
            compute element) behind which a wavelet began to arrive; empty unless asked for.
    """

    cycles: int
    pe_cycles: I32
    op_times: I32
    memory: F32
    link_words: I64
    visits: int
    events: I32

    @property
    def hops(self) -> int:
        """Wavelets carried over links between neighbouring routers; ramps do not count."""
        return int(self.link_words.sum())


def run(
    machine: Machine, memory: F32 | None = None, *, workers: int = 1, log: int = 0, shuffle: int | None = None
) -> Result:
    """Carry out every operation of ``machine``.

    Args:
        machine: Routes and operations.
        memory: float32 ``[rows, cols, words]`` at the start; zeros without it. Not changed.
        workers: Cores; independent components are shared out among them.
        log: Room for that many events; only with one worker.
        shuffle: Seed of another numbering of the queues, on which nothing depends.

    Raises:
        Deadlock: some operation can never finish.
        BadInput: a route leads nowhere, or the memory has another shape.
    """
    table = tables(machine, shuffle=shuffle)
    shape = (machine.rows, machine.cols, machine.memory_words)
    held = np.zeros(shape, np.float32) if memory is None else np.array(memory, np.float32, copy=True)
    if held.shape != shape:
        msg = f"wavelet reference: memory of shape {held.shape}; the machine has {shape} (rows, cols, words)"
        raise BadInput(msg)
    visits, events = execute(machine, table, held.reshape(-1), workers, log)
    check_finished(machine, table)
    return _result(machine, table, held, visits, events)


def execute(machine: Machine, table: Tables, memory: F32, workers: int, log: int = 0) -> tuple[int, I32]:
    """Run the kernel on ``table``, which it changes; gives the visits and the events."""
    rate = machine.wafer.stream_words_per_cycle
    burst = 0 if rate >= 1 else max(1, round(rate / (1 - rate)))
    function = compiled("run_wavelets").serial
    workers = max(1, min(workers, os.cpu_count() or 1, len(table.spans))) if log == 0 else 1
    events = np.zeros((log, 2), np.int32) if log else NO_EVENTS

    def part(spans: I32) -> npt.NDArray[np.int64]:
        counts = np.zeros(3, np.int64)
        function(
            table.queues,
            table.routes,
            table.links,
            table.members,
            table.routers,
            table.threads,
            table.ops,
            table.times,
            memory,
            spans,
            events,
            counts,
            burst,
            LIMIT_CYCLES,
        )
        return counts

    if workers == 1:
        counts = part(table.spans)
    else:
        with ThreadPoolExecutor(workers) as pool:
            counts = np.sum(list(pool.map(part, np.array_split(table.spans, workers))), axis=0)
    return int(counts[2]), events[: counts[1]]


def _result(machine: Machine, table: Tables, memory: F32, visits: int, events: I32) -> Result:
    shape = (machine.rows, machine.cols)
    pe_cycles = np.zeros(machine.rows * machine.cols, np.int32)
    if len(table.threads):
        ends = table.times[table.threads[:, k.LAST] - 1, 1]
        np.maximum.at(pe_cycles, table.thread_pe, ends)
    op_times = np.empty_like(table.times)
    op_times[table.op_order] = table.times
    words = np.zeros((4, machine.rows * machine.cols), np.int64)
    for port in STEP:
        behind = table.identity[:, 1] == port
        senders = machine.neighbours(table.identity[behind, 0], port)
        np.add.at(words[port.opposite], senders, table.queues[behind, k.TAIL])
    pe, side, colour = table.identity[events[:, 1]].T if len(events) else np.zeros((3, 0), np.int32)
    logged = np.stack([events[:, 0], pe // machine.cols, pe % machine.cols, colour, side], axis=1)
    return Result(
        cycles=int(pe_cycles.max(initial=0)),
        pe_cycles=pe_cycles.reshape(shape),
        op_times=op_times,
        memory=memory,
        link_words=words.reshape(4, *shape),
        visits=visits,
        events=logged.astype(np.int32),
    )
