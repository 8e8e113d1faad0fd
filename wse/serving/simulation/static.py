"""Static batching: requests wait for a bus, ride together, and the bus comes back when the last of them is done.

The bus leaves when all its seats are taken, when the first of those who wait has waited long enough, or when no more
come. All prompts are read, then all seats are decoded to the longest answer: who is done earlier keeps the seat.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from wse.serving.simulation.decode_times import DecodeTimes, decode_times
from wse.serving.simulation.drafts import Drafts, answer_passes
from wse.serving.simulation.outcome import Outcome, Recorder
from wse.serving.simulation.pass_costs import PassCosts, Piece
from wse.serving.simulation.progress import OnDone, ignore, reporter
from wse.serving.simulation.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticPolicy:
    """The policy of static batching: batch slots of the bus, and seconds after which it leaves with fewer."""

    seats: int
    longest_wait_s: float = math.inf


def simulate_static(
    workload: Workload,
    costs: PassCosts,
    policy: StaticPolicy,
    *,
    drafts: Drafts | None = None,
    on_done: OnDone = ignore,
) -> Outcome:
    """Serve all requests; each must fit the cache on its own. ``on_done`` is called now and then
    with the number of requests that have left.

    With ``drafts`` a decode pass of ``costs`` is one that verifies a draft, with what the draft takes; contexts are
    counted in passes then.
    """
    record, report = Recorder(workload), reporter(on_done, len(workload))
    of_answers = answer_passes(workload, drafts)
    prompts: list[int] = workload.prompt_tokens.tolist()
    needs = list(map(cache(costs.room_tokens), (workload.prompt_tokens + workload.new_tokens).tolist()))
    times: dict[int, tuple[DecodeTimes, DecodeTimes]] = {}
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
            times[users] = decode_times(costs, users, of_answers.tokens_per_pass)
        of_users, work = times[users]
        context = sum(of_answers.contexts[rider] for rider in riders) // users
        passes = [of_answers.passes[rider] for rider in riders]
        end = begin + of_users.run_s(context, max(passes))
        record.busy_s += end - leaves
        record.work_s += costs.work_s(0, 0, pieces) + work.run_s(context, max(passes))
        record.advance(end)
        decoded = 0
        for done, (until, rider) in enumerate(sorted(zip(passes, riders, strict=True))):
            decoded = _decode(record, of_users, context, decoded, until, users - done)
            record.start_s[rider], record.first_s[rider] = leaves, begin + costs.host_s
            left = begin + of_users.run_s(context, decoded)
            record.end_s[rider] = left + costs.host_s
            record.leave(rider, left)
        first = riders.stop
        report(record.left)
    return record.outcome()


def _seated(first: int, needs: list[int], capacity: int, seats: int) -> int:
    """Return one past the last request that finds a seat and room for its cache beside those from ``first`` on."""
    after, room = first, capacity
    while after < len(needs) and after - first < seats and (after == first or needs[after] <= room):
        room -= needs[after]
        after += 1
    return after


def _decode(record: Recorder, times: DecodeTimes, context: int, decoded: int, until: int, users: int) -> int:
    """Take down the passes until some users are done; how many there have been."""
    if until > decoded:
        first, last = (times.pass_s(context + passes) for passes in (decoded, until - 1))
        record.decode_run(first, last, until - decoded, users, times.run_s(context + decoded, until - decoded))
    return until
