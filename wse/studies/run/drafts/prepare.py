"""A draft model, checked against the model that it drafts for, with all that a compilation of it needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from wse.errors import BadInput
from wse.models.load import load_model
from wse.studies.options.draft import HOST, NGRAM, SAME, draft_name, draft_place, has_draft
from wse.studies.options.layout import LayoutOptions
from wse.studies.options.vocabulary import check_vocabulary
from wse.studies.run.draft_options import RunDraftOptions
from wse.studies.run.output_options import TraceOptions
from wse.studies.run.prepare import PreparedRun, prepare
from wse.studies.run.prompt_options import PromptOptions
from wse.studies.run.request import RunRequest

REMEDY: Final = "give a draft with the model's own vocabulary, or --draft ngram, which needs no model"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedDraft:
    """A request's draft model: ``run`` has it as if it were run alone, after the same prompt."""

    name: str
    place: str
    run: PreparedRun


def prepare_draft(target: PreparedRun) -> PreparedDraft | None:
    """Return the draft model of a request; None where it has no draft, or looks drafts up.

    The draft runs in passes over one token, so that any number of its tokens can be taken back.

    Raises:
        BadInput and its kinds: the model cannot be used, has another vocabulary or a shorter context, or its mesh has
            no room beside the target's.
        DoesNotFit: no square mesh of the wafer stores it.
    """
    request = target.request
    if not has_draft(request) or draft_name(request) == NGRAM:
        return None
    name, place = draft_name(request), draft_place(request)
    loaded = load_model(name, with_weights=request.weights is None)
    check_vocabulary(f"--draft {name}", loaded, target.loaded, REMEDY)
    context = target.options.context
    if loaded.spec.context_limit < context:
        message = (
            f"--draft {name}: was made for {loaded.spec.context_limit} tokens of context, the run has {context}; "
            "give a shorter --context"
        )
        raise BadInput(message)
    mesh = request.drafts.draft_mesh or _default_mesh(target, place)
    of_draft = RunRequest(
        model=name,
        machine=replace(request.machine, mesh=mesh, settings=(), defects=None, defects_seed=0),
        wafers=1,
        layout=LayoutOptions(schedule=request.layout.schedule),
        weights=request.weights,
        allow_nonfinite=request.allow_nonfinite,
        inputs=PromptOptions(prompt_ids=target.prompts[0], new_tokens=target.new_tokens),
        context=context,
        sampling=request.sampling,
        drafts=RunDraftOptions(verify_tokens=1),
        tracing=TraceOptions(trace=None),
    )
    prepared = prepare(of_draft, to_run=True)
    if place == SAME and not _has_room(target, *prepared.fabric_shape):
        whole, (rows, cols), (draft_rows, draft_cols) = target.whole, target.fabric_shape, prepared.fabric_shape
        message = (
            f"--draft-place {SAME}: a draft of {draft_rows}x{draft_cols} PEs has no room beside {rows}x{cols} on "
            f"{whole.name} with {whole.mesh_rows}x{whole.mesh_cols}; give --draft-place wafer, or a smaller --mesh"
        )
        raise BadInput(message)
    return PreparedDraft(name=name, place=place, run=prepared)


def _default_mesh(target: PreparedRun, place: str) -> str | None:
    """Return as many PEs as the model has, as ROWSxCOLS; None, the smallest square, without room for them."""
    rows, cols = target.wafer.mesh_rows, target.wafer.mesh_cols
    if place == HOST or (place == SAME and not _has_room(target, rows, cols)):
        return None
    return f"{rows}x{cols}"


def _has_room(target: PreparedRun, draft_rows: int, draft_cols: int) -> bool:
    """Return whether a mesh has room beside the target's, or below it, on one wafer."""
    whole, (rows, cols) = target.whole, target.fabric_shape
    beside = cols + draft_cols <= whole.mesh_cols and draft_rows <= whole.mesh_rows
    below = rows + draft_rows <= whole.mesh_rows and draft_cols <= whole.mesh_cols
    return beside or below
