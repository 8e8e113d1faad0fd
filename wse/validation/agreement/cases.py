"""Communication patterns of random sizes, as both timing readers can take them: the samples of all patterns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache

import numpy as np

from wse.fabric.line.closed_forms import patterns
from wse_mappings.patterns.sampling import Case, Sizes


@cache
def samples() -> Mapping[str, Callable[[Sizes], Case]]:
    """By name of the case, what makes one; those that packages of users bring come last.

    Raises:
        BadInput: a package brings a pattern that cannot be used.
    """
    return {name: make for pattern in patterns().values() for name, make in pattern.samples.items()}


def cases(name: str, count: int, seed: int) -> Iterator[Case]:
    """``count`` cases of one pattern; the same ones for the same seed."""
    rng = np.random.default_rng([seed, *name.encode()])
    for _ in range(count):
        yield samples()[name](Sizes(rng))
