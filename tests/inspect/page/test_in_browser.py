"""Tests of the page of a trace in a real browser: drawing, mouse and keyboard."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from tests.inspect.page.conftest import IMAGE, SCRIPT, requested_urls, wait_for
from tests.inspect.runs import TWO_WAFERS
from tests.traces.conftest import HEADER, write
from wse.reports.shared_tables import tile_name
from wse_traces import TraceWriter, open_trace

pytest.importorskip("selenium", reason="selenium is not installed (pip install '.[test]')")

from selenium.webdriver.common.by import By

from tests.inspect.page.driving import (
    choose,
    count_colours,
    move_over,
    screenshot,
    scroll_to,
    texts,
    tooltip,
    wait_until_drawn,
)

OpenPage = Callable[..., Any]


def test_page_loads_without_console_messages_and_requests(open_page: OpenPage) -> None:
    browser = open_page(TWO_WAFERS)
    assert browser.get_log("browser") == []
    assert [url for url in requested_urls(browser) if not url.startswith("data:")] == []
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert browser.execute_script("return performance.getEntriesByName('usable').length") == 1


def test_names_from_a_trace_are_shown_as_text(open_page: OpenPage, hostile: Path) -> None:
    browser = open_page(hostile)
    assert browser.get_log("browser") == []
    assert browser.execute_script("return document.querySelectorAll('img').length") == 0
    assert browser.execute_script("return document.querySelectorAll('script').length") == 2
    assert SCRIPT in scroll_to(browser, "#title").text
    move_over(browser, scroll_to(browser, "#map-A"), 0.5, 0.5).click().perform()
    wait_for(browser, "return document.querySelector('#pe .buffer')")
    for section, names in {"steps": (SCRIPT, IMAGE), "about": (SCRIPT, IMAGE), "pe": (SCRIPT, IMAGE)}.items():
        section_text = browser.execute_script("return document.getElementById(arguments[0]).textContent", section)
        assert all(name in section_text for name in names), section
    choose(browser, "work-by", "kind")
    move_over(browser, scroll_to(browser, "#work .leaf"), 0.5, 0.5).perform()
    assert any(name in tooltip(browser) for name in (SCRIPT, IMAGE, "c"))
    move_over(browser, scroll_to(browser, "#map-A"), 0.5, 0.5).perform()
    assert IMAGE in tooltip(browser)
    assert browser.execute_script("return window.owned") is None


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_maps_are_drawn_in_light_and_dark(story: Any, theme: str) -> None:
    choose(story, "theme", theme)
    choose(story, "quantity", "links.south")
    wait_until_drawn(story)
    image = screenshot(scroll_to(story, "#wafer"))
    assert image.shape[0] > 400
    assert image.shape[1] > 1000
    colours, counts = np.unique(image @ [1 << 16, 1 << 8, 1], return_counts=True)
    assert len(colours) > 50
    assert counts.max() / counts.sum() < 0.9
    background = image[4, image.shape[1] // 2].mean()
    assert background > 200 if theme == "light" else background < 60
    for name in ("map-A", "brush", "lanes-A"):
        assert count_colours(story, name) > 5, name


@pytest.mark.slow
def test_page_of_a_run_without_tokens_says_what_is_missing(open_page: OpenPage, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), TraceWriter(tmp_path / "a.h5", HEADER):
        raise KeyboardInterrupt
    browser = open_page(tmp_path / "a.h5.partial")
    assert browser.get_log("browser") == []
    expected_texts = {
        "summary": "incomplete",
        "wafer": "No map of the PEs was recorded.",
        "work": "No pass was recorded.",
        "timeline": "No token with its steps was recorded.",
        "steps": "There are no steps to show.",
    }
    for section, text in expected_texts.items():
        assert text in scroll_to(browser, f"#{section}").text


@pytest.mark.slow
def test_impossible_sizes_cause_no_errors(open_page: OpenPage, tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5")
    with h5py.File(path, "r+") as file:
        file["sram/stage_bytes"][0, 3] = 2**62
        file["sram/buffers/bytes"][0] = 2**31 - 1
        file["steps/start_cycle"][3] = -(2**62)
        file["steps/cycles"][9] = 2**62
        file["tokens/cycles"][:] = -1
    browser = open_page(path)
    assert browser.get_log("browser") == []
    assert len(browser.find_elements(By.CSS_SELECTOR, "#pe .mark")) < 20


@pytest.mark.slow
def test_hovering_a_pe_names_its_op_tile_and_bytes(story: Any) -> None:
    choose(story, "wafer-number", "1")
    choose(story, "quantity", "sram.weights")
    wait_until_drawn(story)
    canvas = scroll_to(story, "#map-A")
    move_over(story, canvas, 0.5, 0.02).perform()
    text = tooltip(story)
    with open_trace(TWO_WAFERS) as trace:
        sram_bytes = trace.column("sram/bytes_per_pe", 1, 2)[0, 1]
        names = trace.texts("sram/buffers/name")
    col = next(c for c in range(6) if f"PE 0, {c}\n" in text)
    assert f"SRAM: weights: {sram_bytes[0, col]:,} B" in text
    assert f"tile 0, {col} of 4×6" in text
    assert "op gate_up" in text
    assert "layers 2–3" in text
    assert any(f"largest buffer: {tile_name(name)}, " in text for name in names)


@pytest.mark.slow
def test_clicked_pe_shows_its_sram_map(story: Any) -> None:
    choose(story, "wafer-number", "0")
    choose(story, "quantity", "sram")
    wait_until_drawn(story)
    move_over(story, scroll_to(story, "#map-A"), 0.55, 0.75).click().perform()
    wait_for(story, "return document.querySelector('#pe h3')?.textContent.startsWith('PE 4, 3 of wafer 0')")
    with open_trace(TWO_WAFERS) as trace:
        table = trace.table("buffer")
        in_stage = table["stage"] == 1
        names = [bytes(name).decode() for name in table["name"][in_stage]]
    assert len(story.find_elements(By.CSS_SELECTOR, "#pe .buffer")) == in_stage.sum()
    rows = texts(story, "#pe tbody tr td:first-child")
    order = np.argsort(table["address"][in_stage], kind="stable")
    assert rows[: in_stage.sum()] == [tile_name(names[at]) for at in order]
    move_over(story, scroll_to(story, "#pe .buffer"), 0.5, 0.5).perform()
    assert f"{tile_name(names[order[0]])}\n" in tooltip(story)


@pytest.mark.slow
def test_table_sorts_and_searches(story: Any) -> None:
    def column(number: int) -> list[str]:
        return texts(story, f"#steps-table tbody td:nth-child({number})")

    with open_trace(TWO_WAFERS) as trace:
        places = trace.top_steps(n=1 << 40)
        names = trace.texts("strings/names")
    choose(story, "rows", "apart")
    assert column(8) == [f"{cycles:,}" for cycles in places["cycles"][:50]]
    heads = story.find_elements(By.CSS_SELECTOR, "#steps-table th button")
    scroll_to(story, "#steps-table")
    heads[7].click()
    assert column(8) == [f"{cycles:,}" for cycles in np.sort(places["cycles"])[:50]]
    heads[2].click()
    assert column(3) == sorted(names[at] for at in places["name"])[:50]
    heads[7].click()
    field = scroll_to(story, "#search")
    field.send_keys("activate decode layer 3")
    matches = (places["name"] == names.index("activate")) & (places["phase"] == 1) & (places["layer"] == 3)
    assert column(8) == [f"{cycles:,}" for cycles in places["cycles"][matches]]
    field.clear()
    field.send_keys("no such step")
    assert column(8) == []
    assert scroll_to(story, "#found").text == "nothing found"
    field.clear()
    field.send_keys(" ")
