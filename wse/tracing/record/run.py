"""A run written down as it goes on: its prompts, passes and tokens."""

from __future__ import annotations

import time
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import asdict
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple

import numpy as np

from wse.backends.execute.outputs import Values
from wse.backends.execute.pe_contents import Bytes, PePlace
from wse.backends.execute.sampling import Sampling
from wse.backends.fabric.expert_costs import Pairs
from wse.backends.fabric.model import CacheUse
from wse.backends.fabric.phase_cost import PhaseCost
from wse.backends.fabric.run_totals import RunTotals
from wse.compiler.placeable import Placeable
from wse.program.program import Program
from wse.tracing.expert_load import ExpertLoad
from wse.tracing.record.header import trace_header
from wse.tracing.record.recorder import Recorder
from wse_traces.errors import TraceError
from wse_traces.token_rows import Token

MOST_PASSES: Final = 64
MOST_S: Final = 0.25
"""Passes that wait, and the time that they wait, until they are written in one go, a third of the cost one by one."""


class _PhaseRun(NamedTuple):
    """A run of a phase."""

    number: int
    phase: int
    use: CacheUse
    cost: PhaseCost
    pairs: Pairs
    start: float
    wall_s: float
    outputs: list[tuple[int, Values]]
    contents: list[tuple[PePlace, int, Bytes]]

    @property
    def sequence_key(self) -> tuple[Hashable, ...]:
        """A key that is equal for passes that differ in cache shifts only."""
        return (self.number,) if self.pairs else (self.phase, self.cost.cost_class)


class RunRecorder(Recorder):
    """Writes one run."""

    def __init__(
        self, path: Path, prepared: Placeable, program: Program, digest: str, sampling: Sampling, weights: str | None
    ) -> None:
        """Begin the trace of a run.

        Args:
            path: The file.
            prepared: What the Program was compiled of.
            program: The Program that runs.
            digest: Its digest.
            sampling: The rule by which tokens are chosen.
            weights: The seed of random weights as it was requested; None for the model's own.

        Raises:
            TraceError: The path cannot be written.
        """
        options = {"command": "run", "weights": weights, **asdict(sampling)}
        super().__init__(path, program, trace_header(prepared, program, digest, sampling.seed, options))
        self._outputs: list[tuple[int, Values]] = []
        self._contents: list[tuple[PePlace, int, Bytes]] = []
        self._last_bytes: dict[tuple[PePlace, int], bytes] = {}
        self._waiting: list[_PhaseRun] = []
        self._tokens: list[Token] = []
        self._passes, self._wrote_at = 0, time.monotonic()
        self._flush_placement()

    def _flush_placement(self) -> None:
        """Write the Program and its placement at once, so that a run killed early can be read."""
        try:
            self.writer.flush()
        except TraceError as error:
            with suppress(TraceError):  # the same
                self.writer.close(complete=False, ending=str(error))
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            with suppress(TraceError):  # which the writer tells as well
                self.write_waiting()
        super().__exit__(kind, error, trace)

    def add_op_output(self, op: int, values: Values) -> None:
        """Add the output of an op in the current pass; it is written with the pass."""
        self._outputs.append((op, values))

    def add_content(self, place: PePlace, buffer: int, values: Bytes) -> None:
        """Add the contents of a buffer of a PE in the current pass; it is written with the pass if it changed."""
        if self._last_bytes.get((place, buffer)) != (now := values.tobytes()):
            self._last_bytes[place, buffer] = now
            self._contents.append((place, buffer, values))

    def add_prompt(self, user: int, ids: tuple[int, ...], texts: list[bytes], passes: list[int]) -> None:
        """Add the tokens of a user's prompt, each with the pass that read it."""
        for position, (token, text, index) in enumerate(zip(ids, texts, passes, strict=True)):
            self._tokens.append(Token(token, text, True, index, position, user))  # noqa: FBT003
        self._write_if_due()

    def add_pass(
        self, phase_index: int, use: CacheUse, cost: PhaseCost, pairs: Pairs, start: float, wall_s: float
    ) -> int:
        """Add one run of a phase with its choice of experts ``pairs``; return its index among the passes."""
        number, self._passes = self._passes, self._passes + 1
        outputs, self._outputs = self._outputs, []
        contents, self._contents = self._contents, []
        self._waiting.append(_PhaseRun(number, phase_index, use, cost, pairs, start, wall_s, outputs, contents))
        self._write_if_due()
        return number

    def add_token(
        self, user: int, token: int, text: bytes, pass_index: int, position: int, cycles: float, wall_s: float
    ) -> None:
        """Add one generated token."""
        place = {"pass_index": pass_index, "position": position, "sequence": user}
        self._tokens.append(Token(token, text, is_prompt=False, cycles=int(cycles), wall_s=wall_s, **place))
        self._write_if_due()

    def finish(self, clock: RunTotals, load: ExpertLoad, summary: dict[str, Any]) -> None:
        """Write what waits, and totals."""
        self.write_waiting()
        super().finish(clock, load, summary)

    def write_waiting(self) -> None:
        """Write the passes added so far, then the tokens that they read and generated.

        Raises: TraceError when it cannot be written.
        """
        waiting, tokens = self._waiting, self._tokens
        self._waiting, self._tokens, self._wrote_at = [], [], time.monotonic()
        for _, runs in groupby(waiting, key=lambda run: run.sequence_key):
            with self.writer.transaction():
                self._write_passes(list(runs))
        if tokens:
            self.writer.append_tokens(*tokens)

    def _write_passes(self, runs: list[_PhaseRun]) -> None:
        """Write consecutive passes that differ in cache shifts only."""
        first, (slots, _) = runs[0], runs[0].use
        routed = self._program.phases[first.phase].steps.routed.any()
        chosen = b"".join(tokens.tobytes() for tokens in first.pairs.values()) if routed else b""
        key = blake2b(chosen, digest_size=16).digest()
        sequence = self.sequence(first.phase, first.cost, slots, key, self.steps(first.phase).shifting)
        uses, starts, wall_times_s = ([getattr(run, name) for run in runs] for name in ("use", "start", "wall_s"))
        self.passes(first.phase, sequence, first.cost, uses, starts, first.pairs, wall_times_s)
        words, hops = (np.stack([getattr(run.cost.traffic, name) for run in runs]) for name in ("words", "hops"))
        self.write_shifts(first.phase, first.number, words, hops)
        self.experts.write(first.number, first.pairs)
        for run in runs:
            for op, values in run.outputs:
                self.writer.append_tensor(values, pass_index=run.number, op=op)
            for place, buffer, values in run.contents:
                self.writer.append_content(values, pass_index=run.number, buffer=buffer, pe=place)

    def _write_if_due(self) -> None:
        if len(self._waiting) >= MOST_PASSES or time.monotonic() - self._wrote_at > MOST_S:
            self.write_waiting()
