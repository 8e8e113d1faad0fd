from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors_writer import write_safetensors

from tests.hardware.helpers import refusal
from tests.models.helpers import tiny_tensors, write_model
from wse.errors import BadModel, WseBug
from wse.models.configs.config import read_config
from wse.models.tensors.checkpoint import Checkpoint
from wse.models.tensors.safetensors_file import open_model_files

Q0 = "model.layers.0.self_attn.q_proj.weight"


def opened(folder: Path, tensors: dict[str, Any] | None = None, **config: Any) -> Checkpoint:
    write_model(folder, tensors, **config)
    return Checkpoint(read_config(folder / "config.json"), open_model_files(folder))


def test_aligned_tensors_are_views_and_others_aligned_copies(tmp_path: Path) -> None:
    tensors = tiny_tensors()
    write_model(tmp_path, tensors)
    spec = read_config(tmp_path / "config.json")
    for padding in range(4):
        write_safetensors(tmp_path / "model.safetensors", tensors, padding=padding)
        got = Checkpoint(spec, open_model_files(tmp_path)).tensor("layers.0.q")
        assert got.flags.aligned
        assert not got.flags.writeable
        np.testing.assert_array_equal(got, tensors[Q0])


def test_harmless_extras_are_ignored_and_a_tied_model_has_no_head(tmp_path: Path) -> None:
    tensors = tiny_tensors(tied=True)
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].copy()
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.ones(3, np.float32)
    tensors["model.rotary_emb.inv_freq"] = np.ones(3, np.float32)
    checkpoint = opened(tmp_path, tensors, tie_word_embeddings=True)
    assert "head" not in checkpoint.names
    with pytest.raises(WseBug, match="no tensor 'head'"):
        checkpoint.tensor("head")


def test_a_tied_model_with_another_head_is_refused(tmp_path: Path) -> None:
    message = refusal(BadModel, opened, tmp_path, tiny_tensors(), tie_word_embeddings=True)
    assert "tensor 'lm_head.weight' differs from the embedding that the config ties it to" in message


@pytest.mark.parametrize("name", sorted(tiny_tensors()))
def test_a_missing_tensor_is_named(tmp_path: Path, name: str) -> None:
    tensors = tiny_tensors()
    del tensors[name]
    assert f"tensor {name!r} is missing" in refusal(BadModel, opened, tmp_path, tensors)


@pytest.mark.parametrize(("dtype", "kind"), [(np.int64, "I64"), (ml_dtypes.float8_e4m3fn, "F8_E4M3")])
def test_what_is_no_type_of_weights_is_refused(tmp_path: Path, dtype: Any, kind: str) -> None:
    tensors = tiny_tensors()
    tensors[Q0] = tensors[Q0].astype(dtype)
    tail = " without scales" if kind == "F8_E4M3" else ""
    assert refusal(BadModel, opened, tmp_path, tensors) == (
        f"{tmp_path / 'model.safetensors'}: tensor {Q0!r} is {kind}, which is not a type of weights{tail}; "
        "supported: F32, F16, BF16; or fp8 and mxfp4 with scales, named by quantization_config"
    )


def test_of_many_disagreements_ten_are_named_and_all_counted(tmp_path: Path) -> None:
    tensors = tiny_tensors()
    message = refusal(BadModel, opened, tmp_path, tensors, num_hidden_layers=1, head_dim=4)
    assert message.startswith(f"{tmp_path}: 13 tensors disagree with the config: {Q0!r} has shape [24, 12], ")
    assert message.count(" has shape ") == 4
    assert message.count(" is not part of a llama model of 1 layers") == 6
    assert message.endswith("; and 3 more; use the config.json that belongs to these weights")
