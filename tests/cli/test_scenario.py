"""``wse scenario``: bundled scenarios listed and answered, and files of one's own."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Wse
from tests.reference.test_json_keys import hold
from wse.studies.scenario.request import bundled_scenarios
from wse.studies.scenario.result import ScenarioResult, ScenariosResult

FILE = """
title = "The story model"
question = "Is it as fast as that?"
prompt_len = 32
new_tokens = 32

[[models]]
model = "story"

[[machines]]
wafer = "wse3"
mesh = "24x24"
mapping = "bands"
schedule = "baseline"

[[drafts]]

[[drafts]]
draft = "0.9,0.8"

[[published]]
figure = "tokens_per_s_per_user"
value = 10_000
relation = "at_least"
confidence = "low"
reason = "invented"
by = "independent"
source = "nowhere"
"""


def test_bundled_scenarios_are_listed(wse: Wse) -> None:
    shown = json.loads(wse("scenario", "--json").out)
    hold(shown, ScenariosResult)
    assert [row["name"] for row in shown["scenarios"]] == list(bundled_scenarios())
    text = wse("scenario").out
    assert all(name in text for name in bundled_scenarios())


def test_file_of_ones_own_with_its_page_and_plot(wse: Wse, empty: Path) -> None:
    (empty / "story.toml").write_text(FILE, encoding="utf-8")
    answer = wse("scenario", "story.toml", "--json", "--html", "s.html", "--png", "s.png")
    assert answer.code == 0, answer.err
    result = json.loads(answer.out)
    hold(result, ScenarioResult)
    assert len(result["verdict"]) == 2
    assert [row["agreement"] for row in result["combinations"]] == ["consistent", "consistent"]
    assert result["verdict"][0] in (empty / "s.html").read_text(encoding="utf-8")
    assert (empty / "s.png").read_bytes().startswith(b"\x89PNG")
