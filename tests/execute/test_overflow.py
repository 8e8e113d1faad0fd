"""Values beyond float16 are named, not turned into wrong tokens."""

from __future__ import annotations

import numpy as np
import pytest
from compiled import compile_model
from session import SOFTWARE, region_options, wafer
from tiny_model import tensors, tiny_spec

from wse.backends.execute.engine import Engine
from wse.backends.execute.host_tokens.sampling import Sampler, Sampling
from wse.errors import BadModel

SPEC = tiny_spec()


def engine(scale: float, dtype: str = "float16", sampling: str = "wafer") -> Engine:
    """The tiny model with its final gains times ``scale``."""
    options = region_options(dtype=dtype, context=12, prompt_tokens=(2,), sampling=sampling)
    made = tensors(SPEC)
    made["final_norm"] = (made["final_norm"] * scale).astype(np.float32)
    program = compile_model(SPEC, wafer(3, 3, 1 << 20), SOFTWARE, options)
    return Engine(program, SPEC, made.__getitem__, [Sampler(Sampling(temperature=1.0)).draw])


def test_a_weight_beyond_float16_is_named_with_the_remedy() -> None:
    with pytest.raises(
        BadModel, match=r"^final_norm: contains .*e\+06, more than float16's 65,504; use --dtype bfloat16"
    ):
        engine(1e6)


@pytest.mark.parametrize("sampling", ["wafer", "host"])
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_logits_that_are_not_numbers_are_no_token(sampling: str) -> None:
    run = engine(4e4, sampling=sampling)
    for arena in run.arenas.values():
        arena.view("float16")[...] = np.float16(np.inf).view(np.uint16)
    list(run.prefill([3, 4]))
    with pytest.raises(
        BadModel,
        match=r"^tiny: the logits are not numbers: .* overflowed float16; check the weights, or use --dtype bfloat16",
    ):
        _ = run.tokens
