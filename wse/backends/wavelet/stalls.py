"""Stalls: whether streams of a plan can wait for each other forever, found without simulation.

A stream waits for another stream in these cases:

1. At a router, if both have the same colour and the other stream is first. The switch advances when
   the last word of the other stream has passed, and words of one colour stay in order.
2. On a PE, because its main thread executes operations sequentially.
3. In the SRAM of a PE. An operation that uses words waits for the operation that stored them. An
   operation that replaces words waits for earlier operations that use them. Words of a pattern are
   sent from the address where they are received.
4. As a part of one operation. A PE that adds received words and forwards the sum does both
   simultaneously, so neither stream can proceed without the other. Such streams form a group.

Groups that wait for each other circularly, or for themselves, stall as soon as a message has more
words than fit into the queues on its path. Without a circular wait, nothing stalls for any number
of words: the first group proceeds, then the groups after it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from wse.backends.wavelet.components import circular_wait
from wse.backends.wavelet.plan import Flow, Plan
from wse_mappings.schedule import COMBINING, Arrival


def find_stall(plan: Plan) -> str:
    """Describe the first possible stall of a planned pattern; "" if there is none.

    A stall is a circular wait of streams, or a colour that a PE uses both for words that it adds
    and for words that it stores.
    """
    return _mixed_colour(plan) or _circular_wait(plan)


def _mixed_colour(plan: Plan) -> str:
    """Return an error text if a PE adds some messages of a colour and stores others; else "".

    On such a PE, one thread adds received words and another thread stores received words. Both
    would read from the queue of the colour, so that words could reach the wrong thread.
    """
    combines: dict[tuple[int, int], bool] = {}
    for flow in plan.flows:
        for place in flow.receivers:
            adds = flow.arrival in COMBINING
            if combines.setdefault((place, flow.colour), adds) != adds:
                return f"PE {place} adds some words of colour {flow.colour} and stores others; give these two colours"
    return ""


def _circular_wait(plan: Plan) -> str:
    """Return an error text for the first messages that wait for each other in a circle; else "".

    1. If no operation both receives and sends, and operations are in the order of the streams, no
       circular wait is possible.
    2. Streams that one operation receives and sends are merged into a group, because neither can
       proceed without the other.
    3. For each group, the groups that it waits for are collected and searched for a circular wait.
    """
    number = {id(flow): i for i, flow in enumerate(plan.flows)}
    if all(step.receive is None or step.send is None for step in plan.operations):
        order = [number[id(step.flow)] for step in plan.operations]
        if order == sorted(order):  # 1
            return ""  # each stream is a group on its own and waits only for earlier streams
    group = list(range(len(plan.flows)))  # 2. a union-find structure

    def root(i: int) -> int:
        """Return the stream that identifies the group to which stream ``i`` belongs.

        Streams that one operation receives and sends form a group.
        """
        while group[i] != i:
            group[i] = group[group[i]]
            i = group[i]
        return i

    for step in plan.operations:
        if step.receive is not None and step.send is not None:
            group[root(number[id(step.receive)])] = root(number[id(step.send)])
    waits: dict[int, dict[int, tuple[Flow, Flow]]] = defaultdict(dict)  # 3
    for waiting_flow, awaited_flow in _waiting_pairs(plan):
        waits[root(number[id(waiting_flow)])].setdefault(root(number[id(awaited_flow)]), (waiting_flow, awaited_flow))
    circle = circular_wait(list(waits), lambda number: waits.get(number, ()))
    if not circle:
        return ""
    pairs = [waits[a][b] for a, b in zip(circle, [*circle[1:], *circle[:1]], strict=True)]
    wait_texts = [f"{_message(waiting_flow)} for {_message(awaited_flow)}" for waiting_flow, awaited_flow in pairs]
    return f"messages wait in a circle: {', '.join(wait_texts)}; give them other colours or another order"


def _waiting_pairs(plan: Plan) -> Iterator[tuple[Flow, Flow]]:
    """Yield all pairs of streams in which the first stream waits for the second.

    1. At a router, a stream waits for an earlier stream that has the same colour.
    2. On a PE, the main thread executes operations sequentially.
    3. In the SRAM of a PE, a stream that uses words waits for the stream that stored them. A stream
       that replaces words waits for the streams that still use them.
    """
    for positions in plan.positions.values():  # 1. at a router
        flows_in_order = (flow for position in positions for flow in position.flows)
        yield from ((second, first) for first, second in pairwise(flows_in_order))
    last: dict[int, list[Flow]] = {}  # last streams on the main thread of a PE
    users: dict[tuple[int, int], list[Flow]] = {}  # last streams that use the words of a part on a PE
    storing_flows: dict[tuple[int, int], Flow] = {}  # last stream that stored the words of a part on a PE
    for step in plan.operations:
        flows = [flow for flow in (step.receive, step.send) if flow is not None]
        words = step.place, step.flow.part
        if step.receive is not None and step.receive.arrival not in COMBINING:
            if step.receive.arrival == Arrival.REPLACE:  # 3. not for a multicast, whose words depend on the old ones
                yield from ((step.receive, user) for user in users.get(words, ()))
            storing_flows[words] = step.receive
            continue
        yield from ((flow, earlier_flow) for flow in flows for earlier_flow in last.get(step.place, ()))  # 2. on a PE
        yield from ((flow, storing_flows[words]) for flow in flows if words in storing_flows)  # 3. in memory
        last[step.place] = users[words] = flows


def _message(flow: Flow) -> str:
    """Describe a stream of words for an error message: its source, last receiver and colour."""
    return f"{flow.source} to {flow.receivers[-1]} on colour {flow.colour}"
