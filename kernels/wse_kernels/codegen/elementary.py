"""Elementary functions of float32 in plain arithmetic.

They vectorise over lanes and give the same bits on every machine, because no library is called and
nothing depends on the processor. Each function maps its argument to a short interval and evaluates
a polynomial there. ``tools/fit_polynomials.py`` prints the coefficients. Errors are in units in the
last place (ulp), and are checked by ``tests/kernels/test_elementary.py``.

The functions use comparisons instead of ``min`` and ``max``, so that a NaN argument gives NaN.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wse_kernels.codegen.plain_arithmetic import (
    ROUNDER,
    instructions_of,
    plain,
    scale_by_power,
    split_power,
    to_double,
    to_single,
    where,
)

ONE, TWO = np.float32(1.0), np.float32(2.0)

LOG2_E = np.float32(math.log2(math.e))
LN_2_HIGH = np.float32(0.693145751953125)  # 16 bits: its products with exponents are exact
LN_2_LOW = np.float32(math.log(2.0) - 0.693145751953125)
MIN_ARGUMENT, MAX_ARGUMENT = np.float32(-104.0), np.float32(89.0)  # outside, the exponential rounds to 0 or infinity
EXPONENTIAL = (0.49999997, 0.16666546, 0.041667435, 0.008366262, 0.0013870657)

MAX_TANGENT_ARGUMENT = np.float32(9.1)  # beyond, the hyperbolic tangent rounds to 1

WIDE_ROUNDER = np.float64(1.5 * 2.0**52)
QUARTERS = np.float64(2.0 / math.pi)  # quarter turns of a radian
HALF_PI_HIGH = np.float64(26353589 / 2.0**24)  # 25 bits: its products with quarter turns are exact
HALF_PI_LOW = np.float64(1.5893254773528196e-08)  # pi / 2 minus HALF_PI_HIGH, to 2^-79
SINE = (-0.16666655, 0.008332188, -0.00019518098)
COSINE = (0.041666646, -0.001388731, 2.4432327e-05)

MIN_LOGARITHM_ARGUMENT = np.float32(2.0**-25)  # below, the logarithm of 1 + x rounds to x
LN_2 = np.float64(math.log(2.0))
ROOT_HALF = math.sqrt(0.5)
LOGARITHM = (0.6666666, 0.40000972, 0.28498805, 0.242785)

SEAM = np.float32(0.9375)  # between the two polynomials of the error function
MAX_ERROR_ARGUMENT = np.float32(4.0)  # beyond, the error function rounds to 1
ERROR_NEAR = (0.12837915, -0.3761248, 0.11281618, -0.026758565, 0.0049806875, -0.0005925125)
ERROR_FAR = (0.12865825, 0.63511187, 0.10630182, -0.023817759, 0.0036686829, -0.00032922762, 1.1870631e-05)


def _polynomial(x: Any, coefficients: tuple[float, ...]) -> Any:
    """Return c0 + c1 x + c2 x^2 + ... by Horner's rule, with coefficients rounded to float32."""
    *lower_coefficients, value = (np.float32(c) for c in coefficients)
    for coefficient in reversed(lower_coefficients):
        value = x * value + coefficient
    return value


def _exponential(x: Any) -> Any:
    """Return exp(x) with an error of at most 1.01 ulp."""
    fraction, times = _exponential_less_one(
        where(x < MIN_ARGUMENT, MIN_ARGUMENT, where(x > MAX_ARGUMENT, MAX_ARGUMENT, x))
    )
    return scale_by_power(fraction + ONE, times)


def _exponential_less_one(x: Any) -> tuple[Any, Any]:
    """Compute exp(r) - 1 for the remainder r of x after division by ln(2).

    With an integer n, x = n ln(2) + r and |r| <= ln(2) / 2, so exp(x) = 2^n exp(r).

    Returns:
        exp(r) - 1, and the float32 number ROUNDER + n. The constant ROUNDER is so large that the
        low bits of the number are the integer n. `scale_by_power` multiplies by 2^n, given this
        number.
    """
    times = x * LOG2_E + ROUNDER
    n = times - ROUNDER
    r = (x - n * LN_2_HIGH) - n * LN_2_LOW
    return r + r * r * _polynomial(r, EXPONENTIAL), times


def _hyperbolic_tangent(x: Any) -> Any:
    """Return tanh(x) = (exp(2 x) - 1) / (exp(2 x) + 1) with an error of at most 2.61 ulp."""
    limited_x = where(
        x < -MAX_TANGENT_ARGUMENT, -MAX_TANGENT_ARGUMENT, where(x > MAX_TANGENT_ARGUMENT, MAX_TANGENT_ARGUMENT, x)
    )
    fraction, times = _exponential_less_one(limited_x + limited_x)
    less_one = scale_by_power(fraction, times) + (scale_by_power(ONE, times) - ONE)
    return less_one / (less_one + TWO)


def _sine_and_cosine(x: Any) -> tuple[Any, Any]:
    """Return sin(x) and cos(x) with errors of at most 0.57 ulp for |x| up to 2^24.

    The computation is in float64:

    1. Split x into q pi / 2 + r, where q is an integer and |r| is at most pi / 4.
    2. Compute sin(r) and cos(r).
    3. Swap the two if q is odd, and set their signs according to q modulo 4 (from -2 to 2).
    """
    wide_x = to_double(x)  # 1
    q = (wide_x * QUARTERS + WIDE_ROUNDER) - WIDE_ROUNDER
    r = (wide_x - q * HALF_PI_HIGH) - q * HALF_PI_LOW
    square = r * r  # 2
    sine = r + r * square * _polynomial(square, SINE)
    cosine = ONE - (square * 0.5 - square * square * _polynomial(square, COSINE))
    quarter = q - ((q * 0.25 + WIDE_ROUNDER) - WIDE_ROUNDER) * 4.0  # 3
    size = quarter * quarter
    odd = size == 1.0
    first, second = where(odd, cosine, sine), where(odd, sine, cosine)
    first = where((quarter < -0.5) | (quarter > 1.5), -first, first)
    second = where((quarter > 0.5) | (quarter < -1.5), -second, second)
    return to_single(first), to_single(second)


def _logarithm_plus_one(x: Any) -> Any:
    """Return log(1 + x) for x >= 0 with an error of at most 0.51 ulp.

    The computation is in float64:

    1. Write 1 + x as 2^n m, with m in [sqrt(1/2), sqrt(2)), and compute s = (m - 1) / (m + 1).
    2. Use log(m) = 2 s + 2 s^3 / 3 + ...
    """
    m, n = split_power(to_double(x) + np.float64(1.0), ROOT_HALF)  # 1
    s = (m - 1.0) / (m + 1.0)
    square = s * s  # 2
    logarithm = n * LN_2 + (s + s + s * square * _polynomial(square, LOGARITHM))
    return where((x > MIN_LOGARITHM_ARGUMENT) & (x < np.inf), to_single(logarithm), x)


def _error_function(x: Any) -> Any:
    """Return erf(x) with an error of at most 1.1 ulp.

    For |x| up to SEAM, the result is a polynomial. For larger |x|, it is 1 minus the exponential of
    a polynomial.
    """
    size = where(x < 0.0, -x, x)
    size = where(size > MAX_ERROR_ARGUMENT, MAX_ERROR_ARGUMENT, size)
    near_value = x + x * _polynomial(x * x, ERROR_NEAR)
    fraction, times = _exponential_less_one(-(size + size * _polynomial(size, ERROR_FAR)))
    far_value = ONE - scale_by_power(fraction + ONE, times)
    return where(size > SEAM, where(x < 0.0, -far_value, far_value), near_value)


def _power_of_two(n: Any) -> Any:
    """Return 2^n for an integer n from -252 to 254."""
    return scale_by_power(ONE, n + ROUNDER)


exponential_of = instructions_of(_exponential)
exponential: Any = plain(_exponential)
hyperbolic_tangent: Any = plain(_hyperbolic_tangent)
sine_and_cosine: Any = plain(_sine_and_cosine, results=2)
error_function: Any = plain(_error_function)
logarithm_plus_one: Any = plain(_logarithm_plus_one)
power_of_two: Any = plain(_power_of_two)
