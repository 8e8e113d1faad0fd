"""The process that emulates one wafer for a Ray cluster: what is in it, and the weights that it finds for itself."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wse.backends.execute.engine_part import EnginePart
from wse.backends.execute.tiles import Source
from wse.models.load import load_model
from wse.models.spec import ModelSpec
from wse.program.program import Program
from wse.studies.run.prepare import weights_of
from wse.studies.run.request import RunRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class WaferJob:
    """All that a process needs to be any wafer of a Program.

    Attributes:
        program, spec: As an engine takes them.
        request: The request, which says where the weights are, and whether they must be numbers.
        watched: Ops whose outputs are wanted.
        profile: Whether steps are timed.
    """

    program: Program
    spec: ModelSpec
    request: RunRequest
    watched: tuple[int, ...]
    profile: bool

    def weights(self) -> Callable[[str], Source]:
        """Return the model's tensors by name, from this machine's files or from the seed."""
        request = self.request
        return weights_of(request, load_model(request.model, with_weights=request.weights is None))


class WaferActor:
    """An actor that has one wafer: its SRAM, its weights, its caches, its counters."""

    def ping(self) -> None:
        """Answer, once the process is there."""

    def load(self, job: bytes, wafer: int, threads: int) -> None:
        """Take on a wafer of a pickled `WaferJob`, and put its weights in place.

        The job is bytes, so that its arrays are this process's own, as kernels take them.

        Raises:
            BadModel: the weights are not on this machine, or cannot be used.
        """
        import numba

        numba.set_num_threads(min(threads, numba.get_num_threads()))
        given: WaferJob = pickle.loads(job)
        self._part = EnginePart(
            given.program,
            given.spec,
            given.weights(),
            wafer,
            allow_nonfinite=given.request.allow_nonfinite,
            watched=given.watched,
            profile=given.profile,
        )

    def run(self, *arguments: Any) -> Any:
        """`EnginePart.run`; where it gives the report alone, that itself, as Ray has it."""
        report, *sent = self._part.run(*arguments)
        return (report, *sent) if sent else report

    def call(self, method: str, *arguments: Any) -> Any:
        """Call another method of the `EnginePart`, by its name."""
        return getattr(self._part, method)(*arguments)
