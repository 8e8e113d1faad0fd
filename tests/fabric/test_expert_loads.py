"""Cycles and words of experts that get more tokens: neither falls, whoever gets them."""

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
@given(loads=LOADS, more=LOADS, placement=st.sampled_from(["2", "dedicated"]))
def test_more_tokens_of_an_expert_take_no_less_time(loads: list[int], more: list[int], placement: str) -> None:
    fewer = np.array(loads, np.int64)
    further = np.minimum(fewer + more, len(PROMPT))
    light, heavy = (fabric(placement).prefill_cost(0, {1: pairs, 2: pairs[::-1]}) for pairs in (fewer, further))
    assert heavy.cycles >= light.cycles
    assert (heavy.links >= light.links).all()
    mixture = next(mixture for mixture in fabric(placement).program.mixtures if mixture is not None)
    busiest = [max(1, *mixture.pairs_by_column(pairs)) for pairs in (fewer, further)]
    if busiest[0] < busiest[1]:
        assert heavy.cycles > light.cycles
