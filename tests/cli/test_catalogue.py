"""What comes with wse, listed and used by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Wse
from tests.models.helpers import write_config
from wse.models.catalogue import CONFIGURATIONS


def test_models_as_json_give_counts_and_sources(wse: Wse) -> None:
    facts = json.loads(wse("models", "--json").out)
    assert [model["name"] for model in facts["models"]] == ["story", "story-draft"]
    by_name = {model["name"]: model for model in facts["configurations"]}
    assert by_name.keys() == CONFIGURATIONS.keys()
    model = by_name["qwen3-235b-a22b"]
    assert (model["parameters"], model["parameters_per_token"]) == (235_093_634_560, 21_568_433_664)
    assert (model["kv_bytes_per_token"], model["context_limit"]) == (192_512, 40_960)
    assert model["experts"] == {"count": 128, "active": 8}
    assert model["source"] == "huggingface.co/Qwen/Qwen3-235B-A22B"
    assert "experts" not in by_name["llama-3-8b"]


def test_wafers_mark_what_was_only_announced(wse: Wse) -> None:
    text = wse("wafers").out
    assert [line.split()[0] for line in text.splitlines() if " * " in line and "x" in line] == ["cs4"]
    assert json.loads(wse("wafers", "--json").out)["announced"] == ["cs4"]
    for name, announced in (("CS4", True), ("wse2", False), ("wse3", False)):
        facts = json.loads(wse("wafers", name, "--json").out)
        assert (facts["name"], facts["announced"]) == (name.lower(), announced)


@pytest.mark.parametrize("arguments", [(), ("--mesh", "4x4")])
def test_configuration_has_no_weights_to_run(wse: Wse, arguments: tuple[str, ...]) -> None:
    """That is said before anything is compiled, however little fits."""
    line = wse("run", "llama-3-8b", *arguments).refusal()
    assert line.startswith("wse: llama-3-8b: has no weights to run; run it on random ones with --weights random:0, ")


def test_folder_with_a_config_alone_is_estimated_and_compiled_but_not_run(wse: Wse, tmp_path: Path) -> None:
    write_config(tmp_path)
    quick = ("--mesh", "8x8", "--mapping", "region")
    assert wse("estimate", tmp_path, *quick, "--prompt-len", 4, "--new-tokens", 4).code == 0
    assert wse("compile", tmp_path, *quick).code == 0
    assert "has no weights to run" in wse("run", tmp_path).refusal()
    assert wse("run", tmp_path, "--weights", "random:0", "--prompt-ids", "1,2", "--new-tokens", 2).code == 0
