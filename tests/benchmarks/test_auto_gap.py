"""Test of auto_gap.py, which compares ``--mapping auto`` with other layouts, on few of them."""

from __future__ import annotations

from auto_gap import main, summary

from tests.benchmarks.conftest import BySize, Say

GOAL_PERCENT = 1.0


def test_auto_gap_compares_several_layouts(by_size: BySize, say: Say) -> None:
    """Print by how much ``auto`` is beaten for each request, and the goal."""
    few = ["--pairs", "2", "--models", "1", "--layouts", "5", "--steps", "1"]
    gaps = main(by_size(small=few, full=[]))
    say(f"{summary(gaps)} (goal {GOAL_PERCENT} %)".replace("\n", "\n    "))
    assert all(gap.layouts > 1 for gap in gaps)
