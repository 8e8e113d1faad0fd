"""Weights to codes and scales, when they are stored.

Symmetric, to the nearest, ties to even: scale = max|w| / the largest code over what shares it, rounded up to the
scale's type so that no code is beyond the largest; code = w / scale. fp8's codes are the e4m3 numbers nearest to
w / scale. For sources see `wse.number_formats`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt

from wse.arrays import F32
from wse.errors import BadModel
from wse.execute.arena import number_type
from wse.execute.tiles import Source, Tensor
from wse.number_formats import CODINGS, GROUP_NUMBERS, MOST_GROUPS, Coding, codes_name, scales_name
from wse.program.program import Program, Tile

Codes = npt.NDArray[np.uint8]

VALUES_AT_ONCE: Final = 1 << 18
"""Weights that are quantised at a time, which bounds the memory that it takes."""

Read = Callable[[str, Source, tuple[int, int]], Tensor]
"""Rows of a tensor, by its name, from the first to one past the last, as float32; it refuses what is no number."""


def with_codes(program: Program, tensor: Callable[[str], Source], read: Read) -> Callable[[str], Source]:
    """A source of tensors by name that has codes and scales of quantised weights too, made from those of ``tensor``."""
    coding = CODINGS.get(program.weight_type)
    if coding is None:
        return tensor
    scale_type = number_type(program.element_type("wgt"))

    def coded_tensor(name: str) -> Source:
        if name == GROUP_NUMBERS:
            return np.arange(MOST_GROUPS, dtype=np.uint8)
        whole = name.rpartition(".")[0]
        stored_names = [codes_name(whole), scales_name(whole)]
        if name not in stored_names:
            return tensor(name)
        return _Part(whole, tensor(whole), coding, scale_type, read, stored_names.index(name))

    return coded_tensor


class _Part:
    """The codes (0) or the scales (1) of a tensor, made of its rows as they are asked for."""

    def __init__(
        self, name: str, source: Source, coding: Coding, scale_type: np.dtype[Any], read: Read, part: int
    ) -> None:
        self._name, self._source, self._coding, self._scale_type = name, source, coding, scale_type
        self._read, self._part = read, part
        outputs, inputs = source.shape
        self.shape: tuple[int, ...] = (outputs, inputs if part == 0 else coding.groups(inputs))

    def __getitem__(self, rows: slice, /) -> Tensor:
        first, last, _ = rows.indices(self.shape[0])
        result = np.empty((last - first, *self.shape[1:]), (np.dtype(np.uint8), self._scale_type)[self._part])
        step = max(1, VALUES_AT_ONCE // max(1, self._source.shape[1]))
        for begin in range(first, last, step):
            end = min(begin + step, last)
            weights = self._read(self._name, self._source, (begin, end)).astype(np.float32, copy=False)
            both = quantise(self._name, weights, self._coding, self._scale_type)
            result[begin - first : end - first] = both[self._part]
        return result


def pack_codes(tile: Tile, codes: Tensor) -> Tensor:
    """Codes ``[..., rows, columns]`` of a tile as its bytes; what has no coding as it is."""
    if not tile.coding or CODINGS[tile.coding].bits == 8:
        return codes
    even = codes[..., 0::2, :].astype(np.uint8)
    odd = np.zeros_like(even)
    odd[..., : codes.shape[-2] // 2, :] = codes[..., 1::2, :]
    return even | odd << 4


def quantise(name: str, weights: F32, coding: Coding, scale_type: np.dtype[Any]) -> tuple[Codes, Tensor]:
    """Codes uint8 ``[out, in]`` (the low bits of two's complement numbers, or e4m3) and scales ``[out, groups]``.

    A weight that is not finite makes the scale of its group not finite, and so all weights that share it.

    Raises BadModel when a weight is too large for the type of scales.
    """
    outputs, inputs = weights.shape
    groups, width = coding.groups(inputs), coding.group or inputs
    padded = np.zeros((outputs, groups * width), np.float32)
    padded[:, :inputs] = weights
    whole = padded.reshape(outputs, groups, width)
    top = np.abs(whole).max(axis=2)
    scale = _rounded_up(top / np.float32(coding.largest), scale_type)
    finite = np.isfinite(scale.astype(np.float32))
    if not finite[np.isfinite(top)].all():
        largest = top[np.isfinite(top)].max()
        message = f"{name}: holds {largest:.3g}, too much for a scale of {scale_type.name}; use --activations float32"
        raise BadModel(message)
    divisor = np.where(finite & (top > 0), scale.astype(np.float32), np.float32(1))[:, :, None]
    ratio = np.divide(np.where(finite[:, :, None], whole, np.float32(0)), divisor, dtype=np.float32)
    return _nearest(ratio, coding).reshape(outputs, -1)[:, :inputs], scale


def _rounded_up(values: F32, scale_type: np.dtype[Any]) -> Tensor:
    """The smallest numbers of a type that are not below ``values``."""
    with np.errstate(over="ignore"):
        near = values.astype(scale_type)
    up = np.nextafter(near, np.array(np.inf, scale_type))
    return np.asarray(np.where(near.astype(np.float32) < values, up, near))


def _nearest(ratio: F32, coding: Coding) -> Codes:
    if coding.name == "fp8":
        return ratio.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    whole = np.rint(ratio).astype(np.int8).view(np.uint8)
    return whole & np.uint8((1 << coding.bits) - 1)
