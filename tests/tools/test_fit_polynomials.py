"""Tests that the coefficients of elementary functions in the kernels are those that the script fits."""

from types import ModuleType

import numpy as np

from wse_kernels.codegen import elementary


def test_coefficients_are_those_of_the_kernels(script: ModuleType) -> None:
    for fit in script.fits():
        assert fit.error < 2.0**-25, fit.name
        np.testing.assert_allclose(fit.coefficients, getattr(elementary, fit.name), rtol=1e-6, err_msg=fit.name)


def test_seam_of_the_error_function_is_that_of_the_kernels(script: ModuleType) -> None:
    assert float(elementary.SEAM) == script.ERROR_FUNCTION_SEAM
