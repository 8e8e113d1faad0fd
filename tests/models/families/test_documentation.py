"""docs/adding-a-model.md shows the file that is there."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_diff_that_is_shown_is_the_file_that_is_there() -> None:
    page = (ROOT / "docs" / "adding-a-model.md").read_text(encoding="utf-8")
    shown = page.split("```diff\n")[1].split("```")[0].splitlines()
    lines = (ROOT / "wse" / "models" / "families" / "phi3.py").read_text(encoding="utf-8").splitlines()
    assert shown[4] == f"@@ -0,0 +1,{len(lines)} @@"
    assert shown[5:] == [f"+{line}" for line in lines]
