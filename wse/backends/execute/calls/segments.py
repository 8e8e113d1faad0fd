"""Segments of a phase: consecutive steps on one wafer, between crossings to other wafers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from wse.errors import WseBug
from wse.program.program import Program
from wse.program.steps import StepKind, Steps
from wse.program.transfers.host_streams import DrawnIn, LogitsOut, TokenOut
from wse.program.transfers.stage_streams import Crossing
from wse.program.transfers.transfer_types import TRANSFERS, operand_index


@dataclass(slots=True, kw_only=True, eq=False)
class StepSegment:
    """Consecutive steps of a phase that run on one wafer without waiting for another wafer.

    Attributes:
        wafer: Index of the wafer.
        receives: Steps of other wafers that send words to this wafer. The words must arrive before
            the first step.
        steps: Indices of the steps.
        sends: Steps of the segment that send words to another wafer.
        begins: True for the first segment of its wafer in the phase.
        ends: True for the last segment of its wafer in the phase.
        draws: True if the first step receives token ids that the host has sampled.
        tokens_out, logits_out: True if the segment sends token ids, or logits, to the host.
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


def segments(program: Program, steps: Steps) -> tuple[StepSegment, ...]:
    """Divide the steps of a phase into segments, each of which runs on one wafer without waiting.

    1. A new segment begins whenever the wafer changes from one step to the next, and with each step
       that receives token ids sampled by the host.
    2. Words that are sent to a wafer arrive before the next segment of this wafer. If it has no
       further segment, an empty one is added at the end.

    Args:
        program: The compiled Program.
        steps: Steps of the phase.

    Returns:
        The segments, in the order of the steps.

    Raises:
        WseBug: A region spans several wafers, or a loop contains a transfer to another wafer.
    """
    found = list[StepSegment]()
    arriving: defaultdict[int, list[int]] = defaultdict(list)
    begun_wafers: set[int] = set()

    def begin(wafer: int, *, draws: bool = False) -> None:
        """Append a new segment (consecutive steps on one wafer) to the result.

        Args:
            wafer: Index of the wafer.
            draws: Whether the first step receives token ids that the host has sampled.
        """
        receives, begins = tuple(arriving.pop(wafer, ())), wafer not in begun_wafers
        found.append(StepSegment(wafer=wafer, receives=receives, begins=begins, draws=draws))
        begun_wafers.add(wafer)

    for step, stage in enumerate(steps.stage.tolist()):
        placed_stage = program.stages[stage]
        kind = TRANSFERS[steps.code[step]] if steps.kind[step] == StepKind.TRANSFER else None
        if placed_stage.span > 1 or (kind is Crossing and steps.loop[step] >= 0):
            raise WseBug(
                f"{program.op_names[steps.op[step]]}: an op that spans wafers or crosses in a loop has no segments"
            )
        draws = kind is DrawnIn
        if draws or not found or found[-1].wafer != placed_stage.wafer:  # 1
            begin(placed_stage.wafer, draws=draws)
        segment = found[-1]
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


def may_overlap(program: Program, steps: Steps, found: Sequence[StepSegment]) -> bool:
    """Return True if a pass may begin on a wafer before the previous pass has finished there.

    A segment consists of the steps of a wafer between two waits for other wafers. Passes may
    overlap if two conditions are met on each wafer:

    - Only the first segment runs layers, because layers use the caches.
    - No buffer is in use in two segments.

    Args:
        program: The compiled Program.
        steps: Steps of both passes.
        found: Segments of the steps.
    """
    for wafer in {segment.wafer for segment in found}:
        wafer_segments = [segment for segment in found if segment.wafer == wafer]
        if any(program.op_layers[steps.op[step]] >= 0 for segment in wafer_segments[1:] for step in segment.steps):
            return False
        spans = [
            (at, step) for at, segment in enumerate(wafer_segments) for step in (*segment.receives, *segment.steps)
        ]
        for buffer in program.buffers:
            if program.stages[buffer.stage].wafer == wafer:
                for phase, first, last in buffer.live:
                    has_same_steps = program.phases[phase].steps is steps
                    if has_same_steps and len({at for at, step in spans if first <= step <= last}) > 1:
                        return False
    return True
