"""Buffers that may share an address because a kernel overwrites an input that is not read again.

For example, an elementwise kernel may write each output over the input that it is computed from.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

from wse.compiler.passes.lifetimes import steps_before
from wse.compiler.state import State
from wse.compiler.symbolic import Block, SymAddress, SymBuffer
from wse.number_formats import ELEMENT_BYTES
from wse.program.isa.instructions import KERNELS
from wse.program.isa.operands import VIEWS
from wse.program.steps import StepKind

Name = TypeVar("Name", bound=Hashable)
Replacements = Mapping[tuple[SymBuffer, SymBuffer], int]


def may_coincide(a: Name, b: Name, live_a: int, live_b: int, replacements: Mapping[tuple[Name, Name], int]) -> bool:
    """Return whether two buffers may have the same address.

    Normally, this is allowed only if no step needs both values. There is one exception: a step may
    read the value of one buffer for the last time and overwrite it in place with the other buffer.
    The overwritten value must then not be needed in the next step.

    Args:
        a, b: The two buffers, or their names.
        live_a, live_b: Steps in which each buffer is live, as bit sets.
        replacements: For pairs of buffers, the steps that may overwrite the first one with the
            second, as bit sets; from `replacing_steps`.
    """
    for source, target, live in ((a, b, live_a), (b, a, live_b)):
        steps = replacements.get((source, target), 0)
        if not live_a & live_b & ~steps and not live & steps << 1:
            return True
    return False


def replacing_steps(state: State) -> Replacements:
    """Return the steps in which a kernel may write an output buffer over one of its input buffers.

    Returns:
        Keys are (input buffer, output buffer); values are the steps as bit sets. Steps are numbered
        over all distinct phases, as in `steps_before`.
    """
    replacements: dict[tuple[SymBuffer, SymBuffer], int] = {}
    begins = steps_before(state.phases)
    for number, steps_before_phase in begins.items():
        steps = state.phases[number].steps
        in_block = {block: _replacing_steps_within(state, block) for block in steps.blocks}
        for run in steps.runs:
            buffer_in_run = dict(zip(run.block.buffers, run.buffers, strict=True))
            for index, source, target in in_block[run.block]:
                pair = buffer_in_run[source], buffer_in_run[target]
                replacements[pair] = replacements.get(pair, 0) | 1 << steps_before_phase + run.step + index
    return replacements


def _replacing_steps_within(state: State, block: Block) -> list[tuple[int, SymBuffer, SymBuffer]]:
    """List the steps of a block in which a kernel may write its output over one of its inputs.

    The description of the kernel must allow it (``in_place``). Both operands must be whole buffers,
    and the elements of the output must not be wider than those of the input.

    Returns:
        For each such step: its index in the block, the input buffer and the output buffer.
    """
    size = {view: ELEMENT_BYTES[state.options.element_type(view)] for view in VIEWS}
    replacing = []
    for index, step in enumerate(block.steps):
        for places in KERNELS[step.code].in_place if step.kind == StepKind.COMPUTE else ():
            source, target = (step.operands[place] for place in places)
            if not (isinstance(source, SymAddress) and isinstance(target, SymAddress)):
                continue
            are_whole = source == SymAddress(buffer=source.buffer) and target == SymAddress(buffer=target.buffer)
            is_no_wider = size[target.buffer.view] <= size[source.buffer.view]
            if are_whole and is_no_wider and source.buffer is not target.buffer:
                replacing.append((index, source.buffer, target.buffer))
    return replacing
