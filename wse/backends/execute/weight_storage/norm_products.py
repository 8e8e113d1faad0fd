"""Products of matrices and the gain or bias of the preceding norm, computed before a run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from wse.backends.execute.weight_storage.quantise import Read
from wse.backends.execute.weight_storage.tiles import VALUES_PER_READ, Source
from wse.program.program import TIMES


def with_norm_products(tensor: Callable[[str], Source], read: Read) -> Callable[[str], Source]:
    """Return a tensor source that also provides products of matrices and norm vectors.

    The name of such a product is the name of the matrix, ``@`` and the name of the vector, for
    example ``layers.0.q@attention_norm``.

    Args:
        tensor: Function that returns matrices ``[out, in]`` and vectors ``[in]``.
        read: Function that reads rows of a tensor in the element type of the weights in SRAM.
    """

    def with_products(name: str) -> Source:
        """Return a tensor, or the product of a matrix and a vector as float32 ``[out]``."""
        matrix_name, _, vector_name = name.partition(TIMES)
        if not vector_name:
            return tensor(name)
        vector_name = f"{matrix_name.rpartition('.')[0]}.{vector_name}"
        matrix, vector = tensor(matrix_name), tensor(vector_name)
        outputs, inputs = matrix.shape
        factors = read(vector_name, vector, (0, inputs)).astype(np.float64)
        product = np.empty(outputs, np.float32)
        step = max(1, VALUES_PER_READ // inputs)
        for first in range(0, outputs, step):
            last = min(first + step, outputs)
            product[first:last] = read(matrix_name, matrix, (first, last)).astype(np.float64) @ factors
        return product

    return with_products
