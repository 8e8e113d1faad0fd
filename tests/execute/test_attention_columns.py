"""Attention on the columns in the middle of a region: logits are those of a plain decoder."""

from __future__ import annotations

import pytest
from tiers import slow_but
from tiny_model import latent_spec, tiny_spec
from tiny_run import tiny_session, worst_logit_error
from trait_specs import POSITIONS, TRAITS, norms_spec

from wse.compiler.options import BASELINE, OPTIMIZED, THIN_GEMM
from wse.models.spec import ModelSpec

MESH, COLUMNS = (4, 9), 4
PROMPT = (5, 3, 200, 17, 88, 41, 9)
SPECS: dict[str, ModelSpec] = {
    "heads": tiny_spec(),
    "fewer columns than heads": tiny_spec(heads=8, kv_heads=8),
    "latent": latent_spec(),
    "latent without a source": latent_spec(q_rank=0),
    "window, chunks, sinks, caps": TRAITS,
    "layer norm, positions": POSITIONS,
    "norms of heads and blocks": norms_spec(),
}


@pytest.mark.parametrize("columns", slow_but([1, 3, COLUMNS, 8], COLUMNS))
@pytest.mark.parametrize("schedule", [BASELINE, OPTIMIZED])
@pytest.mark.parametrize("kind", SPECS)
def test_logits_are_those_of_a_plain_decoder(kind: str, schedule: str, columns: int) -> None:
    """The prompt comes in chunks of 4, 4 and 3 tokens."""
    worst = worst_logit_error(SPECS[kind], MESH, chunk=4, schedule=schedule, attention_cols=columns)
    assert worst <= 1e-5, f"largest difference {worst:.2e} of the largest logit, allowed 1e-5"


def test_more_columns_than_a_region_has_are_all() -> None:
    wide, whole = (
        tiny_session(SPECS["latent"], MESH, THIN_GEMM, PROMPT, 4, attention_cols=columns).program for columns in (64, 0)
    )
    assert wide.digest() == whole.digest()
