"""The page on how the emulation's time grows (``python tests/benchmarks/growth.py``), from few values and rounds."""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks.conftest import BySize, Say
from tests.benchmarks.growth import MEANINGS, main


def test_growth(by_size: BySize, say: Say, tmp_path: Path) -> None:
    output = tmp_path / "performance.md"
    main(["--values", by_size(small="2", full="5"), "--rounds", by_size(small="2", full="9"), "--output", str(output)])
    lines = output.read_text(encoding="utf-8").splitlines()
    exponents = [line.partition(":")[0] for line in lines if line.startswith("Exponent")]
    assert len(exponents) == len(MEANINGS)
    say("\n    ".join(f"{MEANINGS[name][0]:20}{text}" for name, text in zip(MEANINGS, exponents, strict=True)))
