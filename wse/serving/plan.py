"""Plan: the operating point of a deployment that best fits a goal."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from wse.bisection import largest_passing
from wse.serving.goal import LATENCY, Goal
from wse.serving.operating_point import (
    Deployment,
    OperatingPoint,
    operating_point,
    users_with_in_flight,
    users_with_room,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The operating point at which a deployment (a model on a machine) best fits a goal.

    Attributes:
        point: Latency, throughput and cost, with the number of replicas and users. If even a single
            user exceeds the latency limits, the point is for a single user, or for the requested
            users on the requested number of replicas.
        meets: Whether all requested users are served within the latency limits. Some may wait for
            KV-cache space.
        excess: Largest ratio of a latency to its limit, or ratio of the requested users to the
            users that fit, whichever is larger.
    """

    point: OperatingPoint
    meets: bool
    excess: float

    def rank(self, deployment: Deployment, goal: Goal) -> tuple[bool, float, float]:
        """Return the sort key of a plan; the best plan has the smallest key.

        Plans that meet the goal come first, ordered by the objective. Other plans are ordered by
        how far they miss the goal, and then by the duration of a request.

        - For latency, plans with fewer replicas come first. Plans with the same number of replicas
          are ordered by the duration of a request. The number of replicas comes first because more
          replicas always make requests faster, until each user has a machine.
        - For other objectives, plans are ordered by the number of chips divided by the throughput.
          For chips of equal price, this is the order of the cost per token.

        Args:
            deployment: The deployment of the plan.
            goal: Requirements such as the number of users and latency limits.
        """
        if not self.meets:
            return True, self.excess, self.point.request_s
        if goal.objective == LATENCY:
            return False, self.point.replicas, self.point.request_s
        return False, self.point.replicas * deployment.chips / self.point.tokens_per_s, 0.0


def plan(deployment: Deployment, goal: Goal, max_users: int | None = None) -> Plan | None:
    """Return the operating point of a deployment that best fits a goal, or None if no user fits.

    If the goal does not state a number of users, the objective determines it. For latency, it is
    one user. For other objectives, it is the maximum that meets the latency limits, up to the
    number that saturates the machine. If the goal does not state a number of replicas, the plan has
    the fewest that meet the limits.

    Args:
        deployment: Model on one machine in a certain layout.
        goal: Requirements such as the number of users and latency limits.
        max_users: Maximum number of requests in flight per replica. Requests whose KV caches do not
            fit in this layout wait. By default, all caches must fit.
    """
    if not deployment.max_concurrency:
        return None

    def plan_for(users: int, replicas: int = 1) -> Plan:
        """Return the plan with a number of users, who all have room or may wait for it."""
        point = operating_point(deployment, users, replicas)
        excess = goal.excess(point)
        return Plan(point=point, meets=excess <= 1, excess=excess)

    if deployment.shape.think_s and goal.users is not None and goal.replicas is not None:
        return plan_for(goal.users, goal.replicas)  # users who pause may wait for room
    max_users = users_with_in_flight(deployment, max(max_users or 0, deployment.max_concurrency))

    def meets_limits(users: int) -> bool:
        """Return whether one replica meets the latency limits with this number of users."""
        return plan_for(users).meets

    max_users_within_limits = largest_passing(1, max_users + 1, meets_limits) or 0
    within_limits = bool(max_users_within_limits)
    if goal.users is None or (goal.replicas is None and not within_limits):
        users = 1
        if goal.objective != LATENCY and within_limits:
            users = min(max_users_within_limits, saturating_users(deployment))
        return plan_for(users)
    replicas = goal.replicas or math.ceil(goal.users / max_users_within_limits)
    if goal.users > replicas * max_users and not deployment.shape.think_s:
        point = operating_point(deployment, replicas * max_users, replicas)
        return Plan(point=point, meets=False, excess=max(goal.excess(point), goal.users / point.users))
    return plan_for(goal.users, replicas)


def saturating_users(deployment: Deployment) -> int:
    """Return the minimum number of users that saturate a deployment.

    If even the maximum number of users whose requests fit does not saturate it, that maximum is
    returned.
    """
    max_users = users_with_room(deployment)
    unsaturated = largest_passing(1, max_users + 1, lambda users: not operating_point(deployment, users).saturated)
    return min((unsaturated or 0) + 1, max_users)


def users_at_speed(point_of: Callable[[int], OperatingPoint], max_users: int, tokens_per_s: float) -> int:
    """Return the maximum number of users that each get a given speed, or 0 if there is none.

    Args:
        point_of: Function that maps a number of users to the operating point.
        max_users: Maximum number of users to consider, such as the result of `saturating_users`.
        tokens_per_s: Minimum output tokens per second of each user after the first token.
    """

    def is_fast(users: int) -> bool:
        """Return whether each user gets the required speed at this number of users."""
        return (point_of(users).tokens_per_s_per_user or 0.0) >= tokens_per_s

    return largest_passing(1, max_users + 1, is_fast) or 0
