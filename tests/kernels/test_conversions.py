"""``widen`` and ``narrow`` are the IEEE conversions, for all 16-bit values and for many floats."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from tests.kernels.helpers import JIT
from wse_kernels.codegen.elements import narrow, rounded_product_ir, widen, widen_ir
from wse_kernels.codegen.jit import intrinsic, kernel, types
from wse_kernels.oracle import memory as oracle

Array = npt.NDArray[Any]

NARROW = {"float16": (np.uint16, np.dtype(np.float16)), "bfloat16": (np.int16, np.dtype(ml_dtypes.bfloat16))}


@kernel
def widen_all(stored: Array, out: Array) -> None:
    for i in range(len(stored)):
        out[i] = widen(stored[i])


@kernel
def narrow_all(values: Array, out: Array) -> None:
    for i in range(len(values)):
        out[i] = narrow(values[i], out[i])


def every_pattern() -> Array:
    return np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)


def floats(element: str) -> Array:
    """Return all values of the narrow type, neighbours, ties, infinities and random floats."""
    rng = np.random.default_rng(16)
    step = 1 if JIT else 17
    with np.errstate(invalid="ignore"):
        exact = every_pattern()[::step].view(NARROW[element][1]).astype(np.float32)
    exact = exact[np.isfinite(exact)]
    with np.errstate(over="ignore"):
        ties = (exact[:-1].astype(np.float64) + exact[1:]).astype(np.float32) / np.float32(2)
        around = [np.nextafter(x, np.float32(s * np.inf), dtype=np.float32) for x in (exact, ties) for s in (-1, 1)]
    drawn = rng.integers(0, 1 << 32, 200_000 if JIT else 5_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    top = np.float32(65504.0), np.float32(65519.996), np.float32(65520.0), np.float32(3.4e38)
    ends = np.array([*top, np.inf, 2.0**-24, 2.0**-25, 2.0**-133, 2.0**-134, 1e-45, 0.0], np.float32)
    return np.concatenate([exact, ties, *around, drawn[~np.isnan(drawn)], ends, -ends])


def expected(values: Array, element: str) -> Array:
    with np.errstate(over="ignore"):
        return values.astype(NARROW[element][1]).view(np.uint16)


@pytest.mark.parametrize("element", NARROW)
def test_widening_is_exact_for_every_pattern(element: str) -> None:
    storage, number = NARROW[element]
    stored = every_pattern()
    got = np.empty(len(stored), np.float32)
    widen_all(stored.view(storage), got)
    with np.errstate(invalid="ignore"):
        want = stored.view(number).astype(np.float32)
    is_number = ~np.isnan(want)
    np.testing.assert_array_equal(got.view(np.uint32)[is_number], want.view(np.uint32)[is_number])
    assert np.isnan(got[~is_number]).all()
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(oracle.widen(stored.view(np.uint8), element), want)


@pytest.mark.parametrize("element", NARROW)
def test_narrowing_rounds_to_nearest_even(element: str) -> None:
    values = floats(element)
    got = np.zeros(len(values), NARROW[element][0])
    with np.errstate(over="ignore", under="ignore"):
        narrow_all(values, got)
    np.testing.assert_array_equal(got.view(np.uint16), expected(values, element))
    np.testing.assert_array_equal(oracle.narrow(values, element).view(np.uint16), expected(values, element))


@pytest.mark.parametrize("element", NARROW)
def test_narrowing_keeps_nan_and_its_sign(element: str) -> None:
    """This includes NaNs whose upper bits alone would be an infinity."""
    bits = np.array([0x7FC00000, 0xFFC00000, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FA00000, 0x7F800001, 0xFF800001], np.uint32)
    values = bits.view(np.float32)
    got = np.zeros(len(values), NARROW[element][0])
    with np.errstate(invalid="ignore"):
        narrow_all(values, got)
        narrowed = [got.view(np.uint16), oracle.narrow(values, element).view(np.uint16)]
    for stored in narrowed:
        assert np.isnan(stored.view(NARROW[element][1]).astype(np.float32)).all()
        np.testing.assert_array_equal(stored >> 15, bits >> 31)


@intrinsic
def _rounded_product(typing_context: Any, code: Any, factor: Any) -> Any:
    """Return the product of a code and an element, as `wse_kernels.products.weights` computes it."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return rounded_product_ir(builder, factor, builder.fmul(args[0], widen_ir(builder, factor, args[1])))

    return types.float32(types.float32, factor), generate


rounded_product: Any = _rounded_product


@kernel
def multiply_all(code: Any, factors: Array, products: Array, expected_products: Array) -> None:
    for i in range(len(factors)):
        products[i] = rounded_product(code, factors[i])
        expected_products[i] = widen(narrow(code * widen(factors[i]), factors[i]))


@pytest.mark.skipif(not JIT, reason="interpreted products are rounded by narrow")
@pytest.mark.parametrize("element", NARROW)
def test_products_with_codes_are_rounded_as_any_number(element: str) -> None:
    """All 4-bit codes are multiplied by all elements, including infinite and subnormal ones."""
    factors, products = every_pattern().view(NARROW[element][0]), np.zeros((2, 1 << 16), np.float32)
    for code in range(-8, 8):
        multiply_all(np.float32(code), factors, *products)
        np.testing.assert_array_equal(*products.view(np.uint32))
