"""Mutations change lines that are there: a line that was rewritten takes its mutation along."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_mutation_finds_its_line_once() -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        mutations = importlib.import_module("mutate").read_mutations()
    finally:
        sys.path.remove(str(ROOT / "tools"))
    counts = {(m.file, m.right): (ROOT / m.file).read_text().count(m.right) for m in mutations}
    assert {mutation: count for mutation, count in counts.items() if count != 1} == {}
