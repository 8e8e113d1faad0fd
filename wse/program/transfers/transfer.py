"""Transfer: the common interface of all transfer types.

Each type is a class whose fields are the operands of a step, by name. An instance stands for one
iteration of one step, with the operand values of that iteration. The backends ask a transfer for
its messages, cost and so on, and need not know its type. ``docs/decisions/0021-transfers.md`` gives
the reasons for this design.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, overload

from wse.arrays import I64
from wse.number_formats import ELEMENT_BYTES
from wse.program.program import Program
from wse.program.stage import Stage
from wse.program.transfers.messages import EdgeStream, Messages
from wse_mappings.schedule import LineSchedule

WaferPair = tuple[int, int]
"""Sending and receiving wafer; the host is ``steps.HOST``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Context of a transfer: the stage, rows, pattern and loop iteration of its step.

    A stage is a part of the model, stored on one region of PEs.

    Attributes:
        program: The Program.
        stage: Index of the sending stage, or of the receiving stage if the host sends.
        pattern: Communication pattern of the step, or None.
        axis: ROWS or COLUMNS, the direction of the pattern's lines.
        view: Index into ``wse.program.isa.operands.VIEWS``, which determines the element type.
        round: Iteration of the step's loop.
        first_row: First participating row of the region.
        rows: Number of participating rows.
        begins: True if the phase is the first chunk of the first prompt, which waits for its token
            ids (see `Phase.begins`).
        chosen_wafers: Wafers of the stage that store selected experts. None if the step does not
            depend on the selection, or if any wafer may store selected experts.
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
    chosen_wafers: frozenset[int] | None

    @property
    def placed_stage(self) -> Stage:
        """The stage (a region of PEs with its layers) to which the index ``stage`` refers."""
        return self.program.stages[self.stage]

    @property
    def schedule(self) -> LineSchedule:
        """Communication pattern of the step, which must have one."""
        assert self.pattern is not None
        return self.pattern

    @overload
    def words(self, elements: int) -> int: ...

    @overload
    def words(self, elements: I64) -> I64: ...

    def words(self, elements: int | I64) -> int | I64:
        """Return how many 32-bit words a number of elements occupies.

        Args:
            elements: Number of elements of the transfer's element type, or an array of such
                numbers.
        """
        return -(-elements * ELEMENT_BYTES[self.program.element_types[self.view]] // 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Movement of words between PEs, wafers or the host: one iteration of a step of a Program.

    Attributes:
        site: Context of the transfer, such as the region of PEs and the communication pattern.
        source: SRAM address of the sent words, in elements of the transfer's element type.
        target: SRAM address at which the words arrive, in the same unit.
        elements: Number of elements per message.
    """

    name: ClassVar[str]
    """Name that is displayed if the step has no pattern."""
    addresses: ClassVar[tuple[str, ...]] = ("source", "target")
    """Names of the operands that are addresses.

    Steps that differ only in these operands have equal costs and traffic.
    """
    by_place: ClassVar[bool] = False
    """True if cost and traffic depend on the positions of regions, and not only on their shapes."""
    by_counters: ClassVar[bool] = False
    """True if the number of words depends on a user's counters, which change from run to run."""
    leaves_wafer: ClassVar[bool] = False
    """True if words leave a wafer, for another wafer or for the host."""

    site: Site
    source: int
    target: int
    elements: int

    @classmethod
    def colours(cls, pattern: LineSchedule | None) -> int:
        """Return the number of router colours that a transfer of this type uses.

        Args:
            pattern: Communication pattern of the step, or None.
        """
        return 0

    @property
    def messages(self) -> Messages:
        """Messages of the transfer, which determine the sending and the receiving PEs."""
        raise NotImplementedError

    @property
    def words(self) -> int:
        """Number of 32-bit words of one message."""
        return self.site.words(self.elements)

    @property
    def edges(self) -> tuple[EdgeStream, ...]:
        """Paths of words between PEs and the edge of a wafer; empty if no words leave it."""
        return ()

    @property
    def crossings(self) -> tuple[WaferPair, ...]:
        """Pairs (sending wafer, receiving wafer) between which words are sent; the host is -1.

        ``crossing_bytes`` is the payload for each pair.
        """
        return ()

    @property
    def crossing_bytes(self) -> int:
        """Payload in bytes sent between each pair of wafers, excluding padding."""
        return 0

    @property
    def link_latencies(self) -> int:
        """Number of times that the transfer waits for the latency of a link between wafers."""
        return 1

    @property
    def rounds(self) -> int:
        """Number of messages that one wafer sends to another, one after another."""
        return 1

    @property
    def added_elements(self) -> int:
        """Number of elements of a message from another wafer that a PE adds to its own; else 0."""
        return 0

    @property
    def host_round_trips(self) -> float:
        """Number of round trips to the host that the phase must wait for."""
        return 0.0

    @property
    def is_awaited(self) -> bool:
        """True if the phase ends only after the transfer has ended."""
        return True

    @property
    def in_memory(self) -> bool:
        """True if words are copied within the SRAM of a PE and use no link."""
        return False

    @property
    def stage_transfer_bytes(self) -> int:
        """Payload in bytes that the transfer sends from one stage to another; otherwise 0.

        A stage is a part of the model, stored on one region of PEs.
        """
        return 0
