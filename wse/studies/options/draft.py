"""The options of drafts: which draft, how many tokens of it each pass verifies, and where it is made."""

from __future__ import annotations

from typing import Final

from wse.errors import BadInput, UnknownName
from wse.studies.run.request import RunRequest

NGRAM: Final = "ngram"
"""The draft that is looked up in the text so far."""

HEAD: Final = "head"
"""The name of the draft of an estimate that names no draft model: a head of one layer on the model's own PEs."""

SAME, WAFER, HOST = "same", "wafer", "host"
PLACES: Final = (SAME, WAFER, HOST)
"""Places where a draft model can run: free PEs of the model's wafers, wafers of its own, or the host."""

DRAFT_TOKENS: Final = 4
"""Tokens that are drafted for each pass where the request does not say how many, if the context has room for them."""


def check_draft(request: RunRequest) -> None:
    """Check that the options of drafts go together.

    Raises:
        BadInput: some are given without a draft, or of a draft that has none, or say the same twice.
        UnknownName: the place is none.
    """
    drafts = request.drafts
    of_draft = {
        "--draft-tokens": drafts.draft_tokens,
        "--draft-place": drafts.draft_place,
        "--draft-mesh": drafts.draft_mesh,
    }
    if not has_draft(request):
        for option, value in of_draft.items():
            if value is not None:
                message = f"{option} {value}: there is no draft; give --draft ngram, or a smaller model"
                raise BadInput(message)
    if drafts.draft is not None and drafts.verify_tokens is not None:
        message = (
            f"--verify-tokens {drafts.verify_tokens}: a pass verifies the tokens of --draft {drafts.draft}; "
            f"give --draft-tokens {max(1, drafts.verify_tokens - 1)} in place of it"
        )
        raise BadInput(message)
    if drafts.draft_tokens is not None and drafts.draft_tokens < 1:
        message = f"--draft-tokens {drafts.draft_tokens}: give a number of at least 1, or leave --draft out"
        raise BadInput(message)
    if drafts.draft_place not in (None, *PLACES):
        raise UnknownName("place of drafts", str(drafts.draft_place), PLACES)
    if drafts.draft_mesh is not None and (draft_name(request) == NGRAM or draft_place(request) == HOST):
        message = f"--draft-mesh {drafts.draft_mesh}: the draft has no PEs of its own; leave it out"
        raise BadInput(message)


def has_draft(request: RunRequest) -> bool:
    """Return whether tokens are drafted: by the model of --draft, or, for passes over several tokens, by lookup."""
    return request.drafts.draft is not None or (request.drafts.verify_tokens or 0) > 1


def draft_name(request: RunRequest) -> str:
    """Return the draft of a request that has one."""
    return NGRAM if request.drafts.draft is None else str(request.drafts.draft)


def draft_place(request: RunRequest) -> str:
    """Return the place of a request's draft."""
    if request.drafts.draft_place is not None:
        return request.drafts.draft_place
    return HOST if draft_name(request) == NGRAM and request.sampling.rule().on_host else SAME


def pass_tokens(request: RunRequest, context: int, prompt_tokens: int) -> int:
    """Return the tokens of a pass over several of one user: the next one and the drafted ones; 0 without such passes.

    Raises:
        BadInput: the context leaves no room for so many behind the prompt.
    """
    drafts = request.drafts
    if drafts.draft is None:
        return drafts.verify_tokens or 0
    most = context - prompt_tokens - 1
    if most < 1:
        message = (
            f"--draft {drafts.draft}: the prompt leaves {most + 1} of {context} tokens, which none can be drafted "
            "behind; give a longer --context, or leave --draft out"
        )
        raise BadInput(message)
    drafted = min(DRAFT_TOKENS, most) if drafts.draft_tokens is None else drafts.draft_tokens
    if not 1 <= drafted <= most:
        message = (
            f"--draft-tokens {drafted}: the prompt leaves {most + 1} of {context} tokens, one of them the next; "
            f"give 1 to {most}"
        )
        raise BadInput(message)
    return drafted + 1
