"""The actors of a run on a Ray cluster, one a wafer: their start, their calls, and the error where one is lost."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from wse.backends.execute.segments import Segment
from wse.errors import WorkerLost, WseBug, WseError
from wse.program.program import Program
from wse.studies.run.ray.wafer_actor import WaferJob
from wse.studies.workers.ray_cluster import await_actors, imported_ray


class ActorCall(NamedTuple):
    """A call that an actor executes after those before it.

    Attributes:
        wafer: The actor's wafer.
        reference: Ray's reference to the value.
    """

    wafer: int
    reference: Any


class WaferActors:
    """The actors of a Program, by wafer.

    ``checkpoint`` is the path of the run's checkpoint, which the error of a lost wafer names; None without one.
    """

    def __init__(self, actors: Sequence[Any], checkpoint: object) -> None:
        self._ray, self.by_wafer, self._checkpoint = imported_ray(), actors, checkpoint

    def load(self, job: WaferJob, threads: int, on_stored: Callable[[int, int, str], None]) -> None:
        """Have every actor take on its wafer; ``on_stored`` takes (values in place, all, nothing) after each.

        Weights take the time that they take: an actor whose process or machine is lost meanwhile ends the wait.

        Raises:
            BadInput: an actor has not started in time, or cannot start.
            BadModel: an actor cannot use the weights, or does not find them on its machine.
            WorkerLost: an actor's process has ended.
        """
        await_actors(self.by_wafer, "wafer", least=len(self.by_wafer))
        job_bytes = self._ray.put(pickle.dumps(job))
        sizes = [_values_on(job.program, wafer) for wafer in range(len(self.by_wafer))]
        on_stored(0, sum(sizes), "")
        wafers = {actor.load.remote(job_bytes, wafer, threads): wafer for wafer, actor in enumerate(self.by_wafer)}
        loads = list(wafers)
        while loads:
            done, loads = self._ray.wait(loads)
            for load in done:
                self.value(ActorCall(wafers[load], load))
            on_stored(sum(sizes) - sum(sizes[wafers[load]] for load in loads), sum(sizes), "")

    def run(self, segment: Segment, *arguments: Any) -> tuple[ActorCall, Sequence[Any]]:
        """Submit a segment with the arguments of `EnginePart.run`: the call whose value is its report, and the
        references to the tiles of each crossing that it sends.
        """
        task = self.by_wafer[segment.wafer].run.options(num_returns=1 + len(segment.sends))
        outputs = task.remote(*arguments)
        report, *tiles = outputs if segment.sends else [outputs]
        return ActorCall(segment.wafer, report), tiles

    def call(self, wafer: int, method: str, *arguments: Any) -> ActorCall:
        """Submit a call of a method of the `EnginePart` of a wafer."""
        return ActorCall(wafer, self.by_wafer[wafer].call.remote(method, *arguments))

    def values(self, method: str, wafers: Iterable[int] | None = None) -> list[Any]:
        """Call a method of the parts of some wafers, or of all, at the same time: the values by wafer."""
        chosen = range(len(self.by_wafer)) if wafers is None else wafers
        return [self.value(call) for call in [self.call(wafer, method) for wafer in chosen]]

    def value(self, call: ActorCall) -> Any:
        """Wait for the value of a call.

        Raises:
            WorkerLost: the actor's process, or that of a wafer which it waits for, has ended.
            WseError, ValueError: the call raised it.
            WseBug: it raised anything else.
        """
        errors = self._ray.exceptions
        try:
            return self._ray.get(call.reference)
        except errors.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, WseError | ValueError):
                raise cause from None
            if not isinstance(cause, errors.RayError):
                message = f"wafer {call.wafer}: {error}"
                raise WseBug(message) from error
            raise self._loss(call.wafer, cause) from error
        except errors.RayError as error:
            raise self._loss(call.wafer, error) from error

    def _loss(self, wafer: int, error: Exception) -> WorkerLost:
        """Return the error that names the wafer whose actor is lost, with what to do."""
        by_id = {actor._actor_id.hex(): i for i, actor in enumerate(self.by_wafer)}
        number = by_id.get(getattr(error, "actor_id", None) or "", wafer)
        path, remedy = self._checkpoint, "give the same command again"
        if path is None:
            remedy += ", with --checkpoint FILE so that it can go on from where it was"
        elif Path(str(path)).exists():
            remedy = f"the same command goes on from {path}"
        message = f"wafer {number}: its process has ended, or its machine is gone, in the middle of the run; {remedy}"
        return WorkerLost(message)


def _values_on(program: Program, wafer: int) -> int:
    """Values of weights that are stored on a wafer."""
    stages = program.stages
    return sum(
        tile.outer * tile.inner * stages[tile.stage].rect.rows * stages[tile.stage].cols
        for tile in program.tiles
        if stages[tile.stage].wafer == wafer
    )
