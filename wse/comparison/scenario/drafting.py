"""DraftSteps: the drafts of a scenario on a machine, and the time of what they make of a token."""

from __future__ import annotations

from dataclasses import dataclass

from wse.comparison.scenario.form import DraftForm
from wse.comparison.scenario.result import NO_DRAFTS, SpeculationResult
from wse.request.acceptance_option import DraftAcceptance, read_acceptance
from wse.serving.draft_tree import DraftMachine, DraftTree, best_tree, fastest_tree
from wse.studies.estimate.draft_plan import TREE_NODES
from wse.studies.estimate.draft_result import AcceptanceResult
from wse.studies.estimate.drafting import best_drafting


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftSteps:
    """A pass of the model with drafts before it. Times are seconds.

    Attributes:
        draft_tokens: Tokens that are drafted; 0 where none gains.
        tokens_per_pass: Tokens that the pass yields.
        plain_s: A token without drafts, and what passes besides.
        check_s: The pass over drafts.
        drafts_s: All passes of the draft.
        shared_s: What passes for each token besides, with drafts as without.
    """

    draft_tokens: int
    tokens_per_pass: float
    plain_s: float
    check_s: float
    drafts_s: float
    shared_s: float

    @property
    def token_s(self) -> float:
        """A token of each user, in the mean."""
        return (self.check_s + self.drafts_s) / self.tokens_per_pass + self.shared_s

    @property
    def gain(self) -> float:
        """Times as many tokens a second as without drafts."""
        return self.plain_s / self.token_s

    def result(self, accepted: AcceptanceResult) -> SpeculationResult:
        """Return what a result reports of these drafts and their acceptance."""
        return SpeculationResult(
            **vars(accepted), draft_tokens=self.draft_tokens, tokens_per_pass=self.tokens_per_pass, gain=self.gain
        )


def draft_steps(machine: DraftMachine, acceptance: DraftAcceptance, draft: DraftForm) -> DraftSteps:
    """The drafts that a scenario asks for on a machine: as many as are given, or those that gain most.

    Where none gains and no number is given, nothing is drafted.
    """
    nodes, yielded, drafts_s = _tree(machine, acceptance, draft) if draft.tree else _row(machine, acceptance, draft)
    return DraftSteps(
        draft_tokens=nodes,
        tokens_per_pass=yielded,
        plain_s=machine.token_s,
        check_s=machine.check_s(nodes) if nodes else machine.verify_s(1),
        drafts_s=drafts_s,
        shared_s=machine.shared_s,
    )


def _row(machine: DraftMachine, acceptance: DraftAcceptance, draft: DraftForm) -> tuple[int, float, float]:
    """Drafted tokens one after another: how many, what a pass yields, and the seconds of all drafts."""
    nodes = best_drafting(acceptance.curve, machine).draft_tokens if draft.tokens is None else draft.tokens
    return nodes, acceptance.curve.at(nodes), nodes * machine.draft_s(1)


def _tree(machine: DraftMachine, acceptance: DraftAcceptance, draft: DraftForm) -> tuple[int, float, float]:
    """The same of a tree."""
    if draft.tokens is None:
        tree, _ = fastest_tree(acceptance.shares, machine, TREE_NODES)
    else:
        tree = _fastest_of(acceptance, machine, draft.tokens)
    if tree is None:
        return 0, 1.0, 0.0
    return len(tree.parents), tree.tokens_per_pass, sum(machine.draft_s(width) for width in tree.draft_widths)


def _fastest_of(acceptance: DraftAcceptance, machine: DraftMachine, nodes: int) -> DraftTree:
    """The tree of so many nodes, of whichever depth, that gains most."""
    trees = [best_tree(acceptance.shares, nodes, depth) for depth in range(1, len(acceptance.shares) + 1)]
    return max(trees, key=machine.speed_up)


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
