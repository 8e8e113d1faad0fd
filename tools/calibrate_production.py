"""Fit two costs of the software profile `production` to two speeds that the vendor published.

    python tools/calibrate_production.py ../shared/reference/public_tokens_per_s.csv

In August 2024 the vendor published two speeds with a number of wafers and without speculative
decoding: Llama 3 8B on one wafer, and 70B on four. They are slower than hand-written kernels would
be. The difference is attributed to two constants of the profile. The script:

1. Fits every candidate constant alone, with the layout that is best without it: to both speeds,
   and to each of them to predict the other.
2. Fits the two constants in use, alternating with a new search for the best layout. The iteration
   with the smallest error is kept.
3. Compares the SRAM that the weights of 70B leave free on four wafers with the size of the
   profile's code and stack.

It writes no file. Copy the printed constants to wse/hardware/software/production.toml by hand.
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
from wse.studies.validate.fitted_rows import launch_rows
from wse.studies.validate.measured.measurements import Measurement, read
from wse.studies.validate.predictors.services import PROFILE

CANDIDATES = {
    "function_cycles": 5.0,
    "task_dispatch_cycles": 10.0,
    "vector_issue_cycles": 5.0,
    "relay_cycles": 2.0,
    "loop_cycles": 10.0,
    "route_rewrite_cycles": 50.0,
}
"""Constants that may differ from hand-written code, and a change of each for derivatives."""

FITTED = ("task_dispatch_cycles", "function_cycles")
"""The fitted constants. Their fitted values are within the known ranges (see production.toml)."""

MAX_ITERATIONS = 4


@dataclass(frozen=True, slots=True)
class Figure:
    """A published speed and the estimate request that predicts it.

    Attributes:
        row: The measurement, in tokens/s of one user.
        prepared: The request. Its KV cache has room for exactly the prompt and the answer.
    """

    row: Measurement
    prepared: PreparedEstimate

    @property
    def measured_us(self) -> float:
        """Measured microseconds per generated token."""
        assert self.row.measured
        return 1e6 / self.row.measured

    def choose(self, software: SoftwareProfile) -> Compilation:
        """Return the fastest layout with these software costs, compiled."""
        return compile_fastest(replace(self.prepared, software=software))

    def us(self, found: Compilation, software: SoftwareProfile) -> float:
        """Return the predicted microseconds per generated token, as a mean over the answer.

        Args:
            found: The compiled layout.
            software: Costs of the software.
        """
        p = self.prepared
        clock = RunTotals(Fabric(found.program, p.wafer, software))
        clock.lengths = list(p.options.prompt_tokens)
        clock.decode_all(p.new_tokens - 1)
        return 1e6 * clock.decode.cycles / clock.decode.runs / p.wafer.clock_hz


def launch_figures(path: Path) -> list[Figure]:
    """Return the published speed of each model that is used for the fit, as `launch_rows` selects them."""
    return [Figure(row, prepare_estimate(replace(request, context=None))) for row, request in launch_rows(read(path))]


@cache
def unfitted_profile() -> SoftwareProfile:
    """Return the bundled profile without the fitted constants.

    A step costs one completion task, and functions such as exp cost what they do in hand-written
    code (profile `tuned`).
    """
    tuned = load_software("tuned", "wse3")
    bundled = load_software(PROFILE, "wse3")
    return replace(bundled, task_dispatch_cycles=bundled.transfer_sync_cycles, function_cycles=tuned.function_cycles)


def profile(values: dict[str, float]) -> SoftwareProfile:
    """Return the unfitted profile with other values of the given constants."""
    return replace(unfitted_profile(), **values)  # type: ignore[arg-type]


def solve(figures: Sequence[Figure], found: Sequence[Compilation], start: dict[str, float]) -> dict[str, float]:
    """Fit constants by least squares of relative errors, with given layouts.

    Times are linear in a constant except where steps overlap, so a few iterations are enough.
    Negative values are replaced by 0.

    Args:
        figures: The published speeds.
        found: The compiled layout of each of them.
        start: Names of the constants to fit, with their initial values in cycles.
    """
    x, measured = dict(start), np.array([f.measured_us for f in figures])

    def times(values: dict[str, float]) -> npt.NDArray[np.float64]:
        return np.array([f.us(p, profile(values)) for f, p in zip(figures, found, strict=True)]) / measured

    for _ in range(3):
        now = times(x)
        slopes = [(times({**x, name: x[name] + CANDIDATES[name]}) - now) / CANDIDATES[name] for name in x]
        change = np.linalg.lstsq(np.stack(slopes, axis=1), 1 - now, rcond=None)[0]
        x = {name: max(0.0, value + float(delta)) for (name, value), delta in zip(x.items(), change, strict=True)}
    return x


def errors(figures: Sequence[Figure], found: Sequence[Compilation], software: SoftwareProfile) -> str:
    """Return the relative errors of the predicted tokens/s as a line of text."""
    return "  ".join(
        f"{f.prepared.request.model} {100 * (f.measured_us / f.us(p, software) - 1):+5.1f} %"
        for f, p in zip(figures, found, strict=True)
    )


def print_candidates(figures: Sequence[Figure], found: Sequence[Compilation]) -> None:
    """Fit each candidate constant alone, to one or both speeds, and print values and errors."""
    for name in CANDIDATES:
        before = {name: float(getattr(unfitted_profile(), name))}
        both = solve(figures, found, before)
        print(f"{name:22} {before[name]:5.1f} -> {both[name]:6.1f}   {errors(figures, found, profile(both))}")
        for i, fitted in enumerate(figures):
            x = solve([fitted], [found[i]], before)
            rest = [f for f in figures if f is not fitted]
            others = [p for p in found if p is not found[i]]
            predicted = errors(rest, others, profile(x))
            print(f"    on {fitted.prepared.request.model} alone {x[name]:6.1f}, predicts {predicted}", flush=True)


def fit(figures: Sequence[Figure]) -> dict[str, float]:
    """Fit the constants in use, alternating with a search for the fastest layouts.

    Returns:
        The values in whole cycles of the iteration whose largest relative error is smallest.
    """
    x = {name: float(getattr(unfitted_profile(), name)) for name in FITTED}
    tried: list[tuple[float, dict[str, float]]] = []
    for _ in range(MAX_ITERATIONS):
        found = [figure.choose(profile(x)) for figure in figures]
        worst = max(abs(f.us(p, profile(x)) / f.measured_us - 1) for f, p in zip(figures, found, strict=True))
        tried.append((worst, x))
        x = {name: float(round(value)) for name, value in solve(figures, found, x).items()}
        if any(x == each for _, each in tried):
            break
    return min(tried, key=lambda each: each[0])[1]


def print_rates(name: str, software: SoftwareProfile, figures: Sequence[Figure]) -> list[Compilation]:
    """Print measured and predicted tokens/s and the fastest layout of each speed.

    Args:
        name: Heading to print.
        software: Costs of the software.
        figures: The published speeds.

    Returns:
        The compiled layouts.
    """
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


def print_free_sram(figure: Figure) -> None:
    """Print how much SRAM per PE is left for code and stack, and how much the profile needs.

    Lines are printed for the number of wafers of the published speed and for one wafer fewer, each
    with the layout that needs the least SRAM.
    """
    software = figure.prepared.software
    needed_bytes = software.code_bytes_per_pe + software.stack_bytes_per_pe
    for wafers in (figure.prepared.options.wafers, figure.prepared.options.wafers - 1):
        prepared = replace(figure.prepared, options=replace(figure.prepared.options, wafers=wafers, capacity=REPORT))
        trials = compile_fastest(prepared).trials
        min_bytes = min(trial.needed_bytes for trial in trials if trial.needed_bytes)
        free_bytes = prepared.wafer.sram_bytes_per_pe - min_bytes + needed_bytes
        print(f"{figure.prepared.request.model} on {wafers} wafers leaves {free_bytes:,} bytes/PE for code and stack; "
              f"the profile needs {needed_bytes:,}")  # fmt: skip


def main() -> None:
    """Print predictions without the fit, with each candidate, with the fit, and as bundled."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measurements", type=Path, metavar="FILE.csv")
    figures = launch_figures(parser.parse_args().measurements)
    found = print_rates("with the costs of hand-written code", unfitted_profile(), figures)
    print_candidates(figures, found)
    x = fit(figures)
    print_rates(f"fitted, with a new search: {x}", profile(x), figures)
    print_rates("bundled", load_software(PROFILE, "wse3"), figures)
    print_free_sram(max(figures, key=lambda figure: figure.prepared.options.wafers))


if __name__ == "__main__":
    main()
