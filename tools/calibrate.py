"""Fit the software costs of the `academic` profile to published measurements, and cross-validate the fit.

    python tools/calibrate.py wse/data/measurements/waferllm_measured.csv

The fit minimises squared relative errors. It uses four groups of measurements, with equal total
weights: MeshGEMV, MeshGEMM and region shifts on WSE-3, and decode on WSE-2. Prefill is only
predicted.

Then some rows are left out and predicted with constants that are fitted to the other rows: each group, each model of
decode, each grid of decode, and all MeshGEMV or MeshGEMM rows of large grids. The script writes no file. Copy the
printed constants to wse/hardware/software/academic.toml by hand.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from wse.hardware.spec import SoftwareProfile
from wse.studies.validate.fitted_rows import DECODE, academic_group, academic_sample
from wse.studies.validate.measured.measurements import Measurement, read
from wse.studies.validate.measured.platforms import software
from wse.studies.validate.predictors import waferllm

F64 = npt.NDArray[np.float64]

STEPS = {
    "task_dispatch_cycles": 3.0,
    "reduce_gap_cycles": 3.0,
    "relay_cycles.wse2": 2.0,
    "relay_cycles.wse3": 1.0,
    "function_cycles": 2.0,
    "mapped_issue_cycles": 0.25,
    "loop_cycles": 2.0,
    "transfer_sync_cycles": 3.0,
}
"""The fitted constants in cycles, and the change of each with which derivatives are estimated."""

ITERATIONS = 3
DAMPING = 0.02  # weight of keeping the constants, relative to their changes in STEPS


@dataclass(frozen=True, slots=True)
class Row:
    """A measurement and the name of its group, such as "MeshGEMV" or "decode"."""

    measured: Measurement
    group: str

    def error(self, constants: F64) -> float:
        """Return the relative error in percent of the prediction with these constants."""
        answer = None
        for predictor in (waferllm.predict, waferllm.predict_product, waferllm.predict_shift):
            answer = answer or predictor(self.measured, lambda _, generation: profile(constants, generation))
        assert answer is not None
        assert answer.value is not None, answer.reason
        assert self.measured.measured is not None
        return 100 * (answer.value / self.measured.measured - 1)


def profile(constants: F64, generation: str) -> SoftwareProfile:
    """Return the academic profile of a wafer generation with other constants.

    Args:
        constants: Values in the order of ``STEPS``.
        generation: "wse2" or "wse3", which have different costs of a relay.
    """
    values = dict(zip(STEPS, map(float, constants), strict=True))
    relay = {g: values.pop(f"relay_cycles.{g}") for g in ("wse2", "wse3")}
    return replace(software("academic", generation), relay_cycles=relay[generation], **values)  # type: ignore[arg-type]


def start() -> F64:
    """Return the constants of the bundled profile, in the order of ``STEPS``."""
    two, three = software("academic", "wse2"), software("academic", "wse3")
    relays = {"relay_cycles.wse2": two.relay_cycles, "relay_cycles.wse3": three.relay_cycles}
    return np.array([relays.get(name, getattr(two, name, 0.0)) for name in STEPS], np.float64)


def rows_of(path: Path) -> tuple[list[Row], list[Row]]:
    """Read a CSV file of measurements. Return the rows to fit, and the rows of prefill."""
    fitted, predicted = [], []
    for m in read(path):
        group = academic_group(m)
        if group:
            is_log = m.text("evidence") == "hardware-log"
            (fitted if is_log or group == DECODE else predicted).append(Row(m, group))
    return fitted, predicted


def fit(rows: list[Row]) -> F64:
    """Fit the constants by damped Gauss-Newton steps that start from the bundled constants.

    Negative values are replaced by 0. Only measurements of decode depend on the cost of a relay on
    WSE-2. Without such measurements, this cost is set to that of WSE-3.

    Args:
        rows: Rows to fit.

    Returns:
        Values in the order of ``STEPS``.
    """
    x, steps = start(), np.array(list(STEPS.values()))
    groups = {group: [row for row in rows if row.group == group] for group in dict.fromkeys(r.group for r in rows)}
    rows = [row for group, group_rows in groups.items() for row in academic_sample(group_rows, group)]
    sizes = {group: sum(row.group == group for row in rows) for group in {row.group for row in rows}}
    weights = np.array([sizes[row.group] ** -0.5 for row in rows])

    def errors(x: F64) -> F64:
        return weights * np.array([row.error(x) for row in rows])

    for _ in range(ITERATIONS):
        now = errors(x)
        slopes = np.stack([(errors(x + step) - now) / step.sum() for step in np.diag(steps)], axis=1)
        damping = DAMPING * np.diag(1 / steps)
        change = np.linalg.lstsq(np.vstack([slopes, damping]), np.append(-now, np.zeros(len(x))), rcond=None)[0]
        x = np.maximum(x + change, 0.0)
    if "decode" not in sizes:
        names = list(STEPS)
        x[names.index("relay_cycles.wse2")] = x[names.index("relay_cycles.wse3")]
    return x


def print_errors(name: str, errors: Iterable[float]) -> None:
    """Print a line with the number of errors and their median and maximum size, in percent."""
    size = np.abs(np.array(list(errors)))
    print(f"{name:44} {len(size):4} rows   median {np.median(size):5.2f} %   worst {size.max():6.2f} %", flush=True)


def print_left_out(rows: list[Row], name: str, is_left_out: Callable[[Row], bool]) -> None:
    """Fit without some rows, predict these rows, and print the errors.

    Args:
        rows: All rows.
        name: Name of the rows that are left out.
        is_left_out: Whether a row is left out of the fit.
    """
    x = fit([row for row in rows if not is_left_out(row)])
    print_errors(f"left out: {name}", (row.error(x) for row in rows if is_left_out(row)))


def main() -> None:
    """Print the bundled and the fitted constants with their errors, then the cross-validation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measurements", type=Path, metavar="FILE.csv")
    rows, prefill = rows_of(parser.parse_args().measurements)
    for name, x in (("bundled", start()), ("fitted", fit(rows))):
        print(name, {key: round(float(value), 2) for key, value in zip(STEPS, x, strict=True)})
        for group in dict.fromkeys(row.group for row in rows):
            print_errors(group, (row.error(x) for row in rows if row.group == group))
        print_errors("prefill (never fitted)", (row.error(x) for row in prefill))
    for group in dict.fromkeys(row.group for row in rows):
        print_left_out(rows, group, lambda row, group=group: row.group == group)  # type: ignore[misc]
    for model in ("LLaMA3-8B", "QWen2-72B"):
        print_left_out(rows, f"decode of {model}", lambda row, model=model: row.measured.text("workload") == model)  # type: ignore[misc]
    for side in (420, 540, 660):
        print_left_out(rows, f"decode on {side}", lambda r, side=side: r.group == "decode" and r.measured.cols == side)  # type: ignore[misc]
    for group, min_side in (("MeshGEMV", 400), ("MeshGEMM", 400)):
        name = f"{group} on {min_side} and more"
        print_left_out(rows, name, lambda r, g=group, n=min_side: r.group == g and (r.measured.cols or 0) >= n)  # type: ignore[misc]


if __name__ == "__main__":
    main()
