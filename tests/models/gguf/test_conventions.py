"""Every architecture: a checkpoint written as llama.cpp's converter does comes back as it was, config and tensors."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from as_gguf import WRITERS, as_gguf
from gguf_writer import write_arrays
from random_checkpoint import values

from wse.models.gguf.configs import hugging_face_config
from wse.models.gguf.file import GgufFile
from wse.models.gguf.header import Header
from wse.models.gguf.names import family_entries

GOLDENS = {
    golden["family"]: golden
    for path in sorted((Path(__file__).parents[2] / "data" / "families").glob("*.json"))
    for golden in [json.loads(path.read_text(encoding="utf-8"))]
    if golden["config"]["model_type"] in WRITERS
}
NOT_STORED = {
    *("attention_dropout", "attn_pdrop", "embd_pdrop", "resid_pdrop", "initializer_range", "use_cache", "dtype"),
    *("architectures", "pad_token_id", "pretraining_tp", "output_router_logits", "router_aux_loss_coef", "hidden_act"),
    *("router_jitter_noise", "add_cross_attention", "reorder_and_upcast_attn", "scale_attn_by_inverse_layer_idx"),
    *("scale_attn_weights", "qk_head_dim", "num_nextn_predict_layers", "rope_interleave", "max_window_layers"),
    *("swiglu_alpha", "swiglu_limit", "use_bidirectional_attention", "original_max_position_embeddings"),
}
"""What a GGUF file does not say: of training, or what the architecture implies."""


def config_of(golden: dict[str, Any]) -> dict[str, Any]:
    """The golden's config less what GGUF does not say, in the spelling of transformers 4."""
    config = {k: v for k, v in golden["config"].items() if k not in NOT_STORED and not k.startswith("summary_")}
    rope = dict(config.pop("rope_parameters", {}))
    config |= {"rope_theta": rope.pop("rope_theta")} if rope else {}
    if rope.pop("partial_rotary_factor", 1.0) != 1.0:
        config["partial_rotary_factor"] = 0.5
    if rope and rope["rope_type"] not in ("default", "llama3"):  # llama3: a tensor of factors
        config["rope_scaling"] = rope
    return config


def agree(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(agree(found.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, float):
        return math.isclose(found, wanted, rel_tol=1e-6)  # stored as float32
    return bool(found == wanted) or (found is None and wanted is False)


def opened(tmp_path: Path, golden: dict[str, Any]) -> tuple[Header, dict[str, Any], dict[str, Any]]:
    tensors = {name: values(name, shape, golden["seed"]) for name, shape in golden["tensors"].items()}
    metadata, made = as_gguf(golden["config"], tensors)
    header = Header(GgufFile(write_arrays(tmp_path / "m.gguf", metadata, made)))
    return header, hugging_face_config(header), tensors


# What llama.cpp takes for another family of the same mathematics, or does not store.
DIFFERENT = {
    "mistral": {"model_type": "llama", "sliding_window": None},
    "gemma2": {"query_pre_attn_scalar": 16},
    "qwen2": {"use_sliding_window": None, "layer_types": None, "sliding_window": None},
    "qwen3": {"layer_types": None},
    "qwen3_moe": {"mlp_only_layers": [], "num_local_experts": None, "num_experts": 5},
    "deepseek_v3": {"head_dim": None, "attention_bias": None},
    "deepseek_v3_dense": {"head_dim": None, "attention_bias": None, "rope_scaling": None},
}


@pytest.mark.parametrize("name", GOLDENS)
def test_metadata_gives_the_config_of_the_checkpoint(tmp_path: Path, name: str) -> None:
    golden = GOLDENS[name]
    _, found, _ = opened(tmp_path, golden)
    wanted = config_of(golden) | DIFFERENT.get(name, {})
    wrong = {key: (found.get(key), value) for key, value in wanted.items() if not agree(found.get(key), value)}
    assert not wrong


@pytest.mark.parametrize("name", GOLDENS)
def test_tensors_come_back_as_they_were(tmp_path: Path, name: str) -> None:
    header, config, wanted = opened(tmp_path, GOLDENS[name])
    entries = family_entries(header, config.get("num_hidden_layers", config.get("n_layer")))
    assert sorted(entries) == sorted(wanted)
    for key, array in wanted.items():
        got = entries[key]
        assert got.shape == array.shape
        tolerance = 3e-7 if header.architecture == "gemma2" else 0  # one is added and taken away
        np.testing.assert_allclose(got.array(), array, rtol=0, atol=tolerance, err_msg=key)
        np.testing.assert_array_equal(got.array((slice(1, 3),)), got.array()[1:3], err_msg=key)
