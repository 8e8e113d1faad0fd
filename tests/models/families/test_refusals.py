"""Tests of configs with unsupported settings: the refusal names the setting."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hardware.helpers import refusal
from tests.models.families.configs import CONFIGS, LLAMA4
from tests.models.helpers import CONFIG, fill_ellipsis
from wse.errors import BadModel
from wse.models.configs.config import read_config

NOT_UNDERSTOOD = "this key is not understood and may change the mathematics; remove it if it does not"
ABSENT = "<absent>"

TABLE = Path(__file__).parents[2] / "data" / "config_refusals.txt"


def rows_of_table() -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield each family of the table with the changes of its config and the message."""
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            names, changes, tail = line.split(" | ")
            for name in CONFIGS if names == "*" else names.split():
                yield name, json.loads(changes), tail


def changed_config(config: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return a config with changes; the value ABSENT removes a key."""
    return {key: value for key, value in (config | changes).items() if value != ABSENT}


def test_unsupported_setting_is_named(tmp_path: Path) -> None:
    path, configs = tmp_path / "config.json", {"tiny": CONFIG, **CONFIGS}
    for name, changes, tail in rows_of_table():
        path.write_text(json.dumps(changed_config(configs[name], changes)))
        message = fill_ellipsis(changes, tail) if tail.startswith("…") else tail
        assert refusal(BadModel, read_config, path).startswith(f"{path}: {message}"), (name, changes)


@pytest.mark.parametrize(
    ("outer", "inner", "tail"),
    [
        ({}, {"logits_zoom": 2}, f"text_config.logits_zoom = 2: {NOT_UNDERSTOOD}"),
        ({}, {"hidden_size": 0}, "text_config.hidden_size = 0: give an integer from 1 to 1,048,576"),
        ({}, {"vocab_size": ABSENT}, "has no text_config.vocab_size; add it: an integer from 1 to 16,777,216"),
        ({}, {"model_type": "llama"}, "text_config.model_type = 'llama': give llama4_text"),
        ({}, {"rope_scaling": {"type": "linear", "factor": 0}}, "text_config.rope_scaling.factor = 0"),
        ({}, {"torch_dtype": "float16"}, "text_config.torch_dtype = 'float16'"),
        ({"tie_word_embeddings": True}, {}, "tie_word_embeddings = True: contradicts text_config; keep one"),
        ({"logits_zoom": 2}, {}, f"logits_zoom = 2: {NOT_UNDERSTOOD}"),
    ],
)
def test_keys_inside_objects_are_named(tmp_path: Path, outer: dict[str, Any], inner: dict[str, Any], tail: str) -> None:
    config = changed_config(LLAMA4 | outer, {"text_config": changed_config(LLAMA4["text_config"], inner)})
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    assert refusal(BadModel, read_config, path).startswith(f"{path}: {tail}")
