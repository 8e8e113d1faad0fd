"""Tests of ``--verify-tokens``: the tokens of a plain run, and verification passes in report and trace."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models.helpers import write_model
from wse.backends.execute.engine import Engine
from wse.backends.execute.host_tokens.prompt_lookup import prompt_lookup
from wse.studies.compile.choose import compile_program
from wse.studies.options.option import make_request
from wse.studies.run.execute import RunFiles, execute
from wse.studies.run.prepare import prepare
from wse.studies.run.request import RunRequest
from wse.studies.run.result import RunResult
from wse.tracing.query.costs.step_sums import StepSums
from wse.tracing.query.costs.tree import read_tree
from wse_traces import open_trace, problems

DRAFT, TOKENS = 3, 16
COMMON: dict[str, Any] = {"dtype": "float32", "schedule": "baseline", "mesh": "8x24"}
REPEATS = "The cat sat. The cat sat. The cat"
VERIFY = 2
"""Index of the verification phase in traces."""


def run_with_trace(trace: Path, **options: Any) -> tuple[RunResult, Engine]:
    """Run the model, write a trace, and return the result and the engine that executed the run."""
    engines: list[Engine] = []

    def make_backend(*arguments: Any, **more: Any) -> Engine:
        engines.append(Engine(*arguments, **more))
        return engines[0]

    prepared = prepare(make_request(RunRequest, **(COMMON | options)))
    result = execute(prepared, compile_program(prepared), RunFiles(trace=trace), make_backend=make_backend)
    return result, engines[0]


def expected_accepted(prompt: Sequence[int], tokens: Sequence[int], draft: int, room: int) -> list[int]:
    """Return how many draft tokens each verification pass must accept, given the tokens of a plain run.

    Args:
        prompt: Token ids of the prompt.
        tokens: Token ids that the plain run generated.
        draft: Tokens per draft.
        room: Context in tokens, which text and draft must not exceed.
    """
    accepted, position = [], 1
    while position < len(tokens):
        text = (*prompt, *tokens[:position])
        drafted = prompt_lookup(text, draft) if len(text) + draft <= room else ()
        right = 0
        while right < len(drafted) and position + right < len(tokens) and drafted[right] == tokens[position + right]:
            right += 1
        accepted += [right] if drafted else []
        position += right + 1
    return accepted


def test_tokens_equal_a_plain_run_and_all_passes_are_timed_and_traced(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    result, engine = run_with_trace(path, prompt=REPEATS, new_tokens=TOKENS, verify_tokens=1 + DRAFT)
    plain, _ = run_with_trace(tmp_path / "plain.h5", prompt=REPEATS, new_tokens=TOKENS)
    assert result.tokens == plain.tokens
    prepared = prepare(make_request(RunRequest, **COMMON, prompt=REPEATS, new_tokens=TOKENS))
    expected = expected_accepted(prepared.prompts[0], result.tokens or (), DRAFT, prepared.options.context)
    verified = result.verify
    assert sum(expected) > 0, "the test needs a text with right drafts"
    assert (verified.tokens, verified.passes) == (1 + DRAFT, len(expected))
    assert verified.accepted_per_pass == sum(expected) / len(expected)
    assert problems(path) == []
    with open_trace(path) as trace:
        phases = trace.column("schedules/phase")[trace.column("passes/schedule")]
        assert (phases == VERIFY).sum() == len(expected)
        passes = trace.column("tokens/pass")[~trace.column("tokens/is_prompt").astype(bool)]
        by_pass = np.bincount(passes, minlength=len(phases))[phases == VERIFY]
        assert by_pass.tolist() == [right + 1 for right in expected]
        assert np.array_equal(trace.column("links/words"), engine.link_words())
        sums = StepSums(trace)
        assert sums.phases()["verify"].cycles_per_pass == pytest.approx(verified.cycles_per_pass)
        assert sum(layer.verify or 0.0 for layer in read_tree(sums)) == pytest.approx(verified.cycles_per_pass)


def test_users_have_separate_passes_in_round_robin_order(tmp_path: Path) -> None:
    """Each user has passes of its own, in round-robin order; the tokens equal those of a batch."""
    path, model = tmp_path / "run.h5", write_model(tmp_path, eos_token_id=None)
    prompts = ((5, 9, 1), (3, 7, 2, 8, 4, 6))
    options: dict[str, Any] = {"model": model, "prompt_ids": prompts, "mesh": "3x4", "new_tokens": 5, "wafers": 2}
    result, engine = run_with_trace(path, **options, verify_tokens=1)
    plain, _ = run_with_trace(tmp_path / "plain.h5", **options)
    assert [user.tokens for user in result.users] == [user.tokens for user in plain.users]
    assert result.decode is None
    assert result.verify.passes == 2 * 4
    assert "8, each a user's next token" in str(result.tables()), "the report must not mention drafts"
    with open_trace(path) as trace:
        assert np.array_equal(trace.column("links/words"), engine.link_words())
        assert trace.column("tokens/sequence")[-8:].tolist() == [0, 1] * 4


def test_wavelets_are_logged_for_a_last_pass_that_verifies_a_draft(tmp_path: Path) -> None:
    path, model = tmp_path / "run.h5", write_model(tmp_path)
    ids = {"model": model, "prompt_ids": tuple(range(16)), "mesh": "3x4"}
    result, _ = run_with_trace(path, **ids, new_tokens=2, context=18, verify_tokens=2, wavelets=True)
    with open_trace(path) as trace:
        phases = trace.column("schedules/phase")[trace.column("passes/schedule")]
        assert phases[-1] == VERIFY
        assert set(trace.column("wavelets/pass")) == {len(phases) - 1}
    assert result.wavelets is not None
    assert result.decode is None, "no token was generated by a plain pass"


def test_prompt_lookup_prefers_the_longest_match_and_its_first_place() -> None:
    # the last three tokens (4, 5, 6), the last two (5, 6), or only the last one (6) occurred before
    assert prompt_lookup((4, 5, 6, 1, 9, 5, 6, 2, 4, 5, 6), 1) == (1,)
    assert prompt_lookup((9, 6, 3, 5, 6, 1, 8, 6, 2, 5, 6), 2) == (1, 8)
    assert prompt_lookup((6, 3, 6, 2, 6), 3) == (3, 6, 2)
    assert prompt_lookup((6, 3, 6), 3) == ()  # only two tokens follow the earlier 6
    assert prompt_lookup((1, 2, 3), 1) == ()
