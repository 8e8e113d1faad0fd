"""Packing: how a checkpoint in safetensors stores its matrices, as quantization_config of the config says.

fp8     X.weight of F8_E4M3 and X.weight_scale_inv of F32, one scale a block of weight_block_size (DeepSeek-V3,
        arXiv 2412.19437, section 3.3.2): value = number x scale
mxfp4   X_blocks and X_scales (gpt-oss): see `wse.models.tensors.packed_tensors`
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from wse.models.configs.config_reader import ConfigReader

KEY: Final = "quantization_config"
METHODS: Final = ("fp8", "mxfp4")
LARGEST_BLOCK: Final = 2**16


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """A packing: ``method`` is ``fp8``, ``mxfp4`` or none (""); ``block``: (outputs, inputs) of an fp8 scale."""

    method: str = ""
    block: tuple[int, int] = (128, 128)


def read_packing(config: ConfigReader) -> Packing:
    """The packing that quantization_config states; it changes no mathematics, as weights are unpacked when read.

    Raises:
        BadModel: the method is another one, or one of its settings is not supported.
    """
    table = config.any(KEY)
    if table is None:
        return Packing()
    if not isinstance(table, dict):
        config.refuse(KEY, table, "give an object or null")
    inner = ConfigReader(config.path, table, f"{KEY}.")
    method = inner.choice("quant_method", METHODS)
    inner.any("modules_to_not_convert")  # the file tells which matrices are packed
    inner.any("dequantize")
    if method == "mxfp4":
        inner.finish(())
        return Packing(method=method)
    block = inner.any("weight_block_size")
    if block is None:
        block = [128, 128]
    if not (
        isinstance(block, list) and len(block) == 2 and all(type(n) is int and 1 <= n <= LARGEST_BLOCK for n in block)
    ):
        inner.refuse("weight_block_size", block, f"give two sizes from 1 to {LARGEST_BLOCK:,}")
    inner.require("fmt", ("e4m3",), "supported: e4m3")
    inner.any("scale_fmt")  # how scales were chosen; they are stored as float32 all the same
    inner.require(
        "activation_scheme",
        ("dynamic",),
        "activations with scales of the file are not supported; supported: dynamic",
    )
    inner.finish(())
    return Packing(method=method, block=(block[0], block[1]))
