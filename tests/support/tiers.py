"""Marks for the parameters of tests that always run, that are slow, or that run on request only."""

import os
from collections.abc import Iterable
from typing import Any

import pytest

AT_REQUEST = pytest.mark.skipif(
    not os.environ.get("WSE_ALL_OUTPUTS"), reason="takes long: set WSE_ALL_OUTPUTS=1, before a release"
)


def slow_but(cases: Iterable[Any], *quick: Any) -> list[Any]:
    """Return ``cases`` as parameters; all except those in ``quick`` are marked as slow.

    Raises:
        ValueError: If ``quick`` has an element that is not in ``cases``.
    """
    cases = list(cases)
    if unknown := [case for case in quick if case not in cases]:
        raise ValueError(f"no cases: {unknown}")
    return [case if case in quick else pytest.param(case, marks=pytest.mark.slow) for case in cases]
