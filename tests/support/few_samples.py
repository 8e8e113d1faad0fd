"""Fewer random samples of the uncertain constants, for tests of comparisons that do not check intervals."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from wse.studies.compare.grid import combination
from wse.studies.estimate.ranges import sampled_figures


@contextmanager
def few_samples() -> Iterator[None]:
    """Compare machines with 16 samples inside the context. The rows do not depend on the samples."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (combination, sampled_figures):
            patch.setattr(module, "SAMPLES", 16)
        yield
