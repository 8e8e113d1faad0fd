"""Grids of the tiny model, whose estimates take hundredths of a second."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.models.helpers import write_config
from wse.studies.sweep.grid import Axis, Grid
from wse.studies.sweep.request import read_grid

MakeGrid = Callable[..., Grid]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The config.json of the tiny model, without weights."""
    folder = tmp_path / "model"
    folder.mkdir()
    return write_config(folder)


@pytest.fixture
def grid_of(config: Path) -> MakeGrid:
    """A grid of the tiny model from texts as ``--set`` has them; prompts of 5 tokens, 4 new ones."""

    def make(*sets: str) -> Grid:
        return read_grid(str(config), [*sets, "prompt_len=5", "new_tokens=4"])

    return make


def axes(**sizes: int) -> Grid:
    """A grid with axes of so many values."""
    return Grid(tuple(Axis(name, tuple(range(1, 1 + size))) for name, size in sizes.items()))
