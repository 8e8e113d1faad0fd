"""StagedCosts: pass costs of a pipeline of stages, from tables of passes that were compiled.

A decode pass has slots for a number of users. It goes through all stages in T seconds and keeps the slowest of them
busy for b seconds. With U users in flight, U / slots passes and at least one, a round takes max(T, passes x b): a timed
event graph, as `wse.serving.pipelining` has it. Chunks of prompts go through the same stages one after another, and
keep the slowest busy for their own time. Between contexts, and between lengths of a last chunk, seconds are
interpolated.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

from wse.serving.simulation.pass_costs import Piece


@dataclass(frozen=True, slots=True)
class PassTime:
    """A pass: seconds through all stages, and of the slowest stage's work."""

    latency_s: float
    busy_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeGrid:
    """Decode passes with ``slots`` users: ``passes[c]`` after ``contexts[c]`` tokens of each."""

    slots: int = 1
    contexts: tuple[int, ...]
    passes: tuple[PassTime, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkGrid:
    """Chunks of a prompt.

    Attributes:
        chunk_tokens: Tokens of a whole chunk.
        chunks: Whole ones, each after all those before it, behind which the prompt goes on.
        last_tokens: Lengths, rising to that of a whole chunk, of a prompt's last chunk, which gives a token.
        lasts: By length, such a chunk at the begin of a prompt and behind all of ``chunks`` but one.
    """

    chunk_tokens: int
    chunks: tuple[PassTime, ...]
    last_tokens: tuple[int, ...]
    lasts: tuple[tuple[PassTime, PassTime], ...]


@dataclass(frozen=True, kw_only=True)
class StagedCosts:
    """The costs of a pipeline of stages, or of one stage; see `wse.serving.simulation.pass_costs.PassCosts`."""

    decode: DecodeGrid
    prefill: ChunkGrid
    kv_capacity_tokens: int
    kv_block_tokens: int = 1
    most_users: int
    host_s: float = 0.0
    prompts_fill_gaps: bool = field(default=True, init=False)

    @property
    def chunk_tokens(self) -> int:
        """Tokens of a whole chunk."""
        return self.prefill.chunk_tokens

    @property
    def contexts(self) -> tuple[int, ...]:
        """The grid of contexts."""
        return self.decode.contexts

    def room_tokens(self, tokens: int) -> int:
        """Return the room that a user's cache needs: whole blocks; layers with a window keep all tokens."""
        return -(-tokens // self.kv_block_tokens) * self.kv_block_tokens

    def round_s(self, users: int, context: int, pieces: Sequence[Piece]) -> float:
        """Return the seconds of a round: those of a pass, or the work of the slowest stage where it is more."""
        work = self.work_s(users, context, pieces)
        return max(work, self._decode(context).latency_s) if users else work

    def work_s(self, users: int, context: int, pieces: Sequence[Piece]) -> float:
        """Return the seconds of a round in which the slowest stage works."""
        passes = max(1.0, users / self.decode.slots) if users else 0.0
        return sum(self.piece_busy_s(piece) for piece in pieces) + passes * self._decode(context).busy_s

    def drain_s(self, piece: Piece) -> float:
        """Return the seconds that the last chunk of a prompt takes through the stages beyond the work of the slowest.

        A short last chunk waits in every stage for the whole chunk before it, and takes as long as that one.
        """
        last, whole = self._last(piece), piece.tokens - self._last_tokens(piece)
        drain_s = last.latency_s - last.busy_s
        if whole < self.chunk_tokens:
            return drain_s
        chunks = self.prefill.chunks
        before = chunks[min((piece.context + whole) // self.chunk_tokens, len(chunks)) - 1]
        return max(drain_s, before.latency_s - before.busy_s)

    def piece_busy_s(self, piece: Piece) -> float:
        """Return the seconds of work of the slowest stage for a piece of a prompt."""
        whole = piece.tokens - self._last_tokens(piece) if piece.ends else piece.tokens
        busy = self._busy_until(piece.context + whole) - self._busy_until(piece.context)
        return busy + (self._last(piece).busy_s if piece.ends else 0.0)

    def _decode(self, context: int) -> PassTime:
        contexts, passes = self.decode.contexts, self.decode.passes
        upper = min(bisect_left(contexts, context), len(contexts) - 1)
        if contexts[upper] == context or upper == 0:
            return passes[upper]
        low, high = contexts[upper - 1], contexts[upper]
        return _between(passes[upper - 1], passes[upper], (context - low) / (high - low))

    @cached_property
    def _busy_sums(self) -> list[float]:
        return list(accumulate((chunk.busy_s for chunk in self.prefill.chunks), initial=0.0))

    def _busy_until(self, tokens: int) -> float:
        """Return the seconds of work for the whole chunks of the first tokens.

        Of a chunk that begins elsewhere its share.
        """
        at, over = divmod(tokens, self.chunk_tokens)
        chunks, sums = self.prefill.chunks, self._busy_sums
        if at >= len(chunks):
            return sums[-1] + (at - len(chunks) + over / self.chunk_tokens) * chunks[-1].busy_s
        return sums[at] + over / self.chunk_tokens * chunks[at].busy_s

    def _last_tokens(self, piece: Piece) -> int:
        """Return the tokens of the last chunk of a prompt."""
        return (piece.tokens - 1) % self.chunk_tokens + 1

    def _last(self, piece: Piece) -> PassTime:
        """Return the last chunk of a prompt: between lengths, and between the first and the last context."""
        grid, tokens = self.prefill, self._last_tokens(piece)
        longest = max(1, (len(grid.chunks) - 1) * grid.chunk_tokens)
        share = min(1.0, (piece.context + piece.tokens - tokens) / longest)
        upper = bisect_left(grid.last_tokens, tokens)
        high = _between(*grid.lasts[upper], share)
        if grid.last_tokens[upper] == tokens or upper == 0:
            return high
        low, lower = _between(*grid.lasts[upper - 1], share), grid.last_tokens[upper - 1]
        return _between(low, high, (tokens - lower) / (grid.last_tokens[upper] - lower))


def _between(low: PassTime, high: PassTime, share: float) -> PassTime:
    return PassTime(
        low.latency_s + (high.latency_s - low.latency_s) * share, low.busy_s + (high.busy_s - low.busy_s) * share
    )
