"""What comes with wse, listed and used by name."""

from __future__ import annotations

import json

from tests.cli.conftest import Wse


def test_wafers_mark_what_was_only_announced(wse: Wse) -> None:
    text = wse("wafers").out
    assert [line.split()[0] for line in text.splitlines() if " * " in line and "x" in line] == ["cs4"]
    assert json.loads(wse("wafers", "--json").out)["announced"] == ["cs4"]
    for name, announced in (("CS4", True), ("wse2", False), ("wse3", False)):
        facts = json.loads(wse("wafers", name, "--json").out)
        assert (facts["name"], facts["announced"]) == (name.lower(), announced)
