"""Lifetimes of buffers, and buffers that may share an address with an overwritten input.

Memory allocation uses lifetimes: buffers that are never live in the same step may share memory. An
elementwise kernel may even write each output over the input that it is computed from.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from wse.compiler.state import State
from wse.compiler.symbolic import Block, SymAddress, SymBuffer, SymPhase, SymStep, SymSteps, distinct_phases
from wse.program.isa.instructions import KERNELS
from wse.program.isa.operands import VIEWS
from wse.program.steps import StepKind
from wse.program.transfers.transfer_types import TRANSFERS, operand_index

Span = tuple[int, int, int]
"""An interval in which a buffer is live: index of the phase, first step and last step in it."""


def steps_before(phases: Sequence[SymPhase]) -> dict[int, int]:
    """Return how many steps precede each phase if the steps of all phases form one sequence.

    The number plus the index of a step in its phase is the step's position in bit sets over all
    phases. Phases that share their steps occur only once in the sequence.

    Args:
        phases: All phases, in order.

    Returns:
        Number of preceding steps, keyed by phase index.
    """
    begins: dict[int, int] = {}
    step_count = 0
    for number in distinct_phases(phases):
        begins[number] = step_count
        step_count += len(phases[number].steps)
    return begins


def live_steps(spans: Iterable[Span], begins: Mapping[int, int]) -> int:
    """Convert intervals of steps to a bit set in which each bit is a step of some phase.

    Args:
        spans: Intervals as (phase, first step, last step).
        begins: Number of steps before each phase, from `steps_before`.
    """
    step_bits = 0
    for phase, first, last in spans:
        step_bits |= ((1 << (last - first + 1)) - 1) << (begins[phase] + first)
    return step_bits


def lifetimes(state: State) -> dict[SymBuffer, tuple[Span, ...]]:
    """Return the intervals of steps in which each buffer is live.

    Returns:
        The intervals of each buffer as (phase, first step, last step). Phases that share their
        steps are listed only once. Buffers that no step uses are omitted.
    """
    spans: dict[SymBuffer, list[Span]] = {}
    for number in distinct_phases(state.phases):
        for key, intervals in _spans(state.phases[number].steps).items():
            spans.setdefault(key, []).extend((number, first, last) for first, last in intervals)
    return {key: tuple(value) for key, value in spans.items()}


def _spans(steps: SymSteps) -> dict[SymBuffer, list[tuple[int, int]]]:
    """Return, for one phase, the intervals of steps in which each buffer is live.

    A phase is a sequence of block runs. Each block is analysed once (`_spans_within`), and its
    intervals are shifted to each of its runs. If a run reads a buffer before it writes it, the
    value comes from an earlier run, so the preceding interval is extended to this run.

    Args:
        steps: Steps of the phase.

    Returns:
        The intervals of each buffer as (first step, last step), relative to the phase.
    """
    block_spans = {block: _spans_within(block) for block in steps.blocks}
    spans: dict[SymBuffer, list[tuple[int, int]]] = {}
    for run in steps.runs:
        buffer_in_run = dict(zip(run.block.buffers, run.buffers, strict=True))
        for buffer, (is_written_first, intervals) in block_spans[run.block].items():
            so_far = spans.setdefault(buffer_in_run[buffer], [])
            in_phase = [(run.step + first, run.step + last) for first, last in intervals]
            if so_far and not is_written_first:
                in_phase[0] = so_far.pop()[0], in_phase[0][1]
            so_far += in_phase
    return spans


def _spans_within(block: Block) -> dict[SymBuffer, tuple[bool, list[tuple[int, int]]]]:
    """Return, for each buffer, the intervals of a block's steps in which its value is needed.

    A block is a list of steps that equivalent layers share. An interval begins at a step that
    writes to the start of a buffer without reading it, and includes all later steps that use the
    value. There are two special cases:

    1. A write to the start directly after a write to the middle begins no new interval, because
       both steps write parts of one value.
    2. A use in a loop counts for all steps of the loop, except for steps that run only once
       (`_is_live_only_in_step`).

    Args:
        block: The block.

    Returns:
        A pair for each buffer: whether the block writes it before reading it, and its intervals as
        (first step, last step).
    """
    lives: dict[SymBuffer, _Life] = {}
    for index, step in enumerate(block.steps):
        first, last = index, index
        if step.loop >= 0 and not _is_live_only_in_step(step, block):
            first, last = block.loops[step.loop][0], block.loops[step.loop][1] - 1
        for buffer, is_output, is_after_start in _uses(step):
            life = lives.get(buffer)
            if life is None:
                life = lives[buffer] = _Life()
            begins = is_output and not is_after_start and not life.ends_with_inner_write
            if life.intervals and (not begins or life.intervals[-1][1] >= first):
                life.intervals[-1] = (min(life.intervals[-1][0], first), max(life.intervals[-1][1], last))
            else:
                life.intervals.append((first, last))
            life.ends_with_inner_write = is_output and is_after_start
            life.start_is_written |= is_output and not is_after_start
            life.is_written_first &= is_output or life.start_is_written
    return {buffer: (life.is_written_first and life.start_is_written, life.intervals) for buffer, life in lives.items()}


@dataclass(slots=True)
class _Life:
    """State of the lifetime analysis of one buffer after visiting some steps of a block.

    Attributes:
        intervals: First and last step of each interval in which the buffer is live.
        is_written_first: Whether the block wrote the start of the buffer before every read so far.
        start_is_written: Whether the block has written the start of the buffer.
        ends_with_inner_write: Whether the last step that used the buffer wrote to the middle of it.
    """

    intervals: list[tuple[int, int]] = field(default_factory=list)
    is_written_first: bool = True
    start_is_written: bool = False
    ends_with_inner_write: bool = False


def _is_live_only_in_step(step: SymStep, block: Block) -> bool:
    """Return whether a step of a loop uses its buffers only while the step itself runs.

    Most steps of a loop may use their buffers at any time during the loop, because they run in
    every iteration or concurrently with other steps. The exceptions are in loops with one iteration
    (groups of concurrent steps): kernels and transfers with ``in_chain`` run one after another.
    """
    iterations = block.loops[step.loop][2]
    return iterations == 1 and (step.kind == StepKind.COMPUTE or step.in_chain)


def _uses(step: SymStep) -> list[tuple[SymBuffer, bool, bool]]:
    """Return the buffers that a step uses: first the ones it reads, then the ones it writes.

    A step may read the old value of a buffer and write a new value. If an operand alternates
    between two buffers in a loop, the buffer of odd iterations counts as overwritten, because the
    preceding iteration always fills it.

    Returns:
        (buffer, whether the step overwrites it, whether the address is after the start of the
        buffer) for each use.
    """
    overwritten = _new_outputs(step)
    read_uses: list[tuple[SymBuffer, bool, bool]] = []
    written_uses: list[tuple[SymBuffer, bool, bool]] = []
    odd_round_uses = []
    for place, operand in step.operands.items():
        if isinstance(operand, SymAddress):
            is_output = place in overwritten
            (written_uses if is_output else read_uses).append((operand.buffer, is_output, operand.offset > 0))
            if operand.odd_round_buffer is not None:
                odd_round_uses.append((operand.odd_round_buffer, True, False))
    return read_uses + written_uses + odd_round_uses


def _new_outputs(step: SymStep) -> frozenset[int]:
    """Return the indices of the operands whose values a step overwrites without reading them.

    For a kernel, these are its outputs. For a transfer, it is the target, unless the target is also
    the source.
    """
    if step.kind == StepKind.COMPUTE:
        return KERNELS[step.code].outputs
    index = operand_index(TRANSFERS[step.code])
    source, target = step.operands.get(index["source"]), step.operands.get(index["target"])
    return frozenset((index["target"],)) if target is not None and target != source else frozenset()


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
        replacements: For each pair of buffers, the steps that may overwrite the first buffer with
            the second, as a bit set; from `replacing_steps`.
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
    size = {view: state.options.element_bytes(view) for view in VIEWS}
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
