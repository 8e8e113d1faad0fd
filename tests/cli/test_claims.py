"""Tests of ``wse claims``: the list of claims, their verdicts and the keys of the JSON output."""

import json

import pytest
from tiers import AT_REQUEST

from tests.cli.conftest import Wse
from wse.cli.app import COMMANDS
from wse.studies.claims.study import CLAIMS, decide

KEYS = {"n", "claim", "command", "numbers", "verdict", "certainty", "answer", "reason", "source"}
SLOW_CLAIMS = (1, 2, 4, 5, 6, 13, 14, 16, 17)
"""Claims that take at least 5 s to decide. They are tested only if WSE_ALL_OUTPUTS is set."""


def test_claims_are_numbered_and_name_existing_commands() -> None:
    assert [claim.number for claim in CLAIMS] == list(range(1, 18))
    for claim in CLAIMS:
        program, command, *_ = claim.command.split()
        assert program == "wse"
        assert command in COMMANDS
        assert claim.source


VERDICTS = (
    dict.fromkeys(range(1, 18), "conditional") | {2: "false", 17: "false"} | dict.fromkeys((11, 12, 13, 14, 15), "true")
)
WITHOUT_SAMPLES = (5,)
"""Claims decided with all constants at their low and at their high ends; the others sample the constants."""


@pytest.mark.slow
@pytest.mark.xdist_group("claims")  # claims share models, and each process searches for the layout of a model once
@pytest.mark.parametrize(
    "number", [pytest.param(number, marks=[AT_REQUEST] * (number in SLOW_CLAIMS)) for number in range(1, 18)]
)
def test_claim_has_the_expected_verdict_and_curves(number: int) -> None:
    decision = decide([number])
    (claim,) = (claim for claim in CLAIMS if claim.number == number)
    assert claim.is_drawn == (number in decision.curves)
    (result,) = decision.result.claims
    assert result.n == number
    assert result.verdict == VERDICTS[number]
    assert (result.share_of_samples is not None) == (result.samples is not None) == (number not in WITHOUT_SAMPLES)
    assert result.certainty
    assert result.numbers


def test_claims_about_gpus_have_the_documented_keys(wse: Wse) -> None:
    claims = json.loads(wse("claims", "8", "11", "--json").out)["claims"]
    assert [claim["n"] for claim in claims] == [8, 11]
    for claim in claims:
        assert claim.keys() - {"samples", "share_of_samples", "decisive"} == KEYS
        assert claim["verdict"] in {"true", "false", "conditional", "undecided"}
        assert all(number.keys() == {"value", "unit", "meaning"} for number in claim["numbers"].values())
    batch = claims[0]["numbers"]["batch_llama_3_1_70b_h200"]["value"]
    assert 4 <= batch <= 32  # measured on eight H200: 2.16 times as fast per user with 4 users as with 64
