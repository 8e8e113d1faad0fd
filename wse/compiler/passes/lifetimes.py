"""Lifetimes of buffers: the steps of each phase in which a value is needed, from where it is made to its last use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from wse.compiler.state import State
from wse.compiler.symbolic import Block, SymAddress, SymBuffer, SymPhase, SymStep, SymSteps, distinct_phases
from wse.program.isa.instructions import KERNELS
from wse.program.steps import Kind
from wse.program.transfers.kinds import TRANSFERS, operand_index

Span = tuple[int, int, int]  # phase, first step, last step


def steps_before(phases: Sequence[SymPhase]) -> dict[int, int]:
    """Return the number of steps before each distinct phase, by the index of the first phase with these steps."""
    begins: dict[int, int] = {}
    before = 0
    for number in distinct_phases(phases):
        begins[number] = before
        before += len(phases[number].steps)
    return begins


def live_steps(spans: Iterable[Span], begins: Mapping[int, int]) -> int:
    """Return the steps of some intervals as a bit set. ``begins`` is the result of `steps_before`."""
    during = 0
    for phase, first, last in spans:
        during |= ((1 << (last - first + 1)) - 1) << (begins[phase] + first)
    return during


def lifetimes(state: State) -> dict[SymBuffer, tuple[Span, ...]]:
    """Return the intervals of steps in which each buffer is in use, in the distinct phases."""
    spans: dict[SymBuffer, list[Span]] = {}
    for number in distinct_phases(state.phases):
        for key, stretches in _spans(state.phases[number].steps).items():
            spans.setdefault(key, []).extend((number, first, last) for first, last in stretches)
    return {key: tuple(value) for key, value in spans.items()}


def _spans(steps: SymSteps) -> dict[SymBuffer, list[tuple[int, int]]]:
    """Return the intervals of steps in which the value of each buffer is needed.

    A use inside a loop counts for the whole loop, and what the loop makes first it makes at its start. The chain of an
    overlap group is run in order, once, beside the other transfers of the group.
    """
    within = {block: _spans_within(block) for block in steps.blocks}
    spans: dict[SymBuffer, list[tuple[int, int]]] = {}
    for run in steps.runs:
        own = dict(zip(run.block.buffers, run.buffers, strict=True))
        for buffer, (is_made, stretches) in within[run.block].items():
            so_far = spans.setdefault(own[buffer], [])
            in_phase = [(run.step + first, run.step + last) for first, last in stretches]
            if so_far and not is_made:
                in_phase[0] = so_far.pop()[0], in_phase[0][1]
            so_far += in_phase
    return spans


def _spans_within(block: Block) -> dict[SymBuffer, tuple[bool, list[tuple[int, int]]]]:
    """Return the intervals within a block in which each buffer is needed, and whether the block writes it first.

    What makes a buffer from its beginning on begins a stretch, unless an inner part of it was made before and not read.
    """
    lives: dict[SymBuffer, _Life] = {}
    for index, step in enumerate(block.steps):
        first, last = index, index
        if step.loop >= 0 and not _has_its_turn(step, block):
            first, last = block.loops[step.loop][0], block.loops[step.loop][1] - 1
        for buffer, is_output, is_inner in _uses(step):
            life = lives.get(buffer)
            if life is None:
                life = lives[buffer] = _Life()
            begins = is_output and not is_inner and not life.has_unread_part
            if life.stretches and (not begins or life.stretches[-1][1] >= first):
                life.stretches[-1] = (min(life.stretches[-1][0], first), max(life.stretches[-1][1], last))
            else:
                life.stretches.append((first, last))
            life.has_unread_part = is_output and is_inner
            life.has_beginning |= is_output and not is_inner
            life.is_made &= is_output or life.has_beginning
    return {buffer: (life.is_made and life.has_beginning, life.stretches) for buffer, life in lives.items()}


@dataclass(slots=True)
class _Life:
    """The intervals of a buffer in a block, and the state of its value after the steps so far."""

    stretches: list[tuple[int, int]] = field(default_factory=list)
    is_made: bool = True  # nothing was read before the block made the beginning
    has_beginning: bool = False
    has_unread_part: bool = False


def _has_its_turn(step: SymStep, block: Block) -> bool:
    """Return whether a step of a loop runs only once, in the chain of an overlap group."""
    turns = block.loops[step.loop][2]
    return turns == 1 and (step.kind == Kind.COMPUTE or step.in_chain)


def _uses(step: SymStep) -> list[tuple[SymBuffer, bool, bool]]:
    """Return the buffers of a step, whether it writes them anew, and whether from within; written buffers come last.

    The buffer of odd rounds is always filled by the round before.
    """
    overwritten = _new_outputs(step)
    read: list[tuple[SymBuffer, bool, bool]] = []
    made: list[tuple[SymBuffer, bool, bool]] = []
    turns = []
    for place, operand in step.operands.items():
        if isinstance(operand, SymAddress):
            is_output = place in overwritten
            (made if is_output else read).append((operand.buffer, is_output, operand.offset > 0))
            if operand.odd_round_buffer is not None:
                turns.append((operand.odd_round_buffer, True, False))
    return read + made + turns


def _new_outputs(step: SymStep) -> frozenset[int]:
    """Return the indices of the operands whose buffers the step writes anew."""
    if step.kind == Kind.COMPUTE:
        return KERNELS[step.code].outputs
    index = operand_index(TRANSFERS[step.code])
    source, target = step.operands.get(index["source"]), step.operands.get(index["target"])
    return frozenset((index["target"],)) if target is not None and target != source else frozenset()
