"""Quantisation of weights to codes and scales while they are stored, unless a checkpoint has them.

Quantisation is symmetric, to nearest, ties to even. The scale is max|w| divided by the largest
code, over the weights that share it. The scale is rounded up to its type, so that no code exceeds
the largest. A code is w / scale. The codes of fp8 are the nearest e4m3 numbers. The codes of mxfp4
are the nearest e2m1 numbers, with a power of two as the scale. Codes that a checkpoint already has
in the requested type are stored bit for bit. For sources see `wse.number_formats`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt

from wse.arrays import F32
from wse.backends.execute.host_memory.arena import number_type
from wse.backends.execute.weight_storage.tiles import Source, Tensor, decoded_values, is_read_whole
from wse.errors import BadModel, WseBug
from wse.models.spec import ModelSpec
from wse.models.tensors.checkpoint import TensorRows
from wse.models.tensors.model_tensors import coding_of
from wse.number_formats import (
    E8M0_BIAS,
    E8M0_NAN,
    FP8,
    FP8_BLOCKS,
    GROUP_NUMBERS,
    MAX_GROUPS,
    MXFP4,
    Coding,
    codes_name,
    scales_name,
)
from wse.program.program import Program
from wse_mappings.rounding import ceil_div


class CheckpointCodes:
    """Codes or scales of a quantised tensor that is already quantised in the checkpoint.

    Several neighbouring outputs of the tensor may share a scale. The checkpoint then has one row of
    scales per output, with equal rows for such outputs; this class returns each of these rows only
    once.

    Args:
        name: Name of the codes or scales, for error messages.
        source: The codes ``[out, in]``, or the scales ``[out, groups]``, one row per output.
        coding: Storage format of the codes, such as int8 with one scale per output.
        part: 0 to read codes; 1 to read scales, which are returned as ``[blocks of outputs,
            groups]``.
        activations: Element type of activations. NaN, and scales that are infinite in this type,
            are refused. None to skip the check.
    """

    def __init__(self, name: str, source: Source, coding: Coding, part: int, activations: str | None) -> None:
        self._name, self._source, self._coding, self._part = name, source, coding, part
        self._outputs = coding.block if part else 1  # rows of the source per row of this tensor
        self._activations = activations
        self.shape: tuple[int, ...] = (ceil_div(source.shape[0], self._outputs), source.shape[1])

    @property
    def is_read_whole(self) -> bool:
        """True if the whole source must be decoded to read any of its rows."""
        return is_read_whole(self._source)

    def decoded_values(self, first: int, last: int) -> int:
        """Return how many values of the source must be decoded to read some rows.

        Args:
            first, last: First row to read and one past the last row.
        """
        return decoded_values(self._source, first * self._outputs, min(last * self._outputs, self._source.shape[0]))

    def __getitem__(self, rows: slice, /) -> Tensor:
        first, last, _ = rows.indices(self.shape[0])
        values = self._source[first * self._outputs : last * self._outputs]
        block_values = values[:: self._outputs]
        if not np.array_equal(np.repeat(block_values, self._outputs, axis=0)[: len(values)], values, equal_nan=True):
            raise WseBug(f"{self._name}: {self._outputs} neighbouring outputs have several scales")
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
            raise BadModel(
                f"{self._name}: {int(is_nan.sum()):,} of {values.size:,} values read are not finite numbers; "
                "fetch or convert the weights again, or use --allow-nonfinite"
            )

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
        largest_value: Largest value of the tensor, or its largest scale if scales are stored.
        scale_type: Element type in which the scale overflows.
    """
    message = (
        f"{name}: contains {largest_value:.3g}, too large for a scale of {scale_type.name}; use --activations float32"
    )
    return BadModel(message)


Codes = npt.NDArray[np.uint8]

VALUES_AT_ONCE: Final = 1 << 18
"""Number of weights that are quantised at a time, which limits the memory that is needed."""

Read = Callable[[str, Source, tuple[int, int]], Tensor]
"""Function that reads rows of a tensor as float32 and refuses values that are not numbers.

The arguments are the name, the tensor, and the first and one past the last row.
"""


def with_codes(
    program: Program, spec: ModelSpec, tensor: Callable[[str], Source], read: Read, *, allow_nonfinite: bool
) -> Callable[[str], Source]:
    """Extend ``tensor``, a function that returns tensors by name, by codes and scales.

    A quantised matrix is stored as codes and scales, which have their own names. They are computed
    from the matrix that ``tensor`` returns. If the checkpoint already stores the matrix in the
    requested format, its codes and scales are used bit for bit.

    Args:
        program: The Program, for the types of weights and activations.
        spec: Description of the model.
        tensor: Function that returns the tensor with a given name.
        read: Function that reads rows of a tensor.
        allow_nonfinite: Whether weights may contain infinity and NaN.

    Returns:
        A function that also returns codes and scales, given their names.
    """
    weight_type, activations = program.weight_type, program.element_type("act")

    def coded_tensor(name: str) -> Source:
        """Return the tensor with a given name, or the codes or scales of a quantised tensor."""
        if name == GROUP_NUMBERS:
            return np.arange(MAX_GROUPS, dtype=np.uint8)
        weights_name = name.rpartition(".")[0]
        stored_names = [codes_name(weights_name), scales_name(weights_name)]
        if name not in stored_names:
            return tensor(name)
        source, part = tensor(weights_name), stored_names.index(name)
        coding = coding_of(spec, weights_name, weight_type)
        assert coding is not None
        checkpoint_codes = source.codes_and_scales if isinstance(source, TensorRows) else None
        if checkpoint_codes is not None and weight_type == spec.packing.method:
            return CheckpointCodes(name, checkpoint_codes[part], coding, part, None if allow_nonfinite else activations)
        return _Part(weights_name, source, coding, number_type(program.element_type(coding.scale_view)), read, part)

    return coded_tensor


class _Part:
    """Codes or scales of a tensor whose weights are quantised on demand, when rows are read.

    The class is used for tensors that the checkpoint does not already store in the requested
    format.
    """

    def __init__(
        self, name: str, source: Source, coding: Coding, scale_type: np.dtype[Any], read: Read, part: int
    ) -> None:
        self._name, self._source, self._coding, self._scale_type = name, source, coding, scale_type
        self._read, self._part = read, part
        outputs, inputs = source.shape
        self.shape: tuple[int, ...] = (
            (outputs, inputs) if part == 0 else (ceil_div(outputs, coding.block), coding.groups(inputs))
        )

        self._unit = coding.block if part else 1  # rows of the source per row of this tensor
        self._step = coding.block * max(1, VALUES_AT_ONCE // max(1, coding.block * inputs))  # whole blocks

    @property
    def is_read_whole(self) -> bool:
        """True if the whole source must be decoded to read any of its rows."""
        return is_read_whole(self._source)

    def decoded_values(self, first: int, last: int) -> int:
        """Return the maximum number of source values in memory at once while some rows are read.

        Args:
            first, last: First row to read and one past the last row.
        """
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
            row_range = slice(max(first, at), min(last, at + len(part)))
            result[row_range.start - first : row_range.stop - first] = part[row_range.start - at : row_range.stop - at]
        return result


def quantise(name: str, weights: F32, coding: Coding, scale_type: np.dtype[Any]) -> tuple[Codes, Tensor]:
    """Quantise a matrix, and return its codes and scales.

    Weights that share a scale form a group. If a weight is not finite, the scale of its group is
    not finite either, which affects all weights of the group.

    Args:
        name: Name of the tensor, for error messages.
        weights: float32 ``[out, in]``.
        coding: Storage format: bits per code, and which weights share a scale.
        scale_type: Element type of the scales.

    Returns:
        Codes uint8 ``[out, in]`` (the low bits of two's complement numbers, or e4m3 or e2m1
        numbers), and scales ``[blocks of outputs, groups of inputs]``.

    Raises:
        BadModel: A weight is too large for the type of the scales.
    """
    outputs, inputs = weights.shape
    blocks, height = ceil_div(outputs, coding.block), coding.block
    groups, width = coding.groups(inputs), coding.group or inputs
    padded = np.zeros((blocks * height, groups * width), np.float32)
    padded[:outputs, :inputs] = weights
    by_group = padded.reshape(blocks, height, groups, width)
    top = np.abs(by_group).max(axis=(1, 3))
    scale: Tensor
    if coding.scale_view == "raw":
        scale, factor = _powers(top, coding.largest_code)
    else:
        scale = _rounded_up(top / np.float32(coding.largest_code), scale_type)
        factor = scale.astype(np.float32)
        if not np.isfinite(factor)[np.isfinite(top)].all():
            raise too_large(name, float(top[np.isfinite(top)].max()), scale_type)
    finite = np.isfinite(factor)
    divisor = np.where(finite & (top > 0), factor, np.float32(1))[:, None, :, None]
    ratio = np.divide(np.where(finite[:, None, :, None], by_group, np.float32(0)), divisor, dtype=np.float32)
    return _nearest_codes(ratio, coding).reshape(blocks * height, -1)[:outputs, :inputs], scale


def _powers(top: F32, largest_code: int) -> tuple[Codes, F32]:
    """Return a power-of-two scale for each group of weights, as e8m0 and as float32.

    scale = p(max|w|) / p(largest_code), where p(x) is the largest power of two that is at most x
    (OCP Microscaling Formats 1.0, section 6.3). A quotient w / scale beyond the largest code is
    clamped to that code.

    Args:
        top: Largest magnitude of each group, max|w|.
        largest_code: Largest number that a code can represent.
    """
    is_finite = np.isfinite(top)
    exponent = np.frexp(np.where(is_finite, top, np.float32(1)))[1] - np.frexp(np.float32(largest_code))[1]
    exponent = np.where(top > 0, np.clip(exponent, -E8M0_BIAS, E8M0_BIAS), -E8M0_BIAS)
    scale = np.where(is_finite, exponent + E8M0_BIAS, E8M0_NAN).astype(np.uint8)
    return scale, np.where(is_finite, np.ldexp(np.float32(1), exponent), np.float32(np.nan)).astype(np.float32)


def _rounded_up(values: F32, scale_type: np.dtype[Any]) -> Tensor:
    """Round values up to a number type: return the smallest numbers that are at least as large.

    Args:
        values: The values.
        scale_type: Element type of the result.
    """
    with np.errstate(over="ignore"):
        near = values.astype(scale_type)
    up = np.nextafter(near, np.array(np.inf, scale_type))
    return np.asarray(np.where(near.astype(np.float32) < values, up, near))


def _nearest_codes(ratio: F32, coding: Coding) -> Codes:
    """Return the codes nearest to weights that were divided by their scales."""
    if coding.name == MXFP4:
        return ratio.astype(ml_dtypes.float4_e2m1fn).view(np.uint8)
    if coding.name in (FP8, FP8_BLOCKS):
        return ratio.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    integers = np.rint(ratio).astype(np.int8).view(np.uint8)
    return integers & np.uint8((1 << coding.bits) - 1)
