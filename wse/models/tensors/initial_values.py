"""Distributions of weights as training begins with, which keep the values of a model of any depth within float16.

A matrix has the deviation 1 / sqrt(inputs): what it makes of a vector is about as large as the vector (LeCun et al.,
Efficient BackProp, 1998, section 4.6). What is added to the residual stream, twice a layer, has that over sqrt(2 x
layers) (Radford et al., GPT-2, 2019, section 2.3). Gains are about 1 and other vectors about 0, with a deviation that
tells each value from its neighbours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from wse.models.spec import ModelSpec

VECTOR_DEVIATION: Final = 0.1


@dataclass(frozen=True, slots=True)
class Distribution:
    """The mean and the standard deviation of a tensor's values."""

    mean: float
    deviation: float


def initial_values(spec: ModelSpec, tensor: str, shape: tuple[int, ...]) -> Distribution:
    """Return the distribution of a canonical tensor; gains that are stored minus one have the mean 0.

    >>> from wse.models.load import load_model
    >>> initial_values(load_model("llama-3-8b").spec, "layers.3.q", (4096, 4096))
    Distribution(mean=0.0, deviation=0.015625)
    """
    name = tensor.rpartition(".")[2]
    if len(shape) == 1:
        is_gain = name.endswith("norm") and not spec.norm_unit_offset
        return Distribution(float(is_gain), VECTOR_DEVIATION)
    added = name in ("o", "down")
    return Distribution(0.0, 1.0 / math.sqrt(shape[-1] * (2 * spec.layer_count if added else 1)))
