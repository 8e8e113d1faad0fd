"""The gain of speculative decoding on GPUs: drafts of a head or of a model on the same GPUs, for a number of users.

All users of a pass have their drafts verified in it, and their drafts made together. A draft is launched in one step
with the pass that verifies it. Where no draft model is named it is a head of the model's last layer with its output
table. A draft model is cut over all GPUs or is on one of them, whichever makes a token sooner. Its weights and caches,
and those of a head, take room beside the model's.
"""

from __future__ import annotations

from wse.request.draft_option import HEAD, SAME
from wse.request.gpu_estimate_request import PreparedGpuEstimate
from wse.serving.draft_tree import DraftMachine
from wse.serving.operating_point import operating_point
from wse.studies.estimate.draft_result import DraftPlaceResult


def gpu_draft_machine(prepared: PreparedGpuEstimate, users: int) -> DraftMachine:
    """Return the pass times of ``users`` in steady state, in the middle of their answers, with the others' prompts.

    Draft tokens that make vectors too long for a one-shot all-reduce cost less than the draft tokens before them, so
    the speed-up over draft lengths may have two peaks.
    """
    server, context = prepared.server, prepared.middle_context
    draft = server.draft
    assert draft is not None  # the request asks for drafts
    tpot_s = operating_point(prepared.deployment, users).tpot_s
    decode_s = server.decode_s(users, context)
    return DraftMachine(
        verify_s=lambda tokens: server.verify_s(users, tokens, context),
        draft_s=lambda tokens: draft.draft_s(users, tokens, context),
        shared_s=0.0 if tpot_s is None else max(0.0, tpot_s - decode_s),  # 0 for one user, but for rounding
        has_one_peak=False,
    )


def gpu_draft_place(prepared: PreparedGpuEstimate) -> DraftPlaceResult:
    """Return what drafts for a request: a head or a model, on the GPUs of the model."""
    return DraftPlaceResult(draft=HEAD if prepared.draft_model is None else prepared.draft_model, place=SAME)
