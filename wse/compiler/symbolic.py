"""Symbolic steps: what lowering and rewrites work on, before steps have addresses and colours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from wse.compiler.options import TreeSize
from wse.program.tiles import Tile


@dataclass(slots=True, kw_only=True, eq=False)
class SymBuffer:
    """A buffer without an address. Buffers are compared by identity.

    ``elements`` grows to the largest request. A ``permanent`` buffer lives from one phase to the next.
    """

    stage: int
    name: str
    use: str
    view: str
    elements: int
    permanent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SymAddress:
    """A symbolic address: element ``offset + (per_round + per_slot_round * slots) * round`` of ``buffer``.

    In odd rounds it is in ``odd_round_buffer``.
    """

    buffer: SymBuffer
    offset: int = 0
    per_round: int = 0
    per_slot_round: int = 0
    odd_round_buffer: SymBuffer | None = None

    def moved_to(self, buffer: SymBuffer, elements: int) -> SymAddress:
        """Return the address in another buffer, ``elements`` further on."""
        return replace(self, buffer=buffer, offset=self.offset + elements)


@dataclass(frozen=True, slots=True, kw_only=True)
class SymNumber:
    """A symbolic number: ``fixed + per_slot * slots + per_round * round``.

    ``fixed`` is for the most pairs of tokens and experts on a column, each pair fewer takes ``per_pair`` off.
    """

    fixed: int = 0
    per_slot: int = 0
    per_round: int = 0
    per_pair: int = 0

    @property
    def is_fixed(self) -> bool:
        """True if the number is the same in every token and iteration."""
        return not (self.per_slot or self.per_round or self.per_pair)


@lru_cache(maxsize=1 << 14)
def fixed_number(value: int) -> SymNumber:
    """Return a number that is the same in every token and iteration, one object for all steps."""
    return SymNumber(fixed=value)


@dataclass(frozen=True, kw_only=True, eq=False)
class SymStep:
    """A step of a block before emission, with operands by index of the operand array.

    A ``joined`` step runs in the task of the step before it, which computes. The vectors of a kernel may go
    ``over_heads``. A transfer ``in_chain`` takes its turn among the kernels of its overlap group. ``tree`` is the size
    of an all-reduce whose groups may be fitted to it.
    """

    kind: int
    code: int
    pattern: int
    axis: int
    view: str
    op: int
    loop: int
    overlap: int
    routed: bool
    operands: dict[int, SymAddress | SymNumber]
    joined: bool = False
    over_heads: bool = False
    in_chain: bool = False
    tree: TreeSize | None = None

    @cached_property
    def buffers(self) -> frozenset[SymBuffer]:
        """The buffers that its operands are in."""
        addresses = [operand for operand in self.operands.values() if isinstance(operand, SymAddress)]
        turns = [address.odd_round_buffer for address in addresses if address.odd_round_buffer is not None]
        return frozenset([address.buffer for address in addresses] + turns)

    def copy_with(self, **fields: Any) -> SymStep:
        """Return a copy with some fields changed. Faster than `dataclasses.replace`."""
        copy = object.__new__(SymStep)
        values = copy.__dict__
        values.update(self.__dict__)
        values.update(fields)
        if "operands" in fields:
            values.pop("buffers", None)
        return copy


Loops = tuple[tuple[int, int, int], ...]
"""First step, one past the last, and turns of each loop."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Block:
    """Consecutive steps on one stage, created once for all layers of a kind.

    Ops, steps of loops, loops and overlap groups are counted from the first of the block. ``buffers`` are all
    that its operands name: those of the layer that it was made for.
    """

    steps: tuple[SymStep, ...]
    loops: Loops
    over_users: frozenset[int]  # loops whose turns are the users
    groups: int  # of steps that overlap
    buffers: tuple[SymBuffer, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockRun:
    """An instance of a block in a phase: its stage, and the indices of its first op, step, loop and group.

    ``buffers`` has what stands for each of the block's. Where it is ``joined``, its first step runs in the task of the
    last one of the run before.
    """

    block: Block
    stage: int
    op: int
    step: int
    loop: int
    group: int
    buffers: tuple[SymBuffer, ...]
    joined: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SymSteps:
    """The steps of a phase before emission, as a sequence of blocks.

    Phases that go through the same steps hold one object, as with `wse.program.steps.Steps`.
    """

    runs: tuple[BlockRun, ...]

    def __len__(self) -> int:
        return self.runs[-1].step + len(self.runs[-1].block.steps) if self.runs else 0

    @property
    def blocks(self) -> dict[Block, BlockRun]:
        """Each block with the first of its runs."""
        return {run.block: run for run in reversed(self.runs)}

    @property
    def loops(self) -> Loops:
        """The loops of all blocks, in steps of the phase."""
        return tuple(
            (run.step + first, run.step + end, turns) for run in self.runs for first, end, turns in run.block.loops
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SymPhase:
    """A phase before emission."""

    name: str
    tokens: int
    user: int
    on_mesh: bool
    cached: int
    steps: SymSteps


def distinct_phases(phases: Sequence[SymPhase]) -> dict[int, int]:
    """Return the phases whose steps differ from those of earlier chunks, and how often each occurs."""
    first: dict[SymSteps, int] = {}
    for number, phase in enumerate(phases):
        first.setdefault(phase.steps, number)
    return dict(Counter(first[phase.steps] for phase in phases))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SymTile:
    """A weight tile without an address. ``real_elements`` counts its elements on all PEs without padding."""

    buffer: SymBuffer
    tile: Tile
    real_elements: int
