"""A trial on a reduced model of a layout and a product, as the search remembers it, and how a request is timed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wse.arrays import F64
from wse.compiler.options import REPORT, Options
from wse.program.program import Program
from wse_mappings.schedule import LineSchedule
from wse_mappings.strategies.strategy import Layout


class Timer(NamedTuple):
    """A function set that times the phases of a request.

    Attributes:
        by_step: Gives the cycles of the steps of some phases of a Program, by their indices; float64 ``[steps]`` each.
        new_tokens: Tokens that are decoded for each user.
        line_cycles: Gives the cycles of a pattern of one variant, alone on its lines, with some words in a message.
    """

    by_step: Callable[[Program, Sequence[int]], list[F64]]
    new_tokens: int
    line_cycles: Callable[[LineSchedule, int], float]


class ChunkTime(NamedTuple):
    """The time of a prompt chunk.

    Attributes:
        cycles: Cycles on all stages, one after another.
        slowest_cycles: Cycles on the stage that takes longest, after which the next chunk can follow.
    """

    cycles: float
    slowest_cycles: float

    def of_all(self, chunks: float) -> float:
        """Return the cycles of several chunks that follow each other through the stages."""
        return self.cycles + max(0.0, chunks - 1) * self.slowest_cycles


class PromptTime(NamedTuple):
    """The time of all prompts of a request, in chunks of one size.

    Attributes:
        cycles: Cycles of all of them.
        chunk: Tokens of a prompt at once: where ``sized`` about those that take the fewest cycles, one on a row
            otherwise.
        shortest: The time of a chunk with one token on a row.
        sized: Whether larger chunks were looked for.
    """

    cycles: float
    chunk: int
    shortest: ChunkTime
    sized: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A layout with a product for prefill, tried on a reduced model.

    Attributes:
        layout, prefill: What was tried.
        needed_bytes: Bytes on the fullest PE with the smallest chunks; 0 where colours ran out.
        fits: Whether a PE has as many.
        token_cycles: About what a generated token takes; None where that was not requested or it does not fit.
        dominant_cycles: About what all prompts take, or all generated tokens over ``passes``, whichever is more. By it
            a search compares layouts.
        prompts: About what all prompts take; None as above.
        passes: Passes in flight at once, limited by stages and by KV caches that fit; 1 unless the search is for many
            users.
    """

    layout: Layout
    prefill: str
    needed_bytes: int
    fits: bool
    token_cycles: float | None = None
    dominant_cycles: float | None = None
    prompts: PromptTime | None = None
    passes: int = 1

    @property
    def key(self) -> tuple[Layout, str]:
        """The layout and the prefill product that were tried."""
        return self.layout, self.prefill

    def may_be_compiled(self, options: Options) -> bool:
        """Return whether the layout fits or need not fit, and its colours suffice."""
        return bool(self.needed_bytes) and (self.fits or options.capacity == REPORT)
