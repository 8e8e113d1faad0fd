"""Two sizes of every benchmark: ``pytest tests/benchmarks`` runs the full one, ``--benchmark-size small`` another.

The small one takes seconds and is for CI, where it shows that a benchmark still runs; goals are stated for the full
size. Nothing is asserted of a time: each benchmark prints what it measured beside its goal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf
from typing import Any

import pytest

from wse_kernels import library

BySize = Callable[..., Any]
Say = Callable[[str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--benchmark-size", choices=("small", "full"), default="full", help="size of benchmarks")
    parser.addoption("--booksim", help="the program BookSim2, for test_booksim.py")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "full_size: a case of a benchmark that its small size leaves out")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--benchmark-size") == "full":
        return
    config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("full_size")])
    items[:] = [item for item in items if not item.get_closest_marker("full_size")]


@pytest.fixture(scope="session", autouse=True)
def one_core(pytestconfig: pytest.Config) -> Iterator[None]:
    """Leave the choice of cores as users have it, unlike other tests; small, run on one, as kernels are compiled."""
    with pytest.MonkeyPatch.context() as patch:
        if pytestconfig.getoption("--benchmark-size") == "small":
            patch.setattr(library, "parallel_core_s", lambda: inf)
        yield


@pytest.fixture(scope="module", autouse=True)
def one_search() -> None:
    """Search each time that a benchmark asks, unlike other tests."""


@pytest.fixture(scope="session")
def by_size(pytestconfig: pytest.Config) -> BySize:
    """Give the value for the size that was requested: ``by_size(small=1, full=9)``."""
    size = pytestconfig.getoption("--benchmark-size")
    return lambda **values: values[size]


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    """Print a line whether or not pytest captures output."""

    def line(text: str) -> None:
        with capsys.disabled():
            print(f"\n    {text}")  # noqa: T201

    return line
