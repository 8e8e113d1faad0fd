"""Simulation of static batching: a batch of requests is read, decoded and finished as a whole.

A batch starts when all of its slots are filled, when the first waiting request has waited for the
longest allowed time, or when no more requests will arrive. In a closed loop, in which each user
sends the next request when an answer ends, no more arrive once all users wait.

All prompts of a batch are read first. Then all slots are decoded until the longest answer is
complete. A request that ends earlier keeps its slot until then.
"""

from __future__ import annotations

import math
from functools import cache

from wse.reports.progress import ignore
from wse.serving.simulation.costs.decode_times import DecodeTimes, decode_times
from wse.serving.simulation.costs.pass_costs import PassCosts, PromptPart
from wse.serving.simulation.drafts import Drafts, answer_passes
from wse.serving.simulation.outcome import Recorder, SimulationOutcome
from wse.serving.simulation.progress import OnDone, reporter
from wse.serving.simulation.workload import Workload


def simulate_static(
    workload: Workload,
    costs: PassCosts,
    *,
    batch_slots: int,
    longest_wait_s: float = math.inf,
    drafts: Drafts | None = None,
    on_done: OnDone = ignore,
) -> SimulationOutcome:
    """Simulate a machine that serves all requests of a workload with static batching.

    All requests of a batch start together, and the next batch starts when the last request ends.
    For each batch:

    1. Determine its requests and when it starts.
    2. Compute when all prompts have been processed and when the longest answer ends.
    3. Record the decode passes, and the times of each request as its answer ends.

    Args:
        workload: The requests. Each must fit in the KV cache by itself.
        costs: Pass times. With speculative decoding, a decode pass consists of a verification pass
            and its draft passes.
        batch_slots: Maximum number of requests in a batch.
        longest_wait_s: Maximum time in seconds that a request waits before a batch starts with empty
            slots.
        drafts: How many draft tokens are accepted; None without speculative decoding.
        on_done: Function that is called periodically with the number of requests that have left.

    Returns:
        The times of all requests.
    """
    record, report = Recorder(workload, keeps_distance=False), reporter(on_done, len(workload))
    answers = answer_passes(workload, drafts)
    prompts: list[int] = workload.prompt_tokens.tolist()
    needs = list(map(cache(costs.room_tokens), (workload.prompt_tokens + workload.new_tokens).tolist()))
    times: dict[int, tuple[DecodeTimes, DecodeTimes]] = {}
    first = 0
    while first < len(prompts):
        batch_end = _batch_end(first, len(record.times), needs, costs.kv_capacity_tokens, batch_slots)  # 1
        start = max(record.now, min(record.times[batch_end - 1], record.times[first] + longest_wait_s))
        record.advance(start)
        batch = range(first, min(batch_end, record.arrived))
        parts = [PromptPart(prompts[request], 0) for request in batch]  # 2
        decode_start = start + costs.round_s(0, 0, parts) + costs.drain_s(parts[-1])
        users = len(batch)
        if users not in times:
            times[users] = decode_times(costs, users, answers.tokens_per_pass)
        pass_times, work_times = times[users]
        context = sum(answers.contexts[request] for request in batch) // users
        passes = [answers.passes[request] for request in batch]
        end = decode_start + pass_times.run_s(context, max(passes))
        record.busy_s += end - start
        record.work_s += costs.work_s(0, 0, parts) + work_times.run_s(context, max(passes))
        record.advance(end)
        decoded = 0  # 3
        for finished_users, (last_pass, request) in enumerate(sorted(zip(passes, batch, strict=True))):
            _record_passes(record, pass_times, context, (decoded, last_pass), users - finished_users)
            decoded = last_pass
            record.start_s[request], record.first_s[request] = start, decode_start + costs.host_s
            left_s = decode_start + pass_times.run_s(context, decoded)
            record.end_s[request] = left_s + costs.host_s
            record.kv_token_s += needs[request] * (left_s - start)
            record.leave(request, left_s)
        first = batch.stop
        report(record.left)
    return record.outcome()


def _batch_end(first: int, scheduled_count: int, needs: list[int], capacity: int, batch_slots: int) -> int:
    """Return the index after the last request of the next batch.

    A batch consists of consecutive requests that fit in the KV cache together.

    Args:
        first: Index of the first request of the batch, which is always included.
        scheduled_count: Number of requests with known arrival times; later ones are not included.
        needs: KV capacity that each request needs, in tokens.
        capacity: KV capacity of the machine in tokens.
        batch_slots: Maximum number of requests in a batch.
    """
    end, room = first, capacity
    while end < scheduled_count and end - first < batch_slots and (end == first or needs[end] <= room):
        room -= needs[end]
        end += 1
    return end


def _record_passes(record: Recorder, times: DecodeTimes, context: int, passes: tuple[int, int], users: int) -> None:
    """Record some decode passes of a batch.

    Args:
        record: Recorder of the simulation.
        times: Pass times.
        context: Mean prompt length of the batch, divided by the mean number of tokens that a pass
            yields. Each pass increases the context by 1 in this unit.
        passes: Number of the batch's passes before these passes, and after them.
        users: Number of users whose answers have not ended.
    """
    start, end = passes
    if end > start:
        first_s, last_s = times.pass_s(context + start), times.pass_s(context + end - 1)
        record.decode_run(first_s, last_s, end - start, users, times.run_s(context + start, end - start))
