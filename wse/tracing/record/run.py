"""Recording of a run while it proceeds: its prompts, passes and tokens."""

from __future__ import annotations

import time
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import asdict
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from wse.backends.execute.host_tokens.sampling import Sampling
from wse.backends.execute.observation.outputs import Values
from wse.backends.execute.observation.pe_contents import Bytes, PePlace
from wse.backends.fabric.expert_columns import ExpertTokens
from wse.backends.fabric.phase_cost import CacheUse, PhaseCost
from wse.backends.fabric.run_totals import RunTotals
from wse.compiler.placeable import Placeable
from wse.program.program import Program
from wse.tracing.record.program import trace_header
from wse.tracing.record.recorder import Recorder
from wse_traces.errors import TraceError
from wse_traces.writer.write import Token

MAX_PASSES: Final = 64
MAX_S: Final = 0.25
"""Maximum number of passes to buffer, and maximum seconds, before they are written together.

Writing passes together costs a third of the time of writing them one by one.
"""


class _PhaseRun(NamedTuple):
    """Pass (one execution of a phase) that has not yet been written to the trace.

    Attributes:
        number: Index of the pass.
        phase: Index of the phase.
        use: State of the KV caches before the pass.
        cost: Cost of the pass.
        expert_tokens: For each layer, the number of tokens routed to each expert.
        start: Cycle in which the pass starts.
        wall_s: Time that the emulator took, in seconds.
        outputs: Recorded op outputs: op index and values.
        contents: Recorded buffer contents: PE, buffer index and bytes.
    """

    number: int
    phase: int
    use: CacheUse
    cost: PhaseCost
    expert_tokens: ExpertTokens
    start: float
    wall_s: float
    outputs: list[tuple[int, Values]]
    contents: list[tuple[PePlace, int, Bytes]]

    @property
    def sequence_key(self) -> tuple[Hashable, ...]:
        """Key that is equal for passes that can share a schedule (a sequence of steps with costs).

        Cache shifts are not part of a schedule, so they may differ between passes with equal keys.
        """
        return (self.number,) if self.expert_tokens else (self.phase, self.cost.cost_class)


class RunRecorder(Recorder):
    """Recorder that writes the trace of a run while the run is in progress.

    Passes and tokens are buffered briefly and then written in batches, which is much faster than
    writing them one by one.
    """

    def __init__(
        self, path: Path, placeable: Placeable, program: Program, digest: str, sampling: Sampling, weights: str | None
    ) -> None:
        """Create the trace of a run.

        Args:
            path: File to write.
            placeable: The request that was compiled.
            program: The compiled Program.
            digest: Hexadecimal digest of the Program.
            sampling: How tokens are sampled.
            weights: Requested seed for random weights, or None for the model's weights.

        Raises:
            TraceError: The path cannot be written.
        """
        options = {"command": "run", "weights": weights, **asdict(sampling)}
        super().__init__(path, program, trace_header(placeable, program, digest, sampling.seed, options))
        self._outputs: list[tuple[int, Values]] = []
        self._contents: list[tuple[PePlace, int, Bytes]] = []
        self._last_bytes: dict[tuple[PePlace, int], bytes] = {}
        self._waiting: list[_PhaseRun] = []
        self._tokens: list[Token] = []
        self._passes, self._wrote_at = 0, time.monotonic()
        self._flush_placement()

    def _flush_placement(self) -> None:
        """Flush the Program and its placement to the file.

        The trace is then readable even if the process is killed.
        """
        try:
            self.writer.flush()
        except TraceError as error:
            with suppress(TraceError):  # the same error again
                self.writer.close(complete=False, ending=str(error))
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is not None:
            with suppress(TraceError):  # the writer reports the same error when it is closed
                self.write_waiting()
        super().__exit__(kind, error, trace)

    def add_op_output(self, op: int, values: Values) -> None:
        """Add the output of an op in the current pass, to be written together with the pass."""
        self._outputs.append((op, values))

    def add_content(self, place: PePlace, buffer: int, values: Bytes) -> None:
        """Add the contents of an SRAM buffer in the current pass, unless they are unchanged.

        Args:
            place: PE to which the buffer belongs.
            buffer: Index of the buffer.
            values: Bytes of the buffer.
        """
        if self._last_bytes.get((place, buffer)) != (data := values.tobytes()):
            self._last_bytes[place, buffer] = data
            self._contents.append((place, buffer, values))

    def add_prompt(self, user: int, ids: tuple[int, ...], texts: list[bytes], passes: list[int]) -> None:
        """Add the tokens of a user's prompt.

        Args:
            user: Index of the user.
            ids: Token ids.
            texts: UTF-8 bytes of each token.
            passes: Index of the pass that read each token.
        """
        for position, (token, text, index) in enumerate(zip(ids, texts, passes, strict=True)):
            self._tokens.append(Token(token, text, True, index, position, user))  # noqa: FBT003
        self._write_if_due()

    def add_pass(
        self, phase_index: int, use: CacheUse, cost: PhaseCost, expert_tokens: ExpertTokens, start: float, wall_s: float
    ) -> int:
        """Add one pass (one execution of a phase), and return its index.

        Args:
            phase_index: Phase that ran.
            use: State of the KV caches before the pass.
            cost: Cost of the pass.
            expert_tokens: For each layer, the number of tokens routed to each expert.
            start: Cycle in which the pass starts.
            wall_s: Time that the emulator took, in seconds.
        """
        number, self._passes = self._passes, self._passes + 1
        outputs, self._outputs = self._outputs, []
        contents, self._contents = self._contents, []
        self._waiting.append(_PhaseRun(number, phase_index, use, cost, expert_tokens, start, wall_s, outputs, contents))
        self._write_if_due()
        return number

    def add_token(
        self, user: int, token: int, text: bytes, pass_index: int, position: int, cycles: float, wall_s: float
    ) -> None:
        """Add one generated token.

        Args:
            user: Index of the user.
            token: Token id.
            text: UTF-8 bytes of the token.
            pass_index: Pass that generated the token.
            position: Position of the token in the user's sequence.
            cycles: Number of cycles since the user's previous token.
            wall_s: Time that the emulator took, in seconds.
        """
        place = {"pass_index": pass_index, "position": position, "sequence": user}
        self._tokens.append(Token(token, text, is_prompt=False, cycles=int(cycles), wall_s=wall_s, **place))
        self._write_if_due()

    def finish(self, clock: RunTotals, summary: dict[str, Any]) -> None:
        """Write all buffered data, then the totals and the report of the run.

        Args:
            clock: Cycles and traffic of the run.
            summary: Report of the run.
        """
        self.write_waiting()
        super().finish(clock, summary)

    def write_waiting(self) -> None:
        """Write the buffered passes, then the tokens that they read and generated.

        Raises:
            TraceError: The trace cannot be written.
        """
        buffered_runs, tokens = self._waiting, self._tokens
        self._waiting, self._tokens, self._wrote_at = [], [], time.monotonic()
        for _, runs in groupby(buffered_runs, key=lambda run: run.sequence_key):
            with self.writer.transaction():
                self._write_passes(list(runs))
        if tokens:
            self.writer.append_tokens(*tokens)

    def _write_passes(self, runs: list[_PhaseRun]) -> None:
        """Write consecutive passes that can share a schedule (a sequence of steps with costs).

        Cache shifts can differ between these passes, so they are written for each pass.
        """
        first, (slots, _) = runs[0], runs[0].use
        # The experts that tokens are routed to affect the cost, so they are part of the key.
        has_routing = self._program.phases[first.phase].steps.depends_on_experts.any()
        routing = b"".join(tokens.tobytes() for tokens in first.expert_tokens.values()) if has_routing else b""
        key = blake2b(routing, digest_size=16).digest()
        sequence = self.sequence(first.phase, first.cost, slots, key, self.steps(first.phase).shifting)
        uses, starts, wall_times_s = ([getattr(run, name) for run in runs] for name in ("use", "start", "wall_s"))
        self.passes(first.phase, sequence, first.cost, uses, starts, first.expert_tokens, wall_times_s)
        words, hops = (np.stack([getattr(run.cost.traffic, name) for run in runs]) for name in ("words", "hops"))
        self.write_shifts(first.phase, first.number, words, hops)
        self.experts.write(first.number, first.expert_tokens)
        for run in runs:
            for op, values in run.outputs:
                self.writer.append_tensor(values, pass_index=run.number, op=op)
            for place, buffer, values in run.contents:
                self.writer.append_content(values, pass_index=run.number, buffer=buffer, pe=place)

    def _write_if_due(self) -> None:
        """Write the buffered passes and tokens if there are many or the last write was long ago."""
        if len(self._waiting) >= MAX_PASSES or time.monotonic() - self._wrote_at > MAX_S:
            self.write_waiting()
