"""Fixture for all tests of the serving simulation: capacities are measured with fewer requests."""

from collections.abc import Iterator

import pytest

from wse.serving.simulation import capacity


@pytest.fixture(scope="module", autouse=True)
def short_capacity_simulations() -> Iterator[None]:
    """Measure each capacity with at most 2,000 requests, because nearly every simulation measures one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(capacity, "MIN_REQUESTS", 300)
        patch.setattr(capacity, "MAX_REQUESTS", 2_000)
        yield
