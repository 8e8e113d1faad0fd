"""Test of whole_wafer.py, which runs and checks a model on a whole wafer, with a small mesh."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmarks.growth import MODEL
from tests.benchmarks.whole_wafer import measure


@pytest.fixture
def model(tmp_path: Path) -> str:
    """Write the config of a small model and return its path."""
    path = tmp_path / "config.json"
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "vocab_size": 300}
    path.write_text(json.dumps(MODEL | sizes))
    return str(path)


OPTIONS = ("--mesh", "8x8", "--mapping", "region", "--dtype", "float16", "--new-tokens", "3")


def test_layers_and_logits_of_a_run_are_those_of_plain_numpy(model: str) -> None:
    found = measure(OPTIONS, model, seed=7, layers=(0, 2), prompt=(1, 2, 3))
    assert found.right
    assert (found.pes, found.passes, set(found.errors)) == (64, 5, {"layer 0", "layer 2", "logits"})
