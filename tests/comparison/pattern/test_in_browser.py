"""The page of patterns in a browser: what is drawn at a cycle are the words that are in transit or wait then."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import wse
from tests.inspect.page.conftest import browser, requested, wait_for  # noqa: F401

MAX_STACKED = 8  # words drawn of those that wait at one side of a PE
COUNT_CIRCLES = """
const drawn = CanvasRenderingContext2D.prototype.arc;
window.circles = 0;
CanvasRenderingContext2D.prototype.arc = function (...all) {
  window.circles += this.canvas.id === "line";
  return drawn.apply(this, all);
};
"""
GO = """
const place = document.getElementById("place");
place.value = arguments[0];
window.circles = 0;
place.dispatchEvent(new Event("input"));
return [window.circles, document.getElementById("cycle").textContent];
"""


def words_at(cycle: int, animation: dict[str, Any], hop_cycles: int, ramp_cycles: int) -> int:
    """Words that are on a link or ramp at a cycle, and those that wait in a router, as far as they are drawn.

    A router holds what came by a link until it leaves; one that leaves through two ports leaves once.
    """
    moves = [tuple(animation["moves"][at : at + 5]) for at in range(0, len(animation["moves"]), 5)]
    moving = sum(0 <= cycle - start < (hop_cycles if through else ramp_cycles) for start, _, through, _, _ in moves)
    waiting: Counter[tuple[int, int]] = Counter()
    for start, pe, through, _, _ in moves:
        if through and start + hop_cycles <= cycle:
            waiting[pe + through, -through] += 1
    for start, pe, came, _ in {(start, pe, came, colour) for start, pe, _, came, colour in moves if came}:
        if start <= cycle:
            waiting[pe, came] -= 1
    assert min(waiting.values(), default=0) >= 0
    return moving + sum(min(count, MAX_STACKED) for count in waiting.values())


@pytest.mark.slow
def test_words_are_drawn_where_they_are_at_each_cycle(browser: Any, tmp_path: Path) -> None:  # noqa: F811
    page = tmp_path / "patterns.html"
    wse.pattern("star,ring_all_reduce,two_phase_both_sides_multicast", pes=[9], words=[5], html=page)
    (found,) = re.findall(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    data = json.loads(found)
    browser.get_log("browser"), browser.get_log("performance")
    browser.get(page.as_uri())
    wait_for(browser, "return document.getElementById('legend').textContent")
    assert browser.get_log("browser") == []
    assert [url for url in requested(browser) if not url.startswith("data:")] == []
    browser.execute_script(COUNT_CIRCLES)
    waited = 0
    for index, animation in enumerate(data["animations"]):
        choose = (
            "const c = document.getElementById('case'); c.value = arguments[0]; c.dispatchEvent(new Event('change'))"
        )
        browser.execute_script(choose, str(index))
        cycles = animation["cycles"]
        for cycle in range(cycles + 1):
            circles, told = browser.execute_script(GO, cycle)
            expected = words_at(cycle, animation, data["hop_cycles"], data["ramp_cycles"])
            assert (circles, told) == (expected, f"cycle {cycle} of {cycles}"), animation["name"]
            waited = max(waited, expected)
        assert circles == 0  # all have arrived
    assert waited > MAX_STACKED // 2
