"""The drafts that give each user the most tokens per second with a number of users, on wafers and on GPUs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final, Protocol

from wse.serving.drafts.machine import DraftMachine, DraftSteps
from wse.serving.drafts.speculation import Acceptance, best_draft
from wse.serving.drafts.tree import DraftTree, fastest_tree
from wse.serving.operating_point import Deployment, OperatingPoint, operating_point
from wse.studies.options.acceptance import DraftAcceptance

TREE_NODES: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Nodes of the trees that are tried."""

Choose = Callable[[DraftMachine], DraftSteps]
"""Returns the drafts that were chosen on a machine with some users."""


class Drafter(Protocol):
    """A deployment whose drafts are to be chosen."""

    @property
    def plain(self) -> Deployment:
        """The deployment without drafts."""

    def machine(self, users: float) -> DraftMachine:
        """Return the times of passes with a number of users in flight."""

    def deployment(self, choose: Choose) -> Deployment:
        """Return the deployment with drafts."""


@dataclass(frozen=True, kw_only=True)
class UsersOfDrafts:
    """Users of a deployment with drafts, on one or several replicas.

    Attributes:
        drafter: The deployment of each replica.
        users: Requests in flight on all replicas.
        replicas: Equal deployments that share the users.
    """

    drafter: Drafter
    users: int
    replicas: int = 1

    @cached_property
    def plain(self) -> OperatingPoint:
        """The operating point without drafts."""
        return operating_point(self.drafter.plain, self.users, self.replicas)

    @cached_property
    def machine(self) -> DraftMachine:
        """The times of passes on the replica with the most users."""
        return self.drafter.machine(-(-self.users // self.replicas))

    def point(self, choose: Choose) -> OperatingPoint:
        """Return the operating point with some drafts."""
        return operating_point(self.drafter.deployment(choose), self.users, self.replicas)

    def speed_up(self, choose: Choose) -> float:
        """Return tokens per second of a user with some drafts over those without."""
        before, after = self.plain.tpot_s, self.point(choose).tpot_s
        assert before is not None  # tokens are decoded
        assert after is not None
        return before / after

    def best_row(self, curve: Acceptance) -> tuple[int, float]:
        """Return the number of draft tokens in a row that gains most, and its speed-up; (0, 1.0) if none gains."""
        has_one_peak = self.machine.has_one_peak
        return best_draft(curve, lambda tokens: self.speed_up(in_a_row(curve, tokens)), has_one_peak=has_one_peak)

    def best_tree(self, acceptance: DraftAcceptance) -> tuple[DraftTree | None, float]:
        """Return the tree of draft tokens that gains most, and its speed-up; (None, 1.0) if none gains."""
        return fastest_tree(acceptance.shares, lambda tree: self.speed_up(as_tree(tree)), TREE_NODES)


def in_a_row(curve: Acceptance, draft_tokens: int) -> Choose:
    """Return the choice of some draft tokens one after another."""
    return partial(DraftMachine.row, curve=curve, draft_tokens=draft_tokens)


def as_tree(tree: DraftTree) -> Choose:
    """Return the choice of a tree of draft tokens."""
    return partial(DraftMachine.tree, tree=tree)
