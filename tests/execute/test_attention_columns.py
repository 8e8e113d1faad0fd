"""Attention on the columns in the middle of a region: logits are those of a plain decoder, whatever is on the others.

Both timing readers see the same steps: words on links are those that execution moves, and what the reference counts is
near to what the fabric model says.
"""

from __future__ import annotations

import numpy as np
import pytest
from session import Session
from tiers import slow_but
from tiny_model import latent_spec, tiny_spec
from tiny_run import tiny_session, worst_logit_error
from trait_specs import POSITIONS, TRAITS, norms_spec

from wse.compiler.options import BASELINE, OPTIMIZED, THIN_GEMM
from wse.models.spec import ModelSpec
from wse.program.steps import ROWS
from wse.program.transfers.patterns import AlongLine
from wse.program.transfers.transfer_types import is_of_type

MESH, COLUMNS = (4, 9), 4
PROMPT, NEW_TOKENS = (5, 3, 200, 17, 88, 41, 9), 4
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
    wide, whole = (decoded(SPECS["latent"], columns).program for columns in (64, 0))
    assert wide.digest() == whole.digest()


def decoded(spec: ModelSpec, columns: int) -> Session:
    session = tiny_session(spec, MESH, THIN_GEMM, PROMPT, NEW_TOKENS, chunk=4, attention_cols=columns)
    session.greedy(NEW_TOKENS)
    return session


@pytest.mark.parametrize("kind", ["heads", "latent"])
def test_weights_and_sums_of_attention_are_on_its_columns(kind: str) -> None:
    """Those of feed-forward blocks are on all; no sum along rows begins on another column, and the last reach all."""
    program = decoded(SPECS[kind], COLUMNS).program
    first = (MESH[1] - COLUMNS) // 2
    of_attention = range(first, first + COLUMNS)
    outputs = {part.tensor: part.inner for tile in program.tiles for part in tile.parts if part.outer is not None}
    made = outputs["layers.0.q" if kind == "heads" else "layers.0.q_a"]
    held = np.flatnonzero((made >= 0).any(axis=1))
    assert held.size
    assert set(held.tolist()) <= set(of_attention)
    assert (outputs["layers.0.gate"] >= 0).any(axis=1).all()
    steps = program.decode.steps
    sums = [
        program.patterns[steps.pattern[step]]
        for step in np.flatnonzero(is_of_type(steps, AlongLine) & (steps.axis == ROWS)).tolist()
        if program.op_kinds[steps.op[step]] in ("attention", "output", "latent_query", "latent_output")
    ]
    reach = [(int(s.messages[:, :2].min()), int(s.messages[:, :2].max())) for s in sums]
    narrow, wide = (of_attention[0], of_attention[-1]), (0, MESH[1] - 1)
    assert sums
    assert all(lowest >= narrow[0] and highest <= narrow[1] for lowest, highest in reach if (lowest, highest) != wide)
    assert wide in reach
