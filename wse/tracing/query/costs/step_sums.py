"""Steps of a trace summed over the run. All tables of cycles are computed from these sums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from wse.reports.result import Doc, Result
from wse_traces.reader.groups import group_sums
from wse_traces.reader.read import Array, Trace
from wse_traces.schema import CAUSES, PHASES


def cycle_fraction(cycles: float, phase_cycles: float) -> float:
    """Return cycles as a fraction of all cycles in their phase, or 0 for a phase without cycles.

    All cycle fractions in ``wse inspect`` and on the page of a trace use this definition.

    Args:
        cycles: Cycle count of some steps of the phase, either over the run or per pass on average.
        phase_cycles: Cycle count of all steps of the phase, including steps without an op, either
            over the run or per pass on average.
    """
    return cycles / phase_cycles if phase_cycles else 0.0


class PassTotals(Result):
    """Totals of a phase ("prefill", "decode" or "verify") over the run, and means per pass.

    A pass is one run of the phase, such as the generation of one token. ``cycles_by`` breaks the
    mean cycles per pass down by cause.
    """

    passes: Annotated[int, Doc("passes of the phase")]
    cycles: Annotated[int, Doc("cycles of all steps of the phase", "cycles")]
    cycles_per_pass: Annotated[float, Doc("cycles of a mean pass", "cycles")]
    cycles_by: Annotated[Mapping[str, float], Doc("the cycles of a mean pass by cause", "cycles")]
    words_per_pass: Annotated[float, Doc("words that a mean pass sends", "words")]
    wavelet_hops_per_pass: Annotated[float, Doc("links that these words cross, summed over words", "wavelet-hops")]
    tokens_per_s: Annotated[
        float | None, Doc("tokens/s of all users together; only for decode, in a summary", "tokens/s")
    ] = None


@dataclass(frozen=True)
class Sums:
    """Totals of groups of steps over the run, separately for each phase.

    Attributes:
        cycles: int64 ``[phase, group]``.
        words: int64 ``[phase, group]``: number of 32-bit words sent.
        hops: int64 ``[phase, group]``: number of links that these words cross.
        cycles_by: int64 ``[phase, group, cause]``: cycles due to each cause.
    """

    cycles: Array
    words: Array
    hops: Array
    cycles_by: Array

    def parts(self, phase: int) -> list[dict[str, Any]]:
        """Return the totals of each group in one phase as plain values, keyed by attribute name.

        ``cycles_by`` is a dict with the name of the cause as the key.

        Args:
            phase: Code of the phase.
        """
        columns = (getattr(self, name)[phase].tolist() for name in ("cycles", "words", "hops", "cycles_by"))
        return [
            {"cycles": cycles, "words": words, "hops": hops, "cycles_by": dict(zip(CAUSES, by, strict=True))}
            for cycles, words, hops, by in zip(*columns, strict=True)
        ]


class StepSums:
    """Steps of a trace, each summed over all of its executions in a phase.

    Attributes:
        trace: The open trace.
        steps: Table with a row for each step, sorted by decreasing cycles. The columns are keyed
            by name, such as ``phase``, ``op``, ``times`` (executions), ``cycles`` and ``words``.
        passes: Number of passes of each phase, keyed by phase name.
    """

    def __init__(self, trace: Trace) -> None:
        """Read and sum the steps of a trace.

        Raises:
            TraceError: The trace is damaged.
        """
        self.trace = trace
        self.steps = trace.top_steps(n=trace.rows("step"))
        phase, schedule = trace.column("schedules/phase"), trace.column("passes/schedule")
        executed = np.bincount(phase[schedule], minlength=len(PHASES)).tolist()
        self.passes: dict[str, int] = dict(zip(PHASES, executed, strict=False))

    def by_group(self, group: Array, groups: int) -> Sums:
        """Return the totals of groups of steps, separately for each phase.

        Args:
            group: int ``[step]``: group of each step. Steps whose index is negative or too large
                are not counted.
            groups: Number of groups.
        """
        phase = self.steps["phase"]
        is_grouped = (phase < len(PHASES)) & (group >= 0) & (group < groups)
        cell = phase[is_grouped] * groups + group[is_grouped]

        def total(name: str) -> Array:
            """Return the sum of a column over the steps of each phase and group."""
            return group_sums(self.steps[name][is_grouped], cell, len(PHASES) * groups).reshape(len(PHASES), groups)

        by_cause = np.stack([total(f"{cause}_cycles") for cause in CAUSES], axis=-1)
        return Sums(total("cycles"), total("words"), total("hops"), by_cause)

    def by_phase(self) -> Sums:
        """Return the totals of each phase. The group axis of the result has length 1."""
        return self.by_group(np.zeros(len(self.steps["phase"]), np.int64), 1)

    def phases(self) -> dict[str, PassTotals]:
        """Return the totals and per-pass means of each phase that ran.

        The keys are phase names: "prefill", "decode" or "verify".
        """
        sums = self.by_phase()
        phases = {}
        for code, (phase, passes) in enumerate(self.passes.items()):
            if passes:
                total = sums.parts(code)[0]
                cycles_by = {cause: cycles / passes for cause, cycles in total["cycles_by"].items()}
                phases[phase] = PassTotals(
                    passes=passes,
                    cycles=total["cycles"],
                    cycles_per_pass=sum(cycles_by.values()),
                    cycles_by=cycles_by,
                    words_per_pass=total["words"] / passes,
                    wavelet_hops_per_pass=total["hops"] / passes,
                )
        return phases
