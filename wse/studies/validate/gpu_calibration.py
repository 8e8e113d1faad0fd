"""The calibration of serving stacks: which constants are fitted on which rows, and errors of rows that were left out.

Fixed constants, with their sources, stand in `wse/serving/gpus/stacks`. A model or GPU is left out
of a fit where its rows do not say what the constants would mean:

- DeepSeek-R1 (vLLM, TensorRT-LLM): the source does not tell runs with drafts from runs without.
- Qwen3-32B (TensorRT-LLM): the source does not say of how many bits its cache was.
- Mixtral (TensorRT-LLM of 2024): 16 users are served faster than the experts that 16 different
  prompts touch could be read at the stated bandwidth, so prompts were equal and touched the same
  experts.
- GH200: another host, on whose speed the rows of 2024 hang.

They are predicted all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import numpy as np

from wse.reports.progress import OnProgress, ignore
from wse.reports.result import Doc, Result
from wse.reports.table import Column, Table, number
from wse.reports.terminal import WIDEST
from wse.studies.validate.gpu_fit import Constants, FitRow, fit, log_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The constants of a stack that are fitted, and the models and GPUs whose rows they are not fitted on."""

    keys: tuple[str, ...]
    without_models: tuple[str, ...] = ()
    without_gpus: tuple[str, ...] = ()

    def uses(self, row: FitRow) -> bool:
        """Return whether the constants are fitted on a row."""
        return row.conditions.model not in self.without_models and row.gpu not in self.without_gpus


_READS: Final = ("bandwidth_ratio", "cache_ratio")
_TWO_GENERATIONS: Final = ("four_bit_ratio", "expert_ratio", "expert_layer_s.hopper", "expert_layer_s.blackwell")
_COMMON: Final = ("compute_ratio", "attention_ratio", "link_ratio", "layer_s", "all_reduce_s")
_HOST: Final = ("step_s", "user_s")

CALIBRATIONS: Final[dict[str, Calibration]] = {
    "vllm": Calibration(keys=(*_READS, *_TWO_GENERATIONS, *_COMMON)),
    "trtllm": Calibration(
        keys=(*_READS, *_TWO_GENERATIONS, *_COMMON, *_HOST), without_models=("deepseek-r1", "qwen3-32b")
    ),
    "sglang": Calibration(
        keys=("expert_ratio", "attention_ratio", "layer_s", "expert_layer_s", "all_reduce_s", "link_ratio")
    ),
    "vllm-2024": Calibration(
        keys=(*_READS, "expert_ratio", "cache_token_s", *_COMMON, "expert_layer_s", *_HOST), without_gpus=("gh200",)
    ),
    "trtllm-2024": Calibration(
        keys=(*_READS, "cache_token_s", *_COMMON, *_HOST),
        without_models=("mixtral-8x7b",),
        without_gpus=("gh200",),
    ),
}

SOURCES: Final = ("silicon_sample.csv", "LLM-Inference-Bench")
"""Parts of the addresses of sources whose rows constants are fitted on. They give a curve over
users; single runs of other benchmarks are predicted."""


def calibration_rows(stack: str, rows: Sequence[FitRow]) -> list[FitRow]:
    """Return the rows that the constants of a stack are fitted on."""
    return [
        row
        for row in rows
        if row.conditions.stack == stack
        and CALIBRATIONS[stack].uses(row)
        and any(source in row.measurement.source for source in SOURCES)
    ]


@dataclass(frozen=True, kw_only=True)
class LeftOut(Result):
    """Errors of rows that constants were not fitted on."""

    stack: Annotated[str, Doc("The stack.")]
    what: Annotated[str, Doc("What was left out, or what was fitted on what.")]
    fitted: Annotated[int, Doc("Rows that the constants were fitted on.")]
    predicted: Annotated[int, Doc("Rows that were left out and predicted.")]
    mean_abs_error_pct: Annotated[float, Doc("Mean of their absolute errors.", "%")]
    bias_pct: Annotated[float, Doc("Mean of their signed errors.", "%")]


Test = tuple[str, Callable[[FitRow], bool], Callable[[FitRow], bool]]
"""The name of a test, the rows that constants are fitted on, and the rows that are predicted."""


def left_out(rows: Sequence[FitRow], on_progress: OnProgress = ignore) -> tuple[LeftOut, ...]:
    """Return each model and each GPU of a stack's rows left out in turn; 8B predicts 70B, H100 predicts H200."""
    tests = [(stack, *test) for stack in CALIBRATIONS for test in _tests(calibration_rows(stack, rows))]
    results = []
    for done, (stack, what, fitted_on, predicts) in enumerate(tests):
        on_progress(done, len(tests), f"{stack}: {what}")
        of_stack = calibration_rows(stack, rows)
        known, unknown = [row for row in of_stack if fitted_on(row)], [row for row in of_stack if predicts(row)]
        results.append(_errors(stack, what, len(known), unknown, fit(known, CALIBRATIONS[stack].keys)))
    on_progress(len(tests), len(tests), "")
    return tuple(results)


def _tests(rows: Sequence[FitRow]) -> list[Test]:
    """Return the tests that the rows of a stack allow."""
    tests: list[Test] = []
    models, gpus = sorted({row.conditions.model for row in rows}), sorted({row.gpu for row in rows})
    for model in models if len(models) > 1 else ():
        tests.append((f"without {model}", _not(_of_model(model)), _of_model(model)))
    for gpu in gpus if len(gpus) > 1 else ():
        tests.append((f"without {gpu}", _not(_on(gpu)), _on(gpu)))
    small, large = _of_size("8b", "7b"), _of_size("70b")
    if any(map(small, rows)) and any(map(large, rows)):
        tests.append(("7B and 8B predict 70B", small, large))
    if {"h100", "h200"} <= set(gpus):
        tests.append(("H100 predicts H200", _on("h100"), _on("h200")))
    return tests


def _of_model(model: str) -> Callable[[FitRow], bool]:
    return lambda row: row.conditions.model == model


def _on(gpu: str) -> Callable[[FitRow], bool]:
    return lambda row: row.gpu == gpu


def _of_size(*sizes: str) -> Callable[[FitRow], bool]:
    return lambda row: row.conditions.model.endswith(tuple(f"-{size}" for size in sizes))


def _not(test: Callable[[FitRow], bool]) -> Callable[[FitRow], bool]:
    return lambda row: not test(row)


def _errors(stack: str, what: str, fitted: int, rows: Sequence[FitRow], constants: Constants) -> LeftOut:
    errors = 100 * (np.exp(log_errors(rows, constants)) - 1)
    return LeftOut(
        stack=stack,
        what=what,
        fitted=fitted,
        predicted=len(rows),
        mean_abs_error_pct=float(np.abs(errors).mean()),
        bias_pct=float(errors.mean()),
    )


@dataclass(frozen=True, kw_only=True)
class LeaveOut(Result):
    """Predictions of some rows by constants that were fitted on the others."""

    tests: Annotated[tuple[LeftOut, ...], Doc("The tests.")]

    def tables(self, *, detail: bool = False, width: int = WIDEST) -> tuple[Table, ...]:
        """Return one table of the tests."""
        columns = (
            Column(key="stack", title="stack"),
            Column(key="what", title="test", wraps=True),
            number("fitted", "fitted on"),
            number("predicted", "predicted"),
            number("mean_abs_error_pct", "mean error", "{:.1f} %".format),
            number("bias_pct", "bias", "{:+.1f} %".format),
        )
        return (Table(columns=columns, rows=self.tests, title="Rows that constants of stacks were not fitted on"),)


def fit_stack(stack: str, rows: Sequence[FitRow], keys: Sequence[str] = ()) -> tuple[dict[str, float], LeftOut]:
    """Return fitted constants of a stack, and the errors on the rows that they are fitted on.

    Args:
        stack: The name of the stack.
        rows: Measured rows of any stack.
        keys: The constants to fit; by default those of `CALIBRATIONS`. All others keep their
            bundled values.
    """
    used = calibration_rows(stack, rows)
    constants = fit(used, keys or CALIBRATIONS[stack].keys)
    return constants, _errors(stack, "fitted on", len(used), used, constants)
