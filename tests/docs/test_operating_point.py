"""Tests of docs/explanation/operating-point.md: its worked example, and its table against new simulations."""

import re
from pathlib import Path
from typing import Any

import pytest
from tiers import AT_REQUEST

import wse
from tests.serving.test_steady_state import PlainRounds
from wse.serving.steady_state import ClosedLoop, PromptRounds

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "operating-point.md"
ROW = re.compile(r"^\| `([^`]+)` \| (.*) \|$", re.MULTILINE)
"""A table row: the options in backticks, then the cells."""
LARGEST_DIFFERENCE = 0.08
"""Maximum difference of a figure of the table from the simulated one, as a fraction."""


def test_worked_example_agrees_with_the_closed_form() -> None:
    """A round takes 16.7 ms, or 213 ms if it includes a prompt. An answer has 300 tokens."""
    loop = ClosedLoop(PlainRounds(0.0167, PromptRounds(rounds=1.0, round_s=0.213, fill=4000 / 8192)), 300)
    state = loop.steady_state(32)
    assert state.ttft_s == pytest.approx(0.221, abs=0.001)
    assert state.answer_s / 299 == pytest.approx(0.0371, abs=0.0001)
    assert 300 * state.requests_per_s == pytest.approx(850, abs=2)
    assert [loop.steady_state(users).saturated for users in (614, 616)] == [False, True]


def rows() -> list[tuple[str, str]]:
    """Return (options, cells) of each row of the table."""
    return [
        (options, cells) for options, cells in ROW.findall(PAGE.read_text(encoding="utf-8")) if "--users" in options
    ]


def request_of(options: str) -> dict[str, Any]:
    """Return the arguments of `wse.estimate` for a model and options of the command line."""
    model, *words = options.split()
    pairs = zip(words[::2], words[1::2], strict=True)
    values = {name.removeprefix("--").replace("-", "_"): value for name, value in pairs}
    return {"model": model, **{name: int(value) if value.isdigit() else value for name, value in values.items()}}


def cells_of(options: str) -> tuple[str, list[float]]:
    """Compute the cells of a row, and the relative differences between its closed-form and simulated figures."""
    request = request_of(options)
    serving = wse.estimate(**request).serving
    objective = {} if "gpu" in request else {"objective": "latency"}
    served = wse.serve_sim(**request, **objective, arrivals="constant").served
    assert serving.tpot_s is not None
    pairs = [
        (serving.ttft_s, served.all.ttft.mean),
        (serving.tpot_s, served.all.tpot.mean),
        (serving.tokens_per_s, served.tokens_per_s),
    ]
    texts = [f"{1e3 * closed_form:.3g} ms | {1e3 * simulated:.3g} ms" for closed_form, simulated in pairs[:2]]
    texts.append(" | ".join(f"{number:,.0f}" for number in pairs[2]))
    return " | ".join(texts), [abs(closed_form / simulated - 1) for closed_form, simulated in pairs]


@AT_REQUEST
@pytest.mark.slow
@pytest.mark.parametrize(("options", "cells"), rows(), ids=lambda text: text.split(" | ")[0])
def test_table_has_the_figures_of_closed_form_and_simulation(options: str, cells: str) -> None:
    expected, differences = cells_of(options)
    assert cells == expected
    assert max(differences) < LARGEST_DIFFERENCE
