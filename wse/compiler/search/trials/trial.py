"""Trials: what a search records about a layout that it has tried on a reduced model."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from wse.arrays import F64
from wse.compiler.options import REPORT, Options
from wse.program.program import Program
from wse_mappings.regions.layout import Layout
from wse_mappings.schedule import LineSchedule

MARGIN = 0.004
"""Fraction of a request's cycles below which a difference between two layouts does not matter.

If restricting attention to some columns saves less than this, the layout is also compiled with
attention on all columns. Scratch memory for quantised weights is not enlarged for less, because the
memory is then no longer available for KV caches.
"""
TRIAL_ERROR = 0.015
"""Fraction of a request's cycles by which trials may rank two layouts wrongly.

The ratio of the cycles on a reduced model to those of the whole model, whose all-reduce trees and
attention columns are fitted, differs between layouts of a model by about this fraction.
"""


def cycles_between_requests(all_cycles: float | F64, busiest_cycles: float | F64, requests: float | F64) -> float | F64:
    """Return the minimum mean cycles between the ends of successive requests, several in flight.

    Neither does a request take less than ``all_cycles``, nor does the busiest stage or link serve requests
    more often than it can (the asymptotic bounds of Denning and Buzen, ACM Computing Surveys 10(3),
    1978). Passes reach a stage at nearly equal intervals, so they hardly wait, and the actual
    number is close to this bound.

    Args:
        all_cycles: Cycles of a request on all stages.
        busiest_cycles: Part of these cycles on the busiest stage or link.
        requests: Requests in flight, at least 1; may be a fraction.
    """
    return np.maximum(all_cycles / requests, busiest_cycles)


class StepCycles(NamedTuple):
    """Cycle counts of the steps of a phase.

    Attributes:
        all: float64 ``[steps]``: all cycles that a step adds to the phase, except waits for the host.
        launch: float64 ``[steps]``: the part of these cycles with the cause ``launch``, such as starting tasks.
    """

    all: F64
    launch: F64


class Timer(NamedTuple):
    """Functions that time the phases of a request, along with the number of tokens to generate.

    Attributes:
        by_step: Function that returns the cycle counts of the steps of some phases of a Program.
            Its arguments are the Program and the indices of the phases.
        new_tokens: Number of tokens to generate per user.
        line_cycles: Function that returns the cycle count of a communication pattern, such as an
            all-reduce, along otherwise idle rows or columns of PEs. Its arguments are the schedule
            of the pattern and the words per message.
    """

    by_step: Callable[[Program, Sequence[int]], list[StepCycles]]
    new_tokens: int
    line_cycles: Callable[[LineSchedule, int], float]


class ChunkTime(NamedTuple):
    """Cycle count of one prompt chunk, in total and on the busiest stage or link.

    Attributes:
        cycles: Total cycles on all stages; in a search for many users, those on the busiest one.
        busiest_cycles: Cycles on the busiest stage or link, after which the next chunk can follow.
    """

    cycles: float
    busiest_cycles: float

    def cycles_of_chunks(self, chunks: float) -> float:
        """Return how many cycles a series of identical chunks needs to pass through all stages.

        Stages work on different chunks at the same time, so each chunk after the first adds only
        the cycle count of the busiest stage or link.

        Args:
            chunks: Number of chunks; may be a fraction.
        """
        return self.cycles + max(0.0, chunks - 1) * self.busiest_cycles


class PromptTime(NamedTuple):
    """The time of all prompts of a request when they are divided into equally sized chunks.

    Attributes:
        cycles: Total cycles of all prompts; in a search for many users, those on the busiest stage.
        chunk: Tokens per chunk, approximately the fastest size.
    """

    cycles: float
    chunk: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Result of trying a layout on a reduced model, with one prefill matrix product.

    A layout is one way to divide wafers into regions. A reduced model has one layer of each kind.

    Attributes:
        layout, prefill: The layout and the prefill matrix product.
        needed_bytes: Bytes on the fullest PE with the smallest chunks; 0 if there were too few
            colours.
        fits: Whether these bytes fit in the SRAM of a PE.
        token_cycles: Approximate cycles per generated token; None if the trial was not timed or
            does not fit.
        generated_cycles: Approximate cycle count of all generated tokens of a request, on all
            stages.
        busiest_cycles: Part of ``generated_cycles`` on the busiest stage or link, for which passes
            queue; 0 unless the search is for many users.
        prompts: Approximate time of all prompts; None if they were not timed.
        passes: Maximum number of passes in flight, limited by the users and by the KV caches that
            fit; may be a fraction. A pass serves a batch of users, and queues like one request. 1
            unless the search is for many users.
    """

    layout: Layout
    prefill: str
    needed_bytes: int
    fits: bool
    token_cycles: float | None = None
    generated_cycles: float | None = None
    busiest_cycles: float = 0.0
    prompts: PromptTime | None = None
    passes: float = 1.0

    @property
    def request_cycles(self) -> float:
        """Approximate cycle count of a request: all its prompts and all its generated tokens.

        For many users, it is the mean number of cycles between the ends of successive requests. A
        search compares layouts by this number. It is infinite if the prompts were not timed.
        """
        return math.inf if self.prompts is None else self._cycles_with_prompts(self.prompts.cycles)

    @property
    def decode_cycles(self) -> float:
        """Like `request_cycles`, but without prompts; infinite if the trial was not timed."""
        return self._cycles_with_prompts(0.0)

    def _cycles_with_prompts(self, prompt_cycles: float) -> float:
        """Return the mean number of cycles between the ends of successive requests.

        Args:
            prompt_cycles: Cycles of all prompts of a request; in a search for many users, those on
                the busiest stage.
        """
        if self.generated_cycles is None:
            return math.inf
        all_cycles, busiest_cycles = self.generated_cycles + prompt_cycles, self.busiest_cycles + prompt_cycles
        return float(cycles_between_requests(all_cycles, busiest_cycles, self.passes))

    @property
    def key(self) -> tuple[Layout, str]:
        """The layout and the prefill matrix product that were tried, which identify the trial."""
        return self.layout, self.prefill

    def with_max_passes(self, max_passes: float) -> Trial:
        """Return the trial with at most a given number of passes in flight, but at least one."""
        return replace(self, passes=max(1.0, min(max_passes, self.passes)))

    def may_be_compiled(self, options: Options) -> bool:
        """Return whether the whole model may be compiled on the layout of the trial.

        The routers must have enough colours for it. The layout must also fit in SRAM, unless the
        request allows overflows.
        """
        return bool(self.needed_bytes) and (self.fits or options.capacity == REPORT)
