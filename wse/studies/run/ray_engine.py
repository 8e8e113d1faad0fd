"""A backend whose wafers are actors of a Ray cluster, with the same bits, words and bytes as `wse.execute.engine`.

A pass is its segments (`wse.execute.segments`), each a task of its wafer's actor. Tiles that cross from wafer to wafer
are objects in Ray's store: the task that receives them names them, and they go from machine to machine without passing
through here. An actor carries out tasks in the order in which they were submitted, so passes that do not wait for each
other are submitted ahead, and wafers work on several of them at the same time: chunks of prompts, and the passes of
users who were announced.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wse.errors import BadInput, WorkerLost, WseBug, WseError
from wse.execute.arena import Arena
from wse.execute.caches import Caches
from wse.execute.engine import check_tokens, chunk_of, not_kept
from wse.execute.engine_part import SegmentReport
from wse.execute.engine_state import restore, state_of
from wse.execute.outputs import Values
from wse.execute.segments import may_overlap, segments
from wse.execute.step_times import StepTimes
from wse.execute.streams import Draw, Streams
from wse.execute.tiles import Source
from wse.models.spec import ModelSpec
from wse.program.program import Program
from wse.program.steps import HOST, Slots
from wse.request.run_request import RunRequest
from wse.studies.run.wafer_actor import WaferJob
from wse.studies.workers.ray_cluster import START_S, imported_ray

PASSES_PER_WAFER: Final = 4
"""Passes that are submitted ahead, for each wafer: more than one, as wafers take different times."""

Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pass:
    """A pass that was submitted.

    Attributes:
        index: The phase.
        ids: Its ids.
        reports: Those that are still to come, by segment, each with its wafer.
        heard: Those that came.
    """

    index: int
    ids: tuple[int, ...]
    reports: deque[tuple[int, Any]] = field(default_factory=deque)
    heard: list[SegmentReport] = field(default_factory=list)


class RayEngine:
    """Executes a Program on the actors of a Ray cluster, one a wafer.

    Arguments and attributes are those of `wse.execute.engine.Engine`; ``tensor`` is not used, for each actor finds the
    weights of its wafer by the ``request``. ``threads`` are those of an actor's kernels.
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
        self._ray, self._actors, self._on_output = imported_ray(), actors, on_output
        self.program = program
        self.streams, self.arenas = Streams(program, draws, ()), dict[int, Arena]()
        self.caches = Caches(program)
        self._profile = profile
        self.expert_pairs: Mapping[int, npt.NDArray[np.int64]] = {}
        self._segments = [segments(program, phase) for phase in program.phases]
        overlaps = all(may_overlap(program, i, found) for i, found in enumerate(self._segments))
        self.passes_at_once = PASSES_PER_WAFER * program.wafers if overlaps else 1
        self._announced: dict[int, _Pass] = {}
        self._verified: dict[int, list[int]] = {}
        self._checkpoint = request.checkpoint
        job = WaferJob(program=program, spec=spec, request=request, watched=tuple(watched), profile=profile)
        self._load(job, threads, on_stored)

    @property
    def tokens(self) -> list[int]:
        """Each user's id that the last phase ended with. Raises BadModel when no logit of one was a number."""
        return self.streams.ids(range(self.program.batch))

    @property
    def step_times(self) -> StepTimes | None:
        """The times of all actors' steps, which may be longer together than the run; None without ``profile``."""
        if not self._profile:
            return None
        times = StepTimes(self.program, {}, lambda: float(self._of_all("read_bytes_per_s", (0,))[0]))
        for part in self._of_all("step_times"):
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
        reasons = self._of_all("precompile", (0,)) + self._of_all("precompile", range(1, len(self._actors)))
        return next(filter(None, reasons), "")

    def prefill(self, *prompts: Sequence[int], first: int = 0, last: int | None = None) -> Iterator[int]:
        """Run each user's prompt chunk by chunk, of which several are under way at a time."""
        waiting = deque(list(enumerate(self.program.prefill))[first:last])
        under_way: deque[_Pass] = deque()
        while waiting or under_way:
            while waiting and len(under_way) < self.passes_at_once:
                index, phase = waiting.popleft()
                under_way.append(self._submit(index, chunk_of(phase, prompts)))
            done = under_way.popleft()
            self._finish(done)
            yield done.index

    def decode(self, tokens: Sequence[int] = ()) -> list[int]:
        """Run one token of each user and give the ids that follow. ``tokens`` replace the ids that the wafer holds."""
        self._finish(self._submit(self.program.decode_index, tokens))
        return self.tokens

    def announce(self, tokens: Sequence[int], user: int) -> None:
        """Submit the next pass of a user, where another one may be under way; `verify` gives its ids."""
        if len(self._announced) < self.passes_at_once > 1:
            check_tokens(self.program, self.caches, tokens, user)
            self._announced[user] = self._submit(self._verify_index(user), tokens)

    def verify(self, tokens: Sequence[int], user: int = 0) -> list[int]:
        """Run a pass over new tokens of one user and give the id that follows each, as the engine does."""
        submitted = self._announced.pop(user, None)
        if submitted is None:
            check_tokens(self.program, self.caches, tokens, user)
            submitted = self._submit(self._verify_index(user), tokens)
        elif submitted.ids != tuple(tokens):
            message = f"user {user}: {submitted.ids} were announced, and {tuple(tokens)} are to be verified"
            raise WseBug(message)
        self._finish(submitted)
        self._verified[user] = self.streams.ids(self.program.host_places(self.program.verify[user]))
        return list(self._verified[user])

    def keep(self, tokens: int, user: int = 0) -> None:
        """Keep the first ``tokens`` of the last pass of a user and take the others off the cache again."""
        ids = self._verified.get(user)
        if ids is None or not 1 <= tokens <= self.program.verify_tokens:
            raise not_kept(self.program, tokens, user)
        del self._verified[user]
        self.caches.take_back(user, self.program.verify_tokens - tokens)
        for actor in self._actors:
            actor.call.remote("keep", user, tokens, ids[tokens - 1])

    def link_words(self) -> npt.NDArray[np.int64]:
        """int64 ``[wafers, 4, mesh rows, mesh cols]``: words that crossed each link so far."""
        return np.concatenate(self._of_all("link_words"))

    def state(self) -> Arrays:
        """The state of the engine that all actors are together. Nothing may be under way."""
        parts = self._of_all("state")
        merged = state_of(self)
        for part in parts:
            merged |= {name: array for name, array in part.items() if name.startswith(("memory.", "links."))}
        merged["links"] = np.concatenate([part["links"] for part in parts])
        merged["crossed"] = np.sum([part["crossed"] for part in parts], axis=0)
        return merged

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take on a state, each actor its wafer's. Raises ValueError where it is another Program's."""
        own, crossed = state_of(self), arrays.get("crossed", np.zeros((0, 0), np.int64))
        restore(self, {**arrays, "links": own["links"], "crossed": own["crossed"]})
        calls = []
        for wafer, actor in enumerate(self._actors):
            part = {
                name: array
                for name, array in arrays.items()
                if not name.startswith(("memory.", "links.")) or self._wafer_of(name) == wafer
            }
            sent, place = np.zeros_like(crossed), slice(1 + wafer, 2 + wafer)
            sent[place] = crossed[place]
            sent[1 + HOST : 2 + HOST, place] = crossed[1 + HOST : 2 + HOST, place]
            part["crossed"] = sent
            if "links" in arrays:
                part["links"] = arrays["links"][wafer : wafer + 1]
            calls.append(actor.call.remote("restore", part))
        for wafer, call in enumerate(calls):
            self._get(wafer, call)

    def _wafer_of(self, name: str) -> int:
        """The wafer that an array of a stage is of."""
        stage = name.rpartition(".")[2]
        stages = self.program.stages
        return stages[int(stage)].wafer if stage.isdigit() and int(stage) < len(stages) else 0

    def _load(self, job: WaferJob, threads: int, on_stored: Callable[[int, int, str], None]) -> None:
        """Have every actor take on its wafer.

        Raises:
            BadInput: an actor has not started in time.
            BadModel: an actor cannot use the weights, or does not find them on its machine.
        """
        ray, wafers = self._ray, self.program.wafers
        packed = ray.put(pickle.dumps(job))
        started = [actor.ping.remote() for actor in self._actors]
        _, late = ray.wait(started, num_returns=wafers, timeout=START_S)
        if late:
            message = (
                f"--engine ray: {len(late)} of {wafers} wafers have not started in {START_S:.0f} s; the cluster has "
                "room for them, so others have it: wait for these, or take another cluster"
            )
            raise BadInput(message)
        for wafer, call in enumerate(started):
            self._get(wafer, call)
        values = [_values_on(self.program, wafer) for wafer in range(wafers)]
        on_stored(0, sum(values), "")
        calls = {actor.load.remote(packed, wafer, threads): wafer for wafer, actor in enumerate(self._actors)}
        waiting = list(calls)
        while waiting:
            ready, waiting = ray.wait(waiting)
            for call in ready:
                self._get(calls[call], call)
            on_stored(sum(values) - sum(values[calls[call]] for call in waiting), sum(values), "")

    def _verify_index(self, user: int) -> int:
        return self.program.phases.index(self.program.verify[user])

    def _submit(self, index: int, ids: Sequence[int]) -> _Pass:
        """Submit the segments of a pass, each with those before it that it receives tiles from.

        What the host draws is drawn as soon as the reports of the segments before are there.
        """
        submitted = _Pass(index=index, ids=tuple(ids))
        tiles: dict[int, Any] = {}
        places = self.program.host_places(self.program.phases[index])
        for number, segment in enumerate(self._segments[index]):
            if segment.draws:
                self._hear(submitted)
                self.streams.draw(places)
            drawn = self.streams.host_tokens[: self.program.batch].tolist() if segment.draws else ()
            received = [tiles.pop(step) for step in segment.receives]
            task = self._actors[segment.wafer].run.options(num_returns=1 + len(segment.sends))
            outputs = task.remote(index, number, submitted.ids, drawn, *received)
            report, *sent = outputs if segment.sends else [outputs]
            tiles |= dict(zip(segment.sends, sent, strict=True))
            submitted.reports.append((segment.wafer, report))
        return submitted

    def _finish(self, submitted: _Pass) -> None:
        """Wait for a pass, whose tokens are in the caches then."""
        self._hear(submitted)
        self.expert_pairs = {layer: pairs for report in submitted.heard for layer, pairs in report.pairs.items()}
        for op, values in (output for report in submitted.heard for output in report.outputs):
            self._on_output(op, values)
        self.caches.append(self.program.phases[submitted.index])

    def _hear(self, submitted: _Pass) -> None:
        """Wait for the reports of a pass that are still to come; ids and logits are at the host then."""
        places = self.program.host_places(self.program.phases[submitted.index])
        while submitted.reports:
            report: SegmentReport = self._get(*submitted.reports.popleft())
            if report.tokens is not None:
                self.streams.host_tokens[places] = report.tokens
            if report.logits is not None:
                self.streams.host_logits[places] = report.logits
            submitted.heard.append(report)

    def _of_all(self, method: str, wafers: Sequence[int] | None = None) -> list[Any]:
        """What a method of some parts gives, or of all, by wafer."""
        chosen = range(len(self._actors)) if wafers is None else wafers
        calls = [(wafer, self._actors[wafer].call.remote(method)) for wafer in chosen]
        return [self._get(wafer, call) for wafer, call in calls]

    def _get(self, wafer: int, call: Any) -> Any:
        """The value of a call of a wafer's actor.

        Raises:
            WorkerLost: the actor's process, or that of a wafer which it waits for, has ended.
            WseError, ValueError: the call raised it.
            WseBug: it raised anything else.
        """
        errors = self._ray.exceptions
        try:
            return self._ray.get(call)
        except errors.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, WseError | ValueError):
                raise cause from None
            if not isinstance(cause, errors.RayError):
                message = f"wafer {wafer}: {error}"
                raise WseBug(message) from error
            raise self._lost(wafer, cause) from error
        except errors.RayError as error:
            raise self._lost(wafer, error) from error

    def _lost(self, wafer: int, error: Exception) -> WorkerLost:
        """The error that names the wafer whose actor is lost, with what to do."""
        by_id = {actor._actor_id.hex(): number for number, actor in enumerate(self._actors)}
        lost = by_id.get(getattr(error, "actor_id", None) or "", wafer)
        kept, remedy = self._checkpoint, "give the same command again"
        if kept is None:
            remedy += ", with --checkpoint FILE so that it can go on from where it was"
        elif Path(str(kept)).exists():
            remedy = f"the same command goes on from {kept}"
        message = f"wafer {lost}: its process has ended, or its machine is gone, in the middle of the run; {remedy}"
        return WorkerLost(message)


def _values_on(program: Program, wafer: int) -> int:
    """Values of weights that are stored on a wafer."""
    stages = program.stages
    return sum(
        tile.outer * tile.inner * stages[tile.stage].rect.rows * stages[tile.stage].cols
        for tile in program.tiles
        if stages[tile.stage].wafer == wafer
    )
