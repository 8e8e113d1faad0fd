"""Random weights: tensors generated from a seed when they are read.

The weights are the same on every mesh and machine. A value depends only on the seed, the name of
its tensor and its position there (`wse_kernels.compute.random_numbers`). Tiles can therefore be
generated one by one, and nothing is stored.
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
"""Standard deviation of the sum of four integers that are uniform below 2 ** 16."""
NORMAL_NUMBERS: Final = compiled_kernel("normal_numbers").serial
"""Kernel that generates the values; several threads may call it at a time."""


class RandomWeights:
    """Random float32 weights of a model, generated from a seed when they are read.

    The same seed always gives the same weights.
    """

    def __init__(self, spec: ModelSpec, seed: int) -> None:
        self._spec, self._seed = spec, seed
        self._shapes = tensor_shapes(spec)

    def rows(self, name: str) -> RandomRows:
        """Return the tensor with a canonical name, whose rows are generated when they are read."""
        shape = self._shapes[name]
        key = int.from_bytes(sha256(f"{self._seed} {name}".encode()).digest()[:8], "little")
        return RandomRows(shape, key, initial_values(self._spec, name, shape))


class RandomRows:
    """Random tensor whose rows are generated when they are read.

    ``rows[first:last]`` is a new float32 array. The values of a tensor are one stream of random
    numbers in row-major order, so any rows can be generated without generating the preceding rows.
    """

    def __init__(self, shape: tuple[int, ...], key: int, distribution: Distribution) -> None:
        self.shape = shape
        mean, factor = np.float32(distribution.mean), np.float32(distribution.deviation / SUM_DEVIATION)
        self._key, self._mean, self._factor = np.uint64(key), mean, factor

    def __getitem__(self, rows: slice) -> F32:
        """Return the rows of a slice. The slice's step is ignored."""
        first, last, _ = rows.indices(self.shape[0])
        row_values = math.prod(self.shape[1:])
        values = np.empty(max(0, last - first) * row_values, np.float32)
        NORMAL_NUMBERS(values, self._key, np.uint64(first * row_values), self._mean, self._factor)
        return values.reshape(-1, *self.shape[1:]) if row_values else values.reshape(0, *self.shape[1:])
