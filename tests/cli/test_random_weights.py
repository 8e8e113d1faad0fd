"""``wse run --weights random:SEED``: a configuration alone runs, and says what it ran on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import wse as api
from tests.cli.conftest import Wse
from tests.models.helpers import CONFIG, write_config, write_model

SMALL = ("--new-tokens", "4", "--mesh", "2x2", "--schedule", "baseline", "--trace", "none")


def test_configuration_runs_from_its_begin_token_and_says_so(wse: Wse, empty: Path) -> None:
    outcome = wse("run", write_config(empty), "--weights", "random:7", *SMALL)
    assert outcome.code == 0, outcome
    assert "prompt     1\n" in outcome.out
    assert "weights  random:7: not the weights of the model, so its tokens are meaningless" in outcome.out
    found = json.loads(wse("run", "config.json", "--weights", "random:7", *SMALL, "--json").out)
    assert found["model"]["weights"] == "random:7"
    assert found["prompt_ids"] == [CONFIG["bos_token_id"]]
    ids = ", ".join(map(str, found["tokens"]))
    assert f"generated  {ids}\n" in outcome.out


def test_python_gives_the_same_logits_on_another_mesh_and_others_by_another_seed(wse: Wse, empty: Path) -> None:
    config = write_config(empty)
    line = wse("run", config, "--weights", "random:7", *SMALL, "--logits", "--json").out
    given = json.loads(line)["prompt_logits_last"]
    same, other = (
        api.run(
            config, weights=weights, new_tokens=1, mesh="3x4", schedule="baseline", trace=None, logits=True
        ).prompt_logits_last
        for weights in ("random:7", "random:8")
    )
    assert given == pytest.approx(same, rel=1e-4)
    assert given != pytest.approx(other, rel=1e-1)


def test_folder_with_weights_gives_its_configuration_alone(wse: Wse, empty: Path) -> None:
    """Its files of weights are not even opened."""
    write_model(empty)
    (empty / "model.safetensors").write_bytes(b"damaged")
    assert wse("run", ".", "--prompt-ids", "1", *SMALL).code == 2
    outcomes = [
        wse("run", path, "--prompt-ids", "1", "--weights", "random:7", *SMALL, "--json")
        for path in (".", "config.json")
    ]
    assert [outcome.code for outcome in outcomes] == [0, 0], outcomes
    folder, config = (json.loads(outcome.out) for outcome in outcomes)
    assert folder["tokens"] == config["tokens"]


def test_progress_counts_elements_and_tokens(empty: Path) -> None:
    """A run without text reports both; on_stored ends with the number of all elements."""
    stored: list[tuple[int, int, str]] = []
    tokens: list[tuple[int, int, str]] = []
    result = api.run(
        write_config(empty, eos_token_id=None),
        weights="random:7",
        prompt_ids=[1, 2, 3],
        new_tokens=4,
        trace=None,
        on_stored=lambda *piece: stored.append(piece),
        on_tokens=lambda *piece: tokens.append(piece),
    )
    assert stored[-1][0] == stored[-1][1] >= result.model.parameters
    assert [piece[:2] for piece in tokens] == [(0, 7), (3, 7), (4, 7), (5, 7), (6, 7), (7, 7)]
