"""Random weights: tensors generated from a seed when they are read.

The weights are the same on every mesh and machine. A value depends only on the seed, the name of
its tensor and its position there (`wse_kernels.compute.random_numbers`). Tiles can therefore be
generated one by one, and nothing is stored.

The distributions are those used to initialise training:

- A matrix has the standard deviation 1 / sqrt(inputs), so its outputs are about as large as its
  inputs (LeCun et al., Efficient BackProp, 1998, section 4.6).
- For projections whose output is added to the residual stream, two per layer, this is divided by
  sqrt(2 x layers) (Radford et al., GPT-2, 2019, section 2.3).
- Gains have a mean of 1, and other vectors have a mean of 0. Their standard deviation is large
  enough to distinguish their values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

import numpy as np

from wse.arrays import F32
from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import tensor_shapes
from wse_kernels.library import compiled_kernel

VECTOR_DEVIATION: Final = 0.1


@dataclass(frozen=True, slots=True)
class Distribution:
    """Mean and standard deviation from which a tensor's random values are drawn."""

    mean: float
    deviation: float


def initial_values(spec: ModelSpec, tensor: str, shape: tuple[int, ...]) -> Distribution:
    """Return the distribution from which random values of a tensor are drawn.

    Args:
        spec: Description of the model. If its norm gains are stored minus one, their mean is 0. The
            mean of other gains and of vectors of factors is 1.
        tensor: Name of the tensor in wse.
        shape: Shape of the tensor.

    >>> from wse.models.load import load_model
    >>> initial_values(load_model("llama-3-8b").spec, "layers.3.q", (4096, 4096))
    Distribution(mean=0.0, deviation=0.015625)
    """
    name = tensor.rpartition(".")[2]
    if len(shape) == 1:
        is_gain = name.endswith("_scale") or (name.endswith("norm") and not spec.norm_unit_offset)
        return Distribution(float(is_gain), VECTOR_DEVIATION)
    is_residual_output = name in ("o", "down")
    return Distribution(0.0, 1.0 / math.sqrt(shape[-1] * (2 * spec.layer_count if is_residual_output else 1)))


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
        """Return a tensor of random values, whose rows are generated when they are read.

        Args:
            name: Name of the tensor in wse, such as ``layers.3.q``.
        """
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
