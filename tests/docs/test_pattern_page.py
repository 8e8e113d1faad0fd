"""The how-to page on patterns: its own pattern, in a file, gives what the page shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from wse.cli import main

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "pattern.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"<!-- with mine.py: \$ wse ([^\n]*) -->\n```text\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("command", "block"), BLOCKS, ids=[command for command, _ in BLOCKS])
def test_the_pattern_of_the_page_gives_what_it_shows(
    command: str, block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = re.findall(r"<!-- mine.py -->\n```python\n(.*?)```", PAGE, re.DOTALL)[0]
    (tmp_path / "mine.py").write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    assert main(shlex.split(command)) == 0
    printed = " ".join(capsys.readouterr().out.split())
    for piece in filter(str.strip, re.split(r"^\.\.\.$", block, flags=re.MULTILINE)):
        before, at, printed = printed.partition(" ".join(piece.split()))
        assert at, f"not behind {before[-80:]!r}: {piece}"


def test_the_page_shows_its_pattern() -> None:
    assert any("mine.py:mine" in command for command, _ in BLOCKS)
