"""Slow reference implementation of weight quantisation, and bit flips in emulated SRAM."""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from tiny_model import tensors

from wse.backends.execute.engine import Engine
from wse.backends.execute.host_memory.arena import Arena
from wse.models.spec import ModelSpec
from wse.number_formats import ELEMENT_BYTES
from wse.program.stage import Buffer

Array = npt.NDArray[Any]

GROUP = {"int8": None, "fp8": None, "int4": 32, "mxfp4": 32}
LARGEST = {"int8": 127, "fp8": 448, "int4": 7}
E2M1 = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
LINEAR = ("q", "k", "v", "o", "gate", "up", "down", "q_a", "q_nope", "q_rope", "kv_a", "k_rope")


def dequantised(weights: Array, coding: str, scale_type: np.dtype[Any]) -> npt.NDArray[np.float32]:
    """Quantise and dequantise weights ``[out, in]``; return float32 of the same shape.

    Each group of a row has the smallest scale of its type with which all codes are in range, and the nearest codes.
    For mxfp4 the scale is the power of two at which the largest power of two in the group becomes 4.

    Args:
        weights: Matrix ``[out, in]``.
        coding: One of the keys of `GROUP`.
        scale_type: Number format of the scales; not used for mxfp4.
    """
    out = np.zeros(weights.shape, np.float32)
    width = GROUP[coding] or weights.shape[1]
    for row, first in np.ndindex(weights.shape[0], -(-weights.shape[1] // width)):
        part = slice(first * width, (first + 1) * width)
        group = weights[row, part].astype(np.float32)
        if coding == "mxfp4":
            out[row, part] = _microscaled(group)
            continue
        exact_scale = np.abs(group).max() / np.float32(LARGEST[coding])
        scale = exact_scale.astype(scale_type)
        if np.float32(scale) < exact_scale:
            scale = np.nextafter(scale, scale_type.type(np.inf))
        if exact_scale > 0:
            ratio = group / np.float32(scale)
            codes = ratio.astype(ml_dtypes.float8_e4m3fn) if coding == "fp8" else np.rint(ratio)
            out[row, part] = codes.astype(np.float32) * np.float32(scale)
    return out


def _microscaled(group: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Return the group in mxfp4: nearest e2m1 numbers times a power of two; ties go to the even mantissa."""
    top = float(np.abs(group).max())
    if top == 0:
        return np.zeros(len(group))
    scale = 2.0 ** max(math.floor(math.log2(top)) - 2, -127)
    distance = np.abs(np.abs(group.astype(np.float64))[:, None] / scale - E2M1)
    nearest = distance == distance.min(axis=1, keepdims=True)
    near = np.where(nearest, [2, 1] * 4, 0).argmax(axis=1)  # even codes before odd ones
    return np.copysign(E2M1[near] * scale, group)


def dequantised_tensors(spec: ModelSpec, coding: str, scale_type: Any = np.float32) -> Callable[[str], Array]:
    """Return a function from names to the random tensors of a model, with those of linear layers dequantised."""
    exact_tensors = tensors(spec)

    @cache
    def tensor(name: str) -> Array:
        is_linear = name.startswith("layers.") and name.split(".")[-1] in LINEAR
        return dequantised(exact_tensors[name], coding, np.dtype(scale_type)) if is_linear else exact_tensors[name]

    return tensor


def flip_bit(engine: Engine, buffer: Buffer) -> Engine:
    """Flip a bit in the upper byte of a buffer's first element on PE (0, 0), and return the engine."""
    arena, size = engine.arenas[0], ELEMENT_BYTES[buffer.element]
    arena.memory[byte_offset(arena, 0, 0, buffer.address + size - 1, size)] ^= 0x01
    return engine


def byte_offset(arena: Arena, row: int, col: int, byte: int, element_bytes: int) -> int:
    """Return the index in an arena's memory of byte address ``byte`` in the SRAM of PE (row, col).

    Args:
        arena: The memory of a region.
        row, col: Position of the PE in the region.
        byte: Byte address.
        element_bytes: Size of the elements at this address, in bytes.
    """
    block = row * arena.blocks_per_row + col // arena.lanes
    element, byte_in_element = divmod(byte - arena.base_byte, element_bytes)
    index = (block * (arena.bytes_per_pe // element_bytes) + element) * arena.lanes + col % arena.lanes
    return index * element_bytes + byte_in_element
