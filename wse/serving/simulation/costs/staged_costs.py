"""StagedCosts: pass times in a pipeline of stages, from tables of compiled passes.

A decode pass has slots for a number of users. It goes through all stages in T seconds and keeps the
busiest stage busy for b seconds. With U users in flight, there are U / slots passes, at least one,
and a round takes max(T, passes x b). This is a timed event graph as in `wse.serving.pipelining`.

Prompt chunks go through the same stages sequentially and keep the busiest stage busy for a time of
their own. Times are interpolated between contexts, and between lengths of a last chunk.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from wse.serving.simulation.costs.pass_costs import PromptPart
from wse_mappings.rounding import round_up


@dataclass(frozen=True, slots=True)
class PassTime:
    """Time of a pass through the stages of a pipeline.

    Attributes:
        latency_s: Duration of the pass through all stages in seconds.
        busy_s: Seconds that the busiest stage works on the pass.
    """

    latency_s: float
    busy_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeGrid:
    """Times of decode passes for several context lengths, with interpolation in between.

    Attributes:
        slots: Users whose tokens are decoded in one pass.
        contexts: Numbers of tokens in each user's cache, in ascending order.
        passes: Time of a pass for each of ``contexts``.
    """

    slots: int = 1
    contexts: tuple[int, ...]
    passes: tuple[PassTime, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkGrid:
    """Times of the chunks of a prompt, which are processed one after the other.

    Attributes:
        chunk_tokens: Number of tokens in a whole chunk.
        chunks: Times of whole chunks before the last chunk, in order from the start of the prompt.
        last_tokens: Lengths of a prompt's last chunk for which times are known, in ascending order
            up to a whole chunk. The last chunk also yields the first token of the answer.
        lasts: For each of ``last_tokens``, the time of the last chunk in a short and in a long
            prompt: without preceding chunks, and after ``len(chunks) - 1`` whole chunks. Times for
            other numbers of preceding chunks are interpolated.
    """

    chunk_tokens: int
    chunks: tuple[PassTime, ...]
    last_tokens: tuple[int, ...]
    lasts: tuple[tuple[PassTime, PassTime], ...]


@dataclass(frozen=True, kw_only=True)
class StagedCosts:
    """Time and KV-cache space that requests need on wafers that form a pipeline of stages.

    A single stage is possible. `wse.serving.simulation.costs.pass_costs.PassCosts` documents the
    attributes and methods that are not described here.

    Attributes:
        decode: Times of decode passes.
        prefill: Times of prompt chunks.
        state_tokens: Space of a request's recurrent state, in units of one token's KV cache.
    """

    decode: DecodeGrid
    prefill: ChunkGrid
    kv_capacity_tokens: int
    kv_block_tokens: int = 1
    state_tokens: int = 0
    max_states: int | None = None
    max_users: int
    host_s: float = 0.0

    @property
    def reused_tokens_multiple(self) -> int:
        """Number of tokens of which the length of a reused prefix must be a multiple.

        It is 1: prefixes of any length are reused. If a prefix ends within a block of the KV cache,
        its tokens in this block are copied; the time of the copy is neglected.
        """
        return 1

    @property
    def chunk_tokens(self) -> int:
        """Number of tokens in a whole chunk."""
        return self.prefill.chunk_tokens

    @property
    def contexts(self) -> tuple[int, ...]:
        """Context lengths in tokens for which times are known; others are interpolated."""
        return self.decode.contexts

    def room_tokens(self, tokens: int) -> int:
        """Return the space that a request occupies, in units of one token's KV cache.

        The space includes the request's state. The KV cache is rounded up to whole blocks. Layers
        with a sliding window also reserve space for all tokens.

        Args:
            tokens: Number of tokens in the request.
        """
        return round_up(tokens, self.kv_block_tokens) + self.state_tokens

    def round_s(self, users: int, context: int, parts: Sequence[PromptPart]) -> float:
        """Return the duration in seconds of a round, in which each user gets one decode pass.

        The result is the larger of two times:
        - the latency of a decode pass (0 without users)
        - the time that the busiest pipeline stage works in the round (`work_s`)

        Args:
            users: Number of users that decode.
            context: Tokens in each user's cache.
            parts: Prompt parts that are processed in the round.
        """
        work = self.work_s(users, context, parts)
        return max(work, self._decode(context).latency_s) if users else work

    def work_s(self, users: int, context: int, parts: Sequence[PromptPart]) -> float:
        """Return how long the busiest pipeline stage works in a round, in seconds.

        In a round, each user gets one decode pass, and parts of prompts may be read.

        Args:
            users: Number of users that decode.
            context: Tokens in each user's cache.
            parts: Prompt parts that are read in the round.
        """
        passes = max(1.0, users / self.decode.slots) if users else 0.0
        return sum(self.part_busy_s(part) for part in parts) + passes * self._decode(context).busy_s

    def drain_s(self, part: PromptPart) -> float:
        """Return the seconds from the end of a prompt's last round to its first token.

        At the end of its last round, the busiest pipeline stage has processed the prompt's last
        chunk. The chunk then still needs the time that it spends in all other stages. If the whole
        chunk before it spends more time there, the result is that longer time.

        Args:
            part: The part of the prompt that is processed in the round.
        """
        last_time, whole_tokens = self._last(part), part.tokens - self._last_tokens(part)
        drain_s = last_time.latency_s - last_time.busy_s
        if whole_tokens < self.chunk_tokens:
            return drain_s
        chunks = self.prefill.chunks
        previous_chunk = chunks[min((part.context + whole_tokens) // self.chunk_tokens, len(chunks)) - 1]
        return max(drain_s, previous_chunk.latency_s - previous_chunk.busy_s)

    def part_busy_s(self, part: PromptPart) -> float:
        """Return how long the busiest pipeline stage works on one part of a prompt, in seconds."""
        whole_tokens = part.tokens - self._last_tokens(part) if part.ends else part.tokens
        busy = self._busy_until(part.context + whole_tokens) - self._busy_until(part.context)
        return busy + (self._last(part).busy_s if part.ends else 0.0)

    def _decode(self, context: int) -> PassTime:
        """Return the time of a decode pass, interpolated between known context lengths."""
        contexts, passes = self.decode.contexts, self.decode.passes
        upper_index = min(bisect_left(contexts, context), len(contexts) - 1)
        if contexts[upper_index] == context or upper_index == 0:
            return passes[upper_index]
        low, high = contexts[upper_index - 1], contexts[upper_index]
        return _interpolated(passes[upper_index - 1], passes[upper_index], (context - low) / (high - low))

    @cached_property
    def _busy_sums(self) -> list[float]:
        """Seconds that the busiest stage works in total on a prompt's first 0, 1, 2, ... chunks."""
        return list(accumulate((chunk.busy_s for chunk in self.prefill.chunks), initial=0.0))

    def _busy_until(self, tokens: int) -> float:
        """Return the seconds that the busiest pipeline stage works on the start of a prompt.

        The tokens are processed in whole chunks. If they end within a chunk, its time counts in
        proportion to its included tokens.

        Args:
            tokens: Number of tokens from the start of the prompt.
        """
        chunk, extra_tokens = divmod(tokens, self.chunk_tokens)
        chunks, sums = self.prefill.chunks, self._busy_sums
        if chunk >= len(chunks):
            return sums[-1] + (chunk - len(chunks) + extra_tokens / self.chunk_tokens) * chunks[-1].busy_s
        return sums[chunk] + extra_tokens / self.chunk_tokens * chunks[chunk].busy_s

    def _last_tokens(self, part: PromptPart) -> int:
        """Return the size of the last chunk of a part of a prompt, in tokens.

        The part is divided into whole chunks and a last chunk, which may be smaller.
        """
        return (part.tokens - 1) % self.chunk_tokens + 1

    def _last(self, part: PromptPart) -> PassTime:
        """Return the time of the last chunk of a prompt, which may be shorter than the others.

        The time is interpolated from the known times in `ChunkGrid.lasts`, first by the number of
        preceding tokens and then by the length of the chunk.
        """
        grid, tokens = self.prefill, self._last_tokens(part)
        last_context = max(1, (len(grid.chunks) - 1) * grid.chunk_tokens)
        context_fraction = min(1.0, (part.context + part.tokens - tokens) / last_context)
        upper_index = bisect_left(grid.last_tokens, tokens)
        high = _interpolated(*grid.lasts[upper_index], context_fraction)
        if grid.last_tokens[upper_index] == tokens or upper_index == 0:
            return high
        low = _interpolated(*grid.lasts[upper_index - 1], context_fraction)
        lower_tokens = grid.last_tokens[upper_index - 1]
        return _interpolated(low, high, (tokens - lower_tokens) / (grid.last_tokens[upper_index] - lower_tokens))


def _interpolated(low: PassTime, high: PassTime, fraction: float) -> PassTime:
    """Interpolate linearly between two pass times.

    Args:
        low, high: The pass times.
        fraction: 0 for ``low``, 1 for ``high``.
    """
    return PassTime(
        low.latency_s + (high.latency_s - low.latency_s) * fraction, low.busy_s + (high.busy_s - low.busy_s) * fraction
    )
