"""The page in a real browser: nothing is fetched, nothing complains, what it offers works, by mouse and by keys."""

from __future__ import annotations

import dataclasses
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from tests.report.view.conftest import GOLDEN, IMAGE, SCRIPT, requested, wait_for
from tests.traces.conftest import HEADER, write
from wse_traces import TraceWriter, open_trace

pytest.importorskip("selenium", reason="selenium is not installed (pip install '.[dev]')")

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

Opened = Callable[..., Any]
STORY, TWO = GOLDEN / "story.h5", GOLDEN / "story-two-wafers.h5"


@pytest.fixture
def story(opened: Opened) -> Any:
    """The page of a run on two wafers; tests leave it as they please, and read what they compare with anew."""
    return opened(TWO, again=False)


def found(browser: Any, selector: str) -> Any:
    element = browser.find_element(By.CSS_SELECTOR, selector)
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    return element


def texts(browser: Any, selector: str) -> list[str]:
    return list(
        browser.execute_script(
            "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", selector
        )
    )


def choose(browser: Any, name: str, value: str) -> None:
    found(browser, f"#{name} option[value='{value}']").click()


def settled(browser: Any) -> None:
    """Wait until what was asked for is drawn."""
    browser.execute_async_script("const done = arguments[0]; requestAnimationFrame(() => setTimeout(done, 30))")


def shot(element: Any) -> np.ndarray:
    from matplotlib.image import imread

    return (255 * imread(io.BytesIO(element.screenshot_as_png))[..., :3]).astype(int)


def over(browser: Any, element: Any, x: float, y: float) -> ActionChains:
    """To a place of an element, as fractions of its size."""
    size = element.size
    left, top = (round((at - 0.5) * size[side]) for at, side in ((x, "width"), (y, "height")))
    return ActionChains(browser, duration=20).move_to_element_with_offset(element, left, top)


def tip(browser: Any) -> str:
    return str(wait_for(browser, "const t = document.getElementById('tip'); return t.hidden ? '' : t.innerText"))


def test_it_loads_without_a_complaint_and_without_a_request(opened: Opened) -> None:
    browser = opened(TWO)
    assert browser.get_log("browser") == []
    assert [url for url in requested(browser) if not url.startswith("data:")] == []
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert browser.execute_script("return performance.getEntriesByName('usable').length") == 1


def test_names_from_a_trace_are_text(opened: Opened, hostile: Path) -> None:
    browser = opened(hostile)
    assert browser.get_log("browser") == []
    assert browser.execute_script("return document.querySelectorAll('img').length") == 0
    assert browser.execute_script("return document.querySelectorAll('script').length") == 2
    assert SCRIPT in found(browser, "#title").text
    for section, names in {"steps": (SCRIPT, IMAGE), "about": (SCRIPT, IMAGE), "pe": (SCRIPT, IMAGE)}.items():
        told = browser.execute_script("return document.getElementById(arguments[0]).textContent", section)
        assert all(name in told for name in names), section
    choose(browser, "work-by", "kind")
    over(browser, found(browser, "#work .leaf"), 0.5, 0.5).perform()
    assert any(name in tip(browser) for name in (SCRIPT, IMAGE, "c"))
    over(browser, found(browser, "#map-A"), 0.5, 0.5).perform()
    assert IMAGE in tip(browser)
    assert browser.execute_script("return window.owned") is None


def test_hovering_a_pe_names_its_op_tile_and_bytes(story: Any) -> None:
    choose(story, "wafer-number", "1")
    choose(story, "quantity", "sram.weights")
    settled(story)
    canvas = found(story, "#map-A")
    over(story, canvas, 0.5, 0.02).perform()
    told = tip(story)
    with open_trace(TWO) as trace:
        held = trace.column("sram/bytes_per_pe", 1, 2)[0, 1]
        names = trace.texts("sram/buffers/name")
    col = next(c for c in range(9) if f"PE 0, {c}\n" in told)
    assert f"SRAM: weights: {held[0, col]:,} B" in told
    assert f"tile 0, {col % 4} of 9×4" in told
    assert "op gate_up" in told
    assert "layer 4" in told
    assert any(f"largest buffer: {name}, " in told for name in names)


def test_a_clicked_pe_shows_its_sram_map(story: Any) -> None:
    choose(story, "wafer-number", "0")
    choose(story, "quantity", "sram")
    settled(story)
    over(story, found(story, "#map-A"), 0.5, 0.5).click().perform()
    wait_for(story, "return document.querySelector('#pe h3')?.textContent.startsWith('PE 4, 4 of wafer 0')")
    with open_trace(TWO) as trace:
        table = trace.table("buffer")
        mine = table["stage"] == 1
        names = [bytes(name).decode() for name in table["name"][mine]]
    assert len(story.find_elements(By.CSS_SELECTOR, "#pe .buffer")) == mine.sum()
    rows = texts(story, "#pe tbody tr td:first-child")
    order = np.argsort(table["address"][mine], kind="stable")
    assert rows[: mine.sum()] == [names[at] for at in order]
    over(story, found(story, "#pe .buffer"), 0.5, 0.5).perform()
    assert f"{names[order[0]]}\n" in tip(story)


def test_arrow_keys_move_the_cursor_and_plus_zooms(story: Any) -> None:
    choose(story, "wafer-number", "0")
    canvas = found(story, "#map-A")
    over(story, canvas, 0.5, 0.5).click().perform()
    canvas.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    wait_for(story, "return document.querySelector('#pe h3').textContent.startsWith('PE 6, 5 ')")
    canvas.send_keys(Keys.SHIFT, Keys.ARROW_LEFT)
    wait_for(story, "return document.querySelector('#pe h3').textContent.startsWith('PE 6, 0 ')")
    before = shot(canvas)
    canvas.send_keys("+", "+", "+")
    settled(story)
    closer = shot(canvas)
    assert (before != closer).mean() > 0.02
    canvas.send_keys("0")
    settled(story)
    assert (shot(canvas) == before).all()


def test_the_wheel_zooms_where_the_pointer_is_and_dragging_moves(story: Any) -> None:
    canvas = found(story, "#map-A")
    choose(story, "quantity", "links.south")
    settled(story)
    over(story, canvas, 0.5, 0.5).click().perform()
    before = tip_at(story, canvas, 0.3, 0.3)
    for _ in range(4):
        ActionChains(story).scroll_from_origin(scroll_origin(canvas, 0.3, 0.3), 0, -100).perform()
    assert tip_at(story, canvas, 0.3, 0.3) == before
    over(story, canvas, 0.3, 0.3).click_and_hold().perform()
    over(story, canvas, 0.6, 0.6).release().perform()
    assert tip_at(story, canvas, 0.6, 0.6) == before
    canvas.send_keys("0")


def tip_at(browser: Any, canvas: Any, x: float, y: float) -> str:
    over(browser, canvas, x, y).perform()
    return tip(browser)


def scroll_origin(element: Any, x: float, y: float) -> Any:
    from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

    left, top = (round((at - 0.5) * element.size[side]) for at, side in ((x, "width"), (y, "height")))
    return ScrollOrigin.from_element(element, left, top)


def test_the_table_sorts_and_searches(story: Any) -> None:
    def column(number: int) -> list[str]:
        return texts(story, f"#steps-table tbody td:nth-child({number})")

    with open_trace(TWO) as trace:
        places = trace.top_steps(n=1 << 40)
        names = trace.texts("strings/names")
    assert column(8) == [f"{cycles:,}" for cycles in places["cycles"][:50]]
    heads = story.find_elements(By.CSS_SELECTOR, "#steps-table th button")
    found(story, "#steps-table")
    heads[7].click()
    assert column(8) == [f"{cycles:,}" for cycles in np.sort(places["cycles"])[:50]]
    heads[2].click()
    assert column(3) == sorted(names[at] for at in places["name"])[:50]
    heads[7].click()
    field = found(story, "#search")
    field.send_keys("swiglu decode layer 3")
    mine = (places["name"] == names.index("swiglu")) & (places["phase"] == 1) & (places["layer"] == 3)
    assert column(8) == [f"{cycles:,}" for cycles in places["cycles"][mine]]
    field.clear()
    field.send_keys("no such step")
    assert column(8) == []
    assert found(story, "#found").text == "nothing found"
    field.clear()
    field.send_keys(" ")


def window(browser: Any) -> list[int]:
    """First and last cycle that the timeline shows, and the end of the pass."""
    words = browser.find_element(By.ID, "window").text.replace(",", "").split()
    return [int(words[1]), int(words[3]), int(words[5].rstrip(":"))]


def test_a_brush_zooms_the_timeline_and_a_step_is_named(story: Any) -> None:
    choose(story, "lanes", "op")
    strip, lanes = found(story, "#brush"), story.find_element(By.ID, "lanes-A")
    strip.send_keys("0")
    _, end, whole = window(story)
    assert end == whole
    over(story, strip, 0.25, 0.5).click_and_hold().perform()
    over(story, strip, 0.5, 0.5).release().perform()
    first, last, _ = window(story)
    assert first == pytest.approx(0.25 * whole, rel=0.02)
    assert last == pytest.approx(0.5 * whole, rel=0.02)
    found(story, "#lanes-A")
    over(story, lanes, 0.5, 0.5).click_and_hold().perform()
    over(story, lanes, 0.7, 0.5).release().perform()
    closer, nearer, _ = window(story)
    assert first < closer < nearer < last
    strip.send_keys("0")
    strip.send_keys(Keys.SHIFT, Keys.ARROW_RIGHT)
    lanes.send_keys(Keys.ARROW_RIGHT)
    detail = story.find_element(By.CSS_SELECTOR, ".detail").text
    with open_trace(TWO) as trace:
        token = next(t for t in range(trace.rows("token")) if trace.steps(t)["phase"][0] == 1)
        steps = trace.steps(token)
        ops = trace.texts("graph/ops/name")
    assert detail.startswith(ops[steps["op"][0]])
    assert f"{steps['cycles'][0]:,} cycles" in detail


def test_keys_move_and_narrow_the_window(story: Any) -> None:
    strip = found(story, "#brush")
    strip.send_keys("0")
    whole = window(story)[2]
    strip.send_keys("+")
    strip.send_keys(Keys.SHIFT, Keys.ARROW_LEFT, Keys.NULL)
    first, last, _ = window(story)
    assert last - first == pytest.approx(whole * 3 / 8, rel=0.01)
    strip.send_keys(Keys.HOME)
    assert window(story)[0] == 0
    strip.send_keys(Keys.END)
    assert window(story)[1] == whole


@pytest.mark.parametrize("by", ["cause", "stage", "wafer", "layer"])
def test_lanes_by_anything_are_drawn(story: Any, by: str) -> None:
    choose(story, "lanes", by)
    settled(story)
    assert painted(story, "lanes-A") > 5
    if by == "cause":
        over(story, found(story, "#lanes-A"), 0.5, 2.5 * 23 / 160).perform()
        assert re.search(r"cycles \(.*\) from cycle .*\n(.*, )?compute \d", tip(story))
    assert f"Lanes by {by}." in story.find_element(By.ID, "lanes-A").get_attribute("aria-label")


def test_an_area_opens_by_key_and_closes(story: Any) -> None:
    choose(story, "work-phase", "decode")
    choose(story, "work-by", "layer")
    group = found(story, "#work .group")
    name = group.get_attribute("aria-label").split(",")[0]
    group.send_keys(Keys.ENTER)
    assert f"of {name}, by kind of op" in found(story, "#work .say").text
    with open_trace(TWO) as trace:
        places = trace.top_steps(n=1 << 40)
        passes = int((trace.column("schedules/phase")[trace.column("passes/schedule")] == 1).sum())
    layer = int(name.split()[1])
    total = places["cycles"][(places["layer"] == layer) & (places["phase"] == 1)].sum() / passes
    assert f": {round(total):,} in all" in found(story, "#work .say").text
    found(story, "#work .group").send_keys(Keys.ESCAPE)
    assert "pass by layer" in found(story, "#work .say").text


def test_everything_is_reached_by_tab_and_shows_its_focus(story: Any) -> None:
    reached = set()
    story.execute_script("document.activeElement.blur(); scrollTo(0, 0)")
    for _ in range(60):
        ActionChains(story).send_keys(Keys.TAB).perform()
        at = story.execute_script(
            "const e = document.activeElement, s = getComputedStyle(e);"
            "return [e.id || e.className.baseVal || e.textContent, s.outlineStyle, e.querySelector?.('.frame') ? 1 : 0]"
        )
        reached.add(at[0])
        assert at[1] != "none" or at[2], at
    assert {"theme", "quantity", "map-A", "brush", "lanes-A", "search"} <= reached


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_theme_is_that_of_the_system_unless_one_is_chosen(story: Any, theme: str) -> None:
    system = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    other = {"light": "dark", "dark": "light"}[theme]
    for choice, seen in {"auto": theme, other: other}.items():
        story.execute_cdp_cmd("Emulation.setEmulatedMedia", system)
        choose(story, "theme", choice)
        wait_for(story, f"return document.documentElement.dataset.theme === '{seen}'")
    story.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pictures_are_drawn_in_light_and_dark(story: Any, theme: str) -> None:
    choose(story, "theme", theme)
    choose(story, "quantity", "links.south")
    settled(story)
    seen = shot(found(story, "#wafer"))
    assert seen.shape[0] > 400
    assert seen.shape[1] > 1000
    colours, counts = np.unique(seen @ [1 << 16, 1 << 8, 1], return_counts=True)
    assert len(colours) > 50
    assert counts.max() / counts.sum() < 0.9
    background = seen[4, seen.shape[1] // 2].mean()
    assert background > 200 if theme == "light" else background < 60
    for name in ("map-A", "brush", "lanes-A"):
        assert painted(story, name) > 5, name


def painted(browser: Any, canvas: str) -> int:
    """How many colours a canvas has."""
    script = (
        "const c = document.getElementById(arguments[0]), d = c.getContext('2d').getImageData(0, 0, c.width, c.height);"
        "return new Set(new Uint32Array(d.data.buffer)).size"
    )
    return int(browser.execute_script(script, canvas))


def test_pictures_say_in_words_what_they_show(story: Any) -> None:
    told = story.execute_script(
        "return [...document.querySelectorAll('canvas:not([aria-hidden]), svg[role]')]"
        ".map((e) => [e.getAttribute('aria-label'), e.getAttribute('aria-valuetext')].join(' '))"
    )
    assert len(told) >= 5
    assert all(text and len(text) > 20 for text in told)
    assert story.execute_script("return document.querySelectorAll('svg:not([role]):not([aria-hidden])').length") == 0


def test_layers_experts_and_the_fabric_of_dead_pes(opened: Opened, tmp_path: Path) -> None:
    options = {"defects": "1e-2", "mesh": [5, 4]}
    browser = opened(write(tmp_path / "a.h5", dataclasses.replace(HEADER, options=options)))
    assert browser.get_log("browser") == []
    assert "layer 0, expert" not in tip_of(browser, "#map-A")
    choose(browser, "quantity", "links.west")
    wait_for(browser, "return document.querySelector('#wafer .say').textContent.startsWith('link words west, wafer 0')")
    assert "of the fabric" in tip_of(browser, "#map-A")
    choose(browser, "layer", "0")
    wait_for(browser, "return document.querySelector('#wafer .say').textContent.startsWith('link words west, layer 0')")
    said = found(browser, "#wafer .say").text
    assert said.endswith("at most 1 words (PE 2, 1), 6 words in all, none on 24 of 30 PEs.")
    assert "fullest expert has 1.17 times" in found(browser, "#experts canvas").get_attribute("aria-label")
    over(browser, found(browser, "#experts canvas"), 0.75, 0.5).perform()
    assert tip(browser) == "layer 0, expert 1\n7 tokens, 58.3 % of the layer's"
    assert "5×4: PEs are dead" in found(browser, "#about").text


def tip_of(browser: Any, selector: str) -> str:
    over(browser, found(browser, selector), 0.5, 0.5).perform()
    return tip(browser)


def test_layers_together_are_one_row_of_the_table(story: Any) -> None:
    choose(story, "rows", "together")
    with open_trace(TWO) as trace:
        steps, names, kinds = trace.steps(), trace.texts("strings/names"), trace.texts("graph/ops/kind")
    mine = (steps["name"] == names.index("swiglu")) & (steps["phase"] == 1)
    (row,) = [
        row
        for row in story.execute_script(
            "const rows = [...document.querySelectorAll('#steps-table tbody tr')];"
            "return rows.map((row) => [...row.cells].map((cell) => cell.textContent))"
        )
        if row[0] == "decode" and row[2] == "swiglu"
    ]
    assert row[1] == kinds[steps["op"][mine][0]]
    assert row[3:5] == [str(mine.sum()), f"{steps['cycles'][mine].sum():,}"]
    choose(story, "rows", "apart")


def test_a_run_that_was_killed_before_its_first_token_says_what_is_missing(opened: Opened, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), TraceWriter(tmp_path / "a.h5", HEADER):
        raise KeyboardInterrupt
    browser = opened(tmp_path / "a.h5.partial")
    assert browser.get_log("browser") == []
    told = {
        "summary": "incomplete",
        "wafer": "No map of the PEs was recorded.",
        "work": "No pass was recorded.",
        "timeline": "No token with its steps was recorded.",
        "steps": "There are no steps to show.",
    }
    for section, text in told.items():
        assert text in found(browser, f"#{section}").text


def test_sizes_that_cannot_be_break_no_picture(opened: Opened, tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5")
    with h5py.File(path, "r+") as file:
        file["sram/stage_bytes"][0, 3] = 2**62
        file["sram/buffers/bytes"][0] = 2**31 - 1
        file["steps/start_cycle"][3] = -(2**62)
        file["steps/cycles"][9] = 2**62
        file["tokens/cycles"][:] = -1
    browser = opened(path)
    assert browser.get_log("browser") == []
    assert len(browser.find_elements(By.CSS_SELECTOR, "#pe .mark")) < 20


def test_two_traces_are_beside_each_other(opened: Opened) -> None:
    browser = opened(STORY, TWO)
    assert browser.get_log("browser") == []
    left, right = browser.find_element(By.ID, "map-A").location, browser.find_element(By.ID, "map-B").location
    assert left["y"] == right["y"]
    assert left["x"] < right["x"]
    over(browser, found(browser, "#map-A"), 0.5, 0.5).click().perform()
    wait_for(browser, "return document.querySelectorAll('#pe h3').length === 2")
    rows = {row.text.split()[0]: row.text for row in browser.find_elements(By.CSS_SELECTOR, "#summary tbody tr")}
    for path, name in ((STORY, "A"), (TWO, "B")):
        with open_trace(path) as trace:
            places = trace.top_steps(n=1 << 40)
            passes = int((trace.column("schedules/phase")[trace.column("passes/schedule")] == 1).sum())
        cycles = places["cycles"][places["phase"] == 1].sum() / passes
        assert f"{round(cycles):,} cycles" in rows["a"], name
    first = texts(browser, "#steps-table tbody tr:first-child td")
    before, after, difference = (int(text.replace(",", "").replace("−", "-")) for text in first[4:7])
    assert after - before == difference
