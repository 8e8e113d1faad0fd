"""From the answer to the cause and back: what leads, what is pinned, where one looks, and that a place can be sent."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.inspect.page.conftest import wait_for
from tests.inspect.runs import GOLDEN, TWO_WAFERS
from tests.traces.conftest import write
from wse_traces import open_trace

pytest.importorskip("selenium", reason="selenium is not installed (pip install '.[test]')")

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.inspect.page.driving import choose, found, over, settled, shot, texts, tip, window

Opened = Callable[..., Any]
ESTIMATE = GOLDEN / "story-estimate.h5"


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small trace of the tests of traces, with a log of wavelets."""
    return write(tmp_path_factory.mktemp("sample") / "sample.h5")


def address(browser: Any, wanted: str) -> str:
    """The part of the address behind #, once it has something."""
    wait_for(browser, f"return location.hash.includes({wanted!r})")
    return str(browser.execute_script("return location.hash"))


def visit(browser: Any, place: str) -> None:
    """Load the page anew at a place of it."""
    url = browser.current_url.split("#")[0]
    browser.get("about:blank")
    browser.get(url + place)
    wait_for(browser, "return document.documentElement.dataset.usable")


def test_token_opens_at_the_slowest_and_is_set_beside_the_median(opened: Opened) -> None:
    browser = opened(ESTIMATE)
    with open_trace(ESTIMATE) as trace:
        made = trace.column("tokens/pass")
        schedule = trace.column("passes/schedule")[made]
        cycles, phase = trace.column("schedules/cycles")[schedule], trace.column("schedules/phase")[schedule]
        slots = trace.column("schedules/kv_slots")[schedule]
        decoded = np.flatnonzero(phase == 1)
        slow = int(decoded[cycles[decoded].argmax()])
        median = int(decoded[np.argsort(cycles[decoded], kind="stable")[(len(decoded) - 1) // 2]])
        kinds = np.array(trace.texts("graph/ops/kind"))
        spent = [
            {kind: steps["cycles"][kinds[steps["op"]] == kind].sum() for kind in kinds}
            for steps in (trace.steps(slow), trace.steps(median))
        ]
    differing = [kind for kind in spent[0] if spent[0][kind] != spent[1][kind]]
    more = cycles[slow] - cycles[median]
    assert differing == ["attention"]
    assert browser.find_element(By.ID, "token-A").get_attribute("value") == str(slow)
    assert found(browser, ".beside").text == (
        f"Token {slow} is the slowest: {more:,} cycles more than the median token, {median}, all in attention, whose "
        f"cache is longer ({slots[slow]} slots in use, {slots[median]} there)."
    )
    number = browser.find_element(By.ID, "token-A")
    number.clear()
    number.send_keys(str(median), Keys.ENTER)
    assert found(browser, ".beside").text == f"Token {median}, and the median of all that were decoded."
    number.clear()
    number.send_keys("0", Keys.ENTER)
    assert found(browser, ".beside").text == ""


@pytest.mark.slow
def test_click_pins_a_step_on_the_map_and_in_the_table(story: Any) -> None:
    visit(story, "")
    with open_trace(TWO_WAFERS) as trace:
        token = int(story.find_element(By.ID, "token-A").get_attribute("value"))
        steps, ops, names = trace.steps(token), trace.texts("graph/ops/name"), trace.texts("strings/names")
    at = next(i for i in np.argsort(-steps["cycles"]).tolist() if steps["wafer"][i] == 1 and steps["layer"][i] >= 0)
    story.find_element(By.ID, "lanes-A").send_keys("0")
    before = shot(found(story, "#map-A"))
    lanes = found(story, "#lanes-A")
    lane = list(dict.fromkeys(texts_of_kinds(TWO_WAFERS, steps))).index(texts_of_kinds(TWO_WAFERS, steps)[at])
    start = steps["start_cycle"] - steps["start_cycle"].min()
    _, _, end = window(story)
    x = (132 + (start[at] + steps["cycles"][at] / 2) / end * (lanes.size["width"] - 132)) / lanes.size["width"]
    over(story, lanes, x, (lane * 23 + 10) / lanes.size["height"]).click().perform()
    detail = found(story, ".detail").text
    assert detail.startswith(f"{ops[steps['op'][at]]} · {names[steps['name'][at]]}")
    assert story.find_element(By.ID, "wafer-number").get_attribute("value") == "1"
    settled(story)
    assert (shot(found(story, "#map-A")) != before).any()
    row = texts(story, "#steps-table tr[aria-current] td")
    assert row[0] == "decode"
    assert ops[steps["op"][at]].endswith(row[1])
    assert row[2] == names[steps["name"][at]]
    stretches = re.findall(r"(\d+)(?:–(\d+))?(?=[, ]|$)", row[3])
    assert any(int(first) <= steps["layer"][at] <= int(last or first) for first, last in stretches)
    marked = address(story, "step-A")
    lanes = found(story, "#lanes-A")
    lanes.send_keys(Keys.ESCAPE)
    assert story.find_element(By.CSS_SELECTOR, ".detail").text == ""
    assert texts(story, "#steps-table tr[aria-current]") == []
    visit(story, marked)
    assert found(story, ".detail").text == detail
    assert texts(story, "#steps-table tr[aria-current] td") == row


def texts_of_kinds(path: Path, steps: Any) -> list[str]:
    """The kind of op of each step."""
    with open_trace(path) as trace:
        kinds = trace.texts("graph/ops/kind")
    return [kinds[op] if op >= 0 else "no op" for op in steps["op"]]


@pytest.mark.slow
def test_place_that_is_sent_is_found_again_and_nonsense_is_not_taken(story: Any) -> None:
    visit(story, "")
    assert story.execute_script("return location.hash") == ""
    choose(story, "quantity", "sram.weights")
    choose(story, "wafer-number", "1")
    choose(story, "scale", "range")
    choose(story, "work-by", "layer")
    choose(story, "lanes", "stage")
    found(story, "#work .group").send_keys(Keys.ENTER)
    over(story, found(story, "#map-A"), 0.3, 0.3).click().perform()
    wait_for(story, "return document.querySelector('#pe h3').textContent.endsWith('of wafer 1')")
    found(story, "#brush").send_keys("+")
    found(story, "#search").send_keys("gemv")
    place = address(story, "find=gemv")
    values = (
        "return ['quantity', 'wafer-number', 'scale', 'work-by', 'lanes', 'search']"
        ".map((id) => document.getElementById(id).value)"
    )

    def seen() -> list[str]:
        shown = ("#pe h3", "#work .crumbs b", "#window")
        return [*story.execute_script(values), *(text for each in shown for text in texts(story, each))]

    before = seen()
    visit(story, place)
    assert seen() == before
    assert story.execute_script("return scrollY") > 0
    visit(story, "#nowhere?map=<b>&pe=9999,-1&view=a,b,c&wafer=77&cycles=5,5,5&token-A=1e9&step-A=99999&in=x|y&zzz=1")
    assert story.get_log("browser") == []
    assert texts(story, "#work .crumbs b") == []
    assert story.find_element(By.ID, "quantity").get_attribute("value") == "hops"


@pytest.mark.slow
def test_wavelets_are_played_paused_and_stepped(opened: Opened, sample: Path) -> None:
    browser = opened(sample)
    read = browser.find_element(By.ID, "replay-read")
    assert read.text == "6 moves of pass 1, cycles 0 to 5"
    still = shot(found(browser, "#map-A"))
    step = found(browser, "#replay-step")
    step.click()
    assert read.text == "cycle 0 of 5: 1 word on links, 0 into PEs; step 2 · é · matmul_tile"
    assert browser.find_element(By.ID, "wafer-number").get_attribute("value") == "1"
    step.click()
    assert read.text == "cycle 1 of 5: 1 word on links, 1 into PEs; step 2 · é · matmul_tile"
    settled(browser)
    moving = shot(found(browser, "#map-A"))
    assert (moving != still).any()
    found(browser, "#replay-back").click()
    assert read.text.startswith("cycle 0 of 5")
    choose(browser, "replay-speed", "40")
    play = found(browser, "#replay-play")
    play.click()
    wait_for(browser, "return document.getElementById('replay-read').textContent.startsWith('cycle 5 of 5')")
    wait_for(browser, "return document.getElementById('replay-play').textContent.includes('play')")
    choose(browser, "replay-speed", "2")
    play.click()
    play.click()
    held = read.text
    assert held.startswith("cycle 0 of 5")


@pytest.mark.slow
def test_two_traces_have_a_map_of_what_differs(opened: Opened, sample: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "other.h5", generated=13)
    browser = opened(sample, other)
    choose(browser, "quantity", "links.north")
    choose(browser, "maps-of", "difference")
    wait_for(browser, "return document.querySelector('#map-D').checkVisibility()")
    shown = browser.execute_script("return [...document.querySelectorAll('.map')].map((c) => c.checkVisibility())")
    assert shown == [False, False, True]
    words = []
    for path in (sample, other):
        with open_trace(path) as trace:
            words.append(trace.column("links/words", 0, 1)[0, 0])
    more = words[1] - words[0]
    assert np.count_nonzero(more) == 1
    wait_for(browser, "return document.querySelector('#pe h3').textContent.includes('PE 0, 0 ')")
    said = next(text for text in texts(browser, "#wafer .say") if "B − A" in text)
    assert f"most different by +{more[0, 0]:,} words (PE 0, 0)" in said
    assert said.endswith("the same on 29 of 30 PEs.")
    found(browser, "#map-D")
    settled(browser)
    over(browser, found(browser, "#map-D"), 0.05, 0.05).perform()
    told = tip(browser).split("\n")
    assert told == [
        "PE 0, 0",
        f"A: {words[0][0, 0]:,} words",
        f"B: {words[1][0, 0]:,} words",
        f"B − A: +{more[0, 0]:,} words",
    ]
    ActionChains(browser).send_keys(Keys.ESCAPE).perform()
    settled(browser)
    seen = shot(browser.find_element(By.ID, "map-D"))
    size = [seen.shape[0] // 6, seen.shape[1] // 5]
    red, _, blue = seen[size[0] // 8, size[1] // 8]
    assert red > blue + 80
    middles = seen[size[0] // 2 + size[0] * np.arange(1, 6)][:, size[1] // 2 + size[1] * np.arange(1, 5)]
    assert np.ptp(middles.reshape(-1, 3), axis=0).max() == 0
