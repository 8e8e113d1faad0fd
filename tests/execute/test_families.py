"""Every family against Hugging Face transformers: tokens equal, logits within 1e-4 of the largest, float32.

The goldens are made by tools/make_goldens.py; weights are drawn anew from their seed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from goldens import check
from random_checkpoint import write_checkpoint

from wse_mappings.cuts.expert_groups import DEDICATED

GOLDENS = Path(__file__).parents[1] / "data" / "families"
NAMES = sorted(path.stem for path in GOLDENS.glob("*.json"))
MIXTURES = [name for name in NAMES if "expert" in (GOLDENS / f"{name}.json").read_text(encoding="utf-8")]
MACHINES: dict[str, dict[str, Any]] = {"5x5": {"mesh": (5, 5)}, "two wafers of 3x4": {"mesh": (3, 4), "wafers": 2}}
QUICK = ("5x5",)


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
