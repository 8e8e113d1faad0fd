"""Deadlocks: error messages with the PEs and colours that wait for each other."""

from __future__ import annotations

from typing import Final

from wse.backends.wavelet.components import circular_wait
from wse.backends.wavelet.flatten import Tables
from wse.backends.wavelet.machine import WaveletMachine
from wse.backends.wavelet.wiring import INTO_PE
from wse.errors import Deadlock
from wse_kernels.operands import wavelet_tables as k

MAX_NAMED: Final = 8
SIDES: Final = ("from north", "from east", "from south", "from west", "out of the PE", "into the PE")


def check_finished(machine: WaveletMachine, table: Tables) -> None:
    """Raise Deadlock unless every operation of a simulated machine has ended without words left.

    Args:
        machine: The machine.
        table: Its tables after the simulation.
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
    msg = (
        f"wavelet reference: deadlock: {reason} ({len(stuck)} operations unfinished, {len(full)} queues not empty); "
        "give the transfers other colours or another order"
    )
    raise Deadlock(msg)


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
    """Return a text that names waiting queues by PE, colour and side, at most MAX_NAMED of them."""
    names: dict[str, None] = {}
    for node in nodes:
        if node >= 0:
            pe, side, colour = table.identity[node].tolist()
            names[f"{machine.pe_text(pe)} colour {colour} {SIDES[side]}"] = None
    shown_names = list(names)[:MAX_NAMED]
    rest = f" and {len(names) - len(shown_names)} more" if len(names) > len(shown_names) else ""
    return ", ".join(shown_names) + rest
