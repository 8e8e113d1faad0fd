"""Options and fixtures of the benchmarks, which have two sizes.

- full (default of ``pytest tests/benchmarks``): the size for which goals are stated.
- small (``--benchmark-size small``): needs seconds, and shows in CI that the benchmarks still run.

No test fails because of a time. Each benchmark prints what it measured, and its goal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf
from typing import Any

import pytest

from wse.cache.store import without_cache
from wse_kernels import library

BySize = Callable[..., Any]
Say = Callable[[str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--benchmark-size", choices=("small", "full"), default="full", help="size of benchmarks")
    parser.addoption("--booksim", help="path of the executable of BookSim2, for test_booksim.py")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "full_size: a case that is skipped in the small size of benchmarks")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--benchmark-size") == "full":
        return
    config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("full_size")])
    items[:] = [item for item in items if not item.get_closest_marker("full_size")]


@pytest.fixture(scope="session", autouse=True)
def one_core(pytestconfig: pytest.Config) -> Iterator[None]:
    """Replace the fixture of the other tests, which restricts kernels to one core.

    In the full size, kernels use the cores that they use for users. In the small size, they use
    one core, so that only one variant of each is compiled.
    """
    with pytest.MonkeyPatch.context() as patch:
        if pytestconfig.getoption("--benchmark-size") == "small":
            patch.setattr(library, "parallel_core_s", lambda: inf)
        yield


@pytest.fixture(scope="module", autouse=True)
def one_search() -> None:
    """Replace the fixture of the other tests that caches layout searches, so that each is run."""


@pytest.fixture(scope="session", autouse=True)
def no_cache() -> Iterator[None]:
    """Measure without the cache on disk, which other tests share."""
    with without_cache():
        yield


@pytest.fixture(scope="session")
def by_size(pytestconfig: pytest.Config) -> BySize:
    """Return a function that selects a value by requested size: ``by_size(small=1, full=9)``."""
    size = pytestconfig.getoption("--benchmark-size")
    return lambda **values: values[size]


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    """Return a function that prints a line even if pytest captures output."""

    def line(text: str) -> None:
        with capsys.disabled():
            print(f"\n    {text}")  # noqa: T201  # the result of a benchmark

    return line
