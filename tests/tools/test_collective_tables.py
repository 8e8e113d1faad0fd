"""The page on collectives has the tables of today's models."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "collectives.md"


@pytest.mark.slow
def test_page_is_as_the_script_writes_it(script: ModuleType) -> None:
    told = "run: python tools/collective_tables.py docs/collectives.md"
    assert script.tables() in PAGE.read_text(encoding="utf-8"), told


def test_writing_twice_changes_nothing(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "SIZES", [(8, 16)])
    page = tmp_path / "page.md"
    page.write_text(f"before\n{script.BEGIN}old{script.END}\nafter\n", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["collective_tables.py", str(page)])
    script.main()
    once = page.read_text(encoding="utf-8")
    script.main()
    assert page.read_text(encoding="utf-8") == once == f"before\n{script.tables()}\nafter\n"
