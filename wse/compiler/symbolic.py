"""Symbolic steps: steps as created by lowering, without addresses and colours.

A *block* is the list of steps of one layer, or of ops outside layers. All equivalent layers run the
same block, each on its own buffers. An *overlap group* is a set of steps in a block that run
concurrently.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from wse.compiler.choice import TreeSize
from wse.program.tiles import Tile


@dataclass(slots=True, kw_only=True, eq=False)
class SymBuffer:
    """Buffer in the SRAM of every PE of a stage, before it is assigned an address.

    A stage is a part of the model with its own PEs. Buffers are compared by identity.

    Attributes:
        stage: Index of the stage whose PEs store the buffer.
        name: Name, unique within the stage.
        use: Purpose, such as ``weights`` or ``kv``. Messages and reports break down bytes by use.
        view: How kernels interpret the bytes, one of `wse.program.isa.operands.VIEWS`. It
            determines the element type.
        elements: Size in elements, which grows to the largest request.
        permanent: Whether the contents survive from one phase to the next.
    """

    stage: int
    name: str
    use: str
    view: str
    elements: int
    permanent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SymAddress:
    """Operand that refers to an element of a buffer before the buffer is assigned an address.

    The index of the element is ``offset + (per_round + per_slot_round * slots) * round``. ``round``
    is the iteration of the step's loop, and ``slots`` is the number of KV-cache slots in use.

    Attributes:
        buffer: Buffer in even rounds, and in all rounds if there is no ``odd_round_buffer``.
        offset: Number of elements from the start of the buffer.
        per_round, per_slot_round: Coefficients of the formula above, in elements.
        odd_round_buffer: Buffer in odd rounds, for double buffering; None if there is only one
            buffer.
    """

    buffer: SymBuffer
    offset: int = 0
    per_round: int = 0
    per_slot_round: int = 0
    odd_round_buffer: SymBuffer | None = None

    def plus(self, elements: int) -> SymAddress:
        """Return the address of the element that is ``elements`` elements after this one."""
        return replace(self, offset=self.offset + elements)

    def moved_to(self, buffer: SymBuffer, elements: int) -> SymAddress:
        """Return the address of the same element if its buffer becomes a part of another buffer.

        Args:
            buffer: The other buffer.
            elements: Offset of the old buffer in the other buffer.
        """
        return replace(self, buffer=buffer, offset=self.offset + elements)


@dataclass(frozen=True, slots=True, kw_only=True)
class SymNumber:
    """Numeric operand of a step: a linear function of quantities that vary at run time.

    The value is ``fixed + per_slot * slots + per_round * round - per_pair * (max_pairs - pairs)``.
    ``slots`` is the number of KV-cache slots in use, and ``round`` is the iteration of the step's
    loop. ``pairs`` is the number of (token, expert) pairs that a column of PEs processes, and
    ``max_pairs`` is its maximum.
    """

    fixed: int = 0
    per_slot: int = 0
    per_round: int = 0
    per_pair: int = 0

    @property
    def is_fixed(self) -> bool:
        """True if the operand has the same value for every token and in every iteration."""
        return not (self.per_slot or self.per_round or self.per_pair)


@lru_cache(maxsize=1 << 14)
def fixed_number(value: int) -> SymNumber:
    """Return a numeric operand that does not vary at run time.

    Equal numbers share one cached object.
    """
    return SymNumber(fixed=value)


@dataclass(frozen=True, kw_only=True, eq=False)
class SymStep:
    """One step of a block, before addresses and colours are assigned: a kernel call or a transfer.

    Attributes:
        kind: Whether the step computes or transfers; a `StepKind`.
        code: Index of the kernel or of the kind of transfer.
        pattern: Index of the pattern; -1 for steps without one.
        axis: Axis of the pattern's lines.
        view: Element view of what a transfer moves.
        op, loop, overlap: Indices of the op, loop and overlap group within the block; -1 for no
            loop and no group.
        depends_on_experts: Whether the work depends on which experts are selected.
        operands: The operands, by index in the operand array.
        runs_in_previous_task: Whether the step runs in the same task as the preceding compute step,
            without a separate dispatch.
        over_heads: Whether the vectors of a kernel may run over heads instead of the elements of
            one head.
        in_chain: Whether a transfer is executed in sequence with the kernels of its overlap group.
        tree: Size of an all-reduce whose number of groups may be fitted to its line and message;
            None for other steps.
    """

    kind: int
    code: int
    pattern: int
    axis: int
    view: str
    op: int
    loop: int
    overlap: int
    depends_on_experts: bool
    operands: dict[int, SymAddress | SymNumber]
    runs_in_previous_task: bool = False
    over_heads: bool = False
    in_chain: bool = False
    tree: TreeSize | None = None

    @cached_property
    def buffers(self) -> frozenset[SymBuffer]:
        """All buffers that the operands refer to, including both buffers of double buffers."""
        addresses = [operand for operand in self.operands.values() if isinstance(operand, SymAddress)]
        odd_round_buffers = [address.odd_round_buffer for address in addresses if address.odd_round_buffer is not None]
        return frozenset([address.buffer for address in addresses] + odd_round_buffers)

    def copy_with(self, **fields: Any) -> SymStep:
        """Return a copy of the step with some fields changed.

        This is faster than `dataclasses.replace`.
        """
        copy = object.__new__(SymStep)
        values = copy.__dict__
        values.update(self.__dict__)
        values.update(fields)
        if "operands" in fields:
            values.pop("buffers", None)
        return copy


Loops = tuple[tuple[int, int, int], ...]
"""First step, one past the last step, and number of iterations of each loop."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Block:
    """Consecutive steps on one stage that all layers of the same kind share.

    Each layer runs the steps on its own buffers.

    Attributes:
        steps: The steps. Their ops, loops and overlap groups are counted from the start of the
            block.
        loops: The loops as (first step, one past the last step, iterations), with steps counted
            from the start of the block.
        over_users: Indices of the loops that have one iteration per user.
        groups: Number of overlap groups.
        buffers: All buffers that the operands refer to. They belong to the layer for which the
            block was created; other layers replace them by position.
    """

    steps: tuple[SymStep, ...]
    loops: Loops
    over_users: frozenset[int]
    groups: int
    buffers: tuple[SymBuffer, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockRun:
    """One execution of a block of steps in a phase, with the stage and buffers that it uses.

    Attributes:
        block: Steps that are executed, shared by all runs of the block.
        stage: Index of the stage (region of PEs) that executes the block.
        op, step, loop, group: Indices in the phase of the block's first op, step, loop and overlap
            group.
        buffers: For each buffer of the block, the buffer that replaces it in this run.
        runs_in_previous_task: Whether the first step runs in the same task as the last step of the
            preceding run.
    """

    block: Block
    stage: int
    op: int
    step: int
    loop: int
    group: int
    buffers: tuple[SymBuffer, ...]
    runs_in_previous_task: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SymSteps:
    """Steps of a phase before buffers have addresses: a sequence of runs of blocks.

    A block is a list of steps that equivalent layers share. A phase is a prompt chunk, a decode
    pass or a verification pass. Phases with the same steps share one object.
    """

    runs: tuple[BlockRun, ...]

    def __len__(self) -> int:
        return self.runs[-1].step + len(self.runs[-1].block.steps) if self.runs else 0

    @property
    def blocks(self) -> dict[Block, BlockRun]:
        """The distinct blocks (lists of steps) of the phase, each with the first of its runs."""
        return {run.block: run for run in reversed(self.runs)}

    @property
    def loops(self) -> Loops:
        """The loops of the phase as (first step, one past the last step, iterations).

        Steps are counted from the start of the phase.
        """
        return tuple(
            (run.step + first, run.step + end, iterations)
            for run in self.runs
            for first, end, iterations in run.block.loops
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SymPhase:
    """A phase (prompt chunk, decoded token or verification pass) before addresses are assigned.

    The fields have the same meanings as in `wse.program.steps.Phase`.
    """

    name: str
    tokens: int
    user: int
    on_mesh: bool
    cached: int
    steps: SymSteps


def distinct_phases(phases: Sequence[SymPhase]) -> dict[int, int]:
    """Return which phases have distinct steps, and how many phases share the steps of each.

    Args:
        phases: All phases, in order. Phases with the same steps share one ``SymSteps`` object.

    Returns:
        Keys are the index of the first phase with distinct steps; values are the number of phases
        that have these steps.
    """
    first_phases: dict[SymSteps, int] = {}
    for index, phase in enumerate(phases):
        first_phases.setdefault(phase.steps, index)
    return dict(Counter(first_phases[phase.steps] for phase in phases))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SymTile:
    """Weight tile without an address: the part of a tensor that each PE of a stage stores.

    Attributes:
        buffer: Buffer that stores the tile.
        tile: The tile, which specifies the elements of each tensor that each PE stores.
        real_elements: Total number of elements on all PEs of the stage, excluding padding.
    """

    buffer: SymBuffer
    tile: Tile
    real_elements: int
