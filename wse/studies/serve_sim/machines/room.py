"""KV-cache limits of a machine: whether a workload's requests fit, and how many."""

from __future__ import annotations

from wse.errors import BadInput, DoesNotFit
from wse.serving.simulation.pass_costs import PassCosts, users_that_fit
from wse.serving.simulation.workload import Workload


def check_room(workload: Workload, costs: PassCosts) -> None:
    """Check that the KV cache of the longest request fits when no other request is served.

    Args:
        workload: The requests.
        costs: Costs of passes, and the KV-cache capacity.

    Raises:
        DoesNotFit: The KV cache is too large.
    """
    slots = costs.room_tokens(workload.most_tokens)
    if slots > costs.kv_capacity_tokens:
        message = (
            f"the KV cache of the longest request is too large: {workload.most_tokens:,} tokens need {slots:,} "
            f"slots, but there is room for {costs.kv_capacity_tokens:,}; give more wafers or GPUs, or shorter requests "
            "(a smaller --context, and for a trace --too-long skip)"
        )
        raise DoesNotFit(message)


def max_users_of(max_users: int | None, workload: Workload, costs: PassCosts, *, shares_prefixes: bool) -> int:
    """Return the maximum number of concurrent users per replica.

    Args:
        max_users: Requested number. None selects the number of users whose KV caches fit if all of
            them send the shortest request.
        workload: The requests.
        costs: Costs of passes, and the KV-cache capacity.
        shares_prefixes: Whether a prompt prefix that several users share is cached only once.

    Raises:
        BadInput: The requested number exceeds the KV-cache capacity, even for the shortest
            requests, or the number of users supported by passes.
    """
    block, prefix_tokens = costs.kv_block_tokens, workload.prefix_tokens if shares_prefixes else 0
    own_tokens = int((workload.prompt_tokens + workload.new_tokens - prefix_tokens // block * block).min())
    min_slots, room = costs.room_tokens(own_tokens), costs.kv_capacity_tokens
    limit = users_that_fit(costs, own_tokens)
    if max_users is not None and max_users > limit:
        reason = f"caches have room for {room:,} tokens, and a request needs at least {min_slots:,}"
        if limit == costs.max_users:
            reason = "a machine serves no more at a time"
        raise BadInput(f"--max-users {max_users}: {reason}; give at most {limit}, or more wafers or GPUs")
    return max_users or limit
