"""The gain of speculative decoding on GPUs: drafts of a head or of a model on the same GPUs, for a number of users.

All users of a pass have their drafts verified in it, and their drafts made together. A draft is launched in one step
with the pass that verifies it. Where no draft model is named it is a head of the model's last layer with its output
table. A draft model is cut over all GPUs or is on one of them, whichever makes a token sooner. Its weights and caches,
and those of a head, take room beside the model's.
"""

from __future__ import annotations

from wse.request.gpu_estimate_request import PreparedGpuEstimate
from wse.serving.draft_tree import DraftMachine
from wse.studies.estimate.draft_plan import HEAD


def gpu_draft_machine(prepared: PreparedGpuEstimate, users: int) -> DraftMachine:
    """The times of so many users who come and go: passes in the middle of their answers, and prompts of the others.

    A pass over more tokens takes no less than one over one, nor do prompts: where longer vectors are added up by
    all-reduces of another kind, the model of passes would have it so.
    """
    server, context = prepared.server, prepared.middle_context
    draft = server.draft
    assert draft is not None  # the request asks for drafts
    _, prompts = server.served_time(users, prepared.prompt_tokens, prepared.new_tokens)
    plain_s = server.decode_s(users, context)
    return DraftMachine(
        verify_s=lambda tokens: max(plain_s, server.verify_s(users, tokens, context)),
        draft_s=lambda tokens: draft.draft_s(users, tokens, context),
        shared_s=max(0.0, prompts.total_s),
    )


def draft_name(prepared: PreparedGpuEstimate) -> str:
    """The name of a request's draft."""
    return HEAD if prepared.draft_model is None else prepared.draft_model
