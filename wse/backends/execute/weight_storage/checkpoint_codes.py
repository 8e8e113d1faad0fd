"""Codes and scales that a checkpoint already has in the requested type.

They are stored bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wse.backends.execute.host_memory.arena import number_type
from wse.backends.execute.weight_storage.tiles import Source, Tensor, decoded_values, is_read_whole
from wse.errors import BadModel, WseBug
from wse.number_formats import E8M0_BIAS, E8M0_NAN, Coding


class CheckpointCodes:
    """Codes or scales of one quantised tensor, read from a checkpoint that already stores them.

    Several neighbouring outputs of the tensor may share a scale. Such outputs have equal rows in
    the checkpoint, and this class returns only one of these rows.

    Args:
        name: Name of the codes or scales, for error messages.
        source: The codes ``[out, in]``, or the scales ``[out, groups]``, one row per output.
        coding: Storage format of the codes, such as int8 with one scale per output.
        part: 0 for codes; 1 for scales, whose shape here is ``[blocks of outputs, groups]``.
        activations: Element type of activations, in which all values must be finite numbers. None
            to skip the check.
    """

    def __init__(self, name: str, source: Source, coding: Coding, part: int, activations: str | None) -> None:
        self._name, self._source, self._coding, self._part = name, source, coding, part
        self._outputs = coding.block if part else 1  # rows of the source per row of this tensor
        self._activations = activations
        self.shape: tuple[int, ...] = (-(-source.shape[0] // self._outputs), source.shape[1])

    @property
    def is_read_whole(self) -> bool:
        """True if the whole source must be decoded to read any of its rows."""
        return is_read_whole(self._source)

    def decoded_values(self, first: int, last: int) -> int:
        """Return how many values of the source must be decoded to read the given rows.

        Args:
            first, last: First row and one past the last row.
        """
        return decoded_values(self._source, first * self._outputs, min(last * self._outputs, self._source.shape[0]))

    def __getitem__(self, rows: slice, /) -> Tensor:
        first, last, _ = rows.indices(self.shape[0])
        values = self._source[first * self._outputs : last * self._outputs]
        block_values = values[:: self._outputs]
        if not np.array_equal(np.repeat(block_values, self._outputs, axis=0)[: len(values)], values, equal_nan=True):
            message = f"{self._name}: {self._outputs} neighbouring outputs have several scales"
            raise WseBug(message)
        if self._activations is not None:
            self._check(block_values, number_type(self._activations))
        return block_values

    def _check(self, values: Tensor, activations: np.dtype[Any]) -> None:
        """Raise BadModel for NaN, infinity, or a scale too large for the activation type."""
        if self._part == 0:
            is_nan = values.astype(np.uint8) & 0x7F == 0x7F if self._coding.bits == 8 else np.zeros(0, bool)
        elif self._coding.scale_view == "raw":
            is_nan = values == E8M0_NAN
            self._check_largest(np.ldexp(1.0, values[~is_nan].astype(np.int32) - E8M0_BIAS), activations)
        else:
            is_nan = ~np.isfinite(values.astype(np.float32))
            self._check_largest(values[~is_nan], activations)
        if is_nan.any():
            message = (
                f"{self._name}: {int(is_nan.sum()):,} of {values.size:,} values read are not finite numbers; "
                "fetch or convert the weights again, or use --allow-nonfinite"
            )
            raise BadModel(message)

    def _check_largest(self, scales: Tensor, activations: np.dtype[Any]) -> None:
        """Raise BadModel if a scale overflows the activation type."""
        largest_scale = float(np.max(scales, initial=0))
        with np.errstate(over="ignore"):
            if np.isinf(np.float64(largest_scale).astype(activations)):
                raise too_large(self._name, largest_scale, activations)


def too_large(name: str, largest_value: float, scale_type: np.dtype[Any]) -> BadModel:
    """Build the error for a tensor with a value whose scale would overflow the scale type.

    Args:
        name: Name of the tensor.
        largest_value: Largest value of the tensor.
        scale_type: Element type of the scales.
    """
    message = (
        f"{name}: contains {largest_value:.3g}, too large for a scale of {scale_type.name}; use --activations float32"
    )
    return BadModel(message)
