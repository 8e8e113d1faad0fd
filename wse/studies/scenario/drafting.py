"""The drafts that a scenario asks for: as many tokens as are given, or those that gain most for some users."""

from __future__ import annotations

from wse.serving.drafts.tree import DraftTree, best_tree
from wse.studies.estimate.drafts.best_drafts import Choose, UsersOfDrafts, as_tree, in_a_row
from wse.studies.options.acceptance import DraftAcceptance, read_acceptance
from wse.studies.scenario.form import DraftForm
from wse.studies.scenario.result import NO_DRAFTS


def chosen_drafts(draft: DraftForm, acceptance: DraftAcceptance, users: UsersOfDrafts) -> Choose | None:
    """Return the drafts of a scenario for some users; None where no number is given and none gains."""
    if draft.tree:
        tree = users.best_tree(acceptance)[0] if draft.tokens is None else _best_of(acceptance, users, draft.tokens)
        return None if tree is None else as_tree(tree)
    tokens = users.best_row(acceptance.curve)[0] if draft.tokens is None else draft.tokens
    return in_a_row(acceptance.curve, tokens) if tokens else None


def _best_of(acceptance: DraftAcceptance, users: UsersOfDrafts, nodes: int) -> DraftTree:
    """Return the tree of a number of nodes, of whichever depth, that gains most."""
    trees = [best_tree(acceptance.shares, nodes, depth) for depth in range(1, len(acceptance.shares) + 1)]
    return max(trees, key=lambda tree: users.speed_up(as_tree(tree)))


def acceptance_text(draft: DraftForm) -> str | None:
    """The acceptance of a draft as ``--draft`` takes it; None where there are no drafts."""
    if isinstance(draft.acceptance, list):
        return ",".join(map(repr, draft.acceptance))
    return draft.acceptance


def acceptance_of_draft(draft: DraftForm) -> DraftAcceptance | None:
    """The acceptance of a draft; None where there are no drafts. Errors as of ``--draft``."""
    text = acceptance_text(draft)
    return None if text is None else read_acceptance(text)


def draft_name(draft: DraftForm) -> str:
    """A draft as rows call it."""
    if draft.name is not None:
        return draft.name
    text = acceptance_text(draft)
    if text is None:
        return NO_DRAFTS
    return text if draft.model is None else f"{draft.model}, {text}"
