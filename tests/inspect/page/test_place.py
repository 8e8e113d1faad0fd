"""From the answer to the cause and back: what leads, what is pinned, where one looks, and that a place can be sent."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.inspect.page.conftest import wait_for
from tests.inspect.runs import GOLDEN, STORY, TWO_WAFERS
from tests.traces.conftest import write
from wse_traces import open_trace

pytest.importorskip("selenium", reason="selenium is not installed (pip install '.[test]')")

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.inspect.page.driving import choose, found, over, scroll_origin, settled, shot, texts, tip, tip_at, window

Opened = Callable[..., Any]
ESTIMATE = GOLDEN / "story-estimate.h5"
HIDDEN = "return document.getElementById('tip').hidden"


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


@pytest.mark.slow
def test_the_page_goes_from_the_answer_to_the_cause(opened: Opened) -> None:
    browser = opened(ESTIMATE)
    order = browser.execute_script("return [...document.querySelectorAll('section')].map((e) => e.id)")
    assert order == ["summary", "work", "timeline", "wafer", "placement", "steps", "experts", "about"]
    with open_trace(ESTIMATE) as trace:
        report: Any = trace.report()
    cards = {card.split("\n")[0]: card for card in [c.text for c in browser.find_elements(By.CSS_SELECTOR, ".card")]}
    limit = report["bounds"]["token"]
    by = report["decode"]["cycles_by"]
    most = max(by, key=by.__getitem__)
    assert cards["limit"].split("\n")[1] == most
    assert f"{limit['ratio']:.3g} × the bound, {limit['limit']} ({limit['bound_grade']})" in cards["limit"]
    for name, value, path in (
        ("first token", f"{1e6 * report['latency']['ttft_s']:.0f} µs", "latency.ttft_s"),
        ("cost", f"{report['cost']['usd_per_million_tokens']:.3g} USD", "cost.usd_per_million_tokens"),
        ("energy", f"{report['energy']['joules_per_token']:.3g} J", "energy.joules_per_token"),
    ):
        assert cards[name].split("\n")[1] == value + report["grades"][path]["grade"], name
    assert "M measured" in found(browser, "#summary").text


def test_a_token_opens_at_the_slowest_and_is_set_beside_the_median(opened: Opened) -> None:
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
def test_a_click_pins_a_step_on_the_map_and_in_the_table(story: Any) -> None:
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
def test_a_row_of_the_table_is_framed_on_the_map(story: Any) -> None:
    visit(story, "#?layers=apart")
    choose(story, "wafer-number", "0")
    settled(story)
    before = shot(found(story, "#map-A"))
    found(story, "#steps-table tbody tr:nth-child(2)").click()
    settled(story)
    assert len(texts(story, "#steps-table tr[aria-current]")) == 1
    assert (shot(found(story, "#map-A")) != before).any()
    found(story, "#steps-table tr[aria-current]").click()
    settled(story)
    assert texts(story, "#steps-table tr[aria-current]") == []


@pytest.mark.slow
def test_tips_go_away(story: Any) -> None:
    visit(story, "")
    tile = found(story, "#work .leaf")
    over(story, tile, 0.5, 0.5).perform()
    assert tip(story)
    over(story, tile, 0.5, 0.5).click().perform()
    assert story.execute_script(HIDDEN)
    over(story, found(story, "#map-A"), 0.5, 0.5).perform()
    assert tip(story)
    story.execute_script("scrollBy(0, 40)")
    wait_for(story, HIDDEN)
    over(story, found(story, "#map-A"), 0.4, 0.5).perform()
    assert tip(story)
    ActionChains(story).send_keys(Keys.ESCAPE).perform()
    assert story.execute_script(HIDDEN)
    over(story, found(story, "#map-A"), 0.5, 0.4).perform()
    assert tip(story)
    over(story, found(story, "#about h2"), 0.5, 0.5).perform()
    assert story.execute_script(HIDDEN)


@pytest.mark.slow
def test_the_wheel_zooms_what_the_pointer_rests_on_and_letters_move(story: Any) -> None:
    visit(story, "#wafer?map=links.south")
    canvas = found(story, "#map-A")
    before = tip_at(story, canvas, 0.3, 0.3)
    scroll = "return scrollY"
    wait_for(story, "return performance.now() - (window.since ??= performance.now()) > 350")
    top = story.execute_script(scroll)
    for _ in range(3):
        ActionChains(story).scroll_from_origin(scroll_origin(canvas, 0.3, 0.3), 0, -100).perform()
    assert story.execute_script(scroll) == top
    assert tip_at(story, canvas, 0.31, 0.3) == before
    assert "view=" in address(story, "view=")
    ActionChains(story).send_keys(Keys.ESCAPE).perform()
    looked = shot(canvas)
    ActionChains(story).send_keys("d").perform()
    settled(story)
    moved = shot(canvas)
    assert (moved != looked).any()
    ActionChains(story).send_keys("a").perform()
    settled(story)
    assert (shot(canvas) == looked).all()
    ActionChains(story).send_keys("0").perform()
    wait_for(story, "return !location.hash.includes('view=')")
    lanes = found(story, "#lanes-A")
    over(story, lanes, 0.5, 0.5).perform()
    ActionChains(story).send_keys("w").perform()
    first, last, whole = window(story)
    assert last - first == pytest.approx(whole / 2, rel=0.01)
    ActionChains(story).send_keys("d").perform()
    assert window(story)[0] == pytest.approx(first + whole / 16, rel=0.02)
    ActionChains(story).send_keys("s").perform()
    assert window(story)[1] - window(story)[0] == whole


def test_a_place_that_is_sent_is_found_again_and_nonsense_is_not_taken(story: Any) -> None:
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
    seen = [
        *story.execute_script(values),
        *texts(story, "#pe h3"),
        *texts(story, "#work .crumbs b"),
        *texts(story, "#window"),
    ]
    visit(story, place)
    again = [
        *story.execute_script(values),
        *texts(story, "#pe h3"),
        *texts(story, "#work .crumbs b"),
        *texts(story, "#window"),
    ]
    assert again == seen
    assert story.execute_script("return scrollY") > 0
    visit(story, "#nowhere?map=<b>&pe=9999,-1&view=a,b,c&wafer=77&cycles=5,5,5&token-A=1e9&step-A=99999&in=x|y&zzz=1")
    assert story.get_log("browser") == []
    assert texts(story, "#work .crumbs b") == []
    assert story.find_element(By.ID, "quantity").get_attribute("value") == "hops"


@pytest.mark.slow
def test_the_map_has_rulers_its_ends_and_the_cursor_on_the_busiest_pe(story: Any) -> None:
    visit(story, "#wafer?map=links.south&wafer=1")
    with open_trace(TWO_WAFERS) as trace:
        words = trace.column("links/words", 1, 2)[0, 2]
    row, col = np.unravel_index(words.argmax(), words.shape)
    assert texts(story, "#pe h3") == [f"PE {row}, {col} of wafer 1"]
    assert texts(story, "#wafer figcaption") == ["link words south, wafer 1"]
    ends = "#wafer .legend span"
    assert texts(story, ends) == ["0 words", f"{words.max():,} words"]
    choose(story, "scale", "range")
    settled(story)
    assert texts(story, ends) == [f"{words[words > 0].min():,} words", f"{words.max():,} words"]
    found(story, "#map-A").send_keys(Keys.ARROW_LEFT, Keys.ARROW_UP)
    story.find_element(By.CSS_SELECTOR, "button[aria-label='To the PE with most']").click()
    wait_for(story, f"return document.querySelector('#pe h3').textContent === 'PE {row}, {col} of wafer 1'")
    drawn = (
        "const c = document.querySelector(arguments[0]), d = c.getContext('2d').getImageData(0, 0, c.width, c.height);"
        "return d.data.filter((v, i) => i % 4 === 3 && v > 100).length"
    )
    for ruler in (".ruler-left", ".ruler-bottom"):
        assert story.execute_script(drawn, ruler) > 30, ruler
    height = story.execute_script("return document.getElementById('map-A').clientHeight / innerHeight")
    assert 0.3 < height <= 0.6


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
    place = address(browser, "moves=0")
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
    visit(browser, place)
    read = browser.find_element(By.ID, "replay-read")
    assert read.text.startswith("cycle 0 of 5")
    found(browser, "#replay-step").click()
    number = found(browser, "#token-A")
    number.clear()
    number.send_keys("4", Keys.ENTER)
    found(browser, "#lanes-A").send_keys(Keys.ARROW_RIGHT * 2)
    assert read.text.startswith("cycle 1 of 5")
    found(browser, "#lanes-A").send_keys(Keys.ARROW_RIGHT)
    assert read.text.startswith("cycle 0 of 5"), "the pinned step is the one that the words are of"
    found(browser, "#replay-end").click()
    assert browser.find_element(By.ID, "replay-read").text == "6 moves of pass 1, cycles 0 to 5"


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


@pytest.mark.slow
@pytest.mark.parametrize("traces", [(ESTIMATE,), (STORY, TWO_WAFERS)], ids=["one", "two"])
def test_a_phone_has_all_of_it_without_scrolling_sideways(opened: Opened, traces: tuple[Path, ...]) -> None:
    browser = opened(*traces)
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    )
    try:
        visit(browser, "")
        assert browser.execute_script("return document.documentElement.scrollWidth") == 390
        outside = (
            "return [...document.querySelectorAll('main *')].filter((e) => !e.closest('.scroll') &&"
            " e.checkVisibility() && e.getBoundingClientRect().right > 391).map((e) => e.tagName + e.className)"
        )
        assert browser.execute_script(outside) == []
        size = "return document.querySelector('#work .group-name').getBoundingClientRect().height"
        assert browser.execute_script(size) > 11
        canvas = browser.find_element(By.ID, "map-A")
        assert canvas.size["height"] <= 0.6 * 844
        assert canvas.value_of_css_property("touch-action") == "pan-y"
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.slow
def test_what_a_buffer_is_needed_by_is_read_whole(story: Any) -> None:
    visit(story, "#wafer")
    narrow = {"width": 1200, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    for size in ({}, narrow):
        if size:
            story.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        table = found(story, "#pe .scroll")
        assert story.execute_script("return arguments[0].scrollWidth <= arguments[0].clientWidth", table)
    story.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    with open_trace(TWO_WAFERS) as trace:
        ops, buffers = trace.texts("graph/ops/name"), trace.table("buffer")
    shown = texts(story, "#pe td.wraps:nth-child(2)")
    stage = 0 if "stage 0" in found(story, "#pe dl").text else 1
    live = {
        (ops[a], ops[b])
        for a, b, of in zip(buffers["live_from"], buffers["live_to"], buffers["stage"], strict=True)
        if a >= 0 and of == stage
    }
    wanted = {a if a == b else f"{a} to {b.removeprefix(a[: a.rfind('.') + 1])}" for a, b in live}
    assert set(shown) - {"always"} == wanted
