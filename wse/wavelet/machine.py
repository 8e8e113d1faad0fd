"""What a small region is configured to do: routes with switch positions, and the PEs' vector operations."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from wse.errors import BadInput, BadMesh
from wse.hardware.spec import WaferSpec
from wse_kernels.wavelet import SLOT_COUNT
from wse_mappings.schedule import Arrival

LARGEST_PES: Final = 65_536
LARGEST_WORDS: Final = 2**28  # 1 GiB of float32


class Port(IntEnum):
    """The sides of a router. ``opposite`` of a link's end is its other end."""

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
class Position:
    """One switch position of a colour on a PE: from which side wavelets are taken, and to which they are copied.

    After ``controls`` wavelets with a control bit the position ends and the colour's next one begins, the last one
    again; 0: it stays. ``held``: after this position the colour takes nothing until another position of the PE
    ``releases`` it, as it ends, by naming (colour, index of the position that begins). So a PE that receives on one
    colour and sends on another lets others' words pass only when its own have left.
    """

    source: Port
    targets: tuple[Port, ...]
    controls: int = 0
    held: bool = False
    releases: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One vector operation: receives on a colour, combines with memory, sends on a colour; -1 for no colour.

    Attributes:
        receive: Colour that the operand comes on; without it, words are read from memory.
        send: Colour that the results leave on.
        arrival: What happens with a received word; MULTICAST stores it as REPLACE does.
        address: First word in the PE's memory.
        words: Length.
        after: An operation of this PE, on any thread, that must have ended; -1 for none.
        mark: Whether the last word sent carries the control bit.
        gap_cycles: From the end of the thread's previous operation to the earliest start of this one.
    """

    receive: int = -1
    send: int = -1
    arrival: Arrival = Arrival.REPLACE
    address: int = 0
    words: int = 1
    after: int = -1
    mark: bool = False
    gap_cycles: int = 0


@dataclass(slots=True)
class Machine:
    """A region of ``rows`` × ``cols`` PEs with ``memory_words`` float32 words each.

    Threads of a PE run at the same time, the operations of one thread in their order. Thread 0 is the main one; a lower
    thread has the ramp first where two would send in one cycle. How many there are is not held against the hardware's
    eight microthreads, which patterns that follow one another use again.
    """

    wafer: WaferSpec
    rows: int
    cols: int
    memory_words: int
    positions: dict[tuple[int, int], list[Position]] = field(default_factory=dict)  # of (PE, colour)
    operations: list[Operation] = field(default_factory=list)
    threads: dict[tuple[int, int], list[int]] = field(default_factory=dict)  # operations of (PE, thread)

    def __post_init__(self) -> None:
        """Refuse what is too large before anything is allocated."""
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
        """Places of a queue behind a link of ``latency`` cycles: those of the router, and the wire's own registers."""
        return self.wafer.router_queue_words + max(latency, 1) - 1

    def pe(self, row: int, col: int) -> int:
        """The number of a PE."""
        return row * self.cols + col

    def where(self, pe: int) -> str:
        """A PE as people read it."""
        return f"PE ({pe // self.cols}, {pe % self.cols})"

    def neighbour(self, pe: int, side: Port) -> int:
        """The PE on that side, -1 beyond the edge."""
        row, col = pe // self.cols + STEP[side][0], pe % self.cols + STEP[side][1]
        return self.pe(row, col) if 0 <= row < self.rows and 0 <= col < self.cols else -1

    def route(self, pe: int, colour: int, position: Position) -> None:
        """Append a switch position to a colour of a PE."""
        usable = self.wafer.colours - self.wafer.reserved_colours
        if not 0 <= colour < usable:
            msg = f"wavelet reference: colour {colour} on {self.where(pe)}; {self.wafer.name} has 0 to {usable - 1}"
            raise BadInput(msg)
        self.positions.setdefault((pe, colour), []).append(position)

    def operate(self, pe: int, thread: int, operation: Operation) -> int:
        """Append an operation to a thread of a PE; returns its number."""
        if operation.words < 1 or not 0 <= operation.address <= self.memory_words - operation.words:
            end = operation.address + operation.words
            msg = (
                f"wavelet reference: words {operation.address} to {end} of {self.where(pe)}; "
                f"it has {self.memory_words}, and an operation has at least one"
            )
            raise BadInput(msg)
        number = len(self.operations)
        self.operations.append(operation)
        self.threads.setdefault((pe, thread), []).append(number)
        return number
