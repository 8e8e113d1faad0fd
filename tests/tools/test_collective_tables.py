"""Tests that docs/collectives.md has the tables that the script computes."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "collectives.md"


@pytest.mark.slow
def test_page_has_the_tables_of_the_script(script: ModuleType) -> None:
    remedy = "run: python tools/collective_tables.py docs/collectives.md"
    assert script.tables() in PAGE.read_text(encoding="utf-8"), remedy


def test_writing_twice_changes_nothing(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "SIZES", [(8, 16)])
    page = tmp_path / "page.md"
    page.write_text(f"before\n{script.BEGIN}old{script.END}\nafter\n", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["collective_tables.py", str(page)])
    script.main()
    once = page.read_text(encoding="utf-8")
    script.main()
    assert page.read_text(encoding="utf-8") == once == f"before\n{script.tables()}\nafter\n"
