"""Paces of answers, the text in pieces, and how a race is shown."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tests.hardware.helpers import refusal
from wse.comparison.race.pace import Pace
from wse.comparison.race.page import as_html
from wse.comparison.race.result import RaceResult, lane_result
from wse.comparison.race.show import frame, show
from wse.comparison.race.text import answer_pieces, cut
from wse.errors import BadInput

paces = st.builds(
    lambda queue, more, step, tokens: Pace(
        name="a", first_token_s=queue + more, queue_s=queue, step_s=step, tokens_per_step=tokens
    ),
    st.floats(0, 5),
    st.floats(0, 5),
    st.floats(1e-4, 1),
    st.floats(1, 8),
)


@given(pace=paces, tokens=st.integers(1, 500))
def test_an_answer_is_there_when_its_pace_says_and_not_before(pace: Pace, tokens: int) -> None:
    done = pace.seconds_to(tokens)
    assert pace.tokens_at(done * (1 + 1e-9) + 1e-9) >= tokens
    if tokens > pace.tokens_per_step + 1:
        assert pace.tokens_at(done - 1.001 * pace.step_s) < tokens
    assert pace.tokens_at(pace.first_token_s * 0.999 - 1e-9) == 0


def test_steps_without_drafts_bring_a_token_each() -> None:
    pace = Pace(name="a", first_token_s=1.0, queue_s=0.25, step_s=0.5)
    assert [pace.tokens_at(t) for t in (0.9, 1.0, 1.4, 1.5, 3.0)] == [0, 1, 1, 2, 5]
    assert pace.seconds_to(5) == 3.0
    assert pace.tokens_per_s == 2


def test_drafts_bring_a_first_token_alone_and_then_several_at_once() -> None:
    pace = Pace(name="a", first_token_s=1.0, queue_s=0.0, step_s=0.5, tokens_per_step=2.5)
    assert [pace.tokens_at(t) for t in (0.9, 1.0, 1.4, 1.5, 2.0)] == [0, 1, 1, 3, 6]
    assert pace.seconds_to(1) == 1.0
    assert pace.seconds_to(4) == 2.0
    assert pace.tokens_per_s == 5


def test_a_pace_without_time_is_none() -> None:
    with pytest.raises(ValueError, match="no pace"):
        Pace(name="a", first_token_s=1, queue_s=2, step_s=1)


@given(st.text(min_size=1, max_size=200))
def test_pieces_are_the_text(text: str) -> None:
    pieces = cut(text, "")
    assert "".join(pieces) == text
    assert all(pieces)


def test_a_text_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "answer.txt"
    path.write_text("Hello\n  there,   <b>you</b>\n")
    assert "".join(answer_pieces(path)) == "Hello there, <b>you</b>"
    path.write_text(" \n")
    assert "holds no words" in refusal(BadInput, answer_pieces, path)
    path.write_bytes(b"\xff")
    assert "not UTF-8 at byte 0" in refusal(BadInput, answer_pieces, path)
    assert "does not exist" in refusal(BadInput, answer_pieces, tmp_path / "none.txt")


PIECES = ("<scr", "ipt>a", "lert(1", ")</sc", "ript>")


@pytest.fixture
def race() -> RaceResult:
    quick = Pace(name="<i>wafer</i>", first_token_s=0.1, queue_s=0.0, step_s=0.01)
    slow = Pace(name="GPUs", first_token_s=0.5, queue_s=0.2, step_s=0.1)
    lanes = tuple(lane_result(pace, len(PIECES), cost=None, note="n") for pace in (quick, slow))
    return RaceResult(model="m", tokens=len(PIECES), prompt_tokens=8, lanes=lanes)


def test_a_race_ends_with_the_slowest(race: RaceResult) -> None:
    assert race.duration_s == pytest.approx(0.5 + 4 * 0.1)
    times = iter(i / 10 for i in range(100))
    out = io.StringIO()
    slept: list[float] = []
    show(race, PIECES, Console(file=out, width=80), 1.0, clock=lambda: next(times), sleep=slept.append)
    assert len(slept) == 8
    assert out.getvalue().count("5 tokens in") == 2


def test_frames_say_what_each_machine_is_at(race: RaceResult) -> None:
    def text(now: float) -> str:
        out = io.StringIO()
        Console(file=out, width=80).print(frame(race, PIECES, now, 80))
        return out.getvalue()

    assert "in the queue" in text(0.05)
    assert "on the way, and the prompt is read" in text(0.3)
    assert "1 tokens, 10 a second" in text(0.55)


def test_texts_of_a_page_end_no_script_and_open_no_element(race: RaceResult) -> None:
    page = as_html(race, PIECES, 0.1).decode()
    assert '<scr"' not in page
    assert page.count("</script>") == 2
    assert "<i>wafer" not in page
    assert "\\u003cscr" in page
    assert '"speed": "0.1"' in page
    assert '<option value="0.1">a tenth</option>' in page
    assert '<option value="0.25">0.25 times</option>' in as_html(race, PIECES, 0.25).decode()
