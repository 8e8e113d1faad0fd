"""The published speeds that come with wse against the file that they were packed from."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from wse.validation.measured.measurements import read

ROOT = Path(__file__).parents[2]


def test_packed_speeds_are_those_of_the_file(shared: Path) -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        script = importlib.import_module("pack_public_speeds")
    finally:
        sys.path.remove(str(ROOT / "tools"))
    rows = read(shared / "reference" / "public_tokens_per_s.csv")
    packed = script.PACKED.read_text(encoding="utf-8")
    assert script.text_of(script.points_of(rows)) == packed
    assert "modelled" not in packed
