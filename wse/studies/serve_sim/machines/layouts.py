"""Choice of the layout of wafers for the requests of a service: pauses and lengths that vary."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from wse.serving.operating_point import Deployment, operating_point
from wse.serving.plan import saturating_users, users_in_flight
from wse.serving.simulation.capacity import stable_replicas
from wse.studies.estimate.layouts.choose_layout import ChosenLayout, choose_layout, choose_layout_by_capacity
from wse.studies.estimate.layouts.compiled_layout import timed_deployment
from wse.studies.estimate.prepare import PreparedEstimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """Users who pause between requests.

    Attributes:
        users: Number of users of all replicas.
        think_s: Seconds from the end of an answer to the next request of the same user.
        replicas: Number of replicas. None selects the minimum number at which the queue stays short.
    """

    users: int
    think_s: float
    replicas: int | None

    def in_flight(self, deployment: Deployment) -> int | None:
        """Return how many users of a replica have a request in flight; None if they saturate it.

        Args:
            deployment: The replica, in a layout for any number of users.
        """
        max_users = saturating_users(deployment)
        capacity = operating_point(deployment, max_users).requests_per_s
        replicas = self.replicas or stable_replicas(self.users / self.think_s, capacity)
        in_flight = users_in_flight(deployment, math.ceil(self.users / replicas), self.think_s)
        return None if in_flight == max_users else in_flight


def service_layout(
    prepared_estimate: PreparedEstimate, pauses: Pauses | None, capacity_of: Callable[[ChosenLayout], float] | None
) -> tuple[ChosenLayout, int | None]:
    """Choose the layout of wafers for the requests of a service.

    1. If users pause, choose a first layout for any number of users, and estimate how many users are
       in flight on it. If these do not saturate it, return the layout that is chosen for their
       number. (Requests are faster on it than on the first one, so fewer users are in flight than
       estimated.)
    2. Otherwise, if lengths vary and only throughput counts (`Goal.only_throughput`), return the
       layout with the highest simulated capacity.
    3. Otherwise, return the layout that suits the requested number of users and objective.

    Args:
        prepared_estimate: The validated request for wafers.
        pauses: Users who pause between requests; None if users do not pause.
        capacity_of: Function that simulates a layout and returns its capacity in requests per
            second. None if all requests have the same lengths.

    Returns:
        The layout, and the number of users in flight for whom it was chosen. This number is None if
        users do not pause, or if they saturate the layout.

    Raises:
        DoesNotFit: The model does not fit.
        BadInput: No layout has enough room for the users' KV caches.
    """
    goal, layout = prepared_estimate.goal, None
    if pauses is not None:  # 1
        layout = choose_layout(prepared_estimate)
        users = pauses.in_flight(timed_deployment(layout.prepared, layout.compilation.program))
        if users is not None:
            return choose_layout(prepared_estimate, goal=replace(goal, users=users)), users
    if capacity_of is not None and goal.only_throughput:  # 2
        return choose_layout_by_capacity(prepared_estimate, capacity_of), None
    return layout or choose_layout(prepared_estimate), None  # 3
