"""Choice of the layout of wafers for a service whose users may pause and whose lengths may vary."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from wse.serving.goal import Goal
from wse.serving.operating_point import Deployment, operating_point, users_with_room
from wse.studies.estimate.layouts.choose_layout import ChosenLayout, choose_layout, choose_layout_by_capacity
from wse.studies.estimate.layouts.compiled_layout import timed_deployment
from wse.studies.estimate.prepare import PreparedEstimate
from wse.studies.options.option import replace_options


def service_layout(
    prepared_estimate: PreparedEstimate, capacity_of: Callable[[ChosenLayout], float] | None
) -> ChosenLayout:
    """Choose the layout of wafers for the requests of a service.

    If lengths vary, the objective is not latency, and no users are given or users who pause saturate
    the layout for equal lengths, it is the layout with the highest simulated capacity. Otherwise, it
    is the layout that suits the requested number of users and objective.

    Args:
        prepared_estimate: The validated request for wafers.
        capacity_of: Function that simulates a layout and returns its capacity in requests per
            second. None if all requests have the same lengths.

    Raises:
        DoesNotFit: The model does not fit.
        BadInput: No layout has enough room for the users' KV caches.
    """
    request = replace_options(prepared_estimate.request, users=None, think_time=None, replicas=1)
    for_any_users = replace(prepared_estimate, request=request)
    if capacity_of is None or not for_any_users.goal.only_throughput:
        return choose_layout(prepared_estimate)
    if prepared_estimate.goal.users is not None:
        layout = choose_layout(prepared_estimate)
        if not prepared_estimate.shape.think_s:
            return layout
        deployment = timed_deployment(layout.prepared, layout.compilation.program)
        if requests_in_flight(layout.prepared.goal, deployment) is not None:
            return layout
    return choose_layout_by_capacity(for_any_users, capacity_of)


def requests_in_flight(goal: Goal, deployment: Deployment) -> int | None:
    """Return how many requests a replica has in flight if its users pause, rounded up.

    The result is None if users do not pause, or if they saturate the deployment.

    Args:
        goal: Numbers of users and replicas.
        deployment: The deployment of each replica.
    """
    if goal.users is None or not deployment.shape.think_s:
        return None
    replicas = goal.replicas_for(users_with_room(deployment))
    point = operating_point(deployment, goal.users, replicas)
    return None if point.saturated else max(1, math.ceil(point.in_flight / replicas))
