"""Steps of a block that is still open, and their operands: lowering adds, rewrites change them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from wse.compiler.symbolic import Block, Loops, SymAddress, SymBuffer, SymNumber, SymStep, fixed_number
from wse.errors import WseBug
from wse.program.isa.instructions import kernel_named
from wse.program.transfers.transfer import Transfer
from wse.program.transfers.transfer_types import operand_index

Operand = SymAddress | SymNumber | SymBuffer | int


def row_operands(only_row: int | None, rows: int) -> dict[int, SymAddress | SymNumber]:
    """Return the operands that specify the rows a step runs on: first row and number of rows.

    Args:
        only_row: The row; None for all rows.
        rows: Rows of the region.

    Returns:
        The operands, with their indices in the operand array as keys.
    """
    first, count = (0, rows) if only_row is None else (only_row, 1)
    return {0: fixed_number(first), 1: fixed_number(count)}


def kernel_operands(kernel: str, operands: Mapping[str, Operand]) -> dict[int, SymAddress | SymNumber]:
    """Convert the operands of a kernel to addresses and numbers, and key them by index.

    Args:
        kernel: Name of the kernel.
        operands: Operands by name. A buffer refers to its first element.

    Returns:
        The operands, with their indices in the operand array as keys.

    Raises:
        WseBug: An operand is missing or does not belong to the kernel.
    """
    record = kernel_named(kernel)
    if operands.keys() != record.views.keys():
        raise WseBug(f"{kernel} needs the operands {list(record.views)}, got {sorted(operands)}")
    return {record.index[name]: operand_of(operands[name]) for name in record.views}


def transfer_operands(kind: type[Transfer], operands: Mapping[str, Operand]) -> dict[int, SymAddress | SymNumber]:
    """Convert the operands of a transfer to addresses and numbers, and key them by index.

    Args:
        kind: Class of the transfer.
        operands: Operands by name. A buffer refers to its first element.

    Returns:
        The operands, with their indices in the operand array as keys.

    Raises:
        WseBug: The kind has no such operand.
    """
    index = operand_index(kind)
    if unknown_names := sorted(set(operands) - set(index)):
        raise WseBug(f"{kind.__name__} has the operands {sorted(index)}, got {unknown_names}")
    return {index[name]: operand_of(value) for name, value in operands.items()}


def operand_of(value: Operand) -> SymAddress | SymNumber:
    """Convert an operand to an address or a number.

    A whole buffer is converted to the address of its first element.
    """
    if isinstance(value, SymBuffer):
        return SymAddress(buffer=value)
    if isinstance(value, int):
        return fixed_number(value)
    return value


@dataclass(slots=True, kw_only=True)
class BlockSteps:
    """Steps of one layer while they are collected; lowering adds steps, and rewrites change them.

    The finished steps form a block, which all equivalent layers share.

    Attributes:
        steps: The steps in order. The steps of a loop are consecutive.
        iterations: Number of iterations of each loop.
        groups: Number of overlap groups created so far. The steps of an overlap group run
            concurrently.
        over_users: Indices of the loops that have one iteration per user.
    """

    steps: list[SymStep]
    iterations: list[int]
    groups: int
    over_users: set[int] = field(default_factory=set)

    def to_block(self, requests: Iterable[SymBuffer]) -> Block:
        """Convert the collected steps to an immutable block; no steps may be added afterwards.

        Args:
            requests: Buffers to list first in the block, in this order. Buffers that the steps use
                in addition follow.
        """
        steps, loops, over_users = self._with_used_loops()
        operand_buffers = dict.fromkeys(
            buffer
            for step in steps
            for operand in step.operands.values()
            if isinstance(operand, SymAddress)
            for buffer in (operand.buffer, operand.odd_round_buffer)
            if buffer is not None
        )
        return Block(
            steps=steps,
            loops=loops,
            over_users=over_users,
            groups=self.groups,
            buffers=tuple(dict.fromkeys((*filter(operand_buffers.__contains__, requests), *operand_buffers))),
        )

    def add_group(self) -> dict[str, int]:
        """Add an empty overlap group, whose steps will run concurrently.

        Returns:
            Values of the fields ``loop`` and ``overlap`` that put a step into the group. The group
            is also a loop with one iteration.
        """
        self.iterations.append(1)
        self.groups += 1
        return {"loop": len(self.iterations) - 1, "overlap": self.groups - 1}

    def group_of_pattern(self, index: int) -> dict[str, int] | None:
        """Return the field values that make a new step run in parallel with an existing transfer.

        Steps that run concurrently form an overlap group. If the step that runs the transfer's
        pattern is not yet in a group, a new group is created for it.

        Args:
            index: Index of the step that runs the pattern.

        Returns:
            Values of the fields ``loop`` and ``overlap``. None if nothing can run in parallel with
            the step because it is in a chain (steps of a group that wait for each other), in a loop
            with several iterations, or in a loop without a group.
        """
        step = self.steps[index]
        if step.in_chain or (step.loop >= 0 and (step.overlap < 0 or self.iterations[step.loop] > 1)):
            return None
        if step.overlap < 0:
            self.steps[index] = step.copy_with(**self.add_group())
        return {"loop": self.steps[index].loop, "overlap": self.steps[index].overlap}

    def end_of_group(self, index: int) -> int:
        """Return the index after the last step in the overlap group of the step at ``index``.

        The steps of an overlap group are consecutive and run concurrently.
        """
        end = index + 1
        while end < len(self.steps) and self.steps[end].overlap == self.steps[index].overlap >= 0:
            end += 1
        return end

    def _with_used_loops(self) -> tuple[tuple[SymStep, ...], Loops, frozenset[int]]:
        """Number the loops that still have steps from 0, because rewrites may have emptied some.

        Returns:
            The steps with the new loop numbers; (first step, one past the last step, iterations) of
            each loop; and the numbers of the loops with one iteration per user.
        """
        steps_of_loop: dict[int, list[int]] = {}
        for index, step in enumerate(self.steps):
            if step.loop >= 0:
                steps_of_loop.setdefault(step.loop, []).append(index)
        new_index = {loop: i for i, loop in enumerate(steps_of_loop)}
        steps = tuple(
            step if new_index.get(step.loop, -1) == step.loop else step.copy_with(loop=new_index[step.loop])
            for step in self.steps
        )
        loops = tuple((indices[0], indices[-1] + 1, self.iterations[loop]) for loop, indices in steps_of_loop.items())
        return steps, loops, frozenset(new_index[loop] for loop in self.over_users if loop in new_index)
