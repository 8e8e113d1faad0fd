"""The builder of one phase: symbolic steps and buffers, loops, and overlap groups, whose steps run at the same time.

Before a block is closed its steps may be rewritten, as a `Draft`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from wse.compiler.symbolic import (
    Block,
    BlockRun,
    SymAddress,
    SymBuffer,
    SymNumber,
    SymPhase,
    SymStep,
    SymSteps,
    fixed_number,
)
from wse.errors import WseBug
from wse.program.isa.instructions import CODES, kernel_named
from wse.program.isa.operands import VIEWS
from wse.program.steps import ROWS, Kind
from wse.program.transfers.kinds import TRANSFERS, operand_index
from wse.program.transfers.patterns import AlongLine
from wse.program.transfers.transfer import Transfer

Operand = SymAddress | SymNumber | SymBuffer | int


@dataclass(slots=True, kw_only=True)
class Draft:
    """The steps of a block while rewrites replace, remove and add steps.

    Attributes:
        steps: The steps in their order; those of one loop are neighbours.
        turns: The turns of each loop.
        groups: Number of overlap groups.
    """

    steps: list[SymStep]
    turns: list[int]
    groups: int

    def add_loop(self, turns: int) -> int:
        """Add a loop of ``turns`` iterations; return its index, which steps inside have as ``loop``."""
        self.turns.append(turns)
        return len(self.turns) - 1

    def add_group(self) -> int:
        """Add an overlap group; return its index, which its steps have as ``overlap``."""
        self.groups += 1
        return self.groups - 1


class PhaseBuilder:
    """A collector of the steps of one phase.

    ``rows`` are those of each stage. ``stage`` and ``op`` are set by the caller.

    ``rewrite`` is called with the Draft of every block before it is closed; ``joins`` tells whether the first step of
    a block goes on in the task of the last one of the block before, on the same stage.
    """

    def __init__(self, rows: Sequence[int]) -> None:
        self.rows = rows
        self.rewrite: Callable[[Draft], None] | None = None
        self.joins: Callable[[SymStep, SymStep], bool] = lambda before, step: False
        self.stage = 0
        self.op = 0
        self.runs: list[BlockRun] = []
        self._loop = -1
        self._overlap = -1
        self._open()

    def _open(self) -> None:
        """Begin a block."""
        self._steps: list[SymStep] = []
        self._loops: list[tuple[int, int, int]] = []
        self._over_users: set[int] = set()
        self._groups = 0
        self._first_op, self._of_stage = self.op, self.stage

    def rewrite_steps(self) -> None:
        """Apply the rewrites to the steps added since the last block was closed."""
        if self.rewrite is None or not self._steps:
            return
        draft = Draft(steps=self._steps, turns=[turns for _, _, turns in self._loops], groups=self._groups)
        stage, self.stage = self.stage, self._of_stage
        self.rewrite(draft)
        self.stage = stage
        loops, loops_over_users = self._loops, self._over_users
        inside: dict[int, list[int]] = {}
        for index, step in enumerate(draft.steps):
            if step.loop >= 0:
                inside.setdefault(step.loop, []).append(index)
        number = {loop: i for i, loop in enumerate(inside)}
        self._steps = [
            step if number.get(step.loop, -1) == step.loop else step.copy_with(loop=number[step.loop])
            for step in draft.steps
        ]
        self._loops = [(steps[0], steps[-1] + 1, draft.turns[loop]) for loop, steps in inside.items()]
        self._over_users = {number[loop] for loop in loops_over_users if loop in number and loop < len(loops)}
        self._groups = draft.groups

    def close(self, requests: Iterable[SymBuffer] = ()) -> Block:
        """End the block of the steps added since the last one. Its buffers are in the order of ``requests``."""
        operand_buffers = dict.fromkeys(
            buffer
            for step in self._steps
            for operand in step.operands.values()
            if isinstance(operand, SymAddress)
            for buffer in (operand.buffer, operand.odd_round_buffer)
            if buffer is not None
        )
        block = Block(
            steps=tuple(self._steps),
            loops=tuple(self._loops),
            over_users=frozenset(self._over_users),
            groups=self._groups,
            buffers=tuple(dict.fromkeys((*filter(operand_buffers.__contains__, requests), *operand_buffers))),
        )
        if block.steps:
            self.add_run(block, self._of_stage, self._first_op, block.buffers)
        self._open()
        return block

    def add_run(self, block: Block, stage: int, op: int, buffers: tuple[SymBuffer, ...]) -> None:
        """Add an instance of a block, with buffers of its own, after those that were closed."""
        step = loop = group = 0
        joined = False
        if self.runs:
            last = self.runs[-1]
            step, loop = last.step + len(last.block.steps), last.loop + len(last.block.loops)
            group = last.group + last.block.groups
            joined = last.stage == stage and self.joins(last.block.steps[-1], block.steps[0])
        self.runs.append(
            BlockRun(block=block, stage=stage, op=op, step=step, loop=loop, group=group, buffers=buffers, joined=joined)
        )

    def compute(self, kernel: str, *, only_row: int | None = None, **operands: Operand) -> None:
        """Add a step that runs a kernel on the whole region or on one row."""
        indexed = kernel_operands(kernel, operands)
        record = kernel_named(kernel)
        for name, view in record.views.items():
            value = indexed[record.index[name]]
            if (value.buffer.view if isinstance(value, SymAddress) else "") != view:
                message = f"{kernel}: operand {name} is {view or 'a number'}, got {value}"
                raise WseBug(message)
        self._add(Kind.COMPUTE, CODES[kernel], 0, "act", self._rect(only_row) | indexed)

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
        """Add a pattern along ``axis`` on the elements at ``source``. Arrivals go to ``target``, by default in place.

        Where elements are by pair of a token and an expert, PEs find how many pairs there are at ``count``.
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
        """Add a transfer of the elements at ``source``, from the whole region or from one row.

        ``operands`` are those of the kind, by name; 0 if not given. Where ``by_choice`` is not 0, only wafers with
        chosen experts take part.
        """
        start, index = _operand(source), operand_index(kind)
        if not isinstance(start, SymAddress):
            raise TypeError(source)
        if by_choice:
            operands["by_choice"] = by_choice
        if unknown := sorted(set(operands) - set(index)):
            message = f"{kind.__name__} takes {sorted(index)}, got {unknown}"
            raise WseBug(message)
        indexed = {index[name]: _operand(value) for name, value in operands.items()} | {index["source"]: start}
        self._add(
            Kind.TRANSFER,
            TRANSFERS.index(kind),
            axis,
            start.buffer.view,
            self._rect(only_row) | indexed,
            pattern=pattern,
            routed=bool(by_choice),
        )

    @contextmanager
    def loop(self, turns: int, *, over_users: bool = False) -> Iterator[None]:
        """Run the steps added inside ``turns`` times, or once per user. Loops do not nest."""
        if self._loop >= 0:
            message = "loops do not nest"
            raise ValueError(message)
        self._enter()
        self._loop = len(self._loops)
        if over_users:
            self._over_users.add(self._loop)
        first = len(self._steps)
        self._loops.append((first, first, turns))
        yield
        self._loops[self._loop] = (first, len(self._steps), turns)
        self._loop = -1

    @contextmanager
    def overlap(self) -> Iterator[None]:
        """Run the steps added inside at the same time."""
        self._enter()
        self._overlap = self._groups
        self._groups += 1
        yield
        self._overlap = -1

    def phase(self, name: str, tokens: int, user: int, cached: int, *, on_mesh: bool) -> SymPhase:
        """Return the phase of the steps that were added."""
        self.rewrite_steps()
        self.close()
        del self.rewrite, self.joins  # they may hold this builder
        steps = SymSteps(runs=tuple(self.runs))
        return SymPhase(name=name, tokens=tokens, user=user, on_mesh=on_mesh, cached=cached, steps=steps)

    def _rect(self, only_row: int | None) -> dict[int, SymAddress | SymNumber]:
        if only_row is None:
            return {0: fixed_number(0), 1: fixed_number(self.rows[self.stage])}
        return {0: fixed_number(only_row), 1: fixed_number(1)}

    def _enter(self) -> None:
        """Begin a new block if the stage changed."""
        if self.stage != self._of_stage:
            self.rewrite_steps()
            self.close()
        if not self._steps:
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
        routed: bool = False,
    ) -> None:
        if view not in VIEWS:
            raise ValueError(view)
        self._enter()
        self._steps.append(
            SymStep(
                kind=kind,
                code=code,
                pattern=pattern,
                axis=axis,
                view=view,
                op=self.op - self._first_op,
                loop=self._loop,
                overlap=self._overlap,
                routed=routed
                or any(isinstance(operand, SymNumber) and operand.per_pair for operand in operands.values()),
                operands=operands,
            )
        )


def kernel_operands(kernel: str, operands: Mapping[str, Operand]) -> dict[int, SymAddress | SymNumber]:
    """Return the operands of a kernel by index.

    Raises WseBug where one is missing or does not belong to the kernel.
    """
    record = kernel_named(kernel)
    if operands.keys() != record.views.keys():
        message = f"{kernel} takes {list(record.views)}, got {sorted(operands)}"
        raise WseBug(message)
    return {record.index[name]: _operand(operands[name]) for name in record.views}


def _operand(value: Operand) -> SymAddress | SymNumber:
    if isinstance(value, SymBuffer):
        return SymAddress(buffer=value)
    if isinstance(value, int):
        return fixed_number(value)
    return value
