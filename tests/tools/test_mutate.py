"""Tests that each mutation of mutate.py still applies: its line must occur exactly once in its file."""

from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


def test_every_mutation_finds_its_line_once(script: ModuleType) -> None:
    counts = {(m.file, m.right): (ROOT / m.file).read_text().count(m.right) for m in script.read_mutations()}
    assert {mutation: count for mutation, count in counts.items() if count != 1} == {}
