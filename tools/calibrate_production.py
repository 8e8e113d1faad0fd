"""Fit what production kernels cost beside hand-written ones on two launch figures, and tell all errors.

    python tools/calibrate_production.py ../shared/reference/public_tokens_per_s.csv

Two figures of August 2024 state a count of wafers and no speculative decoding: 8B on one wafer, 70B
on four. What they take longer than hand-written code is put on two constants of the profile
`production`. First every candidate is fitted alone, in the regions that are chosen without it: on
both figures, and on each to predict the other. Then the two in use are fitted again and again with
regions chosen anew by `--mapping auto`; the turn with the smallest errors counts. Last, the bytes
that four wafers leave beside the weights of 70B are compared with the profile's code. Nothing is
written; what is printed goes into wse/hardware/software/production.toml by hand.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from wse.backends.fabric.model import Fabric
from wse.backends.fabric.run_totals import RunTotals
from wse.compiler.options import REPORT
from wse.compiler.search.search import Compilation
from wse.hardware.load import load_software
from wse.hardware.spec import SoftwareProfile
from wse.studies.compile.choose import compile_fastest
from wse.studies.estimate.prepare import PreparedEstimate, prepare_estimate
from wse.studies.validate.measured.measurements import Measurement, read
from wse.studies.validate.measured.terms import LAST_PLAIN_MONTH, NO_DRAFT, drafts, earliest_month
from wse.studies.validate.predictors.services import PROFILE, ServiceRequest, service_request

CANDIDATES = {
    "function_cycles": 5.0,
    "task_dispatch_cycles": 10.0,
    "vector_issue_cycles": 5.0,
    "relay_cycles": 2.0,
    "loop_cycles": 10.0,
    "route_rewrite_cycles": 50.0,
}
"""Constants that production code may differ in, and the change of each by which slopes are taken."""

FITTED = ("task_dispatch_cycles", "function_cycles")
"""Those in use: each stays within what is known of it (see production.toml)."""

MAX_TURNS = 4


@dataclass(frozen=True, slots=True)
class Figure:
    """A launch figure and its request, of which the cache is that of the prompt and the answer."""

    row: Measurement
    prepared: PreparedEstimate

    @property
    def measured_us(self) -> float:
        """Microseconds of a token."""
        assert self.row.measured
        return 1e6 / self.row.measured

    def choose(self, software: SoftwareProfile) -> Compilation:
        """Return the compilation that the search finds with these costs."""
        return compile_fastest(replace(self.prepared, software=software))

    def us(self, found: Compilation, software: SoftwareProfile) -> float:
        """Microseconds of a token, the mean over the answer."""
        p = self.prepared
        clock = RunTotals(Fabric(found.program, p.wafer, software))
        clock.lengths = list(p.options.prompt_tokens)
        clock.decode_all(p.new_tokens - 1)
        return 1e6 * clock.decode.cycles / clock.decode.runs / p.wafer.clock_hz


def launch_figures(path: Path) -> list[Figure]:
    """Of each model the first row that states wafers, no drafts and a month before there were any."""
    figures: dict[str, Figure] = {}
    for row in read(path):
        asked = service_request(row)
        if not isinstance(asked, ServiceRequest) or asked.request.wafers is None or drafts(row) != NO_DRAFT:
            continue
        name = asked.request.model
        if earliest_month(row, name) <= LAST_PLAIN_MONTH:
            prepared = prepare_estimate(replace(asked.request, context=None))
            figures.setdefault(name, Figure(row, prepared))
    return list(figures.values())


@cache
def unfitted_profile() -> SoftwareProfile:
    """Return the bundled profile before the fit: one completion task a step, functions as in hand-written code."""
    tuned = load_software("tuned", "wse3")
    bundled = load_software(PROFILE, "wse3")
    return replace(bundled, task_dispatch_cycles=bundled.transfer_sync_cycles, function_cycles=tuned.function_cycles)


def profile(values: dict[str, float]) -> SoftwareProfile:
    """That profile with other values of constants."""
    return replace(unfitted_profile(), **values)  # type: ignore[arg-type]


def solve(figures: Sequence[Figure], found: Sequence[Compilation], start: dict[str, float]) -> dict[str, float]:
    """Return the values, none below zero, with the least squares of relative errors in the regions that were found.

    Time is linear in a constant as long as nothing hides behind something else: a few turns find
        where it is not.
    """
    x, measured = dict(start), np.array([f.measured_us for f in figures])

    def times(values: dict[str, float]) -> npt.NDArray[np.float64]:
        return np.array([f.us(p, profile(values)) for f, p in zip(figures, found, strict=True)]) / measured

    for _ in range(3):
        now = times(x)
        slopes = [(times({**x, name: x[name] + CANDIDATES[name]}) - now) / CANDIDATES[name] for name in x]
        change = np.linalg.lstsq(np.stack(slopes, axis=1), 1 - now, rcond=None)[0]
        x = {name: max(0.0, value + float(by)) for (name, value), by in zip(x.items(), change, strict=True)}
    return x


def errors(figures: Sequence[Figure], found: Sequence[Compilation], software: SoftwareProfile) -> str:
    """Relative errors of the rates, as text."""
    return "  ".join(
        f"{f.prepared.request.model} {100 * (f.measured_us / f.us(p, software) - 1):+5.1f} %"
        for f, p in zip(figures, found, strict=True)
    )


def candidates(figures: Sequence[Figure], found: Sequence[Compilation]) -> None:
    """Each constant alone, fitted on both figures and on each."""
    for name in CANDIDATES:
        before = {name: float(getattr(unfitted_profile(), name))}
        both = solve(figures, found, before)
        print(f"{name:22} {before[name]:5.1f} -> {both[name]:6.1f}   {errors(figures, found, profile(both))}")
        for i, kept in enumerate(figures):
            x = solve([kept], [found[i]], before)
            rest = [f for f in figures if f is not kept]
            others = [p for p in found if p is not found[i]]
            predicted = errors(rest, others, profile(x))
            print(f"    on {kept.prepared.request.model} alone {x[name]:6.1f}, predicts {predicted}", flush=True)


def fit(figures: Sequence[Figure]) -> dict[str, float]:
    """Return the values, whole cycles, with which the regions that are then chosen come nearest to the figures."""
    x = {name: float(getattr(unfitted_profile(), name)) for name in FITTED}
    tried: list[tuple[float, dict[str, float]]] = []
    for _ in range(MAX_TURNS):
        found = [figure.choose(profile(x)) for figure in figures]
        worst = max(abs(f.us(p, profile(x)) / f.measured_us - 1) for f, p in zip(figures, found, strict=True))
        tried.append((worst, x))
        x = {name: float(round(value)) for name, value in solve(figures, found, x).items()}
        if any(x == each for _, each in tried):
            break
    return min(tried, key=lambda each: each[0])[1]


def print_rates(name: str, software: SoftwareProfile, figures: Sequence[Figure]) -> list[Compilation]:
    """Return one line a figure: predicted and measured tokens a second, regions chosen with these costs."""
    print(name, flush=True)
    chosen = [figure.choose(software) for figure in figures]
    for figure, found in zip(figures, chosen, strict=True):
        cut = found.choice
        print(
            f"    {figure.prepared.request.model:14} measured {1e6 / figure.measured_us:6.0f}"
            f"   predicted {1e6 / figure.us(found, software):7.1f}   {errors([figure], [found], software)}"
            f"   {cut.bands} x {cut.per_band} regions{' transposed' if cut.is_transposed else ''}"
            f", padding {100 * found.program.padding_fraction:.1f} %",
            flush=True,
        )
    return chosen


def code(figure: Figure) -> None:
    """The bytes that the layout with the least waste leaves for code and stack."""
    software = figure.prepared.software
    taken = software.code_bytes_per_pe + software.stack_bytes_per_pe
    for wafers in (figure.prepared.options.wafers, figure.prepared.options.wafers - 1):
        prepared = replace(figure.prepared, options=replace(figure.prepared.options, wafers=wafers, capacity=REPORT))
        trials = compile_fastest(prepared).trials
        least = min(trial.needed_bytes for trial in trials if trial.needed_bytes)
        left = prepared.wafer.sram_bytes_per_pe - least + taken
        print(f"{figure.prepared.request.model} on {wafers} wafers leaves {left:,} bytes a PE for code and stack; "
              f"the profile takes {taken:,}")  # fmt: skip


def main() -> None:
    """Fit, print, and leave out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measurements", type=Path, metavar="FILE.csv")
    figures = launch_figures(parser.parse_args().measurements)
    found = print_rates("with what hand-written code costs", unfitted_profile(), figures)
    candidates(figures, found)
    x = fit(figures)
    print_rates(f"fitted, regions chosen anew: {x}", profile(x), figures)
    print_rates("bundled", load_software(PROFILE, "wse3"), figures)
    code(max(figures, key=lambda figure: figure.prepared.options.wafers))


if __name__ == "__main__":
    main()
