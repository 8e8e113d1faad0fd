"""Tests of configs that transformers 4 and 5 write differently: both give the same spec."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.models.families.configs import (
    CONFIGS,
    GEMMA3,
    GEMMA4,
    LLAMA4,
    MINISTRAL3,
    QWEN3_5,
    SPELLINGS,
    Config,
    old_and_new,
)
from wse.models.configs.config import FAMILIES, read_config
from wse.models.configs.rope import plain_rope
from wse.models.spec import ModelSpec


def read(folder: Path, config: Config) -> ModelSpec:
    """Write a config to a folder and read it."""
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return read_config(path)


def test_both_spellings_give_one_spec(tmp_path: Path) -> None:
    for name in SPELLINGS:
        old, new = old_and_new(name)
        assert read(tmp_path, old) == read(tmp_path, new), name


WITH_VISION_MODEL = [
    ("llama4", LLAMA4),
    ("gemma3", GEMMA3),
    ("gemma4", GEMMA4),
    ("ministral3", MINISTRAL3),
    ("qwen3_5_moe", QWEN3_5),
]


@pytest.mark.parametrize(("name", "multimodal"), WITH_VISION_MODEL)
def test_text_model_of_a_multimodal_model_has_the_same_spec(tmp_path: Path, name: str, multimodal: Config) -> None:
    assert read(tmp_path, multimodal) == read(tmp_path, CONFIGS[name])


def test_mistral3_reads_the_text_model_of_mistral_small(tmp_path: Path) -> None:
    text = {key: value for key, value in CONFIGS["mistral"].items() if key != "architectures"}
    spec = read(tmp_path, MINISTRAL3 | {"text_config": text})
    assert spec == replace(read(tmp_path, CONFIGS["mistral"]), family="ministral3")


def test_ministral3_without_position_scaling_has_none(tmp_path: Path) -> None:
    table = CONFIGS["ministral3"]["rope_parameters"] | {"llama_4_scaling_beta": 0}
    assert read(tmp_path, CONFIGS["ministral3"] | {"rope_parameters": table}).position_scale is None


def test_special_tokens_are_read_outside_the_text_model(tmp_path: Path) -> None:
    text = {key: value for key, value in CONFIGS["gemma3"].items() if key != "bos_token_id"}
    outer = GEMMA3 | {"bos_token_id": 2, "eos_token_id": [1, 106]}
    spec = read(tmp_path, outer | {"text_config": text})
    assert (spec.bos_token_id, spec.eos_token_ids) == (2, (1, 106))
    assert read(tmp_path, outer | {"text_config": CONFIGS["gemma3"]}).bos_token_id == 1


def test_windows_of_olmo3_use_the_base_of_a_single_table(tmp_path: Path) -> None:
    table = CONFIGS["olmo3"]["rope_parameters"]["full_attention"] | {"rope_theta": 10000.0}
    spec = read(tmp_path, CONFIGS["olmo3"] | {"rope_parameters": table})
    assert spec.window_rope == plain_rope(spec.head_size, 10000.0)
    assert spec.rope.multiplier == 1.1


def test_gpt2_has_defaults_for_absent_settings(tmp_path: Path) -> None:
    spec = read(
        tmp_path, CONFIGS["gpt2"] | {"n_inner": None, "activation_function": "gelu", "scale_attn_weights": False}
    )
    assert (spec.ffn_size, spec.activation, spec.attention_scale) == (4 * 72, "gelu", 1.0)


def test_every_family_has_both_spellings() -> None:
    """Each family has a golden file and an entry in `SPELLINGS`, so a new family needs both."""
    shown = {CONFIGS[spelling["golden"]]["model_type"] for spelling in SPELLINGS.values()} | {"llama4"}
    assert {FAMILIES[model_type].model_types[0] for model_type in shown} == {
        family.model_types[0] for family in FAMILIES.values()
    }


def test_nothing_rotates_if_the_base_is_null(tmp_path: Path) -> None:
    spec = read(tmp_path, CONFIGS["olmo_hybrid"])
    assert spec.rope is None
    assert not any(layer.rotary for layer in spec.layers if not layer.linear)
    rotary = read(tmp_path, CONFIGS["olmo_hybrid"] | {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}})
    assert rotary.rope == plain_rope(rotary.head_size, 1e4)


def test_proportional_frequencies_are_zero_after_the_rotated_pairs(tmp_path: Path) -> None:
    spec = read(tmp_path, CONFIGS["gemma4"])
    assert spec.rope.frequencies == (*plain_rope(16, 1e6).frequencies[:2], *(0.0,) * 6)
    assert spec.window_rope == plain_rope(10, 1e4)


def test_null_caps_are_none(tmp_path: Path) -> None:
    spec = read(tmp_path, CONFIGS["gemma2"] | {"attn_logit_softcapping": None, "final_logit_softcapping": None})
    assert (spec.score_cap, spec.logit_cap) == (None, None)
