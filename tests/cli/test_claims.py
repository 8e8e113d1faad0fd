"""``wse claims`` and ``wse race`` as they are called: their keys, their pages, and what they refuse."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tiers import AT_REQUEST

import wse as api
from tests.cli.conftest import Wse
from wse.cli.app import COMMANDS
from wse.findings.claims import CLAIMS, decide

KEYS = {"n", "claim", "command", "numbers", "verdict", "answer", "confidence", "reason", "source"}
LONGEST = (1, 2, 4, 5, 6, 13, 14, 16, 17)
"""Claims that take five seconds and more: they are decided where WSE_ALL_OUTPUTS is set, as for the page of all."""


def test_claims_are_numbered_and_show_their_figures_with_commands_that_exist() -> None:
    assert [claim.number for claim in CLAIMS] == list(range(1, 18))
    for claim in CLAIMS:
        program, command, *_ = claim.command.split()
        assert program == "wse"
        assert command in COMMANDS
        assert claim.source


@pytest.mark.slow
@pytest.mark.xdist_group("claims")  # many ask for the same models, which a process searches for once
@pytest.mark.parametrize(
    "number", [pytest.param(number, marks=[AT_REQUEST] * (number in LONGEST)) for number in range(1, 18)]
)
def test_each_claim_is_decided_and_drawn_where_it_says_so(number: int) -> None:
    decided = decide([number])
    (claim,) = (claim for claim in CLAIMS if claim.number == number)
    assert claim.is_drawn == (number in decided.curves)
    (result,) = decided.result.claims
    assert result.n == number
    assert result.verdict in {"true", "false", "conditional", "undecided"}
    assert result.numbers


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
        (["claims", "18"], "give the number of a claim, 1 to 17"),
        (["claims", "0"], "give the number of a claim, 1 to 17"),
        (["claims", "two"], "N 'two': give the number of a claim"),
        (["claims", "8", "11", "--png", "x.png"], "--png draws the plot of one claim"),
        (["claims", "7", "--png", "x.png"], "there is nothing to draw"),
        (["race", "story", "--speed", "0"], "--speed 0: give a number from 0.001 to 1000"),
        (["race", "story", "--gpu", "h20"], "did you mean 'h200'?"),
        (["race", "story", "--text", "none.txt"], "none.txt: does not exist"),
        (["race", "story", "--users", "0"], "--users 0"),
        (
            ["race", "llama-3-8b", "--gpus", "1", "--users", "4000"],
            "--users 4000: beside llama-3-8b as bfloat16 the KV cache of 1 h200 holds 668 users of 1,335 tokens; give "
            "--users 668, or more --gpus",
        ),
        (["race", "story", "--users", "5000"], "serves at most 1,024 users at a time on 8 h200; give --users 1024"),
        (["race", "story", "--load", "1"], "--load 1: give a share above 0 and below 1"),
        (["race", "story", "--rate", "0"], "--rate 0: give requests a second of more than 0"),
        (["race", "story", "--rate", "1", "--load", "0.5"], "--rate and --load: one follows from the other"),
        (["race", "story", "--users", "2", "--load", "0.5"], "--users 2: with --load and --rate users follow"),
        (
            ["race", "story", "--prompt-len", "4000"],
            "the answer of some 311 tokens and --prompt-len 4000: more than the ",
        ),
        (["race", "llama-3-8b", "--context", "300"], "the answer of some 311 tokens: more than --context 300"),
        (["race", "story", "--draft", "typicl"], "did you mean 'typical'?"),
    ],
)
def test_what_cannot_be_is_told_in_a_line(wse: Wse, empty: Path, arguments: list[str], says: str) -> None:
    assert says in wse(*arguments).refusal()
    assert not any(empty.iterdir())


SMALL_RACE = ("race", "story", "--mesh", "24x24", "--gpu", "h100", "--gpus", "1", "--dtype", "float16", "--json")


@pytest.mark.slow
def test_a_race_under_load_waits_in_the_queues_that_serving_has(wse: Wse) -> None:
    """Beside the machines alone come those that others use too: tokens come later and slower, and are cheaper."""
    result = json.loads(wse(*SMALL_RACE, "--prompt-len", "64", "--load", "0.8").out)
    lanes = {lane["pace"]["name"]: lane for lane in result["lanes"]}
    assert len(lanes) == 4
    for machine in ("wafer", "GPU"):
        alone, shared = (
            next(lane for name, lane in lanes.items() if machine in name and how in name) for how in ("alone", "among")
        )
        assert alone["pace"]["queue_s"] == 0 <= shared["pace"]["queue_s"]
        assert shared["tokens_per_s"] < alone["tokens_per_s"]
        if machine == "GPU":  # whose passes users share; requests wait for the pass under way
            assert shared["pace"]["queue_s"] > 0
            assert shared["usd_per_million_tokens"] < alone["usd_per_million_tokens"]
        assert ", float16, 80% of" in shared["note"]
    options = {"model": "story", "gpu": "h100", "gpus": 1, "dtype": "float16", "prompt_len": 64, "new_tokens": 311}
    served = api.serve_sim(**options, load=0.8, requests=4_000).served
    pace = next(lane["pace"] for name, lane in lanes.items() if "GPU" in name and "among" in name)
    assert pace["queue_s"] == pytest.approx(served.all.queueing.mean)
    assert pace["step_s"] == pytest.approx(served.all.tpot.mean)


@pytest.mark.slow
def test_a_rate_that_one_machine_cannot_serve_is_told(wse: Wse) -> None:
    said = wse(*SMALL_RACE, "--prompt-len", "64", "--rate", "20000").refusal()
    assert re.search(r"--rate 20000: 1 (wafer|GPU) \S+ can serve \S+ requests/s at most; give less, or --load", said)


@pytest.mark.slow
def test_a_race_with_drafts_comes_in_steps(wse: Wse) -> None:
    plain, drafted = (
        json.loads(wse(*SMALL_RACE, "--prompt-len", "64", "--users", "4", *draft).out)["lanes"]
        for draft in ((), ("--draft", "0.9,0.9"))
    )
    for machine in ("GPU h100, alone", "GPU h100, among 4 users"):
        before, after = (next(lane for lane in lanes if machine in lane["pace"]["name"]) for lanes in (plain, drafted))
        assert after["pace"]["tokens_per_step"] == pytest.approx(2.71)
        assert after["tokens_per_s"] > 1.5 * before["tokens_per_s"]
        assert after["note"].endswith("2 tokens drafted")


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
