"""Tests of the fit of the production software profile: its rows, and that it finds known constants."""

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from wse.hardware.spec import SoftwareProfile
from wse.studies.validate.study import BUNDLED


def test_figures_are_the_two_published_at_launch(script: ModuleType) -> None:
    figures = script.launch_figures(BUNDLED / "public_tokens_per_s.csv")
    stated = {(f.prepared.request.model, f.prepared.options.wafers, f.row.measured) for f in figures}
    assert stated == {("llama-3-8b", 1, 1800.0), ("llama-3.1-70b", 4, 450.0)}


def figure(measured_us: float, tasks: int, functions: int) -> Any:
    """Return a figure whose predicted time consists of a number of tasks and of functions."""

    def us(_: object, software: SoftwareProfile) -> float:
        return tasks * software.task_dispatch_cycles + functions * software.function_cycles

    return SimpleNamespace(measured_us=measured_us, us=us)


def test_constants_that_made_the_figures_are_found(script: ModuleType) -> None:
    known_constants = {"task_dispatch_cycles": 80.0, "function_cycles": 30.0}
    sizes = ((40, 9), (100, 41))
    figures = [
        figure(t * known_constants["task_dispatch_cycles"] + f * known_constants["function_cycles"], t, f)
        for t, f in sizes
    ]
    found = script.solve(figures, [None, None], {"task_dispatch_cycles": 49.0, "function_cycles": 11.0})
    assert found == pytest.approx(known_constants)


def test_no_constant_falls_below_zero(script: ModuleType) -> None:
    assert script.solve([figure(1.0, 40, 9)], [None], {"task_dispatch_cycles": 49.0}) == {"task_dispatch_cycles": 0.0}
