"""Tests of the outputs in the pages: each block after ``<!-- $ wse ... -->`` is what the command prints.

- A line ``...`` in a block stands for lines that are left out.
- If the comment joins several commands with ``&&``, the block shows the output of the last one.
- A comment ``<!-- with FILE: $ wse ... -->`` needs a file, whose content is the block after ``<!-- FILE -->``.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from tiers import AT_REQUEST

import wse
from wse.cli import main

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    [ROOT / "README.md", *(page for path in ("", "explanation", "how-to") for page in (DOCS / path).glob("*.md"))]
)
BLOCK = re.compile(r"<!-- (?:with ([\w./-]+): )?\$ wse ([^\n]*) -->\n```text\n(.*?)```", re.DOTALL)
CUT = re.compile(r"^\.\.\.$\n?", re.MULTILINE)
"""A line of a block that stands for omitted output."""
SLOW = ("estimate llama", "serve-sim", "sweep")
"""Beginnings of commands that take at least 1 s; they are slow tests."""
VERY_SLOW = (
    "estimate llama-3-8b",
    "estimate llama-3.1-70b --what-if",
    "estimate llama-3.1-70b --trace",
    "estimate qwen3-next",
    "compare llama",
    "scenario",
    "validate",
    "run --draft",
    "run mixture",
    "estimate llama-3.1-70b --wafers 8",
    "serve-sim llama-3-8b --length-cv",
    "serve-sim llama-3-8b --workload",
    "sweep story --set mesh",
    "sweep gpt-oss",
)
"""Beginnings of commands that take at least 5 s; they are tested only if WSE_ALL_OUTPUTS is set."""


def shown_outputs() -> Iterator[object]:
    """Yield (page, file or "", command, block) of each output in the pages as test parameters."""
    for page in PAGES:
        for file, command, block in BLOCK.findall(page.read_text(encoding="utf-8")):
            is_very_slow = command.startswith(VERY_SLOW)
            is_slow = is_very_slow or command.startswith(SLOW)
            marks = [pytest.mark.slow] * is_slow + [AT_REQUEST] * is_very_slow
            yield pytest.param(page, file, command, block, id=f"{page.stem}: wse {command}", marks=marks)


@pytest.mark.parametrize(("page", "file", "command", "block"), list(shown_outputs()))
def test_block_equals_the_output_of_its_command(
    page: Path,
    file: str,
    command: str,
    block: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    if file:
        text = page.read_text(encoding="utf-8")
        (source,) = re.findall(rf"<!-- {re.escape(file)} -->\n```\w+\n(.*?)```", text, re.DOTALL)
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(source, encoding="utf-8")
    for single_command in command.split(" && wse "):
        capsys.readouterr()
        assert main(shlex.split(single_command)) == 0
    printed = single_spaced(capsys.readouterr().out)
    for piece in filter(str.strip, CUT.split(block)):
        before, match, printed = printed.partition(single_spaced(piece))
        assert match, f"not printed after {before[-80:]!r}: {piece}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_shows_the_command_of_each_block(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    visible = single_spaced(re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL))
    commands = [line for _, command, _ in BLOCK.findall(text) for line in f"wse {command}".split(" && ")]
    assert not [command for command in commands if command not in visible]


@pytest.mark.slow
def test_tutorial_table_equals_estimates() -> None:
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+x\d+) \| (.*) \|$", page, re.MULTILINE)
    assert len(rows) > 2
    for mesh, cells in rows:
        result = wse.estimate("story", mesh=mesh, prompt_len=12, new_tokens=64)
        decode = result.decode
        causes = (decode.cycles_by[cause] for cause in ("compute", "launch", "hops", "relays"))
        pes = result.wafer.rows * result.wafer.cols
        in_use = sum(stage.rows * stage.cols for stage in result.system.stages)
        numbers = (pes, in_use, decode.cycles_per_token, *causes, decode.tokens_per_s_per_user)
        assert cells == " | ".join(f"{number:,.0f}" for number in numbers), mesh


def single_spaced(text: str) -> str:
    """Replace all white space by single spaces, because pages wrap long lines."""
    return " ".join(text.split())
