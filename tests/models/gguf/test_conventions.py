"""Tests of GGUF tensors: decoded values of blocks, and names and layouts in every family, against golden files."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from as_gguf import WRITERS, as_gguf
from gguf_writer import write_arrays
from random_checkpoint import values
from random_gguf import BLOCKS, stored_bytes

from tests.hardware.helpers import refusal
from wse.errors import BadModel
from wse.models.configs.config import FAMILIES, read_config
from wse.models.gguf.blocks import BLOCK_KINDS, BLOCKS_AT_ONCE
from wse.models.gguf.file import GgufFile
from wse.models.gguf.model import read_gguf
from wse.models.spec import ModelSpec
from wse.models.tensors.checkpoint import Checkpoint

GOLDENS = {
    golden["family"]: golden
    for path in sorted((Path(__file__).parents[2] / "data" / "families").glob("*.json"))
    for golden in [json.loads(path.read_text(encoding="utf-8"))]
    if golden["config"]["model_type"] in WRITERS.keys() & FAMILIES.keys()
}
GGUF_DEFAULTS: dict[str, dict[str, Any]] = {
    "mistral": {"model_type": "llama", "architectures": None, "sliding_window": None},
    "llama4": {"attention_chunk_size": 8192, "floor_scale": 8192},
    "gemma2": {"query_pre_attn_scalar": 16},
    "qwen2": {"use_sliding_window": False, "layer_types": None},
}
"""Config keys by family that GGUF does not store, with the values that llama.cpp uses for them."""


def written_gguf(folder: Path, golden: dict[str, Any]) -> tuple[GgufFile, dict[str, Any]]:
    """Write a golden model as a GGUF file; return the open file and the golden tensors."""
    tensors = {name: values(name, shape, golden["seed"]) for name, shape in golden["tensors"].items()}
    metadata, made = as_gguf(golden["config"], tensors)
    return GgufFile(write_arrays(folder / "m.gguf", metadata, made)), tensors


@pytest.mark.parametrize("name", GOLDENS)
def test_metadata_gives_the_model_of_the_config(tmp_path: Path, name: str) -> None:
    golden = GOLDENS[name]
    config = golden["config"] | GGUF_DEFAULTS.get(name, {})
    (tmp_path / "m.json").write_text(json.dumps(config))
    wanted = read_config(tmp_path / "m.json")
    found, _ = read_gguf(written_gguf(tmp_path, golden)[0])
    assert found.norm_eps == pytest.approx(wanted.norm_eps, rel=1e-6)  # stored as float32
    np.testing.assert_allclose(frequencies(found), frequencies(wanted), rtol=3e-7)
    same = {"norm_eps": 1.0, "rope": None}
    assert replace(found, **same) == replace(wanted, **same)


def frequencies(spec: ModelSpec) -> list[float]:
    """Return the multiplier and the frequencies of the rotary embedding."""
    return [] if spec.rope is None else [spec.rope.multiplier, *spec.rope.frequencies]


@pytest.mark.parametrize("name", GOLDENS)
def test_tensors_are_read_back_unchanged(tmp_path: Path, name: str) -> None:
    gguf, wanted = written_gguf(tmp_path, GOLDENS[name])
    spec, entries = read_gguf(gguf)
    Checkpoint(spec, entries)
    assert sorted(entries) == sorted(wanted)
    for key, array in wanted.items():
        got = entries[key]
        assert got.shape == array.shape
        tolerance = 3e-7 if name == "gemma2" else 0  # the writer adds 1 to the norms and the reader subtracts it
        np.testing.assert_allclose(got.array(), array, rtol=0, atol=tolerance, err_msg=key)
        np.testing.assert_array_equal(got.array((slice(1, 3),)), got.array()[1:3], err_msg=key)


def test_stack_with_a_wrong_number_of_experts_is_refused(tmp_path: Path) -> None:
    golden = GOLDENS["mixtral"]
    tensors = {name: values(name, shape, golden["seed"]) for name, shape in golden["tensors"].items()}
    metadata, made = as_gguf(golden["config"], tensors)
    made["blk.1.ffn_up_exps.weight"] = made["blk.1.ffn_up_exps.weight"][:2]
    spec, entries = read_gguf(GgufFile(write_arrays(tmp_path / "m.gguf", metadata, made)))
    message = refusal(BadModel, Checkpoint, spec, entries)
    assert message.startswith(f"{tmp_path / 'm.gguf'}: 4 tensors disagree with the config: ")
    assert "'model.layers.1.block_sparse_moe.experts.2.w3.weight' is missing" in message
    assert "'blk.1.ffn_up_exps.weight' is not part of a mixtral model of 2 layers" in message


def test_two_tensors_of_one_name_are_refused(tmp_path: Path) -> None:
    golden = GOLDENS["llama"]
    tensors = {name: values(name, shape, golden["seed"]) for name, shape in golden["tensors"].items()}
    metadata, made = as_gguf(golden["config"], tensors)
    made["model.norm.weight"] = tensors["model.norm.weight"]
    path = write_arrays(tmp_path / "m.gguf", metadata, made)
    assert "tensor 'model.norm.weight' is there twice" in refusal(BadModel, read_gguf, GgufFile(path))


BLOCK_GOLDEN = json.loads((Path(__file__).parents[2] / "data" / "gguf_blocks.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", BLOCKS)
def test_values_equal_those_of_the_gguf_package_bit_for_bit(kind: str) -> None:
    block = BLOCK_KINDS[kind]
    raw = stored_bytes("blocks", [1, BLOCK_GOLDEN["blocks"] * block.weights], kind, BLOCK_GOLDEN["seed"])
    got = block.decode_blocks(raw.reshape(1, -1, block.bytes))
    wanted = np.frombuffer(bytes.fromhex(BLOCK_GOLDEN["values"][kind]), "<u4")
    np.testing.assert_array_equal(got.view(np.uint32)[0], wanted)


@pytest.mark.parametrize("kind", ["Q4_0", "Q6_K"])
def test_blocks_decode_equally_across_chunk_boundaries(kind: str) -> None:
    block = BLOCK_KINDS[kind]
    one = stored_bytes("one", [1, block.weights], kind, 1).reshape(1, block.bytes)
    many = block.decode_blocks(np.broadcast_to(one, (BLOCKS_AT_ONCE + 3, 1, block.bytes)))
    assert (many == block.decode_blocks(one)).all()


def test_mxfp4_is_a_number_of_four_bits_times_a_power_of_two() -> None:
    blocks = np.array([[127, *range(0x10, 0x20)], [129, *[0xF7] * 16], [0, *[2] * 16]], np.uint8)
    got = BLOCK_KINDS["MXFP4"].decode_blocks(blocks[:, None])
    np.testing.assert_array_equal(got[0, :16], [0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])
    np.testing.assert_array_equal(got[0, 16:], np.full(16, 0.5))
    np.testing.assert_array_equal(got[1], [24.0] * 16 + [-24.0] * 16)
    np.testing.assert_array_equal(got[2, :16], np.full(16, 2.0**-127))
