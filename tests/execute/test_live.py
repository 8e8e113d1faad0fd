"""Tests of every family against transformers itself with new random weights; skipped without torch and transformers."""

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from goldens import check
from random_checkpoint import write_checkpoint

pytest.importorskip("torch")
pytest.importorskip("transformers")

ROOT = Path(__file__).parents[2]
FAMILIES = sorted((ROOT / "tests" / "data" / "families").glob("*.json"))
SEEDS = range(1000, 1050)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """Return the module of tools/make_goldens.py."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        return importlib.import_module("make_goldens")
    finally:
        sys.path.remove(str(ROOT / "tools"))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda path: path.stem)
def test_logits_are_those_of_transformers(family: Path, script: ModuleType, tmp_path: Path) -> None:
    golden = script.with_answers(json.loads(family.read_text(encoding="utf-8")), SEEDS, distinct=1)
    folder = write_checkpoint(tmp_path, golden)
    for case in golden["cases"]:
        check(case, folder, mesh=(4, 5))
