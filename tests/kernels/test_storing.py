"""Tests of kernels that store weights and of the random numbers of random weights, against their oracles."""

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.helpers import EXAMPLES, JIT, NUMPY_TYPE, STORAGE
from wse_kernels.library import compiled_kernel
from wse_kernels.oracle import random_numbers as random_oracle
from wse_kernels.oracle import storing as oracle

PAIRS = [("float32", "float16"), ("bfloat16", "float32"), ("float16", "bfloat16"), ("float32", "float32")]


def random_indices(rng: np.random.Generator, mesh: tuple[int, int], count: int, size: int) -> Any:
    """Return random indices below ``size``, some of them padding.

    They are int32 ``[mesh rows or 1, count, mesh columns or 1]``.
    """
    varies = rng.integers(0, 2, 2)
    shape = (mesh[0] if varies[0] else 1, count, mesh[1] if varies[1] else 1)
    return rng.integers(-1, size, shape).astype(np.int32)


def random_patch(
    rng: np.random.Generator, rows: int, cols: int, counts: tuple[int, int], size: tuple[int, int]
) -> tuple[tuple[int, int, int], list[Any], Any]:
    """Return the shape of the arena's view, the indices and places of a random patch, and its operands.

    Args:
        rng: Source of random numbers.
        rows, cols: PEs of the region.
        counts: Rows and columns of the tile on each PE.
        size: Rows and columns of the tensor.
    """
    first_row, first_col = int(rng.integers(0, rows)), int(rng.integers(0, cols))
    mesh = int(rng.integers(1, rows - first_row + 1)), int(rng.integers(1, cols - first_col + 1))
    blocks = -(-cols // 5)
    lanes = -(-cols // blocks) + int(rng.integers(0, 2))
    indices = [random_indices(rng, mesh, n, extent) for n, extent in zip(counts, size, strict=True)]
    row_places = np.arange(counts[0], dtype=np.int32) * np.int32(counts[1])
    column_places = rng.permutation(counts[1]).astype(np.int32)
    operands = np.array([2, first_row, mesh[0], first_col, mesh[1], blocks], np.int64)
    return (rows * blocks, 3 + counts[0] * counts[1], lanes), [*indices, row_places, column_places], operands


SHAPES = {
    "rows": st.integers(1, 11),
    "cols": st.sampled_from([1, 3, 5, 6, 13]),
    "counts": st.tuples(st.integers(1, 3), st.integers(1, 4)),
    "size": st.tuples(st.integers(1, 5), st.integers(1, 6)),
    "seed": st.integers(0, 2**32 - 1),
}


@pytest.mark.parametrize(("source_element", "element"), PAIRS if JIT else PAIRS[:2])
@given(**SHAPES)
@settings(max_examples=EXAMPLES, deadline=None)
def test_store_numbers_equals_its_oracle(
    source_element: str, element: str, rows: int, cols: int, counts: tuple[int, int], size: tuple[int, int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    shape, indices, operands = random_patch(rng, rows, cols, counts, size)
    values = rng.normal(0, 1, size).astype(np.float32).astype(NUMPY_TYPE[source_element]).view(STORAGE[source_element])
    before = rng.integers(0, 99, shape).astype(STORAGE[element])
    expected = before.copy()
    oracle.store_numbers(expected, values, *indices, operands)
    got = before.copy()
    compiled_kernel("store_numbers").serial(got, values, *indices, operands)
    np.testing.assert_array_equal(got, expected)


@given(**SHAPES, codes=st.sampled_from([1, 2]))
@settings(max_examples=EXAMPLES, deadline=None)
def test_store_codes_equals_its_oracle(
    rows: int, cols: int, counts: tuple[int, int], size: tuple[int, int], seed: int, codes: int
) -> None:
    rng = np.random.default_rng(seed)
    shape, indices, operands = random_patch(rng, rows, cols, counts, size)
    values = rng.integers(0, 256 if codes == 1 else 16, size).astype(np.uint8)
    numbers = np.arange(counts[0], dtype=np.int32)
    indices[2] = numbers // np.int32(codes) * np.int32(counts[1])
    shifts = numbers % np.int32(codes) * np.int32(8 // codes), np.zeros(counts[1], np.int32)
    expected = np.zeros(shape, np.uint8)
    oracle.store_codes(expected, values, *indices, *shifts, operands)
    got = np.zeros(shape, np.uint8)
    compiled_kernel("store_codes").serial(got, values, *indices, *shifts, operands)
    np.testing.assert_array_equal(got, expected)


WORDS = st.integers(0, 2**64 - 1)
SINGLES = st.floats(-8, 8, width=32)
DEVIATION = math.sqrt((2**32 - 1) / 3)


def normal_numbers(key: int, first: int, count: int, mean: float = 0.0, factor: float = 1.0) -> Any:
    """Return the float32 numbers ``[count]`` of the kernel, from index ``first`` of the sequence of ``key``."""
    values: npt.NDArray[np.float32] = np.empty(count, np.float32)
    with np.errstate(over="ignore"):  # numpy warns of scalars, but not of arrays
        compiled_kernel("normal_numbers").serial(
            values, np.uint64(key), np.uint64(first), np.float32(mean), np.float32(factor)
        )
    return values


def test_words_are_those_of_splitmix64() -> None:
    """The expected values are published.

    They are for seed 1234567, from https://rosettacode.org/wiki/Pseudo-random_numbers/Splitmix64.
    """
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [random_oracle._word(1234567, place) for place in range(4)] == published


@given(key=WORDS, first=WORDS, count=st.integers(0, 40), mean=SINGLES, factor=SINGLES)
@settings(max_examples=EXAMPLES, deadline=None)
def test_normal_numbers_equal_their_oracle(key: int, first: int, count: int, mean: float, factor: float) -> None:
    expected = np.empty(count, np.float32)
    random_oracle.normal_numbers(expected, key, first, mean, factor)
    np.testing.assert_array_equal(normal_numbers(key, first, count, mean, factor), expected)


@pytest.mark.skipif(not JIT, reason="interpreted, so many numbers take long")
def test_numbers_are_near_to_a_normal_distribution() -> None:
    """Mean, deviation and quantiles are compared.

    The numbers are sums of four parts, so fewer values are far from the mean.
    """
    values = normal_numbers(3, 0, 1 << 20, factor=1 / DEVIATION).astype(np.float64)
    assert abs(values.mean()) < 4 / 1024
    assert abs(values.std() - 1) < 4 / 1024
    for quantile in (0.01, 0.1, 0.3, 0.5, 0.8, 0.95):
        assert abs(np.quantile(values, quantile) - NormalDist().inv_cdf(quantile)) < 0.1, quantile
    assert 3 < np.abs(values).max() <= 2 * 0xFFFF / DEVIATION
    assert abs(np.corrcoef(values[1:], values[:-1])[0, 1]) < 4 / 1024
