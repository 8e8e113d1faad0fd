"""Families and formats of weights against Hugging Face transformers: tokens equal, logits within 1e-4 of the largest.

All are in float32. The goldens are made by tools/make_goldens.py, tools/make_gguf_goldens.py and
tools/make_format_goldens.py; weights are drawn anew from their seed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from goldens import check
from random_checkpoint import write_checkpoint
from random_gguf import write_gguf

from wse_mappings.cuts.expert_groups import DEDICATED

DATA = Path(__file__).parents[1] / "data"
GOLDENS = DATA / "families"
NAMES = sorted(path.stem for path in GOLDENS.glob("*.json"))
MIXTURES = [name for name in NAMES if "expert" in (GOLDENS / f"{name}.json").read_text(encoding="utf-8")]
MACHINES: dict[str, dict[str, Any]] = {"5x5": {"mesh": (5, 5)}, "two wafers of 3x4": {"mesh": (3, 4), "wafers": 2}}
QUICK, QUICK_TYPES = ("5x5",), ("F16", "Q4_0", "Q8_0")


@pytest.fixture(scope="module", params=NAMES)
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """A golden, and the folder of its model."""
    golden = json.loads((GOLDENS / f"{request.param}.json").read_text(encoding="utf-8"))
    return golden, write_checkpoint(tmp_path_factory.mktemp(request.param), golden)


@pytest.mark.parametrize(
    ("machine", "index"),
    [
        pytest.param(machine, (i + 1) % 2, id=machine, marks=() if machine in QUICK else pytest.mark.slow)
        for i, machine in enumerate(MACHINES)
    ],
)
def test_logits_are_those_of_transformers(family: tuple[dict[str, Any], Path], machine: str, index: int) -> None:
    golden, folder = family
    check(golden["cases"][index], folder, **MACHINES[machine])


SPLIT = [(name, {"mesh": (3, 4), "wafers": 2 + i % 2, "mapping": "tensor"}) for i, name in enumerate(NAMES)]
SPREAD = {"mesh": (3, 4), "wafers": 2, "mapping": "expert"}
OWN = {"mesh": (3, 3), "experts": DEDICATED}


@pytest.mark.parametrize(
    ("name", "placed"),
    [
        *SPLIT,
        *((name, SPREAD) for name in MIXTURES if not name.endswith("_dense")),
        *((name, OWN) for name in MIXTURES),
        *(pytest.param(name, OWN | {"mesh": (4, 7)}, marks=pytest.mark.slow) for name in MIXTURES),
    ],
    ids=str,
)
def test_ops_and_experts_may_be_placed_otherwise(name: str, placed: dict[str, Any], tmp_path: Path) -> None:
    golden = json.loads((GOLDENS / f"{name}.json").read_text(encoding="utf-8"))
    check(golden["cases"][0], write_checkpoint(tmp_path, golden), **placed)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=() if path.stem in QUICK_TYPES else pytest.mark.slow)
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
