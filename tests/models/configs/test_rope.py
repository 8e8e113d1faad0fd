"""Rotary frequencies against those of Hugging Face transformers (tools/make_rope_goldens.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models.helpers import older_rope, write_config
from wse.models.configs.config import read_config
from wse.models.configs.rope import llama3_rope, plain_rope
from wse.models.spec import ModelSpec

CASES = json.loads((Path(__file__).parents[2] / "data" / "rope.json").read_text(encoding="utf-8"))["cases"]
CONTEXT = 4096
ULPS = 4  # of float32: powers are rounded once here, and by the processor's own routine in torch


def spec_of(folder: Path, case: dict[str, Any], rope: dict[str, Any]) -> ModelSpec:
    size = case["head_dim"]
    return read_config(
        write_config(
            folder,
            "architectures",
            model_type=case["model_type"],
            head_dim=size,
            hidden_size=2 * size,
            num_attention_heads=2,
            num_key_value_heads=2,
            max_position_embeddings=CONTEXT,
            **({key: case[key] for key in case if key == "original_max_position_embeddings"}),
            **({"rope_theta": None} | rope),
        )
    )


@pytest.mark.parametrize("index", range(len(CASES)))
def test_both_spellings_give_the_frequencies_of_transformers(tmp_path: Path, index: int) -> None:
    case = CASES[index]
    spec = spec_of(tmp_path, case, {"rope_parameters": case["rope_parameters"]})
    got, expected = np.float32(spec.rope.frequencies), np.float32(case["frequencies"])
    assert got.shape == expected.shape
    worst = np.abs(got - expected) / np.spacing(expected)
    assert worst.max() <= ULPS, f"{worst.max()} units in the last place, allowed {ULPS}"
    assert spec.rope.multiplier == pytest.approx(case["multiplier"], rel=1e-15)
    assert spec_of(tmp_path, case, older_rope(case["rope_parameters"])).rope == spec.rope


def test_long_rope_holds_for_the_original_context_and_others_for_the_whole(tmp_path: Path) -> None:
    limits = {
        (case["rope_parameters"]["rope_type"], case.get("original_max_position_embeddings")): spec_of(
            tmp_path, case, {"rope_parameters": case["rope_parameters"]}
        ).context_limit
        for case in CASES
    }
    assert limits["longrope", 1024] == 1024
    assert {limit for (kind, _), limit in limits.items() if kind != "longrope"} == {CONTEXT}


def test_llama3_without_a_band_between_its_limits_divides_by_nothing() -> None:
    rope = llama3_rope(16, 1e4, factor=4.0, low=1.0, high=1.0, original=100)
    plain = plain_rope(16, 1e4)
    waves = [2 * np.pi / frequency for frequency in plain.frequencies]
    expected = [f / 4 if wave > 100 else f for f, wave in zip(plain.frequencies, waves, strict=True)]
    assert rope.frequencies == tuple(expected)
    assert any(wave > 100 for wave in waves)
    assert any(wave < 100 for wave in waves)
