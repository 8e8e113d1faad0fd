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
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

from wse.serving.simulation.pass_costs import PromptPart
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
    """Times of the chunks of a prompt, which are read sequentially.

    Attributes:
        chunk_tokens: Number of tokens in a whole chunk.
        chunks: Times of whole chunks before the last chunk, in order from the start of the prompt.
        last_tokens: Possible lengths of a prompt's last chunk, in ascending order up to a whole
            chunk. The last chunk yields a token.
        lasts: For each of ``last_tokens``, two times of a last chunk of this length: as the only
            chunk of a prompt, and after ``len(chunks) - 1`` whole chunks. Times for other numbers
            of preceding chunks are interpolated.
    """

    chunk_tokens: int
    chunks: tuple[PassTime, ...]
    last_tokens: tuple[int, ...]
    lasts: tuple[tuple[PassTime, PassTime], ...]


@dataclass(frozen=True, kw_only=True)
class StagedCosts:
    """Times and KV capacity of wafers that form a pipeline of stages or a single stage.

    `wse.serving.simulation.pass_costs.PassCosts` documents the attributes and methods that are not
    described here.

    Attributes:
        decode: Times of decode passes.
        prefill: Times of prompt chunks.
        state_tokens: Number of cache tokens that need as much space as the state of a request.
    """

    decode: DecodeGrid
    prefill: ChunkGrid
    kv_capacity_tokens: int
    kv_block_tokens: int = 1
    state_tokens: int = 0
    max_users: int
    host_s: float = 0.0
    prompts_fill_gaps: bool = field(default=True, init=False)

    @property
    def reused_tokens_multiple(self) -> int:
        """Granularity of prefix reuse in tokens: 1, so prefixes of any length are reused.

        A prefix may end within a block of the KV cache. Its tokens in this block are then copied,
        and the time of the copy is neglected.
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
        """Return the space for the KV cache and the state of a request, as a number of tokens.

        The cache consists of whole blocks. Layers with a sliding window also store all tokens.

        Args:
            tokens: Number of tokens in the request.
        """
        return round_up(tokens, self.kv_block_tokens) + self.state_tokens

    def round_s(self, users: int, context: int, parts: Sequence[PromptPart]) -> float:
        """Return the duration in seconds of a round, in which each user gets one decode pass.

        The result is the latency of a decode pass, or the time for which the busiest pipeline stage
        works in the round if that is longer.

        Args:
            users: Number of users that decode.
            context: Tokens in each user's cache.
            parts: Prompt parts that are read in the round.
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
        """Return the time in seconds from the end of a prompt's last round to the first token.

        In a round, each user gets one decode pass, and parts of prompts are read. At its end, the
        busiest pipeline stage has processed the last chunk. The result is the time that this chunk
        spends in all other stages, or the same time of the whole chunk before it if that is longer.

        Args:
            part: The part of the prompt that is read in its last round.
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
        """Seconds that the busiest stage works in total on the first 0, 1, 2, ... chunks."""
        return list(accumulate((chunk.busy_s for chunk in self.prefill.chunks), initial=0.0))

    def _busy_until(self, tokens: int) -> float:
        """Return how long the busiest pipeline stage works on a prompt's first tokens, in seconds.

        The tokens are read in whole chunks. A chunk that is only partly included counts in
        proportion to its tokens.

        Args:
            tokens: Number of tokens.
        """
        chunk, extra_tokens = divmod(tokens, self.chunk_tokens)
        chunks, sums = self.prefill.chunks, self._busy_sums
        if chunk >= len(chunks):
            return sums[-1] + (chunk - len(chunks) + extra_tokens / self.chunk_tokens) * chunks[-1].busy_s
        return sums[chunk] + extra_tokens / self.chunk_tokens * chunks[chunk].busy_s

    def _last_tokens(self, part: PromptPart) -> int:
        """Return the number of tokens in the last chunk if a part is read chunk by chunk."""
        return (part.tokens - 1) % self.chunk_tokens + 1

    def _last(self, part: PromptPart) -> PassTime:
        """Return the time of the last chunk of a prompt, which may be shorter than the others.

        The time is interpolated twice: between chunk lengths with known times, and between the
        minimum and the maximum number of preceding tokens with known times.
        """
        grid, tokens = self.prefill, self._last_tokens(part)
        last_context = max(1, (len(grid.chunks) - 1) * grid.chunk_tokens)
        context_fraction = min(1.0, (part.context + part.tokens - tokens) / last_context)
        upper_index = bisect_left(grid.last_tokens, tokens)
        high = _interpolated(*grid.lasts[upper_index], context_fraction)
        if grid.last_tokens[upper_index] == tokens or upper_index == 0:
            return high
        low, lower_tokens = (
            _interpolated(*grid.lasts[upper_index - 1], context_fraction),
            grid.last_tokens[upper_index - 1],
        )
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
