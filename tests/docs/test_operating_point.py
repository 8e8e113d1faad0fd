"""docs/explanation/operating-point.md: the example by hand, and the table beside the simulation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tiers import AT_REQUEST

import wse
from wse.serving.economics import Economics
from wse.serving.operating_point import RequestShape, operating_point
from wse.serving.steady_state import ClosedLoop, PromptRounds, SteadyState

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "operating-point.md"
ROW = re.compile(r"^\| `([^`]+)` \| (.*) \|$", re.MULTILINE)
"""The options of a row, and its cells."""
LARGEST_DIFFERENCE = 0.08
"""Of any figure of the table, relative to the simulation."""


SHAPE = RequestShape(prompt_tokens=4000, new_tokens=300)


@dataclass(frozen=True)
class EightGpus:
    """The deployment of the example by hand: rounds of 16.7 ms, of 213 ms where a prompt is read."""

    shape: RequestShape = SHAPE
    max_concurrency: int = 658
    chips: int = 8
    economics: Economics | None = None

    def wait_s(self, others: float) -> float:
        return 0.0167 / 2

    def is_busy(self, decoding: float) -> bool:
        return False

    def decode_round_s(self, decoding: float) -> float:
        return 0.0167

    def prompt_rounds(self, decoding: float, prompts: float = 1.0) -> PromptRounds:
        return PromptRounds(rounds=1.0, round_s=0.213, fill=4000 / 8192)

    def steady_state(self, concurrency: float) -> SteadyState:
        return ClosedLoop(self, self.shape.new_tokens).steady_state(concurrency)


def test_example_by_hand_is_what_the_closed_form_gives() -> None:
    point = operating_point(EightGpus(), 32)
    assert point.ttft_s == pytest.approx(0.221, abs=0.001)
    assert point.tpot_s == pytest.approx(0.0371, abs=0.0001)
    assert point.tokens_per_s == pytest.approx(850, abs=2)
    assert [operating_point(EightGpus(), users).saturated for users in (614, 616)] == [False, True]


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
