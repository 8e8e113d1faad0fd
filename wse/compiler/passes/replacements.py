"""Buffers in each other's place: what a kernel reads for the last time, and what it makes of that."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

from wse.compiler.passes.lifetimes import steps_before
from wse.compiler.state import State
from wse.compiler.symbolic import Block, SymAddress, SymBuffer
from wse.number_formats import ELEMENT_BYTES
from wse.program.isa.instructions import KERNELS
from wse.program.isa.operands import VIEWS
from wse.program.steps import Kind

Name = TypeVar("Name", bound=Hashable)
Replacements = Mapping[tuple[SymBuffer, SymBuffer], int]


def may_coincide(a: Name, b: Name, live_a: int, live_b: int, replacements: Mapping[tuple[Name, Name], int]) -> bool:
    """Return whether two buffers that are live in given steps may share an address.

    They may where no step needs both, except for those that read one for the last time and make the other in its place.
    """
    for source, target, live in ((a, b, live_a), (b, a, live_b)):
        steps = replacements.get((source, target), 0)
        if not live_a & live_b & ~steps and not live & steps << 1:
            return True
    return False


def replacing_steps(state: State) -> Replacements:
    """Return the steps that may write one buffer over another, as bit sets by pair of buffers."""
    replacements: dict[tuple[SymBuffer, SymBuffer], int] = {}
    begins = steps_before(state.phases)
    for number, before in begins.items():
        steps = state.phases[number].steps
        in_block = {block: _replacing_steps_within(state, block) for block in steps.blocks}
        for run in steps.runs:
            own = dict(zip(run.block.buffers, run.buffers, strict=True))
            for index, source, target in in_block[run.block]:
                pair = own[source], own[target]
                replacements[pair] = replacements.get(pair, 0) | 1 << before + run.step + index
    return replacements


def _replacing_steps_within(state: State, block: Block) -> list[tuple[int, SymBuffer, SymBuffer]]:
    """Return the steps of a block that may write the second buffer over the first."""
    size = {view: ELEMENT_BYTES[state.options.element_type(view)] for view in VIEWS}
    replacing = []
    for index, step in enumerate(block.steps):
        for places in KERNELS[step.code].in_place if step.kind == Kind.COMPUTE else ():
            source, target = (step.operands[place] for place in places)
            if not (isinstance(source, SymAddress) and isinstance(target, SymAddress)):
                continue
            whole = source == SymAddress(buffer=source.buffer) and target == SymAddress(buffer=target.buffer)
            narrower = size[target.buffer.view] <= size[source.buffer.view]
            if whole and narrower and source.buffer is not target.buffer:
                replacing.append((index, source.buffer, target.buffer))
    return replacing
