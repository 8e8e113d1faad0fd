"""Tests of ``wse claims``: the list of claims and their verdicts."""

import pytest
from tiers import AT_REQUEST

from wse.cli.app import COMMANDS
from wse.studies.claims.study import CLAIMS, decide

SLOW_CLAIMS = (1, 2, 3, 4, 5, 6, 10, 13, 14, 16, 17)
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
    decided, curves = decide([number])
    (claim,) = (claim for claim in CLAIMS if claim.number == number)
    assert claim.is_drawn == (number in curves)
    (result,) = decided.claims
    assert result.n == number
    assert result.verdict == VERDICTS[number]
    assert (result.share_of_samples is not None) == (result.samples is not None) == (number not in WITHOUT_SAMPLES)
    assert result.certainty
    assert result.numbers


def test_batch_on_gpus_agrees_with_a_measurement() -> None:
    """On eight H200, a user was measured to be 2.16 times as fast with 4 users as with 64."""
    (claim,) = decide([8])[0].claims
    assert 4 <= claim.numbers["batch_llama_3_1_70b_h200"].value <= 32
