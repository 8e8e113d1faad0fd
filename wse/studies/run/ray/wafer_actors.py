"""WaferActors: all wafer actors of a run on a Ray cluster, their calls, failures and states.

A `WaferActor` is a process that emulates one wafer.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wse.backends.execute.calls.segments import StepSegment
from wse.backends.execute.engine_part import EnginePart
from wse.backends.execute.weight_storage.tiles import Source
from wse.errors import WorkerLost, WseBug, WseError
from wse.models.load import load_model
from wse.models.spec import ModelSpec
from wse.program.program import Program
from wse.program.steps import HOST
from wse.studies.run.prepare import weights_of
from wse.studies.run.request import RunRequest
from wse.studies.workers.ray_cluster import await_actors, imported_ray


@dataclass(frozen=True, slots=True, kw_only=True)
class WaferJob:
    """Everything a process needs to emulate a wafer of a Program. All wafers get the same job.

    Attributes:
        program: The compiled Program.
        spec: The model.
        request: The run request, which determines where the weights are.
        watched: Indices of ops whose outputs are requested.
        profile: True to measure the wall time of each step, for ``wse run --profile``.
    """

    program: Program
    spec: ModelSpec
    request: RunRequest
    watched: tuple[int, ...]
    profile: bool

    def weights(self) -> Callable[[str], Source]:
        """Return a function that looks up the weights of a tensor by name.

        The weights are read from files on this computer, or are random with the requested seed.
        """
        request = self.request
        return weights_of(request, load_model(request.model, with_weights=request.weights is None))


class WaferActor:
    """A Ray actor that emulates one wafer: its SRAM, weights, KV caches and counters."""

    def ping(self) -> None:
        """Do nothing. Callers use it to wait until the process has started."""

    def load(self, job: bytes, wafer: int, threads: int) -> None:
        """Create the emulated wafer and store its weights in the emulated SRAM.

        The job is passed as bytes, so that this process owns the unpickled arrays, as kernels
        require.

        Args:
            job: A pickled `WaferJob`.
            wafer: Index of the wafer.
            threads: Maximum number of kernel threads.

        Raises:
            BadModel: The weights are not on this computer, or cannot be used.
        """
        import numba

        numba.set_num_threads(min(threads, numba.get_num_threads()))
        wafer_job: WaferJob = pickle.loads(job)
        self._part = EnginePart(
            wafer_job.program,
            wafer_job.spec,
            wafer_job.weights(),
            wafer,
            allow_nonfinite=wafer_job.request.allow_nonfinite,
            watched=wafer_job.watched,
            profile=wafer_job.profile,
        )

    def run(self, *arguments: Any) -> Any:
        """Run one segment of a pass: consecutive steps on this wafer.

        Args:
            arguments: The arguments of `EnginePart.run`.

        Returns:
            The segment's report. If the segment sends data to other wafers, a tuple of the report
            and the data. (For a single return value, Ray expects no tuple.)
        """
        report, *sent_tiles = self._part.run(*arguments)
        return (report, *sent_tiles) if sent_tiles else report

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the emulated wafer (an `EnginePart`) by name, and return the result."""
        return getattr(self._part, method)(*arguments)


class ActorCall(NamedTuple):
    """A call submitted to the actor of a wafer. An actor executes its calls in order.

    Attributes:
        wafer: Index of the actor's wafer.
        reference: Ray's reference to the result.
    """

    wafer: int
    reference: Any


class WaferActors:
    """The Ray actors that emulate the wafers of a Program, one per wafer.

    Args:
        actors: Ray actors of the class `WaferActor`, one per wafer, in order.
        checkpoint: Path of the run's checkpoint file, for error messages. None if there is none.

    Attributes:
        by_wafer: The actors, one per wafer, in order.
    """

    def __init__(self, actors: Sequence[Any], checkpoint: object) -> None:
        self._ray, self.by_wafer, self._checkpoint = imported_ray(), actors, checkpoint

    def load(self, job: WaferJob, threads: int, on_stored: Callable[[int, int, str], None]) -> None:
        """Let every actor load the weights of its wafer.

        Loading has no time limit. The wait ends early if a process or machine is lost.

        Args:
            job: The Program, and the location of its weights.
            threads: Number of kernel threads per actor.
            on_stored: Called with (weights stored, total, "") at the start and whenever an actor
                has finished.

        Raises:
            BadInput: An actor cannot start, or did not start in time.
            BadModel: An actor cannot use the weights, or does not find them on its machine.
            WorkerLost: The process of an actor has terminated.
        """
        await_actors(self.by_wafer, "wafer", min_actors=len(self.by_wafer))
        job_bytes = self._ray.put(pickle.dumps(job))
        sizes = [_values_on(job.program, wafer) for wafer in range(len(self.by_wafer))]
        on_stored(0, sum(sizes), "")
        wafers = {actor.load.remote(job_bytes, wafer, threads): wafer for wafer, actor in enumerate(self.by_wafer)}
        loads = list(wafers)
        while loads:
            finished_loads, loads = self._ray.wait(loads)
            for load in finished_loads:
                self.value(ActorCall(wafers[load], load))
            on_stored(sum(sizes) - sum(sizes[wafers[load]] for load in loads), sum(sizes), "")

    def run(self, segment: StepSegment, *arguments: Any) -> tuple[ActorCall, Sequence[Any]]:
        """Submit one segment of a pass: consecutive steps that run on one wafer.

        Args:
            segment: The segment.
            arguments: The arguments of `EnginePart.run`.

        Returns:
            1. The submitted call, whose result is the report of the segment.
            2. Ray's references to the data that the segment sends to other wafers, one per
               transfer.
        """
        task = self.by_wafer[segment.wafer].run.options(num_returns=1 + len(segment.sends))
        outputs = task.remote(*arguments)
        report, *tiles = outputs if segment.sends else [outputs]
        return ActorCall(segment.wafer, report), tiles

    def call(self, wafer: int, method: str, *arguments: Any) -> ActorCall:
        """Call a method of one emulated wafer (an `EnginePart`) by name, without waiting."""
        return ActorCall(wafer, self.by_wafer[wafer].call.remote(method, *arguments))

    def values(self, method: str, wafers: Iterable[int] | None = None) -> list[Any]:
        """Call a method on several wafers in parallel, and return one result per wafer, in order.

        Args:
            method: Name of a method of `EnginePart` without arguments.
            wafers: Indices of the wafers. None for all.
        """
        wafer_indices = range(len(self.by_wafer)) if wafers is None else wafers
        return [self.value(call) for call in [self.call(wafer, method) for wafer in wafer_indices]]

    def value(self, call: ActorCall) -> Any:
        """Wait until a call has finished and return its value.

        Raises:
            WorkerLost: The process of this actor, or of another wafer whose data the call needs,
                has terminated.
            WseError, ValueError: The call raised the same error.
            WseBug: The call raised any other error.
        """
        errors = self._ray.exceptions
        try:
            return self._ray.get(call.reference)
        except errors.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, WseError | ValueError):
                raise cause from None
            if not isinstance(cause, errors.RayError):
                raise WseBug(f"wafer {call.wafer}: {error}") from error
            raise self._loss(call.wafer, cause) from error
        except errors.RayError as error:
            raise self._loss(call.wafer, error) from error

    def _loss(self, wafer: int, error: Exception) -> WorkerLost:
        """Return the error to raise when the process that emulates a wafer has been lost.

        The message names the wafer and says how to continue the run.

        Args:
            wafer: Index of the called wafer. It is reported if Ray's error does not identify the
                lost process.
            error: Error raised by Ray.
        """
        by_id = {actor._actor_id.hex(): i for i, actor in enumerate(self.by_wafer)}
        number = by_id.get(getattr(error, "actor_id", None) or "", wafer)
        path, remedy = self._checkpoint, "give the same command again"
        if path is None:
            remedy += ", with --checkpoint FILE so that an interrupted run can resume"
        elif Path(str(path)).exists():
            remedy = f"the same command resumes from {path}"
        message = f"wafer {number}: its process has ended, or its machine is gone, in the middle of the run; {remedy}"
        return WorkerLost(message)


def _values_on(program: Program, wafer: int) -> int:
    """Return the number of weights stored on a wafer, including padding."""
    stages = program.stages
    return sum(
        tile.outer * tile.inner * stages[tile.stage].rect.rows * stages[tile.stage].cols
        for tile in program.tiles
        if stages[tile.stage].wafer == wafer
    )


Arrays = Mapping[str, npt.NDArray[Any]]


def merge_states(host: Arrays, parts: Sequence[Arrays]) -> dict[str, npt.NDArray[Any]]:
    """Combine the states of all wafers and of the host into the state of one emulated machine.

    Args:
        host: State of the host, with token ids, logits and the fill levels of KV caches.
        parts: State of each wafer, with the SRAM contents and the word counts of links.

    Returns:
        The arrays of the state, keyed by name.
    """
    merged_state = dict(host)
    for part in parts:
        merged_state |= {name: array for name, array in part.items() if name.startswith(("memory.", "links."))}
    merged_state["links"] = np.concatenate([part["links"] for part in parts])
    merged_state["crossed"] = np.sum([part["crossed"] for part in parts], axis=0)
    return merged_state


def state_of_wafer(program: Program, arrays: Arrays, wafer: int) -> dict[str, npt.NDArray[Any]]:
    """Return the part of an emulated machine's state that one wafer needs to continue a run.

    Its counters cover the bytes that this wafer has sent and the bytes that it has received from
    the host. Bytes received from other wafers are counted by the wafers that sent them.

    Args:
        program: The compiled Program.
        arrays: State of the whole machine, keyed by array name.
        wafer: Index of the wafer.

    Raises:
        ValueError: The counters of words on links or of bytes between wafers are missing, or their
            shapes do not match the Program.
    """
    wafers = program.wafers
    sizes = {
        "links": (wafers, 4, program.wafer_rows, program.wafer_cols),
        "crossed": (wafers + 1, wafers + 1),  # as `state_of` has them: the host is first
    }
    for name, shape in sizes.items():
        array = arrays.get(name)
        if array is None or (array.dtype, array.shape) != (np.dtype(np.int64), shape):
            found_text = "is missing" if array is None else f"{array.dtype} {list(array.shape)}"
            raise ValueError(f"{name}: {found_text}, needed: int64 {list(shape)}")
    other_names = {
        f"{kind}.{number}"
        for kind in ("memory", "links")
        for number, stage in enumerate(program.stages)
        if stage.wafer != wafer
    }
    part = {name: array for name, array in arrays.items() if name not in other_names}
    part["links"] = arrays["links"][wafer : wafer + 1]
    part["crossed"] = np.zeros_like(arrays["crossed"])
    for ends in np.s_[1 + wafer, :], np.s_[1 + HOST, 1 + wafer]:
        part["crossed"][ends] = arrays["crossed"][ends]
    return part
