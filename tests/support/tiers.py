"""The cases of a test that run always, those that are second looks, and those that are run on request."""

import os
from collections.abc import Iterable
from typing import Any

import pytest

AT_REQUEST = pytest.mark.skipif(
    not os.environ.get("WSE_ALL_OUTPUTS"), reason="takes long: set WSE_ALL_OUTPUTS=1, before a release"
)


def slow_but(cases: Iterable[Any], *quick: Any) -> list[Any]:
    """Parameters of ``cases``, all of them slow but those in ``quick``. Raises: ValueError for one that is no case."""
    cases = list(cases)
    if unknown := [case for case in quick if case not in cases]:
        message = f"no cases: {unknown}"
        raise ValueError(message)
    return [case if case in quick else pytest.param(case, marks=pytest.mark.slow) for case in cases]
