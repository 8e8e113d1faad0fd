"""Configs of transformers 4 and 5 for the same model give the same spec."""

import json
from pathlib import Path

import pytest

from tests.models.families.configs import CONFIGS, GEMMA3, LLAMA4, MINISTRAL3, QWEN3_5, SPELLINGS, Config, both
from wse.models.configs.config import FAMILIES, read_config
from wse.models.spec import ModelSpec


def read(folder: Path, config: Config) -> ModelSpec:
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return read_config(path)


@pytest.mark.parametrize("name", SPELLINGS)
def test_both_spellings_give_one_spec(tmp_path: Path, name: str) -> None:
    old, new = both(name)
    assert read(tmp_path, old) == read(tmp_path, new)


BESIDE_VISION = [("llama4", LLAMA4), ("gemma3", GEMMA3), ("ministral3", MINISTRAL3), ("qwen3_5_moe", QWEN3_5)]


@pytest.mark.parametrize(("name", "multimodal"), BESIDE_VISION)
def test_a_text_model_beside_its_vision_model_is_the_same(tmp_path: Path, name: str, multimodal: Config) -> None:
    assert read(tmp_path, multimodal) == read(tmp_path, CONFIGS[name])


def test_what_gpt2_does_not_say(tmp_path: Path) -> None:
    spec = read(
        tmp_path, CONFIGS["gpt2"] | {"n_inner": None, "activation_function": "gelu", "scale_attn_weights": False}
    )
    assert (spec.ffn_size, spec.activation, spec.attention_scale) == (4 * 72, "gelu", 1.0)


def test_every_family_is_spelt_here() -> None:
    """A family that is added has a golden and shows both spellings of its configs."""
    shown = {CONFIGS[golden]["model_type"] for golden, *_ in SPELLINGS.values()} | {"llama4"}
    assert {FAMILIES[model_type].model_types[0] for model_type in shown} == {
        family.model_types[0] for family in FAMILIES.values()
    }


def test_caps_of_null_are_none(tmp_path: Path) -> None:
    spec = read(tmp_path, CONFIGS["gemma2"] | {"attn_logit_softcapping": None, "final_logit_softcapping": None})
    assert (spec.score_cap, spec.logit_cap) == (None, None)
