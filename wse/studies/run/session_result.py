"""Result of a run whose session has generated all tokens."""

from __future__ import annotations

from dataclasses import replace

from wse.studies.options.settings import replaced_numbers
from wse.studies.results.defects import defects_result
from wse.studies.results.phases import decode_result, prefill_result
from wse.studies.results.placement import model_result, system_result, wafer_result
from wse.studies.results.sram import sram_result
from wse.studies.results.traffic import crossing_result, fabric_result
from wse.studies.run.result import EmulationResult, RunResult
from wse.studies.run.session import Session
from wse.studies.run.verify import VerifiedResult, draft_result, verified_result


def session_result(session: Session, digest: str, wall_s: float) -> RunResult:
    """Build the result of a run, without the trace and profile fields.

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
        wafer=wafer_result(wafer, replaced=replaced_numbers(prepared_run.request)),
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
    (user,) = users
    return replace(
        result,
        tokens=user.tokens,
        prompt_tokens=user.prompt_tokens,
        prompt_ids=user.prompt_ids,
        text=user.text,
        prompt_logits_last=user.prompt_logits_last,
    )


def _verification(session: Session) -> VerifiedResult | None:
    """Return the results of the verification passes, or None if the run has no such passes."""
    if not session.program.verify_tokens:
        return None
    generated_tokens = [len(answer.tokens) - 1 for answer in session.answers]
    prompts = [len(answer.prompt) for answer in session.answers]
    drafts = None
    if session.drafter is not None and session.acceptance is not None:
        drafts = draft_result(session.drafter, session.acceptance, session.clock)
    return verified_result(session.clock, prompts, generated_tokens, session.prepared.wafer.clock_hz, drafts)
