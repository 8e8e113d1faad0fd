"""Fixtures for tests of sweeps: grids over a tiny model whose estimates take about 10 ms each."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.models.helpers import write_config
from wse.studies.sweep.grid import Axis, Grid
from wse.studies.sweep.request import read_grid

MakeGrid = Callable[..., Grid]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Return the path of the config.json of the tiny model, without weights."""
    folder = tmp_path / "model"
    folder.mkdir()
    return write_config(folder)


@pytest.fixture
def grid_of(config: Path) -> MakeGrid:
    """Return a function that builds a grid over the tiny model from ``--set`` texts, with 5 prompt and 4 new tokens."""

    def make(*sets: str) -> Grid:
        return read_grid(str(config), [*sets, "prompt_len=5", "new_tokens=4"])

    return make


def axes(**sizes: int) -> Grid:
    """Return a grid with one axis per keyword; each axis has the values 1 to its given size."""
    return Grid(tuple(Axis(name, tuple(range(1, 1 + size))) for name, size in sizes.items()))
