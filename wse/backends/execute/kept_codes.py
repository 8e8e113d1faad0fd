"""Codes and scales that a checkpoint holds in the type that weights are requested as: they are stored bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np

from wse.backends.execute.arena import number_type
from wse.backends.execute.tiles import Source, Tensor, decoded_values, is_read_whole
from wse.errors import BadModel, WseBug
from wse.number_formats import E8M0_BIAS, E8M0_NAN, Coding


class KeptPart:
    """The codes (0) or scales (1) of a tensor as its checkpoint stores them: ``[out, in]`` or ``[blocks, groups]``.

    ``source`` has the scales of each output. Rows are looked at where they must stand for numbers in the type of
    ``activations``; None lets everything through.
    """

    def __init__(self, name: str, source: Source, coding: Coding, part: int, activations: str | None) -> None:
        self._name, self._source, self._coding, self._part = name, source, coding, part
        self._outputs = coding.block if part else 1  # rows of the source in one of ours
        self._activations = activations
        self.shape: tuple[int, ...] = (-(-source.shape[0] // self._outputs), source.shape[1])

    @property
    def is_read_whole(self) -> bool:
        """True if the source is read whole."""
        return is_read_whole(self._source)

    def decoded_values(self, first: int, last: int) -> int:
        """Return the number of values that the source decodes for some rows."""
        return decoded_values(self._source, first * self._outputs, min(last * self._outputs, self._source.shape[0]))

    def __getitem__(self, rows: slice, /) -> Tensor:
        first, last, _ = rows.indices(self.shape[0])
        values = self._source[first * self._outputs : last * self._outputs]
        ours = values[:: self._outputs]
        if not np.array_equal(np.repeat(ours, self._outputs, axis=0)[: len(values)], values, equal_nan=True):
            message = f"{self._name}: {self._outputs} neighbouring outputs have several scales"
            raise WseBug(message)
        if self._activations is not None:
            self._check(ours, number_type(self._activations))
        return ours

    def _check(self, values: Tensor, activations: np.dtype[Any]) -> None:
        """Raise BadModel for a code or scale that is not a number, or a scale that the activation type cannot
        represent.
        """
        if self._part == 0:
            none = values.astype(np.uint8) & 0x7F == 0x7F if self._coding.bits == 8 else np.zeros(0, bool)
        elif self._coding.scale_view == "raw":
            none = values == E8M0_NAN
            self._check_largest(np.ldexp(1.0, values[~none].astype(np.int32) - E8M0_BIAS), activations)
        else:
            none = ~np.isfinite(values.astype(np.float32))
            self._check_largest(values[~none], activations)
        if none.any():
            message = (
                f"{self._name}: {int(none.sum()):,} of {values.size:,} values read are not finite numbers; "
                "fetch or convert the weights again, or use --allow-nonfinite"
            )
            raise BadModel(message)

    def _check_largest(self, scales: Tensor, activations: np.dtype[Any]) -> None:
        largest = float(np.max(scales, initial=0))
        with np.errstate(over="ignore"):
            if np.isinf(np.float64(largest).astype(activations)):
                raise too_large(self._name, largest, activations)


def too_large(name: str, largest: float, scale_type: np.dtype[Any]) -> BadModel:
    """Return the error for a tensor whose largest value needs a scale that its type cannot represent."""
    message = f"{name}: holds {largest:.3g}, too much for a scale of {scale_type.name}; use --activations float32"
    return BadModel(message)
