"""Test of scale.py, which writes docs/scale.md, the page on the needs of large runs and sweeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.conftest import Say
from tests.benchmarks.scale import main
from tests.benchmarks.scale_measures import placed


def test_placed_model_has_one_largest_wafer(say: Say) -> None:
    figures = placed(1)
    assert figures["wafers"] * figures["largest_wafer_gb"] > figures["all_wafers_gb"]
    say(", ".join(f"{name} {value:,.1f}" for name, value in figures.items()))


@pytest.mark.full_size
def test_scale_writes_its_page(say: Say, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs Ray: pip install 'wse[ray]'")
    output = tmp_path / "scale.md"
    main(["--rounds", "3", "--output", str(output)])
    say(output.read_text(encoding="utf-8"))
