"""Tests of the spec and tensors of every family: a plain numpy decoder gives the logits of Hugging Face transformers.

No emulated machine takes part. tools/make_goldens.py makes the golden files.
"""

import json
from pathlib import Path

import pytest
from goldens import check_logits
from plain_decoder import plain_logits
from random_checkpoint import write_checkpoint

from wse.models.load import load_model

GOLDENS = sorted((Path(__file__).parents[2] / "data" / "families").glob("*.json"))
TOLERANCE = 1e-5  # relative to the largest logit: transformers computes in float32, this test in float64


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_logits_are_those_of_transformers(tmp_path: Path, path: Path) -> None:
    golden = json.loads(path.read_text(encoding="utf-8"))
    model = load_model(write_checkpoint(tmp_path / "model", golden))
    for case in golden["cases"]:
        ids = [*case["prompt_ids"], *case["ids"][:-1]]
        logits = plain_logits(model.spec, model.checkpoint.tensor, ids)[len(case["prompt_ids"]) - 1 :]
        check_logits(case, logits, TOLERANCE)
