"""Edge cases of products: no terms, and lanes whose groups have no scales."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.helpers import Case, make_case, run_kernel
from tests.kernels.shapes import Shape
from wse.program.isa.instructions import kernel_named
from wse_kernels.library import compiled_kernel

N = 5
ELEMENTS = 200
"""Of every buffer: more than any of these products touches."""


def product(kernel: str, numbers: dict[str, int], groups: list[int], cols: int) -> Case:
    """Return a product on a row of PEs, in which all terms belong to the given group of each PE."""
    views, lines = kernel_named(kernel).views, (len(groups), cols)
    plain = {"N": N, "k_stride": N, "n_stride": 1, "out_stride": N, "G": 3, "B": 2, "rows": 1} | numbers
    contents = {
        "w": np.full((*lines, ELEMENTS), 0x33),
        "groups": np.broadcast_to(np.array(groups)[:, None, None], (*lines, ELEMENTS)),
        "widths": np.full((*lines, ELEMENTS), N),
        "scale": np.full((*lines, ELEMENTS), 120),
    }
    shape = Shape(
        {name: ELEMENTS for name, view in views.items() if view},
        {name: plain[name] for name, view in views.items() if not view},
        {name: values for name, values in contents.items() if name in views},
        np.zeros((len(groups), 8), np.int32),
    )
    return make_case(kernel, shape, *lines, (0, len(groups)), ("float32", "float32"), np.random.default_rng(1))


def sums(case: Case) -> np.ndarray:
    """Return the sums ``[rows, cols, M N]`` that a kernel leaves in the PEs."""
    after = case.values("out", run_kernel(case, compiled_kernel(case.kernel).serial))
    return np.asarray(after[..., : N * case.a[3 + [*kernel_named(case.kernel).views].index("M")]])


@pytest.mark.parametrize("cols", [5, 16])
@pytest.mark.parametrize("M", [1, 3])
@pytest.mark.parametrize("kernel", ["matmul", "matmul_act", "gemv", "matmul_int8", "matmul_int4"])
def test_a_sum_without_terms_is_zero(kernel: str, M: int, cols: int) -> None:
    case = product(kernel, {"M": M, "K": 0, "add": 0}, [0], cols)
    assert case.values("out").any()
    assert not sums(case).any()


@pytest.mark.parametrize("M", [1, 3])
def test_a_sum_without_terms_keeps_what_it_is_added_to(M: int) -> None:
    case = product("matmul", {"M": M, "K": 0, "add": 1}, [0], 16)
    np.testing.assert_array_equal(sums(case), case.values("out")[..., : M * N])


@pytest.mark.parametrize("M", [1, 3])
@pytest.mark.parametrize("kernel", ["matmul_int4", "matmul_mxfp4", "matmul_fp8_blocks"])
def test_codes_of_a_group_without_scales_add_nothing(kernel: str, M: int) -> None:
    """Lanes without a PE may contain such a group.

    Their factors must not come from other lanes or earlier terms.
    """
    with_group_count, in_none = sums(product(kernel, {"M": M, "K": 3}, [1, 255], 16))
    assert with_group_count.any()
    assert not in_none.any()
