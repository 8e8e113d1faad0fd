"""Tests of navigation on the page of a trace: selected tokens and steps, links to a view, replay and differences."""

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

from tests.inspect.page.driving import (
    choose,
    move_over,
    screenshot,
    scroll_to,
    shown_cycles,
    texts,
    tooltip,
    wait_until_drawn,
)

OpenPage = Callable[..., Any]
ESTIMATE = GOLDEN / "story-estimate.h5"


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of the small trace, which has a log of wavelets."""
    return write(tmp_path_factory.mktemp("sample") / "sample.h5")


def wait_for_hash(browser: Any, text: str) -> str:
    """Wait until the fragment of the address contains ``text``, and return the fragment."""
    wait_for(browser, f"return location.hash.includes({text!r})")
    return str(browser.execute_script("return location.hash"))


def visit(browser: Any, place: str) -> None:
    """Reload the page with another fragment of its address."""
    url = browser.current_url.split("#")[0]
    browser.get("about:blank")
    browser.get(url + place)
    wait_for(browser, "return document.documentElement.dataset.usable")


def test_page_opens_at_the_slowest_token_and_compares_it_with_the_median(open_page: OpenPage) -> None:
    browser = open_page(ESTIMATE)
    with open_trace(ESTIMATE) as trace:
        passes = trace.column("tokens/pass")
        schedule = trace.column("passes/schedule")[passes]
        cycles, phase = trace.column("schedules/cycles")[schedule], trace.column("schedules/phase")[schedule]
        slots = trace.column("schedules/kv_slots")[schedule]
        decoded = np.flatnonzero(phase == 1)
        slow = int(decoded[cycles[decoded].argmax()])
        median = int(decoded[np.argsort(cycles[decoded], kind="stable")[(len(decoded) - 1) // 2]])
        kinds = np.array(trace.texts("graph/ops/kind"))
        cycles_by_kind = [
            {kind: steps["cycles"][kinds[steps["op"]] == kind].sum() for kind in kinds}
            for steps in (trace.steps(slow), trace.steps(median))
        ]
    differing = [kind for kind in cycles_by_kind[0] if cycles_by_kind[0][kind] != cycles_by_kind[1][kind]]
    difference = cycles[slow] - cycles[median]
    assert differing == ["attention"]
    assert browser.find_element(By.ID, "token-A").get_attribute("value") == str(slow)
    assert scroll_to(browser, ".beside").text == (
        f"Token {slow} is the slowest: {difference:,} cycles more than the median token, {median}, all in attention, "
        f"whose cache is longer ({slots[slow]} slots in use, {slots[median]} there)."
    )
    number = browser.find_element(By.ID, "token-A")
    number.clear()
    number.send_keys(str(median), Keys.ENTER)
    assert scroll_to(browser, ".beside").text == f"Token {median}, and the median of all that were decoded."
    number.clear()
    number.send_keys("0", Keys.ENTER)
    assert scroll_to(browser, ".beside").text == ""


@pytest.mark.slow
def test_click_selects_a_step_on_the_map_and_in_the_table(story: Any) -> None:
    visit(story, "")
    with open_trace(TWO_WAFERS) as trace:
        token = int(story.find_element(By.ID, "token-A").get_attribute("value"))
        steps, ops, names = trace.steps(token), trace.texts("graph/ops/name"), trace.texts("strings/names")
    step = next(i for i in np.argsort(-steps["cycles"]).tolist() if steps["wafer"][i] == 1 and steps["layer"][i] >= 0)
    story.find_element(By.ID, "lanes-A").send_keys("0")
    before = screenshot(scroll_to(story, "#map-A"))
    lanes = scroll_to(story, "#lanes-A")
    lane = list(dict.fromkeys(kinds_of_steps(TWO_WAFERS, steps))).index(kinds_of_steps(TWO_WAFERS, steps)[step])
    start = steps["start_cycle"] - steps["start_cycle"].min()
    _, _, end = shown_cycles(story)
    x = (132 + (start[step] + steps["cycles"][step] / 2) / end * (lanes.size["width"] - 132)) / lanes.size["width"]
    move_over(story, lanes, x, (lane * 23 + 10) / lanes.size["height"]).click().perform()
    detail = scroll_to(story, ".detail").text
    assert detail.startswith(f"{ops[steps['op'][step]]} · {names[steps['name'][step]]}")
    assert story.find_element(By.ID, "wafer-number").get_attribute("value") == "1"
    wait_until_drawn(story)
    assert (screenshot(scroll_to(story, "#map-A")) != before).any()
    row = texts(story, "#steps-table tr[aria-current] td")
    assert row[0] == "decode"
    assert ops[steps["op"][step]].endswith(row[1])
    assert row[2] == names[steps["name"][step]]
    layer_ranges = re.findall(r"(\d+)(?:–(\d+))?(?=[, ]|$)", row[3])
    assert any(int(first) <= steps["layer"][step] <= int(last or first) for first, last in layer_ranges)
    fragment = wait_for_hash(story, "step-A")
    lanes = scroll_to(story, "#lanes-A")
    lanes.send_keys(Keys.ESCAPE)
    assert story.find_element(By.CSS_SELECTOR, ".detail").text == ""
    assert texts(story, "#steps-table tr[aria-current]") == []
    visit(story, fragment)
    assert scroll_to(story, ".detail").text == detail
    assert texts(story, "#steps-table tr[aria-current] td") == row


def kinds_of_steps(path: Path, steps: Any) -> list[str]:
    """Return the kind of op of each step."""
    with open_trace(path) as trace:
        kinds = trace.texts("graph/ops/kind")
    return [kinds[op] if op >= 0 else "no op" for op in steps["op"]]


@pytest.mark.slow
def test_address_restores_the_view_and_invalid_values_are_ignored(story: Any) -> None:
    visit(story, "")
    assert story.execute_script("return location.hash") == ""
    choose(story, "quantity", "sram.weights")
    choose(story, "wafer-number", "1")
    choose(story, "scale", "range")
    choose(story, "work-by", "layer")
    choose(story, "lanes", "stage")
    scroll_to(story, "#work .group").send_keys(Keys.ENTER)
    move_over(story, scroll_to(story, "#map-A"), 0.3, 0.3).click().perform()
    wait_for(story, "return document.querySelector('#pe h3').textContent.endsWith('of wafer 1')")
    scroll_to(story, "#brush").send_keys("+")
    scroll_to(story, "#search").send_keys("gemv")
    fragment = wait_for_hash(story, "find=gemv")
    values = (
        "return ['quantity', 'wafer-number', 'scale', 'work-by', 'lanes', 'search']"
        ".map((id) => document.getElementById(id).value)"
    )

    def visible_state() -> list[str]:
        shown = ("#pe h3", "#work .crumbs b", "#window")
        return [*story.execute_script(values), *(text for each in shown for text in texts(story, each))]

    before = visible_state()
    visit(story, fragment)
    assert visible_state() == before
    assert story.execute_script("return scrollY") > 0
    visit(story, "#nowhere?map=<b>&pe=9999,-1&view=a,b,c&wafer=77&cycles=5,5,5&token-A=1e9&step-A=99999&in=x|y&zzz=1")
    assert story.get_log("browser") == []
    assert texts(story, "#work .crumbs b") == []
    assert story.find_element(By.ID, "quantity").get_attribute("value") == "hops"


@pytest.mark.slow
def test_wavelet_replay_plays_pauses_and_steps(open_page: OpenPage, sample: Path) -> None:
    browser = open_page(sample)
    status = browser.find_element(By.ID, "replay-read")
    assert status.text == "6 moves of pass 1, cycles 0 to 5"
    still = screenshot(scroll_to(browser, "#map-A"))
    step = scroll_to(browser, "#replay-step")
    step.click()
    assert status.text == "cycle 0 of 5: 1 word on links, 0 into PEs; step 2 · é · matmul_tile"
    assert browser.find_element(By.ID, "wafer-number").get_attribute("value") == "1"
    step.click()
    assert status.text == "cycle 1 of 5: 1 word on links, 1 into PEs; step 2 · é · matmul_tile"
    wait_until_drawn(browser)
    moving = screenshot(scroll_to(browser, "#map-A"))
    assert (moving != still).any()
    scroll_to(browser, "#replay-back").click()
    assert status.text.startswith("cycle 0 of 5")
    choose(browser, "replay-speed", "40")
    play = scroll_to(browser, "#replay-play")
    play.click()
    wait_for(browser, "return document.getElementById('replay-read').textContent.startsWith('cycle 5 of 5')")
    wait_for(browser, "return document.getElementById('replay-play').textContent.includes('play')")
    choose(browser, "replay-speed", "2")
    browser.execute_script("arguments[0].click(); arguments[0].click()", play)  # a busy computer could delay the second
    paused_text = status.text
    assert paused_text.startswith("cycle 0 of 5")


@pytest.mark.slow
def test_page_of_two_traces_has_a_map_of_differences(open_page: OpenPage, sample: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "other.h5", generated=13)
    browser = open_page(sample, other)
    choose(browser, "quantity", "links.north")
    choose(browser, "maps-of", "difference")
    wait_for(browser, "return document.querySelector('#map-D').checkVisibility()")
    shown = browser.execute_script("return [...document.querySelectorAll('.map')].map((c) => c.checkVisibility())")
    assert shown == [False, False, True]
    words = []
    for path in (sample, other):
        with open_trace(path) as trace:
            words.append(trace.column("links/words", 0, 1)[0, 0])
    difference = words[1] - words[0]
    assert np.count_nonzero(difference) == 1
    wait_for(browser, "return document.querySelector('#pe h3').textContent.includes('PE 0, 0 ')")
    summary = next(text for text in texts(browser, "#wafer .say") if "B − A" in text)
    assert f"most different by +{difference[0, 0]:,} words (PE 0, 0)" in summary
    assert summary.endswith("the same on 29 of 30 PEs.")
    scroll_to(browser, "#map-D")
    wait_until_drawn(browser)
    move_over(browser, scroll_to(browser, "#map-D"), 0.05, 0.05).perform()
    lines = tooltip(browser).split("\n")
    assert lines == [
        "PE 0, 0",
        f"A: {words[0][0, 0]:,} words",
        f"B: {words[1][0, 0]:,} words",
        f"B − A: +{difference[0, 0]:,} words",
    ]
    ActionChains(browser).send_keys(Keys.ESCAPE).perform()
    wait_until_drawn(browser)
    image = screenshot(browser.find_element(By.ID, "map-D"))
    size = [image.shape[0] // 6, image.shape[1] // 5]
    red, _, blue = image[size[0] // 8, size[1] // 8]
    assert red > blue + 80
    middles = image[size[0] // 2 + size[0] * np.arange(1, 6)][:, size[1] // 2 + size[1] * np.arange(1, 5)]
    assert np.ptp(middles.reshape(-1, 3), axis=0).max() == 0
