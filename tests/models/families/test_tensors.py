"""Tests of where the tensors of each family are found in its files, in all layouts that files of the family use."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from random_checkpoint import values
from safetensors_writer import write_safetensors

from tests.hardware.helpers import refusal
from wse.errors import BadModel
from wse.models.load import load_model
from wse.models.tensors.checkpoint import Checkpoint
from wse.models.tensors.model_tensors import tensor_shapes

DATA = Path(__file__).parents[2] / "data" / "families"
Arrays = dict[str, NDArray[Any]]


def golden(name: str) -> dict[str, Any]:
    """Return the golden file of a model."""
    loaded: dict[str, Any] = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    return loaded


def tensors_of(name: str) -> Arrays:
    """Return the tensors of a golden model under the names of its file."""
    loaded = golden(name)
    return {key: values(key, shape, loaded["seed"]) for key, shape in loaded["tensors"].items()}


def write_and_open(folder: Path, config: dict[str, Any], arrays: Arrays) -> Checkpoint:
    """Write a model folder and return its checkpoint."""
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    write_safetensors(folder / "model.safetensors", arrays)
    checkpoint = load_model(folder).checkpoint
    assert checkpoint is not None
    return checkpoint


def assert_same(first: Checkpoint, second: Checkpoint) -> None:
    """Check that two checkpoints have equal tensors."""
    assert first.names == second.names
    for name in first.names:
        np.testing.assert_array_equal(first.tensor(name), second.tensor(name), err_msg=name)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Return two empty folders."""
    found = tmp_path / "one", tmp_path / "other"
    for folder in found:
        folder.mkdir()
    return found


WITH_SHARED_NORMS = ("cohere", "cohere2", "falcon_7b", "stablelm_parallel")
"""Golden models in which attention and FFN of a layer share one norm."""
UNREAD_ROWS = {"opt": {"model.decoder.embed_positions.weight": slice(2)}}
"""Rows of tensors that no token uses, by golden model and tensor name."""


@pytest.mark.parametrize("name", sorted(path.stem for path in DATA.glob("*.json")))
def test_every_value_of_a_file_is_used_once(tmp_path: Path, name: str) -> None:
    arrays = tensors_of(name)
    counted = {key: np.arange(array.size, dtype=np.float32).reshape(array.shape) for key, array in arrays.items()}
    at = 0
    for array in counted.values():
        array += at
        at += array.size
    checkpoint = write_and_open(tmp_path, golden(name)["config"], counted)
    shapes = tensor_shapes(checkpoint.spec)
    assert {tensor: checkpoint.tensor(tensor).shape for tensor in checkpoint.names} == shapes
    found = np.concatenate([checkpoint.tensor(tensor).reshape(-1) for tensor in shapes])
    unread = [counted[key][rows].reshape(-1) for key, rows in UNREAD_ROWS.get(name, {}).items()]
    shared = [counted[key].reshape(-1) for key in counted if name in WITH_SHARED_NORMS and "input_layernorm" in key]
    expected = np.concatenate([np.arange(at), *shared])
    np.testing.assert_array_equal(np.sort(np.concatenate([found, *unread])), np.sort(expected))


EXPERT_PARTS = {
    "qwen2_moe": ("mlp.experts", ("gate_proj", "up_proj", "down_proj")),
    "minimax_m2": ("block_sparse_moe.experts", ("w1", "w3", "w2")),
    "olmoe": ("mlp.experts", ("gate_proj", "up_proj", "down_proj")),
    "mixtral": ("block_sparse_moe.experts", ("w1", "w3", "w2")),
    "qwen3_moe": ("mlp.experts", ("gate_proj", "up_proj", "down_proj")),
    "qwen3_5_moe": ("mlp.experts", ("gate_proj", "up_proj", "down_proj")),
    "qwen3_next": ("mlp.experts", ("gate_proj", "up_proj", "down_proj")),
    "glm4_moe": ("mlp.experts", ("gate_proj", "up_proj", "down_proj")),
    "deepseek_v3": ("mlp.experts", ("gate_proj", "up_proj", "down_proj")),
}


@pytest.mark.parametrize("name", EXPERT_PARTS)
def test_stacked_experts_equal_separate_experts(folders: tuple[Path, Path], name: str) -> None:
    """transformers 5 stores the experts of a layer stacked in memory, and may write them so."""
    config, arrays = golden(name)["config"], tensors_of(name)
    block, parts = EXPERT_PARTS[name]
    stacked = {key: array for key, array in arrays.items() if f".{block}." not in key}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}.{block}"
        count = sum(key.startswith(f"{at}.") and key.endswith(f".{parts[2]}.weight") for key in arrays)
        if not count:
            continue
        gate, up, down = ([arrays[f"{at}.{expert}.{part}.weight"] for expert in range(count)] for part in parts)
        new = at.replace("block_sparse_moe", "mlp")
        stacked[f"{new}.gate_up_proj"] = np.stack([np.concatenate(pair) for pair in zip(gate, up, strict=True)])
        stacked[f"{new}.down_proj"] = np.stack(down)
    stacked = {key.replace("block_sparse_moe", "mlp"): array for key, array in stacked.items()}
    assert_same(write_and_open(folders[0], config, arrays), write_and_open(folders[1], config, stacked))


def test_gpt2_is_read_with_and_without_name_prefix(folders: tuple[Path, Path]) -> None:
    config, arrays = golden("gpt2")["config"], tensors_of("gpt2")
    bare = {key.removeprefix("transformer."): array for key, array in arrays.items()}
    bare |= {"h.0.attn.bias": np.ones((1, 1, 4, 4), np.float32), "lm_head.weight": bare["wte.weight"]}
    assert_same(write_and_open(folders[0], config, arrays), write_and_open(folders[1], config, bare))


@pytest.mark.parametrize("name", ["llama4", "gemma3", "ministral3", "mistral"])
def test_text_model_is_read_with_a_vision_model(folders: tuple[Path, Path], name: str) -> None:
    model_type = "mistral3" if "istral" in name else name
    config, arrays = golden(name)["config"], tensors_of(name)
    architecture = f"{model_type.capitalize()}ForConditionalGeneration"
    outer = {"model_type": model_type, "architectures": [architecture], "text_config": config}
    multimodal = {f"language_model.{key}": array for key, array in arrays.items()}
    vision_names = ["multi_modal_projector.linear_1.weight"]
    vision_names += ["vision_model.class_embedding" if name == "llama4" else "vision_tower.vision_model.bias"]
    multimodal |= {vision_name: np.ones(3, np.float32) for vision_name in vision_names}
    assert_same(write_and_open(folders[0], config, arrays), write_and_open(folders[1], outer, multimodal))


def test_gemma4_is_read_with_a_vision_model(folders: tuple[Path, Path]) -> None:
    config, arrays = golden("gemma4")["config"], tensors_of("gemma4")
    architectures = ["Gemma4ForConditionalGeneration"]
    outer = {"model_type": "gemma4", "architectures": architectures, "text_config": config}
    multimodal = {key.replace("model.", "model.language_model.", 1): array for key, array in arrays.items()}
    multimodal |= {"model.vision_tower.std_bias": np.ones(3, np.float32)}
    assert_same(write_and_open(folders[0], config, arrays), write_and_open(folders[1], outer, multimodal))


def test_olmo_hybrid_is_read_with_the_norm_names_of_transformers(folders: tuple[Path, Path]) -> None:
    config, arrays = golden("olmo_hybrid")["config"], tensors_of("olmo_hybrid")
    other = {"attention_layer_norm": "input_layernorm", "feedforward_layer_norm": "post_attention_layernorm"}
    renamed = {}
    for key, array in arrays.items():
        *start, module, end = key.split(".")
        renamed[".".join((*start, other.get(module, module), end))] = array
    assert renamed.keys() != arrays.keys()
    assert_same(write_and_open(folders[0], config, arrays), write_and_open(folders[1], config, renamed))


@pytest.mark.parametrize("start", ["model.language_model.", "language_model.model."])
def test_qwen3_5_is_read_with_a_vision_model(folders: tuple[Path, Path], start: str) -> None:
    config, arrays = golden("qwen3_5")["config"], tensors_of("qwen3_5")
    outer = {"model_type": "qwen3_5", "architectures": ["Qwen3_5ForConditionalGeneration"], "text_config": config}
    heads = {"lm_head.weight": "language_model.lm_head.weight"} if start.startswith("language") else {}
    multimodal = {heads.get(key, key.replace("model.", start, 1)): array for key, array in arrays.items()}
    multimodal |= {name: np.ones(3, np.float32) for name in ("model.visual.blocks.0.norm1.bias", "mtp.norm.weight")}
    assert_same(write_and_open(folders[0], config, arrays), write_and_open(folders[1], outer, multimodal))


@pytest.mark.parametrize("name", ["deepseek_v3", "glm4_moe"])
def test_multi_token_prediction_layer_is_left_out(folders: tuple[Path, Path], name: str) -> None:
    config, arrays = golden(name)["config"], tensors_of(name)
    beyond = config["num_hidden_layers"]
    more = {
        f"model.layers.{beyond}.eh_proj.weight": np.ones((2, 2), np.float32),
        f"model.layers.{beyond}.self_attn.o_proj.weight": np.ones((2, 2), np.float32),
    }
    assert_same(write_and_open(folders[0], config, arrays), write_and_open(folders[1], config, arrays | more))
    foreign = f"model.layers.{beyond + 1}.eh_proj.weight"
    message = refusal(BadModel, write_and_open, folders[1], config, arrays | {foreign: np.ones((2, 2), np.float32)})
    assert message.startswith(f"{folders[1] / 'model.safetensors'}: tensor {foreign!r} is not part of a {name} model")
