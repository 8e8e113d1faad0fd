"""``wse claims`` as it is called: its keys, and claims that are decided."""

import json

import pytest
from tiers import AT_REQUEST

from tests.cli.conftest import Wse
from wse.cli.app import COMMANDS
from wse.studies.claims.study import CLAIMS, decide

KEYS = {"n", "claim", "command", "numbers", "verdict", "certainty", "answer", "reason", "source"}
LONGEST = (1, 2, 4, 5, 6, 13, 14, 16, 17)
"""Claims that take five seconds and more: they are decided where WSE_ALL_OUTPUTS is set, as for the page of all."""


def test_claims_are_numbered_and_show_their_figures_with_commands_that_exist() -> None:
    assert [claim.number for claim in CLAIMS] == list(range(1, 18))
    for claim in CLAIMS:
        program, command, *_ = claim.command.split()
        assert program == "wse"
        assert command in COMMANDS
        assert claim.source


VERDICTS = (
    dict.fromkeys(range(1, 18), "conditional") | {2: "false", 17: "false"} | dict.fromkeys((11, 12, 13, 14, 15), "true")
)
AT_ENDS = (5,)
"""Claims that are decided with all constants at their low and at their high ends. The others have samples."""


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
    assert result.verdict == VERDICTS[number]
    assert (result.share_of_samples is not None) == (result.samples is not None) == (number not in AT_ENDS)
    assert result.certainty
    assert result.numbers


def test_claim_that_gpus_decide(wse: Wse) -> None:
    found = json.loads(wse("claims", "8", "11", "--json").out)["claims"]
    assert [claim["n"] for claim in found] == [8, 11]
    for claim in found:
        assert claim.keys() - {"samples", "share_of_samples", "decisive"} == KEYS
        assert claim["verdict"] in {"true", "false", "conditional", "undecided"}
        assert all(number.keys() == {"value", "unit", "meaning"} for number in claim["numbers"].values())
    batch = found[0]["numbers"]["batch_llama_3_1_70b_h200"]["value"]
    assert 4 <= batch <= 32  # measured on eight H200: 2.16 times at 4 users of those at 64
