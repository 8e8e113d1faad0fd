"""RayEngine: a backend that emulates each wafer in an actor of a Ray cluster during a run.

The results are bit-identical to those of `wse.backends.execute.engine`.

An actor executes its tasks in submission order. Independent passes are therefore submitted ahead:
prompt chunks, and the announced passes of several users. The wafers then work on different passes
concurrently.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from wse.backends.execute.backend import BackendFactory
from wse.backends.execute.calls.streams import Draw, Streams
from wse.backends.execute.engine import chunk_of
from wse.backends.execute.engine_state import Caches, restore, state_of
from wse.backends.execute.host_memory.arena import Arena
from wse.backends.execute.host_memory.required_memory import required_bytes
from wse.backends.execute.host_tokens.token_ids import HostResults, VerifiedIds
from wse.backends.execute.observation.observation import NO_OBSERVATION, Observation
from wse.backends.execute.step_times import StepTimes
from wse.backends.execute.weight_storage.tiles import Source
from wse.errors import BadInput, WseBug
from wse.models.spec import ModelSpec
from wse.program.program import Program
from wse.studies.run.prepare import PreparedRun
from wse.studies.run.ray.ray_passes import RayPasses, SubmittedPass
from wse.studies.run.ray.wafer_actors import WaferActor, WaferActors, WaferJob, merge_states, state_of_wafer
from wse.studies.run.request import RunRequest
from wse.studies.workers.ray_cluster import cpus_of_each, imported_ray, node_resources, ray_cluster


class RayEngine(HostResults):
    """Backend that executes a Program on a Ray cluster, with one actor (process) per wafer.

    Arguments and attributes that are not listed here have the same meaning as in the single-process
    class, `wse.backends.execute.engine.Engine`.

    Args:
        tensor: Not used, because each actor loads the weights of its own wafer.
        request: The run request, which tells actors where the weights are.
        actors: Ray actors of the class `WaferActor`, one per wafer.
        threads: Number of kernel threads per actor.
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
        observation: Observation = NO_OBSERVATION,
    ) -> None:
        self._actors, self._observation = WaferActors(actors, request.checkpoints.checkpoint), observation
        self.program = program
        self.streams, self.arenas = Streams(program, draws, ()), dict[int, Arena]()
        self.caches = Caches(program)
        self.expert_pairs: Mapping[int, npt.NDArray[np.int64]] = {}
        self._passes = RayPasses(program, self.streams, self._actors)
        self.passes_at_once = self._passes.at_once
        self._announced: dict[int, SubmittedPass] = {}
        self._verified = VerifiedIds(program, self.caches)
        job = WaferJob(
            program=program,
            spec=spec,
            request=request,
            watched=tuple(observation.watched),
            profile=observation.profile,
        )
        self._actors.load(job, threads, observation.on_stored)

    @property
    def step_times(self) -> StepTimes | None:
        """Step times summed over all actors, or None without ``profile``.

        Actors work in parallel, so the sum may exceed the time of the run.
        """
        if not self._observation.profile:
            return None
        times = StepTimes(self.program, {}, lambda: float(self._actors.values("read_bytes_per_s", (0,))[0]))
        for part in self._actors.values("step_times"):
            times.add(*part)
        return times

    def precompile(self, report: Callable[[int, int, str], None]) -> str:
        """Compile the kernels on the first actor, then on the remaining ones.

        Other actors on the same machine then find the compiled kernels in the cache. ``report`` is
        not called, because actors do not report progress.

        Returns:
            Why the kernels could not be cached for the next run. Empty if they were cached.
        """
        other_wafers = range(1, self.program.wafers)
        reasons = self._actors.values("precompile", (0,)) + self._actors.values("precompile", other_wafers)
        return next(filter(None, reasons), "")

    def prefill(self, *prompts: Sequence[int], first_phase: int = 0, end_phase: int | None = None) -> Iterator[int]:
        """Run the prefill phases of all prompts, keeping several phases in flight.

        The compiled Program has one prefill phase per prompt chunk. Phases are submitted only while
        the returned iterator is consumed. At most ``passes_at_once`` phases are in flight; before
        another phase is submitted, the oldest one must have finished.

        Args:
            prompts: Token ids of each user's prompt.
            first_phase: Index of the first prefill phase to run.
            end_phase: Index after the last prefill phase to run. None runs all remaining phases.

        Yields:
            The index of each finished phase, in order.
        """
        phases = deque(list(enumerate(self.program.prefill))[first_phase:end_phase])
        passes: deque[SubmittedPass] = deque()
        while phases or passes:
            while phases and len(passes) < self.passes_at_once:
                index, phase = phases.popleft()
                passes.append(self._passes.submit(index, chunk_of(phase, prompts)))
            self._finish(passes[0])
            yield passes.popleft().index

    def decode(self, tokens: Sequence[int] = ()) -> list[int]:
        """Run a decode pass and return the id of the next token for each user.

        Args:
            tokens: Input ids, one per user. They replace the ids stored on the wafer, which are the
                ids generated last. By default, none are replaced.
        """
        self._finish(self._passes.submit(self.program.decode_index, tokens))
        return self.tokens

    def announce(self, tokens: Sequence[int], user: int) -> None:
        """Submit a user's next pass early, while passes of other users are still running.

        A later call to `verify` waits for the pass and returns its ids. Nothing is submitted if too
        many passes are already in flight.

        Args:
            tokens: Token ids that the pass verifies.
            user: Index of the user.
        """
        if len(self._announced) < self.passes_at_once > 1:
            self._verified.check(tokens, user)
            self._announced[user] = self._passes.submit(self._verify_index(user), tokens)

    def verify(self, tokens: Sequence[int], user: int = 0) -> list[int]:
        """Run a verification pass over tokens of one user.

        If the pass was announced, it is already running, and this method only waits for it.

        Args:
            tokens: The user's next token and the draft tokens. If the pass was announced, they must
                equal the announced tokens.
            user: Index of the user.

        Returns:
            For each token, the id of the token that follows it.
        """
        submitted = self._announced.pop(user, None)
        if submitted is None:
            self._verified.check(tokens, user)
            submitted = self._passes.submit(self._verify_index(user), tokens)
        elif submitted.ids != tuple(tokens):
            raise WseBug(f"user {user}: {submitted.ids} were announced, and {tuple(tokens)} are to be verified")
        self._finish(submitted)
        return self._ids_after(user)

    def keep(self, tokens: int, user: int = 0, next_id: int | None = None) -> None:
        """Keep only the first ``tokens`` tokens of a user's last pass in the KV cache.

        Args:
            tokens: Number of tokens to keep.
            user: Index of the user.
            next_id: Id that follows the kept tokens. None for the most likely id.
        """
        likeliest_id = self._verified.keep(tokens, user)
        next_id = likeliest_id if next_id is None else next_id
        self.caches.remove_last(user, self.program.verify_tokens - tokens)
        for wafer in range(self.program.wafers):
            self._actors.call(wafer, "keep", user, tokens, next_id)

    def link_words(self) -> npt.NDArray[np.int64]:
        """Return the words sent over each link, int64 ``[wafers, 4, mesh rows, mesh cols]``.

        The second axis is the direction from the sending PE: one of its four sides.
        """
        return np.concatenate(self._actors.values("link_words"))

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return the state of the run, combined from the states of all wafers.

        No pass may be in flight. The keys are the same array names as in
        `wse.backends.execute.engine.Engine.state`.
        """
        return merge_states(state_of(self), self._actors.values("state"))

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore an earlier state of the run by sending each actor its wafer's state.

        Args:
            arrays: The arrays of the state, keyed by name, as returned by `state`.

        Raises:
            ValueError: The state belongs to a different Program.
        """
        parts = [state_of_wafer(self.program, arrays, wafer) for wafer in range(self.program.wafers)]
        host_state = state_of(self)
        restore(self, {**arrays, "links": host_state["links"], "crossed": host_state["crossed"]})
        for call in [self._actors.call(wafer, "restore", part) for wafer, part in enumerate(parts)]:
            self._actors.value(call)

    def _verify_index(self, user: int) -> int:
        return self.program.phases.index(self.program.verify[user])

    def _finish(self, submitted: SubmittedPass) -> None:
        """Wait for a pass, then process its results.

        The number of tokens per expert is stored, requested op outputs are reported, and the fill
        levels of the KV caches are updated.
        """
        self._passes.collect(submitted)
        self.expert_pairs = {layer: pairs for report in submitted.reports for layer, pairs in report.pairs.items()}
        for op, values in (output for report in submitted.reports for output in report.outputs):
            self._observation.on_output(op, values)
        self.caches.append(self.program.phases[submitted.index])


@contextmanager
def ray_backend(prepared_run: PreparedRun, program: Program) -> Iterator[BackendFactory]:
    """Start one actor (process) per wafer on a Ray cluster, and yield a factory of backends.

    The actors are killed when the context ends.

    Args:
        prepared_run: The run, whose request specifies the cluster.
        program: The compiled Program of the run.

    Raises:
        BadInput: A pipeline stage spans several wafers, Ray is not installed, no cluster responds,
            or the cluster has fewer CPUs than there are wafers.
        InsufficientMemory: The cluster has too little memory.
    """
    request = prepared_run.request
    if any(stage.span > 1 for stage in program.stages):
        raise BadInput(
            f"--engine ray: each wafer is a separate process, but --mapping {program.mapping_name} has regions that "
            "span wafers; use --mapping region or pipeline, or --engine local"
        )
    with ray_cluster(request.engine_choice.ray_address):
        max_bytes = max(required_bytes(program, (wafer,)) for wafer in range(program.wafers))
        cpus = cpus_of_each(program.wafers, max_bytes, node_resources())
        with _actors(program.wafers, cpus, max_bytes) as actors:
            yield partial(RayEngine, request=request, actors=actors, threads=cpus)


@contextmanager
def _actors(wafers: int, cpus: int, memory_bytes: int) -> Iterator[list[Any]]:
    """Start actors on the machines of a Ray cluster, and kill them when the context ends.

    Args:
        wafers: Number of actors, one per wafer.
        cpus: Number of CPUs per actor.
        memory_bytes: Memory per actor.
    """
    ray = imported_ray()
    options = {"num_cpus": cpus, "memory": memory_bytes, "scheduling_strategy": "SPREAD"}
    actors = [ray.remote(WaferActor).options(**options).remote() for _ in range(wafers)]
    try:
        yield actors
    finally:
        for actor in actors:
            ray.kill(actor)
