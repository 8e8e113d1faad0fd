"""Read ``quantization_config`` of a config.json: how a checkpoint stores quantised matrices.

fp8    X.weight of F8_E4M3 and X.weight_scale_inv of F32, with one scale per block of
       ``weight_block_size``; value = number x scale (DeepSeek-V3, arXiv 2412.19437, section 3.3.2)
mxfp4  X_blocks and X_scales of experts (gpt-oss): see `wse.models.tensors.packed_tensors`
int4   compressed-tensors, format pack-quantized: symmetric integers with a scale per 32 inputs
       (Kimi K2.6), the coding int4 of `wse.number_formats`; can be timed but not read from files
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from wse.models.configs.config_reader import ConfigReader
from wse.models.family import CanonicalTensor, FileSlice
from wse.models.spec import Packing
from wse.models.tensors.model_tensors import is_linear
from wse.number_formats import CODINGS, FP8, INT4, MXFP4
from wse_mappings.rounding import ceil_div

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
"""Supported weight settings in compressed-tensors, which correspond to the coding int4."""


def read_packing(config: ConfigReader, tensors: Iterable[CanonicalTensor]) -> Packing:
    """Return the format of a checkpoint's quantised matrices, according to its config.

    Args:
        config: Reader of the model's whole config.
        tensors: Locations of the tensors of one layer of each type.

    Raises:
        BadModel: The quantisation method or one of its settings is not supported.
    """
    table = config.value(KEY)
    if table is None:
        return Packing()
    if not isinstance(table, dict):
        config.refuse(KEY, table, "give an object or null")
    quantization = ConfigReader(config.path, table, f"{KEY}.")
    method = quantization.choice("quant_method", METHODS)
    if method == COMPRESSED:
        return _read_compressed(quantization, tensors)
    quantization.value("modules_to_not_convert")  # packed matrices are recognised in the file instead
    quantization.value("dequantize")
    linear = [tensor for tensor in tensors if is_linear(tensor.name)]
    if method == MXFP4:
        quantization.finish(())
        names = dict.fromkeys(_matrix(tensor) for tensor in linear)
        return Packing(method=method, unpacked=tuple(name for name in names if not name.startswith("experts.")))
    block = _read_block(quantization)
    return Packing(method=method, block=block, runs=_runs_of_outputs(linear, block[0]))


def _read_block(config: ConfigReader) -> tuple[int, int]:
    """Return the numbers of outputs and inputs that share an fp8 scale.

    Raises:
        BadModel: A setting of the fp8 format is not supported.
    """
    block = config.value("weight_block_size") if config.is_stated("weight_block_size") else [128, 128]
    if not (
        isinstance(block, list) and len(block) == 2 and all(type(n) is int and 1 <= n <= LARGEST_BLOCK for n in block)
    ):
        config.refuse(
            "weight_block_size", block, f"weights need a scale per block; give two sizes from 1 to {LARGEST_BLOCK:,}"
        )
    config.require("fmt", ("e4m3", "float8_e4m3fn"), "supported: e4m3")
    config.value("scale_fmt")  # rounding of the scales in training; they are stored as float32 anyway
    config.require(
        "activation_scheme", ("dynamic",), "activations with scales of the file are not supported; supported: dynamic"
    )
    config.finish(())
    return block[0], block[1]


def _read_compressed(config: ConfigReader, tensors: Iterable[CanonicalTensor]) -> Packing:
    """Return the storage format that a compressed-tensors config describes.

    All linear layers are int4, except the ones that match ``ignore``.
    """
    config.require("format", ("pack-quantized",), "supported: pack-quantized")
    config.require("quantization_status", ("compressed",), "supported: compressed")
    ignored_modules = _read_ignored(config)
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
    unpacked = dict.fromkeys(_matrix(tensor) for tensor in linear if _is_ignored(tensor, ignored_modules))
    if all(_matrix(tensor) in unpacked for tensor in linear):
        config.refuse("ignore", config.value("ignore"), f"leaves no linear layer to pack; leave out {KEY}")
    return Packing(method=INT4, unpacked=tuple(unpacked))


def _read_ignored(config: ConfigReader) -> list[re.Pattern[str]]:
    """Return patterns for the modules that a config excludes from packing.

    The config lists full names, or regular expressions after ``re:``. A pattern is matched from the
    start of a module's name.
    """
    values = config.value("ignore") or []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        config.refuse("ignore", values, "give a list of names of modules, or of re: and a regular expression")
    try:
        return [
            re.compile(text.removeprefix("re:") if text.startswith("re:") else f"{re.escape(text)}$") for text in values
        ]
    except re.error as error:
        config.refuse("ignore", values, f"holds no regular expression ({error}); correct it")


def _is_ignored(tensor: CanonicalTensor, ignored_modules: Sequence[re.Pattern[str]]) -> bool:
    """Return whether a config excludes a matrix from packing.

    Args:
        tensor: The matrix. If the checkpoint stores parts of it in several modules, all of these
            must be excluded.
        ignored_modules: Patterns for the names of excluded modules.
    """
    modules = [file_slice.file_name.removesuffix(".weight") for file_slice in tensor.slices]
    return all(any(pattern.match(module) for pattern in ignored_modules) for module in modules)


def _matrix(tensor: CanonicalTensor) -> str:
    """Return the name of a matrix within its layer, without ``layers.I.``."""
    return tensor.name.split(".", 2)[-1]


def _runs_of_outputs(tensors: Iterable[CanonicalTensor], block: int) -> tuple[tuple[str, int], ...]:
    """Return the matrices whose scales apply to fewer adjacent outputs than in the file.

    In the file, every ``block`` adjacent outputs share one FP8 scale. Where wse reorders outputs,
    those of one block may no longer be adjacent. The result has, for each such matrix, the largest
    length of equally long runs of adjacent outputs that do not mix the outputs of two blocks.

    Args:
        tensors: Locations of the matrices.
        block: Outputs per scale in the file.

    Returns:
        Pairs (name of the matrix, length of a run), as in ``Packing.runs``.
    """
    runs = {}
    for tensor in tensors:
        blocks = np.concatenate([*_blocks(tensor.slices, block)])
        run = math.gcd(*(np.flatnonzero(np.diff(blocks)) + 1).tolist())
        runs[_matrix(tensor)] = run or len(blocks)
    return tuple((name, run) for name, run in runs.items() if run != block)


def _blocks(slices: Iterable[FileSlice], block: int) -> Iterator[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Yield, for each slice of a matrix, the index of the scale that each of its outputs uses.

    The scales of all slices are numbered consecutively. Each array is int64 [outputs].

    Args:
        slices: Slices of files that make up the matrix.
        block: Number of adjacent outputs that share a scale.
    """
    first = 0
    for file_slice in slices:
        rows = np.arange(file_slice.file_shape[0])
        rows = rows[file_slice.index[:1]] if file_slice.index else rows
        rows = rows if file_slice.rows is None else rows[file_slice.rows]
        yield first + rows // block
        first += ceil_div(file_slice.file_shape[0], block)
