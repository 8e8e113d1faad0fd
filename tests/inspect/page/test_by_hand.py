"""What the page offers works, by mouse and by keys, in a real browser."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.inspect.page.conftest import wait_for
from tests.inspect.runs import TWO_WAFERS
from wse.reports.shared_tables import tile_name
from wse_traces import open_trace

pytest.importorskip("selenium", reason="selenium is not installed (pip install '.[test]')")

from selenium.webdriver.common.by import By

from tests.inspect.page.driving import (
    choose,
    found,
    over,
    settled,
    texts,
    tip,
)

pytestmark = pytest.mark.slow


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
