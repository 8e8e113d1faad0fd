"""Choice of the layout of wafers for a service whose users may pause and whose lengths may vary."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from wse.serving.operating_point import operating_point, users_with_in_flight
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
    if capacity_of is not None and prepared_estimate.goal.only_throughput:
        return choose_layout_by_capacity(prepared_estimate, capacity_of)
    layout = choose_layout(prepared_estimate)
    if capacity_of is None or not prepared_estimate.shape.think_s or requests_in_flight(layout) is not None:
        return layout
    request = replace_options(prepared_estimate.request, users=None, think_time=None, replicas=1)
    for_any_users = replace(prepared_estimate, request=request)
    return choose_layout_by_capacity(for_any_users, capacity_of) if for_any_users.goal.only_throughput else layout


def requests_in_flight(layout: ChosenLayout) -> int | None:
    """Return how many requests a replica has in flight if its users pause, rounded up.

    The result is None if users do not pause, or if they saturate the layout.
    """
    prepared_estimate = layout.prepared
    goal = prepared_estimate.goal
    if goal.users is None or not prepared_estimate.shape.think_s:
        return None
    deployment = timed_deployment(prepared_estimate, layout.compilation.program)
    replicas = goal.replicas_for(users_with_in_flight(deployment, deployment.max_concurrency))
    point = operating_point(deployment, goal.users, replicas)
    return None if point.saturated else max(1, math.ceil(point.in_flight / replicas))
