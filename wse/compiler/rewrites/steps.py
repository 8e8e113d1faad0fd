"""Questions to the steps of a block, and steps that differ from others in a few operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from wse.compiler.lowering.builder import Operand, kernel_operands
from wse.compiler.symbolic import SymAddress, SymBuffer, SymNumber, SymStep, fixed_number
from wse.program.isa.instructions import CODES, KERNELS
from wse.program.isa.kernel import Kernel
from wse.program.isa.operands import FIRST_OPERAND
from wse.program.steps import Kind
from wse.program.transfers.kinds import TRANSFERS, operand_index
from wse.program.transfers.patterns import AlongLine, CacheShift

_LINE = TRANSFERS.index(AlongLine)
_SHIFT = TRANSFERS.index(CacheShift)
_LINE_OPERANDS = operand_index(AlongLine)

NO_PAIRS: Final = fixed_number(0)
"""The operand of a pattern whose elements are not by pairs: no address of their count."""


def kernel_of(step: SymStep) -> Kernel | None:
    """Return the kernel of a step that computes."""
    return KERNELS[step.code] if step.kind == Kind.COMPUTE else None


def runs(step: SymStep, kernel: str) -> bool:
    """Return whether a step runs the kernel of that name."""
    return step.kind == Kind.COMPUTE and KERNELS[step.code].name == kernel


def is_line(step: SymStep) -> bool:
    """Return whether a step runs a pattern along lines."""
    return step.kind == Kind.TRANSFER and step.code == _LINE


def is_cache_shift(step: SymStep) -> bool:
    """Return whether a step shifts cache entries between rows."""
    return step.kind == Kind.TRANSFER and step.code == _SHIFT


def address(step: SymStep, name: str) -> SymAddress:
    """Return the address operand of that name."""
    value = _operand(step, name)
    assert isinstance(value, SymAddress)
    return value


def number(step: SymStep, name: str) -> SymNumber:
    """Return the number operand of that name; 0 where it was not given."""
    value = _operand(step, name)
    assert isinstance(value, SymNumber)
    return value


def count(step: SymStep, name: str) -> int:
    """Return a number operand that is the same in every token and iteration; -1 otherwise."""
    value = number(step, name)
    return value.fixed if value.is_fixed else -1


def _operand(step: SymStep, name: str) -> SymAddress | SymNumber:
    return step.operands.get(_index(step)[name], fixed_number(0))


def _index(step: SymStep) -> dict[str, int]:
    """Return the index of each operand of a step by name."""
    kernel = kernel_of(step)
    return operand_index(TRANSFERS[step.code]) if kernel is None else kernel.index


def in_place(step: SymStep) -> bool:
    """Return whether the words of a pattern arrive where they come from, with the same number on every column."""
    return pairs_of(step) == NO_PAIRS and address(step, "source") == address(step, "target")


def pairs_of(step: SymStep) -> SymAddress | SymNumber:
    """Return the address of the count where a pattern's elements are pairs of tokens and experts.

    Else NO_PAIRS.
    """
    return _operand(step, "count")


def by_pairs(value: SymNumber) -> bool:
    """Return whether a number is the same in every iteration and depends on the pairs of a column only."""
    return not (value.per_slot or value.per_round)


def same_lines(a: SymStep, b: SymStep) -> bool:
    """Return whether two steps run one pattern along the same lines, outside of loops."""
    return (a.pattern, a.axis, a.loop, a.overlap) == (b.pattern, b.axis, -1, -1) and all(
        a.operands[i] == b.operands[i] for i in (0, 1)
    )


def touches(step: SymStep, buffer: SymBuffer) -> bool:
    """Return whether an operand of a step is in a buffer."""
    return buffer in step.buffers


def touches_elements(step: SymStep, at: SymAddress, elements: int) -> bool:
    """Return whether an operand of a step may overlap ``elements`` from an address on."""
    for name, index in _index(step).items() if touches(step, at.buffer) else ():
        operand = step.operands.get(index)
        if isinstance(operand, SymAddress) and at.buffer in (operand.buffer, operand.odd_round_buffer):
            extent = _extent(step, name, operand)
            begins_before = operand.offset < at.offset + elements
            if begins_before and (extent is None or at.offset < operand.offset + extent):
                return True
    return False


def _extent(step: SymStep, name: str, operand: SymAddress) -> int | None:
    """Return the elements from an operand's address that a step may access; None where that is not known."""
    numbers = [value for value in step.operands.values() if isinstance(value, SymNumber)]
    kernel = kernel_of(step)
    if operand.per_round or operand.per_slot_round or not all(value.is_fixed for value in numbers):
        return None
    if kernel is None:
        return count(step, "elements") if is_line(step) else None
    if kernel.operands[kernel.index[name] - FIRST_OPERAND].extent is None:
        return None
    values = (step.operands.get(i) for i in range(max(step.operands) + 1))
    return kernel.elements(name, [value.fixed if isinstance(value, SymNumber) else 0 for value in values])


def goes_by_rounds(step: SymStep) -> bool:
    """Return whether an operand of a step changes from iteration to iteration."""
    return any(
        operand.per_round
        or (isinstance(operand, SymAddress) and (operand.per_slot_round or operand.odd_round_buffer is not None))
        for operand in step.operands.values()
    )


def live_range(steps: Sequence[SymStep], buffer: SymBuffer, index: int) -> range | None:
    """Return the steps during which the value that a buffer has at step ``index`` is live.

    None where it is not made in these steps, or the buffer takes turns with another.
    """
    users = [(i, step) for i, step in enumerate(steps) if buffer in step.buffers]
    makers = [i for i, step in users if _makes(step, buffer)]
    before, after = [i for i in makers if i <= index], [i for i in makers if i > index]
    if not before or any(_takes_turns(step) for _, step in users):
        return None
    return range(before[-1], after[0] if after else len(steps))


def _makes(step: SymStep, buffer: SymBuffer) -> bool:
    """Return whether a step writes a buffer anew from its beginning."""
    kernel = kernel_of(step)
    if kernel is None or ("add" in kernel.index and count(step, "add") != 0):
        return False
    values = (step.operands[i] for i in kernel.outputs)
    return any(isinstance(v, SymAddress) and v.buffer is buffer and not v.offset for v in values)


def _takes_turns(step: SymStep) -> bool:
    return any(isinstance(v, SymAddress) and v.odd_round_buffer is not None for v in step.operands.values())


def with_operands(step: SymStep, **operands: SymAddress | SymNumber) -> SymStep:
    """Return the step with other operands."""
    index = _index(step)
    return step.copy_with(operands=step.operands | {index[name]: value for name, value in operands.items()})


def compute_step(like: SymStep, kernel: str, **operands: Operand) -> SymStep:
    """Return a step that runs a kernel for the rows and the op of another step, outside of loops.

    An operand may stand in a buffer of another view with elements of the same type.
    """
    own = kernel_operands(kernel, operands)
    return _separate_step(like, own, kind=Kind.COMPUTE, code=CODES[kernel], pattern=-1, axis=0, view="act")


def line_step(
    like: SymStep,
    pattern: int,
    axis: int,
    at: SymAddress,
    elements: SymNumber,
    pairs: SymAddress | SymNumber = NO_PAIRS,
) -> SymStep:
    """Return a step that runs a pattern in place for the rows and the op of another step, outside of loops.

    Where elements are by pair of a token and an expert, PEs find how many there are at ``pairs``.
    """
    operands: dict[str, SymAddress | SymNumber] = {"source": at, "target": at, "elements": elements, "count": pairs}
    own = {_LINE_OPERANDS[name]: value for name, value in operands.items() if value != NO_PAIRS}
    return _separate_step(like, own, kind=Kind.TRANSFER, code=_LINE, pattern=pattern, axis=axis, view=at.buffer.view)


def _separate_step(like: SymStep, own: Mapping[int, SymAddress | SymNumber], **fields: Any) -> SymStep:
    """Return a step with other fields and operands for the rows and the op of another step, outside of loops.

    It runs in a task of its own.
    """
    rows = {i: like.operands[i] for i in (0, 1)}
    routed = any(isinstance(value, SymNumber) and value.per_pair for value in own.values())
    fields |= {"routed": routed, "joined": False, "over_heads": False, "in_chain": False, "operands": rows | dict(own)}
    return like.copy_with(loop=-1, overlap=-1, **fields)


def move_buffer(steps: list[SymStep], within: range, buffer: SymBuffer, to: SymBuffer, elements: int) -> None:
    """Let the steps of a range use ``to`` instead of ``buffer``, shifted by ``elements``."""
    for i in (i for i in within if touches(steps[i], buffer)):
        moved: dict[int, SymAddress | SymNumber] = {
            place: operand.moved_to(to, elements)
            for place, operand in steps[i].operands.items()
            if isinstance(operand, SymAddress) and operand.buffer is buffer
        }
        if moved:
            steps[i] = steps[i].copy_with(operands=steps[i].operands | moved)
