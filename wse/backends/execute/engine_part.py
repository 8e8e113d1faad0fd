"""Part of an engine that runs the steps of one wafer and exchanges words with other parts.

Together, the parts of all wafers compute the same as a single `wse.backends.execute.engine.Engine`,
on the same bytes in the same order. Only ids, logits and words that cross between wafers are
exchanged between parts and with the host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from wse.arrays import F64, I64
from wse.backends.execute.calls.bind import BoundPhase
from wse.backends.execute.calls.segments import StepSegment, segments
from wse.backends.execute.calls.streams import Draw
from wse.backends.execute.engine import Engine
from wse.backends.execute.observation.observation import Observation
from wse.backends.execute.observation.outputs import Values
from wse.backends.execute.weight_storage.tiles import Source
from wse.models.spec import ModelSpec
from wse.program.program import Program

Tiles = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SegmentReport:
    """Results of one segment (consecutive steps on one wafer), which are sent to the host.

    Attributes:
        tokens: int64 ``[places]``, ids that the segment sent to the host; None if it sent none.
        logits: float32 ``[places, vocabulary]``, logits that the segment sent to the host; None if
            it sent none.
        pairs: Number of tokens routed to each expert, int64 ``[experts]``, for each layer whose
            router ran.
        outputs: Index and output values of each watched op (node of the model graph) that ended in
            the segment.
    """

    tokens: npt.NDArray[np.int64] | None
    logits: npt.NDArray[np.float32] | None
    pairs: Mapping[int, npt.NDArray[np.int64]]
    outputs: Sequence[tuple[int, Values]]


class EnginePart:
    """Engine for one wafer of a Program, with only the SRAM, weights and counters of this wafer.

    Args:
        program: The compiled Program.
        spec: Description of the model.
        tensor: Function that returns the tensor with a given canonical name.
        wafer: Index of the wafer.
        allow_nonfinite: Whether weights may contain infinity and NaN.
        watched: Indices of ops whose outputs are read; ops of other wafers are ignored.
        profile: Whether every call is timed.
    """

    def __init__(
        self,
        program: Program,
        spec: ModelSpec,
        tensor: Callable[[str], Source],
        wafer: int,
        *,
        allow_nonfinite: bool = False,
        watched: Collection[int] = (),
        profile: bool = False,
    ) -> None:
        self._program, self._wafer = program, wafer
        self._drawn_ids: Sequence[int] = ()
        self._outputs: list[tuple[int, Values]] = []
        self._bound: dict[int, BoundPhase] = {}  # bound phases of passes in progress, by phase
        self._segments = lru_cache(maxsize=None)(partial(segments, program))
        self.engine = Engine(
            program,
            spec,
            tensor,
            [self._draw(user) for user in range(program.batch)],
            allow_nonfinite=allow_nonfinite,
            observation=Observation(
                watched=[op for op in watched if program.stages[program.op_stages[op]].wafer == wafer],
                on_output=lambda op, values: self._outputs.append((op, values)),
                profile=profile,
            ),
            wafers=(wafer,),
        )

    def run(
        self, index: int, number: int, ids: Sequence[int], drawn_ids: Sequence[int], *tiles: Tiles
    ) -> tuple[SegmentReport, *tuple[Tiles, ...]]:
        """Run one segment of a phase: consecutive steps on this wafer.

        Args:
            index: Index of the phase.
            number: Index of the segment in the phase.
            ids: Token ids that the phase reads, as for `Engine.begin`.
            drawn_ids: Token ids that the host has sampled, one per user, if the first step of the
                segment receives them.
            tiles: Words that the segment receives, for each transfer from another wafer.

        Returns:
            A report, and the words that the segment sends, for each transfer to another wafer.
        """
        engine, segment = self.engine, self._segments(self._program.phases[index].steps)[number]
        bound = engine.begin(index, ids) if segment.begins else self._bound[index]
        self._bound[index] = bound
        self._drawn_ids = drawn_ids
        engine.crossings.update(zip(segment.receives, map(np.array, tiles), strict=True))
        engine.routing.pairs = {}
        engine.run(_calls_of(bound, segment))
        if segment.ends:
            del self._bound[index]
        outputs, self._outputs = self._outputs, []
        places = self._program.host_places(bound.phase)
        report = SegmentReport(
            tokens=engine.streams.host_tokens[places].copy() if segment.tokens_out else None,
            logits=engine.streams.host_logits[places].copy() if segment.logits_out else None,
            pairs=engine.routing.pairs,
            outputs=outputs,
        )
        return report, *(engine.crossings.pop(step) for step in segment.sends)

    def keep(self, user: int, tokens: int, next_id: int) -> None:
        """Keep the accepted tokens of a user's last verification pass, and set the next token.

        The remaining tokens of the pass are removed from the KV cache's counters.

        Args:
            user: Index of the user.
            tokens: Number of tokens to keep, counted from the first token of the pass.
            next_id: The user's next token.
        """
        self.engine.keep_ids(user, tokens, next_id)

    def precompile(self) -> str:
        """Compile the kernels of this wafer's steps.

        Returns:
            The reason why the compiled kernels could not be stored for the next run; empty if the
            kernels were stored.
        """
        return self.engine.precompile(lambda count, total, name: None)

    def link_words(self) -> npt.NDArray[np.int64]:
        """Return the word counts of this wafer's links, int64 ``[1, 4, mesh rows, mesh cols]``."""
        return self.engine.link_words()

    def step_times(self) -> tuple[dict[int, tuple[F64, I64]], float]:
        """Return the wall times of the steps in this process.

        Returns:
            For each phase, keyed by its index, the time in seconds and the number of accessed bytes
            of each step; and the total time of all passes in seconds.
        """
        times = self.engine.step_times
        assert times is not None
        return times.by_phase, times.passes_s

    def read_bytes_per_s(self) -> float:
        """Measure how fast all cores of this computer together read memory, in bytes per second.

        They read the largest arena (emulated SRAM of a region of PEs) of this process.
        """
        assert self.engine.step_times is not None
        return self.engine.step_times.read_bytes_per_s()

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return the part of the run's state that belongs to this wafer, as named arrays.

        `wse.backends.execute.engine_state` lists the arrays.
        """
        return self.engine.state()

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore a state that `state` returned.

        Raises:
            ValueError: The state belongs to a different Program.
        """
        self.engine.restore(arrays)

    def _draw(self, user: int) -> Draw:
        """Return a function that takes the place of sampling in this process.

        The function returns the id that the host has sampled for the user.

        Args:
            user: Index of the user.
        """
        return lambda logits: self._drawn_ids[user]


def _calls_of(bound: BoundPhase, segment: StepSegment) -> BoundPhase:
    """Return the calls of a phase that belong to one segment (consecutive steps on one wafer).

    The last segment of a wafer also gets ``bound.loads``, from which words on links are counted for
    the whole phase. The other segments get no loads, so that the words are counted once per pass.

    Args:
        bound: The phase as a list of function calls, with the step of each call.
        segment: The segment.
    """
    segment_steps = {*segment.receives, *segment.steps}
    segment_calls = [(call, step) for call, step in zip(bound.calls, bound.steps, strict=True) if step in segment_steps]
    calls, steps = [call for call, _ in segment_calls], [step for _, step in segment_calls]
    return bound._replace(calls=calls, steps=steps, loads=bound.loads if segment.ends else Counter())
