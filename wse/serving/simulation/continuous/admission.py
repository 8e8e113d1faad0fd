"""Admission: the requests that wait for admission, and the batch slots and KV caches they wait for.

Waiting requests are admitted in order, the fast tier first, while there are free batch slots and
room for their KV caches. No request is overtaken by one of the same or of a lower tier.
"""

from __future__ import annotations

from collections import deque
from math import inf

from wse.serving.simulation.continuous.policy import ContinuousPolicy
from wse.serving.simulation.costs.pass_costs import PassCosts
from wse.serving.simulation.kv.kv_room import KvRoom
from wse.serving.simulation.workload import NORMAL, Workload


class Admission:
    """Queues of requests that wait for admission, with the free batch slots and KV-cache space.

    There is one queue per service tier (fast or normal).

    Attributes:
        room: Allocation of the KV cache.
        free_slots: Number of free batch slots.
        tiers: Service tier of each request.
        released_s: Time at which the last request left the machine; -inf if none has left.
    """

    def __init__(self, workload: Workload, costs: PassCosts, policy: ContinuousPolicy) -> None:
        """Create empty queues of a machine without requests.

        Args:
            workload: The requests. Each must fit in the KV cache by itself.
            costs: Capacity of the machine.
            policy: Number of batch slots, and whether prefixes stay in the cache or in tiers.
        """
        self.room = KvRoom(workload, costs, prefix_cache=policy.prefix_cache, kv_tiers=policy.kv_tiers)
        self.free_slots = policy.max_users
        self.tiers: list[int] = workload.tier.tolist()
        self.released_s = -inf
        self._is_tiered = len(set(self.tiers)) > 1
        self._queues: list[deque[int]] = [deque() for _ in range(NORMAL + 1)]
        self._was_full = False

    def extend(self, workload: Workload) -> None:
        """Append requests, which get the next indices. `add` puts them into their queues."""
        self.room.extend(workload)
        self.tiers += workload.tier.tolist()
        self._is_tiered = self._is_tiered or set(workload.tier.tolist()) != {self.tiers[0]}

    def add(self, request: int) -> None:
        """Add a request that has arrived to the queue of its tier."""
        self._queues[self.tiers[request]].append(request)

    def remove(self, request: int) -> bool:
        """Remove a request from its queue. Return whether it was waiting."""
        queue = self._queues[self.tiers[request]]
        is_waiting = request in queue
        if is_waiting:
            queue.remove(request)
        return is_waiting

    @property
    def head_fits(self) -> bool:
        """True if the next waiting request can be admitted: a batch slot and space are free."""
        head = self._head()
        return head is not None and self._fits(head)

    def admit_head(self) -> tuple[int, int]:
        """Admit the next waiting request, and reserve a batch slot and space for its cache.

        Returns:
            Index of the request, and number of tokens of its prompt that are already in the cache.
        """
        request = next(queue for queue in self._queues if queue).popleft()
        self.free_slots -= 1
        return request, self.room.take(request)

    def release(self, request: int, now_s: float) -> None:
        """Free the batch slot and the cache of a request that leaves."""
        if self.released_s < now_s:
            self._was_full = self._head() is not None and not self.head_fits
            self.released_s = now_s
        self.free_slots += 1
        self.room.give_back(request)

    def needed_release(self, now_s: float) -> bool:
        """Return whether the next waiting request fits only because another request has just left.

        This is the case if a request left at ``now_s``, and the next waiting request did not fit
        before.
        """
        return self.released_s == now_s and self._was_full

    def may_admit_arrival(self, request: int) -> bool:
        """Return whether the request that arrives next may be admitted before another one leaves.

        With a single service tier, no request may be waiting, and the new request must fit. With
        several tiers, it suffices that no request of the fast tier is waiting.
        """
        head = self._head()
        if self._is_tiered:
            return head is None or self.tiers[head] == NORMAL
        return head is None and self._fits(request)

    def _head(self) -> int | None:
        """Return the index of the request to admit next; None if no request waits."""
        return next((queue[0] for queue in self._queues if queue), None)

    def _fits(self, request: int) -> bool:
        """Return whether a batch slot is free and the KV cache of the request fits."""
        return self.free_slots > 0 and self.room.fits(request)
