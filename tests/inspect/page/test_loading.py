"""While the data of the page are being decoded it says so, and shows no number of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.inspect.page.conftest import wait_for
from tests.inspect.runs import TWO_WAFERS
from wse.tracing.page.page import view_page

pytestmark = pytest.mark.slow

HOLD = """
const read = Response.prototype.arrayBuffer;
const waiting = [];
let isHeld = true;
Response.prototype.arrayBuffer = function () {
  const values = read.call(this);
  return isHeld ? new Promise((done, refuse) => waiting.push({ go: () => done(values), refuse })) : values;
};
window.hold = () => { isHeld = true; };
window.release = () => { isHeld = false; waiting.splice(0).forEach(({ go }) => go()); };
window.fail = () => waiting.splice(0).forEach(({ refuse }) => refuse(new Error("cut short")));
"""
"""Keeps what is decoded from the page until ``release`` is called, as a slow machine would."""


@pytest.fixture
def held(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """The page of a run on two wafers in the browser, none of whose arrays is decoded."""
    page = tmp_path / "page.html"
    page.write_bytes(view_page([TWO_WAFERS]))
    script = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": HOLD})
    browser.get(page.as_uri())
    wait_for(browser, "return document.getElementById('summary').ariaBusy === 'false'")
    yield browser
    browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)


def shown(browser: Any, name: str) -> str:
    """What a person reads in a section."""
    return str(browser.execute_script("return document.getElementById(arguments[0]).innerText", name)).strip()


def state(browser: Any, name: str) -> str:
    """The text that stands for the contents of a section."""
    script = "return getComputedStyle(document.getElementById(arguments[0]), '::after').content"
    return str(browser.execute_script(script, name))


def test_sections_that_are_being_decoded_show_that_alone(held: Any) -> None:
    for _ in range(2):
        for name, heading in (("timeline", "One token"), ("wafer", "Wafer, PE by PE"), ("steps", "Steps")):
            assert shown(held, name) == heading
            assert state(held, name) == '"Decoding …"'
        held.execute_script("dispatchEvent(new Event('resize'))")  # which draws everything anew
    assert "cycles a token" in shown(held, "summary")  # of numbers that are not packed
    assert "of its PEs" in shown(held, "placement")
    held.execute_script("release()")
    wait_for(held, "return document.documentElement.dataset.usable")
    assert "Cycles 0 to " in shown(held, "timeline")
    assert "PE 0, 0" not in shown(held, "timeline")
    assert "at most" in shown(held, "wafer")
    assert "share: of the cycles of their phase" in shown(held, "steps")
    assert {state(held, name) for name in ("timeline", "wafer", "steps")} == {"none"}


def test_a_map_that_is_being_decoded_has_no_numbers_of_the_one_before(held: Any) -> None:
    held.execute_script("release()")
    wait_for(held, "return document.documentElement.dataset.usable")
    assert ", wafer 0: at most" in shown(held, "wafer")
    held.execute_script(
        "hold(); const pick = document.getElementById('wafer-number'); pick.value = '1';"
        "pick.dispatchEvent(new Event('change')); dispatchEvent(new Event('resize'))"
    )
    assert ", wafer 1: being decoded." in shown(held, "wafer")
    assert "at most" not in shown(held, "wafer")
    held.execute_script("release()")
    wait_for(held, "return document.querySelector('#wafer .say').textContent.includes(', wafer 1: at most')")


def test_sections_that_cannot_be_decoded_say_so(held: Any) -> None:
    held.execute_script("fail()")
    wait_for(held, "return document.querySelector('[role=alert]')")
    assert "This page could not be drawn: cut short" in held.execute_script("return document.body.innerText")
    for name, heading in (("timeline", "One token"), ("wafer", "Wafer, PE by PE"), ("steps", "Steps")):
        assert shown(held, name) == heading
        assert state(held, name) == '"This could not be drawn."'
