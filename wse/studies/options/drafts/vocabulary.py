"""Check that a draft model and its target model use the same token ids."""

from __future__ import annotations

from wse.errors import BadInput
from wse.models.load import LoadedModel
from wse.models.tokenizers.token_text import Tokenizer


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
    token = _first_difference(draft.tokenizer, target.tokenizer)
    if token is not None:
        draft_text, target_text = draft.tokenizer.decode([token]), target.tokenizer.decode([token])
        reason = f"has another vocabulary: its id {token} is {draft_text!r}, {target.spec.name}'s {target_text!r}"
        raise BadInput(f"{option}: {reason}; {remedy}")


def _first_difference(draft: Tokenizer, target: Tokenizer) -> int | None:
    """Return the first token id with different texts in two tokenizers; None if there is none."""
    ids = range(target.vocab_size)
    return next((token for token in ids if draft.decode([token]) != target.decode([token])), None)
