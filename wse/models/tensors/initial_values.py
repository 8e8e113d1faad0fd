"""Distributions of random weights that keep activations in the range of float16 at any depth.

The distributions are those used to initialise training:

- A matrix has the standard deviation 1 / sqrt(inputs), so its outputs are about as large as its
  inputs (LeCun et al., Efficient BackProp, 1998, section 4.6).
- For projections whose output is added to the residual stream, two per layer, this is divided by
  sqrt(2 x layers) (Radford et al., GPT-2, 2019, section 2.3).
- Gains have a mean of 1, other vectors of 0. Their deviation is large enough to distinguish their
  values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from wse.models.spec import ModelSpec

VECTOR_DEVIATION: Final = 0.1


@dataclass(frozen=True, slots=True)
class Distribution:
    """Mean and standard deviation from which a tensor's random values are drawn."""

    mean: float
    deviation: float


def initial_values(spec: ModelSpec, tensor: str, shape: tuple[int, ...]) -> Distribution:
    """Return the distribution from which random values of a tensor are drawn.

    Args:
        spec: The model. If its gains are stored minus one, their mean is 0.
        tensor: Name of the tensor in wse.
        shape: Shape of the tensor.

    >>> from wse.models.load import load_model
    >>> initial_values(load_model("llama-3-8b").spec, "layers.3.q", (4096, 4096))
    Distribution(mean=0.0, deviation=0.015625)
    """
    name = tensor.rpartition(".")[2]
    if len(shape) == 1:
        is_gain = name.endswith("norm") and not spec.norm_unit_offset
        return Distribution(float(is_gain), VECTOR_DEVIATION)
    is_residual_output = name in ("o", "down")
    return Distribution(0.0, 1.0 / math.sqrt(shape[-1] * (2 * spec.layer_count if is_residual_output else 1)))
