"""Creation of a run's drafter: a look-up, or a draft model with its own engine and SRAM."""

from __future__ import annotations

from wse.backends.execute.engine import Engine
from wse.program.program import Program
from wse.studies.compile.draft_times import DraftTimes, Region
from wse.studies.options.drafts.draft import draft_place, has_draft
from wse.studies.run.drafts.drafts import Drafter, DraftModel, LookUp
from wse.studies.run.drafts.prepare import PreparedDraft
from wse.studies.run.prepare import PreparedRun, weights_of


def make_drafter(target: PreparedRun, program: Program, draft: tuple[PreparedDraft, Program] | None) -> Drafter | None:
    """Create the draft-token source (speculative decoding) of a run, or None without drafts.

    Args:
        target: The run of the verifying model.
        program: The verifying model's Program.
        draft: The draft model and its Program. None to look up drafts in the text.

    Raises:
        BadModel: The draft model has no weights.
    """
    request = target.request
    if not has_draft(request):
        return None
    stage = next(stage for stage in program.stages if stage.has_embedding)
    times = DraftTimes(
        wafer=target.wafer,
        software=target.software,
        region=Region(rows=stage.rect.rows, cols=stage.cols),
        place=draft_place(request),
        host_draws=request.sampling.rule().on_host,
    )
    if draft is None:
        return LookUp(times, program.context)
    prepared_draft, draft_program = draft
    run = prepared_draft.run
    engine = Engine(
        draft_program,
        run.spec,
        weights_of(run.request, run.loaded),
        [lambda logits: int(logits.argmax())] * (draft_program.sampling == "host"),  # the id after the prompt is unused
        allow_nonfinite=run.request.allow_nonfinite,
    )
    return DraftModel(prepared_draft, draft_program, engine, times, target.spec.vocab_size)
