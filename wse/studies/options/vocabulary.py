"""The check that two models have one vocabulary, so that the ids of one are those of the other."""

from __future__ import annotations

from wse.errors import BadInput
from wse.models.load import LoadedModel
from wse.models.tokenizers.token_text import Tokenizer


def check_vocabulary(option: str, draft: LoadedModel, target: LoadedModel, remedy: str) -> None:
    """Check that the ids of a draft are those of the model; ``option`` names the draft, ``remedy`` what may help.

    Rows of the embedding past the tokenizer's ids are padding, of which models of a family have different numbers.

    Raises:
        BadInput: an id has another text, or, without tokenizers, there are not as many.
    """
    if draft.tokenizer is None or target.tokenizer is None:
        ids, own_ids = draft.spec.vocab_size, target.spec.vocab_size
    else:
        ids, own_ids = draft.tokenizer.vocab_size, target.tokenizer.vocab_size
    if ids != own_ids:
        reason = f"has a vocabulary of {ids:,} ids, {target.spec.name} one of {own_ids:,}"
        message = f"{option}: {reason}; {remedy}"
        raise BadInput(message)
    if draft.tokenizer is None or target.tokenizer is None:
        return
    token = _first_difference(draft.tokenizer, target.tokenizer)
    if token is not None:
        text, own_text = draft.tokenizer.decode([token]), target.tokenizer.decode([token])
        reason = f"has another vocabulary: its id {token} is {text!r}, {target.spec.name}'s {own_text!r}"
        message = f"{option}: {reason}; {remedy}"
        raise BadInput(message)


def _first_difference(draft: Tokenizer, target: Tokenizer) -> int | None:
    """Return the first id whose text is not the same."""
    ids = range(target.vocab_size)
    return next((token for token in ids if draft.decode([token]) != target.decode([token])), None)
