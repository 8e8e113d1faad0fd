"""Packed matrices of a checkpoint as the families see them: numbers and scales together, under the plain name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import numpy as np

from wse.errors import BadModel
from wse.models.tensors.microscaling import GROUP, decode_fp8, decode_mxfp4
from wse.models.tensors.packing import Packing
from wse.models.tensors.tensor_entry import TensorEntry

FP8_SCALES: Final = ".weight_scale_inv"
BLOCKS, SCALES = "_blocks", "_scales"
FETCH_AGAIN: Final = "fetch the weights again, or use the config.json that belongs to them"


def unpacked(entries: Mapping[str, TensorEntry], packing: Packing) -> dict[str, TensorEntry]:
    """The tensors of a file, with one entry of decoded values for each packed matrix.

    Raises:
        BadModel: scales without numbers or the other way round, or of sizes that do not belong together.
    """
    result = dict(entries)
    if packing.method == "fp8":
        for name in [name for name in entries if name.endswith(FP8_SCALES)]:
            plain = name.removesuffix("_scale_inv")
            result[plain] = _fp8(plain, result.pop(name), entries, packing)
    elif packing.method == "mxfp4":
        for name in [name for name in entries if name.endswith(SCALES)]:
            plain = name.removesuffix(SCALES)
            result[plain] = _mxfp4(plain, result.pop(name), result.pop(plain + BLOCKS, None))
    return result


def _fp8(name: str, scales: TensorEntry, entries: Mapping[str, TensorEntry], packing: Packing) -> TensorEntry:
    numbers = entries.get(name)
    if numbers is None:
        raise _alone(scales, name)
    wanted = tuple(-(-size // block) for size, block in zip(numbers.shape, packing.block, strict=False))
    if numbers.kind != "F8_E4M3" or len(numbers.shape) != 2 or scales.kind != "F32" or scales.shape != wanted:
        msg = (
            f"{numbers.path}: tensor {name!r} is {numbers.kind} {list(numbers.shape)} with scales {scales.kind} "
            f"{list(scales.shape)}; blocks of {packing.block[0]} x {packing.block[1]} ask for F8_E4M3 [out, in] and "
            f"F32 {list(wanted)}: {FETCH_AGAIN}"
        )
        raise BadModel(msg)
    return TensorEntry(
        name=name,
        kind="FP8",
        shape=numbers.shape,
        stored_bytes=numbers.stored_bytes + scales.stored_bytes,
        file=numbers.file,
        rows=partial(decode_fp8, numbers.array().view(np.uint8), scales.array(), packing.block),
    )


def _mxfp4(name: str, scales: TensorEntry, blocks: TensorEntry | None) -> TensorEntry:
    if blocks is None:
        raise _alone(scales, name + BLOCKS)
    fits = len(blocks.shape) == 4 and blocks.shape == (*scales.shape, GROUP // 2)
    if not fits or (blocks.kind, scales.kind) != ("U8", "U8"):
        msg = (
            f"{blocks.path}: tensor {blocks.name!r} is {blocks.kind} {list(blocks.shape)} with scales {scales.kind} "
            f"{list(scales.shape)}; MXFP4 asks for U8 [experts, out, groups, {GROUP // 2}] and "
            f"U8 [experts, out, groups]: {FETCH_AGAIN}"
        )
        raise BadModel(msg)
    experts, out, groups = scales.shape
    return TensorEntry(
        name=name,
        kind="MXFP4",
        shape=(experts, groups * GROUP, out),
        stored_bytes=blocks.stored_bytes + scales.stored_bytes,
        file=blocks.file,
        rows=partial(decode_mxfp4, blocks.array(), scales.array()),
    )


def _alone(scales: TensorEntry, wanted: str) -> BadModel:
    return BadModel(f"{scales.path}: tensor {scales.name!r} has no {wanted!r} to scale; {FETCH_AGAIN}")
