"""tools/page_outputs.py writes outputs into blocks of pages and keeps their cuts."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from tool_scripts import import_script

ROOT = Path(__file__).parents[2]
OUTPUT = """
Answer  of two
  wafers        5
  TTFT    12.5 ms

Users at a time
  users     TTFT
      1  12.5 ms
      2  14.5 ms
     16  99.5 ms
  users  in flight
"""
"""What a command prints now; blocks below have older numbers."""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return import_script("page_outputs")


@pytest.mark.parametrize(
    ("block", "filled"),
    [
        ("Answer of\ntwo\n...\n", "Answer of\ntwo\n...\n"),  # still true, though folded
        ("Answer  of two\n  wafers  4\n...\n", "Answer  of two\n  wafers        5\n...\n"),
        (
            "...\nUsers at a time\n  users   TTFT\n      1  11 ms\n      2  12 ms\n...\n",
            "...\nUsers at a time\n  users     TTFT\n      1  12.5 ms\n      2  14.5 ms\n...\n",
        ),
        (
            "Answer  of two\n  wafers  4\n...\n     16  98 ms\n  users  in flight\n",
            "Answer  of two\n  wafers        5\n...\n     16  99.5 ms\n  users  in flight\n",
        ),
    ],
)
def test_pieces_of_a_block_are_found_with_other_numbers(script: ModuleType, block: str, filled: str) -> None:
    assert script.refilled(block, OUTPUT) == (filled, True)


def test_block_whose_pieces_are_not_found_gets_the_whole_output(script: ModuleType) -> None:
    assert script.refilled("...\nSomething quite different\n...\n", OUTPUT) == (OUTPUT.removeprefix("\n"), False)


def test_page_gets_what_the_command_prints(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    before, after = "Text\n\n<!-- $ wse gpus h100 -->\n```text\n", "```\n\n<!-- $ wse absent -->\n```text\nkept\n```\n"
    output = script.printed("gpus h100", "", "")
    page.write_text(f"{before}{output.replace('85,899', '70,000')}{after}", encoding="utf-8")
    script.rewrite(page, "gpus")
    assert page.read_text(encoding="utf-8").split() == f"{before}{output}{after}".split()
    assert capsys.readouterr().out == "page.md: wse gpus h100: changed\n"
    script.rewrite(page, "gpus")
    assert capsys.readouterr().out == ""
