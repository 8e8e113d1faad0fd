"""Checks and defaults of draft options: which draft, how many draft tokens, and where it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wse.errors import BadInput, UnknownName

if TYPE_CHECKING:
    from wse.models.load import LoadedModel
    from wse.studies.run.request import RunRequest

NGRAM: Final = "ngram"
"""Name of prompt lookup, which proposes the tokens that followed an earlier match in the text."""

HEAD: Final = "head"
"""Name of an estimate's default draft: a one-layer draft head on the model's PEs."""

SAME, WAFER, HOST = "same", "wafer", "host"
PLACES: Final = (SAME, WAFER, HOST)
"""Places for a draft model: free PEs of the model's wafers, additional wafers, or the host."""

DRAFT_TOKENS: Final = 4
"""Default number of draft tokens per pass; fewer if they do not fit in the context."""


def check_draft(request: RunRequest) -> None:
    """Check that the speculative-decoding options do not contradict each other.

    Raises:
        BadInput: Options for a draft are specified without ``--draft``, ``--draft`` and
            ``--verify-tokens`` are both specified, ``--draft-tokens`` is below 1, or
            ``--draft-mesh`` is specified for a draft that runs on no PEs of its own.
        UnknownName: The place where the draft runs is unknown.
    """
    drafts = request.drafts
    draft_options = {
        "--draft-tokens": drafts.draft_tokens,
        "--draft-place": drafts.draft_place,
        "--draft-mesh": drafts.draft_mesh,
    }
    if not has_draft(request):
        for option, value in draft_options.items():
            if value is not None:
                raise BadInput(f"{option} {value}: needs a draft; give --draft ngram, or --draft with a smaller model")
    if drafts.draft is not None and drafts.verify_tokens is not None:
        raise BadInput(
            f"--verify-tokens {drafts.verify_tokens}: a pass verifies the tokens of --draft {drafts.draft}; "
            f"give --draft-tokens {max(1, drafts.verify_tokens - 1)} instead"
        )
    if drafts.draft_tokens is not None and drafts.draft_tokens < 1:
        raise BadInput(f"--draft-tokens {drafts.draft_tokens}: give a number of at least 1, or leave --draft out")
    if drafts.draft_place not in (None, *PLACES):
        raise UnknownName("place of drafts", str(drafts.draft_place), PLACES)
    if drafts.draft_mesh is not None and (draft_name(request) == NGRAM or draft_place(request) == HOST):
        raise BadInput(f"--draft-mesh {drafts.draft_mesh}: the draft has no PEs of its own; leave it out")


def has_draft(request: RunRequest) -> bool:
    """Return whether a request uses speculative decoding.

    This is the case if ``--draft`` is specified or ``--verify-tokens`` is above 1. Without
    ``--draft``, the draft tokens are looked up in the text so far.
    """
    return request.drafts.draft is not None or (request.drafts.verify_tokens or 0) > 1


def draft_name(request: RunRequest) -> str:
    """Return the draft's name: a model, or "ngram" for a look-up in the text so far.

    The request must have a draft.
    """
    return NGRAM if request.drafts.draft is None else str(request.drafts.draft)


def draft_place(request: RunRequest) -> str:
    """Return where the draft of a request runs.

    The place is ``same`` (the model's wafers), ``wafer`` (a separate wafer) or ``host``. The
    default is ``host`` if drafts are looked up in the text and the host also selects tokens.
    Otherwise, the default is ``same``.
    """
    if request.drafts.draft_place is not None:
        return request.drafts.draft_place
    return HOST if draft_name(request) == NGRAM and request.sampling.rule().on_host else SAME


def pass_tokens(request: RunRequest, context: int, prompt_tokens: int) -> int:
    """Return the number of tokens in a verification pass: the next token and the draft tokens.

    Args:
        request: Request with its draft options.
        context: KV-cache capacity of a sequence in tokens.
        prompt_tokens: Length of the prompt in tokens.

    Returns:
        The number of tokens; 0 if the request has no verification passes.

    Raises:
        BadInput: The context has no room for the draft tokens after the prompt.
    """
    drafts = request.drafts
    if drafts.draft is None:
        return drafts.verify_tokens or 0
    max_drafts = context - prompt_tokens - 1
    if max_drafts < 1:
        raise BadInput(
            f"--draft {drafts.draft}: the context has {context} tokens, {max_drafts + 1} after the prompt, too few for "
            "a draft; give a longer --context, or leave --draft out"
        )
    draft_tokens = min(DRAFT_TOKENS, max_drafts) if drafts.draft_tokens is None else drafts.draft_tokens
    if not 1 <= draft_tokens <= max_drafts:
        raise BadInput(
            f"--draft-tokens {draft_tokens}: the context has {context} tokens, {max_drafts + 1} after the prompt, one "
            f"of them the next token; give 1 to {max_drafts}"
        )
    return draft_tokens + 1


def check_vocabulary(option: str, draft: LoadedModel, target: LoadedModel, remedy: str) -> None:
    """Check that the token ids of a draft model have the same meaning in the target model.

    If both models have a tokenizer, only the tokenizers' ids are compared. The embedding table may
    have additional padding rows, whose number varies between models of the same family.

    Args:
        option: Option that names the draft model, with its value, for messages.
        draft: Draft model.
        target: Model that verifies the draft tokens.
        remedy: Suggestion for the user, for messages.

    Raises:
        BadInput: The numbers of ids differ, or an id represents different text. Texts can only be
            compared if both models have a tokenizer.
    """
    if draft.tokenizer is None or target.tokenizer is None:
        draft_ids, target_ids = draft.spec.vocab_size, target.spec.vocab_size
    else:
        draft_ids, target_ids = draft.tokenizer.vocab_size, target.tokenizer.vocab_size
    if draft_ids != target_ids:
        reason = f"has a vocabulary of {draft_ids:,} ids, {target.spec.name} one of {target_ids:,}"
        raise BadInput(f"{option}: {reason}; {remedy}")
    if draft.tokenizer is None or target.tokenizer is None:
        return
    texts, target_texts = draft.tokenizer.decode, target.tokenizer.decode
    token = next((token for token in range(target_ids) if texts([token]) != target_texts([token])), None)
    if token is not None:
        difference = f"its id {token} is {texts([token])!r}, {target.spec.name}'s {target_texts([token])!r}"
        raise BadInput(f"{option}: has another vocabulary: {difference}; {remedy}")
