"""The grid is the product of its axes, and each setting is the request that it says."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wse.errors import BadInput
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import make_request
from wse.studies.sweep.grid import Axis, Grid
from wse.studies.sweep.request import grid_of, read_grid

NAMES = ("batch", "mapping", "wafer.hop_cycles", "context")


@given(st.lists(st.integers(1, 5), min_size=1, max_size=len(NAMES)))
def test_settings_are_the_product_of_the_axes_the_last_varying_fastest(sizes: list[int]) -> None:
    grid = Grid(tuple(Axis(name, tuple(range(size))) for name, size in zip(NAMES, sizes, strict=False)))
    want = list(itertools.product(*(axis.values for axis in grid.axes)))
    assert len(grid) == len(want)
    assert [tuple(grid.setting(i).values()) for i in range(len(grid))] == want
    assert all(tuple(grid.setting(0)) == NAMES[: len(sizes)] for _ in want)


def test_values_from_python_make_the_grid_of_the_same_file(tmp_path: Path) -> None:
    file = tmp_path / "grid.toml"
    file.write_text('model = "story"\nbatch = [1, 8]\nwafer.hop_cycles = [1, 2]\n')
    grid = grid_of({"model": "story", "batch": (1, 8), "wafer.hop_cycles": [1, 2]})
    assert grid == read_grid(str(file), [])
    with pytest.raises(BadInput, match="settings: batch = 'many'"):
        grid_of({"model": "story", "batch": "many"})


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ({"batch": range(1, 3)}, (1, 2)),
        ({"batch": np.int64(2)}, (2,)),
        ({"batch": np.array([1, 2])}, (1, 2)),
        ({"model": Path("story")}, ("story",)),
        ({"wafers": [None, 2]}, ("auto", 2)),
        ({"wafer.clock_hz": (np.float64(1.5e9), np.int64(10**9))}, (1.5e9, 10**9)),
    ],
    ids=str,
)
def test_values_from_python_are_those_that_an_estimate_takes(
    values: dict[str, object], wanted: tuple[object, ...]
) -> None:
    (axis,) = grid_of(values).axes
    assert repr(axis.values) == repr(wanted)


@pytest.mark.parametrize("value", [np.ones((2, 2)), True, math.nan, 1.5], ids=repr)
def test_values_of_another_type_are_refused_from_python(value: object) -> None:
    with pytest.raises(BadInput, match=r"batch = .*: give a whole number, or default"):
        grid_of({"batch": value})


def test_setting_is_a_request(tmp_path: Path) -> None:
    file = tmp_path / "grid.toml"
    file.write_text(
        'model = "story"\nwafers = ["auto", 2]\ncontext = ["default", 64]\nbatch = "default"\n'
        '[wafer]\nname = "wse2"\nhop_cycles = [1, 3]\nwafer_link_latency_s = 1e-6\n[software]\nrelay_cycles = [7]\n'
    )
    grid = read_grid(str(file), ["new_tokens=8", "context=default,32"])
    assert len(grid) == 8
    assert grid.request(7) == make_request(
        EstimateRequest,
        model="story",
        wafer="wse2",
        wafers=2,
        context=32,
        new_tokens=8,
        wafer_values=(("hop_cycles", 3), ("wafer_link_latency_s", 1e-6)),
        software_values=(("relay_cycles", 7),),
    )
    first = grid.request(0)
    assert (first.wafers, first.context) == (None, None)
    assert grid.setting(0)["wafers"] == "auto"
