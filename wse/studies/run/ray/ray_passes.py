"""Passes on a Ray cluster, whose segments are tasks of the wafers' actors.

A pass consists of segments (`wse.backends.execute.calls.segments`). Each segment is a task of its
wafer's actor. Tiles sent between wafers are objects in Ray's store. The receiving task refers to
them, and they are copied between machines without passing through this process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from wse.backends.execute.calls.segments import may_overlap, segments
from wse.backends.execute.calls.streams import Streams
from wse.backends.execute.engine_part import SegmentReport
from wse.program.program import Program
from wse.studies.run.ray.wafer_actors import ActorCall, WaferActors

PASSES_PER_WAFER: Final = 4
"""Number of passes submitted ahead per wafer. It exceeds 1 because wafers take different times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedPass:
    """A pass (one execution of a Program phase) that was submitted to a Ray cluster.

    A pass is divided into segments: consecutive steps on one wafer. Each segment is executed by a
    remote call, which returns a report with the results, such as token ids.

    Attributes:
        index: Index of the phase.
        ids: Input token ids.
        calls: Calls that have not yet returned their reports.
        reports: Reports of all other calls.
    """

    index: int
    ids: tuple[int, ...]
    calls: deque[ActorCall] = field(default_factory=deque)
    reports: list[SegmentReport] = field(default_factory=list)


class RayPasses:
    """Dispatcher that submits passes to the actors of all wafers.

    Attributes:
        at_once: Maximum number of passes in flight.
    """

    def __init__(self, program: Program, streams: Streams, actors: WaferActors) -> None:
        """Divide each phase of a Program into segments (consecutive steps on one wafer).

        Args:
            program: The Program.
            streams: The host's token ids and logits, which passes read and write.
            actors: The actors (processes) that emulate the wafers.
        """
        self._program, self._streams, self._actors = program, streams, actors
        self._segments = {steps: segments(program, steps) for steps in {phase.steps for phase in program.phases}}
        overlaps = all(may_overlap(program, steps, phase_segments) for steps, phase_segments in self._segments.items())
        self.at_once = PASSES_PER_WAFER * program.wafers if overlaps else 1

    def submit(self, index: int, ids: Sequence[int]) -> SubmittedPass:
        """Submit a pass (one execution of a Program phase) to the actors of its wafers.

        A pass is submitted in segments: consecutive steps on one wafer. A segment receives the data
        that earlier segments send from other wafers. Some segments need token ids that the host
        must sample first. Before submitting such a segment, the method waits for all earlier
        segments and samples the ids.

        Args:
            index: Index of the phase.
            ids: Input token ids.

        Returns:
            The submitted pass, whose last segments may still be running.
        """
        submitted, phase = SubmittedPass(index=index, ids=tuple(ids)), self._program.phases[index]
        tiles: dict[int, Any] = {}
        for number, segment in enumerate(self._segments[phase.steps]):
            drawn_ids: Sequence[int] = ()
            if segment.draws:
                self.collect(submitted)
                self._streams.draw(self._program.host_places(phase))
                drawn_ids = self._streams.host_tokens[: self._program.batch].tolist()
            inputs = [tiles.pop(step) for step in segment.receives]
            call, outputs = self._actors.run(segment, index, number, submitted.ids, drawn_ids, *inputs)
            tiles |= dict(zip(segment.sends, outputs, strict=True))
            submitted.calls.append(call)
        return submitted

    def collect(self, submitted: SubmittedPass) -> None:
        """Wait for the unfinished segments of a pass, and store their token ids and logits."""
        places = self._program.host_places(self._program.phases[submitted.index])
        while submitted.calls:
            report: SegmentReport = self._actors.value(submitted.calls.popleft())
            if report.tokens is not None:
                self._streams.host_tokens[places] = report.tokens
            if report.logits is not None:
                self._streams.host_logits[places] = report.logits
            submitted.reports.append(report)
