"""Fit the polynomials of the kernels' elementary functions and print their coefficients.

    python tools/fit_polynomials.py

Minimax of the relative error of the function, not of the polynomial: least squares over Chebyshev
nodes with weights that grow where the error is large (Lawson's algorithm). The lowest coefficient
is rounded to float32, the others are fitted anew with it, and so on. Nothing is written; what is
printed stands in ``kernels/wse_kernels/codegen/elementary.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]

NODES = 301
TURNS = 400  # of Lawson's algorithm; 100 give an error larger by less than a hundredth
MARGIN = 1.0005  # intervals are so much longer, for arguments that are reduced with an error
ERROR_FUNCTION_SEAM = 0.9375
"""The argument where the error function changes from one polynomial to the other; both have room below 2^-25 there."""


@dataclass(frozen=True)
class Fit:
    """A polynomial: coefficients of ``powers``, rounded to float32, and the largest relative error with them."""

    name: str
    powers: tuple[int, ...]
    coefficients: tuple[float, ...]
    error: float


def fits() -> tuple[Fit, ...]:
    """Return the polynomials of the elementary functions."""
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
        # d erf = erfc d(exponent), so that an error of the exponent counts less where erfc is small.
        _fit("ERROR_FAR", far, -np.log(erfc) - far, erf_far / erfc, range(1, 8)),
    )


def _nodes(begin: float, end: float) -> F64:
    """Chebyshev nodes of an interval."""
    nodes: F64 = (begin + end) / 2 + (end - begin) / 2 * np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
    return nodes


def _fit(name: str, x: F64, target: npt.NDArray[np.floating], weight: F64, powers: Sequence[int]) -> Fit:
    """Coefficients c of ``powers`` with the smallest largest |sum c x^power - target| / weight."""
    columns, left = [x**power / weight for power in powers], np.asarray(target, np.float64) / weight
    coefficients = []
    while columns:
        rounded = float(np.float32(_lawson(np.stack(columns, axis=1), left)[0]))
        coefficients.append(rounded)
        left = left - rounded * columns.pop(0)
    return Fit(name, tuple(powers), tuple(coefficients), float(np.abs(left).max()))


def _lawson(columns: F64, target: F64) -> F64:
    """Return the combination of columns with the smallest largest difference from the target."""
    weights, best, smallest = np.full(len(target), 1 / len(target)), np.zeros(columns.shape[1]), np.inf
    for _ in range(TURNS):
        root = np.sqrt(weights)
        combination = np.linalg.lstsq(columns * root[:, None], target * root, rcond=None)[0]
        difference = np.abs(columns @ combination - target)
        if difference.max() < smallest:
            best, smallest = combination, difference.max()
        weights *= difference / difference.max() + 1e-3
        weights /= weights.sum()
    return best


def main() -> None:
    for fit in fits():
        values = ", ".join(str(np.float32(c)) for c in fit.coefficients)
        print(f"{fit.name} = ({values})  # powers {fit.powers}, relative error 2^{math.log2(fit.error):.1f}")


if __name__ == "__main__":
    main()
