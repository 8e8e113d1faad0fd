"""docs/explanation/operating-point.md: the example by hand, and the table beside the simulation."""

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
"""The options of a row, and its cells."""
LARGEST_DIFFERENCE = 0.08
"""Of any figure of the table, relative to the simulation."""


def test_example_by_hand_is_what_the_closed_form_gives() -> None:
    """Rounds of 16.7 ms, of 213 ms where a prompt is read; answers of 300 tokens."""
    loop = ClosedLoop(PlainRounds(0.0167, PromptRounds(rounds=1.0, round_s=0.213, fill=4000 / 8192)), 300)
    state = loop.steady_state(32)
    assert state.ttft_s == pytest.approx(0.221, abs=0.001)
    assert state.answer_s / 299 == pytest.approx(0.0371, abs=0.0001)
    assert 300 * state.requests_per_s == pytest.approx(850, abs=2)
    assert [loop.steady_state(users).saturated for users in (614, 616)] == [False, True]


def rows() -> list[tuple[str, str]]:
    return [
        (options, cells) for options, cells in ROW.findall(PAGE.read_text(encoding="utf-8")) if "--users" in options
    ]


def request_of(options: str) -> dict[str, Any]:
    """Return the arguments that options of the command line are in Python."""
    model, *words = options.split()
    pairs = zip(words[::2], words[1::2], strict=True)
    values = {name.removeprefix("--").replace("-", "_"): value for name, value in pairs}
    return {"model": model, **{name: int(value) if value.isdigit() else value for name, value in values.items()}}


def cells_of(options: str) -> tuple[str, list[float]]:
    """Return the cells of a row as the page has them, and the relative differences of its figures."""
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
    texts = [f"{1e3 * ours:.3g} ms | {1e3 * events:.3g} ms" for ours, events in pairs[:2]]
    texts.append(" | ".join(f"{number:,.0f}" for number in pairs[2]))
    return " | ".join(texts), [abs(ours / events - 1) for ours, events in pairs]


@AT_REQUEST
@pytest.mark.slow
@pytest.mark.parametrize(("options", "cells"), rows(), ids=lambda text: text.split(" | ")[0])
def test_page_has_the_figures_of_both(options: str, cells: str) -> None:
    expected, differences = cells_of(options)
    assert cells == expected
    assert max(differences) < LARGEST_DIFFERENCE
