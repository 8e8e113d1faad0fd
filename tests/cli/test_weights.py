"""``wse run`` with weights in other formats, and with weights that cannot be used: one line, exit 2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from as_gguf import as_gguf
from gguf_writer import write_arrays
from safetensors_writer import header_of, join_safetensors

from tests.cli.conftest import Wse
from tests.models.helpers import CONFIG, tiny_tensors, write_model

SMALL = ("--prompt-ids", "1,2,3", "--new-tokens", "4", "--mesh", "2x2", "--schedule", "baseline", "--trace", "none")


def test_gguf_file_gives_the_tokens_of_its_checkpoint(wse: Wse, empty: Path) -> None:
    tensors = tiny_tensors()
    metadata, made = as_gguf(CONFIG | {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}, tensors)
    write_arrays(empty / "m.gguf", metadata, made)
    (empty / "m").mkdir()
    found = [wse("run", path, *SMALL, "--json", "--logits") for path in ("m.gguf", write_model(empty / "m", tensors))]
    assert [outcome.code for outcome in found] == [0, 0], found
    gguf, folder = (json.loads(outcome.out) for outcome in found)
    assert gguf["tokens"] == folder["tokens"]
    np.testing.assert_allclose(gguf["prompt_logits_last"], folder["prompt_logits_last"], rtol=1e-5)


def test_weights_that_are_not_finite_are_refused_or_allowed(wse: Wse, empty: Path) -> None:
    tensors: dict[str, Any] = tiny_tensors()
    tensors["model.embed_tokens.weight"][9, 4] = np.inf  # of a token that the prompt does not have
    tensors["lm_head.weight"][9, 4] = np.nan
    write_model(empty, tensors)
    assert wse("run", ".", *SMALL).refusal() == (
        "wse: embedding: 1 of 192 values are not finite numbers; "
        "fetch or convert the weights again, or use --allow-nonfinite"
    )
    tensors["lm_head.weight"][9, 4] = 0
    write_model(empty, tensors)
    assert wse("run", ".", *SMALL, "--allow-nonfinite").code == 0


@pytest.mark.parametrize("command", ["run", "compile"])
def test_weights_that_are_damaged_are_refused_also_where_nothing_runs(wse: Wse, tiny: Path, command: str) -> None:
    tensors = tiny_tensors()
    whole = join_safetensors(header_of(tensors), b"".join(array.tobytes() for array in tensors.values()))
    (tiny / "model.safetensors").write_bytes(whole[:-100])
    assert "model.safetensors" in wse(command, tiny).refusal()
    (tiny / "model.safetensors").unlink()
    assert "safetensors" in wse("run", tiny, "--prompt-ids", "1").refusal()
