"""Errors of the GPU model for groups of measurements, such as dense 70B or one stack on one GPU."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from wse.studies.validate.measured.measurements import Measurement
from wse.studies.validate.parts import GpuErrors
from wse.studies.validate.predictors.gpus import METHOD, ServingRow, bound_ms, serving_row
from wse.studies.validate.summary import ComparedRow

CONTINUOUS: Final = ("tpot_ms", "itl_ms")
"""Metrics that depend on decode passes only. Rates also depend on the time to first token."""

BENCHMARKS: Final = ("silicon_sample.csv", "LLM-Inference-Bench")


def groups_of(row: ServingRow, m: Measurement) -> list[str]:
    """Return the names of the measurement groups to which a GPU measurement belongs.

    Measurements that are part of a curve over the number of users belong to several groups: by
    model type, by size, and by serving stack and GPU. All other measurements, and metrics that
    depend on more than decode passes, share one group.

    Args:
        row: Conditions of the measurement.
        m: The measurement.
    """
    is_curve = any(source in m.source for source in BENCHMARKS)
    if not is_curve or (not row.begin_together and m.text("metric") not in CONTINUOUS):
        return ["other benchmarks, rates and first tokens"]
    is_mixture = row.spec.experts is not None
    groups = ["mixtures" if is_mixture else "dense"]
    if row.model.endswith("-70b"):
        groups.append("dense 70B")
    if row.model == "llama-3-8b" and row.parallelism.gpus == 1:
        groups.append("8B on one GPU")
    if not row.begin_together and row.gpu in ("h100", "h200"):
        groups.append("H100 and H200, users that come and go")
    return [*groups, f"{row.stack} on {row.gpu}"]


def gpu_errors(rows: Iterable[ComparedRow]) -> tuple[GpuErrors, ...]:
    """Return the mean absolute and mean signed errors of each group of GPU measurements.

    If a group contains times between tokens, the result also includes the mean ratio of a roofline
    to the measured time. The roofline is the duration of a pass at the vendor's stated rates.

    Args:
        rows: Measurements with predictions. Non-GPU measurements are skipped.
    """
    groups: dict[str, list[float]] = {}
    bounds: dict[str, list[float]] = {}
    for row in rows:
        if row.prediction.method == METHOD and row.error_pct is not None:
            conditions = serving_row(row.measurement)
            assert isinstance(conditions, ServingRow)
            for group in groups_of(conditions, row.measurement):
                groups.setdefault(group, []).append(row.error_pct)
                if row.measurement.text("metric") in CONTINUOUS and row.measurement.measured:
                    bounds.setdefault(group, []).append(bound_ms(conditions) / row.measurement.measured)
    return tuple(
        GpuErrors(
            group=group,
            rows=len(errors),
            mean_abs_error_pct=sum(map(abs, errors)) / len(errors),
            bias_pct=sum(errors) / len(errors),
            bare_roofline_ratio=sum(bounds[group]) / len(bounds[group]) if group in bounds else None,
        )
        for group, errors in sorted(groups.items(), key=lambda item: (" on " in item[0], item[0]))
    )
