"""Tests of configs of unknown families: the refusal names the nearest family and the settings that it lacks."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.hardware.helpers import refusal
from tests.models.families.configs import CONFIGS
from wse.errors import UnknownName
from wse.models.configs.config import read_config


@pytest.mark.parametrize(
    ("known", "model_type", "changes", "rest"),
    [
        ("llama", "arcee", {}, "'llama'; set model_type to it if its mathematics is the same"),
        (
            "granite",
            "granite_swa",
            {"no_such": 4, "off": 0},
            "'granite', in which these settings are missing: no_such = 4",
        ),
        (
            "cohere",
            "other",
            {"a": {"b": 1}, "c": [2]},
            "'cohere', in which these settings are missing: a = {...}, c = [...]",
        ),
        (
            "olmoe",
            "olmoe2",
            {f"key_{index}": 1 for index in range(10)},
            "'olmoe', in which these settings are missing: "
            + ", ".join(f"key_{i} = 1" for i in range(8))
            + " and 2 more",
        ),
        (
            "qwen3",
            "qwen3x",
            {"hidden_size": None},
            "'qwen3', which refuses this config: has no hidden_size; add it: an integer from 1 to 1,048,576",
        ),
    ],
)
def test_an_unknown_family_is_refused_with_the_nearest(
    tmp_path: Path, known: str, model_type: str, changes: dict[str, Any], rest: str
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIGS[known] | {"model_type": model_type} | changes))
    message = refusal(UnknownName, read_config, path)
    assert message == f"{path}: unknown architecture {model_type!r}: the nearest family is {rest}"


def test_the_text_model_of_a_multimodal_model_is_compared(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "sees", "text_config": CONFIGS["gemma2"], "vision_config": {}}))
    assert refusal(UnknownName, read_config, path).startswith(
        f"{path}: unknown architecture 'sees': the nearest family is 'gemma2'"
    )


def test_a_long_name_is_shortened(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIGS["llama"] | {"model_type": "x" * 3000}))
    assert f"unknown architecture '{'x' * 120}…': the nearest" in (message := refusal(UnknownName, read_config, path))
    assert len(message) < 500 + len(str(path))
