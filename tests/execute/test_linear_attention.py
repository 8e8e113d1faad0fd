"""Tests of linear attention: logits on many meshes, and the size and use of its state."""

from typing import Any

import numpy as np
import pytest
from tiers import slow_but
from tiny_model import linear_spec
from tiny_run import tiny_session, worst_logit_error
from user_cases import user_engine

from wse.compiler.lowering.delta_rule import BLOCK_TOKENS
from wse.compiler.options import BASELINE, OPTIMIZED, THIN_GEMM
from wse.errors import BadInput

PROMPT = list(range(3, 3 + 2 * BLOCK_TOKENS + 3))
MACHINES: dict[str, dict[str, Any]] = {
    "one PE": {"mesh": (1, 1)},
    "heads on every column": {"mesh": (3, 1)},
    "several columns of a head": {"mesh": (4, 9)},
    "two groups of rows": {"mesh": (11, 5)},
    "rows without state": {"mesh": (13, 30)},
    "two wafers": {"mesh": (6, 4), "wafers": 2},
    "a head on two wafers": {"mesh": (4, 5), "wafers": 4, "mapping": "tensor"},
}


@pytest.mark.parametrize("name", slow_but([*MACHINES], "one PE", "several columns of a head", "two groups of rows"))
def test_logits_are_those_of_the_plain_decoder(name: str) -> None:
    """The prompt is split into chunks of 4, 4 and 3 tokens. The machines alternate between both schedules."""
    schedule = (OPTIMIZED, BASELINE)[[*MACHINES].index(name) % 2]
    machine = dict(MACHINES[name])
    max_error = worst_logit_error(linear_spec(), machine.pop("mesh"), chunk=4, schedule=schedule, **machine)
    assert max_error <= 1e-5, f"largest difference {max_error:.2e} of the largest logit, allowed 1e-5"


@pytest.mark.parametrize("chunk", [1, BLOCK_TOKENS + 3, len(PROMPT)])
def test_logits_do_not_depend_on_the_chunks_of_the_prompt(chunk: int) -> None:
    max_error = worst_logit_error(linear_spec(), (4, 5), prompt=len(PROMPT), chunk=chunk)
    assert max_error <= 1e-5, f"largest difference {max_error:.2e} of the largest logit, allowed 1e-5"


def test_link_words_are_those_of_the_fabric() -> None:
    run = tiny_session(linear_spec(), (4, 5), THIN_GEMM, PROMPT, 4, chunk=BLOCK_TOKENS + 3)
    run.greedy(4)
    run.check_links(3)


def test_state_does_not_grow_with_the_context() -> None:
    sizes = []
    for new_tokens in (4, 64):
        program = tiny_session(linear_spec(), (4, 5), THIN_GEMM, PROMPT, new_tokens).program
        sizes.append({b.name: b.bytes for b in program.buffers if b.name.endswith(("state", "inputs", "k_cache"))})
    small, large = sizes
    assert small["layers.0.state"] == large["layers.0.state"] > 0
    assert small["layers.0.convolution_inputs"] == large["layers.0.convolution_inputs"] > 0
    assert small["layers.1.k_cache"] < large["layers.1.k_cache"]
    assert "layers.0.k_cache" not in small


def test_drafts_are_refused() -> None:
    with pytest.raises(BadInput, match=r"tiny: drafts are not supported, because the state .* leave out --draft"):
        user_engine([PROMPT], "linear", context=64, verify_tokens=3)


def test_state_changes_the_logits() -> None:
    run = tiny_session(linear_spec(), (4, 5), THIN_GEMM, PROMPT, 4)
    run.read()
    saved = {name: array.copy() for name, array in run.engine.state().items()}
    run.engine.decode([5])
    expected = run.engine.logits.copy()
    for change, equal in ((0, True), (1, False)):
        memory = saved["memory.0"].copy()
        state = next(b for b in run.program.buffers if b.name == "layers.0.state")
        live = [b for b in run.program.buffers if b.stage == 0 and not b.live and b.use not in ("code", "weights")]
        lanes = run.engine.arenas[0].lanes
        first = sum(b.bytes for b in live[: live.index(state)]) * lanes
        memory[0, first : first + state.bytes * lanes].view(np.float32)[:] *= 1 + change
        run.engine.restore(saved | {"memory.0": memory})
        run.engine.decode([5])
        assert np.array_equal(run.engine.logits, expected) == equal
