"""``wse claims`` and ``wse race`` as they are called: their keys, their pages, and what they refuse."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Wse
from wse.claims.claims import CLAIMS, decide
from wse.cli.app import COMMANDS

KEYS = {"n", "claim", "command", "numbers", "verdict", "answer", "confidence", "reason", "source"}


def test_claims_are_numbered_and_show_their_figures_with_commands_that_exist() -> None:
    assert [claim.number for claim in CLAIMS] == list(range(1, 18))
    for claim in CLAIMS:
        program, command, *_ = claim.command.split()
        assert program == "wse"
        assert command in COMMANDS
        assert claim.source


@pytest.mark.slow
def test_claims_are_drawn_that_say_so() -> None:
    decided = decide()
    assert {claim.number for claim in CLAIMS if claim.is_drawn} == set(decided.curves)
    assert [claim.n for claim in decided.result.claims] == list(range(1, 18))


def test_a_claim_that_gpus_decide(wse: Wse) -> None:
    found = json.loads(wse("claims", "8", "11", "--json").out)["claims"]
    assert [claim["n"] for claim in found] == [8, 11]
    for claim in found:
        assert claim.keys() == KEYS
        assert claim["verdict"] in {"true", "false", "conditional", "undecided"}
        assert claim["confidence"] in {"high", "medium", "low"}
        assert all(number.keys() == {"value", "unit", "meaning"} for number in claim["numbers"].values())
    batch = found[0]["numbers"]["batch_llama_3_1_70b_h200"]["value"]
    assert 4 <= batch <= 32  # measured on eight H200: 2.16 times at 4 users of those at 64


def test_a_claim_is_explained_with_its_plot_and_page(wse: Wse, empty: Path) -> None:
    shown = wse("claims", "11", "--png", "eleven.png", "--page", "claims.md").out
    assert "Large mixtures" in shown
    assert "Its numbers" in shown
    assert (empty / "eleven.png").read_bytes().startswith(b"\x89PNG")
    page = (empty / "claims.md").read_text()
    assert "[11](#claim-11)" in page
    assert "## Claim 11" in page
    assert (empty / "claims-11.png").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["claims", "18"], "there are claims 1 to 17"),
        (["claims", "0"], "there are claims 1 to 17"),
        (["claims", "two"], "N 'two': give the number of a claim"),
        (["claims", "8", "11", "--png", "x.png"], "--png draws the plot of one claim"),
        (["claims", "7", "--png", "x.png"], "there is nothing to draw"),
        (["race", "story", "--speed", "0"], "--speed 0: give a number from 0.001 to 1000"),
        (["race", "story", "--gpu", "h20"], "did you mean 'h200'?"),
        (["race", "story", "--text", "none.txt"], "none.txt: does not exist"),
        (["race", "story", "--users", "0"], "--users 0"),
    ],
)
def test_what_cannot_be_is_told_in_a_line(wse: Wse, empty: Path, arguments: list[str], says: str) -> None:
    assert says in wse(*arguments).refusal()
    assert not any(empty.iterdir())


def test_a_race_of_the_bundled_model(wse: Wse, empty: Path) -> None:
    (empty / "answer.txt").write_text("One two three four five six seven eight nine ten. " * 4)
    ran = ("race", "story", "--mesh", "24x24", "--gpu", "h100", "--gpus", "1", "--users", "8", "--prompt-len", "64")
    ran += ("--dtype", "float16", "--text", "answer.txt")
    result = json.loads(wse(*ran, "--json", "--html", "race.html").out)
    tokens = result["tokens"]
    assert tokens == 44
    assert len(result["lanes"]) == 3
    done = [lane["done_s"] for lane in result["lanes"]]
    assert done == sorted(done)
    for lane in result["lanes"]:
        pace = lane["pace"]
        assert lane["done_s"] == pytest.approx(pace["first_token_s"] + (tokens - 1) * pace["step_s"])
    page = (empty / "race.html").read_text()
    assert "seven eight" in "".join(json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])["pieces"])  # type: ignore[index]
    assert "whole answer" in wse(*ran).out
