"""Execution of a compiled request: prompts and tokens, timed and traced."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from wse.compiler.options import DECODE, PREFILL, VERIFY
from wse.errors import BadInput, BadTrace
from wse.execute.backend import Backend, MakeBackend
from wse.execute.engine import Engine
from wse.execute.prompt_lookup import prompt_lookup
from wse.execute.sampling import Sampler
from wse.execute.streams import Draw
from wse.fabric.clock import Clock
from wse.fabric.expert_costs import Pairs
from wse.fabric.model import CacheUse, Fabric
from wse.fabric.phase_cost import PhaseCost
from wse.inspect.expert_load import ExpertLoad
from wse.program.phase import Phase
from wse.program.program import Program
from wse.record.keeper import STOP, TraceKeeper
from wse.record.run import RunRecorder
from wse.report.output_file import write_output
from wse.report.progress import OnProgress, ignore
from wse.request.prepare_run import Prepared, weights_of
from wse.studies.results.defects import defects_result
from wse.studies.results.phases import decode_result, prefill_result
from wse.studies.results.placement import model_result, system_result, wafer_result
from wse.studies.results.sram import sram_result
from wse.studies.results.traffic import crossing_result, fabric_result
from wse.studies.run.answer import Answer, OnText
from wse.studies.run.profile import profile_result, timed_steps
from wse.studies.run.result import EmulationResult, RunResult, WaveletsResult
from wse.studies.run.speedscope import speedscope
from wse.studies.run.verify import VerifiedResult, verified_result
from wse_traces.errors import TraceError


def execute(
    prepared: Prepared,
    program: Program,
    *,
    trace: Path | None = None,
    trace_policy: str = STOP,
    record: Sequence[int] = (),
    wavelets: bool = False,
    profile: Path | None = None,
    make_backend: MakeBackend = Engine,
    on_text: OnText = ignore,
    on_warning: Callable[[str], None] = ignore,
    on_progress: OnProgress = ignore,
) -> RunResult:
    """Execute a compiled request.

    Args:
        prepared: The request.
        program: Its Program.
        trace: Where to write the trace; None writes none.
        trace_policy: Whether the run stops or goes on without a trace when that can no longer be written.
        record: Indices of ops, ascending; what they make is kept in the trace.
        wavelets: Whether to carry out the last pass wavelet by wavelet too, and log every move in the trace.
        profile: Where to write a flame graph of this computer's time; None: steps are not timed.
        make_backend: Makes what executes the Program.
        on_text: Called with the prompt's text and then each stretch of generated text, where there is but one prompt.
        on_warning: Called with the reason why kernels are not kept, or why the run goes on without a trace.
        on_progress: Called with (done, all, name) while kernels compile.

    Raises:
        BadModel: there are no weights to execute.
        BadTrace: the trace cannot be written, and the policy is to stop.
        BadInput: the flame graph cannot be written; wavelets without a trace, on a region that is too large for them,
            or among dead PEs.
    """
    if wavelets:
        if prepared.meshes:
            message = "--wavelets: the wavelet reference knows whole meshes alone; leave out --defects or --wavelets"
            raise BadInput(message)
        from wse.record.wavelet_log import check_loggable  # the reference is not needed without --wavelets

        check_loggable(program, prepared.wafer, traced=trace is not None)
    loaded = prepared.loaded
    weights = weights_of(prepared.request, loaded)
    started = time.perf_counter()
    digest = program.digest()
    open_recorder = None if trace is None else partial(RunRecorder, trace, prepared, program, digest)
    try:
        with TraceKeeper(open_recorder, trace_policy, on_warning) as keeper:
            engine = make_backend(
                program,
                loaded.spec,
                weights,
                _draws(prepared, program),
                allow_nonfinite=prepared.request.allow_nonfinite,
                watched=record,
                on_output=lambda op, values: keeper.write(RunRecorder.add_op_output, op, values),
                profile=profile is not None,
            )
            unkept = engine.precompile(on_progress)
            if unkept:
                on_warning(unkept)
            session = _Session(prepared, program, engine, keeper, on_text)
            session.generate()
            result = session.result(digest, time.perf_counter() - started)
            if profile is not None:
                assert engine.step_times is not None
                steps = timed_steps(program, engine.step_times)
                result = replace(result, profile=profile_result(steps, engine.step_times, profile))
            if keeper.recorder is not None:
                logged = keeper.write(session.log_wavelets) if wavelets else None
                result = replace(result, trace=str(trace), wavelets=logged)
                summary = result.to_dict()
                keeper.write(RunRecorder.finish, session.clock, session.load, summary)
    except TraceError as error:
        raise BadTrace(str(error)) from error
    if profile is not None:
        write_output("--profile-output", profile, speedscope(program.model_name, steps))
    return replace(result, **keeper.lost)


def _draws(prepared: Prepared, program: Program) -> list[Draw]:
    """The sampler of each user where the host draws ids: each with the request's seed, as if the user were alone."""
    if program.sampling != "host":
        return []
    return [Sampler(prepared.request.sampling, prompt).draw for prompt in prepared.prompts]


class _Session:
    """The users' prompts and what follows them."""

    def __init__(
        self, prepared: Prepared, program: Program, engine: Backend, keeper: TraceKeeper, on_text: OnText
    ) -> None:
        self.prepared, self.program, self.engine, self.keeper = prepared, program, engine, keeper
        self.clock = Clock(Fabric(program, prepared.wafer, prepared.software, prepared.meshes))
        self.load = ExpertLoad()
        self.wall_s = 0.0
        self._last_pass = 0  # in the trace, where there is one
        self._last_run: tuple[Phase, list[int]] | None = None  # and the tokens that caches had before it
        self._accepted_tokens = 0  # of drafts
        ends, tokenizer = prepared.end_ids, prepared.loaded.tokenizer
        sink = on_text if program.batch == 1 else ignore  # texts that grow side by side are printed at the end
        self.answers = [Answer(ids, ends, prepared.new_tokens, tokenizer, sink) for ids in prepared.prompts]

    def generate(self) -> None:
        """Run the prompts, then one token of each user after another until all are done, or the tokens of a draft.

        A user who is done before others keeps a place in the batch; the tokens of that place belong to nobody.
        """
        began = time.perf_counter()
        self._read_prompts()
        while not all(answer.is_finished for answer in self.answers):
            draft = self._draft()
            if draft:
                self._verify(draft)
            else:
                self._generate_next()
        for answer in self.answers:
            answer.finish()
        self.wall_s = time.perf_counter() - began

    def _read_prompts(self) -> None:
        passes: list[list[int]] = [[] for _ in self.answers]
        began = time.perf_counter()
        for index in self.engine.prefill(*self.prepared.prompts):
            phase, before = self.program.prefill[index], self.clock.cycles
            pairs = self._record_routing(PREFILL)
            cost = self.clock.prefill_chunk(index, pairs)
            use: CacheUse = (self.engine.cache_slots(phase.user), ())
            self._last_run = (phase, [phase.cached])
            self._record_pass(index, use, cost, pairs, before, time.perf_counter() - began)
            passes[phase.user] += [self._last_pass] * phase.tokens
            self.answers[phase.user].cycles = self.clock.cycles
            began = time.perf_counter()
        for user, (answer, token) in enumerate(zip(self.answers, self.engine.tokens, strict=True)):
            if self.prepared.request.logits:
                answer.logits = self.engine.logits[user]
            self.keeper.write(RunRecorder.add_prompt, user, answer.prompt, answer.read(), passes[user])
            self._record_token(user, token, passes[user][-1] if passes[user] else 0, answer.cycles, 0.0)

    def _generate_next(self) -> None:
        began = time.perf_counter()
        before = self.clock.cycles
        tokens = self.engine.decode()
        pairs = self._record_routing(DECODE)
        self._last_run = (self.program.decode, list(self.clock.lengths))
        use, cost = self.clock.decode_token(pairs=pairs)
        wall = time.perf_counter() - began
        self._record_pass(self.program.decode_index, use, cost, pairs, before, wall)
        for user, token in enumerate(tokens):
            answer = self.answers[user]
            if not answer.is_finished:
                cycles, answer.cycles = self.clock.cycles - answer.cycles, self.clock.cycles
                self._record_token(user, token, self._last_pass, cycles, wall)

    def _draft(self) -> tuple[int, ...]:
        """The tokens that are drafted after the next one, to be verified with it; none where the cache has no room."""
        answer, tokens = self.answers[0], self.program.verify_tokens
        if not tokens or self.clock.lengths[0] + tokens > self.program.context:
            return ()
        return prompt_lookup((*answer.prompt, *answer.tokens), tokens - 1)

    def _verify(self, draft: tuple[int, ...]) -> None:
        """Run a pass over the next token and a draft.

        1. The pass gives the id that follows each of its tokens.
        2. Drafted tokens are accepted up to the first that is not the id that follows the one before.
        3. The cache keeps them and the next token; the ids that follow these are generated, in the time of the pass.
        """
        began, before, answer = time.perf_counter(), self.clock.cycles, self.answers[0]
        length, phase = self.clock.lengths[0], self.program.verify[0]
        ids = self.engine.verify((answer.tokens[-1], *draft))  # 1
        accepted = next((i for i, token in enumerate(draft) if token != ids[i]), len(draft))  # 2
        self.engine.keep(accepted + 1)  # 3
        pairs = self._record_routing(VERIFY)
        cost = self.clock.verify_pass(accepted + 1, pairs=pairs)
        wall = time.perf_counter() - began
        self._last_run, self._accepted_tokens = (phase, [length]), self._accepted_tokens + accepted
        use = self.clock.fabric.verify_use(length)
        self._record_pass(self.program.phases.index(phase), use, cost, pairs, before, wall)
        for token in ids[: accepted + 1]:
            if not answer.is_finished:
                cycles, answer.cycles = self.clock.cycles - answer.cycles, self.clock.cycles
                self._record_token(0, token, self._last_pass, cycles, wall)
                wall = 0.0

    def _record_routing(self, phase: str) -> Pairs:
        """The experts that the tokens of the last pass were routed to, which are added to the load."""
        pairs = dict(self.engine.expert_pairs)
        self.load.add(phase, pairs)
        return pairs

    def _record_token(self, user: int, token: int, pass_index: int, cycles: float, wall_s: float) -> None:
        answer = self.answers[user]
        text = answer.add(token)
        position = len(answer.prompt) + len(answer.tokens) - 1
        self.keeper.write(RunRecorder.add_token, user, token, text, pass_index, position, cycles, wall_s)

    def _record_pass(
        self, phase_index: int, use: CacheUse, cost: PhaseCost, pairs: Pairs, start: float, wall_s: float
    ) -> None:
        """Record a pass."""
        added = self.keeper.write(RunRecorder.add_pass, phase_index, use, cost, pairs, start, wall_s)
        self._last_pass = added or 0

    def log_wavelets(self, recorder: RunRecorder) -> WaveletsResult:
        """Carry out the last pass wavelet by wavelet, and log its moves."""
        from wse.record.wavelet_log import log_wavelets  # the reference is not needed without --wavelets

        program, prepared = self.program, self.prepared
        assert self._last_run is not None
        phase, lengths = self._last_run
        recorder.write_waiting()  # the pass that the log refers to
        log = log_wavelets(
            recorder.writer,
            program,
            phase,
            lengths,
            prepared.wafer,
            prepared.software,
            pass_index=self._last_pass,
        )
        return WaveletsResult(cycles=log.cycles, wavelet_hops=log.wavelet_hops, moves=log.moves)

    def _verified(self) -> VerifiedResult | None:
        """The totals of passes that verified drafts, where these were asked for."""
        if not self.program.verify_tokens:
            return None
        generated = len(self.answers[0].tokens) - 1
        return verified_result(self.clock, self._accepted_tokens, generated, self.prepared.wafer.clock_hz)

    def result(self, digest: str, wall_s: float) -> RunResult:
        """The result of the run, without its trace."""
        prepared, program, clock = self.prepared, self.program, self.clock
        wafer, spec, totals = prepared.wafer, prepared.spec, self.clock.decode
        users = tuple(answer.result() for answer in self.answers)
        lengths = [min(length, program.context - 1) for length in clock.lengths]
        result = RunResult(
            batch=program.batch,
            users=users,
            model=model_result(spec, program, weights=prepared.request.weights),
            wafer=wafer_result(wafer),
            system=system_result(program),
            sram=sram_result(program, wafer.sram_bytes_per_pe),
            prefill=prefill_result(clock.prefill, sum(map(len, prepared.prompts)), wafer.clock_hz),
            decode=decode_result(totals, spec.layer_count, wafer.clock_hz, program.batch) if totals.runs else None,
            crossing=crossing_result(totals, wafer.clock_hz) if totals.runs else None,
            fabric=fabric_result(program, totals),
            verify=self._verified(),
            experts=self.load.result(),
            defects=defects_result(prepared, program, lengths),
            emulation=EmulationResult(
                wall_s=wall_s,
                tokens_per_s=sum(len(answer.tokens) for answer in self.answers) / self.wall_s,
                program_digest=digest,
            ),
        )
        if len(users) > 1:
            return result
        (user,) = users
        return replace(
            result,
            tokens=user.tokens,
            prompt_tokens=user.prompt_tokens,
            prompt_ids=user.prompt_ids,
            text=user.text,
            prompt_logits_last=user.prompt_logits_last,
        )
