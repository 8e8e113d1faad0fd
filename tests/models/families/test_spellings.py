"""Configs of transformers 4 and 5 for the same model give the same spec, with what no key says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.models.families.configs import GPT2, SIZES, SPELLINGS
from wse.models.configs.config import FAMILIES, read_config
from wse.models.spec import Layer, ModelSpec


def read(folder: Path, config: dict[str, Any], sizes: dict[str, Any] = SIZES) -> ModelSpec:
    path = folder / "config.json"
    path.write_text(json.dumps({**({} if "text_config" in config else sizes), **config}))
    return read_config(path)


@pytest.mark.parametrize("name", SPELLINGS)
def test_both_spellings_give_one_spec(tmp_path: Path, name: str) -> None:
    old, new, expected = SPELLINGS[name]
    spec = read(tmp_path, old)
    assert spec == read(tmp_path, new)
    assert {key: getattr(spec, key) for key in expected} == expected
    assert spec.dtype == "bfloat16"


def test_gpt2_has_keys_of_its_own(tmp_path: Path) -> None:
    config = GPT2 | {"bos_token_id": 39, "eos_token_id": 39}
    old = read(tmp_path, config | {"n_ctx": 32, "torch_dtype": "float16", "summary_type": "cls_index"}, {})
    new = read(tmp_path, config | {"n_inner": None, "activation_function": "gelu_new", "dtype": "float16"}, {})
    assert old == new
    assert (old.layers, old.rope, old.learned_positions) == ((Layer(rotary=False),) * 2, None, 32)
    assert (old.head_size, old.kv_head_count, old.ffn_size, old.context_limit) == (8, 3, 96, 32)
    assert (old.norm, old.gated, old.activation, old.tied_embedding) == ("layer", False, "gelu_tanh", True)
    assert old.qkv_bias
    assert old.output_bias
    assert old.ffn_bias
    assert read(tmp_path, config | {"scale_attn_weights": False}, {}).attention_scale == 1.0
    assert read(tmp_path, config | {"activation_function": "gelu"}, {}).activation == "gelu"


def test_every_family_is_spelt_here() -> None:
    """A family that is added shows both spellings of its configs."""
    shown = {old["model_type"] for old, _, _ in SPELLINGS.values()} | {"gpt2"}
    assert shown == {family.model_types[0] for family in FAMILIES.values()}


def test_queries_come_out_of_the_hidden_vector_where_their_rank_is_null(tmp_path: Path) -> None:
    spec = read(tmp_path, SPELLINGS["deepseek_v3"][0] | {"q_lora_rank": None})
    assert spec.latent.q_rank == 0


def test_caps_of_null_are_none(tmp_path: Path) -> None:
    off = {"attn_logit_softcapping": None, "final_logit_softcapping": None}
    spec = read(tmp_path, SPELLINGS["gemma2"][0] | off)
    assert (spec.score_cap, spec.logit_cap) == (None, None)
