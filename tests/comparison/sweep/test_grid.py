"""Tests of sweep grids: products of axes, the request of each setting, and the distribution of settings to workers."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.comparison.sweep.conftest import axes
from wse.errors import BadInput
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import make_request
from wse.studies.sweep.grid import Axis, Grid
from wse.studies.sweep.request import read_grid
from wse.studies.workers.pool import Queue

NAMES = ("batch", "mapping", "wafer.hop_cycles", "context")


@given(st.lists(st.integers(1, 5), min_size=1, max_size=len(NAMES)))
def test_settings_are_the_product_of_the_axes_the_last_varying_fastest(sizes: list[int]) -> None:
    grid = Grid(tuple(Axis(name, tuple(range(size))) for name, size in zip(NAMES, sizes, strict=False)))
    want = list(itertools.product(*(axis.values for axis in grid.axes)))
    assert len(grid) == len(want)
    assert [tuple(grid.setting(i).values()) for i in range(len(grid))] == want
    assert all(tuple(grid.setting(i)) == NAMES[: len(sizes)] for i in range(len(grid)))


def test_values_from_python_make_the_grid_of_the_same_file(tmp_path: Path) -> None:
    file = tmp_path / "grid.toml"
    file.write_text('model = "story"\nbatch = [1, 8]\nwafer.hop_cycles = [1, 2]\n')
    grid = read_grid({"model": "story", "batch": (1, 8), "wafer.hop_cycles": [1, 2]})
    assert grid == read_grid(str(file), [])
    with pytest.raises(BadInput, match="settings: batch = 'many'"):
        read_grid({"model": "story", "batch": "many"})


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ({"batch": range(1, 3)}, (1, 2)),
        ({"batch": np.int64(2)}, (2,)),
        ({"batch": np.array([1, 2])}, (1, 2)),
        ({"model": Path("story")}, ("story",)),
        ({"wafers": [None, 2]}, ("auto", 2)),
        ({"think_time": ["1ms", 2, "0"]}, (0.001, 2.0, 0.0)),
        ({"wafer.clock_hz": (np.float64(1.5e9), np.int64(10**9))}, (1.5e9, 10**9)),
    ],
    ids=str,
)
def test_values_from_python_are_converted_to_those_of_an_estimate(
    values: dict[str, object], wanted: tuple[object, ...]
) -> None:
    (axis,) = read_grid(values).axes
    assert repr(axis.values) == repr(wanted)


@pytest.mark.parametrize("value", [np.ones((2, 2)), True, math.nan, 1.5], ids=repr)
def test_values_of_another_type_are_refused_from_python(value: object) -> None:
    with pytest.raises(BadInput, match=r"batch = .*: give a whole number, or default"):
        read_grid({"batch": value})


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


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 4), st.data())
def test_queue_gives_each_setting_once(batches: int, tokens: int, workers: int, data: st.DataObject) -> None:
    grid = axes(batch=batches, new_tokens=tokens)
    queue = Queue(grid.groups(range(len(grid))))
    finished: list[int] = []
    failed: set[int] = set()
    while (worker := data.draw(st.integers(0, workers - 1))) is not None:
        setting = queue.next(worker)
        if setting is None:
            break
        if setting not in failed and data.draw(st.booleans()):
            failed.add(setting)
            queue.retry(worker, setting)
        else:
            finished.append(setting)
    assert sorted(finished) == list(range(len(grid)))


def test_groups_differ_only_in_machine_values_and_new_tokens() -> None:
    two = (1, 2)
    grid = Grid((Axis("new_tokens", two), Axis("batch", two), Axis("wafer.hop_cycles", two), Axis("context", two)))
    found = grid.groups(range(len(grid)))
    assert found == [[0, 2, 8, 10], [1, 3, 9, 11], [4, 6, 12, 14], [5, 7, 13, 15]]


def test_worker_keeps_its_group_and_then_takes_half_of_the_longest() -> None:
    queue = Queue([[0, 1, 2, 3, 4, 5], [6]])
    assert [queue.next(0), queue.next(1), queue.next(0)] == [0, 6, 1]
    assert [queue.next(1), queue.next(0), queue.next(1)] == [4, 2, 5]
    assert [queue.next(1), queue.next(0), queue.next(1)] == [3, None, None]
