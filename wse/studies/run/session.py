"""Session: the run loop that reads prompts, generates tokens, and times and records passes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

from wse.backends.execute.backend import Backend
from wse.backends.execute.host_tokens.sampling import Sampler
from wse.backends.fabric.expert_costs import Pairs
from wse.backends.fabric.model import CacheUse, Fabric
from wse.backends.fabric.phase_cost import PhaseCost
from wse.backends.fabric.run_totals import RunTotals
from wse.compiler.options import DECODE, PREFILL, VERIFY
from wse.program.phase import Phase
from wse.program.program import Program
from wse.reports.progress import ignore
from wse.studies.estimate.timing.first_token import PromptRoutes
from wse.studies.run.answer import Answer
from wse.studies.run.callbacks import RunCallbacks
from wse.studies.run.drafts.drafts import NO_DRAFT, Draft, Drafter
from wse.studies.run.prepare import PreparedRun
from wse.studies.run.result import WaveletsResult
from wse.studies.run.verify import AcceptanceCounts
from wse.tracing.expert_load import ExpertLoad
from wse.tracing.record.keeper import TraceKeeper
from wse.tracing.record.run import RunRecorder


class Session:
    """The state of a run in progress: backend, clock, trace and the answers of all users.

    A backend computes the tokens of each pass. The fabric model (the fast timing model) adds the
    cycles of the pass to the clock. The trace recorder writes both to the trace.

    Attributes:
        clock: Cycles and traffic of all passes so far.
        load: Number of tokens that were routed to each expert.
        wall_s: Seconds that this computer needed for all passes.
        passes_again: Number of passes at the start of the run that are read from a checkpoint
            instead of executed.
        answers: The answer of each user.
        prompt_routes: Ways of the prompts through the stages, from which the time to first token
            follows.
        new_tokens: Number of tokens from passes that were not read from a checkpoint.
        drafter: Source of the drafts; None if the run has no drafts.
        acceptance: Number of draft tokens that were accepted; None if the run has no drafts.
    """

    def __init__(
        self,
        prepared_run: PreparedRun,
        program: Program,
        engine: Backend,
        keeper: TraceKeeper,
        callbacks: RunCallbacks,
        *,
        passes_again: int,
        drafter: Drafter | None = None,
        samplers: Sequence[Sampler] = (),
    ) -> None:
        self.prepared, self.program, self.engine, self.keeper = prepared_run, program, engine, keeper
        self.clock = RunTotals(Fabric(program, prepared_run.wafer, prepared_run.software, prepared_run.meshes))
        self.prompt_routes = PromptRoutes(self.clock.fabric)
        self.load = ExpertLoad()
        self.wall_s = 0.0
        self.passes_again, self._passes, self.new_tokens = passes_again, 0, 0
        self._last_pass = 0  # index in the trace; stays 0 without a trace
        self._last_run: tuple[Phase, list[int]] | None = None  # with the tokens in each cache before it
        self.drafter, self._samplers = drafter, samplers
        self.acceptance = AcceptanceCounts(program.verify_tokens - 1) if drafter else None
        ends, tokenizer = prepared_run.end_ids, prepared_run.loaded.tokenizer
        sink = callbacks.on_text if program.batch == 1 else ignore  # texts of several users are printed at the end
        has_text = sink is not ignore and tokenizer is not None
        self._on_tokens, self._read_tokens = ignore if has_text else callbacks.on_tokens, 0
        self.answers = [Answer(ids, ends, prepared_run.new_tokens, tokenizer, sink) for ids in prepared_run.prompts]

    def generate(self) -> None:
        """Read all prompts, then generate tokens until the answers of all users are finished.

        1. Run the prefill passes of all prompts.
        2. With ``--verify-tokens 1``, run a pass for the next token of each user, round-robin.
        3. Otherwise, run passes that either verify a draft or decode the next token of all users.

        A user whose answer finishes early keeps its batch slot. Further tokens generated in that
        slot are ignored.
        """
        began = time.perf_counter()
        self._report_tokens()
        self._read_prompts()  # 1
        if self.program.verify_tokens == 1:  # 2
            self._generate_in_turn()
        while not all(answer.is_finished for answer in self.answers):  # 3
            self._report_tokens()
            draft = self._draft()
            if draft.tokens:
                self._verify(draft)
            else:
                self._generate_next()
        self._report_tokens()
        for answer in self.answers:
            answer.finish()
        self.wall_s = time.perf_counter() - began

    def _report_tokens(self) -> None:
        """Report progress: the number of tokens read and generated so far, and the maximum."""
        max_tokens = sum(len(answer.prompt) + self.prepared.new_tokens for answer in self.answers)
        self._on_tokens(self._read_tokens + sum(len(answer.tokens) for answer in self.answers), max_tokens, "")

    def _read_prompts(self) -> None:
        passes: list[list[int]] = [[] for _ in self.answers]
        began = time.perf_counter()
        for index in self.engine.prefill(*self.prepared.prompts):
            phase, start_cycle = self.program.prefill[index], self.clock.cycles
            pairs = self._record_routing(PREFILL)
            cost = self.clock.prefill_chunk(index, pairs)
            self.prompt_routes.add(phase, cost)
            use: CacheUse = (self.engine.cache_slots(phase.user), ())
            self._last_run = (phase, [phase.cached])
            self._record_pass(index, use, cost, pairs, start_cycle, time.perf_counter() - began)
            passes[phase.user] += [self._last_pass] * phase.tokens
            self.answers[phase.user].cycles = self.clock.cycles
            self._read_tokens += phase.tokens
            self._report_tokens()
            began = time.perf_counter()
        if self.drafter is not None:
            drafted_cycles = self.drafter.read(self.prepared.prompts[0])
            self.clock.draft_cycles += max(0.0, drafted_cycles - self.clock.cycles)  # read in parallel
        for user, (answer, token) in enumerate(zip(self.answers, self.engine.tokens, strict=True)):
            if self.prepared.request.logits:
                answer.logits = self.engine.logits[user]
            self.keeper.write(RunRecorder.add_prompt, user, answer.prompt, answer.read(), passes[user])
            self._record_token(user, token, passes[user][-1] if passes[user] else 0, answer.cycles, 0.0)

    def _generate_next(self) -> None:
        began = time.perf_counter()
        start_cycle = self.clock.cycles
        tokens = self.engine.decode()
        pairs = self._record_routing(DECODE)
        self._last_run = (self.program.decode, list(self.clock.lengths))
        use, cost = self.clock.decode_token(pairs=pairs)
        wall = time.perf_counter() - began
        self._record_pass(self.program.decode_index, use, cost, pairs, start_cycle, wall)
        for user, token in enumerate(tokens):
            answer = self.answers[user]
            if not answer.is_finished:
                cycles, answer.cycles = self.clock.cycles - answer.cycles, self.clock.cycles
                self._record_token(user, token, self._last_pass, cycles, wall)

    def _generate_in_turn(self) -> None:
        """Generate the next token of each user in a separate pass, round-robin over the users.

        The next pass of a user is announced to the backend as soon as its input token is known. The
        backend may then run the passes of several users concurrently.
        """
        waiting_users = deque(user for user, answer in enumerate(self.answers) if not answer.is_finished)
        for user in waiting_users:
            self.engine.announce(self.answers[user].tokens[-1:], user)
        while waiting_users:
            user = waiting_users.popleft()
            self._report_tokens()
            self._verify(NO_DRAFT, user)
            if not self.answers[user].is_finished:
                self.engine.announce(self.answers[user].tokens[-1:], user)
                waiting_users.append(user)

    def _draft(self) -> Draft:
        """Return the draft tokens that the next pass verifies.

        The draft is empty if the run uses no drafts or they do not fit in the KV cache. The time
        that the model waits for the draft is added to the clock.
        """
        answer, tokens = self.answers[0], self.program.verify_tokens
        if self.drafter is None or self.clock.lengths[0] + tokens > self.program.context:
            return NO_DRAFT
        draft = self.drafter.propose((*answer.prompt, *answer.tokens), tokens - 1)
        self.clock.draft_cycles += draft.cycles
        return draft

    def _verify(self, draft: Draft, user: int = 0) -> None:
        """Run a verification pass over a user's next token and the draft tokens.

        1. Run the pass. It returns the id that follows each token, or the logits from which the
           host samples the id.
        2. Accept draft tokens up to the first one that differs from the id predicted after the
           previous token. If the host samples,
           `wse.backends.execute.host_tokens.sampling.Sampler.accept` decides.
        3. Keep the next token and the accepted tokens in the KV cache. Add the ids that follow them
           to the answer. All of these ids are generated within the time of this single pass.

        Args:
            draft: The draft tokens, possibly none.
            user: Index of the user.
        """
        began, start_cycle, answer = time.perf_counter(), self.clock.cycles, self.answers[user]
        length, phase = self.clock.lengths[user], self.program.verify[user]
        ids = self.engine.verify((answer.tokens[-1], *draft.tokens), user)  # 1
        if self._samplers:  # 2
            ids = self._samplers[user].accept(self.engine.verified_logits, draft.tokens, draft.probabilities)
        else:
            rejected_indices = (i for i, token in enumerate(draft.tokens) if token != ids[i])
            ids = ids[: next(rejected_indices, len(draft.tokens)) + 1]
        self.engine.keep(len(ids), user, ids[-1])  # 3
        if self.acceptance is not None:
            self.acceptance.add(len(ids) - 1)
        pairs = self._record_routing(VERIFY)
        cost = self.clock.verify_pass(len(ids), user, pairs)
        self.clock.draft_cycles += max(0.0, draft.overlapped_cycles - cost.cycles)
        wall = time.perf_counter() - began
        self._last_run = (phase, [length])
        use = self.clock.fabric.verify_use(length)
        self._record_pass(self.program.phases.index(phase), use, cost, pairs, start_cycle, wall)
        for token in ids:
            if not answer.is_finished:
                cycles, answer.cycles = self.clock.cycles - answer.cycles, self.clock.cycles
                self._record_token(user, token, self._last_pass, cycles, wall)
                wall = 0.0

    def _record_routing(self, phase: str) -> Pairs:
        """Add the last pass's token count per expert to the totals of the run.

        Args:
            phase: ``prefill``, ``decode`` or ``verify``.

        Returns:
            Number of tokens per expert in this pass, int64 ``[experts]``, keyed by layer.
        """
        pairs = dict(self.engine.expert_pairs)
        self.load.add(phase, pairs)
        return pairs

    def _record_token(self, user: int, token: int, pass_index: int, cycles: float, wall_s: float) -> None:
        answer = self.answers[user]
        text = answer.add(token)
        self.new_tokens += self._passes > self.passes_again
        position = len(answer.prompt) + len(answer.tokens) - 1
        self.keeper.write(RunRecorder.add_token, user, token, text, pass_index, position, cycles, wall_s)

    def _record_pass(
        self, phase_index: int, use: CacheUse, cost: PhaseCost, pairs: Pairs, start: float, wall_s: float
    ) -> None:
        """Write the record of one pass to the trace.

        Args:
            phase_index: Index of the Program phase that ran.
            use: Occupied KV-cache slots.
            cost: Cycles and traffic of the pass.
            pairs: Number of tokens routed to each expert, keyed by layer.
            start: Cycle at which the pass started.
            wall_s: Wall-clock time of the pass on this computer, in seconds.
        """
        self._passes += 1
        pass_index = self.keeper.write(RunRecorder.add_pass, phase_index, use, cost, pairs, start, wall_s)
        self._last_pass = pass_index or 0

    def log_wavelets(self, recorder: RunRecorder) -> WaveletsResult:
        """Simulate the last pass of the run wavelet by wavelet (32-bit word by word), and trace it.

        Args:
            recorder: Recorder of the run. Its trace receives every move of a word.

        Returns:
            Cycles of the pass, total hops of all wavelets, and the number of moves written.
            Transfers between wafers and to the host are not included.
        """
        from wse.tracing.record.wavelet_log import log_wavelets  # the reference is not needed without --wavelets

        program, prepared_run = self.program, self.prepared
        assert self._last_run is not None
        phase, lengths = self._last_run
        recorder.write_waiting()  # the pass that the log refers to
        log = log_wavelets(
            recorder.writer,
            program,
            phase,
            lengths,
            prepared_run.wafer,
            prepared_run.software,
            pass_index=self._last_pass,
        )
        return WaveletsResult(cycles=log.cycles, wavelet_hops=log.wavelet_hops, moves=log.moves)
