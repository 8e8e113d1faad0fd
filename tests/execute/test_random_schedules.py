"""Random models, meshes, users and rewrites: logits of the plain decoder, and words that the fabric counts as well."""

from __future__ import annotations

import pytest
from random_schedules import random_case, run_case

ERROR = 2e-5
"""The largest error of a logit, relative to the largest logit."""

QUICK, SECOND_LOOKS = 8, 40


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[] if seed < QUICK else [pytest.mark.slow]) for seed in range(SECOND_LOOKS)]
)
def test_any_rewrites_give_the_logits_and_the_words_of_the_oracles(seed: int) -> None:
    """Prompts in chunks, tokens of all users at once and a pass for each, on any columns of attention."""
    case = random_case(seed)
    run = run_case(case)
    assert run.worst <= ERROR, case.description
    assert run.tokens_agree, case.description
