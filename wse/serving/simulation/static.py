"""Static batching: requests wait for a bus, ride together, and the bus comes back when the last of them is done.

The bus leaves when all its seats are taken, when the first of those who wait has waited long enough, or when no more
come. All prompts are read, then all seats are decoded to the longest answer: who is done earlier keeps the seat.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from wse.serving.simulation.decode_times import DecodeTimes
from wse.serving.simulation.outcome import Outcome, Recorder
from wse.serving.simulation.pass_costs import PassCosts, Piece
from wse.serving.simulation.progress import OnDone, ignore, reporter
from wse.serving.simulation.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticPolicy:
    """The policy of static batching: seats of the bus, and seconds after which it leaves with fewer."""

    seats: int
    longest_wait_s: float = math.inf


def simulate_static(workload: Workload, costs: PassCosts, policy: StaticPolicy, *, on_done: OnDone = ignore) -> Outcome:
    """Serve all requests; each must fit the cache by itself. ``on_done`` is told how many have left, now and then."""
    record, report = Recorder(workload), reporter(on_done, len(workload))
    prompts: list[int] = workload.prompt_tokens.tolist()
    answers: list[int] = workload.new_tokens.tolist()
    block = costs.kv_block_tokens
    needs = [-(-(prompt + answer) // block) * block for prompt, answer in zip(prompts, answers, strict=True)]
    times: dict[int, DecodeTimes] = {}
    works: dict[int, DecodeTimes] = {}
    first = 0
    while first < len(prompts):
        after = _seated(first, needs, costs.kv_capacity_tokens, policy.seats)
        leaves = max(record.now, min(record.arrivals[after - 1], record.arrivals[first] + policy.longest_wait_s))
        record.advance(leaves)
        riders = range(first, min(after, record.arrived))
        pieces = [Piece(prompts[rider], 0) for rider in riders]
        begin = leaves + costs.round_s(0, 0, pieces) + costs.drain_s(pieces[-1])
        users = len(riders)
        if users not in times:
            times[users] = DecodeTimes(costs.contexts, partial(_pass_s, costs, users))
            works[users] = DecodeTimes(costs.contexts, partial(_work_s, costs, users))
        context = _context(costs, [piece.tokens for piece in pieces])
        passes = max(answers[rider] for rider in riders) - 1
        end = begin + times[users].run_s(context, passes)
        record.busy_s += end - leaves
        record.work_s += costs.work_s(0, 0, pieces) + works[users].run_s(context, passes)
        record.advance(end)
        decoded = 0
        for done, rider in enumerate(sorted(riders, key=lambda rider: answers[rider])):
            decoded = _decode(record, times[users], context, decoded, answers[rider] - 1, users - done)
            record.start_s[rider], record.first_s[rider] = leaves, begin + costs.host_s
            left = begin + times[users].run_s(context, decoded)
            record.end_s[rider] = left + costs.host_s
            record.leave(rider, left)
        first = riders.stop
        report(record.left)
    return record.outcome()


def _seated(first: int, needs: list[int], capacity: int, seats: int) -> int:
    """One past the last request that finds a seat and room for its cache beside those from ``first`` on."""
    after, room = first, capacity
    while after < len(needs) and after - first < seats and (after == first or needs[after] <= room):
        room -= needs[after]
        after += 1
    return after


def _context(costs: PassCosts, prompts: list[int]) -> int:
    return max(prompts) if costs.context_use == "longest" else sum(prompts) // len(prompts)


def _pass_s(costs: PassCosts, users: int, context: int) -> float:
    return costs.round_s(users, context, ())


def _work_s(costs: PassCosts, users: int, context: int) -> float:
    return costs.work_s(users, context, ())


def _decode(record: Recorder, times: DecodeTimes, context: int, decoded: int, until: int, users: int) -> int:
    """Take down the passes until some users are done; how many there have been."""
    if until > decoded:
        first, last = (times.pass_s(context + passes) for passes in (decoded, until - 1))
        record.decode_run(first, last, until - decoded, users, times.run_s(context + decoded, until - decoded))
    return until
