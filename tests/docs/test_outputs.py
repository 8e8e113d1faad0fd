"""What pages show of a command is what it prints: blocks behind ``<!-- $ wse ... -->``, cut where a line is ``...``.

Of commands that stand after each other with ``&&`` between, it is the last one's. A command ``with FILE:`` has a file
of the page beside it, the block behind ``<!-- FILE -->``.
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
"""A line of a block instead of output that is left out."""
LONG = ("estimate llama", "serve-sim", "sweep")
"""What commands begin with that take a second and more."""
LONGEST = (
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
"""What commands begin with that take five seconds and more: they are looked at where WSE_ALL_OUTPUTS is set."""


def shown_outputs() -> Iterator[object]:
    for page in PAGES:
        for file, command, block in BLOCK.findall(page.read_text(encoding="utf-8")):
            longest = command.startswith(LONGEST)
            marks = [pytest.mark.slow] * (longest or command.startswith(LONG)) + [AT_REQUEST] * longest
            yield pytest.param(page, file, command, block, id=f"{page.stem}: wse {command}", marks=marks)


@pytest.mark.parametrize(("page", "file", "command", "block"), list(shown_outputs()))
def test_page_shows_what_a_command_prints(
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
    for each in command.split(" && wse "):
        capsys.readouterr()
        assert main(shlex.split(each)) == 0
    printed = words(capsys.readouterr().out)
    for piece in filter(str.strip, CUT.split(block)):
        before, at, printed = printed.partition(words(piece))
        assert at, f"not behind {before[-80:]!r}: {piece}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_names_the_commands_of_its_outputs(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    visible = words(re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL))
    commands = [each for _, command, _ in BLOCK.findall(text) for each in f"wse {command}".split(" && ")]
    assert not [command for command in commands if command not in visible]


@pytest.mark.slow
def test_table_of_the_tutorial_has_the_numbers_of_estimates() -> None:
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


def words(text: str) -> str:
    """A text with one space instead of each stretch of white space: long lines are folded on pages."""
    return " ".join(text.split())
