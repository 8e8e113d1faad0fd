"""WaveletMachine: routes of a small region of PEs, and vector operations of the PEs."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

import numpy as np

from wse.arrays import I32
from wse.errors import BadInput, BadMesh
from wse.hardware.spec import WaferSpec
from wse_kernels.operands.wavelet_tables import SLOT_COUNT
from wse_mappings.schedule import Arrival

LARGEST_PES: Final = 65_536
LARGEST_WORDS: Final = 2**28  # 1 GiB of float32


class Port(IntEnum):
    """Side of a router: a link to a neighbouring router, or the ramp to its own PE."""

    NORTH = 0
    EAST = 1
    SOUTH = 2
    WEST = 3
    RAMP = 4

    @property
    def opposite(self) -> Port:
        """Port at the other end of a link."""
        return Port((self + 2) % 4)


STEP: Final = {Port.NORTH: (-1, 0), Port.EAST: (0, 1), Port.SOUTH: (1, 0), Port.WEST: (0, -1)}


@dataclass(frozen=True, slots=True)
class SwitchPosition:
    """Setting of a PE's router for one colour: where wavelets come from and where they go.

    A wavelet is a 32-bit word in the fabric. A colour on a PE may have several positions, which the
    router uses in order.

    Attributes:
        source: Side that wavelets come from.
        targets: Sides that wavelets are copied to.
        controls: Number of wavelets with a control bit after which the router changes to the next
            position. The last position is followed by itself. 0 means that the position never ends.
        waits_for_release: Whether the colour accepts nothing after this position until another
            position of the PE releases it.
        releases: (colour, index of a position of that colour) to which the router changes when this
            position ends. A PE that receives on one colour and sends on another uses it to block
            the words of other PEs until its own words have left.
    """

    source: Port
    targets: tuple[Port, ...]
    controls: int = 0
    waits_for_release: bool = False
    releases: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Vector operation of a PE, which can receive words, combine them with SRAM and send results.

    At most one operand comes from the fabric, as on WSE-3. On WSE-2, two operands can.

    Attributes:
        receive: Colour of the received operand; -1 to read the words from SRAM.
        send: Colour on which the results are sent; -1 if nothing is sent.
        arrival: How a received word is combined or stored. MULTICAST and REPLACE both store it.
        address: Address of the first word in the PE's memory, in words.
        words: Number of words.
        mark: Whether the last word sent carries the control bit.
        gap_cycles: Minimum number of cycles between the end of the thread's previous operation and
            the start of this one.
        delay_cycles: Number of cycles from the arrival of the first received word until it is
            processed.
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
    """Setting of a router for one colour (switch position) that is added to several PEs.

    Attributes:
        pes: int32 ``[n]``: the PEs.
        colour: The colour.
        position: The switch position, which the router uses after any previously added positions.
    """

    pes: I32
    colour: int
    position: SwitchPosition


@dataclass(frozen=True, slots=True)
class OperationBlock:
    """Operation that is added to the same thread of several PEs.

    Attributes:
        pes: int32 ``[n]``: the PEs.
        thread: Number of the thread on each PE.
        operation: The operation.
        after: int32 ``[n]``: for each PE, the index of an earlier operation that must have ended
            before this one starts; -1 if there is none.
    """

    pes: I32
    thread: int
    operation: Operation
    after: I32


@dataclass(slots=True)
class WaveletMachine:
    """Routes and vector operations of a region of PEs, as input of the cycle-by-cycle simulator.

    The threads of a PE run concurrently. The operations of a thread run in order. If two threads of
    a PE would send in the same cycle, the thread with the lower number sends first.

    Attributes:
        wafer: Wafer type, with its latencies and limits.
        rows, cols: Size of the region.
        memory_words: Memory per PE in words.
        start: int32 ``[rows, cols]``: cycle at which each PE starts to work; None for 0 on all PEs.
        route_blocks: Switch positions that were added with ``route``, in order.
        operation_blocks: Operations that were added with ``operate``, in order.
        operations: Number of operations of all PEs so far.
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
        """Raise an error for unsupported sizes, before memory is allocated.

        Raises:
            BadMesh: The region is empty or too large.
            BadInput: A router queue can hold more words than the simulator supports.
        """
        if self.rows < 1 or self.cols < 1 or self.memory_words < 1:
            raise BadMesh(
                f"wavelet reference: a region of {self.rows}x{self.cols} PEs with {self.memory_words} words is empty"
            )
        pes = self.rows * self.cols
        if pes > LARGEST_PES or pes * self.memory_words > LARGEST_WORDS:
            raise BadMesh(
                f"wavelet reference: {self.rows}x{self.cols} PEs with {self.memory_words:,} words each are "
                f"{pes:,} PEs and {pes * self.memory_words:,} words; at most {LARGEST_PES:,} and {LARGEST_WORDS:,} "
                "fit: use a smaller region or the fabric model"
            )
        deepest = self.queue_words(max(self.wafer.hop_cycles, self.wafer.ramp_cycles + 1))
        if deepest > SLOT_COUNT:
            raise BadInput(
                f"wavelet reference: router_queue_words = {self.wafer.router_queue_words} with hop_cycles = "
                f"{self.wafer.hop_cycles} and ramp_cycles = {self.wafer.ramp_cycles} needs {deepest} places per queue, "
                f"at most {SLOT_COUNT} fit: use a shallower queue or shorter latencies"
            )

    def queue_words(self, latency: int) -> int:
        """Return how many words fit into a queue and on the wire that leads to it.

        Args:
            latency: Cycles that a word spends on the wire.
        """
        return self.wafer.router_queue_words + max(latency, 1) - 1

    def pe(self, row: int, col: int) -> int:
        """Return the index of the PE at a row and column; PEs are numbered row by row, from 0."""
        return row * self.cols + col

    def pe_text(self, pe: int) -> str:
        """Format the row and column of a PE for error messages."""
        return f"PE ({pe // self.cols}, {pe % self.cols})"

    def neighbours(self, pes: I32, side: int) -> I32:
        """Return the index of each PE's neighbour on one side; -1 at the edge of the region."""
        row_step, col_step = STEP[Port(side)]
        row, col = pes // self.cols + row_step, pes % self.cols + col_step
        is_inside = (row >= 0) & (row < self.rows) & (col >= 0) & (col < self.cols)
        return np.where(is_inside, row * self.cols + col, -1).astype(np.int32)

    def route(self, pes: int | I32, colour: int, position: SwitchPosition) -> None:
        """Add a switch position (setting) for a colour to the routers of some PEs.

        A router uses the switch positions of a colour in the order in which they were added.

        Args:
            pes: Index of a PE, or int32 ``[n]``, indices of several PEs.
            colour: Index of the colour.
            position: The switch position: where words of the colour come from and where they go.

        Raises:
            BadInput: The wafer has no such colour.
        """
        numbers, usable = np.atleast_1d(np.asarray(pes, np.int32)), self.wafer.colours - self.wafer.reserved_colours
        if not 0 <= colour < usable:
            pe_text = self.pe_text(int(numbers[0]))
            raise BadInput(
                f"wavelet reference: colour {colour} on {pe_text}; {self.wafer.name} has colours 0 to {usable - 1}"
            )
        self.route_blocks.append(RouteBlock(numbers, colour, position))

    def operate(self, pes: int | I32, thread: int, operation: Operation, previous_operation: int | I32 = -1) -> I32:
        """Append an operation to a thread of one or several PEs.

        Args:
            pes: Indices of the PEs.
            thread: Number of the thread on each PE.
            operation: The operation.
            previous_operation: An operation of the same PE, on any thread, that must have ended
                before; -1 if there is none. Either one number, or one per PE.

        Returns:
            int32 ``[n]``, the numbers of the new operations.

        Raises:
            BadInput: The words are outside the PE's memory, or their number is zero.
        """
        numbers = np.atleast_1d(np.asarray(pes, np.int32))
        if operation.words < 1 or not 0 <= operation.address <= self.memory_words - operation.words:
            end = operation.address + operation.words
            raise BadInput(
                f"wavelet reference: words {operation.address} to {end} of {self.pe_text(int(numbers[0]))}; "
                f"the PE has {self.memory_words} words, and an operation needs at least one"
            )
        waits = np.broadcast_to(np.asarray(previous_operation, np.int32), numbers.shape)
        self.operation_blocks.append(OperationBlock(numbers, thread, operation, waits))
        self.operations += len(numbers)
        return np.arange(self.operations - len(numbers), self.operations, dtype=np.int32)
