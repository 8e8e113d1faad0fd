"""Decode a checkpoint's packed matrices: FP8 and MXFP4 numbers with scales.

Codes and scales become one tensor under the plain name. The tensor is decoded to float32 without
rounding, except for FP8 (see below).

FP8: a matrix [out, in] of F8_E4M3 and a float32 scale for each block of it. Blocks at the edges may
be smaller. The product with the scale is rounded to float32 once.

MXFP4 (OCP Microscaling Formats 1.0): 32 numbers in e2m1 share a scale 2 ** (e - 127), where e is a
byte. The byte 255 means not a number. gpt-oss stores ``blocks`` [experts, out, groups, 16] and
``scales`` [experts, out, groups] as uint8, with the first number in the low half of a byte. Its
matrices [experts, in, out] have the last two axes swapped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from wse.errors import BadModel
from wse.models.spec import Packing
from wse.models.tensors.tensor_entry import RowSelection, TensorEntry
from wse.number_formats import E8M0_BIAS, E8M0_NAN, FP8, INT4, MXFP4
from wse_mappings.rounding import ceil_div

U8 = NDArray[np.uint8]
F32 = NDArray[np.float32]

E4M3: Final[F32] = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32)
"""float32 value of each e4m3 byte."""

E2M1: Final = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
SIGNED_E2M1: Final = np.array([*E2M1, *(-value for value in E2M1)], np.float32)
_PAIRS: Final[F32] = np.stack([np.tile(SIGNED_E2M1, 16), np.repeat(SIGNED_E2M1, 16)], axis=1)
"""float32 values [256, 2] of the two e2m1 numbers in each byte."""

GROUP: Final = 32


def decode_fp8(codes: U8, scales: F32, block: tuple[int, int], rows: RowSelection) -> F32:
    """Return selected rows of an FP8 matrix as float32 [rows, in].

    Args:
        codes: e4m3 codes [out, in], one byte each.
        scales: float32 [out / block[0], in / block[1]], both sizes rounded up.
        block: Numbers of outputs and inputs that share a scale.
        rows: Selected outputs.
    """
    decoded: F32 = E4M3[codes[rows]]
    row_scales = scales[np.arange(codes.shape[0])[rows] // block[0]]
    for index in range(scales.shape[1]):
        decoded[:, index * block[1] : (index + 1) * block[1]] *= row_scales[:, index, None]
    return decoded


def codes_of_mxfp4(blocks: U8, rows: RowSelection) -> U8:
    """Unpack the 4-bit MXFP4 codes of experts to one byte each: uint8 [experts, groups x 32, out].

    Args:
        blocks: uint8 [experts, out, groups, 16], two codes per byte.
        rows: Selected experts.
    """
    packed_codes = blocks[rows]
    experts, out = packed_codes.shape[:2]
    return np.stack([packed_codes & 15, packed_codes >> 4], axis=-1).reshape(experts, out, -1).swapaxes(1, 2)


def decode_e8m0(exponents: U8) -> F32:
    """Return the scale ``2 ** (e - 127)`` for each exponent byte e, in float32; NaN for 255."""
    powers = exponents.astype(np.int32) - E8M0_BIAS
    return np.where(exponents == E8M0_NAN, np.nan, np.ldexp(1.0, powers)).astype(np.float32)


def decode_mxfp4(blocks: U8, scales: U8, rows: RowSelection) -> F32:
    """Decode the MXFP4 matrices of experts to float32 [experts, groups x 32, out].

    The result is a view with swapped axes.

    Args:
        blocks: uint8 [experts, out, groups, 16], two e2m1 codes per byte.
        scales: uint8 [experts, out, groups], exponents in e8m0.
        rows: Selected experts.
    """
    decoded: F32 = _PAIRS[blocks[rows]]  # [experts, out, groups, 16, 2]
    factors = decode_e8m0(scales[rows])
    decoded *= factors[..., None, None]
    experts, out, groups = factors.shape
    return decoded.reshape(experts, out, groups * GROUP).swapaxes(1, 2)


FP8_SCALES: Final = ".weight_scale_inv"
BLOCKS, SCALES = "_blocks", "_scales"
FETCH_AGAIN: Final = "fetch the weights again, or use the config.json that belongs to them"


def unpack(entries: Mapping[str, TensorEntry], packing: Packing) -> dict[str, TensorEntry]:
    """Return the tensors of a checkpoint, with each packed matrix replaced by one decoded tensor.

    A packed matrix is stored as two tensors, its codes and its scales.

    Args:
        entries: Tensors of the files, keyed by name.
        packing: Storage format of packed matrices.

    Raises:
        BadModel: Codes or scales are missing or have the wrong size, or the format is int4, which
            can be timed but not read.
    """
    result = dict(entries)
    if packing.method == FP8:
        for name in [name for name in entries if name.endswith(FP8_SCALES)]:
            plain = name.removesuffix("_scale_inv")
            result[plain] = _fp8(plain, result.pop(name), entries, packing)
    elif packing.method == MXFP4:
        for name in [name for name in entries if name.endswith(SCALES)]:
            plain = name.removesuffix(SCALES)
            result[plain] = _mxfp4(plain, result.pop(name), result.pop(plain + BLOCKS, None))
    elif packing.method == INT4 and entries:
        path = next(iter(entries.values())).path
        raise BadModel(
            f"{path}: weights of compressed-tensors cannot be read; time the model from {path.parent / 'config.json'}, "
            "or fetch weights in bfloat16, FP8 or MXFP4"
        )
    return result


def _fp8(name: str, scales: TensorEntry, entries: Mapping[str, TensorEntry], packing: Packing) -> TensorEntry:
    """Return a tensor that decodes an FP8 matrix with its scales.

    Args:
        name: Name of the matrix in the file.
        scales: Scales of the matrix.
        entries: Tensors of the files, keyed by name.
        packing: Storage format, including the block size.

    Raises:
        BadModel: The matrix is missing, or types or shapes do not match.
    """
    matrix = entries.get(name)
    if matrix is None:
        raise _missing_codes(scales, name)
    scale_shape = tuple(ceil_div(size, block) for size, block in zip(matrix.shape, packing.block, strict=False))
    if matrix.kind != "F8_E4M3" or len(matrix.shape) != 2 or scales.kind != "F32" or scales.shape != scale_shape:
        raise BadModel(
            f"{matrix.path}: tensor {name!r} is {matrix.kind} {list(matrix.shape)} with scales {scales.kind} "
            f"{list(scales.shape)}; blocks of {packing.block[0]} x {packing.block[1]} require F8_E4M3 [out, in] and "
            f"F32 {list(scale_shape)}: {FETCH_AGAIN}"
        )
    codes, block_scales = matrix.array().view(np.uint8), scales.array()
    block_of_row = np.arange(matrix.shape[0]) // packing.block[0]
    return TensorEntry(
        name=name,
        kind="FP8",
        shape=matrix.shape,
        stored_bytes=matrix.stored_bytes + scales.stored_bytes,
        file=matrix.file,
        rows=partial(decode_fp8, codes, block_scales, packing.block),
        codes=replace(matrix, rows=lambda rows: codes[rows]),
        scales=replace(
            scales, shape=(matrix.shape[0], scales.shape[1]), rows=lambda rows: block_scales[block_of_row[rows]]
        ),
    )


def _mxfp4(name: str, scales: TensorEntry, blocks: TensorEntry | None) -> TensorEntry:
    """Return a tensor that decodes an MXFP4 matrix from its codes and scales.

    Args:
        name: Name of the matrix without suffix.
        scales: Scales of the matrix.
        blocks: Codes of the matrix; None if they are missing.

    Raises:
        BadModel: The codes are missing, or types or shapes do not match.
    """
    if blocks is None:
        raise _missing_codes(scales, name + BLOCKS)
    fits = len(blocks.shape) == 4 and blocks.shape == (*scales.shape, GROUP // 2)
    if not fits or (blocks.kind, scales.kind) != ("U8", "U8"):
        raise BadModel(
            f"{blocks.path}: tensor {blocks.name!r} is {blocks.kind} {list(blocks.shape)} with scales {scales.kind} "
            f"{list(scales.shape)}; MXFP4 requires U8 [experts, out, groups, {GROUP // 2}] and "
            f"U8 [experts, out, groups]: {FETCH_AGAIN}"
        )
    experts, out, groups = scales.shape
    shape = (experts, groups * GROUP, out)
    codes, exponents = blocks.array(), scales.array()
    return TensorEntry(
        name=name,
        kind="MXFP4",
        shape=shape,
        stored_bytes=blocks.stored_bytes + scales.stored_bytes,
        file=blocks.file,
        rows=partial(decode_mxfp4, codes, exponents),
        codes=replace(blocks, shape=shape, rows=partial(codes_of_mxfp4, codes)),
        scales=replace(scales, shape=(experts, groups, out), rows=lambda rows: exponents[rows].swapaxes(1, 2)),
    )


def _missing_codes(scales: TensorEntry, missing_name: str) -> BadModel:
    """Build the error for a file that has the scales of a packed matrix but not its codes.

    Args:
        scales: Scales of the matrix.
        missing_name: Name of the tensor with the codes.
    """
    return BadModel(f"{scales.path}: tensor {scales.name!r} has no {missing_name!r} to scale; {FETCH_AGAIN}")
