"""Packing: how a checkpoint in safetensors stores its matrices, as quantization_config of the config says.

fp8     X.weight of F8_E4M3 and X.weight_scale_inv of F32, one scale a block of weight_block_size (DeepSeek-V3,
        arXiv 2412.19437, section 3.3.2): value = number x scale
mxfp4   X_blocks and X_scales (gpt-oss): see `wse.models.tensors.packed_tensors`
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from wse.models.configs.config_reader import ConfigReader
from wse.models.family import Piece, WantedTensor
from wse.models.spec import Packing
from wse.models.tensors.model_tensors import is_linear
from wse.number_formats import FP8, MXFP4

KEY: Final = "quantization_config"
METHODS: Final = (FP8, MXFP4)
LARGEST_BLOCK: Final = 2**16


def read_packing(config: ConfigReader) -> Packing:
    """The packing that quantization_config states; it changes no mathematics, as weights are unpacked when read.

    Raises:
        BadModel: the method is another one, or one of its settings is not supported.
    """
    table = config.value(KEY)
    if table is None:
        return Packing()
    if not isinstance(table, dict):
        config.refuse(KEY, table, "give an object or null")
    inner = ConfigReader(config.path, table, f"{KEY}.")
    method = inner.choice("quant_method", METHODS)
    inner.value("modules_to_not_convert")  # the file tells which matrices are packed
    inner.value("dequantize")
    if method == MXFP4:
        inner.finish(())
        return Packing(method=method)
    block = inner.value("weight_block_size")
    if block is None:
        block = [128, 128]
    if not (
        isinstance(block, list) and len(block) == 2 and all(type(n) is int and 1 <= n <= LARGEST_BLOCK for n in block)
    ):
        inner.refuse("weight_block_size", block, f"give two sizes from 1 to {LARGEST_BLOCK:,}")
    inner.require("fmt", ("e4m3",), "supported: e4m3")
    inner.value("scale_fmt")  # how scales were chosen; they are stored as float32 all the same
    inner.require(
        "activation_scheme",
        ("dynamic",),
        "activations with scales of the file are not supported; supported: dynamic",
    )
    inner.finish(())
    return Packing(method=method, block=(block[0], block[1]))


def runs_of_outputs(tensors: Iterable[WantedTensor], block: int) -> tuple[tuple[str, int], ...]:
    """``Packing.runs`` of matrices cut out of files whose scales are of ``block`` outputs.

    The greatest number that divides each place where the next output has another scale.
    """
    runs = {}
    for tensor in tensors:
        if is_linear(tensor.name):
            blocks = np.concatenate([*_blocks(tensor.pieces, block)])
            run = math.gcd(*(np.flatnonzero(np.diff(blocks)) + 1).tolist())
            runs[tensor.name.split(".", 2)[-1]] = run or len(blocks)
    return tuple((name, run) for name, run in runs.items() if run != block)


def _blocks(pieces: Iterable[Piece], block: int) -> Iterator[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """The number of the scale that each output of a tensor has, counted through its pieces."""
    first = 0
    for piece in pieces:
        rows = np.arange(piece.file_shape[0])
        rows = rows[piece.index[:1]] if piece.index else rows
        rows = rows if piece.rows is None else rows[piece.rows]
        yield first + rows // block
        first += -(-piece.file_shape[0] // block)
