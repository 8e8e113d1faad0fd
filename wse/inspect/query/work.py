"""The steps of a trace summed over the run: what every table of cycles is added up from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wse.inspect.query.opened import Facts
from wse_traces.read import Array, Trace
from wse_traces.schema import CAUSES, PHASES


@dataclass(frozen=True)
class Sums:
    """Totals over the run, int64 ``[phase, group]``: ``cycles``, ``words`` and ``hops``; ``by`` has causes besides."""

    cycles: Array
    words: Array
    hops: Array
    by: Array


class Work:
    """A trace with its steps, of which those that are alike are one.

    Attributes:
        trace: The open trace.
        steps: The columns of ``Trace.top_steps``, all rows, those with the most cycles first.
        passes: How many passes each phase had.
    """

    def __init__(self, trace: Trace) -> None:
        """Raises: TraceError if the trace is damaged."""
        self.trace = trace
        self.steps = trace.top_steps(n=trace.rows("step"))
        phase, schedule = trace.column("schedules/phase"), trace.column("passes/schedule")
        executed: Any = np.bincount(phase[schedule], minlength=len(PHASES))
        self.passes: dict[str, int] = dict(zip(PHASES, executed[: len(PHASES)].tolist(), strict=True))

    def sums(self, group: Array, groups: int) -> Sums:
        """Totals of groups of the steps; those of a step whose group is none of 0 to ``groups`` are left out."""
        phase = self.steps["phase"]
        mine = (phase < len(PHASES)) & (group >= 0) & (group < groups)
        at = phase[mine] * groups + group[mine]

        def total(name: str) -> Array:
            found = np.zeros(len(PHASES) * groups, np.int64)
            np.add.at(found, at, self.steps[name][mine])
            return found.reshape(len(PHASES), groups)

        by = np.stack([total(f"{cause}_cycles") for cause in CAUSES], axis=-1)
        return Sums(total("cycles"), total("words"), total("hops"), by)

    def phases(self) -> Facts:
        """For each phase that ran, its passes, its cycles in all, and of a mean pass by cause, with words and hops."""
        sums = self.sums(np.zeros(len(self.steps["phase"]), np.int64), 1)
        facts: Facts = {}
        for code, phase in enumerate(PHASES):
            passes = self.passes[phase]
            if not passes:
                continue
            by = {cause: cycles / passes for cause, cycles in zip(CAUSES, sums.by[code, 0].tolist(), strict=True)}
            facts[phase] = {
                "passes": passes,
                "cycles": int(sums.cycles[code, 0]),
                "cycles_per_pass": sum(by.values()),
                "cycles_by": by,
                "words_per_pass": int(sums.words[code, 0]) / passes,
                "wavelet_hops_per_pass": int(sums.hops[code, 0]) / passes,
            }
        return facts
