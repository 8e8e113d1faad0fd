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

GOLDENS = Path(__file__).parents[1] / "data" / "families"
WAITING = ("deepseek_v3", "glm4_moe", "gpt_oss", "llama4", "mixtral", "qwen3_moe")
NAMES = sorted(path.stem for path in GOLDENS.glob("*.json") if path.stem not in WAITING)
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
    check(golden["cases"][index], folder, **MACHINES[machine])
