"""Every format of weights against Hugging Face transformers: float32 tokens equal, logits within 1e-4 of the largest.

The goldens are made by tools/make_gguf_goldens.py and tools/make_format_goldens.py; weights are drawn anew.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from goldens import check
from random_checkpoint import write_checkpoint
from random_gguf import write_gguf

DATA = Path(__file__).parents[1] / "data"


QUICK = ("F16", "Q4_0", "Q8_0")


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=() if path.stem in QUICK else pytest.mark.slow)
        for path in sorted((DATA / "gguf").glob("*.json"))
    ],
)
def test_gguf(path: Path, tmp_path: Path) -> None:
    golden = json.loads(path.read_text(encoding="utf-8"))
    check(golden["cases"][1], write_gguf(tmp_path / "model.gguf", golden), mesh=(3, 3))


@pytest.mark.parametrize("path", sorted((DATA / "formats").glob("*.json")), ids=lambda path: path.stem)
def test_safetensors(path: Path, tmp_path: Path) -> None:
    golden = json.loads(path.read_text(encoding="utf-8"))
    check(golden["cases"][0], write_checkpoint(tmp_path / "model", golden, golden["dtype"]), mesh=(3, 4), wafers=2)


@pytest.mark.parametrize("method", ["fp8", "mxfp4"])
def test_packed_matrices_that_stay_packed_are_those_that_transformers_unpacks(method: str, tmp_path: Path) -> None:
    """As codes with the checkpoint's own scales, to the same tokens and bounds as unpacked."""
    golden = json.loads((DATA / "formats" / f"{method}.json").read_text(encoding="utf-8"))
    model = write_checkpoint(tmp_path / "model", golden, golden["dtype"])
    check(golden["cases"][0], model, mesh=(3, 4), wafers=2, dtype=method, activations="float32")
    check(golden["cases"][1], model, mesh=(3, 3), dtype=method, activations="float32")
