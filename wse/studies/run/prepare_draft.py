"""Preparation of a draft model, which is checked against the model that verifies its tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from wse.errors import BadInput
from wse.models.load import load_model
from wse.studies.options.drafts.draft import HOST, NGRAM, SAME, check_vocabulary, draft_name, draft_place, has_draft
from wse.studies.options.placement import LayoutOptions
from wse.studies.run.prepare import PreparedRun, prepare
from wse.studies.run.request import PromptOptions, RunDraftOptions, RunRequest, TraceOptions

REMEDY: Final = "give a draft with the model's own vocabulary, or --draft ngram, which needs no model"


def prepare_draft(target: PreparedRun) -> PreparedRun | None:
    """Load and check the draft model requested by a run with speculative decoding.

    The draft model runs in one-token passes, so that any number of rejected tokens can be removed
    from its KV cache.

    Args:
        target: The run of the verifying model.

    Returns:
        A run of only the draft model, with the same prompt. None if drafts are looked up in the
        text or not used at all.

    Raises:
        BadInput: The draft model cannot be used, has a different vocabulary or a shorter context,
            or its mesh does not fit next to the model's mesh. The subclass indicates the cause.
        DoesNotFit: No square mesh on the wafer can hold the draft model.
    """
    request = target.request
    if not has_draft(request) or draft_name(request) == NGRAM:
        return None
    name, place = draft_name(request), draft_place(request)
    draft_model = load_model(name, with_weights=request.weights is None)
    check_vocabulary(f"--draft {name}", draft_model, target.loaded, REMEDY)
    context = target.options.context
    if draft_model.spec.context_limit < context:
        raise BadInput(
            f"--draft {name}: supports a context of at most {draft_model.spec.context_limit:,} tokens, but the run has "
            f"{context:,}; give a shorter --context"
        )
    mesh = request.drafts.draft_mesh or _default_mesh(target, place)
    draft_request = RunRequest(
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
    draft_run = prepare(draft_request, to_run=True)
    if place == SAME and not _has_room(target, *draft_run.fabric_shape):
        wafer, (rows, cols), (draft_rows, draft_cols) = target.whole, target.fabric_shape, draft_run.fabric_shape
        raise BadInput(
            f"--draft-place {SAME}: {wafer.name} with {wafer.mesh_rows}x{wafer.mesh_cols} PEs has no room for a draft "
            f"of {draft_rows}x{draft_cols} PEs next to the model's {rows}x{cols}; give --draft-place wafer, or a "
            "smaller --mesh"
        )
    return draft_run


def _default_mesh(target: PreparedRun, place: str) -> str | None:
    """Return the default mesh of a draft model as ROWSxCOLS.

    The default mesh has the same size as the model's mesh. The result is None if the smallest
    square mesh that fits is to be used instead: for drafts on the host, and if two meshes of the
    model's size do not fit on one wafer.
    """
    rows, cols = target.wafer.mesh_rows, target.wafer.mesh_cols
    if place == HOST or (place == SAME and not _has_room(target, rows, cols)):
        return None
    return f"{rows}x{cols}"


def _has_room(target: PreparedRun, draft_rows: int, draft_cols: int) -> bool:
    """Return whether a draft model's mesh fits next to the model's mesh on the same wafer.

    The draft model's mesh may be to the right of the model's mesh or below it.
    """
    full_wafer, (rows, cols) = target.whole, target.fabric_shape
    fits_right = cols + draft_cols <= full_wafer.mesh_cols and draft_rows <= full_wafer.mesh_rows
    fits_below = rows + draft_rows <= full_wafer.mesh_rows and draft_cols <= full_wafer.mesh_cols
    return fits_right or fits_below
