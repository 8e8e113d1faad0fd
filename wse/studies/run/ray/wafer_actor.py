"""WaferActor: the process on a Ray cluster that emulates one wafer and loads its weights."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wse.backends.execute.engine_part import EnginePart
from wse.backends.execute.weight_storage.tiles import Source
from wse.models.load import load_model
from wse.models.spec import ModelSpec
from wse.program.program import Program
from wse.studies.run.prepare import weights_of
from wse.studies.run.request import RunRequest


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

        The weights are read from files on this machine, or are random with the requested seed.
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
            BadModel: The weights are not on this machine, or cannot be used.
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
