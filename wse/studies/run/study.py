"""Study behind ``wse run``: from the options to the result."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from wse.backends.execute.backend import BackendFactory
from wse.backends.execute.engine import Engine
from wse.backends.execute.observation.pe_contents import PePlace
from wse.errors import BadInput
from wse.program.program import Program
from wse.reports.output_file import output_path
from wse.studies.compile.choose import compile_program
from wse.studies.options.engine import RAY, check_engine
from wse.studies.options.trace_path import trace_path
from wse.studies.run.answer import SILENT, RunCallbacks
from wse.studies.run.checkpoint.checkpoint_file import CHECKPOINT_OPTION
from wse.studies.run.execute import RunFiles, execute
from wse.studies.run.memory import check_memory
from wse.studies.run.prepare import PreparedRun, prepare
from wse.studies.run.prepare_draft import prepare_draft
from wse.studies.run.profile import PROFILE_OPTION
from wse.studies.run.request import RunRequest
from wse.studies.run.result import RunResult
from wse.tracing.record.keeper import check_policy
from wse.tracing.record.selection import recorded_ops, recorded_pes


def run(request: RunRequest, callbacks: RunCallbacks = SILENT) -> RunResult:
    """Compile a model, execute it on an emulated wafer, and time and trace the run.

    Args:
        request: The options of the run.
        callbacks: Functions called with text, warnings and progress.

    Raises:
        BadInput: An option is invalid, or an item that it names, such as a model or a file, is
            missing or unusable. The subclass indicates the cause.
        DoesNotFit: The model does not fit. The message states the required bytes and possible
            remedies.
        InsufficientMemory: This computer or the Ray cluster has too little memory. The message for
            this computer names similar settings that fit.
        WorkerLost: A process or machine of the Ray cluster has been lost.
    """
    path = trace_path(request.tracing.trace)
    check_engine(request.engine_choice)
    check_policy(request.tracing.trace_policy)
    profile, checkpoint = _profile_path(request), _checkpoint_path(request)
    prepared_run = prepare(request, to_run=True)
    draft_run = prepare_draft(prepared_run)
    program = compile_program(prepared_run)
    draft = None if draft_run is None else (draft_run, compile_program(draft_run))
    record = request.tracing.record
    files = RunFiles(
        trace=path,
        record=() if record is None else recorded_ops(record, program, traced=path is not None),
        record_pes=_watched_pes(request, program, traced=path is not None),
        profile=profile,
        checkpoint=checkpoint,
    )
    with _backend(prepared_run, program) as make_backend:
        return execute(prepared_run, program, files, make_backend=make_backend, draft=draft, callbacks=callbacks)


def _backend(prepared_run: PreparedRun, program: Program) -> AbstractContextManager[BackendFactory]:
    """Return a context manager that yields a factory function for the requested backend.

    For a backend on this computer, free memory is checked first.

    Raises:
        InsufficientMemory: This computer has too little memory.
    """
    if prepared_run.request.engine_choice.engine == RAY:
        from wse.studies.run.ray.ray_engine import ray_backend  # brings Ray, which is optional

        return ray_backend(prepared_run, program)
    check_memory(prepared_run, program)
    return nullcontext(Engine)


def _watched_pes(request: RunRequest, program: Program, *, traced: bool) -> tuple[PePlace, ...]:
    """Return the PEs named by ``--record-pe``, whose buffers are stored in the trace.

    Raises:
        BadInput: The PEs cannot be recorded, for example because the run is on a Ray cluster.
    """
    if request.tracing.record_pe is None:
        return ()
    if request.engine_choice.engine == RAY:
        raise BadInput(
            f"--record-pe {request.tracing.record_pe}: SRAM is read in this process alone; leave out --engine {RAY}"
        )
    passes = len(program.prefill) + program.batch * (request.inputs.new_tokens or program.context)
    return recorded_pes(request.tracing.record_pe, program, passes=passes, traced=traced)


def _profile_path(request: RunRequest) -> Path | None:
    """Return the path of the flame graph, or None without ``--profile``.

    Raises:
        BadInput: The path cannot be used.
    """
    if not request.profiling.profile:
        return None
    return output_path(PROFILE_OPTION, str(request.profiling.profile_output), suffix=".json", kind="a flame graph")


def _checkpoint_path(request: RunRequest) -> Path | None:
    """Return the path of the checkpoint file, or None without ``--checkpoint``.

    Raises:
        BadInput: The path cannot be used, or the time between checkpoints is negative or not a
            finite number. Or ``--record`` or ``--record-pe`` is specified too; passes read from a
            checkpoint are not executed, so there is nothing to record.
    """
    if request.checkpoints.checkpoint is None:
        return None
    if not 0 <= request.checkpoints.checkpoint_every < math.inf:
        interval_s = request.checkpoints.checkpoint_every
        raise BadInput(
            f"--checkpoint-every {interval_s:g}: is not a valid time; give a time of at least 0, such as 60s"
        )
    if request.tracing.record is not None:
        raise BadInput(
            "--checkpoint: passes read from the file are not executed and have no tensors; leave out --record"
        )
    if request.tracing.record_pe is not None:
        raise BadInput(
            "--checkpoint: passes read from the file are not executed and leave no bytes; leave out --record-pe"
        )
    return output_path(CHECKPOINT_OPTION, str(request.checkpoints.checkpoint))
