"""Plan: the operating point of a deployment that comes nearest to a goal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wse.serving.goal import LATENCY, Goal
from wse.serving.operating_point import Deployment, OperatingPoint, largest_that, operating_point


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The operating point of a deployment that comes nearest to a goal.

    Attributes:
        point: The operating point. Where no number of users keeps the limits it is that of one user alone.
        meets: Whether all users have room and the limits are kept.
        excess: `Goal.excess` of the point, or users over those that have room, whichever is larger.
    """

    point: OperatingPoint
    meets: bool
    excess: float

    def rank(self, deployment: Deployment, goal: Goal) -> tuple[bool, float, float]:
        """Return what plans are ordered by, the best first: by the objective, after those by excess that do not meet.

        The fastest request is that of the fewest replicas: with more of them each request would be faster, up to a
        machine for each user. Chips over tokens per second orders plans on chips of one price as their cost per token
        does.
        """
        if not self.meets:
            return True, self.excess, 0.0
        if goal.objective == LATENCY:
            request_s = self.point.ttft_s + (deployment.shape.new_tokens - 1) * (self.point.tpot_s or 0.0)
            return False, self.point.replicas, request_s
        return False, self.point.replicas * deployment.chips / self.point.tokens_per_s, 0.0


def plan(deployment: Deployment, goal: Goal) -> Plan | None:
    """Return the operating point of a deployment that comes nearest to a goal; None without room for any user.

    Without a number of users, that of the fastest request is one user alone. Any other objective takes the most users
    that keep the limits, and no more than saturate the machine.
    Without a number of replicas it has the fewest that keep the limits.
    """
    if not deployment.max_concurrency:
        return None

    def keeps(concurrency: int) -> bool:
        return goal.excess(operating_point(deployment, concurrency)) <= 1

    most = largest_that(keeps, deployment.max_concurrency)
    if not most:
        point = operating_point(deployment, 1)
        return Plan(point=point, meets=False, excess=goal.excess(point))
    if goal.users is None:
        users = 1 if goal.objective == LATENCY else min(most, saturating_users(deployment))
        point = operating_point(deployment, users)
        return Plan(point=point, meets=True, excess=goal.excess(point))
    replicas = goal.replicas_for(most)
    if goal.users > replicas * deployment.max_concurrency:
        point = operating_point(deployment, replicas * deployment.max_concurrency, replicas)
        return Plan(point=point, meets=False, excess=max(goal.excess(point), goal.users / point.concurrency))
    point = operating_point(deployment, goal.users, replicas)
    return Plan(point=point, meets=goal.excess(point) <= 1, excess=goal.excess(point))


def saturating_users(deployment: Deployment) -> int:
    """Return the fewest users that saturate a deployment, or as many as fit where these do not."""
    unsaturated = largest_that(
        lambda users: not operating_point(deployment, users).saturated, deployment.max_concurrency
    )
    return min(unsaturated + 1, deployment.max_concurrency)


def users_at_speed(point_of: Callable[[int], OperatingPoint], max_users: int, tokens_per_s: float) -> int:
    """Return the most users that each get a number of tokens per second; 0 where one alone does not.

    Args:
        point_of: The operating point of a number of users.
        max_users: Users to look at, such as `saturating_users`.
        tokens_per_s: Output tokens per second of each user after the first token, at least.
    """

    def is_fast(users: int) -> bool:
        return (point_of(users).tokens_per_s_per_user or 0.0) >= tokens_per_s

    return largest_that(is_fast, max_users)
