"""Tests of compute kernels against their oracles, and of the products that they share."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import slow_but

from tests.kernels.helpers import (
    COMMON_TYPES,
    EXAMPLES,
    JIT,
    Case,
    differing,
    make_case,
    run_kernel,
    run_oracle,
    types_of,
)
from tests.kernels.shapes import PRIMES, SIZES, Shape, allowed_error, shape_of
from wse.program.isa.instructions import kernel_named
from wse_kernels.library import compiled_kernel

SMOKE = ("gemv", "rope", "argmax_fold")
EXPERT_PRODUCTS = [
    f"expert_{side}{coded}" for side in ("in", "out") for coded in ("", "_quantised", "_mxfp4", "_fp8_blocks")
]
CODE_PRODUCTS = ("matmul_int8", "matmul_fp8", "matmul_int4", "matmul_mxfp4", "matmul_fp8_blocks")


def builds() -> Iterator[Any]:
    """Yield kernel, types and build of each case.

    Few kernels are tested in the build for all cores.
    """
    for kernel in SIZES:
        marks = [pytest.mark.smoke] if kernel in SMOKE else []
        for types in types_of(kernel):
            yield pytest.param(kernel, types, "serial", id=f"{kernel}-{types[0]}-{types[1]}-serial", marks=marks)
            if kernel in SMOKE and JIT:
                case = f"{kernel}-{types[0]}-{types[1]}-parallel"
                yield pytest.param(kernel, types, "parallel", id=case, marks=pytest.mark.slow)


def check_kernel(
    kernel: str,
    types: tuple[str, str],
    build: str,
    size: dict[str, int],
    rows: int,
    cols: int,
    used: tuple[int, int],
    seed: int,
) -> None:
    """Compare a kernel with its oracle on ``rows`` x ``cols`` PEs.

    ``used`` are the first row and the number of rows of the call. ``seed`` also determines the spare lanes.
    """
    rng = np.random.default_rng(seed)
    shape = shape_of(kernel, size, rows, cols, rng)
    case = make_case(kernel, shape, rows, cols, used, types, rng)
    want = run_oracle(case)
    got = run_kernel(case, getattr(compiled_kernel(kernel), build), spare=seed % 3)
    assert differing(case, got, want, allowed_error(case, want)) == []


@pytest.mark.parametrize(("kernel", "types", "build"), [*builds()])
@settings(max_examples=EXAMPLES, deadline=None)
@given(data=st.data())
def test_kernel_equals_oracle(kernel: str, types: tuple[str, str], build: str, data: st.DataObject) -> None:
    rows, cols = data.draw(st.integers(1, 4)), data.draw(st.sampled_from(PRIMES))
    first = data.draw(st.integers(0, rows - 1))
    used = first, data.draw(st.integers(1, rows - first))
    size = {name: data.draw(st.sampled_from(PRIMES if JIT else PRIMES[:3]), label=name) for name in SIZES[kernel]}
    check_kernel(kernel, types, build, size, rows, cols, used, data.draw(st.integers(0, 2**32 - 1)))


@pytest.mark.parametrize(("kernel", "types", "build"), [*builds()])
def test_kernel_equals_oracle_with_several_blocks_a_row_and_lanes_without_a_pe(
    kernel: str, types: tuple[str, str], build: str
) -> None:
    size = {name: 1 + i % 2 for i, name in enumerate(SIZES[kernel])}
    check_kernel(kernel, types, build, size, 2, 129, (0, 2), seed=129)


@pytest.mark.skipif(not JIT, reason="interpreted kernels treat all lanes in the same way")
@pytest.mark.parametrize("cols", [16, 45])
@pytest.mark.parametrize("kernel", ["matmul", "matmul_act", "gemv", *CODE_PRODUCTS])
def test_a_product_in_vectors_of_lanes_equals_its_oracle(kernel: str, cols: int) -> None:
    """Sizes exceed the tokens, terms or outputs that are computed at once, equal them once, and include odd numbers."""
    for types in types_of(kernel):
        for M, K, N in ((1, 19, 5), (2, 1, 4), (3, 5, 6), (17, 17, 5), (5, 33, 2), (5, 3, 9)):
            size = {"M": M, "K": K, "N": N, "rows": 3, "B": 2}
            check_kernel(
                kernel, types, "serial", {n: size[n] for n in SIZES[kernel]}, 1, cols, (0, 1), seed=3 * M + cols
            )


@pytest.mark.skipif(not JIT, reason="vectors are interpreted as other functions")
@pytest.mark.parametrize("element", ["float16", "bfloat16"])
@pytest.mark.parametrize("kernel", ["matmul", "gemv"])
def test_products_of_halves_in_vectors_of_lanes_equal_their_oracle(kernel: str, element: str) -> None:
    """Sums in registers are rounded to the accumulator type after each term."""
    for M, K, N, cols in ((3, 5, 6, 16), (19, 3, 5, 19), (1, 33, 2, 45)):
        check_kernel(kernel, (element, element), "serial", {"M": M, "K": K, "N": N}, 1, cols, (0, 1), seed=3 * M + cols)


@pytest.mark.skipif(not JIT, reason="vectors are interpreted as other functions")
@pytest.mark.parametrize("kernel", slow_but(["matmul_int4", "matmul_mxfp4", "matmul_fp8_blocks"], "matmul_int4"))
def test_codes_times_factors_are_rounded_to_halves_in_vectors_of_lanes(kernel: str) -> None:
    """Groups begin at different rows in every lane, and the last lanes do not fill a vector."""
    for M, K, N, cols in ((1, 19, 5, 45), (3, 5, 6, 19)):
        size = {"M": M, "K": K, "N": N, "rows": 3, "B": 2}
        check_kernel(
            kernel, COMMON_TYPES, "serial", {n: size[n] for n in SIZES[kernel]}, 1, cols, (0, 1), seed=3 * M + cols
        )


@pytest.mark.skipif(not JIT, reason="vectors are interpreted as other functions")
@pytest.mark.parametrize("kernel", EXPERT_PRODUCTS)
def test_products_with_experts_in_vectors_of_lanes_equal_their_oracle(kernel: str) -> None:
    """Lists are equal or different on all PEs.

    Lanes of other pairs, and lanes without a PE, keep their values.
    """
    for types in types_of(kernel):
        check_experts(kernel, types)


@pytest.mark.skipif(not JIT, reason="vectors are interpreted as other functions")
@pytest.mark.parametrize("kernel", slow_but(EXPERT_PRODUCTS, "expert_in", "expert_out_mxfp4"))
def test_products_of_halves_with_experts_in_vectors_of_lanes_equal_their_oracle(kernel: str) -> None:
    check_experts(kernel, COMMON_TYPES)


def check_experts(kernel: str, types: tuple[str, str]) -> None:
    """Compare a product with experts with its oracle for several sizes and meshes."""
    for M, K, N, cols, seed in ((1, 33, 2, 45, 1), (3, 5, 6, 19, 2), (2, 3, 3, 32, 3), (1, 2, 2, 130, 4)):
        size = {"M": M, "A": 2, "K": K, "N": N, "local_experts": 2, "rows": 3, "B": 2}
        check_kernel(kernel, types, "serial", {n: size[n] for n in SIZES[kernel]}, 2, cols, (0, 2), seed)


@pytest.mark.skipif(not JIT, reason="interpreted kernels treat all lanes in the same way")
@pytest.mark.parametrize("kernel", ["attention_scores", "attention_values"])
def test_products_with_a_cache_in_vectors_of_lanes_equal_their_oracle(kernel: str) -> None:
    """There are many tokens, or many heads that share cache entries."""
    for types in types_of(kernel):
        for M, heads, seed in ((3, 2, 1), (3, 2, 2), (1, 3, 3), (2, 5, 4)):
            size = {"M": M, "Hk": 2, "queries_per_kv": heads, "F": 5, "capacity": 7}
            check_kernel(kernel, types, "serial", size, 2, 19, (0, 2), seed)


N = 5
ELEMENTS = 200
"""Number of elements of every buffer, more than any of these products accesses."""


def product_case(kernel: str, numbers: dict[str, int], groups: list[int], cols: int) -> Case:
    """Return a product in which all terms of a row of PEs belong to the group of this row in ``groups``."""
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
    """Run the kernel and return its sums ``[rows, cols, M N]``."""
    after = case.values("out", run_kernel(case, compiled_kernel(case.kernel).serial))
    return np.asarray(after[..., : N * case.a[3 + [*kernel_named(case.kernel).views].index("M")]])


@pytest.mark.parametrize("cols", [5, 16])
@pytest.mark.parametrize("M", [1, 3])
@pytest.mark.parametrize("kernel", ["matmul", "matmul_act", "gemv", "matmul_int8", "matmul_int4"])
def test_sum_without_terms_is_zero(kernel: str, M: int, cols: int) -> None:
    case = product_case(kernel, {"M": M, "K": 0, "add": 0}, [0], cols)
    assert case.values("out").any()
    assert not sums(case).any()


@pytest.mark.parametrize("M", [1, 3])
def test_sum_without_terms_keeps_its_initial_value(M: int) -> None:
    case = product_case("matmul", {"M": M, "K": 0, "add": 1}, [0], 16)
    np.testing.assert_array_equal(sums(case), case.values("out")[..., : M * N])


@pytest.mark.parametrize("M", [1, 3])
@pytest.mark.parametrize("kernel", ["matmul_int4", "matmul_mxfp4", "matmul_fp8_blocks"])
def test_codes_of_a_group_without_scales_add_nothing(kernel: str, M: int) -> None:
    """Lanes without a PE may contain such a group.

    Their factors must not come from other lanes or earlier terms.
    """
    with_scales, without_scales = sums(product_case(kernel, {"M": M, "K": 3}, [1, 255], 16))
    assert with_scales.any()
    assert not without_scales.any()
