"""Random weights: a model's tensors out of a seed, made where they are read, the same on every mesh and machine.

A value follows from the seed, its tensor's name and its place there (`wse_kernels.random_numbers`), so that tiles are
made one by one and nothing is kept.
"""

from __future__ import annotations

import math
from hashlib import sha256
from typing import Final

import numpy as np

from wse.arrays import F32
from wse.models.spec import ModelSpec
from wse.models.tensors.initial_values import Distribution, initial_values
from wse.models.tensors.model_tensors import tensor_shapes
from wse_kernels.library import compiled_kernel

SUM_DEVIATION: Final = math.sqrt((2**32 - 1) / 3)
"""The standard deviation of the sum of four whole numbers that are drawn evenly among 2 ** 16."""
NORMAL_NUMBERS: Final = compiled_kernel("normal_numbers").serial
"""The kernel, which several threads may call at a time."""


class RandomWeights:
    """The tensors of a model by name, float32, out of a seed of at least 0."""

    def __init__(self, spec: ModelSpec, seed: int) -> None:
        self._spec, self._seed = spec, seed
        self._shapes = tensor_shapes(spec)

    def rows(self, name: str) -> RandomRows:
        """Return a tensor that is made a stretch of rows at a time."""
        shape = self._shapes[name]
        key = int.from_bytes(sha256(f"{self._seed} {name}".encode()).digest()[:8], "little")
        return RandomRows(shape, key, initial_values(self._spec, name, shape))


class RandomRows:
    """A tensor that gives ``rows[first:last]`` as a new float32 array: numbers of one stream in row-major order."""

    def __init__(self, shape: tuple[int, ...], key: int, distribution: Distribution) -> None:
        self.shape = shape
        mean, factor = np.float32(distribution.mean), np.float32(distribution.deviation / SUM_DEVIATION)
        self._key, self._mean, self._factor = np.uint64(key), mean, factor

    def __getitem__(self, rows: slice) -> F32:
        """Return the rows of a slice without a step."""
        first, last, _ = rows.indices(self.shape[0])
        row_values = math.prod(self.shape[1:])
        values = np.empty(max(0, last - first) * row_values, np.float32)
        NORMAL_NUMBERS(values, self._key, np.uint64(first * row_values), self._mean, self._factor)
        return values.reshape(-1, *self.shape[1:]) if row_values else values.reshape(0, *self.shape[1:])
