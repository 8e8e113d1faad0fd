"""Segments: the steps of a phase in stretches on one wafer each, between which words cross from wafer to wafer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from wse.errors import WseBug
from wse.program.program import Program
from wse.program.steps import Kind, Steps
from wse.program.transfers.host_streams import DrawnIn, LogitsOut, TokenOut
from wse.program.transfers.kinds import TRANSFERS, operand_index
from wse.program.transfers.stage_streams import Crossing
from wse.program.transfers.transfer import Transfer


@dataclass(slots=True, kw_only=True, eq=False)
class Segment:
    """Steps of a phase on one wafer, one after another.

    Attributes:
        wafer: The wafer.
        receives: Crossings that bring words here before the first step.
        steps: The steps.
        sends: Those of them that are crossings to other wafers.
        begins: Whether it is the first of its wafer in the phase.
        ends: Whether it is the last.
        draws: Whether ids that the host draws come in at its first step.
        tokens_out, logits_out: Whether token ids, or logits, go to the host.
    """

    wafer: int
    receives: tuple[int, ...]
    begins: bool
    draws: bool
    steps: list[int] = field(default_factory=list)
    sends: list[int] = field(default_factory=list)
    ends: bool = False
    tokens_out: bool = False
    logits_out: bool = False


def segments(program: Program, steps: Steps) -> tuple[Segment, ...]:
    """Return the segments of the phases that go through some steps, in the order of these.

    1. A segment ends where the next step is on another wafer, or brings in ids that the host drew.
    2. What crosses to a wafer arrives when its next segment begins, or in one without steps at the end.

    Raises:
        WseBug: a region spans wafers, or words cross in a loop.
    """
    found = list[Segment]()
    arriving: defaultdict[int, list[int]] = defaultdict(list)
    begun_wafers: set[int] = set()

    def begin(wafer: int, *, draws: bool = False) -> Segment:
        receives, begins = tuple(arriving.pop(wafer, ())), wafer not in begun_wafers
        found.append(Segment(wafer=wafer, receives=receives, begins=begins, draws=draws))
        begun_wafers.add(wafer)
        return found[-1]

    for step, stage in enumerate(steps.stage.tolist()):
        placed, kind = program.stages[stage], _transfer_kind(steps, step)
        if placed.span > 1 or (kind is Crossing and steps.loop[step] >= 0):
            message = f"{program.op_names[steps.op[step]]}: spans wafers, or crosses in a loop: it has no segments"
            raise WseBug(message)
        draws = kind is DrawnIn
        segment = begin(placed.wafer, draws=draws) if _is_cut(found, placed.wafer) or draws else found[-1]  # 1
        segment.steps.append(step)
        segment.tokens_out |= kind is TokenOut
        segment.logits_out |= kind is LogitsOut
        if kind is Crossing:
            target = int(steps.fixed[step, operand_index(Crossing)["target_stage"]])
            segment.sends.append(step)
            arriving[program.stages[target].wafer].append(step)
    for wafer in list(arriving):  # 2
        begin(wafer)
    for last in {segment.wafer: segment for segment in found}.values():
        last.ends = True
    return tuple(found)


def may_overlap(program: Program, steps: Steps, found: Sequence[Segment]) -> bool:
    """Return whether another pass may begin on a wafer before a pass through ``steps``, cut as ``found``, ends there.

    It may where no later segment of the wafer reads a cache, or a buffer that an earlier one filled.
    """
    for wafer in {segment.wafer for segment in found}:
        own = [segment for segment in found if segment.wafer == wafer]
        if any(program.op_layers[steps.op[step]] >= 0 for segment in own[1:] for step in segment.steps):
            return False
        spans = [(at, step) for at, segment in enumerate(own) for step in (*segment.receives, *segment.steps)]
        for buffer in program.buffers:
            if program.stages[buffer.stage].wafer == wafer:
                for phase, first, last in buffer.live:
                    same = program.phases[phase].steps is steps
                    if same and len({at for at, step in spans if first <= step <= last}) > 1:
                        return False
    return True


def _is_cut(found: Sequence[Segment], wafer: int) -> bool:
    return not found or found[-1].wafer != wafer


def _transfer_kind(steps: Steps, step: int) -> type[Transfer] | None:
    return TRANSFERS[steps.code[step]] if steps.kind[step] == Kind.TRANSFER else None
