"""Tests of the pages: shown commands and options exist, and links and paths lead to existing files."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from wse.cli.app import command

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


def test_shown_commands_have_their_options() -> None:
    commands = set(shown_commands())
    assert len(commands) > 100
    for page, line in commands:
        words = shlex.split(line)[1:]
        click_command = command().get_command(None, words[0])
        assert click_command is not None, (page, line)
        parameters = (each for each in click_command.params if not getattr(each, "hidden", False))
        known = {name for parameter in parameters for name in parameter.opts}
        options = {word.partition("=")[0] for word in words[1:] if re.match(r"--?[a-z]", word)}
        assert options <= known, (page, line)


def test_links_lead_to_existing_files() -> None:
    links = [(page, target) for page in PAGES for target in LINK.findall(page.read_text(encoding="utf-8"))]
    assert [link for link in links if "://" not in link[1] and not (link[0].parent / link[1]).exists()] == []


def test_every_page_is_linked_from_the_start_page() -> None:
    docs, found, queue = ROOT / "docs", set(), [ROOT / "docs" / "README.md"]
    while queue:
        page = queue.pop()
        if page not in found:
            found.add(page)
            text = page.read_text(encoding="utf-8") if page.suffix == ".md" else ""
            queue += [(page.parent / link).resolve() for link in LINK.findall(text) if "://" not in link]
    assert {page for kind in ("md", "ipynb") for page in docs.rglob(f"*.{kind}")} <= found


def test_named_paths_exist() -> None:
    roots = (ROOT, ROOT / "kernels", ROOT / "mappings", ROOT / "traces")
    for page in CURRENT_PAGES:
        text = page.read_text(encoding="utf-8")
        named = set(PATH.findall(text)) - set(ADDED.findall(text))
        assert [path for path in named if not any((root / path).exists() for root in roots)] == [], page
