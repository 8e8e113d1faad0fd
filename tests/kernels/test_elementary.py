"""Errors of elementary functions against float64, special values, and equal bits everywhere."""

from __future__ import annotations

import math
from collections.abc import Callable
from hashlib import sha256
from typing import Any

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
from wse_kernels.codegen.jit import kernel

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
"""Each function for many values, its reference in float64, the largest argument, its error in ulp, and that of glibc's
float32 function, the largest of some millions of arguments of version 2.36; log(1 + x) is for x from 0 on."""


def made(function: Vector, x: Array) -> Array:
    out = np.empty_like(x)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        function(x, out)
    return out


def spread(largest: float, count: int) -> Array:
    """Return floats of both signs: equally many per binade, evenly spaced, and quarter turns."""
    rng = np.random.default_rng(5)
    bits = rng.integers(np.float32(2.0**-30).view(np.int32), np.float32(largest).view(np.int32), count, dtype=np.int32)
    even = rng.uniform(0, min(largest, 32.0), count).astype(np.float32)
    turns = (rng.integers(1, max(2, int(min(largest, 2.0**24))), count) * (math.pi / 2)).astype(np.float32)
    x = np.concatenate([bits.view(np.float32), even, turns[turns <= largest]])
    return np.concatenate([x, -x])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_are_at_most_one_ulp_more_than_the_library_s(name: str) -> None:
    function, reference, largest, bound, library = FUNCTIONS[name]
    assert bound <= library + 1.0
    x = spread(largest, 40_000 if JIT else 300)
    x = np.abs(x) if name == "log1p" else x
    got, want = made(function, x).astype(np.float64), reference(x.astype(np.float64))
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
    np.testing.assert_array_equal(made(function, np.array(x, np.float32)), np.array(want, np.float32))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_no_number_gives_none(name: str) -> None:
    assert np.isnan(made(FUNCTIONS[name][0], np.array([np.nan], np.float32))).all()


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("exp", "fa2f9eb9e017683b"),
        ("tanh", "c763c0367efb3441"),
        ("sin", "9e3671ab2e6ae20f"),
        ("cos", "684c08019788e46a"),
        ("erf", "f3f31d3dfd92d158"),
        ("log1p", "5e578122cb4a5453"),
    ],
)
def test_bits_are_the_same_on_every_machine_compiled_or_interpreted(name: str, digest: str) -> None:
    """Arguments are exact products of small numbers, and the digests were computed once."""
    function, _, largest, _, _ = FUNCTIONS[name]
    steps = np.arange(-400, 401, dtype=np.float32) / np.float32(512)
    x = np.concatenate([steps, steps**3 * np.float32(min(largest, 2.0**20))])
    x = np.abs(x) if name == "log1p" else x
    assert sha256(made(function, x).tobytes()).hexdigest()[:16] == digest
