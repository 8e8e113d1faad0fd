"""Pass 6: a byte address for every buffer. Buffers that are never live at the same time share space."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from wse.compiler.options import REFUSE
from wse.compiler.state import Block, State, SymAddress, SymBuffer, SymPhase, SymStep, SymSteps, distinct_phases
from wse.errors import DoesNotFit
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.isa.instructions import KERNELS
from wse.number_formats import ELEMENT_BYTES
from wse.program.program import Buffer, Stage
from wse.program.steps import Kind
from wse.program.transfers.kinds import TRANSFERS, operand_index

ALIGNMENT_BYTES = 4  # one 32-bit word, the unit of a vector operand and of a wavelet

Span = tuple[int, int, int]  # phase, first step, last step


class SramOverflow(DoesNotFit):
    """A stage's PEs are asked to hold more than their SRAM. ``needed`` and ``available`` count bytes on one PE."""

    def __init__(self, state: State, stage: int, needed: int, buffers: list[Buffer]) -> None:
        available = state.wafer.sram_bytes_per_pe
        largest = max((b for b in buffers if b.use != "code"), key=lambda b: b.bytes)
        by_use = {use: sum(b.bytes for b in buffers if b.use == use) for use in ("code", "weights", "kv")}
        rect = state.stages[stage].rect
        self.needed, self.available = needed, available
        wafers = f" of each of {state.options.wafers} wafers" if state.options.wafers > 1 else ""
        alone = ", too large for a PE even alone" if largest.bytes + by_use["code"] > available else ""
        super().__init__(
            f"{state.spec.name} does not fit on {rect.rows}x{rect.cols} PEs{wafers}: every PE of stage {stage} "
            f"(first: row {rect.row}, col {rect.col}) needs {needed:,} of {available:,} bytes, "
            f"{needed - available:,} too many: code {by_use['code']:,}, weights {by_use['weights']:,}, "
            f"KV cache {by_use['kv']:,}, the rest {needed - sum(by_use.values()):,}; "
            f"the largest is {largest.name} ({largest.use}) with {largest.bytes:,} bytes{alone}"
        )


def element_type(state: State, view: str) -> str:
    """Element type of a view."""
    return state.options.element_type(view)


def element_bytes(state: State, view: str) -> int:
    """Bytes of one element of a view."""
    return ELEMENT_BYTES[element_type(state, view)]


def allocate(state: State) -> State:
    """Fill ``buffers``, ``addresses`` and the SRAM bounds of ``stages``, stage by stage.

    1. Code, stack and what the vendor's runtime keeps come first. The stage of experts, which shares PEs with the
       others, begins above the fullest of them.
    2. Permanent buffers (weights, cache, token ids) follow one another.
    3. The others go by size, the largest first, each at the lowest address behind the permanent ones where no buffer
       stands that is live in one of the same steps. A buffer that no step uses gets no address.
    4. The stage ends behind the highest of them.

    Raises SramOverflow where that is beyond the SRAM, unless the request is to report it (``Options.capacity``).
    """
    spans, begins = _lifetimes(state), steps_before(state.phases)
    reserved = reserved_bytes(state.wafer, state.software)
    sym_buffers = [t.buffer for t in state.tiles] + list(state.sym_buffers)
    addresses: dict[SymBuffer, int] = {}
    all_buffers: list[Buffer] = []
    stages: list[Stage] = []
    for index, stage in enumerate(state.stages):
        of_stage = [b for b in sym_buffers if b.stage == index]
        # 1. Where the stage begins.
        above = state.plans[index].experts  # in the SRAM of the other stages, whose code runs it too
        base = max(below.sram_top_byte for below in stages) if above else reserved
        base = aligned_bytes(base)
        top, placed = base, [] if above else [_code_buffer(index, base)]
        # 2. Permanent buffers.
        for buffer in (b for b in of_stage if b.permanent):
            addresses[buffer] = top
            placed.append(_buffer(state, buffer, top, ()))
            top += aligned_bytes(placed[-1].bytes)
        # 3. The others, the largest first.
        temporary = [b for b in of_stage if not b.permanent and b in spans]
        intervals: list[_Interval] = []
        for buffer in sorted(temporary, key=lambda b: -b.elements * element_bytes(state, b.view)):
            size = aligned_bytes(buffer.elements * element_bytes(state, buffer.view))
            live = spans[buffer]
            during = live_steps(live, begins)
            address = _lowest(intervals, during, size, top)
            intervals.append(_Interval(address=address, size=size, during=during))
            addresses[buffer] = address
            placed.append(_buffer(state, buffer, address, live))
        # 4. The end of the stage.
        top = max([top, *(interval.address + interval.size for interval in intervals)])
        if top > state.wafer.sram_bytes_per_pe and state.options.capacity == REFUSE:
            fullest = max(stages, key=lambda s: s.sram_top_byte) if above else None
            beside = [b for b in all_buffers if fullest is not None and b.stage == stages.index(fullest)]
            raise SramOverflow(state, index, top, beside + placed)
        stages.append(replace(stage, sram_base_byte=base, sram_top_byte=top))
        all_buffers += placed
    return replace(state, stages=tuple(stages), buffers=tuple(all_buffers), addresses=addresses)


def reserved_bytes(wafer: WaferSpec, software: SoftwareProfile) -> int:
    """Code, stack, runtime and task table."""
    total = software.code_bytes_per_pe + software.stack_bytes_per_pe
    return aligned_bytes(total + wafer.runtime_bytes_per_pe + wafer.task_table_bytes_per_pe)


def _code_buffer(stage: int, size: int) -> Buffer:
    return Buffer(
        stage=stage, name="code, stack and runtime", use="code", address=0, bytes=size, element="bytes", live=()
    )


def _buffer(state: State, buffer: SymBuffer, address: int, live: tuple[Span, ...]) -> Buffer:
    return Buffer(
        stage=buffer.stage,
        name=buffer.name,
        use=buffer.use,
        address=address,
        bytes=buffer.elements * element_bytes(state, buffer.view),
        element=element_type(state, buffer.view),
        live=live,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Interval:
    """Bytes of SRAM that are in use during some steps."""

    address: int
    size: int
    during: int  # the steps, as a set of bits


def aligned_bytes(size: int) -> int:
    """Bytes that something of ``size`` bytes takes, up to where the next may begin."""
    return -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def _lowest(intervals: list[_Interval], during: int, size: int, start: int) -> int:
    """The lowest address at which ``size`` bytes clash with nothing that is live in any of the steps ``during``."""
    address = start
    for interval in sorted((o for o in intervals if o.during & during), key=lambda o: o.address):
        if address + size <= interval.address:
            break
        address = max(address, interval.address + interval.size)
    return address


def steps_before(phases: Sequence[SymPhase]) -> dict[int, int]:
    """The steps before each of the phases that differ, which are named by the first of those that share their steps."""
    begins: dict[int, int] = {}
    before = 0
    for number in distinct_phases(phases):
        begins[number] = before
        before += len(phases[number].steps)
    return begins


def live_steps(spans: Iterable[Span], begins: Mapping[int, int]) -> int:
    """The steps of some spans as a set of bits. ``begins`` are those of `steps_before`."""
    during = 0
    for phase, first, last in spans:
        during |= ((1 << (last - first + 1)) - 1) << (begins[phase] + first)
    return during


def _lifetimes(state: State) -> dict[SymBuffer, tuple[Span, ...]]:
    spans: dict[SymBuffer, list[Span]] = {}
    for number in distinct_phases(state.phases):
        for key, stretches in _spans(state.phases[number].steps).items():
            spans.setdefault(key, []).extend((number, first, last) for first, last in stretches)
    return {key: tuple(value) for key, value in spans.items()}


def _spans(steps: SymSteps) -> dict[SymBuffer, list[tuple[int, int]]]:
    """Stretches of steps in which each buffer's value is needed: from where it is made to its last use.

    A use inside a loop counts for the whole loop, and what the loop makes first it makes at its start.
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
    """Stretches of steps within a block in which each buffer is needed, and whether its first use makes it."""
    spans: dict[SymBuffer, tuple[bool, list[tuple[int, int]]]] = {}
    for index, step in enumerate(block.steps):
        first, last = index, index
        if step.loop >= 0:
            first, last = block.loops[step.loop][0], block.loops[step.loop][1] - 1
        for buffer, is_made in _uses(step):
            stretches = spans.setdefault(buffer, (is_made, []))[1]
            if stretches and (not is_made or stretches[-1][1] >= first):
                stretches[-1] = (min(stretches[-1][0], first), max(stretches[-1][1], last))
            else:
                stretches.append((first, last))
    return spans


def _uses(step: SymStep) -> list[tuple[SymBuffer, bool]]:
    """The buffers of a step, and whether what they held before the step or its loop is of no use; those come last.

    The buffer of odd rounds is always filled by the round before. What is made from inside a buffer on joins what
    stands before it.
    """
    overwritten = _overwritten(step)
    addresses = [
        (place in overwritten, operand) for place, operand in step.operands.items() if isinstance(operand, SymAddress)
    ]
    first = [(operand.buffer, is_made and not operand.offset) for is_made, operand in addresses]
    turns = [(operand.odd_round_buffer, True) for _, operand in addresses if operand.odd_round_buffer is not None]
    return sorted(first + turns, key=lambda use: use[1])


def _overwritten(step: SymStep) -> frozenset[int]:
    """Operand indices whose buffers the step makes anew."""
    if step.kind == Kind.COMPUTE:
        return KERNELS[step.code].outputs
    index = operand_index(TRANSFERS[step.code])
    source, target = step.operands.get(index["source"]), step.operands.get(index["target"])
    return frozenset((index["target"],)) if target is not None and target != source else frozenset()
