"""Stalls: whether the streams of a plan can wait for each other in a circle, found without a run.

A stream waits for another

1. at a router, where the two have one colour and the other comes before it: the switch has its next position when the
   other's last word has passed, and words on one colour stay in their order;
2. on a PE, whose main thread executes its operations one after another;
3. in a PE's memory: what uses words waits for what stores them before it, and what replaces words for those before it
   that use them; the words of a pattern are sent from where they are received;
4. as a part of one operation: a PE that adds what it receives and sends it on does both at once, so neither goes
   without the other. Such streams are one group.

Groups that wait for each other in a circle, or for themselves, stall as soon as a message has more words than the
queues in transit hold. Where there is no circle nothing stalls, for any number of words: the group that is first goes,
then those behind it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from wse.backends.wavelet.plan import Flow, Plan
from wse_mappings.schedule import COMBINING, Arrival


def find_stall(plan: Plan) -> str:
    """Return the first deadlock of streams, or the first colour with two uses on a PE, as text.

    Empty where nothing stalls.
    """
    return _mixed_colour(plan) or _circle(plan)


def _mixed_colour(plan: Plan) -> str:
    """Return a PE that adds some words of a colour and stores others, so that two threads would read one queue."""
    combines: dict[tuple[int, int], bool] = {}
    for flow in plan.flows:
        for place in flow.receivers:
            adds = flow.arrival in COMBINING
            if combines.setdefault((place, flow.colour), adds) != adds:
                return f"PE {place} adds some words of colour {flow.colour} and stores others; give these two colours"
    return ""


def _circle(plan: Plan) -> str:
    """Return the first ring of groups of messages that wait for each other, as text."""
    number = {id(flow): i for i, flow in enumerate(plan.flows)}
    if all(step.receive is None or step.send is None for step in plan.operations):
        order = [number[id(step.flow)] for step in plan.operations]
        if order == sorted(order):
            return ""  # each stream is a group on its own, and waits for streams before it alone
    group = list(range(len(plan.flows)))  # 4. streams of one operation, by union and find

    def root(i: int) -> int:
        while group[i] != i:
            group[i] = group[group[i]]
            i = group[i]
        return i

    for step in plan.operations:
        if step.receive is not None and step.send is not None:
            group[root(number[id(step.receive)])] = root(number[id(step.send)])
    waits: dict[int, dict[int, tuple[Flow, Flow]]] = defaultdict(dict)
    for later, earlier in _waiting(plan):
        waits[root(number[id(later)])].setdefault(root(number[id(earlier)]), (later, earlier))
    circle = _first_circle(waits)
    named = [f"{_message(later)} for {_message(earlier)}" for later, earlier in circle]
    return f"messages wait in a circle: {', '.join(named)}; give them other colours or another order" if named else ""


def _waiting(plan: Plan) -> Iterator[tuple[Flow, Flow]]:
    """Return the pairs of streams of which the first waits for the second."""
    for positions in plan.positions.values():  # 1. at a router
        yield from ((later, earlier) for earlier, later in pairwise(flow for turn in positions for flow in turn.flows))
    last: dict[int, list[Flow]] = {}  # on the main thread of a PE
    users: dict[tuple[int, int], list[Flow]] = {}  # of the words of a part on a PE
    stored: dict[tuple[int, int], Flow] = {}
    for step in plan.operations:
        flows = [flow for flow in (step.receive, step.send) if flow is not None]
        words = step.place, step.flow.part
        if step.receive is not None and step.receive.arrival not in COMBINING:
            if step.receive.arrival == Arrival.REPLACE:  # 3. a multicast's words follow the operands that they are of
                yield from ((step.receive, user) for user in users.get(words, ()))
            stored[words] = step.receive
            continue
        yield from ((flow, before) for flow in flows for before in last.get(step.place, ()))  # 2. on a PE
        yield from ((flow, stored[words]) for flow in flows if words in stored)  # 3. in memory
        last[step.place] = users[words] = flows


def _first_circle(waits: dict[int, dict[int, tuple[Flow, Flow]]]) -> list[tuple[Flow, Flow]]:
    """Return the pairs of streams along a ring of groups; empty without one."""
    finished: set[int] = set()
    for start in waits:
        path, place = [start], {start: 0}
        branches = [iter(waits.get(start, ()))]
        while path:
            following = next(branches[-1], None)
            if following is None:
                branches.pop()
                place.pop(path[-1])
                finished.add(path.pop())
            elif following in place:
                circle = [*path[place[following] :], following]
                return [waits[a][b] for a, b in pairwise(circle)]
            elif following not in finished:
                place[following] = len(path)
                path.append(following)
                branches.append(iter(waits.get(following, ())))
    return []


def _message(flow: Flow) -> str:
    return f"{flow.source} to {flow.receivers[-1]} on colour {flow.colour}"
