"""Coefficients of the kernels' elementary functions are those that the tool fits."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from wse_kernels import _elementary

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    sys.path.insert(0, str(TOOLS))
    try:
        return importlib.import_module("fit_polynomials")
    finally:
        sys.path.remove(str(TOOLS))


def test_coefficients_are_those_of_the_kernels(tool: ModuleType) -> None:
    for fit in tool.fits():
        assert fit.error < 2.0**-25, fit.name
        np.testing.assert_allclose(fit.coefficients, getattr(_elementary, fit.name), rtol=1e-6, err_msg=fit.name)


def test_the_seam_of_the_error_function_is_that_of_the_kernels(tool: ModuleType) -> None:
    assert float(_elementary.SEAM) == tool.ERROR_FUNCTION_SEAM
