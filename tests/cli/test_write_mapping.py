"""``--write-mapping``: the regions that a command placed, in a file that others take."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiers import slow_but

from tests.cli.conftest import Wse

LENGTHS = ("--prompt-len", "8", "--new-tokens", "8", "--schedule", "baseline")
COMMANDS = [("compile", *LENGTHS), ("estimate", *LENGTHS)]


@pytest.mark.parametrize("command", slow_but(COMMANDS, COMMANDS[0]), ids=lambda c: c[0])
def test_mapping_is_written_and_taken(wse: Wse, tmp_path: Path, command: tuple[str, ...]) -> None:
    name, *options = command
    path = tmp_path / "regions.toml"
    placed = wse(name, "story", *options, "--mesh", "24x24", "--mapping", "pipeline", "--write-mapping", path, "--json")
    assert placed.code == 0
    taken = wse("estimate", "story", *LENGTHS, "--mesh", "24x24", "--mapping", path, "--json")
    assert taken.code == 0
    stages, again = (json.loads(outcome.out)["system"]["stages"] for outcome in (placed, taken))
    assert len(stages) > 1
    assert again == stages
