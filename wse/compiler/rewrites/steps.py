"""Helpers for rewrites: properties of steps, and copies of steps with other operands.

A *line step* is a transfer by a pattern along the rows or columns of a region, such as an
all-reduce. A rewrite usually looks for a known sequence of kernels and line steps, and replaces it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from wse.compiler.lowering.phase.block_steps import Operand, kernel_operands
from wse.compiler.symbolic import SymAddress, SymBuffer, SymNumber, SymStep, fixed_number
from wse.program.isa.instructions import CODES, KERNELS
from wse.program.isa.kernel import Kernel
from wse.program.isa.operands import FIRST_OPERAND
from wse.program.steps import StepKind
from wse.program.transfers.patterns import AlongLine, CacheShift
from wse.program.transfers.transfer_types import TRANSFERS, operand_index

_LINE = TRANSFERS.index(AlongLine)
_SHIFT = TRANSFERS.index(CacheShift)
_LINE_OPERANDS = operand_index(AlongLine)

NO_PAIRS: Final = fixed_number(0)
"""Operand ``count`` of a pattern whose element count does not depend on (token, expert) pairs."""


def kernel_of(step: SymStep) -> Kernel | None:
    """Return the kernel that a step runs, with operands and cost formulas; None for a transfer."""
    return KERNELS[step.code] if step.kind == StepKind.COMPUTE else None


def runs(step: SymStep, kernel: str) -> bool:
    """Return whether a step runs the named kernel."""
    return step.kind == StepKind.COMPUTE and KERNELS[step.code].name == kernel


def is_line(step: SymStep) -> bool:
    """Return whether a step is a transfer that runs a pattern along rows or columns of PEs."""
    return step.kind == StepKind.TRANSFER and step.code == _LINE


def is_cache_shift(step: SymStep) -> bool:
    """Return whether a step moves KV-cache entries from row to row of PEs (a cache shift)."""
    return step.kind == StepKind.TRANSFER and step.code == _SHIFT


def address(step: SymStep, name: str) -> SymAddress:
    """Return the operand ``name`` of a step, which must be an address in SRAM."""
    value = _operand(step, name)
    assert isinstance(value, SymAddress)
    return value


def number(step: SymStep, name: str) -> SymNumber:
    """Return the operand ``name`` of a step, which must be a number; 0 if it is missing."""
    value = _operand(step, name)
    assert isinstance(value, SymNumber)
    return value


def count(step: SymStep, name: str) -> int:
    """Return a numeric operand of a step as an integer; -1 if it varies at run time.

    Args:
        step: The step.
        name: Name of the operand.
    """
    value = number(step, name)
    return value.fixed if value.is_fixed else -1


def _operand(step: SymStep, name: str) -> SymAddress | SymNumber:
    """Return the operand ``name`` of a step, an address or a number; 0 if it is missing."""
    return step.operands.get(_index(step)[name], fixed_number(0))


def _index(step: SymStep) -> dict[str, int]:
    """Return the index of each operand of a step in the operand array, keyed by operand name."""
    kernel = kernel_of(step)
    return operand_index(TRANSFERS[step.code]) if kernel is None else kernel.index


def in_place(step: SymStep) -> bool:
    """Return whether a transfer along rows or columns of PEs overwrites the data that it reads.

    The result is also False if the number of elements depends on how many (token, expert) pairs a
    column processes.
    """
    return pairs_of(step) == NO_PAIRS and address(step, "source") == address(step, "target")


def pairs_of(step: SymStep) -> SymAddress | SymNumber:
    """Return the address from which a transfer reads its number of (token, expert) pairs.

    A pair is a token and an expert selected for it. The number of elements of a transfer along rows
    or columns may depend on how many pairs a column of PEs processes. PEs then read this number at
    run time.

    Returns:
        The address; NO_PAIRS if the number of elements does not depend on pairs.
    """
    return _operand(step, "count")


def varies_by_pairs_only(value: SymNumber) -> bool:
    """Return whether an operand is constant, or varies only with the router's selection of experts.

    The selection determines how many (token, expert) pairs a column of PEs processes. The result is
    False if the operand varies with the length of the KV cache or with the loop iteration.
    """
    return not (value.per_slot or value.per_round)


def same_lines(a: SymStep, b: SymStep) -> bool:
    """Return whether two transfers run the same pattern on the same rows or columns of PEs.

    The result is also False if the first transfer is in a loop or in an overlap group (steps that
    run concurrently).
    """
    return (a.pattern, a.axis, a.loop, a.overlap) == (b.pattern, b.axis, -1, -1) and all(
        a.operands[i] == b.operands[i] for i in (0, 1)
    )


def touches(step: SymStep, buffer: SymBuffer) -> bool:
    """Return whether an operand of a step is an address in a given buffer."""
    return buffer in step.buffers


def touches_elements(step: SymStep, at: SymAddress, elements: int) -> bool:
    """Return whether a step may read or write some of the elements after an address.

    Args:
        step: The step.
        at: Address of the first element.
        elements: Number of elements.
    """
    for name, index in _index(step).items() if touches(step, at.buffer) else ():
        operand = step.operands.get(index)
        if isinstance(operand, SymAddress) and at.buffer in (operand.buffer, operand.odd_round_buffer):
            extent = _extent(step, name, operand)
            begins_before = operand.offset < at.offset + elements
            if begins_before and (extent is None or at.offset < operand.offset + extent):
                return True
    return False


def _extent(step: SymStep, name: str, operand: SymAddress) -> int | None:
    """Return how many elements a step may read or write, starting at one of its addresses.

    Args:
        step: The step.
        name: Name of the address operand.
        operand: The address.

    Returns:
        The number; None if it is unknown or varies at run time.
    """
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


def varies_by_round(step: SymStep) -> bool:
    """Return whether an operand of a step changes from one iteration of its loop to the next."""
    return any(
        operand.per_round
        or (isinstance(operand, SymAddress) and (operand.per_slot_round or operand.odd_round_buffer is not None))
        for operand in step.operands.values()
    )


def live_range(steps: Sequence[SymStep], buffer: SymBuffer, index: int) -> range | None:
    """Return the range of steps in which a buffer has the same value as at a given step.

    Args:
        steps: Steps of a block.
        buffer: Buffer that stores the value.
        index: Index of the given step.

    Returns:
        The range starts at the step that writes the value, and ends before the step that overwrites
        it. None if no step up to ``index`` writes the value, or if an operand alternates between
        this buffer and another one.
    """
    users = [(i, step) for i, step in enumerate(steps) if buffer in step.buffers]
    writers = [i for i, step in users if _overwrites(step, buffer)]
    writes_before, writes_after = [i for i in writers if i <= index], [i for i in writers if i > index]
    if not writes_before or any(_uses_double_buffer(step) for _, step in users):
        return None
    return range(writes_before[-1], writes_after[0] if writes_after else len(steps))


def _overwrites(step: SymStep, buffer: SymBuffer) -> bool:
    """Return whether a step runs a kernel that replaces the value of a buffer."""
    kernel = kernel_of(step)
    if kernel is None or ("add" in kernel.index and count(step, "add") != 0):
        return False
    values = (step.operands[i] for i in kernel.outputs)
    return any(isinstance(v, SymAddress) and v.buffer is buffer and not v.offset for v in values)


def _uses_double_buffer(step: SymStep) -> bool:
    """Return whether an operand of a step alternates between two buffers from round to round."""
    return any(isinstance(v, SymAddress) and v.odd_round_buffer is not None for v in step.operands.values())


def with_operands(step: SymStep, **operands: SymAddress | SymNumber) -> SymStep:
    """Return a copy of a step in which some operands have other values."""
    index = _index(step)
    return step.copy_with(operands=step.operands | {index[name]: value for name, value in operands.items()})


def compute_step(template: SymStep, kernel: str, **operands: Operand) -> SymStep:
    """Create a step that runs a kernel, with the rows of PEs and the op of an existing step.

    The new step is outside loops and overlap groups.

    Args:
        template: Step from which the rows of PEs and the op (operation of the model) are copied.
        kernel: Name of the kernel.
        operands: Operands of the kernel by name. A buffer may have a different view than the kernel
            expects, provided that both views stand for the same element type.
    """
    kernel_operands_by_index = kernel_operands(kernel, operands)
    return _separate_step(
        template, kernel_operands_by_index, kind=StepKind.COMPUTE, code=CODES[kernel], pattern=-1, axis=0, view="act"
    )


def line_step(
    template: SymStep,
    pattern: int,
    axis: int,
    at: SymAddress,
    elements: SymNumber,
    pairs: SymAddress | SymNumber = NO_PAIRS,
) -> SymStep:
    """Create a step that runs a communication pattern along rows or columns, in place.

    The new step is outside loops and overlap groups.

    Args:
        template: Step from which the rows of PEs and the op (operation of the model) are copied.
        pattern: Index of the pattern.
        axis: ROWS for a pattern along rows of PEs, COLUMNS for a pattern along columns.
        at: Address of the elements to combine or send.
        elements: Number of elements on each PE.
        pairs: Address from which PEs read the number of (token, expert) pairs, if ``elements``
            depends on it.
    """
    operands: dict[str, SymAddress | SymNumber] = {"source": at, "target": at, "elements": elements, "count": pairs}
    line_operands = {_LINE_OPERANDS[name]: value for name, value in operands.items() if value != NO_PAIRS}
    return _separate_step(
        template, line_operands, kind=StepKind.TRANSFER, code=_LINE, pattern=pattern, axis=axis, view=at.buffer.view
    )


def _separate_step(template: SymStep, operands: Mapping[int, SymAddress | SymNumber], **fields: Any) -> SymStep:
    """Create a step that is in no loop or overlap group, based on another step.

    Args:
        template: Step from which the rows of PEs and the op (operation of the model) are copied.
        operands: Operands of the new step, by index.
        fields: Additional fields of the new step.
    """
    rows = {i: template.operands[i] for i in (0, 1)}
    depends_on_experts = any(isinstance(value, SymNumber) and value.per_pair for value in operands.values())
    fields |= {
        "depends_on_experts": depends_on_experts,
        "runs_in_previous_task": False,
        "over_heads": False,
        "in_chain": False,
        "operands": rows | dict(operands),
    }
    return template.copy_with(loop=-1, overlap=-1, **fields)


def move_buffer(steps: list[SymStep], live_steps: range, buffer: SymBuffer, new_buffer: SymBuffer, offset: int) -> None:
    """Move data from one buffer into another by changing the addresses in the steps that use it.

    Rewrites that merge two messages use this function to store the elements of both messages in one
    buffer.

    Args:
        steps: Steps of a block, modified in place.
        live_steps: Range of steps during which the buffer stores the data.
        buffer: Buffer that stores the data.
        new_buffer: Buffer that will store the data. It may be the same buffer.
        offset: Distance by which the data moves relative to the start of a buffer, in elements.
    """
    for i in (i for i in live_steps if touches(steps[i], buffer)):
        moved_operands: dict[int, SymAddress | SymNumber] = {
            place: operand.moved_to(new_buffer, offset)
            for place, operand in steps[i].operands.items()
            if isinstance(operand, SymAddress) and operand.buffer is buffer
        }
        if moved_operands:
            steps[i] = steps[i].copy_with(operands=steps[i].operands | moved_operands)
