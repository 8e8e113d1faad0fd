"""A checkpoint's tensors cut into tiles and stored in the PEs' SRAM, one mesh row at a time."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from wse.errors import BadModel
from wse.execute.arena import Arena
from wse.models.spec import ModelSpec
from wse.program import I32, ORDINALS, ROWS, SKEWED, Program, TilePart
from wse_mappings.ring import skew

Tensor = npt.NDArray[np.generic]
LARGEST_HALF = 65504


def store_weights(program: Program, spec: ModelSpec, tensor: Callable[[str], Tensor], arenas: list[Arena]) -> None:
    """Fill every tile of every stage. ``tensor`` gives a canonical tensor ``[out, in]`` in the file's type.

    Raises BadModel when a value is not finite, or is beyond float16 and that is the element type.
    """
    made = {} if spec.rope is None else {"rotary_frequencies": np.array(spec.rope.frequencies, np.float32)}
    made[ORDINALS] = np.arange(1, 1 + max(spec.head_count, spec.head_size), dtype=np.float32)
    for tile in program.tiles:
        arena = arenas[tile.stage]
        element_type = program.element_type(tile.view)
        values = [np.asarray(made[p.tensor] if p.tensor in made else tensor(p.tensor)) for p in tile.parts]
        for row in range(arena.rows):
            shares = [_share(part, value, row, arena.cols) for part, value in zip(tile.parts, values, strict=True)]
            whole = shares[0] if len(shares) == 1 else np.concatenate(shares, axis=2)
            largest = float(np.abs(whole).max(initial=0))
            if not math.isfinite(largest):
                message = f"{tile.name}: holds values that are not finite numbers; fetch or convert the weights again"
                raise BadModel(message)
            if element_type == "float16" and largest > LARGEST_HALF:
                message = (
                    f"{tile.name}: holds {largest:.3g}, more than float16's {LARGEST_HALF:,}; "
                    "use --dtype bfloat16 or float32"
                )
                raise BadModel(message)
            arena.write_row(element_type, row, tile.address, whole.reshape(arena.cols, -1))


def _share(part: TilePart, tensor: Tensor, row: int, cols: int) -> Tensor:
    """``[cols, outer, inner]`` of one mesh row, zeros where the indices say padding."""
    inner = part.inner if part.inner_axis == ROWS else np.broadcast_to(part.inner[row], (cols, part.inner.shape[1]))
    if part.outer is None:
        picked = tensor[np.maximum(inner, 0)][:, None, :]
        return np.where((inner >= 0)[:, None, :], picked, picked.dtype.type(0))
    outer = _outer(part.outer, part.outer_axis, row, cols)
    source = tensor.T if part.transposed else tensor
    picked = source[np.maximum(outer, 0)[:, :, None], np.maximum(inner, 0)[:, None, :]]
    real = (outer >= 0)[:, :, None] & (inner >= 0)[:, None, :]
    return np.where(real, picked, picked.dtype.type(0))


def _outer(index: I32, axis: int, row: int, cols: int) -> I32:
    """``[cols, n]``: the outer indices on the PEs of one mesh row."""
    if axis == SKEWED:
        return index[skew(row, cols)]
    return index if axis == ROWS else np.broadcast_to(index[row], (cols, index.shape[1]))
