"""Fixtures of the benchmarks, each of which has two sizes.

``pytest tests/benchmarks`` runs the full size, for which the goals are stated. The small size
(``--benchmark-size small``) takes seconds and shows in CI that a benchmark still runs. No benchmark
asserts a time: each prints its measurements next to its goal.
"""

from collections.abc import Callable, Iterator
from math import inf
from typing import Any

import pytest

from wse_kernels import library

BySize = Callable[..., Any]
Say = Callable[[str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--benchmark-size", choices=("small", "full"), default="full", help="size of the benchmarks")
    parser.addoption("--booksim", help="the program BookSim2")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "full_size: a case that the small size of a benchmark leaves out")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--benchmark-size") == "full":
        return
    config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("full_size")])
    items[:] = [item for item in items if not item.get_closest_marker("full_size")]


@pytest.fixture(scope="session", autouse=True)
def one_core(pytestconfig: pytest.Config) -> Iterator[None]:
    """Use all cores in the full size, as users do. Use one core in the small size, where kernels are compiled."""
    with pytest.MonkeyPatch.context() as patch:
        if pytestconfig.getoption("--benchmark-size") == "small":
            patch.setattr(library, "parallel_core_s", lambda: inf)
        yield


@pytest.fixture(scope="module", autouse=True)
def one_search() -> None:
    """Repeat every search, unlike the fixture of the same name for other tests."""


@pytest.fixture(scope="session")
def by_size(pytestconfig: pytest.Config) -> BySize:
    """Return a function that selects a value by size: ``by_size(small=1, full=9)``."""
    size = pytestconfig.getoption("--benchmark-size")
    return lambda **values: values[size]


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    """Return a function that prints a line even if pytest captures the output."""

    def line(text: str) -> None:
        with capsys.disabled():
            print(f"\n    {text}")  # noqa: T201

    return line
