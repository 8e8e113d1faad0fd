"""Search for the number of draft tokens, or the draft tree, with the most tokens/s per user."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final, Protocol

from wse.serving.drafts.machine import DraftMachine, DraftSteps
from wse.serving.drafts.speculation import Acceptance, best_draft
from wse.serving.drafts.tree import DraftTree, fastest_tree
from wse.serving.operating_point import Deployment, OperatingPoint, operating_point
from wse.studies.options.drafts.acceptance import DraftAcceptance

TREE_NODES: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Node counts of the draft trees to try."""

Choose = Callable[[DraftMachine], DraftSteps]
"""Choice of drafts, as a function from a machine's times per pass to the times with the drafts."""


class Drafter(Protocol):
    """Wafers or GPUs for which the best number of draft tokens is to be found.

    In speculative decoding, a faster method, such as a small draft model, proposes draft tokens.
    The model verifies all of them in one pass.
    """

    @property
    def plain(self) -> Deployment:
        """The deployment without speculative decoding."""

    def machine(self, users: float) -> DraftMachine:
        """Return the times of draft and verification passes with ``users`` concurrent users."""

    def deployment(self, choose: Choose) -> Deployment:
        """Return the description of the model on these machines with speculative decoding.

        Args:
            choose: Function from `in_a_row` or `as_tree` that computes the time of a pass with a
                certain number or tree of draft tokens.
        """


@dataclass(frozen=True, kw_only=True)
class UsersOfDrafts:
    """The users of a model with speculative decoding, and the replicas that serve them.

    Attributes:
        drafter: Wafers or GPUs of each replica, with the model and its draft.
        users: Number of users of all replicas.
        replicas: Number of identical machines that share the users.
    """

    drafter: Drafter
    users: int
    replicas: int = 1

    @cached_property
    def plain(self) -> OperatingPoint:
        """Operating point without speculative decoding."""
        return operating_point(self.drafter.plain, self.users, self.replicas)

    @cached_property
    def machine(self) -> DraftMachine:
        """Times of draft passes and verification passes, with the requests that a replica has in flight."""
        return self.drafter.machine(
            math.ceil(min(self.plain.in_flight / self.replicas, self.drafter.plain.max_concurrency))
        )

    def point(self, choose: Choose) -> OperatingPoint:
        """Return the speed and cost per token with a given number or tree of draft tokens.

        Args:
            choose: Function from `in_a_row` or `as_tree` that computes the time of a pass with
                these draft tokens.
        """
        return operating_point(self.drafter.deployment(choose), self.users, self.replicas)

    def speed_up(self, choose: Choose) -> float:
        """Return the factor by which speculative decoding increases tokens/s per user.

        If the machine is saturated with speculative decoding, users wait longer for their first
        token. The speed-up is then at most the gain in throughput.

        Args:
            choose: Function from `in_a_row` or `as_tree` that computes the time of a pass with a
                certain number or tree of draft tokens.
        """
        plain, drafted = self.plain, self.point(choose)
        assert plain.tpot_s is not None  # tokens are decoded
        assert drafted.tpot_s is not None
        speed_up = plain.tpot_s / drafted.tpot_s
        return min(speed_up, drafted.tokens_per_s / plain.tokens_per_s) if drafted.saturated else speed_up

    def best_row(self, curve: Acceptance) -> tuple[int, float]:
        """Find the number of sequential draft tokens with the highest speed-up.

        Args:
            curve: Mean number of tokens that a verification pass yields, for each number of draft
                tokens.

        Returns:
            The number of draft tokens and the speed-up; (0, 1.0) if drafts never increase speed.
        """
        has_one_peak = self.machine.has_one_peak
        return best_draft(curve, lambda tokens: self.speed_up(in_a_row(curve, tokens)), has_one_peak=has_one_peak)

    def best_tree(self, acceptance: DraftAcceptance) -> tuple[DraftTree | None, float]:
        """Find the draft tree (alternative tokens at each position) with the highest speed-up.

        Returns:
            The tree and the speed-up; (None, 1.0) if no tree increases speed.
        """
        return fastest_tree(acceptance.choice_acceptances, lambda tree: self.speed_up(as_tree(tree)), TREE_NODES)


def in_a_row(curve: Acceptance, draft_tokens: int) -> Choose:
    """Return a function that computes the time of a pass with a fixed number of draft tokens.

    The tokens are proposed one after the other and then verified together in one pass of the model.

    Args:
        curve: Mean number of tokens that a verification pass yields, for each number of draft
            tokens.
        draft_tokens: Number of draft tokens per verification pass.

    Returns:
        A function from the timing functions of a machine to the duration of a verification pass and
        its draft passes.
    """
    return partial(DraftMachine.row, curve=curve, draft_tokens=draft_tokens)


def as_tree(tree: DraftTree) -> Choose:
    """Return a function that computes the time of a pass with a certain draft tree.

    A draft tree proposes alternative tokens at each position, and the model verifies all of them in
    one pass. The returned function gets the timing functions of a machine, and returns the duration
    of a verification pass and its draft passes.
    """
    return partial(DraftMachine.tree, tree=tree)
