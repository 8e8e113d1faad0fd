"""Builder of one phase, which collects symbolic steps in blocks, with loops and overlap groups.

Lowering functions add kernels and transfers to a `PhaseBuilder`. The steps of a layer form a block,
which is closed when the layer ends. Before that, rewrites may change the steps of the block, which
are passed to them as `BlockSteps`. The steps of an overlap group run concurrently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from wse.compiler.lowering.phase.block_steps import (
    BlockSteps,
    Operand,
    kernel_operands,
    operand_of,
    row_operands,
    transfer_operands,
)
from wse.compiler.symbolic import Block, BlockRun, SymAddress, SymBuffer, SymNumber, SymStep, SymSteps
from wse.errors import WseBug
from wse.program.isa.instructions import CODES, kernel_named
from wse.program.isa.operands import VIEWS
from wse.program.steps import ROWS, StepKind
from wse.program.transfers.patterns import AlongLine
from wse.program.transfers.transfer import Transfer
from wse.program.transfers.transfer_types import TRANSFERS


class PhaseBuilder:
    """Builder of one phase, to which lowering functions add steps.

    Steps are collected in blocks. A block contains the steps of one layer, or of ops outside
    layers. Callers set ``stage`` and ``op`` before they add steps.

    Attributes:
        rows: Rows of the region of each stage.
        rewrite: Function that rewrites the steps of a block before the block is closed; None for no
            rewriting.
        joins: Function that returns whether a step can run in the same task as the previous step on
            the same stage, which saves the start of a task.
        stage: Index of the stage whose PEs run the steps that are added.
        op: Index of the model op to which the steps that are added belong.
        runs: Closed blocks so far, each with the stage and the buffers on which it runs.
    """

    def __init__(self, rows: Sequence[int]) -> None:
        self.rows = rows
        self.rewrite: Callable[[BlockSteps], None] | None = None
        self.joins: Callable[[SymStep, SymStep], bool] = lambda previous_step, step: False
        self.stage = 0
        self.op = 0
        self.runs: list[BlockRun] = []
        self._loop = -1
        self._overlap = -1
        self._open()

    def _open(self) -> None:
        """Begin a new, empty block (a list of steps) that will run on the current stage."""
        self._block = BlockSteps(steps=[], iterations=[], groups=0)
        self._first_op, self._stage_of_block = self.op, self.stage

    def rewrite_steps(self) -> None:
        """Apply the schedule's rewrites to the steps added since the last block was closed.

        A rewrite changes the steps of a layer to save cycles.
        """
        if self.rewrite is not None and self._block.steps:
            stage, self.stage = self.stage, self._stage_of_block
            self.rewrite(self._block)
            self.stage = stage

    def close(self, requests: Iterable[SymBuffer] = ()) -> Block:
        """End the current block; if it has steps, record that it runs on the current stage.

        A block is a list of steps that equivalent layers share. Each layer runs it on its own
        buffers.

        Args:
            requests: Buffers to list first among the block's buffers, in this order. When another
                layer runs the block, the buffers are replaced by position.
        """
        block = self._block.to_block(requests)
        if block.steps:
            self.add_run(block, self._stage_of_block, self._first_op, block.buffers)
        self._open()
        return block

    def add_run(self, block: Block, stage: int, op: int, buffers: tuple[SymBuffer, ...]) -> None:
        """Record that another layer runs a finished block of steps, on its own buffers.

        Args:
            block: Block of steps to run again.
            stage: Stage on which the block runs.
            op: Index of the first op of this layer.
            buffers: Buffers that replace the block's buffers, in the same order.
        """
        step = loop = group = 0
        runs_in_previous_task = False
        if self.runs:
            last = self.runs[-1]
            step, loop = last.step + len(last.block.steps), last.loop + len(last.block.loops)
            group = last.group + last.block.groups
            runs_in_previous_task = last.stage == stage and self.joins(last.block.steps[-1], block.steps[0])
        self.runs.append(
            BlockRun(
                block=block,
                stage=stage,
                op=op,
                step=step,
                loop=loop,
                group=group,
                buffers=buffers,
                runs_in_previous_task=runs_in_previous_task,
            )
        )

    def compute(self, kernel: str, *, only_row: int | None = None, **operands: Operand) -> None:
        """Add a step that runs a kernel on all PEs of the region, or on one row.

        Args:
            kernel: Name of the kernel.
            only_row: Row that runs the kernel; None for all rows.
            operands: All operands of the kernel, by name.

        Raises:
            WseBug: An operand is missing or unknown, or its element type (view) is not the one that
                the kernel requires.
        """
        indexed = kernel_operands(kernel, operands)
        record = kernel_named(kernel)
        for name, view in record.views.items():
            value = indexed[record.index[name]]
            if (value.buffer.view if isinstance(value, SymAddress) else "") != view:
                raise WseBug(f"{kernel}: operand {name} must be {view or 'a number'}, got {value}")
        self._add(StepKind.COMPUTE, CODES[kernel], 0, "act", row_operands(only_row, self.rows[self.stage]) | indexed)

    def line(
        self,
        pattern: int,
        axis: int,
        source: Operand,
        elements: int | SymNumber,
        *,
        target: Operand | None = None,
        only_row: int | None = None,
        count: SymBuffer | None = None,
    ) -> None:
        """Add a transfer that runs a pattern along all rows or columns of the region.

        Args:
            pattern: Index of the pattern.
            axis: ROWS for patterns along rows, COLUMNS for patterns along columns.
            source: Elements to send.
            elements: Number of elements per PE.
            target: Where arriving elements are written or accumulated; None for ``source``.
            only_row: The only row that takes part; None for all rows.
            count: Buffer from which PEs read the number of (token, expert) pairs, if ``elements``
                depends on it.
        """
        operands: dict[str, Any] = {"target": source if target is None else target, "elements": elements}
        if count is not None:
            operands["count"] = count
        self.transfer(AlongLine, source, pattern=pattern, axis=axis, only_row=only_row, **operands)

    def transfer(
        self,
        kind: type[Transfer],
        source: Operand,
        *,
        pattern: int = -1,
        axis: int = ROWS,
        only_row: int | None = None,
        by_choice: int = 0,
        **operands: Operand,
    ) -> None:
        """Add a step that moves words between PEs, wafers or the host.

        Args:
            kind: Class of the transfer, which defines the operand names.
            source: Elements to send.
            pattern: Index of the pattern; -1 for transfers without one.
            axis: Axis of the pattern's lines.
            only_row: The only row that takes part; None for the whole region.
            by_choice: FROM_CHOSEN or TO_CHOSEN of `wse.program.transfers.patterns` if only wafers
                with selected experts participate; 0 if all do.
            operands: Additional operands of the kind, by name. Omitted operands are 0.

        Raises:
            WseBug: The kind has no such operand.
        """
        start = operand_of(source)
        if not isinstance(start, SymAddress):
            raise TypeError(source)
        if by_choice:
            operands["by_choice"] = by_choice
        indexed = transfer_operands(kind, {**operands, "source": start})
        self._add(
            StepKind.TRANSFER,
            TRANSFERS.index(kind),
            axis,
            start.buffer.view,
            row_operands(only_row, self.rows[self.stage]) | indexed,
            pattern=pattern,
            depends_on_experts=bool(by_choice),
        )

    @contextmanager
    def loop(self, iterations: int, *, over_users: bool = False) -> Iterator[None]:
        """Put the steps that are added in a ``with`` block into a loop. Loops do not nest.

        Args:
            iterations: Number of iterations.
            over_users: Whether there is one iteration per user, with steps that depend on that
                user's counters.
        """
        if self._loop >= 0:
            raise ValueError("loops must not be nested")
        self._enter()
        self._loop = len(self._block.iterations)
        self._block.iterations.append(iterations)
        if over_users:
            self._block.over_users.add(self._loop)
        yield
        self._loop = -1

    @contextmanager
    def overlap(self) -> Iterator[None]:
        """Put the steps that are added in a ``with`` block into an overlap group.

        The steps of a group run concurrently.
        """
        self._enter()
        self._overlap = self._block.groups
        self._block.groups += 1
        yield
        self._overlap = -1

    def finish(self) -> SymSteps:
        """Close the last block of steps and return all steps of the phase. The builder is then unusable."""
        self.rewrite_steps()
        self.close()
        del self.rewrite, self.joins  # they may refer to this builder: avoid a reference cycle
        return SymSteps(runs=tuple(self.runs))

    def _enter(self) -> None:
        """Prepare to add a step: if the stage has changed, end the block and begin a new one."""
        if self.stage != self._stage_of_block:
            self.rewrite_steps()
            self.close()
        if not self._block.steps:
            self._first_op = self.op

    def _add(
        self,
        kind: int,
        code: int,
        axis: int,
        view: str,
        operands: dict[int, SymAddress | SymNumber],
        *,
        pattern: int = -1,
        depends_on_experts: bool = False,
    ) -> None:
        """Append a step to the current block, for the current op, loop and overlap group.

        The arguments are fields of `SymStep`.
        """
        if view not in VIEWS:
            raise ValueError(view)
        self._enter()
        self._block.steps.append(
            SymStep(
                kind=kind,
                code=code,
                pattern=pattern,
                axis=axis,
                view=view,
                op=self.op - self._first_op,
                loop=self._loop,
                overlap=self._overlap,
                depends_on_experts=depends_on_experts
                or any(isinstance(operand, SymNumber) and operand.per_pair for operand in operands.values()),
                operands=operands,
            )
        )
