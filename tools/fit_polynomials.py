"""Fit the polynomials of the kernels' elementary functions and print their coefficients.

    python tools/fit_polynomials.py

Each fit minimises the maximum relative error of the resulting function (not of the polynomial):
weighted least squares over Chebyshev nodes, in which the weights grow where the error is large
(Lawson's algorithm). The lowest coefficient is rounded to float32, then the others are fitted again
with the rounded one, and so on. The script writes no file. The printed coefficients are copied to
``kernels/wse_kernels/codegen/elementary.py`` by hand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]

NODES = 301
LAWSON_ITERATIONS = 400  # with 100, the errors are larger by less than 1 %
MARGIN = 1.0005  # factor by which intervals are extended, because argument reduction has rounding errors
ERROR_FUNCTION_SEAM = 0.9375
"""Argument at which the error function switches polynomials. Both have errors below 2^-25 there."""


@dataclass(frozen=True)
class Fit:
    """A fitted polynomial.

    Attributes:
        name: Name of the constant in ``elementary.py``.
        powers: Powers of x with a coefficient.
        coefficients: One per power, rounded to float32.
        error: Maximum relative error of the function with these coefficients.
    """

    name: str
    powers: tuple[int, ...]
    coefficients: tuple[float, ...]
    error: float


def fits() -> tuple[Fit, ...]:
    """Fit the polynomials of all elementary functions."""
    r = _nodes(-0.5 * math.log(2.0) * MARGIN, 0.5 * math.log(2.0) * MARGIN)
    angle = _nodes(1e-4, math.pi / 4 * MARGIN)
    near, far = _nodes(1e-3, ERROR_FUNCTION_SEAM), _nodes(ERROR_FUNCTION_SEAM / MARGIN, 3.95)
    erf_near, erf_far = (np.array([math.erf(x) for x in xs]) for xs in (near, far))
    erfc = np.array([math.erfc(x) for x in far])
    part = _nodes(1e-3, (math.sqrt(2.0) - 1) / (math.sqrt(2.0) + 1) * MARGIN)  # s = (m - 1) / (m + 1), m below sqrt(2)
    wide_part = part.astype(np.longdouble)
    logarithm = np.log1p(wide_part) - np.log1p(-wide_part)
    wide_r, wide_angle = r.astype(np.longdouble), angle.astype(np.longdouble)
    return (
        _fit("EXPONENTIAL", r, np.expm1(wide_r) - wide_r, np.expm1(r), range(2, 7)),
        _fit("SINE", angle, np.sin(wide_angle) - wide_angle, np.sin(angle), range(3, 8, 2)),
        _fit("COSINE", angle, np.cos(wide_angle) - 1 + wide_angle**2 / 2, np.cos(angle), range(4, 9, 2)),
        _fit("LOGARITHM", part, logarithm - 2 * wide_part, 2 * np.arctanh(part), range(3, 10, 2)),
        _fit("ERROR_NEAR", near, erf_near - near, erf_near, range(1, 12, 2)),
        # d erf = erfc d(exponent): an error of the exponent matters less where erfc is small.
        _fit("ERROR_FAR", far, -np.log(erfc) - far, erf_far / erfc, range(1, 8)),
    )


def _nodes(begin: float, end: float) -> F64:
    """Return the Chebyshev nodes of an interval, as [NODES]."""
    nodes: F64 = (begin + end) / 2 + (end - begin) / 2 * np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
    return nodes


def _fit(name: str, x: F64, target: npt.NDArray[np.floating], weight: F64, powers: Sequence[int]) -> Fit:
    """Fit the coefficients c that minimise the maximum of abs(sum c x^power - target) / weight.

    Args:
        name: Name of the polynomial.
        x: Arguments at which the error is evaluated.
        target: Values that the polynomial should have at ``x``.
        weight: Values of the whole function at ``x``, to which errors are relative.
        powers: Powers of x with a coefficient, ascending.
    """
    columns, remainder = [x**power / weight for power in powers], np.asarray(target, np.float64) / weight
    coefficients = []
    while columns:
        rounded = float(np.float32(_lawson(np.stack(columns, axis=1), remainder)[0]))
        coefficients.append(rounded)
        remainder = remainder - rounded * columns.pop(0)
    return Fit(name, tuple(powers), tuple(coefficients), float(np.abs(remainder).max()))


def _lawson(columns: F64, target: F64) -> F64:
    """Return the linear combination of columns with the smallest maximum error.

    Args:
        columns: [arguments, coefficients].
        target: [arguments].

    Returns:
        Coefficients, [coefficients].
    """
    weights, best, smallest = np.full(len(target), 1 / len(target)), np.zeros(columns.shape[1]), np.inf
    for _ in range(LAWSON_ITERATIONS):
        root = np.sqrt(weights)
        combination = np.linalg.lstsq(columns * root[:, None], target * root, rcond=None)[0]
        difference = np.abs(columns @ combination - target)
        if difference.max() < smallest:
            best, smallest = combination, difference.max()
        weights *= difference / difference.max() + 1e-3
        weights /= weights.sum()
    return best


def main() -> None:
    """Print each polynomial as a Python constant, with its powers and its error."""
    for fit in fits():
        values = ", ".join(str(np.float32(c)) for c in fit.coefficients)
        print(f"{fit.name} = ({values})  # powers {fit.powers}, relative error 2^{math.log2(fit.error):.1f}")


if __name__ == "__main__":
    main()
