"""Fit the constants of a compute-engine profile to rows of microbenchmarks, and print them.

    python tools/fit_compute_engine.py ROWS.csv --profile epcc

Only rows of single operations, messages and transfers are used. Four of these rows are passes inside a softmax. No row
of a decoded token, a layer or a whole phase is used. Each fit minimises the sum of squared relative errors.

The numbers of operations of an exponential, a sigmoid, a norm and a rotation are whole numbers. They are chosen such
that one cost per operation explains all rows best.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np

from wse.hardware.compute_engine import ComputeEngineCosts, load_compute_engine
from wse.hardware.load import load_wafer
from wse.hardware.spec import WaferSpec
from wse.studies.validate.inference.lines import collective_of, multicast_of, ring_bytes, stored_words
from wse.studies.validate.kernel_model.kernel_work import KernelWork, kernel_work, probe_cycles
from wse.studies.validate.kernel_model.reduce_time import all_reduce_cycles
from wse.studies.validate.kernel_model.step_time import StepTime
from wse.studies.validate.measured.measurements import Measurement, read

OPERATION_COUNTS: Final = (
    "exponential_operations",
    "sigmoid_operations",
    "head_norm_operations",
    "rotation_operations",
)

FIT_GROUPS: Final = frozenset({"DSD", "SOFTMAX", "MCAST", "M3", "M3C", "RING", "P17F"})
"""Groups of rows to which the constants may be fitted."""


@dataclass(frozen=True, slots=True)
class FittedConstants:
    """Constants fitted to the same measurements.

    Attributes:
        values: The constants, keyed by field of `ComputeEngineCosts`.
        rows: The rows to which they were fitted.
    """

    values: dict[str, float]
    rows: tuple[Measurement, ...]


def fit_costs(rows: Iterable[Measurement], wafer: WaferSpec, costs: ComputeEngineCosts) -> tuple[FittedConstants, ...]:
    """Fit all constants of a compute-engine profile to microbenchmarks.

    Args:
        rows: Rows of the table `inference`. Groups that are not in `FIT_GROUPS` are ignored.
        wafer: The wafer on which they were measured.
        costs: Profile with the constants that are not fitted.
    """
    usable = [m for m in rows if m.text("group") in FIT_GROUPS and m.measured and m.text("kind") == "measured"]
    multicast = _fit_multicast(usable)
    costs = replace(costs, **multicast.values)
    operations = _fit_operations(usable, wafer)
    costs = replace(costs, **operations.values)
    return (
        operations,
        multicast,
        _fit_relay([m for m in usable if m.text("unit").startswith("cycles")], wafer, costs),
        _fit_stored_words([m for m in usable if m.text("unit") == "cycles"]),
        _fit_ring(usable),
    )


def _fit_multicast(rows: Sequence[Measurement]) -> FittedConstants:
    """Fit fixed cycles, cycles per word and cycles per hop of multicasts."""
    used_rows = [(m, message) for m in rows if (message := multicast_of(m))]
    terms = [[1.0, message.words, message.receivers] for _, message in used_rows]
    fixed, word, hop = _least_squares(terms, [m.measured or 0 for m, _ in used_rows])
    values = {"multicast_cycles": fixed, "multicast_word_cycles": word, "multicast_hop_cycles": hop}
    return FittedConstants(values, tuple(m for m, _ in used_rows))


def _fit_operations(rows: Sequence[Measurement], wafer: WaferSpec) -> FittedConstants:
    """Fit the cycles per operation and element, and the operations per norm, rotation etc."""
    used_rows = [(m, work) for m in rows if (work := kernel_work(m))]
    measured_values = [m.measured or 0 for m, _ in used_rows]
    best: tuple[float, dict[str, float]] | None = None
    for counts in product(range(6, 13), range(2, 9), range(2, 6), range(2, 8)):
        numbers = dict(zip(OPERATION_COUNTS, counts, strict=True))
        terms = [_terms(work, numbers, wafer) for _, work in used_rows]
        targets = [
            value - fixed - probe_cycles(m)
            for value, (_, _, fixed), (m, _) in zip(measured_values, terms, used_rows, strict=True)
        ]
        matrix = [[operations, elements] for operations, elements, _ in terms]
        solution = _least_squares(matrix, targets, measured_values)
        residuals = (np.array(matrix) @ solution - targets) / measured_values
        error = float(residuals @ residuals)
        if best is None or error < best[0]:
            best = error, {"operation_cycles": solution[0], "element_cycles": solution[1], **numbers}
    if best is None:
        return FittedConstants({}, ())
    return FittedConstants(best[1], tuple(m for m, _ in used_rows))


def _terms(work: KernelWork, numbers: Mapping[str, float], wafer: WaferSpec) -> tuple[float, float, float]:
    """Return how many operations, float32 elements and fixed cycles a kernel needs.

    Args:
        work: The work.
        numbers: Operations per exponential, norm etc., keyed by `ComputeEngineCosts` field.
        wafer: The wafer, which gives the rate of 16-bit multiply-accumulates.
    """
    count = work.repeats * sum(numbers[name] for name in work.sequences) if work.sequences else work.repeats
    return count, count * work.length if work.sequences else 0, work.macs / wafer.mac_fp16_fp32_per_cycle


def _fit_relay(rows: Sequence[Measurement], wafer: WaferSpec, costs: ComputeEngineCosts) -> FittedConstants:
    """Fit the cycles of a relay to all-reduces along a line."""
    used_rows = [(m, line) for m in rows if (line := collective_of(m))]
    costs_without_relays = replace(costs, relay_cycles=0)
    relays = [line.pes // line.group // 2 + line.group // 2 for _, line in used_rows]
    rest = [all_reduce_cycles(wafer, costs_without_relays, line.pes, line.words, line.group) for _, line in used_rows]
    layer = StepTime(wafer, costs)
    local = [
        line.operations * layer.work_cycles(line.work, line.length) + line.tasks * costs.task_cycles
        for _, line in used_rows
    ]
    measured_values = [m.measured or 0 for m, _ in used_rows]
    probes = [probe_cycles(m) for m, _ in used_rows]
    targets = [value - a - b - c for value, a, b, c in zip(measured_values, rest, local, probes, strict=True)]
    (relay,) = _least_squares([[float(count)] for count in relays], targets, measured_values)
    return FittedConstants({"relay_cycles": relay}, tuple(m for m, _ in used_rows))


def _fit_stored_words(rows: Sequence[Measurement]) -> FittedConstants:
    """Fit the cycles to store and reload a word, and the cycles saved by overlap per PE."""
    used_rows = [(m, stored_message) for m in rows if (stored_message := stored_words(m))]
    terms = [
        [float(stored_message.words * stored_message.pes), -float(stored_message.pes)]
        for _, stored_message in used_rows
    ]
    word, overlap = _least_squares(terms, [m.measured or 0 for m, _ in used_rows])
    values = {"stored_word_cycles": word, "stored_overlap_cycles": overlap}
    return FittedConstants(values, tuple(m for m, _ in used_rows))


def _fit_ring(rows: Sequence[Measurement]) -> FittedConstants:
    """Fit the time of a message from the host through a wafer and back, and its time per byte.

    One of the rows states the message size up to which the time is constant.
    """
    used_rows = [(m, size) for m in rows if (size := ring_bytes(m)) is not None]
    flat = [size for m, size in used_rows if re.search(r"8 B \.\.", m.text("metric"))]
    free = float(flat[0])
    terms = [[1.0, max(0.0, size - free)] for _, size in used_rows]
    fixed, slope = _least_squares(terms, [m.measured or 0 for m, _ in used_rows])
    values = {"ring_us": fixed, "ring_free_bytes": free, "ring_us_per_byte": slope}
    return FittedConstants(values, tuple(m for m, _ in used_rows))


def _least_squares(
    terms: Sequence[Sequence[float]], targets: Sequence[float], weights: Sequence[float] | None = None
) -> list[float]:
    """Return the factors of the terms with the smallest squared errors relative to the weights.

    Args:
        terms: Terms of each row, ``[rows, factors]``.
        targets: Value of each row.
        weights: Measured value of each row; by default, the targets.
    """
    scale = np.array(targets if weights is None else weights, dtype=float)
    solution = np.linalg.lstsq(np.array(terms) / scale[:, None], np.array(targets) / scale, rcond=None)[0]
    return [float(factor) for factor in solution]


def main() -> None:
    """Fit the constants to the rows of a file, and print them with the number of rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, help="measurements with the columns of the table inference")
    parser.add_argument("--profile", default="epcc", help="software profile with the constants that are not fitted")
    parser.add_argument("--wafer", default="wse3", help="wafer on which the rows were measured")
    arguments = parser.parse_args()
    costs = load_compute_engine(arguments.profile)
    for fitted in fit_costs(read(arguments.file), load_wafer(arguments.wafer), costs):
        for name, value in fitted.values.items():
            print(f"{name} = {value:.4g}  # fitted to {len(fitted.rows)} rows")


if __name__ == "__main__":
    main()
