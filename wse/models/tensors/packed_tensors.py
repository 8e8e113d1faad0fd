"""Packed matrices of a checkpoint, 8-bit and 4-bit floating-point numbers with scales, as the families see them.

Numbers and scales come together under the plain name, decoded to float32 without rounding.

F8_E4M3 with block scales: matrix [out, in], and a float32 scale for each block of it; blocks at the edges are cut off.
The product with the scale is rounded to float32 once.

MXFP4 (OCP Microscaling Formats 1.0): 32 numbers e2m1 share one scale 2 ** (e - 127), e a byte; 255 is not a number.
gpt-oss packs ``blocks`` [experts, out, groups, 16] and ``scales`` [experts, out, groups] uint8, the low half of a byte
first, and its matrices [experts, in, out] are that with the axes swapped.
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
from wse.models.tensors.tensor_entry import Stretch, TensorEntry
from wse.number_formats import E8M0_BIAS, E8M0_NAN, FP8, INT4, MXFP4

U8 = NDArray[np.uint8]
F32 = NDArray[np.float32]

E4M3: Final[F32] = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32)
"""The value of every byte."""

E2M1: Final = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
SIGNED_E2M1: Final = np.array([*E2M1, *(-value for value in E2M1)], np.float32)
_PAIRS: Final[F32] = np.stack([np.tile(SIGNED_E2M1, 16), np.repeat(SIGNED_E2M1, 16)], axis=1)
"""The two values of every byte, [256, 2]."""

GROUP: Final = 32


def decode_fp8(numbers: U8, scales: F32, block: tuple[int, int], rows: Stretch) -> F32:
    """Return the rows ``[rows, in]`` of a matrix from fp8 ``numbers [out, in]`` and ``scales [out / block, in /
    block]``.
    """
    decoded: F32 = E4M3[numbers[rows]]
    of_rows = scales[np.arange(numbers.shape[0])[rows] // block[0]]
    for index in range(scales.shape[1]):
        decoded[:, index * block[1] : (index + 1) * block[1]] *= of_rows[:, index, None]
    return decoded


def codes_of_mxfp4(blocks: U8, rows: Stretch) -> U8:
    """Return the codes ``[experts, groups x 32, out]`` of the experts ``rows``, one byte each."""
    packed = blocks[rows]
    experts, out = packed.shape[:2]
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(experts, out, -1).swapaxes(1, 2)


def decode_e8m0(exponents: U8) -> F32:
    """Return the scales ``2 ** (e - 127)`` of bytes e; 255 is not a number."""
    powers = exponents.astype(np.int32) - E8M0_BIAS
    return np.where(exponents == E8M0_NAN, np.nan, np.ldexp(1.0, powers)).astype(np.float32)


def decode_mxfp4(blocks: U8, scales: U8, rows: Stretch) -> F32:
    """Return the values ``[experts, groups x 32, out]`` of the experts ``rows``, a view with swapped axes."""
    decoded: F32 = _PAIRS[blocks[rows]]  # [experts, out, groups, 16, 2]
    factors = decode_e8m0(scales[rows])
    decoded *= factors[..., None, None]
    experts, out, groups = factors.shape
    return decoded.reshape(experts, out, groups * GROUP).swapaxes(1, 2)


FP8_SCALES: Final = ".weight_scale_inv"
BLOCKS, SCALES = "_blocks", "_scales"
FETCH_AGAIN: Final = "fetch the weights again, or use the config.json that belongs to them"


def unpack(entries: Mapping[str, TensorEntry], packing: Packing) -> dict[str, TensorEntry]:
    """Return the tensors of a file with one entry of decoded values for each packed matrix.

    Raises:
        BadModel: scales without numbers or the other way round, or of sizes that do not belong together; or a packing
            that can be timed alone.
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
        msg = (
            f"{path}: weights of compressed-tensors cannot be read; time the model from {path.parent / 'config.json'}, "
            "or fetch weights in bfloat16, FP8 or MXFP4"
        )
        raise BadModel(msg)
    return result


def _fp8(name: str, scales: TensorEntry, entries: Mapping[str, TensorEntry], packing: Packing) -> TensorEntry:
    numbers = entries.get(name)
    if numbers is None:
        raise _without_numbers(scales, name)
    scale_shape = tuple(-(-size // block) for size, block in zip(numbers.shape, packing.block, strict=False))
    if numbers.kind != "F8_E4M3" or len(numbers.shape) != 2 or scales.kind != "F32" or scales.shape != scale_shape:
        msg = (
            f"{numbers.path}: tensor {name!r} is {numbers.kind} {list(numbers.shape)} with scales {scales.kind} "
            f"{list(scales.shape)}; blocks of {packing.block[0]} x {packing.block[1]} ask for F8_E4M3 [out, in] and "
            f"F32 {list(scale_shape)}: {FETCH_AGAIN}"
        )
        raise BadModel(msg)
    codes, of_blocks = numbers.array().view(np.uint8), scales.array()
    block_of_row = np.arange(numbers.shape[0]) // packing.block[0]
    return TensorEntry(
        name=name,
        kind="FP8",
        shape=numbers.shape,
        stored_bytes=numbers.stored_bytes + scales.stored_bytes,
        file=numbers.file,
        rows=partial(decode_fp8, codes, of_blocks, packing.block),
        codes=replace(numbers, rows=lambda rows: codes[rows]),
        scales=replace(
            scales,
            shape=(numbers.shape[0], scales.shape[1]),
            rows=lambda rows: of_blocks[block_of_row[rows]],
        ),
    )


def _mxfp4(name: str, scales: TensorEntry, blocks: TensorEntry | None) -> TensorEntry:
    if blocks is None:
        raise _without_numbers(scales, name + BLOCKS)
    fits = len(blocks.shape) == 4 and blocks.shape == (*scales.shape, GROUP // 2)
    if not fits or (blocks.kind, scales.kind) != ("U8", "U8"):
        msg = (
            f"{blocks.path}: tensor {blocks.name!r} is {blocks.kind} {list(blocks.shape)} with scales {scales.kind} "
            f"{list(scales.shape)}; MXFP4 asks for U8 [experts, out, groups, {GROUP // 2}] and "
            f"U8 [experts, out, groups]: {FETCH_AGAIN}"
        )
        raise BadModel(msg)
    experts, out, groups = scales.shape
    shape = (experts, groups * GROUP, out)
    numbers, exponents = blocks.array(), scales.array()
    return TensorEntry(
        name=name,
        kind="MXFP4",
        shape=shape,
        stored_bytes=blocks.stored_bytes + scales.stored_bytes,
        file=blocks.file,
        rows=partial(decode_mxfp4, numbers, exponents),
        codes=replace(blocks, shape=shape, rows=partial(codes_of_mxfp4, numbers)),
        scales=replace(scales, shape=(experts, groups, out), rows=lambda rows: exponents[rows].swapaxes(1, 2)),
    )


def _without_numbers(scales: TensorEntry, wanted: str) -> BadModel:
    return BadModel(f"{scales.path}: tensor {scales.name!r} has no {wanted!r} to scale; {FETCH_AGAIN}")
