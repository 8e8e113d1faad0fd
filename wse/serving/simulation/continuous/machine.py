"""Simulation of one machine with continuous batching.

Users join and leave between any two tokens, and prompts are read in parts alongside decoding. At
the start of each round:

1. Users whose first token is available join those in flight.
2. Waiting requests are admitted in order, the fast tier first, while there are free batch slots and
   room for their KV caches. No request is overtaken by one of the same or of a lower tier.
3. If prompts are to be read, one round is simulated with at most ``prompt_tokens`` of their tokens.
   Otherwise many rounds are computed at once (`DecodeTimes`), until a user is done or something
   else may change.

**Gaps.** If ``prompt_tokens`` is None, prompts fill gaps: they are read one after another in the
time in which the busiest stage would wait for decoded tokens, at least one chunk per round. Many
rounds are computed at once. The passes of a pipeline have no common start, so nobody waits for the
end of a round. A prompt uses gaps from its arrival on. The tokens of a user come as long before the
end of each round as the first token did.

**Separate prefill.** With a separate machine for prompts (`PrefillMachine`), a request is admitted
when that machine is free and there is room for its cache on the decode machine. Its prompt is read
there alone, and its cache is then moved.

**Drafts.** With drafts (`Drafts`), a pass yields several tokens per user, and the number of passes
of each answer is drawn at random. Contexts are then counted in passes. They grow by the mean tokens
of a pass.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import cache
from heapq import heappop, heappush
from math import inf

from wse.reports.progress import ignore
from wse.serving.simulation.continuous.policy import ContinuousPolicy, PrefillMachine
from wse.serving.simulation.continuous.prompt_reader import ROUNDING, PromptReader
from wse.serving.simulation.continuous.users import Users
from wse.serving.simulation.decode_times import decode_times, gap_times
from wse.serving.simulation.drafts import Drafts, answer_passes
from wse.serving.simulation.kv_room import KvRoom
from wse.serving.simulation.outcome import Recorder, SimulationOutcome
from wse.serving.simulation.pass_costs import PassCosts, PromptPart
from wse.serving.simulation.progress import OnDone, reporter
from wse.serving.simulation.workload import NORMAL, Workload


class ContinuousMachine:
    """A simulated machine that serves requests with continuous batching.

    It serves all requests of a workload, or the requests that it is given while it runs.

    Attributes:
        record: Recorder of the simulation, whose clock is the current time.
        horizon_s: Time until which no further request arrives from outside.
        room: Room for KV caches.
        answers: Decode passes and contexts of all answers.
        users: Users in flight.
        waiting: Requests that wait for admission, in one queue per service tier.
        reader: Prompts that are being read.
        ready: Heap of (time of the first token, request) for users that have not joined yet.
        free_slots: Number of free batch slots.
        pass_s: Seconds of the last pass, if passes have a common start.
        delays_s: For users who have just joined, seconds from the first token to the next pass.
        prefill_free_s, link_free_s: Times from which the prefill machine and its link are free.
        released_s, taken_s: Times at which a request last left, and was last admitted.
        phase_s: For each request, seconds from its token in a round to the end of the round.
        was_full: Whether the first waiting request had no room until another request left.
    """

    def __init__(
        self,
        workload: Workload,
        costs: PassCosts,
        policy: ContinuousPolicy,
        *,
        requests: Iterable[int] | None = None,
        prefill: PrefillMachine | None = None,
        drafts: Drafts | None = None,
        on_done: OnDone = ignore,
    ) -> None:
        """Prepare the simulation.

        Args:
            workload: The requests. Each must fit in the KV cache by itself.
            costs: Times of passes. With drafts, a decode pass is a verification pass together with
                its draft passes.
            policy: How requests are batched.
            requests: Indices of the requests to serve, in the order of their arrival; None for all.
            prefill: Separate machine that reads prompts; None if there is none.
            drafts: How many draft tokens are accepted; None without drafts.
            on_done: Function that is called now and then with the number of requests that have
                left.
        """
        self.costs, self.policy, self.prefill = costs, policy, prefill
        self.record = Recorder(workload, requests)
        self.horizon_s = -inf
        self.report = reporter(on_done, len(workload))
        self.room = KvRoom(workload, costs, prefix_cache=policy.prefix_cache)
        self.prompts: list[int] = workload.prompt_tokens.tolist()
        self.answers = answer_passes(workload, drafts)
        self.users = Users(self.answers)
        self.tiers: list[int] = workload.tier.tolist()
        self.is_tiered = len(set(self.tiers)) > 1
        self.waiting: list[deque[int]] = [deque() for _ in range(NORMAL + 1)]
        self.reader = PromptReader(self.prompts, costs)
        self.ready: list[tuple[float, int]] = []
        self.free_slots = policy.max_users
        self.pass_s = 0.0
        self.delays_s: list[float] = []
        self.prefill_free_s = self.link_free_s = -inf
        self.released_s = self.taken_s = -inf
        self.phase_s = [0.0] * len(workload)
        self.was_full = False
        middle, per_pass = int(workload.prompt_tokens.mean()) // 2, self.answers.tokens_per_pass
        chunk_s = costs.part_busy_s(PromptPart(costs.chunk_tokens, middle, ends=False))
        self.times = cache(lambda users: decode_times(costs, users, per_pass))
        self.gap_times = cache(lambda users: gap_times(costs, users, per_pass, chunk_s))

    @property
    def in_flight(self) -> int:
        """Number of received requests that had not left by the end of the machine's last round."""
        return len(self.record.order) - self.record.left

    def offer(self, request: int) -> None:
        """Give the machine a request of the workload.

        The request must arrive after all earlier requests and after the current time of the
        simulation.
        """
        self.record.add(request)

    def outcome(self) -> SimulationOutcome:
        """Return the times of the machine's requests, all of which must have left."""
        return self.record.outcome(prefix_hits=self.room.hits, saved_tokens=self.room.saved_tokens)

    def run_until(self, horizon_s: float) -> None:
        """Simulate up to the end of the round that contains the time ``horizon_s``.

        Afterwards, the machine may be given requests that arrive at this time.
        """
        record, self.horizon_s = self.record, horizon_s
        self._advance(record.now)
        while not record.is_done and record.now < horizon_s:
            self._join()  # 1
            self._advance(record.now)  # in a closed loop, requests start when others end
            self._admit()  # 2
            if self.ready and self.ready[0][0] <= record.now:
                continue  # a prompt was completed in gaps before the end of the last round
            # 3
            if self.reader.is_reading and self.policy.prompt_tokens is None:
                self._rounds_with_gaps()
            elif self.reader.is_reading:
                self._round_with_prompts(self.policy.prompt_tokens or 0)
            elif self.users.count:
                self._decode()
            elif not record.is_done:
                self._advance(self._next_change())
            self.report(record.left)

    def _advance(self, time: float) -> None:
        """Advance the clock, and move the requests that arrive until then to the queues."""
        for request in self.record.advance(time):
            self.waiting[self.tiers[request]].append(request)

    # Admission

    def _fits(self, request: int) -> bool:
        """Return whether a request can be admitted: a batch slot is free and its KV cache fits."""
        return self.free_slots > 0 and self.room.fits(request)

    def _admit(self) -> None:
        """Admit waiting requests in order until one does not fit.

        Requests of the fast tier, whose users are promised a higher speed, come first.
        """
        now_s = self.record.now
        for tier, queue in enumerate(self.waiting):
            while queue and self._fits(queue[0]) and (self.prefill is None or self.prefill_free_s <= now_s):
                self._take_in(queue.popleft(), tier)
            if queue:
                return

    def _head(self) -> int | None:
        """Return the request that is to be admitted next; None if no request waits."""
        return next((queue[0] for queue in self.waiting if queue), None)

    def _take_in(self, request: int, tier: int) -> None:
        """Admit a request, and start to read its prompt here or on the prefill machine.

        Args:
            request: Index of the request.
            tier: Service tier of the request.
        """
        record = self.record
        self.free_slots -= 1
        context = self.room.take(request)
        if self.prefill is None:
            self._begin_to_read(request, tier, context)
            return
        needed_room = self.released_s == record.now and (self.was_full or self.taken_s == record.now)
        start = max(self.prefill_free_s, record.now if needed_room else record.arrivals[request])
        self.taken_s = record.now
        part = PromptPart(self.prompts[request] - context, context)
        busy = self.prefill.costs.round_s(0, 0, (part,))
        record.prefill_busy_s += busy
        record.start_s[request], self.prefill_free_s = start, start + busy
        prompt_end_s = start + busy + self.prefill.costs.drain_s(part)
        record.first_s[request] = prompt_end_s + self.prefill.costs.host_s
        self.link_free_s = (
            max(self.link_free_s, prompt_end_s) + self.prefill.transfer_s_per_token * self.prompts[request]
        )
        heappush(self.ready, (self.link_free_s + self.prefill.transfer_s, request))

    def _begin_to_read(self, request: int, tier: int, context: int) -> None:
        """Start to read the prompt of a request that was just admitted.

        In general, reading starts with the next pass. If prompts are read in the idle time of the
        busiest stage (its gaps), it starts in the gaps of the round that is just ending, from the
        arrival of the request on.

        Args:
            request: Index of the request.
            tier: Service tier of the request.
            context: Tokens of its prompt that are already in the cache.
        """
        record = self.record
        needed_room = self.released_s == record.now and self.was_full
        waits = self.policy.prompt_tokens is not None or needed_room
        record.start_s[request] = record.now if waits else record.arrivals[request]
        self.reader.begin(request, tier, context)
        waited_s = record.now - max(record.start_s[request], self.reader.gap_free_s)
        if waited_s > 0:
            round_per_gap = 1.0
            if self.users.count:
                times, gaps = self.gap_times(self.users.count)
                round_per_gap = times.pass_s(self.users.mean_context) / gaps.pass_s(self.users.mean_context)
            gap_s = waited_s / round_per_gap
            record.work_s += gap_s - self._read_prompts(gap_s, record.now, round_per_gap)

    def _next_change(self) -> float:
        """Return the next time at which a user may join or a request may be admitted."""
        time = self.ready[0][0] if self.ready else inf
        head = self._head()
        if head is not None and self._fits(head) and self.prefill is not None:
            time = min(time, self.prefill_free_s)
        next_request = self.record.next_request
        if next_request is not None:
            if self.is_tiered:
                may_change = head is None or self.tiers[head] == NORMAL
            else:
                may_change = head is None and self._fits(next_request)
            if may_change:
                time = min(time, self.record.arrivals[next_request])
        return min(time, self.horizon_s)

    # Rounds

    def _join(self) -> None:
        """Add the users whose first token is available to the decoding ones.

        Users who requested only one token leave at once.
        """
        ready, now_s = self.ready, self.record.now
        while ready and ready[0][0] <= now_s:
            first_token_s, request = heappop(ready)
            if self.prefill is None:
                self.record.first_s[request] = first_token_s + self.costs.host_s
            self.room.keep_prefix(request)
            if not self.answers.passes[request]:
                self.record.end_s[request] = self.record.first_s[request]
                self._leave(request, first_token_s)
                continue
            token_s = (
                first_token_s if self.prefill is None else self.record.first_s[request] - self.prefill.costs.host_s
            )
            if self.policy.prompt_tokens is None:  # in a pipeline, a token need not wait for the start of a round
                self.phase_s[request] = now_s - first_token_s
            self.delays_s.append(now_s - self.phase_s[request] - token_s)
            self.users.join(request)

    def _joined_delays_s(self) -> list[float]:
        """Return, for users who joined since the last call, the seconds since their first token."""
        delays, self.delays_s = self.delays_s, []
        return delays

    def _leave(self, request: int, at_s: float) -> None:
        """Record that a request has left, and free its batch slot and its cache."""
        if self.released_s < self.record.now:
            head = self._head()
            self.was_full = head is not None and not self._fits(head)
            self.released_s = self.record.now
        self.free_slots += 1
        self.room.give_back(request)
        self.record.leave(request, at_s, self.pass_s)

    def _decode(self) -> None:
        """Simulate decode passes until a user has a complete answer or another event may occur."""
        record, users, context = self.record, self.users.count, self.users.mean_context
        times, work_times = self.times(users)
        max_passes = self.users.passes_to_first
        until_s = self._next_change() - record.now
        passes = max_passes if until_s == inf else times.passes_until(context, until_s, max_passes)
        seconds = times.run_s(context, passes)
        first_s, last_s = times.pass_s(context), times.pass_s(context + passes - 1)
        record.decode_run(first_s, last_s, passes, users, seconds, self._joined_delays_s())
        record.work_s += work_times.run_s(context, passes)
        self.pass_s = 0.0 if self.policy.prompt_tokens is None else last_s
        self._end_rounds(passes, seconds)

    def _rounds_with_gaps(self) -> None:
        """Simulate rounds in which prompts are read in gaps, the idle time of the busiest stage.

        The rounds end when the first prompt is complete, a user has a complete answer, or users may
        join or be admitted.
        """
        record, users = self.record, self.users.count
        unread_s = self.reader.first_unread_s()
        until_s = self._next_change() - record.now
        if not users:
            seconds = min(unread_s, until_s)
            record.work_s += seconds
            self._read_prompts(seconds, record.now + seconds, 1.0)
            self._end_rounds(0, seconds)
            return
        times, gaps = self.gap_times(users)
        context, max_passes = self.users.mean_context, self.users.passes_to_first
        passes = gaps.passes_until(context, unread_s * (1 - ROUNDING), max_passes)
        if until_s < inf:
            passes = min(passes, times.passes_until(context, until_s, max_passes))
        seconds, last = times.run_s(context, passes), context + passes - 1
        record.decode_run(times.pass_s(context), times.pass_s(last), passes, users, seconds, self._joined_delays_s())
        left_s = self._read_prompts(
            gaps.run_s(context, passes), record.now + seconds, times.pass_s(last) / gaps.pass_s(last)
        )
        record.work_s += seconds - left_s
        self._end_rounds(passes, seconds)

    def _read_prompts(self, gap_s: float, end_s: float, round_per_gap: float) -> float:
        """Read prompts in gaps, the idle time of the busiest stage, and return the unused seconds.

        The arguments are those of `PromptReader.read_in_gaps`.
        """
        left_s, ready = self.reader.read_in_gaps(gap_s, end_s, round_per_gap)
        for first_token in ready:
            heappush(self.ready, first_token)
        return left_s

    def _round_with_prompts(self, budget: int) -> None:
        """Simulate one round that reads at most ``budget`` tokens of prompts.

        The first token of an answer is available slightly after the end of the round, when the
        prompt has passed the remaining stages.
        """
        record = self.record
        parts, completed = self.reader.next_parts(budget)
        users = self.users.count
        context = round(self.users.mean_context * self.answers.tokens_per_pass) if users else 0
        seconds = self.costs.round_s(users, context, parts)
        record.work_s += self.costs.work_s(users, context, parts)
        if users:
            record.decode_run(seconds, seconds, 1, users, seconds, self._joined_delays_s())
        self.pass_s = seconds
        end = record.now + seconds
        for request, part in completed:
            heappush(self.ready, (end + self.costs.drain_s(part), request))
        self._end_rounds(1 if users else 0, seconds)

    def _end_rounds(self, passes: int, seconds: float) -> None:
        """Advance to the end of some rounds, and let users whose answers are complete leave.

        Args:
            passes: Number of decode passes in the rounds.
            seconds: Duration of the rounds.
        """
        record = self.record
        self.users.run(passes)
        record.busy_s += seconds
        self._advance(record.now + seconds)
        while (request := self.users.pop_done()) is not None:
            left_s = record.now - self.phase_s[request]
            record.end_s[request] = left_s + self.costs.host_s
            self._leave(request, left_s)


def simulate_continuous(
    workload: Workload,
    costs: PassCosts,
    policy: ContinuousPolicy,
    *,
    prefill: PrefillMachine | None = None,
    drafts: Drafts | None = None,
    on_done: OnDone = ignore,
) -> SimulationOutcome:
    """Simulate a machine that serves all requests of a workload with continuous batching.

    Users join and leave between any two tokens, and prompts are read in parts alongside decoding.

    Args:
        workload: The requests. Each must fit in the KV cache by itself.
        costs: Times of passes. With drafts, a decode pass is a verification pass together with its
            draft passes.
        policy: How requests are batched.
        prefill: Separate machine that reads prompts; None if there is none.
        drafts: How many draft tokens are accepted; None without drafts.
        on_done: Function that is called now and then with the number of requests that have left.

    Returns:
        The times of all requests.
    """
    machine = ContinuousMachine(workload, costs, policy, prefill=prefill, drafts=drafts, on_done=on_done)
    machine.run_until(inf)
    return machine.outcome()
