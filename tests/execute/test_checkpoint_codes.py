"""Tests of weights that are not stored as plain numbers: codes of FP8 and MXFP4 checkpoints, and random weights."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from compiled import compile_model
from plain_decoder import plain_logits
from random_checkpoint import quantised, write_checkpoint
from safetensors_writer import write_safetensors
from session import SOFTWARE, model, region_options, session, wafer, worst_error
from tiny_model import latent_spec, tiny_spec
from trait_specs import POSITIONS, TRAITS

from wse.backends.execute.engine import Engine
from wse.backends.execute.weight_storage.quantise import CheckpointCodes, with_codes
from wse.backends.execute.weight_storage.random_weights import RandomWeights
from wse.errors import BadModel, WseBug
from wse.models.load import LoadedModel, load_model
from wse.models.spec import ModelSpec
from wse.models.tensors.model_tensors import tensor_shapes
from wse.number_formats import codes_name, fp8_blocks, scales_name

DATA = Path(__file__).parents[1] / "data"
IDS = (1, 40, 7, 66, 23, 5, 11, 30)
PROMPT = 5
Golden = dict[str, Any]


def golden(path: str) -> Golden:
    """Return the content of a JSON file in tests/data."""
    loaded: Golden = json.loads((DATA / path).read_text(encoding="utf-8"))
    return loaded


def in_fp8(family: str, block: tuple[int, int]) -> Golden:
    """Return a family's golden with layer matrices in FP8, except routers and matrices that expand latent vectors."""
    checkpoint = golden(f"families/{family}.json")
    matrices = [
        name
        for name, shape in checkpoint["tensors"].items()
        if len(shape) == 2 and ".layers." in name and not name.endswith(("mlp.gate.weight", "kv_b_proj.weight"))
    ]
    coded = dict.fromkeys(matrices, "fp8") | {f"{name}_scale_inv": "fp8_scale" for name in matrices}
    scales = {
        f"{n}_scale_inv": [-(-s // b) for s, b in zip(checkpoint["tensors"][n], block, strict=True)] for n in matrices
    }
    packing = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": list(block)}
    config = checkpoint["config"] | {"quantization_config": packing}
    return checkpoint | {"config": config, "tensors": checkpoint["tensors"] | scales, "quantised": coded}


def dequantised_logits(loaded: LoadedModel) -> npt.NDArray[np.float32]:
    """Return the plain decoder's logits with the matrices that codes and scales represent."""
    logits = plain_logits(loaded.spec, loaded.checkpoint.tensor, IDS[:-1])
    return np.asarray(logits[PROMPT - 1 :], np.float32)


@pytest.mark.parametrize(
    ("block", "experts", "mesh"),
    [
        ((16, 16), "dedicated", (5, 4)),
        ((6, 32), "distributed", (5, 4)),
        pytest.param((16, 16), "distributed", (3, 3), marks=pytest.mark.slow),
        pytest.param((6, 32), "dedicated", (3, 3), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_fp8_blocks_of_heads_and_experts_are_those_of_the_file(
    block: tuple[int, int], experts: str, mesh: tuple[int, int], tmp_path: Path
) -> None:
    """Our matrices have another order of rows than the file, and blocks end inside heads and experts."""
    folder = write_checkpoint(tmp_path / "model", in_fp8("deepseek_v3", block))
    options: Mapping[str, Any] = {"dtype": "fp8", "activations": "float32", "sram_bytes": 1 << 20, "logits": True}
    run = session(folder, mesh, prompt=IDS[:PROMPT], new_tokens=3, experts=experts, **options)
    assert worst_error(run.forced(IDS[PROMPT:]), dequantised_logits(model(folder))) <= 1e-5
    scales = [buffer for buffer in run.program.buffers if buffer.name.endswith(".scales")]
    assert {buffer.element for buffer in scales} == {"float32"}


def source_of(folder: Path, dtype: str, *, activations: str = "float32", allow_nonfinite: bool = False) -> Any:
    """Return the source of codes and scales of a checkpoint; it fails if it would quantise a tensor again."""
    loaded = model(folder)
    options = region_options(dtype=dtype, activations=activations, context=2, prompt_tokens=(1,))
    program = compile_model(loaded.spec, wafer(2, 2, 1 << 20), SOFTWARE, options)

    def read(name: str, source: Any, rows: tuple[int, int]) -> Any:
        raise AssertionError(f"{name} is quantised again")

    return with_codes(program, loaded.spec, loaded.checkpoint.rows, read, allow_nonfinite=allow_nonfinite)


def test_mxfp4_codes_and_scales_are_the_bits_of_the_file(tmp_path: Path) -> None:
    checkpoint = golden("formats/mxfp4.json")
    source = source_of(write_checkpoint(tmp_path / "model", checkpoint), "mxfp4")
    stacked = "model.layers.1.mlp.experts.gate_up_proj"
    blocks, exponents = (
        quantised(name, checkpoint["tensors"][name], kind, checkpoint["seed"])
        for name, kind in ((f"{stacked}_blocks", "mxfp4"), (f"{stacked}_scales", "mxfp4_scale"))
    )
    experts, outputs, groups, _ = blocks.shape
    nibbles = np.stack([blocks & 15, blocks >> 4], axis=-1).reshape(experts, outputs, groups * 32)
    # The file alternates outputs of gate and up.
    for half, name in enumerate(("layers.1.experts.gate", "layers.1.experts.up")):
        got = source(codes_name(name))
        np.testing.assert_array_equal(got[:], nibbles[:, half::2].reshape(got.shape))
        np.testing.assert_array_equal(got[5:9], got[:][5:9])
        scales = source(scales_name(name))
        np.testing.assert_array_equal(scales[:], exponents[:, half::2].reshape(scales.shape))


def write_changed(checkpoint: Golden, folder: Path, name: str, value: Any) -> Path:
    """Write a checkpoint in which the first element of a tensor has another value; return the folder."""
    write_checkpoint(folder, checkpoint)
    tensors = {
        other: quantised(other, shape, checkpoint["quantised"][other], checkpoint["seed"])
        if other in checkpoint["quantised"]
        else np.zeros(shape, np.float32)
        for other, shape in checkpoint["tensors"].items()
    }
    tensors[name].reshape(-1).view(np.asarray(value).dtype)[0] = value
    write_safetensors(folder / "model.safetensors", tensors)
    return folder


@pytest.mark.parametrize(
    ("method", "tensor", "value", "ours"),
    [
        ("mxfp4", "model.layers.0.mlp.experts.down_proj_scales", np.uint8(255), "layers.0.experts.down.scales"),
        ("fp8", "model.layers.1.mlp.up_proj.weight", np.uint8(0x7F), "layers.1.up.codes"),
        ("fp8", "model.layers.1.mlp.up_proj.weight_scale_inv", np.float32(np.inf), "layers.1.up.scales"),
    ],
)
def test_checkpoint_codes_that_are_not_finite_are_refused(
    method: str, tensor: str, value: Any, ours: str, tmp_path: Path
) -> None:
    folder = write_changed(golden(f"formats/{method}.json"), tmp_path / "model", tensor, value)
    with pytest.raises(BadModel, match=rf"^{ours}: 1 of [\d,]+ values read are not finite numbers; fetch or convert"):
        source_of(folder, method)(ours)[:]
    source_of(folder, method, allow_nonfinite=True)(ours)[:]


def test_scales_beyond_the_range_of_the_activations_are_refused(tmp_path: Path) -> None:
    ours, tensor = "layers.0.experts.down.scales", "model.layers.0.mlp.experts.down_proj_scales"
    folder = write_changed(golden("formats/mxfp4.json"), tmp_path / "model", tensor, np.uint8(127 + 16))
    source_of(folder, "mxfp4", activations="bfloat16")(ours)[:]
    with pytest.raises(BadModel, match=rf"^{ours}: contains 6\.55e\+04, too large for a scale of float16; use"):
        source_of(folder, "mxfp4", activations="float16")(ours)[:]


def test_outputs_of_a_block_with_different_scales_are_a_bug() -> None:
    scales = np.arange(8, dtype=np.float32).reshape(4, 2)
    with pytest.raises(WseBug, match=r"^w: 2 neighbouring outputs have several scales$"):
        CheckpointCodes("w", scales, fp8_blocks(2, 32), 1, None)[0:2]


def test_other_type_than_that_of_the_checkpoint_is_quantised_again(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "model", golden("formats/mxfp4.json"))
    with pytest.raises(AssertionError, match=r"^layers\.0\.experts\.down is quantised again$"):
        source_of(folder, "int8")("layers.0.experts.down.codes")[:]


SPEC = tiny_spec(tied=False)
RANDOM_WEIGHTS_PROMPT = (3, 1, 4, 1, 5)
STEPS = 3


def random_tensors(spec: ModelSpec, seed: int = 7) -> dict[str, npt.NDArray[np.float32]]:
    """Return the random weights of a model by name."""
    weights = RandomWeights(spec, seed)
    return {name: weights.rows(name)[:] for name in tensor_shapes(spec)}


def engine(spec: ModelSpec, mesh: tuple[int, int], *, whole: bool = False, **wanted: Any) -> Engine:
    """Return an engine with random weights, generated in whole tensors if ``whole``, else tile by tile."""
    options = region_options(
        context=len(RANDOM_WEIGHTS_PROMPT) + STEPS,
        prompt_tokens=(len(RANDOM_WEIGHTS_PROMPT),),
        logits_out="all",
        **wanted,
    )
    program = compile_model(spec, wafer(*mesh, 1 << 20), SOFTWARE, options)
    return Engine(program, spec, random_tensors(spec).__getitem__ if whole else RandomWeights(spec, 7).rows)


def test_random_weights_equal_those_of_earlier_versions() -> None:
    """A result can be reproduced from its seed, so the values of a seed must not change."""
    bits = sha256(b"".join(values.tobytes() for values in random_tensors(SPEC).values()))
    assert bits.hexdigest() == "ea62de76201618738793f64c30993cac68976dee05fc2e5eef91159d6ce15b0a"


@pytest.mark.parametrize(
    ("tensor", "mean", "deviation"),
    [
        ("embedding", 0, 576**-0.5),
        ("layers.0.q", 0, 576**-0.5),
        ("layers.3.gate", 0, 576**-0.5),
        ("layers.9.o", 0, (576 * 60) ** -0.5),
        ("layers.9.down", 0, (1536 * 60) ** -0.5),
        ("layers.9.attention_norm", 1, 0.1),
    ],
)
def test_random_weights_have_the_deviation_of_their_kind(tensor: str, mean: float, deviation: float) -> None:
    values = RandomWeights(load_model("smollm2-135m").spec, 0).rows(tensor)[:].astype(np.float64)
    noise = 5 / math.sqrt(values.size)
    assert abs(values.mean() - mean) < noise * deviation
    assert abs(values.std() / deviation - 1) < noise


def test_random_gain_with_unit_offset_is_near_zero() -> None:
    values = RandomWeights(replace(SPEC, norm_unit_offset=True), 0).rows("final_norm")[:]
    assert np.abs(values).max() < 0.5


@pytest.mark.parametrize(
    ("spec", "mesh", "wafers", "mapping"),
    [
        (SPEC, (1, 1), 1, "region"),
        (SPEC, (7, 5), 1, "region"),
        (SPEC, (4, 4), 2, "pipeline"),
        (SPEC, (3, 3), 2, "tensor"),
        (TRAITS, (4, 3), 1, "region"),
        (POSITIONS, (3, 4), 1, "region"),
        (latent_spec(), (3, 4), 1, "region"),
    ],
    ids=["1x1", "7x5", "two wafers", "one region on two wafers", "traits", "positions", "latent"],
)
def test_random_weights_of_tiles_are_those_of_whole_tensors(
    spec: ModelSpec, mesh: tuple[int, int], wafers: int, mapping: str
) -> None:
    by_tiles, whole = (engine(spec, mesh, wafers=wafers, mapping=mapping, whole=w) for w in (False, True))
    assert len(by_tiles.arenas) == len(whole.arenas)
    for one, other in zip(by_tiles.arenas.values(), whole.arenas.values(), strict=True):
        np.testing.assert_array_equal(one.memory, other.memory)
