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

from wse.execute.outputs import Values
from wse.fabric.clock import Clock
from wse.fabric.expert_costs import Pairs
from wse.fabric.model import CacheUse
from wse.fabric.phase_cost import PhaseCost
from wse.inspect.expert_load import ExpertLoad
from wse.program.program import Program
from wse.record.header import trace_header
from wse.record.recorder import Recorder
from wse.request.prepare_run import Prepared
from wse_traces.errors import TraceError
from wse_traces.token_rows import Token

MOST_PASSES: Final = 64
MOST_S: Final = 0.25
"""How many passes wait, and how long, until they are written down together: alone each costs three times as much."""


class _Ran(NamedTuple):
    """One run of a phase."""

    number: int
    phase: int
    use: CacheUse
    cost: PhaseCost
    pairs: Pairs
    start: float
    wall_s: float
    made: list[tuple[int, Values]]

    @property
    def alike(self) -> tuple[Hashable, ...]:
        """Equal for passes that wait and differ in cache shifts alone; with a choice of experts none do."""
        return (self.number,) if self.pairs else (self.phase, self.cost.cost_class)


class RunRecorder(Recorder):
    """Writes one run."""

    def __init__(self, path: Path, prepared: Prepared, program: Program, digest: str) -> None:
        """Raises TraceError when the path cannot be written."""
        sampling = prepared.request.sampling
        options = {"command": "run", **asdict(sampling)}
        super().__init__(path, program, trace_header(prepared, program, digest, sampling.seed, options))
        self._made: list[tuple[int, Values]] = []
        self._ran: list[_Ran] = []
        self._tokens: list[Token] = []
        self._passes, self._wrote_at = 0, time.monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            with suppress(TraceError):  # which the writer tells as well
                self.write_waiting()
        super().__exit__(kind, error, trace)

    def made(self, op: int, values: Values) -> None:
        """What an op made in the pass that runs, which is written with it."""
        self._made.append((op, values))

    def prompt(self, user: int, ids: tuple[int, ...], texts: list[bytes], passes: list[int]) -> None:
        """The tokens of a user's prompt, each with the pass that read it, once its chunks have run."""
        for position, (token, text, index) in enumerate(zip(ids, texts, passes, strict=True)):
            self._tokens.append(Token(token, text, True, index, position, user))  # noqa: FBT003
        self._write_if_due()

    def passed(
        self, phase_index: int, use: CacheUse, cost: PhaseCost, pairs: Pairs, start: float, wall_s: float
    ) -> int:
        """One run of a phase, whose tokens chose experts as ``pairs`` says; its index among the passes."""
        number, self._passes = self._passes, self._passes + 1
        made, self._made = self._made, []
        self._ran.append(_Ran(number, phase_index, use, cost, pairs, start, wall_s, made))
        self._write_if_due()
        return number

    def token(
        self, user: int, token: int, text: bytes, pass_index: int, position: int, cycles: float, wall_s: float
    ) -> None:
        """One generated token."""
        place = {"pass_index": pass_index, "position": position, "sequence": user}
        self._tokens.append(Token(token, text, is_prompt=False, cycles=int(cycles), wall_s=wall_s, **place))
        self._write_if_due()

    def finish(self, clock: Clock, load: ExpertLoad, summary: dict[str, Any]) -> None:
        """What waits, and totals."""
        self.write_waiting()
        super().finish(clock, load, summary)

    def write_waiting(self) -> None:
        """Write down what waits: passes, then the tokens that they read and generated.

        Raises: TraceError when it cannot be written.
        """
        ran, tokens = self._ran, self._tokens
        self._ran, self._tokens, self._wrote_at = [], [], time.monotonic()
        for _, alike in groupby(ran, key=lambda each: each.alike):
            with self.writer.together():
                self._write_passes(list(alike))
        if tokens:
            self.writer.append_tokens(*tokens)

    def _write_passes(self, alike: list[_Ran]) -> None:
        """Passes after each other that differ in cache shifts alone."""
        first, (slots, _) = alike[0], alike[0].use
        routed = self._program.phases[first.phase].steps.routed.any()
        chosen = b"".join(tokens.tobytes() for tokens in first.pairs.values()) if routed else b""
        key = blake2b(chosen, digest_size=16).digest()
        schedule = self.schedule(first.phase, first.cost, slots, key, self.steps(first.phase).shifting)
        uses, starts, walls = ([getattr(each, name) for each in alike] for name in ("use", "start", "wall_s"))
        self.passes(first.phase, schedule, first.cost, uses, starts, first.pairs, walls)
        words, hops = (np.stack([getattr(each.cost, name) for each in alike]) for name in ("words", "hops"))
        self.write_shifts(first.phase, first.number, words, hops)
        self.experts.write(first.number, first.pairs)
        for each in alike:
            for op, values in each.made:
                self.writer.append_tensor(values, pass_index=each.number, op=op)

    def _write_if_due(self) -> None:
        if len(self._ran) >= MOST_PASSES or time.monotonic() - self._wrote_at > MOST_S:
            self.write_waiting()
