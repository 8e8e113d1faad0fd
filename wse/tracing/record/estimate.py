"""Trace of an estimate: the timed prompt chunks and decoded tokens, written as if they had run.

Tokens with the same number of cache slots in use cost the same cycles. They are timed once and
share a schedule (sequence of steps). Their cache shifts differ: before a token is stored, some rows
of PEs pass a cache entry to the row above, and how many do depends on the tokens in the cache. The
schedule therefore has the words and hops of the mean token, rounded down. The last token of the
group additionally sends the remainder, so that the sums over all tokens are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from wse.arrays import I64
from wse.backends.fabric.expert_columns import ExpertTokens
from wse.backends.fabric.phase_cost import CacheUse, PhaseCost, TokenClass
from wse.backends.fabric.run_totals import RunTotals, TimedRun
from wse.compiler.placeable import Placeable
from wse.errors import BadTrace
from wse.program.expert_pairs import assumed_pairs
from wse.program.program import Program
from wse.program.steps import Phase
from wse.tracing.record.program import trace_header
from wse.tracing.record.recorder import MAX_ROWS, Recorder
from wse_traces.errors import TraceError

NO_TOKEN = -1
"""Id of a token whose id is unknown."""


def write_estimate(
    path: Path, placeable: Placeable, program: Program, timed_run: TimedRun, report: dict[str, Any]
) -> None:
    """Write an estimate as a trace. Its prompts and tokens look as if they had been emulated.

    Args:
        path: File to write.
        placeable: The request that was compiled.
        program: The compiled Program.
        timed_run: Times and traffic of the prompts and tokens.
        report: Report of the estimate, stored in the trace. Its entry ``inputs`` (the options of
            the command) is also stored in the header of the trace.

    Raises:
        BadTrace: The trace cannot be written.
    """
    header = trace_header(placeable, program, program.digest(), 0, {"command": "estimate", **report["inputs"]})
    try:
        with Recorder(path, program, header) as recorder:
            passes = _Passes(recorder, program, timed_run.clock)
            passes.prompts(timed_run.prompts)
            passes.write_tokens(timed_run.token_classes)
            if program.verify:
                passes.write_verification(placeable.middle_before_pass)
            recorder.finish(timed_run.clock, report)
    except TraceError as error:
        raise BadTrace(str(error)) from error


class _Passes:
    """Recorder that adds the passes of an estimate, and their tokens, to a trace."""

    def __init__(self, recorder: Recorder, program: Program, clock: RunTotals) -> None:
        self._recorder, self._program, self._clock, self._fabric = recorder, program, clock, clock.fabric
        self._now = 0.0  # cycles since the start
        self._ended = np.zeros(program.batch)  # cycle in which each user got the last token
        self._lengths = np.zeros(program.batch, np.int64)  # tokens in each user's cache

    def prompts(self, costs: Sequence[PhaseCost]) -> None:
        """Write the passes of all prompt chunks, and the first generated token of each user.

        Args:
            costs: Cost of each prompt chunk, in order.
        """
        read: list[list[I64]] = [[np.zeros(0, np.int64)] for _ in self._lengths]
        for index, (phase, cost) in enumerate(zip(self._program.prefill, costs, strict=True)):
            user = phase.user
            use: CacheUse = (self._fabric.cache_use([int(self._lengths[user]) + phase.tokens - 1])[0], ())
            self._lengths[user] += phase.tokens
            sequence = self._recorder.sequence(index, cost, use[0], ())
            indices = self._passes(index, sequence, cost, [use])
            read[user].append(np.full(phase.tokens, indices.start))
            self._ended[user] = self._now
        for user, parts in enumerate(read):
            passes = np.concatenate(parts)
            self._tokens(passes, user, np.arange(len(passes)), 0, is_prompt=True)
            self._tokens(passes[-1:], user, len(passes), int(self._ended[user]), is_prompt=False)

    def write_tokens(self, token_classes: Sequence[TokenClass]) -> None:
        """Write the decoded tokens. Each pass generates one token for each user.

        Args:
            token_classes: Groups of consecutive tokens. The passes of a group have the same cost,
                because the same number of cache slots are in use.
        """
        phase, users, position = self._program.decode_index, np.arange(self._program.batch), self._lengths.copy()
        wait_cycles = self._now - self._ended  # cycles that each user waits for the prompts of later users
        for token_class in token_classes:
            uses = [self._use() for _ in range(token_class.tokens)]
            shifts = self._fabric.shift_traffic(token_class)[0][:2].T
            mean, remainder = np.divmod(shifts, token_class.tokens)
            cost = _with_shifts(token_class.cost, mean)
            with self._recorder.writer.transaction():
                sequence = self._recorder.sequence(phase, cost, token_class.slots, ())
                indices = self._passes(phase, sequence, cost, uses)
                self._recorder.write_shifts(phase, indices[-1], *remainder.T[:, np.newaxis])
            for first in range(0, token_class.tokens, MAX_ROWS):
                pass_indices = np.array(indices[first : first + MAX_ROWS])
                for user in users.tolist():
                    cycles = np.full(len(pass_indices), token_class.cost.cycles)
                    cycles[0] += wait_cycles[user]
                    at = position[user] + 1 + np.arange(len(pass_indices))
                    self._tokens(pass_indices, user, at, cycles.astype(np.int64), is_prompt=False)
                position += len(pass_indices)
                wait_cycles[:] = 0

    def write_verification(self, length: int) -> None:
        """Write a pass that verifies draft tokens of the first user.

        No token belongs to this pass.

        Args:
            length: Number of tokens in the user's KV cache before the pass.
        """
        phase, use = self._program.phases.index(self._program.verify[0]), self._fabric.verify_use(length)
        self._clock.lengths[0] = length
        cost = self._clock.verify_pass(0)
        self._passes(phase, self._recorder.sequence(phase, cost, use[0], ()), cost, [use])

    def _use(self) -> CacheUse:
        """Return the KV-cache state for the next decode pass, then add a token to each cache."""
        use = self._fabric.cache_use(self._lengths.tolist())
        self._lengths += 1
        return use

    def _passes(self, phase_index: int, sequence: int, cost: PhaseCost, uses: Sequence[CacheUse]) -> range:
        """Append several passes with the same steps, one after the other, and return their indices.

        Args:
            phase_index: Phase that the passes execute.
            sequence: Index of their schedule (sequence of steps), from ``Recorder.sequence``.
            cost: Cost of one pass.
            uses: State of the KV caches before each pass.
        """
        pairs = assumed_routing(self._program, self._program.phases[phase_index])
        starts = self._now + cost.cycles * np.arange(len(uses))
        indices = self._recorder.passes(phase_index, sequence, cost, uses, starts.tolist(), pairs)
        self._now += cost.cycles * len(uses)
        return indices

    def _tokens(self, passes: I64, user: int, position: Any, cycles: Any, *, is_prompt: bool) -> None:
        """Add one user's tokens, which have neither ids nor text, to the trace.

        Args:
            passes: int ``[token]``: pass that read or generated each token.
            user: Index of the user.
            position: Position of each token in the sequence.
            cycles: Number of cycles from the previous token to each token.
            is_prompt: Whether the tokens belong to the prompt.
        """
        zeros = np.zeros(len(passes), np.int64)
        row = {"pass": passes, "id": zeros + NO_TOKEN, "sequence": zeros + user, "position": zeros + position}
        amounts = {"cycles": zeros + cycles, "is_prompt": zeros + is_prompt, "wall_s": zeros, "text_end": zeros}
        self._recorder.writer.append("token", {**row, **amounts})


def assumed_routing(program: Program, phase: Phase) -> ExpertTokens:
    """Return how many tokens each expert is assumed to process in a pass.

    Args:
        program: The compiled Program.
        phase: Phase whose tokens are routed.

    Returns:
        For each layer with experts, int64 ``[experts]``.
    """
    stages = program.expert_stages
    return {layer: assumed_pairs(program, stage, layer, phase.tokens) for layer, stage in stages.items()}


def _with_shifts(cost: PhaseCost, shift_traffic: I64) -> PhaseCost:
    """Return the cost of a pass with the traffic of cache shifts added.

    A cache shift moves KV-cache entries between rows of PEs.

    Args:
        cost: Cost without the traffic of cache shifts.
        shift_traffic: int64 ``[step, 2]``: words and hops of the cache shift in each step.
    """
    traffic = replace(
        cost.traffic, words=cost.traffic.words + shift_traffic[:, 0], hops=cost.traffic.hops + shift_traffic[:, 1]
    )
    return replace(cost, count_traffic=lambda: traffic)
