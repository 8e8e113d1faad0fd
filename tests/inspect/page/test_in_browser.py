"""The page of a trace in a real browser: what is drawn, and what it offers by mouse and keys."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from tests.inspect.page.conftest import IMAGE, SCRIPT, requested, wait_for
from tests.inspect.runs import TWO_WAFERS
from tests.traces.conftest import HEADER, write
from wse.reports.shared_tables import tile_name
from wse_traces import TraceWriter, open_trace

pytest.importorskip("selenium", reason="selenium is not installed (pip install '.[test]')")

from selenium.webdriver.common.by import By

from tests.inspect.page.driving import choose, found, over, painted, settled, shot, texts, tip

Opened = Callable[..., Any]


def test_it_loads_without_a_complaint_and_without_a_request(opened: Opened) -> None:
    browser = opened(TWO_WAFERS)
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
    over(browser, found(browser, "#map-A"), 0.5, 0.5).click().perform()
    wait_for(browser, "return document.querySelector('#pe .buffer')")
    for section, names in {"steps": (SCRIPT, IMAGE), "about": (SCRIPT, IMAGE), "pe": (SCRIPT, IMAGE)}.items():
        told = browser.execute_script("return document.getElementById(arguments[0]).textContent", section)
        assert all(name in told for name in names), section
    choose(browser, "work-by", "kind")
    over(browser, found(browser, "#work .leaf"), 0.5, 0.5).perform()
    assert any(name in tip(browser) for name in (SCRIPT, IMAGE, "c"))
    over(browser, found(browser, "#map-A"), 0.5, 0.5).perform()
    assert IMAGE in tip(browser)
    assert browser.execute_script("return window.owned") is None


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


@pytest.mark.slow
def test_run_that_was_killed_before_its_first_token_says_what_is_missing(opened: Opened, tmp_path: Path) -> None:
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


@pytest.mark.slow
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


pytest.importorskip("selenium", reason="selenium is not installed (pip install '.[test]')")


@pytest.mark.slow
def test_hovering_a_pe_names_its_op_tile_and_bytes(story: Any) -> None:
    choose(story, "wafer-number", "1")
    choose(story, "quantity", "sram.weights")
    settled(story)
    canvas = found(story, "#map-A")
    over(story, canvas, 0.5, 0.02).perform()
    told = tip(story)
    with open_trace(TWO_WAFERS) as trace:
        held = trace.column("sram/bytes_per_pe", 1, 2)[0, 1]
        names = trace.texts("sram/buffers/name")
    col = next(c for c in range(6) if f"PE 0, {c}\n" in told)
    assert f"SRAM: weights: {held[0, col]:,} B" in told
    assert f"tile 0, {col} of 4×6" in told
    assert "op gate_up" in told
    assert "layers 2–3" in told
    assert any(f"largest buffer: {tile_name(name)}, " in told for name in names)


@pytest.mark.slow
def test_clicked_pe_shows_its_sram_map(story: Any) -> None:
    choose(story, "wafer-number", "0")
    choose(story, "quantity", "sram")
    settled(story)
    over(story, found(story, "#map-A"), 0.55, 0.75).click().perform()
    wait_for(story, "return document.querySelector('#pe h3')?.textContent.startsWith('PE 4, 3 of wafer 0')")
    with open_trace(TWO_WAFERS) as trace:
        table = trace.table("buffer")
        mine = table["stage"] == 1
        names = [bytes(name).decode() for name in table["name"][mine]]
    assert len(story.find_elements(By.CSS_SELECTOR, "#pe .buffer")) == mine.sum()
    rows = texts(story, "#pe tbody tr td:first-child")
    order = np.argsort(table["address"][mine], kind="stable")
    assert rows[: mine.sum()] == [tile_name(names[at]) for at in order]
    over(story, found(story, "#pe .buffer"), 0.5, 0.5).perform()
    assert f"{tile_name(names[order[0]])}\n" in tip(story)


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
    found(story, "#steps-table")
    heads[7].click()
    assert column(8) == [f"{cycles:,}" for cycles in np.sort(places["cycles"])[:50]]
    heads[2].click()
    assert column(3) == sorted(names[at] for at in places["name"])[:50]
    heads[7].click()
    field = found(story, "#search")
    field.send_keys("activate decode layer 3")
    mine = (places["name"] == names.index("activate")) & (places["phase"] == 1) & (places["layer"] == 3)
    assert column(8) == [f"{cycles:,}" for cycles in places["cycles"][mine]]
    field.clear()
    field.send_keys("no such step")
    assert column(8) == []
    assert found(story, "#found").text == "nothing found"
    field.clear()
    field.send_keys(" ")
