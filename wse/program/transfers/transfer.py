"""Transfer: the questions that every kind of transfer answers about one of its steps.

A kind is a class. Its fields are the operands of a step, by name; an instance is one turn of one step, with the numbers
that the operands have there. Readers of a Program ask it for its messages and for what these need, and need not know
which kind it is. ``docs/decisions/0021-transfers.md`` has the reasons.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, overload

from wse.arrays import I64
from wse.number_formats import ELEMENT_BYTES
from wse.program.program import Program, Stage
from wse.program.transfers.messages import EdgeStream, Messages
from wse_mappings.schedule import LineSchedule

WaferPair = tuple[int, int]
"""The wafer that sends and the one that receives; the host is ``steps.HOST``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The place and time of a transfer.

    Attributes:
        program: The Program.
        stage: Index of the stage that sends; of the one that receives, if the host sends.
        pattern: The pattern that its step names, if any.
        axis: ROWS or COLUMNS of the pattern's lines.
        view: Index into ``wse.program.isa.operands.VIEWS`` of the elements.
        round: The turn of its loop.
        first_row: First row of the region that takes part.
        rows: Rows that take part.
        begins: Whether its phase is the first of a run.
        chosen: The wafers of the stage that hold chosen experts; None where it does not matter or all may.
    """

    program: Program
    stage: int
    pattern: LineSchedule | None
    axis: int
    view: int
    round: int
    first_row: int
    rows: int
    begins: bool
    chosen: frozenset[int] | None

    @property
    def placed_stage(self) -> Stage:
        """The stage itself."""
        return self.program.stages[self.stage]

    @property
    def schedule(self) -> LineSchedule:
        """The pattern of a step that has one."""
        assert self.pattern is not None
        return self.pattern

    @overload
    def words(self, elements: int) -> int: ...

    @overload
    def words(self, elements: I64) -> I64: ...

    def words(self, elements: int | I64) -> int | I64:
        """32-bit words of so many elements."""
        return -(-elements * ELEMENT_BYTES[self.program.element_types[self.view]] // 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """A turn of a step that moves words.

    Attributes:
        site: The place and time of the turn.
        source: Address that is sent from, in elements of the step's view.
        target: Address that words arrive at.
        elements: Elements of one message.
    """

    name: ClassVar[str]
    """The name that people see, where no pattern names the step."""
    addresses: ClassVar[tuple[str, ...]] = ("source", "target")
    """Operands that are addresses: steps that differ in nothing else cost and move the same."""
    by_place: ClassVar[bool] = False
    """True if it depends on where regions stand, rather than by their shape alone."""
    by_counters: ClassVar[bool] = False
    """True if its words depend on a user's counters, and so differ from run to run of a phase."""
    leaves_wafer: ClassVar[bool] = False
    """True if its words leave a wafer, for another one or for the host."""

    site: Site
    source: int
    target: int
    elements: int

    @classmethod
    def colours(cls, pattern: LineSchedule | None) -> int:
        """Colours that a step of this kind with that pattern occupies on the PEs of its region."""
        return 0

    @property
    def messages(self) -> Messages:
        """The messages of the turn: which PEs send words to which."""
        raise NotImplementedError

    @property
    def words(self) -> int:
        """32-bit words of one message."""
        return self.site.words(self.elements)

    @property
    def edges(self) -> tuple[EdgeStream, ...]:
        """The words in transit to the edge of a wafer, and from it, of a transfer that leaves its wafer."""
        return ()

    @property
    def crossings(self) -> tuple[WaferPair, ...]:
        """The pairs of wafers between which it sends ``crossing_bytes`` each."""
        return ()

    @property
    def crossing_bytes(self) -> int:
        """Payload without padding that goes over one crossing."""
        return 0

    @property
    def link_latencies(self) -> int:
        """Latencies of the link between wafers that are waited for, one after another."""
        return 1

    @property
    def rounds(self) -> int:
        """Messages from one wafer to another, each after the one before."""
        return 1

    @property
    def added_elements(self) -> int:
        """Elements that a PE adds to its own for each message that comes from another wafer."""
        return 0

    @property
    def host_round_trips(self) -> float:
        """Round trips to the host that are waited for."""
        return 0.0

    @property
    def is_awaited(self) -> bool:
        """True if the phase waits for it."""
        return True

    @property
    def in_memory(self) -> bool:
        """True if words go from one place in a PE's SRAM to another, over no link."""
        return False

    @property
    def handed_bytes(self) -> int:
        """Payload that it hands from one stage to another."""
        return 0
