"""Continuous batching: users join and leave between two tokens, and prompts are read in pieces beside the decoding.

At the begin of each round

1. users whose first token is out join those in flight;
2. waiting requests are admitted in their order, the fast tier first, as long as there are seats and room for their
   caches; none is overtaken by one of its own tier or of a lower one;
3. where prompts are to be read, one round is run, with at most ``prompt_tokens`` of them in it; otherwise as many
   rounds at once, by closed form (`DecodeTimes`), as pass until a user is done or something else may change.

Where ``prompt_tokens`` is None prompts fill gaps instead: they are read one after another in the time in which the
slowest stage would wait for decoded tokens, at least a chunk in every round, and many rounds run at once. A pipeline
has no passes that begin together, so nobody waits for the end of a round: a prompt has the gaps from its arrival on,
and a user's tokens come as much before the end of each round as the first token did.

With a machine of its own for prompts (`PrefillMachine`) a request is admitted when that is free and there is room for
its cache where it will be decoded; its prompt is read there alone, and its cache moved.

With drafts (`Drafts`) a pass brings a user several tokens, and an answer takes as many passes as were drawn for it.
Contexts are counted in passes then: between a prompt and its end they grow by the mean of a pass.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import cache
from heapq import heappop, heappush
from math import inf

from wse.serving.simulation.continuous.policy import ContinuousPolicy, PrefillMachine
from wse.serving.simulation.continuous.prompt_reader import ROUNDING, PromptReader
from wse.serving.simulation.continuous.users import Users
from wse.serving.simulation.decode_times import decode_times, gap_times
from wse.serving.simulation.drafts import Drafts, answer_passes
from wse.serving.simulation.kv_room import KvRoom
from wse.serving.simulation.outcome import Outcome, Recorder
from wse.serving.simulation.pass_costs import PassCosts, Piece
from wse.serving.simulation.progress import OnDone, ignore, reporter
from wse.serving.simulation.workload import NORMAL, Workload


class ContinuousMachine:
    """One machine that serves requests of a workload: all of them, or those that it is given while it runs.

    Args:
        workload: The requests; each must fit the cache on its own.
        costs: Passes of the machine; with ``drafts`` those that verify a draft, with what the draft takes.
        policy: How requests are batched.
        requests: Numbers of the requests that it serves, in the order of their arrival; None for all.
        prefill: A machine of its own for prompts.
        drafts: What drafts yield.
        on_done: Told how many requests have left, now and then.
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
        self.costs, self.policy, self.prefill = costs, policy, prefill
        self.record = Recorder(workload, requests)
        self.horizon_s = -inf  # when further requests may be given to it
        self.report = reporter(on_done, len(workload))
        self.room = KvRoom(workload, costs, prefix_cache=policy.prefix_cache)
        self.prompts: list[int] = workload.prompt_tokens.tolist()
        self.of_answers = answer_passes(workload, drafts)
        self.users = Users(self.of_answers)
        self.tiers: list[int] = workload.tier.tolist()
        self.is_tiered = len(set(self.tiers)) > 1
        self.waiting: list[deque[int]] = [deque() for _ in range(NORMAL + 1)]
        self.reader = PromptReader(self.prompts, costs)
        self.ready: list[tuple[float, int]] = []  # first tokens: when they are out
        self.seats = policy.most_users  # free ones
        self.pass_s = 0.0  # of the last pass, where passes have a begin
        self.delays_s: list[float] = []  # of users who have joined: since their first token
        self.prefill_free_s = self.link_free_s = -inf
        self.released_s = self.taken_s = -inf  # when a request last left, and when one was last admitted
        self.phase_s = [0.0] * len(workload)  # from the token of a user in each round to the end of that round
        self.was_full = False  # whether there was no room for the first of those who wait until one left
        middle, per_pass = int(workload.prompt_tokens.mean()) // 2, self.of_answers.tokens_per_pass
        chunk_s = costs.piece_busy_s(Piece(costs.chunk_tokens, middle, ends=False))
        self.times = cache(lambda users: decode_times(costs, users, per_pass))
        self.gap_times = cache(lambda users: gap_times(costs, users, per_pass, chunk_s))

    @property
    def in_flight(self) -> int:
        """Requests that were given to it and have not left at the end of its last round."""
        return len(self.record.order) - self.record.left

    def offer(self, request: int) -> None:
        """Give it a request of the workload, which arrives no sooner than those before and than it has run."""
        self.record.add(request)

    def outcome(self) -> Outcome:
        """Return what happened to its requests, all of which have left."""
        return self.record.outcome(prefix_hits=self.room.hits, saved_tokens=self.room.saved_tokens)

    def run_until(self, horizon_s: float) -> None:
        """Serve requests up to the round in which a time falls, at which further ones may be given to it."""
        record, self.horizon_s = self.record, horizon_s
        self._advance(record.now)
        while not record.is_done and record.now < horizon_s:
            self._join()
            self._advance(record.now)  # of a closed loop, requests that begin as others end
            self._admit()
            if self.ready and self.ready[0][0] <= record.now:
                continue  # a prompt was read while it waited for the end of a round
            if self.reader.is_reading and self.policy.prompt_tokens is None:
                self._rounds_with_gaps()
            elif self.reader.is_reading:
                self._round_with_prompts(self.policy.prompt_tokens or 0)
            elif self.users.count:
                self._decode()
            elif not record.is_done:
                self._advance(self._next_change())
            self.report(record.left)

    def _advance(self, until: float) -> None:
        for request in self.record.advance(until):
            self.waiting[self.tiers[request]].append(request)

    # Admission

    def _fits(self, request: int) -> bool:
        return self.seats > 0 and self.room.fits(request)

    def _admit(self) -> None:
        """Admit waiting requests, the fast tier first."""
        now = self.record.now
        for tier, queue in enumerate(self.waiting):
            while queue and self._fits(queue[0]) and (self.prefill is None or self.prefill_free_s <= now):
                self._take_in(queue.popleft(), tier)
            if queue:
                return

    def _head(self) -> int | None:
        """Return the request that is admitted next; None where nobody waits."""
        return next((queue[0] for queue in self.waiting if queue), None)

    def _take_in(self, request: int, tier: int) -> None:
        record = self.record
        self.seats -= 1
        context = self.room.take(request)
        if self.prefill is None:
            self._begin_to_read(request, tier, context)
            return
        needed_room = self.released_s == record.now and (self.was_full or self.taken_s == record.now)
        start = max(self.prefill_free_s, record.now if needed_room else record.arrivals[request])
        self.taken_s = record.now
        piece = Piece(self.prompts[request] - context, context)
        busy = self.prefill.costs.round_s(0, 0, (piece,))
        record.prefill_busy_s += busy
        record.start_s[request], self.prefill_free_s = start, start + busy
        out = start + busy + self.prefill.costs.drain_s(piece)
        record.first_s[request] = out + self.prefill.costs.host_s
        self.link_free_s = max(self.link_free_s, out) + self.prefill.transfer_s_per_token * self.prompts[request]
        heappush(self.ready, (self.link_free_s + self.prefill.transfer_s, request))

    def _begin_to_read(self, request: int, tier: int, context: int) -> None:
        """Begin to read a prompt with the next pass; where prompts fill gaps, with those of the round that ends now."""
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
        """Return the next time at which users join, or a request may be admitted."""
        time = self.ready[0][0] if self.ready else inf
        head = self._head()
        if head is not None and self._fits(head) and self.prefill is not None:
            time = min(time, self.prefill_free_s)
        coming = self.record.next_request
        if coming is not None:
            if self.is_tiered:
                may_change = head is None or self.tiers[head] == NORMAL
            else:
                may_change = head is None and self._fits(coming)
            if may_change:
                time = min(time, self.record.arrivals[coming])
        return min(time, self.horizon_s)

    # Rounds

    def _join(self) -> None:
        """Users whose first token is out join those in flight; those who wanted one token leave."""
        ready, now = self.ready, self.record.now
        while ready and ready[0][0] <= now:
            out, request = heappop(ready)
            if self.prefill is None:
                self.record.first_s[request] = out + self.costs.host_s
            self.room.keep_prefix(request)
            if not self.of_answers.passes[request]:
                self.record.end_s[request] = self.record.first_s[request]
                self._leave(request, out)
                continue
            token_s = out if self.prefill is None else self.record.first_s[request] - self.prefill.costs.host_s
            if self.policy.prompt_tokens is None:  # a token needs no round to begin at the first of several stages
                self.phase_s[request] = now - out
            self.delays_s.append(now - self.phase_s[request] - token_s)
            self.users.join(request)

    def _joined_delays_s(self) -> list[float]:
        """Return the seconds since the first token of users who have joined since this was asked before."""
        delays, self.delays_s = self.delays_s, []
        return delays

    def _leave(self, request: int, at_s: float) -> None:
        if self.released_s < self.record.now:
            head = self._head()
            self.was_full = head is not None and not self._fits(head)
            self.released_s = self.record.now
        self.seats += 1
        self.room.give_back(request)
        self.record.leave(request, at_s, self.pass_s)

    def _decode(self) -> None:
        """Run decode passes until a user is done, or what may change does."""
        record, users, context = self.record, self.users.count, self.users.mean_context
        times, work = self.times(users)
        most = self.users.passes_to_first
        until = self._next_change() - record.now
        passes = most if until == inf else times.passes_until(context, until, most)
        seconds = times.run_s(context, passes)
        first_s, last_s = times.pass_s(context), times.pass_s(context + passes - 1)
        record.decode_run(first_s, last_s, passes, users, seconds, self._joined_delays_s())
        record.work_s += work.run_s(context, passes)
        self.pass_s = 0.0 if self.policy.prompt_tokens is None else last_s
        self._end_rounds(passes, seconds)

    def _rounds_with_gaps(self) -> None:
        """Run rounds whose gaps prompts fill, until the first prompt is read, a user is done or joins, or more come."""
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
        context, most = self.users.mean_context, self.users.passes_to_first
        passes = gaps.passes_until(context, unread_s * (1 - ROUNDING), most)
        if until_s < inf:
            passes = min(passes, times.passes_until(context, until_s, most))
        seconds, last = times.run_s(context, passes), context + passes - 1
        record.decode_run(times.pass_s(context), times.pass_s(last), passes, users, seconds, self._joined_delays_s())
        left_s = self._read_prompts(
            gaps.run_s(context, passes), record.now + seconds, times.pass_s(last) / gaps.pass_s(last)
        )
        record.work_s += seconds - left_s
        self._end_rounds(passes, seconds)

    def _read_prompts(self, gap_s: float, end_s: float, round_per_gap: float) -> float:
        """Read prompts in gaps (`PromptReader.read_in_gaps`); return the seconds that no prompt is left for."""
        left_s, ready = self.reader.read_in_gaps(gap_s, end_s, round_per_gap)
        for first_token in ready:
            heappush(self.ready, first_token)
        return left_s

    def _round_with_prompts(self, budget: int) -> None:
        """Run a round that reads at most ``budget`` tokens of prompts; first tokens are out a little after its end."""
        record = self.record
        pieces, ended = self.reader.next_pieces(budget)
        users = self.users.count
        context = round(self.users.mean_context * self.of_answers.tokens_per_pass) if users else 0
        seconds = self.costs.round_s(users, context, pieces)
        record.work_s += self.costs.work_s(users, context, pieces)
        if users:
            record.decode_run(seconds, seconds, 1, users, seconds, self._joined_delays_s())
        self.pass_s = seconds
        end = record.now + seconds
        for request, piece in ended:
            heappush(self.ready, (end + self.costs.drain_s(piece), request))
        self._end_rounds(1 if users else 0, seconds)

    def _end_rounds(self, passes: int, seconds: float) -> None:
        """Go on to the end of some rounds, after which users may be done."""
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
) -> Outcome:
    """Serve all requests; each must fit the cache on its own. ``on_done`` is called now and then
    with the number of requests that have left.

    With ``drafts`` a decode pass of ``costs`` is one that verifies a draft, with what the draft takes.
    """
    machine = ContinuousMachine(workload, costs, policy, prefill=prefill, drafts=drafts, on_done=on_done)
    machine.run_until(inf)
    return machine.outcome()
