"""Tests of the pages: shown commands and options exist, and links and paths lead to existing files."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from wse.cli.app import command
from wse.cli.reference.files import COMMITTED, FILES

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
CURRENT_PAGES = [*(page for page in PAGES if page.parent.name != "decisions"), ROOT / "traces" / "FORMAT.md"]
"""Pages that describe the current state. Pages on decisions also describe earlier states."""
PATH = re.compile(
    r"(?<![\w/.])((?:wse|tests|tools|kernels|mappings|traces|docs|wse_mappings|wse_kernels|wse_traces)/[\w./-]*\w)"
)
ADDED = re.compile(r"^\+\+\+ b/(\S+)$", re.MULTILINE)
"""Files that the diffs of a page add or change."""
BETWEEN_BACKTICKS = re.compile(r"(?<!`)`(wse [a-z][^`\n]*)`")
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


def shown_commands() -> Iterator[tuple[str, str]]:
    """Yield each command of ``wse`` in a block of shell input or between backticks, with the page that shows it."""
    for page in PAGES:
        name, text = str(page.relative_to(ROOT)), page.read_text(encoding="utf-8")
        for line in text.splitlines():
            if line.startswith("$ wse "):
                yield name, line.removeprefix("$ ").partition("  #")[0]
        if page in CURRENT_PAGES:
            yield from ((name, line) for line in BETWEEN_BACKTICKS.findall(text))


COMMANDS = sorted(set(shown_commands()))


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_shown_command_has_its_options(page: str, line: str) -> None:
    words = shlex.split(line)[1:]
    click_command = command().get_command(None, words[0])
    assert click_command is not None, page
    known = {
        name for parameter in click_command.params if not getattr(parameter, "hidden", False) for name in parameter.opts
    }
    options = [word.partition("=")[0] for word in words[1:] if re.match(r"--?[a-z]", word)]
    assert set(options) <= known, page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_existing_files(page: Path) -> None:
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    missing = [target for target in targets if "://" not in target and not (page.parent / target).exists()]
    assert not missing


def test_every_page_is_linked_from_the_start_page() -> None:
    docs, found, queue = ROOT / "docs", set(), [ROOT / "docs" / "README.md"]
    while queue:
        page = queue.pop()
        if page not in found:
            found.add(page)
            text = page.read_text(encoding="utf-8") if page.suffix == ".md" else ""
            queue += [(page.parent / link).resolve() for link in LINK.findall(text) if "://" not in link]
    not_committed = {ROOT / path for path in FILES.keys() - COMMITTED.keys()}
    assert {page for kind in ("md", "ipynb") for page in docs.rglob(f"*.{kind}")} - not_committed <= found


@pytest.mark.parametrize("page", CURRENT_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_paths_exist(page: Path) -> None:
    roots = (ROOT, ROOT / "kernels", ROOT / "mappings", ROOT / "traces")
    text = page.read_text(encoding="utf-8")
    named = set(PATH.findall(text)) - set(ADDED.findall(text)) - FILES.keys()
    assert not [path for path in named if not any((root / path).exists() for root in roots)]
