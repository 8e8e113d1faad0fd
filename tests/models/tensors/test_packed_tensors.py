"""Tests of packed weights: decoded values of fp8 and mxfp4 tensors, and which tensors of a model are packed."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors_writer import write_safetensors

from tests.hardware.helpers import refusal
from tests.models.helpers import write_config, write_model
from wse.errors import BadModel
from wse.models.catalogue import CONFIGURATIONS
from wse.models.configs.config import read_config
from wse.models.load import load_model
from wse.models.tensors.model_tensors import coding_of, is_linear, tensor_shapes
from wse.models.tensors.packed_tensors import unpack
from wse.models.tensors.packing import Packing
from wse.models.tensors.safetensors_file import open_safetensors
from wse.models.tensors.tensor_entry import TensorEntry

FP8 = {"quant_method": "fp8", "weight_block_size": [4, 5], "activation_scheme": "dynamic", "fmt": "e4m3"}
SIZES = st.integers(1, 9)


def unpacked_entries(path: Path, tensors: dict[str, NDArray[Any]], packing: Packing) -> dict[str, TensorEntry]:
    """Write tensors to a safetensors file and return its unpacked entries by name."""
    return unpack(open_safetensors(write_safetensors(path, tensors)), packing)


@settings(max_examples=25, deadline=None)
@given(outputs=SIZES, inputs=SIZES, block=st.tuples(SIZES, SIZES), seed=st.integers(0, 2**32 - 1))
def test_fp8_value_is_the_number_times_the_scale_of_its_block(
    tmp_path_factory: pytest.TempPathFactory, outputs: int, inputs: int, block: tuple[int, int], seed: int
) -> None:
    random = np.random.default_rng(seed)
    numbers = random.standard_normal((outputs, inputs)).astype(ml_dtypes.float8_e4m3fn)
    scales = random.random((-(-outputs // block[0]), -(-inputs // block[1])), np.float32)
    path = tmp_path_factory.mktemp("fp8") / "m.safetensors"
    entries = unpacked_entries(
        path, {"a.weight": numbers, "a.weight_scale_inv": scales}, Packing(method="fp8", block=block)
    )
    assert list(entries) == ["a.weight"]
    wanted = np.empty((outputs, inputs), np.float32)
    for i in range(outputs):
        for j in range(inputs):
            wanted[i, j] = np.float32(numbers[i, j]) * scales[i // block[0], j // block[1]]
    entry = entries["a.weight"]
    assert (entry.kind, entry.shape, entry.stored_bytes) == ("FP8", wanted.shape, numbers.nbytes + scales.nbytes)
    np.testing.assert_array_equal(entry.array(), wanted)
    half = outputs // 2
    np.testing.assert_array_equal(entry.array((slice(half, None), slice(1))), wanted[half:, :1])
    np.testing.assert_array_equal(entry.array((half,)), wanted[half])


def test_mxfp4_value_is_a_float4_number_times_a_power_of_two(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    blocks = random.integers(0, 256, (3, 7, 2, 16), dtype=np.uint8)
    scales = random.integers(0, 256, (3, 7, 2), dtype=np.uint8)
    scales[0, 0, 0] = 255  # not a number
    entries = unpacked_entries(
        tmp_path / "m.safetensors",
        {"e.down_proj_blocks": blocks, "e.down_proj_scales": scales, "e.down_proj_bias": np.ones((3, 7), np.float32)},
        Packing(method="mxfp4"),
    )
    assert set(entries) == {"e.down_proj", "e.down_proj_bias"}
    halves = np.stack([blocks & 15, blocks >> 4], axis=-1).view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    wanted = halves.reshape(3, 7, 2, 32) * scales.view(ml_dtypes.float8_e8m0fnu).astype(np.float64)[..., None]
    wanted = wanted.reshape(3, 7, 64).swapaxes(1, 2)
    entry = entries["e.down_proj"]
    assert (entry.kind, entry.shape, entry.stored_bytes) == ("MXFP4", (3, 64, 7), blocks.nbytes + scales.nbytes)
    with np.errstate(over="ignore"):  # 6 x 2 ** 127 is infinite
        np.testing.assert_array_equal(entry.array(), wanted.astype(np.float32))
        np.testing.assert_array_equal(entry.array((1, slice(None), slice(2, 5))), wanted[1, :, 2:5].astype(np.float32))


F8, ONES = np.ones((4, 6), ml_dtypes.float8_e4m3fn), np.ones((1, 2), np.float32)
BYTES = {"e_blocks": np.ones((2, 1, 16), np.uint8), "e_scales": np.ones((2, 1), np.uint8)}
FAULTS: list[tuple[str, dict[str, Any], str]] = [
    ("fp8", {"a.weight_scale_inv": ONES}, "tensor 'a.weight_scale_inv' has no 'a.weight' to scale"),
    (
        "fp8",
        {"a.weight": F8, "a.weight_scale_inv": ONES.T},
        "tensor 'a.weight' is F8_E4M3 [4, 6] with scales F32 [2, 1]",
    ),
    ("mxfp4", {"e_scales": np.ones((1, 1, 1), np.uint8)}, "tensor 'e_scales' has no 'e_blocks' to scale"),
    ("mxfp4", BYTES, "tensor 'e_blocks' is U8 [2, 1, 16] with scales U8 [2, 1]; MXFP4 requires U8 [experts"),
]


@pytest.mark.parametrize(("method", "tensors", "message"), FAULTS)
def test_scales_that_do_not_match_are_refused(
    tmp_path: Path, method: str, tensors: dict[str, Any], message: str
) -> None:
    path = tmp_path / "m.safetensors"
    assert refusal(BadModel, unpacked_entries, path, tensors, Packing(method=method, block=(4, 5))).startswith(
        f"{path}: {message}"
    )


def test_block_size_is_read_from_the_config(tmp_path: Path) -> None:
    spec = read_config(write_config(tmp_path, quantization_config=FP8))
    assert (spec.packing.method, spec.packing.block, spec.packing.unpacked) == ("fp8", (4, 5), ())
    assert (spec.weight_type, spec.dtype) == ("fp8", "float32")
    without_block = {key: value for key, value in FP8.items() if key != "weight_block_size"}
    assert read_config(write_config(tmp_path, quantization_config=without_block)).packing.block == (128, 128)
    plain = read_config(write_config(tmp_path))
    assert (plain.packing, plain.weight_type) == (Packing(), "float32")


WEIGHTS = {"type": "int", "num_bits": 4, "symmetric": True, "strategy": "group", "group_size": 32, "dynamic": False}
GROUP = {"targets": ["Linear"], "weights": WEIGHTS, "input_activations": None}
INT4 = {
    "quant_method": "compressed-tensors",
    "format": "pack-quantized",
    "quantization_status": "compressed",
    "config_groups": {"group_0": GROUP},
    "ignore": ["lm_head"],
}


@pytest.mark.parametrize(
    ("ignore", "unpacked"),
    [
        (["lm_head"], ()),
        (["re:.*self_attn.*", "model.layers.0.mlp.down_proj"], ("q", "k", "v", "o", "down")),
        (["self_attn", "re:self_attn"], ()),  # a name must match as a whole, an expression from its beginning
    ],
)
def test_int4_packs_all_linear_tensors_except_ignored_ones(
    tmp_path: Path, ignore: list[str], unpacked: tuple[str, ...]
) -> None:
    spec = read_config(write_config(tmp_path, quantization_config=INT4 | {"ignore": ignore}))
    assert (spec.weight_type, spec.dtype, spec.packing.unpacked) == ("int4", "float32", unpacked)
    packed = {name for name in tensor_shapes(spec) if coding_of(spec, name, "int4") is not None}
    linear = {name for name in tensor_shapes(spec) if is_linear(name)}
    assert packed == {name for name in linear if name.split(".")[2] not in unpacked}
    # With another type than the packed one, all linear tensors are coded.
    assert all(coding_of(spec, name, "int8") is not None for name in linear)


@pytest.mark.parametrize(
    ("name", "weight_type", "packed"),
    [
        ("gpt-oss-20b", "mxfp4", {"experts.gate", "experts.up", "experts.down"}),
        ("kimi-k2.6", "int4", {"experts.gate", "experts.up", "experts.down"}),
        ("kimi-k2", "fp8", None),
        ("deepseek-r1", "fp8", None),
        ("llama-3.1-70b", "bfloat16", set()),
    ],
)
def test_published_configuration_has_its_weight_type(name: str, weight_type: str, packed: set[str] | None) -> None:
    """Check the type of the weights and which tensors are packed; `packed` None stands for all linear layers."""
    spec = read_config(CONFIGURATIONS[name])
    assert (spec.weight_type, spec.dtype) == (weight_type, "bfloat16")
    linear = [tensor for tensor in tensor_shapes(spec) if is_linear(tensor)]
    found = {t.split(".", 2)[-1] for t in linear if coding_of(spec, t, spec.weight_type) is not None}
    assert found == ({t.split(".", 2)[-1] for t in linear} if packed is None else packed)


def test_weights_of_compressed_tensors_are_timed_but_not_read(tmp_path: Path) -> None:
    folder = write_model(tmp_path, quantization_config=INT4)
    message = refusal(BadModel, load_model, folder)
    assert message.startswith(f"{folder / 'model.safetensors'}: weights of compressed-tensors cannot be read; ")
    assert load_model(folder / "config.json").spec.weight_type == "int4"
    assert load_model(folder, with_weights=False).spec.weight_type == "int4"
