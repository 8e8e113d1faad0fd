"""Packing: how a published checkpoint stores its matrices, as quantization_config of its config.json says.

fp8     X.weight of F8_E4M3 and X.weight_scale_inv of F32, one scale a block of weight_block_size (DeepSeek-V3,
        arXiv 2412.19437, section 3.3.2): value = number x scale
mxfp4   X_blocks and X_scales of routed experts (gpt-oss): see `wse.models.tensors.packed_tensors`
int4    compressed-tensors, format pack-quantized: symmetric integers with a scale for each 32 inputs (Kimi K2.6), which
        is the coding int4 of `wse.number_formats`; such weights are timed, and not read from files
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from wse.models.configs.config_reader import ConfigReader
from wse.models.family import Piece, WantedTensor
from wse.models.spec import Packing
from wse.models.tensors.model_tensors import is_linear
from wse.number_formats import CODINGS, FP8, INT4, MXFP4

KEY: Final = "quantization_config"
COMPRESSED: Final = "compressed-tensors"
METHODS: Final = (FP8, MXFP4, COMPRESSED)
LARGEST_BLOCK: Final = 2**16
COMPRESSED_WEIGHTS: Final[dict[str, Any]] = {
    "type": "int",
    "num_bits": CODINGS[INT4].bits,
    "symmetric": True,
    "strategy": "group",
    "group_size": CODINGS[INT4].group,
}
"""The weights of compressed-tensors that are supported: those of the coding int4."""


def read_packing(config: ConfigReader, tensors: Iterable[WantedTensor]) -> Packing:
    """Return the packing of a checkpoint's matrices according to quantization_config.

    Args:
        config: The whole config.
        tensors: The tensors of one layer of each kind, with their names in the file.

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
    if method == COMPRESSED:
        return _read_compressed(inner, tensors)
    inner.value("modules_to_not_convert")  # the file tells which matrices are packed
    inner.value("dequantize")
    linear = [tensor for tensor in tensors if is_linear(tensor.name)]
    if method == MXFP4:
        inner.finish(())
        names = dict.fromkeys(_matrix(tensor) for tensor in linear)
        return Packing(method=method, unpacked=tuple(name for name in names if not name.startswith("experts.")))
    block = _read_block(inner)
    return Packing(method=method, block=block, runs=_runs_of_outputs(linear, block[0]))


def _read_block(config: ConfigReader) -> tuple[int, int]:
    """Return the block of outputs and inputs that share an fp8 scale, and check the other fp8 settings."""
    block = config.value("weight_block_size")
    if block is None:
        block = [128, 128]
    if not (
        isinstance(block, list) and len(block) == 2 and all(type(n) is int and 1 <= n <= LARGEST_BLOCK for n in block)
    ):
        config.refuse("weight_block_size", block, f"give two sizes from 1 to {LARGEST_BLOCK:,}")
    config.require("fmt", ("e4m3",), "supported: e4m3")
    config.value("scale_fmt")  # how scales were chosen; they are stored as float32 all the same
    config.require(
        "activation_scheme",
        ("dynamic",),
        "activations with scales of the file are not supported; supported: dynamic",
    )
    config.finish(())
    return block[0], block[1]


def _read_compressed(config: ConfigReader, tensors: Iterable[WantedTensor]) -> Packing:
    """Return the packing of a compressed-tensors config: int4 for all linear layers except those of ``ignore``."""
    config.require("format", ("pack-quantized",), "supported: pack-quantized")
    config.require("quantization_status", ("compressed",), "supported: compressed")
    ignored = _read_ignored(config)
    groups = config.table("config_groups")
    names = [] if groups is None else groups.keys()
    if groups is None or len(names) != 1:
        config.refuse("config_groups", config.value("config_groups"), "give one group for all linear layers")
    config.finish(("kv_cache_scheme", "global_compression_ratio", "sparsity_config", "transform_config", "version"))
    group = groups.table(names[0])
    weights = None if group is None else group.table("weights")
    if group is None or weights is None:
        groups.refuse(names[0], groups.value(names[0]), "give an object with targets and weights")
    group.require("targets", (["Linear"],), 'supported: ["Linear"]')
    group.require("format", ("pack-quantized",), "supported: pack-quantized")
    group.finish(())
    for key, supported in COMPRESSED_WEIGHTS.items():
        if weights.value(key) != supported:
            weights.refuse(key, weights.value(key), f"supported: {supported}; without {KEY}, --dtype names the type")
    weights.require("dynamic", (False,), "scales of weights are in the file; supported: false")
    weights.finish(("observer", "observer_kwargs", "zp_dtype", "scale_dtype"))
    linear = [tensor for tensor in tensors if is_linear(tensor.name)]
    unpacked = dict.fromkeys(_matrix(tensor) for tensor in linear if _is_ignored(tensor, ignored))
    if all(_matrix(tensor) in unpacked for tensor in linear):
        config.refuse("ignore", config.value("ignore"), f"leaves no linear layer to pack; leave out {KEY}")
    return Packing(method=INT4, unpacked=tuple(unpacked))


def _read_ignored(config: ConfigReader) -> list[re.Pattern[str]]:
    """Return the modules that are not packed: names, or regular expressions after ``re:``, matched at the beginning."""
    values = config.value("ignore") or []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        config.refuse("ignore", values, "give a list of names of modules, or of re: and a regular expression")
    try:
        return [
            re.compile(text.removeprefix("re:") if text.startswith("re:") else f"{re.escape(text)}$") for text in values
        ]
    except re.error as error:
        config.refuse("ignore", values, f"holds no regular expression ({error}); correct it")


def _is_ignored(tensor: WantedTensor, ignored: Sequence[re.Pattern[str]]) -> bool:
    """Return whether the modules of all pieces of a tensor are among the ``ignored``."""
    modules = [piece.file_name.removesuffix(".weight") for piece in tensor.pieces]
    return all(any(pattern.match(module) for pattern in ignored) for module in modules)


def _matrix(tensor: WantedTensor) -> str:
    """Return the canonical name of a layer's tensor without the layer."""
    return tensor.name.split(".", 2)[-1]


def _runs_of_outputs(tensors: Iterable[WantedTensor], block: int) -> tuple[tuple[str, int], ...]:
    """Return ``Packing.runs`` of matrices from files whose scales belong to ``block`` outputs.

    The greatest number that divides each place where the next output has another scale.
    """
    runs = {}
    for tensor in tensors:
        blocks = np.concatenate([*_blocks(tensor.pieces, block)])
        run = math.gcd(*(np.flatnonzero(np.diff(blocks)) + 1).tolist())
        runs[_matrix(tensor)] = run or len(blocks)
    return tuple((name, run) for name, run in runs.items() if run != block)


def _blocks(pieces: Iterable[Piece], block: int) -> Iterator[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Yield the index of the scale of each output of a tensor, counted over its pieces."""
    first = 0
    for piece in pieces:
        rows = np.arange(piece.file_shape[0])
        rows = rows[piece.index[:1]] if piece.index else rows
        rows = rows if piece.rows is None else rows[piece.rows]
        yield first + rows // block
        first += -(-piece.file_shape[0] // block)
