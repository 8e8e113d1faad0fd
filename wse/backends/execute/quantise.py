"""Weights to codes and scales, when they are stored.

Symmetric, to the nearest, ties to even: scale = max|w| / the largest code over what shares it, rounded up to the
scale's type so that no code is beyond the largest; code = w / scale. fp8's codes are the e4m3 numbers nearest to
w / scale, those of mxfp4 the e2m1 numbers, with a power of two as scale. What a checkpoint holds in the type that is
requested stays as it is. For sources see `wse.number_formats`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt

from wse.arrays import F32
from wse.backends.execute.arena import number_type
from wse.backends.execute.kept_codes import KeptPart, too_large
from wse.backends.execute.tiles import Source, Tensor, decoded_values, is_read_whole
from wse.models.spec import ModelSpec
from wse.models.tensors.checkpoint import TensorRows
from wse.models.tensors.model_tensors import coding_of
from wse.number_formats import (
    E8M0_BIAS,
    E8M0_NAN,
    FP8,
    FP8_BLOCKS,
    GROUP_NUMBERS,
    MOST_GROUPS,
    MXFP4,
    Coding,
    codes_name,
    scales_name,
)
from wse.program.program import Program

Codes = npt.NDArray[np.uint8]

VALUES_AT_ONCE: Final = 1 << 18
"""Weights that are quantised at a time, which bounds the memory that it takes."""

Read = Callable[[str, Source, tuple[int, int]], Tensor]
"""Rows of a tensor, by its name, from the first to one past the last, as float32; it refuses what is no number."""


def with_codes(
    program: Program, spec: ModelSpec, tensor: Callable[[str], Source], read: Read, *, allow_nonfinite: bool
) -> Callable[[str], Source]:
    """A source of tensors by name that has codes and scales of quantised weights too, made from those of ``tensor``.

    A matrix that a checkpoint holds as such codes keeps its own, bit for bit, and their scales.
    """
    weight_type, activations = program.weight_type, program.element_type("act")

    def coded_tensor(name: str) -> Source:
        if name == GROUP_NUMBERS:
            return np.arange(MOST_GROUPS, dtype=np.uint8)
        whole = name.rpartition(".")[0]
        stored_names = [codes_name(whole), scales_name(whole)]
        if name not in stored_names:
            return tensor(name)
        source, part = tensor(whole), stored_names.index(name)
        coding = coding_of(spec, whole, weight_type)
        assert coding is not None
        kept = source.codes_and_scales if isinstance(source, TensorRows) else None
        if kept is not None and weight_type == spec.packing.method:
            return KeptPart(name, kept[part], coding, part, None if allow_nonfinite else activations)
        return _Part(whole, source, coding, number_type(program.element_type(coding.scale_view)), read, part)

    return coded_tensor


class _Part:
    """The codes (0) or the scales (1) of a tensor, made of its rows as they are requested."""

    def __init__(
        self, name: str, source: Source, coding: Coding, scale_type: np.dtype[Any], read: Read, part: int
    ) -> None:
        self._name, self._source, self._coding, self._scale_type = name, source, coding, scale_type
        self._read, self._part = read, part
        outputs, inputs = source.shape
        self.shape: tuple[int, ...] = (
            (outputs, inputs) if part == 0 else (-(-outputs // coding.block), coding.groups(inputs))
        )

        self._unit = coding.block if part else 1  # outputs of a row of ours
        self._step = coding.block * max(1, VALUES_AT_ONCE // max(1, coding.block * inputs))  # whole blocks

    @property
    def is_read_whole(self) -> bool:
        """True if the source is read whole."""
        return is_read_whole(self._source)

    def decoded_values(self, first: int, last: int) -> int:
        """Return the number of values that the source decodes at a time for these rows, a few rows at once."""
        begin, end = first * self._unit, min(last * self._unit, self._source.shape[0])
        return decoded_values(self._source, begin, min(begin + self._step, end))

    def __getitem__(self, rows: slice, /) -> Tensor:
        first, last, _ = rows.indices(self.shape[0])
        unit, step = self._unit, self._step
        block, outputs = self._coding.block, self._source.shape[0]
        source = self._source[:] if self.is_read_whole else self._source
        result = np.empty((last - first, *self.shape[1:]), (np.dtype(np.uint8), self._scale_type)[self._part])
        for begin in range(first * unit // block * block, min(last * unit, outputs), step):
            end = min(begin + step, outputs)
            weights = self._read(self._name, source, (begin, end)).astype(np.float32, copy=False)
            part = quantise(self._name, weights, self._coding, self._scale_type)[self._part]
            at = begin // unit
            wanted = slice(max(first, at), min(last, at + len(part)))
            result[wanted.start - first : wanted.stop - first] = part[wanted.start - at : wanted.stop - at]
        return result


def quantise(name: str, weights: F32, coding: Coding, scale_type: np.dtype[Any]) -> tuple[Codes, Tensor]:
    """Codes uint8 ``[out, in]`` (the low bits of two's complement numbers, e4m3 or e2m1), scales ``[blocks, groups]``.

    A weight that is not finite makes the scale of its group not finite, and so all weights that share it.

    Raises BadModel when a weight is too large for the type of scales.
    """
    outputs, inputs = weights.shape
    blocks, height = -(-outputs // coding.block), coding.block
    groups, width = coding.groups(inputs), coding.group or inputs
    padded = np.zeros((blocks * height, groups * width), np.float32)
    padded[:outputs, :inputs] = weights
    whole = padded.reshape(blocks, height, groups, width)
    top = np.abs(whole).max(axis=(1, 3))
    scale: Tensor
    if coding.scale_view == "raw":
        scale, factor = _powers(top, coding.largest)
    else:
        scale = _rounded_up(top / np.float32(coding.largest), scale_type)
        factor = scale.astype(np.float32)
        if not np.isfinite(factor)[np.isfinite(top)].all():
            raise too_large(name, float(top[np.isfinite(top)].max()), scale_type)
    finite = np.isfinite(factor)
    divisor = np.where(finite & (top > 0), factor, np.float32(1))[:, None, :, None]
    ratio = np.divide(np.where(finite[:, None, :, None], whole, np.float32(0)), divisor, dtype=np.float32)
    return _nearest(ratio, coding).reshape(blocks * height, -1)[:outputs, :inputs], scale


def _powers(top: F32, largest: int) -> tuple[Codes, F32]:
    """Return the e8m0 scales of groups by their largest magnitudes, and the powers of two that they stand for.

    OCP Microscaling Formats 1.0, section 6.3: the largest power of two that is not above the magnitude over that of the
    largest code. What is then beyond the largest code becomes that.
    """
    is_finite = np.isfinite(top)
    exponent = np.frexp(np.where(is_finite, top, np.float32(1)))[1] - np.frexp(np.float32(largest))[1]
    exponent = np.where(top > 0, np.clip(exponent, -E8M0_BIAS, E8M0_BIAS), -E8M0_BIAS)
    scale = np.where(is_finite, exponent + E8M0_BIAS, E8M0_NAN).astype(np.uint8)
    return scale, np.where(is_finite, np.ldexp(np.float32(1), exponent), np.float32(np.nan)).astype(np.float32)


def _rounded_up(values: F32, scale_type: np.dtype[Any]) -> Tensor:
    """Return the smallest numbers of a type that are not below ``values``."""
    with np.errstate(over="ignore"):
        near = values.astype(scale_type)
    up = np.nextafter(near, np.array(np.inf, scale_type))
    return np.asarray(np.where(near.astype(np.float32) < values, up, near))


def _nearest(ratio: F32, coding: Coding) -> Codes:
    if coding.name == MXFP4:
        return ratio.astype(ml_dtypes.float4_e2m1fn).view(np.uint8)
    if coding.name in (FP8, FP8_BLOCKS):
        return ratio.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    whole = np.rint(ratio).astype(np.int8).view(np.uint8)
    return whole & np.uint8((1 << coding.bits) - 1)
