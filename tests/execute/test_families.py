"""Every family against Hugging Face transformers: tokens equal, logits within 1e-4 of the largest, float32.

The goldens are made by tools/make_goldens.py; weights are drawn anew from their seed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_checkpoint import write_checkpoint
from session import session

from wse.models.config import FAMILIES

GOLDENS = Path(__file__).parents[1] / "data" / "families"
NAMES = sorted(path.stem for path in GOLDENS.glob("*.json") if path.stem in FAMILIES)
TOLERANCE = 1e-4  # of the largest logit

MACHINES: dict[str, dict[str, Any]] = {
    "5x5": {"mesh": (5, 5)},
    "4x7": {"mesh": (4, 7)},
    "two wafers of 3x4": {"mesh": (3, 4), "wafers": 2},
    "two wafers of 5x5": {"mesh": (5, 5), "wafers": 2},
}


@pytest.fixture(scope="session", params=NAMES)
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """A golden, and the folder of its model."""
    golden = json.loads((GOLDENS / f"{request.param}.json").read_text(encoding="utf-8"))
    return golden, write_checkpoint(tmp_path_factory.mktemp(request.param), golden)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("index", [0, 1])
def test_tokens_and_logits_are_those_of_transformers(
    family: tuple[dict[str, Any], Path], machine: str, index: int
) -> None:
    golden, folder = family
    case = golden["cases"][index]
    run = session(
        folder,
        prompt=case["prompt_ids"],
        new_tokens=len(case["ids"]),
        sram_bytes=1 << 20,
        logits=True,
        **MACHINES[machine],
    )
    logits = run.forced(case["ids"])
    assert logits.argmax(axis=1).tolist() == case["ids"]
    for got, name in ((logits[0], "logits_first"), (logits[-1], "logits_last")):
        expected = np.array(case[name])
        worst = float(np.abs(got - expected).max() / np.abs(expected).max())
        assert worst <= TOLERANCE, f"{name} differ by {worst:.2e} of the largest, allowed {TOLERANCE:.0e}"
