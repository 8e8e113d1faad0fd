"""Fixture for all tests of comparisons: fewer speeds are compared than by the commands."""

from collections.abc import Iterator

import pytest

from wse.studies.compare.curve import crossover


@pytest.fixture(scope="module", autouse=True)
def few_speeds() -> Iterator[None]:
    """Compare costs at 16 speeds, because nearly every comparison does so in each sample of the uncertain inputs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crossover, "SPEEDS", 16)
        yield
