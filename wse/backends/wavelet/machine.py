"""Machine: the configuration of a small region, routes with switch positions and the PEs' vector operations."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

import numpy as np

from wse.arrays import I32
from wse.errors import BadInput, BadMesh
from wse.hardware.spec import WaferSpec
from wse_kernels.wavelet import SLOT_COUNT
from wse_mappings.schedule import Arrival

LARGEST_PES: Final = 65_536
LARGEST_WORDS: Final = 2**28  # 1 GiB of float32


class Port(IntEnum):
    """The sides of a router. ``opposite`` is the port at the other end of a link."""

    NORTH = 0
    EAST = 1
    SOUTH = 2
    WEST = 3
    RAMP = 4

    @property
    def opposite(self) -> Port:
        return Port((self + 2) % 4)


STEP: Final = {Port.NORTH: (-1, 0), Port.EAST: (0, 1), Port.SOUTH: (1, 0), Port.WEST: (0, -1)}


@dataclass(frozen=True, slots=True)
class SwitchPosition:
    """A switch position of a colour on a PE: the side that wavelets come from, and the sides that they are copied to.

    After ``controls`` wavelets with a control bit the position ends and the colour's next one begins, the last one
    again; 0: it stays. ``waits_for_release``: after this position the colour takes nothing until another position of
    the PE ``releases`` it, as it ends, by naming (colour, index of the position that begins). So a PE that receives on
    one colour and sends on another lets others' words pass only when its own have left.
    """

    source: Port
    targets: tuple[Port, ...]
    controls: int = 0
    waits_for_release: bool = False
    releases: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A vector operation: receives on a colour, combines with memory, sends on a colour; -1 for no colour.

    It has one operand from the fabric, as on WSE-3; WSE-2 could take two.

    Attributes:
        receive: Colour that the operand comes on; without it, words are read from memory.
        send: Colour that the results leave on.
        arrival: What happens with a received word; MULTICAST stores it as REPLACE does.
        address: First word in the PE's memory.
        words: Length.
        mark: Whether the last word sent carries the control bit.
        gap_cycles: From the end of the thread's previous operation, if there is one, to the earliest start of this one.
        delay_cycles: From the arrival of the first word, where one is received, to its being worked on.
    """

    receive: int = -1
    send: int = -1
    arrival: Arrival = Arrival.REPLACE
    address: int = 0
    words: int = 1
    mark: bool = False
    gap_cycles: int = 0
    delay_cycles: int = 0


@dataclass(frozen=True, slots=True)
class RouteBlock:
    """A switch position of one colour on some PEs ``[n]``, after the positions that they already have."""

    pes: I32
    colour: int
    position: SwitchPosition


@dataclass(frozen=True, slots=True)
class OperationBlock:
    """An operation on a thread of some PEs ``[n]``, and the operation ``[n]`` that must have ended before, or -1."""

    pes: I32
    thread: int
    operation: Operation
    after: I32


@dataclass(slots=True)
class Machine:
    """A region of ``rows`` x ``cols`` PEs with ``memory_words`` float32 words each.

    Threads of a PE run at the same time, the operations of one thread in their order. A lower thread has the ramp first
    where two would send in one cycle.

    ``start`` int32 ``[rows, cols]``, zeros without it: the cycle from which each PE works.
    """

    wafer: WaferSpec
    rows: int
    cols: int
    memory_words: int
    start: I32 | None = None
    route_blocks: list[RouteBlock] = field(default_factory=list)
    operation_blocks: list[OperationBlock] = field(default_factory=list)
    operations: int = 0

    def __post_init__(self) -> None:
        """Refuse sizes that are too large before anything is allocated."""
        if self.rows < 1 or self.cols < 1 or self.memory_words < 1:
            msg = f"wavelet reference: a region of {self.rows}x{self.cols} PEs with {self.memory_words} words is empty"
            raise BadMesh(msg)
        pes = self.rows * self.cols
        if pes > LARGEST_PES or pes * self.memory_words > LARGEST_WORDS:
            msg = (
                f"wavelet reference: {self.rows}x{self.cols} PEs with {self.memory_words:,} words each are "
                f"{pes:,} PEs and {pes * self.memory_words:,} words; at most {LARGEST_PES:,} and {LARGEST_WORDS:,} "
                "fit: take a smaller region or the fast model"
            )
            raise BadMesh(msg)
        deepest = self.queue_words(max(self.wafer.hop_cycles, self.wafer.ramp_cycles + 1))
        if deepest > SLOT_COUNT:
            msg = (
                f"wavelet reference: router_queue_words = {self.wafer.router_queue_words} with hop_cycles = "
                f"{self.wafer.hop_cycles} and ramp_cycles = {self.wafer.ramp_cycles} needs {deepest} places a queue, "
                f"at most {SLOT_COUNT} fit: take a shallower queue or shorter latencies"
            )
            raise BadInput(msg)

    def queue_words(self, latency: int) -> int:
        """Return the places of a queue after a link of ``latency`` cycles: those of the router and of the wire."""
        return self.wafer.router_queue_words + max(latency, 1) - 1

    def pe(self, row: int, col: int) -> int:
        """Return the number of a PE."""
        return row * self.cols + col

    def pe_text(self, pe: int) -> str:
        """Return a PE as people read it."""
        return f"PE ({pe // self.cols}, {pe % self.cols})"

    def neighbours(self, pes: I32, side: int) -> I32:
        """Return the neighbours of PEs on one side, -1 beyond the edge."""
        down, right = STEP[Port(side)]
        row, col = pes // self.cols + down, pes % self.cols + right
        inside = (row >= 0) & (row < self.rows) & (col >= 0) & (col < self.cols)
        return np.where(inside, row * self.cols + col, -1).astype(np.int32)

    def route(self, pes: int | I32, colour: int, position: SwitchPosition) -> None:
        """Append a switch position to a colour of one or several PEs."""
        numbers, usable = np.atleast_1d(np.asarray(pes, np.int32)), self.wafer.colours - self.wafer.reserved_colours
        if not 0 <= colour < usable:
            where = self.pe_text(int(numbers[0]))
            msg = f"wavelet reference: colour {colour} on {where}; {self.wafer.name} has 0 to {usable - 1}"
            raise BadInput(msg)
        self.route_blocks.append(RouteBlock(numbers, colour, position))

    def operate(self, pes: int | I32, thread: int, operation: Operation, after: int | I32 = -1) -> I32:
        """Append an operation to a thread of one or several PEs.

        Args:
            pes: Numbers of PEs.
            thread: Of each of them.
            operation: What it does.
            after: An operation of the same PE, on any thread, that must have ended; -1 for none. One number, or one
                for each PE.

        Returns:
            int32 ``[n]``: the numbers of the new operations.
        """
        numbers = np.atleast_1d(np.asarray(pes, np.int32))
        if operation.words < 1 or not 0 <= operation.address <= self.memory_words - operation.words:
            end = operation.address + operation.words
            msg = (
                f"wavelet reference: words {operation.address} to {end} of {self.pe_text(int(numbers[0]))}; "
                f"it has {self.memory_words}, and an operation has at least one"
            )
            raise BadInput(msg)
        waits = np.broadcast_to(np.asarray(after, np.int32), numbers.shape)
        self.operation_blocks.append(OperationBlock(numbers, thread, operation, waits))
        self.operations += len(numbers)
        return np.arange(self.operations - len(numbers), self.operations, dtype=np.int32)
