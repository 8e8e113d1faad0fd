"""A backend whose wafers are actors of a Ray cluster, with the same bits, words and bytes as
`wse.backends.execute.engine`.

A pass is its segments (`wse.backends.execute.segments`), each a task of its wafer's actor. Tiles that cross from wafer
to wafer are objects in Ray's store: the task that receives them names them, and they go from machine to machine without
passing through here. An actor executes tasks in the order in which they were submitted, so passes that do not wait
for each other are submitted ahead, and wafers work on several of them at the same time: chunks of prompts, and the
passes of users who were announced.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wse.backends.execute.arena import Arena
from wse.backends.execute.caches import Caches
from wse.backends.execute.engine import chunk_of
from wse.backends.execute.engine_part import SegmentReport
from wse.backends.execute.engine_state import restore, state_of
from wse.backends.execute.outputs import Values
from wse.backends.execute.segments import may_overlap, segments
from wse.backends.execute.step_times import StepTimes
from wse.backends.execute.streams import Draw, Streams
from wse.backends.execute.tiles import Source
from wse.backends.execute.verified_ids import VerifiedIds
from wse.errors import WseBug
from wse.models.spec import ModelSpec
from wse.program.program import Program
from wse.program.steps import Slots
from wse.studies.run.ray.wafer_actor import WaferJob
from wse.studies.run.ray.wafer_actors import ActorCall, WaferActors
from wse.studies.run.ray.wafer_states import merge_states, state_of_wafer
from wse.studies.run.request import RunRequest

PASSES_PER_WAFER: Final = 4
"""Passes that are submitted ahead, for each wafer: more than one, as wafers take different times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pass:
    """A pass that was submitted.

    Attributes:
        index: The phase.
        ids: Its ids.
        calls: The calls of its segments whose reports are still to come.
        reports: The reports that came.
    """

    index: int
    ids: tuple[int, ...]
    calls: deque[ActorCall] = field(default_factory=deque)
    reports: list[SegmentReport] = field(default_factory=list)


class RayEngine:
    """Executes a Program on the actors of a Ray cluster, one a wafer.

    Arguments and attributes are those of `wse.backends.execute.engine.Engine`; ``tensor`` is not used, for each actor
    finds the weights of its wafer by the ``request``. ``threads`` are those of an actor's kernels.
    """

    def __init__(
        self,
        program: Program,
        spec: ModelSpec,
        tensor: Callable[[str], Source],
        draws: Sequence[Draw] = (),
        *,
        request: RunRequest,
        actors: Sequence[Any],
        threads: int,
        allow_nonfinite: bool = False,
        watched: Collection[int] = (),
        on_output: Callable[[int, Values], None] = lambda op, values: None,
        on_stored: Callable[[int, int, str], None] = lambda done, total, name: None,
        profile: bool = False,
    ) -> None:
        self._actors, self._on_output = WaferActors(actors, request.checkpoints.checkpoint), on_output
        self.program = program
        self.streams, self.arenas = Streams(program, draws, ()), dict[int, Arena]()
        self.caches = Caches(program)
        self._profile = profile
        self.expert_pairs: Mapping[int, npt.NDArray[np.int64]] = {}
        self._segments = {steps: segments(program, steps) for steps in {phase.steps for phase in program.phases}}
        overlaps = all(may_overlap(program, steps, found) for steps, found in self._segments.items())
        self.passes_at_once = PASSES_PER_WAFER * program.wafers if overlaps else 1
        self._announced: dict[int, _Pass] = {}
        self._verified = VerifiedIds(program, self.caches)
        job = WaferJob(program=program, spec=spec, request=request, watched=tuple(watched), profile=profile)
        self._actors.load(job, threads, on_stored)

    @property
    def tokens(self) -> list[int]:
        """Each user's id that the last phase ended with. Raises BadModel when no logit of one was a number."""
        return self.streams.ids(range(self.program.batch))

    @property
    def verified_logits(self) -> npt.NDArray[np.float32]:
        """float32 ``[tokens, vocabulary]``, those of the last pass over several tokens, where they go to the host."""
        return self.streams.host_logits[self.program.batch :].copy()

    @property
    def step_times(self) -> StepTimes | None:
        """The times of all actors' steps, which may be longer together than the run; None without ``profile``."""
        if not self._profile:
            return None
        times = StepTimes(self.program, {}, lambda: float(self._actors.values("read_bytes_per_s", (0,))[0]))
        for part in self._actors.values("step_times"):
            times.add(*part)
        return times

    @property
    def logits(self) -> npt.NDArray[np.float32]:
        """float32 ``[users, vocabulary]``, those of the last token run. Only with ``logits_out``."""
        return self.streams.host_logits[: self.program.batch].copy()

    def cache_slots(self, user: int) -> Slots:
        """Cache slots that a user has in use on the fullest row of each stage."""
        return self.caches.slots(user)

    def precompile(self, report: Callable[[int, int, str], None]) -> str:
        """Have the kernels compiled by the first actor, then by the others, which find them where it is their machine.

        It is not reported: actors do not tell how far they are.
        """
        others = range(1, self.program.wafers)
        reasons = self._actors.values("precompile", (0,)) + self._actors.values("precompile", others)
        return next(filter(None, reasons), "")

    def prefill(self, *prompts: Sequence[int], first: int = 0, last: int | None = None) -> Iterator[int]:
        """Run each user's prompt chunk by chunk, of which several are under way at a time."""
        phases = deque(list(enumerate(self.program.prefill))[first:last])
        passes: deque[_Pass] = deque()
        while phases or passes:
            while phases and len(passes) < self.passes_at_once:
                index, phase = phases.popleft()
                passes.append(self._submit(index, chunk_of(phase, prompts)))
            self._finish(passes[0])
            yield passes.popleft().index

    def decode(self, tokens: Sequence[int] = ()) -> list[int]:
        """Run one token of each user and give the ids that follow. ``tokens`` replace the ids that the wafer stores."""
        self._finish(self._submit(self.program.decode_index, tokens))
        return self.tokens

    def announce(self, tokens: Sequence[int], user: int) -> None:
        """Submit the next pass of a user, where another one may be under way; `verify` gives its ids."""
        if len(self._announced) < self.passes_at_once > 1:
            self._verified.check(tokens, user)
            self._announced[user] = self._submit(self._verify_index(user), tokens)

    def verify(self, tokens: Sequence[int], user: int = 0) -> list[int]:
        """Run a pass over new tokens of one user and give the id that follows each, as the engine does."""
        submitted = self._announced.pop(user, None)
        if submitted is None:
            self._verified.check(tokens, user)
            submitted = self._submit(self._verify_index(user), tokens)
        elif submitted.ids != tuple(tokens):
            message = f"user {user}: {submitted.ids} were announced, and {tuple(tokens)} are to be verified"
            raise WseBug(message)
        self._finish(submitted)
        places = self.program.host_places(self.program.verify[user])
        if self.program.sampling == "host":
            self.streams.take_likeliest(places)
        ids = self.streams.ids(places)
        self._verified.add(ids, user)
        return ids

    def keep(self, tokens: int, user: int = 0, next_id: int | None = None) -> None:
        """Keep the first ``tokens`` of the last pass of a user and take the others off the cache again."""
        likeliest = self._verified.keep(tokens, user)
        next_id = likeliest if next_id is None else next_id
        self.caches.take_back(user, self.program.verify_tokens - tokens)
        for wafer in range(self.program.wafers):
            self._actors.call(wafer, "keep", user, tokens, next_id)

    def link_words(self) -> npt.NDArray[np.int64]:
        """int64 ``[wafers, 4, mesh rows, mesh cols]``: words that crossed each link so far."""
        return np.concatenate(self._actors.values("link_words"))

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state of the engine that all actors are together. Nothing may be under way."""
        return merge_states(state_of(self), self._actors.values("state"))

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take on a state, each actor its wafer's. Raises ValueError where it is another Program's."""
        parts = [state_of_wafer(self.program, arrays, wafer) for wafer in range(self.program.wafers)]
        own = state_of(self)
        restore(self, {**arrays, "links": own["links"], "crossed": own["crossed"]})
        for call in [self._actors.call(wafer, "restore", part) for wafer, part in enumerate(parts)]:
            self._actors.value(call)

    def _verify_index(self, user: int) -> int:
        return self.program.phases.index(self.program.verify[user])

    def _submit(self, index: int, ids: Sequence[int]) -> _Pass:
        """Submit the segments of a pass, each with those before it that it receives tiles from.

        What the host draws is drawn as soon as the reports of the segments before are there.
        """
        submitted, phase = _Pass(index=index, ids=tuple(ids)), self.program.phases[index]
        tiles: dict[int, Any] = {}
        for number, segment in enumerate(self._segments[phase.steps]):
            drawn_ids: Sequence[int] = ()
            if segment.draws:
                self._collect(submitted)
                self.streams.draw(self.program.host_places(phase))
                drawn_ids = self.streams.host_tokens[: self.program.batch].tolist()
            inputs = [tiles.pop(step) for step in segment.receives]
            call, outputs = self._actors.run(segment, index, number, submitted.ids, drawn_ids, *inputs)
            tiles |= dict(zip(segment.sends, outputs, strict=True))
            submitted.calls.append(call)
        return submitted

    def _finish(self, submitted: _Pass) -> None:
        """Wait for a pass, whose tokens are in the caches then."""
        self._collect(submitted)
        self.expert_pairs = {layer: pairs for report in submitted.reports for layer, pairs in report.pairs.items()}
        for op, values in (output for report in submitted.reports for output in report.outputs):
            self._on_output(op, values)
        self.caches.append(self.program.phases[submitted.index])

    def _collect(self, submitted: _Pass) -> None:
        """Wait for the reports of a pass that are still to come; ids and logits are at the host then."""
        places = self.program.host_places(self.program.phases[submitted.index])
        while submitted.calls:
            report: SegmentReport = self._actors.value(submitted.calls.popleft())
            if report.tokens is not None:
                self.streams.host_tokens[places] = report.tokens
            if report.logits is not None:
                self.streams.host_logits[places] = report.logits
            submitted.reports.append(report)
