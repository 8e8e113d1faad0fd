"""Test of growth.py, which writes docs/performance.md, with few values and repetitions."""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks.conftest import BySize, Say
from tests.benchmarks.growth import MEANINGS, main


def test_growth_writes_an_exponent_for_each_series(by_size: BySize, say: Say, tmp_path: Path) -> None:
    output = tmp_path / "performance.md"
    main(["--values", by_size(small="2", full="5"), "--rounds", by_size(small="2", full="9"), "--output", str(output)])
    lines = output.read_text(encoding="utf-8").splitlines()
    exponents = [line.partition(": ")[2] for line in lines if line.startswith("- ") and "**" in line]
    assert len(exponents) == len(MEANINGS)
    say("\n    ".join(f"{MEANINGS[name][0]:20}{text}" for name, text in zip(MEANINGS, exponents, strict=True)))


def test_sections_of_other_scripts_follow_the_series_and_are_replaced(tmp_path: Path) -> None:
    page, first, second = (tmp_path / name for name in ("page.md", "one.md", "other.md"))
    page.write_text("# Series\n", encoding="utf-8")
    first.write_text("## One\n", encoding="utf-8")
    second.write_text("## Other\n", encoding="utf-8")
    main(["--keep", "--output", str(page), "--sections", str(first)])
    main(["--keep", "--output", str(page), "--sections", str(second)])
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# Series\n")
    assert "## Other" in text
    assert "## One" not in text
