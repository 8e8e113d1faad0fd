"""Simulation of one machine with continuous batching.

Users join and leave between any two tokens, and prompts are read in parts alongside decoding. At
the start of each round:

1. Users whose first token is available join those in flight.
2. Waiting requests are admitted (`Admission`) in order while there are free batch slots and room
   for their KV caches. If their prefixes are parked in tiers, these are loaded (`PrefixLoads`).
3. If prompts are to be read, one round is simulated with at most ``prompt_tokens`` of their tokens.
   Otherwise many rounds are computed at once (`DecodeRounds`), until a user is done or something
   else may change.

**Gaps.** If ``prompt_tokens`` is None, prompts fill gaps: they are read one after another in the
time in which the busiest stage would wait for decoded tokens, at least one chunk per round. Many
rounds are computed at once. The passes of a pipeline have no common start, so nobody waits for the
end of a round. A prompt uses gaps from its arrival on. In every round, the token of a user arrives
as long before the end of the round as the user's first token did.

**Drafts.** With drafts (`Drafts`), a pass yields several tokens per user, and the number of passes
of each answer is drawn at random. Contexts are then counted in passes. They grow by the mean tokens
of a pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import inf

from wse.reports.progress import ignore
from wse.serving.simulation.continuous.admission import Admission
from wse.serving.simulation.continuous.decode_rounds import DecodeRounds
from wse.serving.simulation.continuous.policy import ContinuousPolicy
from wse.serving.simulation.continuous.prefix_loads import PrefixLoads
from wse.serving.simulation.continuous.prompt_reader import PromptReader, ReadyUsers, TokenObserver
from wse.serving.simulation.continuous.separate_prefill import PrefillMachine, SeparatePrefill
from wse.serving.simulation.costs.pass_costs import PassCosts
from wse.serving.simulation.drafts import Drafts, answer_passes
from wse.serving.simulation.outcome import Recorder, SimulationOutcome
from wse.serving.simulation.progress import OnDone, reporter
from wse.serving.simulation.workload import Workload


class ContinuousMachine:
    """A simulated machine that serves requests with continuous batching.

    It serves all requests of a workload, or the requests that it is given while it runs.

    Attributes:
        record: Recorder of the simulation, whose clock is the current time.
        horizon_s: Time until which no more requests arrive from outside.
        admission: Requests that wait for admission, free batch slots and room for KV caches.
        loads: Loads of parked prefixes.
        prefill: State of a separate machine that reads prompts; None if there is none.
        answers: Number of decode passes and initial context of each answer.
        rounds: Users in flight, and the rounds in which their answers are decoded.
        reader: Prompts that are being read.
        ready: Users whose prompts have been read, and that have not joined yet.
        pass_s: Seconds of the last pass, if passes have a common start.
        phase_s: For each request, seconds from its token in a round to the end of the round.
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
        observer: TokenObserver | None = None,
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
            on_done: Function that is called periodically with the number of requests that have left
                the machine.
            observer: Receives the time of every token; None if nobody needs them. Rounds are then
                simulated one by one.
        """
        self.costs, self.policy, self.drafts, self.observer = costs, policy, drafts, observer
        self.record = Recorder(workload, requests)
        self.horizon_s = -inf
        self.report = reporter(on_done, len(workload))
        self.admission = Admission(workload, costs, policy)
        self.loads = PrefixLoads(self.admission.room, costs)
        self.prefill = None if prefill is None else SeparatePrefill(prefill, self.record)
        self.prompts: list[int] = workload.prompt_tokens.tolist()
        self.answers = answer_passes(workload, drafts)
        self.rounds = DecodeRounds(workload, costs, self.answers, self.record)
        self.reader = PromptReader(self.prompts, costs)
        self.ready = ReadyUsers(self.record, observer, host_s=None if prefill else costs.host_s)
        self.pass_s = 0.0
        self.phase_s = [0.0] * len(workload)

    @property
    def in_flight(self) -> int:
        """Number of requests that have arrived or will arrive, and have not left.

        This is the state when the last simulated round ended.
        """
        return len(self.record.order) - self.record.left

    def offer(self, request: int) -> None:
        """Assign a request of the workload to the machine.

        The request must arrive after all earlier requests and after the current time of the
        simulation.
        """
        self.record.add(request)

    def extend(self, workload: Workload) -> None:
        """Append requests, which get the next indices. The machine serves them after `offer`.

        With drafts, these requests use a new seed: that of the machine plus the first new index.
        """
        drafts = self.drafts and replace(self.drafts, seed=self.drafts.seed + len(self.prompts))
        self.record.extend(workload)
        self.admission.extend(workload)
        self.answers.extend(answer_passes(workload, drafts))
        self.prompts += workload.prompt_tokens.tolist()
        self.phase_s += [0.0] * len(workload)

    def outcome(self) -> SimulationOutcome:
        """Return the times of the machine's requests, all of which must have left."""
        return self.record.outcome(self.loads.prefix_use)

    def run_until(self, horizon_s: float) -> None:
        """Simulate up to the end of the round that contains the time ``horizon_s``.

        A round is the time in which each user gets one decode pass. After the call, requests that
        arrive at this time may be assigned to the machine.
        """
        record, self.horizon_s = self.record, horizon_s
        self._advance(record.now)
        while not record.is_done and record.now < horizon_s:
            self._join()  # 1
            self._advance(record.now)  # in a closed loop, requests start when others end
            self._admit()  # 2
            if self.ready.next_s <= record.now:
                continue  # a prompt was completed in gaps before the end of the last round
            # 3
            if self.reader.is_reading and self.policy.prompt_tokens is None:
                self._rounds_with_gaps()
            elif self.reader.is_reading:
                self._round_with_prompts(self.policy.prompt_tokens or 0)
            elif self.rounds.users.count:
                self._decode()
            elif not record.is_done:
                self._advance(self.next_change())
            self.report(record.left)

    def _advance(self, time: float) -> None:
        """Set the clock to ``time``, and add the requests that arrive up to this time to the queues."""
        self.record.kv_token_s += self.admission.room.occupied * (time - self.record.now)
        for request in self.record.advance(time):
            self.admission.add(request)

    # Admission

    def _admit(self) -> None:
        """Admit waiting requests until one does not fit, and start to read their prompts.

        With a separate machine for prompts, requests are admitted only while that machine is free.
        """
        admission, record = self.admission, self.record
        while admission.head_fits and (self.prefill is None or self.prefill.free_s <= record.now):
            request, context = admission.admit_head()
            record.cached_tokens[request] = context
            needed_release = admission.needed_release(record.now)
            if self.prefill is None:
                waits = self.policy.prompt_tokens is not None or needed_release
                record.start_s[request] = record.now if waits else record.arrivals[request]
                if not self.loads.begin(request, context, record.start_s[request]):
                    self._begin_to_read(request, context, record.start_s[request])
                continue
            needed_release |= admission.released_s == self.prefill.taken_s == record.now
            ready_s = self.prefill.read(request, self.prompts[request], context, needed_release=needed_release)
            self.ready.add(ready_s, request)
        while self.loads.next_s <= record.now:
            end_s, request, context = self.loads.pop()
            record.loaded_tokens[request] = context - record.cached_tokens[request]
            self._begin_to_read(request, context, end_s)

    def _begin_to_read(self, request: int, context: int, start_s: float) -> None:
        """Start to read the prompt of an admitted request.

        - If prompts are read in gaps (the idle time of the busiest stage), reading starts at
          ``start_s``, in the gaps of the round that is just ending.
        - Otherwise, reading starts with the next pass.

        Args:
            request: Index of the request.
            context: Tokens of its prompt that are already in the cache.
            start_s: Time from which the prompt can be read: when the request arrived, when a batch
                slot and cache space became free, or when the load of its prefix ended.
        """
        record = self.record
        self.reader.begin(request, self.admission.tiers[request], context)
        waited_s = record.now - max(start_s, self.reader.gap_free_s)
        if waited_s > 0 and self.policy.prompt_tokens is None:
            round_per_gap = self.rounds.round_per_gap
            gap_s = waited_s / round_per_gap
            record.work_s += gap_s - self._read_prompts(gap_s, record.now, round_per_gap)

    def _run_limit_s(self) -> float:
        """Return after how many seconds to interrupt the next run of rounds.

        Tokens can only be observed between rounds, so with an observer each run is one round.
        """
        if self.observer is not None and self.rounds.users.count:
            return 0.0
        return self.next_change() - self.record.now

    def next_change(self) -> float:
        """Return the earliest time at which a run of rounds must be interrupted.

        This is the earliest time at which one of the following happens:

        - A user can start to decode, or the load of a prefix ends.
        - A separate prefill machine becomes free, and the next waiting request fits.
        - A request arrives that may be admitted at once.
        - The simulation reaches its horizon, the time up to which all arrivals are known.
        """
        time = min(self.ready.next_s, self.loads.next_s)
        if self.prefill is not None and self.admission.head_fits:
            time = min(time, self.prefill.free_s)
        next_request = self.record.next_request
        if next_request is not None and self.admission.may_admit_arrival(next_request):
            time = min(time, self.record.next_arrival_s)
        return min(time, self.horizon_s)

    # Rounds

    def _join(self) -> None:
        """Start to decode the answers of users whose first token is available.

        Users who requested only one token leave at once.
        """
        now_s = self.record.now
        while self.ready.next_s <= now_s:
            first_token_s, request = self.ready.pop()
            self.admission.room.keep_prefix(request)
            if not self.answers.passes[request]:
                self.record.end_s[request] = self.record.first_s[request]
                self.leave(request, first_token_s)
                continue
            token_s = first_token_s
            if self.prefill is not None:
                token_s = self.record.first_s[request] - self.prefill.machine.costs.host_s
            if self.policy.prompt_tokens is None:  # in a pipeline, a token need not wait for the start of a round
                self.phase_s[request] = now_s - first_token_s
            self.rounds.join(request, now_s - self.phase_s[request] - token_s)

    def leave(self, request: int, at_s: float) -> None:
        """Record that a request has left at time ``at_s``, and free its batch slot and its cache."""
        self.admission.release(request, self.record.now)
        self.record.leave(request, at_s, self.pass_s)

    def _decode(self) -> None:
        """Simulate decode passes until a user has a complete answer or another event may occur."""
        seconds, last_s = self.rounds.run(self._run_limit_s())
        self.pass_s = 0.0 if self.policy.prompt_tokens is None else last_s
        self._end_rounds(seconds)

    def _rounds_with_gaps(self) -> None:
        """Simulate rounds in which prompts are read in the idle time (gaps) of the busiest stage.

        In a round, each user gets one decode pass. The simulated rounds end when the first prompt
        has been read, a user has a complete answer, or users may join or be admitted.
        """
        record = self.record
        run = self.rounds.run_with_gaps(self.reader.first_unread_s(), self._run_limit_s())
        left_s = self._read_prompts(run.gap_s, record.now + run.seconds, run.round_per_gap)
        record.work_s += run.seconds - left_s
        self._end_rounds(run.seconds)

    def _read_prompts(self, gap_s: float, end_s: float, round_per_gap: float) -> float:
        """Read prompts in gaps (idle time of the busiest stage) and return the unused gap seconds.

        The arguments are the same as for `PromptReader.read_in_gaps`.
        """
        left_s, ready = self.reader.read_in_gaps(gap_s, end_s, round_per_gap)
        for first_token_s, request in ready:
            self.ready.add(first_token_s, request)
        return left_s

    def _round_with_prompts(self, budget: int) -> None:
        """Simulate one round that reads at most ``budget`` tokens of prompts.

        In a round, each user gets one decode pass. The first token of an answer is available
        slightly after the end of the round, when the prompt has passed the remaining pipeline
        stages.
        """
        parts, completed = self.reader.next_parts(budget)
        seconds = self.rounds.run_with_prompts(parts)
        self.pass_s = seconds
        end = self.record.now + seconds
        for request, part in completed:
            self.ready.add(end + self.costs.drain_s(part), request)
        self._end_rounds(seconds)

    def _end_rounds(self, seconds: float) -> None:
        """Advance to the end of rounds that take ``seconds``; remove users with complete answers."""
        record = self.record
        record.busy_s += seconds
        self._advance(record.now + seconds)
        if self.observer is not None:
            for user, passes in self.rounds.users.unfinished_passes():
                self.observer.next_tokens(user, passes, record.now - self.phase_s[user] + self.costs.host_s)
        while (request := self.rounds.users.pop_done()) is not None:
            left_s = record.now - self.phase_s[request]
            record.end_s[request] = left_s + self.costs.host_s
            self.leave(request, left_s)
