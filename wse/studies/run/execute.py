"""Execution of a compiled run: process prompts, generate tokens, and time and trace them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from wse.backends.execute.backend import Backend, BackendFactory
from wse.backends.execute.engine import Engine
from wse.backends.execute.host_tokens.sampling import Sampler
from wse.backends.execute.observation.observation import Observation
from wse.backends.execute.observation.pe_contents import PePlace
from wse.errors import BadInput, BadTrace
from wse.program.program import Program
from wse.reports.output_file import write_output
from wse.studies.options.settings import replaced_numbers
from wse.studies.results.defects import defects_result
from wse.studies.results.phases import crossing_result, decode_result, fabric_result, prefill_result
from wse.studies.results.placement import model_result, system_result, wafer_result
from wse.studies.results.sram import sram_result
from wse.studies.run.answer import SILENT, RunCallbacks
from wse.studies.run.checkpoint.checkpoint_file import CheckpointFile
from wse.studies.run.checkpoint.checkpointed_engine import CheckpointedEngine
from wse.studies.run.drafts import make_drafter
from wse.studies.run.prepare import PreparedRun, weights_of
from wse.studies.run.profile import PROFILE_OPTION, profile_result, speedscope, timed_steps
from wse.studies.run.result import EmulationResult, RunResult
from wse.studies.run.session import Session
from wse.studies.run.verify import VerifiedResult, draft_result, verified_result
from wse.tracing.record.keeper import TraceKeeper
from wse.tracing.record.run import RunRecorder
from wse_traces.errors import TraceError


def session_result(session: Session, digest: str, wall_s: float) -> RunResult:
    """Build the result of a run, except for the fields about its trace and profile.

    Args:
        session: The session, which has generated all tokens.
        digest: Digest of the compiled Program.
        wall_s: Seconds elapsed since the start of execution, including kernel compilation.
    """
    prepared_run, program, clock = session.prepared, session.program, session.clock
    wafer, spec, totals = prepared_run.wafer, prepared_run.spec, clock.decode
    users = tuple(answer.result() for answer in session.answers)
    lengths = [min(length, program.context - 1) for length in clock.lengths]
    result = RunResult(
        batch=program.batch,
        users=users,
        note=prepared_run.note,
        model=model_result(spec, program, weights=prepared_run.request.weights),
        wafer=wafer_result(wafer, replaced_numbers(prepared_run.request)),
        system=system_result(program),
        sram=sram_result(program, wafer.sram_bytes_per_pe),
        prefill=prefill_result(
            clock.prefill,
            sum(map(len, prepared_run.prompts)),
            wafer.clock_hz,
            session.prompt_routes.result().ttft_s(wafer),
        ),
        decode=decode_result(totals, spec.layer_count, wafer.clock_hz, program.batch) if totals.runs else None,
        crossing=crossing_result(totals, wafer.clock_hz) if totals.runs else None,
        fabric=fabric_result(program, totals),
        verify=_verification(session),
        experts=session.load.result(),
        defects=defects_result(prepared_run, program, lengths),
        emulation=EmulationResult(
            wall_s=wall_s,
            tokens_per_s=session.new_tokens / session.wall_s,
            passes_again=session.passes_again or None,
            program_digest=digest,
        ),
    )
    if len(users) > 1:
        return result
    fields_of_user = {name: value for name, value in vars(users[0]).items() if name != "ended"}
    return replace(result, **fields_of_user)


def _verification(session: Session) -> VerifiedResult | None:
    """Return the results of the verification passes, or None if the run has no such passes.

    A verification pass runs the model over several new tokens of one user at once.
    """
    if not session.program.verify_tokens:
        return None
    generated_tokens = [len(answer.tokens) - 1 for answer in session.answers]
    prompts = [len(answer.prompt) for answer in session.answers]
    drafts = None
    if session.drafter is not None and session.acceptance is not None:
        drafts = draft_result(session.drafter, session.acceptance, session.clock)
    return verified_result(session.clock, prompts, generated_tokens, session.prepared.wafer.clock_hz, drafts)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFiles:
    """Files that a run writes, and what the trace records.

    Attributes:
        trace: Path of the trace file. None writes no trace.
        record: Ascending indices of the ops whose outputs are stored in the trace.
        record_pes: PEs whose buffers are stored in the trace. Only an `Engine` supports this.
        profile: Path of a flame graph that shows how long each step of the emulation takes on this
            computer. With None, steps are not timed.
        checkpoint: Path of the checkpoint file. The run resumes from the file if it exists, and
            rewrites it periodically. None disables checkpoints.
    """

    trace: Path | None = None
    record: Sequence[int] = ()
    record_pes: Sequence[PePlace] = ()
    profile: Path | None = None
    checkpoint: Path | None = None


def execute(
    prepared_run: PreparedRun,
    program: Program,
    files: RunFiles = RunFiles(),
    *,
    make_backend: BackendFactory = Engine,
    draft: tuple[PreparedRun, Program] | None = None,
    callbacks: RunCallbacks = SILENT,
) -> RunResult:
    """Execute a compiled run and return its tokens, cycles and traffic.

    Args:
        prepared_run: The validated request, with model, wafer and prompts loaded.
        program: The compiled Program of the request.
        files: Files that the run writes.
        make_backend: Function that creates the backend that executes the Program.
        draft: A run of only the draft model, and its Program. None if drafts are looked up in the text or not
            used.
        callbacks: Functions called with text, warnings and progress.

    Raises:
        BadModel: The model has no weights.
        BadTrace: The trace cannot be written, and the policy is to stop.
        BadInput: The flame graph cannot be written. Or wavelets are requested without a trace, for
            a region that is too large, or for a mesh with dead PEs.
    """
    if prepared_run.request.tracing.wavelets:
        _check_wavelets(prepared_run, program, traced=files.trace is not None)
    weights = weights_of(prepared_run.request, prepared_run.loaded)
    started, digest = time.perf_counter(), program.digest()
    samplers = _samplers(prepared_run, program)
    file = None if files.checkpoint is None else CheckpointFile(files.checkpoint, prepared_run, program, digest)
    start = None if file is None else file.read()  # before the trace is opened, since it may be refused
    try:
        open_recorder = _recorder(prepared_run, program, digest, files.trace, callbacks.on_warning)
        with TraceKeeper(open_recorder, prepared_run.request.tracing.trace_policy, callbacks.on_warning) as keeper:
            backend = make_backend(
                *(program, prepared_run.loaded.spec, weights, [sampler.draw for sampler in samplers]),
                allow_nonfinite=prepared_run.request.allow_nonfinite,
                observation=_observation(files, keeper, callbacks),
            )
            if files.record_pes:
                assert isinstance(backend, Engine)
                backend.watch(files.record_pes, lambda *content: keeper.write(RunRecorder.add_content, *content))
            engine: Backend = backend
            if file is not None:
                engine = CheckpointedEngine(backend, file, start, prepared_run, samplers)
            session = Session(
                *(prepared_run, program, engine, keeper, callbacks),
                passes_again=len(start.passes) if start else 0,
                drafter=make_drafter(prepared_run, program, draft),
                samplers=samplers,
            )
            if cache_warning := engine.precompile(callbacks.on_progress):
                callbacks.on_warning(cache_warning)
            session.generate()
            if isinstance(engine, CheckpointedEngine):
                engine.close()
            result = session_result(session, digest, time.perf_counter() - started)
            if files.profile is not None:
                assert engine.step_times is not None
                steps = timed_steps(program, engine.step_times)
                result = replace(result, profile=profile_result(steps, engine.step_times, files.profile))
            if keeper.recorder is not None:
                result = _traced(replace(result, trace=str(files.trace)), session, keeper)
    except TraceError as error:
        raise BadTrace(str(error)) from error
    if files.profile is not None:
        write_output(PROFILE_OPTION, files.profile, speedscope(program.model_name, steps))
    return replace(result, **keeper.lost)


def _check_wavelets(prepared_run: PreparedRun, program: Program, *, traced: bool) -> None:
    """Check that the last pass of a run can be simulated wavelet by wavelet (word by word).

    Raises:
        BadInput: There are dead PEs, no trace is written, or a region (a rectangle of PEs that
            stores some layers) is too large.
    """
    if prepared_run.meshes:
        raise BadInput(
            "--wavelets: the wavelet simulation does not support dead PEs; leave out --defects or --wavelets"
        )
    from wse.tracing.record.wavelet_log import check_loggable  # the reference is not needed without --wavelets

    check_loggable(program, prepared_run.wafer, traced=traced)


def _recorder(
    prepared_run: PreparedRun, program: Program, digest: str, trace: Path | None, on_warning: Callable[[str], None]
) -> Callable[[], RunRecorder] | None:
    """Return a function that opens the trace file of a run and creates its recorder.

    Args:
        prepared_run: The validated request of the run.
        program: The compiled Program of the run.
        digest: Digest of the Program.
        trace: Path of the trace file; None for no trace.
        on_warning: Called with a warning if the trace replaces an existing one.

    Returns:
        The function, or None if no trace is written.
    """
    if trace is None:
        return None
    if trace.exists():
        on_warning(f"{trace}: this run's trace replaces the existing one; --trace NAME keeps both")
    request = prepared_run.request
    return partial(RunRecorder, trace, prepared_run, program, digest, request.sampling.rule(), request.weights)


def _observation(files: RunFiles, keeper: TraceKeeper, callbacks: RunCallbacks) -> Observation:
    """Return what the backend of a run reports: outputs to the trace, and progress to the caller."""
    return Observation(
        watched=files.record,
        on_output=lambda op, values: keeper.write(RunRecorder.add_op_output, op, values),
        on_stored=callbacks.on_stored,
        profile=files.profile is not None,
    )


def _traced(result: RunResult, session: Session, keeper: TraceKeeper) -> RunResult:
    """Write the final records of a run to its trace, and return the completed result.

    If the request asks for wavelets, the last pass is first simulated wavelet by wavelet (word by word). The trace
    receives every move of a word, and the result receives the simulated cycles.

    Args:
        result: Result of the run.
        session: The session, which has generated all tokens.
        keeper: Object that writes the trace.
    """
    logged = keeper.write(session.log_wavelets) if session.prepared.request.tracing.wavelets else None
    result = replace(result, wavelets=logged)
    keeper.write(RunRecorder.finish, session.clock, result.to_dict())
    return result


def _samplers(prepared_run: PreparedRun, program: Program) -> list[Sampler]:
    """Return one random sampler per user, or no samplers if tokens are selected on the wafer.

    All samplers use the request's seed, so a user gets the same tokens alone and in a batch.
    """
    if program.sampling != "host":
        return []
    return [Sampler(prepared_run.request.sampling.rule(), prompt) for prompt in prepared_run.prompts]
