"""Tests of the weights of ``wse run``: GGUF files, random weights, and damaged or non-finite weights."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors_writer import header_of, join_safetensors

import wse as api
from tests.cli.conftest import Wse
from tests.models.helpers import CONFIG, tiny_tensors, write_config, write_model

RANDOM_OPTIONS = ("--new-tokens=4", "--mesh=2x2", "--mapping=region", "--schedule=baseline", "--trace=none")
OPTIONS = ("--prompt-ids", "1,2,3", *RANDOM_OPTIONS)


def test_nonfinite_weights_are_refused_unless_allowed(wse: Wse, empty: Path) -> None:
    tensors: dict[str, Any] = tiny_tensors()
    tensors["model.embed_tokens.weight"][9, 4] = np.inf  # a token that is not in the prompt
    tensors["lm_head.weight"][9, 4] = np.nan
    write_model(empty, tensors)
    assert wse("run", ".", *OPTIONS).refusal() == (
        "wse: embedding: 1 of 192 values are not finite numbers; "
        "fetch or convert the weights again, or use --allow-nonfinite"
    )
    tensors["lm_head.weight"][9, 4] = 0
    write_model(empty, tensors)
    assert wse("run", ".", *OPTIONS, "--allow-nonfinite").code == 0


@pytest.mark.parametrize("command", ["run", "compile"])
def test_damaged_weights_are_refused_by_run_and_compile(wse: Wse, tiny: Path, command: str) -> None:
    tensors = tiny_tensors()
    content = join_safetensors(header_of(tensors), b"".join(array.tobytes() for array in tensors.values()))
    (tiny / "model.safetensors").write_bytes(content[:-100])
    assert "model.safetensors" in wse(command, tiny).refusal()
    (tiny / "model.safetensors").unlink()
    assert "safetensors" in wse("run", tiny, "--prompt-ids", "1").refusal()


def test_random_weights_start_from_the_begin_token_with_a_note(wse: Wse, empty: Path) -> None:
    outcome = wse("run", write_config(empty), "--weights", "random:7", *RANDOM_OPTIONS)
    assert outcome.code == 0, outcome
    assert "prompt     1\n" in outcome.out
    assert "weights  random:7: not the weights of the model, so its tokens are meaningless" in outcome.out
    report = json.loads(wse("run", "config.json", "--weights", "random:7", *RANDOM_OPTIONS, "--json").out)
    assert report["model"]["weights"] == "random:7"
    assert report["prompt_ids"] == [CONFIG["bos_token_id"]]
    ids = ", ".join(map(str, report["tokens"]))
    assert f"generated  {ids}\n" in outcome.out


def test_random_weights_use_only_the_configuration_of_a_folder(wse: Wse, empty: Path) -> None:
    """The weight files of the folder are not opened."""
    write_model(empty)
    (empty / "model.safetensors").write_bytes(b"damaged")
    assert wse("run", ".", "--prompt-ids", "1", *RANDOM_OPTIONS).code == 2
    outcomes = [
        wse("run", path, "--prompt-ids", "1", "--weights", "random:7", *RANDOM_OPTIONS, "--json")
        for path in (".", "config.json")
    ]
    assert [outcome.code for outcome in outcomes] == [0, 0], outcomes
    folder, config = (json.loads(outcome.out) for outcome in outcomes)
    assert folder["tokens"] == config["tokens"]


def test_progress_counts_stored_elements_and_tokens(empty: Path) -> None:
    """A run without text output calls on_stored up to the number of all elements, and on_tokens per token."""
    stored: list[tuple[int, int, str]] = []
    tokens: list[tuple[int, int, str]] = []
    result = api.run(
        write_config(empty, eos_token_id=None),
        weights="random:7",
        prompt_ids=[1, 2, 3],
        new_tokens=4,
        mesh="2x2",
        mapping="region",
        schedule="baseline",
        trace=None,
        on_stored=lambda *piece: stored.append(piece),
        on_tokens=lambda *piece: tokens.append(piece),
    )
    assert stored[-1][0] == stored[-1][1] >= result.model.parameters
    assert [piece[:2] for piece in tokens] == [(0, 7), (3, 7), (4, 7), (5, 7), (6, 7), (7, 7)]
