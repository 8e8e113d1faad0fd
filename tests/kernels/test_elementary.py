"""Tests of elementary functions and conversions of numbers: error bounds, special values and exact bits."""

import math
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from tests.kernels.helpers import JIT
from wse_kernels.codegen.elementary import (
    error_function,
    exponential,
    hyperbolic_tangent,
    logarithm_plus_one,
    power_of_two,
    sine_and_cosine,
)
from wse_kernels.codegen.elements import narrow, rounded_product_ir, widen, widen_ir
from wse_kernels.codegen.jit import intrinsic, kernel, types
from wse_kernels.oracle import memory as oracle

Array = npt.NDArray[Any]


@kernel
def exponentials(x: Array, out: Array) -> None:
    for i in range(len(x)):
        out[i] = exponential(x[i])


@kernel
def hyperbolic_tangents(x: Array, out: Array) -> None:
    for i in range(len(x)):
        out[i] = hyperbolic_tangent(x[i])


@kernel
def sines(x: Array, out: Array) -> None:
    for i in range(len(x)):
        out[i] = sine_and_cosine(x[i])[0]


@kernel
def cosines(x: Array, out: Array) -> None:
    for i in range(len(x)):
        out[i] = sine_and_cosine(x[i])[1]


@kernel
def error_functions(x: Array, out: Array) -> None:
    for i in range(len(x)):
        out[i] = error_function(x[i])


@kernel
def logarithms_plus_one(x: Array, out: Array) -> None:
    for i in range(len(x)):
        out[i] = logarithm_plus_one(x[i])


@kernel
def powers_of_two(x: Array, out: Array) -> None:
    for i in range(len(x)):
        out[i] = power_of_two(x[i])


Vector = Callable[[Array, Array], None]
ERF = np.vectorize(math.erf, otypes=[np.float64])
FUNCTIONS: dict[str, tuple[Vector, Callable[[Array], Array], float, float, float]] = {
    "exp": (exponentials, np.exp, 104.5, 1.01, 0.51),
    "tanh": (hyperbolic_tangents, np.tanh, 12.0, 2.61, 2.13),
    "sin": (sines, np.sin, 2.0**24, 0.57, 0.57),
    "cos": (cosines, np.cos, 2.0**24, 0.57, 0.57),
    "erf": (error_functions, ERF, 6.0, 1.1, 0.85),
    "log1p": (logarithms_plus_one, np.log1p, 3.0e38, 0.51, 1.9),
}
"""For each function: its kernel, its float64 reference, the largest argument, and two maximum errors in float32 ulp.

The first error is that of the kernel. The second is that of glibc 2.36, measured for some millions of arguments.
log1p is tested for x >= 0.
"""


def apply(function: Vector, x: Array) -> Array:
    out = np.empty_like(x)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        function(x, out)
    return out


def arguments(largest: float, count: int) -> Array:
    """Return floats of both signs: equally many per binade, evenly spaced, and quarter turns."""
    rng = np.random.default_rng(5)
    bits = rng.integers(np.float32(2.0**-30).view(np.int32), np.float32(largest).view(np.int32), count, dtype=np.int32)
    even = rng.uniform(0, min(largest, 32.0), count).astype(np.float32)
    turns = (rng.integers(1, max(2, int(min(largest, 2.0**24))), count) * (math.pi / 2)).astype(np.float32)
    x = np.concatenate([bits.view(np.float32), even, turns[turns <= largest]])
    return np.concatenate([x, -x])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_are_at_most_one_ulp_more_than_those_of_the_library(name: str) -> None:
    function, reference, largest, bound, library = FUNCTIONS[name]
    assert bound <= library + 1.0
    x = arguments(largest, 40_000 if JIT else 300)
    x = np.abs(x) if name == "log1p" else x
    got, want = apply(function, x).astype(np.float64), reference(x.astype(np.float64))
    finite = np.abs(want) < np.finfo(np.float32).max
    exponents = np.maximum(np.frexp(want[finite])[1] - 1, -126)
    errors = np.abs(got[finite] - want[finite]) / np.ldexp(1.0, exponents - 23)
    assert errors.max() <= bound, f"{errors.max()} ulp at {x[finite][errors.argmax()]!r}"


@pytest.mark.parametrize(
    ("function", "x", "want"),
    [
        (exponentials, [0.0, -0.0, np.inf, 88.8, -np.inf, -104.5], [1.0, 1.0, np.inf, np.inf, 0.0, 0.0]),
        (exponentials, [-103.9], [2.0**-149]),
        (hyperbolic_tangents, [0.0, np.inf, 9.5, -np.inf, -3.0e38], [0.0, 1.0, 1.0, -1.0, -1.0]),
        (sines, [0.0, -0.0], [0.0, 0.0]),
        (cosines, [0.0, -0.0], [1.0, 1.0]),
        (error_functions, [0.0, np.inf, 4.5, -np.inf, -3.0e38], [0.0, 1.0, 1.0, -1.0, -1.0]),
        (logarithms_plus_one, [0.0, 2.0**-26, 1.0, np.inf], [0.0, 2.0**-26, math.log(2.0), np.inf]),
        (powers_of_two, [0.0, -126.0, 127.0, -149.0, 3.0], [1.0, 2.0**-126, 2.0**127, 2.0**-149, 8.0]),
    ],
)
def test_values_at_the_ends_are_exact(function: Vector, x: list[float], want: list[float]) -> None:
    np.testing.assert_array_equal(apply(function, np.array(x, np.float32)), np.array(want, np.float32))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nan_gives_nan(name: str) -> None:
    assert np.isnan(apply(FUNCTIONS[name][0], np.array([np.nan], np.float32))).all()


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("exp", "6cd1b9d8b7ec75d4"),
        ("tanh", "00fade66b8a33a74"),
        ("sin", "b33a0af53c1cacaf"),
        ("cos", "d56d40797d9dd97f"),
        ("erf", "0566cabe6ce3895d"),
        ("log1p", "8435cd89d7a23a08"),
    ],
)
def test_bits_are_the_same_on_every_machine_compiled_or_interpreted(name: str, digest: str) -> None:
    """Arguments are products with at most one rounding, and the digests were computed once.

    The power ``steps**3`` is avoided, because NumPy rounds it differently on different processors.
    """
    function, _, largest, _, _ = FUNCTIONS[name]
    steps = np.arange(-400, 401, dtype=np.float32) / np.float32(512)
    x = np.concatenate([steps, steps * steps * steps * np.float32(min(largest, 2.0**20))])
    x = np.abs(x) if name == "log1p" else x
    assert sha256(apply(function, x).tobytes()).hexdigest()[:16] == digest


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
    """Return all 16-bit patterns."""
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
    """Return values in the narrow type by numpy's conversion, as 16-bit patterns."""
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
