"""Tests of the cost of an MoE prefill chunk: more tokens per expert never decrease cycles or link words."""

from functools import cache
from typing import Final

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_router import MIXTURES, mixture_spec
from tiny_run import tiny_session

from wse.backends.fabric.model import Fabric
from wse.compiler.options import THIN_GEMM

PROMPT, EXPERTS = [5, 17, 40, 9], MIXTURES["shared"].count
LOADS: Final = st.lists(st.integers(0, len(PROMPT)), min_size=EXPERTS, max_size=EXPERTS)


@cache
def fabric(placement: str) -> Fabric:
    spec = mixture_spec(MIXTURES["shared"], layers=3)
    return tiny_session(spec, (4, 5), THIN_GEMM, PROMPT, 3, experts=placement).fabric()


@settings(max_examples=25, deadline=None)
@given(loads=LOADS, added=LOADS, placement=st.sampled_from(["2", "dedicated"]))
def test_cost_does_not_fall_with_more_tokens_per_expert(loads: list[int], added: list[int], placement: str) -> None:
    few_tokens = np.array(loads, np.int64)
    more_tokens = np.minimum(few_tokens + added, len(PROMPT))
    light, heavy = (
        fabric(placement).prefill_cost(0, {1: pairs, 2: pairs[::-1]}) for pairs in (few_tokens, more_tokens)
    )
    assert heavy.cycles >= light.cycles
    assert (heavy.links >= light.links).all()
    mixture = next(mixture for mixture in fabric(placement).program.mixtures if mixture is not None)
    busiest = [max(1, *mixture.pairs_by_column(pairs)) for pairs in (few_tokens, more_tokens)]
    if busiest[0] < busiest[1]:
        assert heavy.cycles > light.cycles
