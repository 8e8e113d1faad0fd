"""What the page offers works, by mouse and by keys, in a real browser."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.inspect.page.conftest import wait_for
from tests.inspect.runs import TWO_WAFERS
from wse.reports.tile_name import tile_name
from wse_traces import open_trace

pytest.importorskip("selenium", reason="selenium is not installed (pip install '.[test]')")

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.inspect.page.driving import (
    choose,
    found,
    over,
    painted,
    settled,
    shot,
    texts,
    tip,
    window,
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


def test_a_clicked_pe_shows_its_sram_map(story: Any) -> None:
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


def test_arrow_keys_move_the_cursor_and_plus_zooms(story: Any) -> None:
    choose(story, "wafer-number", "0")
    canvas = found(story, "#map-A")
    over(story, canvas, 0.55, 0.55).click().perform()
    canvas.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    wait_for(story, "return document.querySelector('#pe h3').textContent.startsWith('PE 5, 4 ')")
    canvas.send_keys(Keys.SHIFT, Keys.ARROW_LEFT)
    wait_for(story, "return document.querySelector('#pe h3').textContent.startsWith('PE 5, 0 ')")
    before = shot(canvas)
    canvas.send_keys("+", "+", "+")
    settled(story)
    closer = shot(canvas)
    assert (before != closer).mean() > 0.02
    canvas.send_keys("0")
    settled(story)
    assert (shot(canvas) == before).all()


def test_the_table_sorts_and_searches(story: Any) -> None:
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
    with open_trace(TWO_WAFERS) as trace:
        token = next(t for t in range(trace.rows("token")) if trace.steps(t)["phase"][0] == 1)
        steps = trace.steps(token)
        ops = trace.texts("graph/ops/name")
    assert detail.startswith(ops[steps["op"][0]])
    assert f"{steps['cycles'][0]:,} cycles" in detail


def test_tokens_that_share_their_steps_send_what_their_own_cache_shifts_do(story: Any) -> None:
    lanes, number = found(story, "#lanes-A"), story.find_element(By.ID, "token-A")
    with open_trace(TWO_WAFERS) as trace:
        first, second = (trace.steps(token) for token in (13, 14))
    assert (first["schedule"] == second["schedule"]).all()
    (shifting,) = np.flatnonzero(first["words"] != second["words"])[:1].tolist()
    for token, steps in ((13, first), (14, second)):
        number.clear()
        number.send_keys(str(token), Keys.ENTER)
        lanes.send_keys(Keys.ARROW_RIGHT * (shifting + 1))
        detail = story.find_element(By.CSS_SELECTOR, ".detail").text
        assert f" {steps['words'][shifting]:,} words " in detail
        assert f" {steps['hops'][shifting]:,} hops " in detail


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


def test_areas_go_from_kinds_to_equal_layers_to_steps_and_back_by_key(story: Any) -> None:
    with open_trace(TWO_WAFERS) as trace:
        places = trace.top_steps(n=1 << 40)
        passes = int((trace.column("schedules/phase")[trace.column("passes/schedule")] == 1).sum())
        kinds, names = np.array(trace.texts("graph/ops/kind")), trace.texts("strings/names")
    mine = (kinds[places["op"]] == "gate_up") & (places["phase"] == 1)
    of_layers = {n: places["cycles"][mine & (places["layer"] == n)].sum() for n in range(5)}
    choose(story, "work-phase", "decode")
    choose(story, "work-by", "kind")
    kind = next(g for g in story.find_elements(By.CSS_SELECTOR, "#work .group") if g.accessible_name[:7] == "gate_up")
    kind.send_keys(Keys.ENTER)
    said = found(story, "#work .say").text
    assert f"of gate_up, by layer: {round(sum(of_layers.values()) / passes):,} in all" in said
    layers = texts(story, "#work .group-name")
    assert len(layers) == len(set(of_layers.values())) < 5
    for text in layers:
        numbers = [
            int(n)
            for a, b in re.findall(r"(\d)(?:–(\d))?(?=[, ]|$)", text.split("×")[0].split("  ")[0])
            for n in range(int(a), int(b or a) + 1)
        ]
        assert len({of_layers[n] for n in numbers}) == 1, text
        assert (f"×{len(numbers)}" in text) == (len(numbers) > 1), text
    found(story, "#work .group").send_keys(Keys.ENTER)
    tiles = story.find_elements(By.CSS_SELECTOR, "#work .group")
    assert {tile.accessible_name.split(",")[0] for tile in tiles} == {names[at] for at in set(places["name"][mine])}
    assert [b.text for b in story.find_elements(By.CSS_SELECTOR, "#work .crumbs button")] == ["← all", "gate_up"]
    tiles[0].send_keys(Keys.ESCAPE)
    assert found(story, "#work .say").text == said
    found(story, "#work .group").send_keys(Keys.ESCAPE)
    assert "pass by kind of op" in found(story, "#work .say").text


def test_layers_together_are_one_row_of_the_table(story: Any) -> None:
    choose(story, "rows", "together")
    with open_trace(TWO_WAFERS) as trace:
        steps, names, kinds = trace.steps(), trace.texts("strings/names"), trace.texts("graph/ops/kind")
    mine = (steps["name"] == names.index("activate")) & (steps["phase"] == 1)
    (row,) = [
        row
        for row in story.execute_script(
            "const rows = [...document.querySelectorAll('#steps-table tbody tr')];"
            "return rows.map((row) => [...row.cells].map((cell) => cell.textContent))"
        )
        if row[0] == "decode" and row[2] == "activate"
    ]
    assert row[1] == kinds[steps["op"][mine][0]]
    assert row[3:5] == [str(mine.sum()), f"{steps['cycles'][mine].sum():,}"]
    choose(story, "rows", "apart")
