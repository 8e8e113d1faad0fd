"""What comes with wse, listed and used by name."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Wse


def test_wafers_mark_what_was_only_announced(wse: Wse) -> None:
    text = wse("wafers").out
    assert [line.split()[0] for line in text.splitlines() if " * " in line and "x" in line] == ["cs4"]
    assert json.loads(wse("wafers", "--json").out)["announced"] == ["cs4"]
    for name, announced in (("CS4", True), ("wse2", False), ("wse3", False)):
        facts = json.loads(wse("wafers", name, "--json").out)
        assert (facts["name"], facts["announced"]) == (name.lower(), announced)


@pytest.mark.parametrize("arguments", [(), ("--mesh", "4x4")])
def test_configuration_has_no_weights_to_run(wse: Wse, arguments: tuple[str, ...]) -> None:
    """That is said before anything is compiled, however little fits."""
    line = wse("run", "llama-3-8b", *arguments).refusal()
    assert line.startswith("wse: llama-3-8b: has no weights to run; run it on random ones with --weights random:0, ")
