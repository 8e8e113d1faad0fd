"""Tests of the page of a comparison in a real browser: no request, no error, escaped texts and sortable tables."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.comparison.compare.test_curve import GPU_ROWS, row
from tests.comparison.compare.test_traces import LESS, RESULT, ROW
from tests.inspect.page.conftest import IMAGE, SCRIPT, browser, requested_urls, wait_for
from wse.studies.compare.curve.certainty import CurveCertainty
from wse.studies.compare.curve.page import curve_as_html
from wse.studies.compare.curve.result import CurveResult
from wse.studies.compare.curve.row import with_best
from wse.studies.compare.machine import WAFER
from wse.studies.compare.page.page import as_html
from wse.studies.results.published import PublicPoint

pytest.importorskip("selenium", reason="selenium is not installed (pip install '.[test]')")

from tests.inspect.page.driving import scroll_to, texts, tooltip_of

__all__ = ["browser"]
HOSTILE = replace(
    RESULT,
    model=replace(RESULT.model, name=SCRIPT),
    rows=(
        replace(ROW, wafers=4, limit=IMAGE),
        replace(LESS, wafers=4, mapping=SCRIPT),
        replace(ROW, wafers=8, best=("one_user",), tokens_per_s_per_user=7.0),
        replace(ROW, wafers=9, mapping=IMAGE, reason="</script>" + IMAGE),
    ),
    verdict=(f"One {SCRIPT} is &lt; two.",),
)


@pytest.fixture(scope="module")
def page(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a browser that shows the page of a comparison in which every text tries to inject a script."""
    file = tmp_path_factory.mktemp("page") / "compare.html"
    file.write_bytes(as_html(HOSTILE))
    browser.get_log("browser"), browser.get_log("performance")
    browser.get(file.as_uri())
    wait_for(browser, "return document.documentElement.dataset.usable")
    return browser


def test_page_loads_without_errors_or_requests_and_escapes_texts(page: Any) -> None:
    assert page.get_log("browser") == []
    assert [url for url in requested_urls(page) if not url.startswith("data:")] == []
    assert page.execute_script("return window.owned") is None
    assert page.execute_script("return document.querySelectorAll('main img, main script').length") == 0
    assert scroll_to(page, "main section h2").text == "Verdict"
    assert scroll_to(page, ".verdict").text == HOSTILE.verdict[0]
    assert SCRIPT in scroll_to(page, "h1").text
    assert IMAGE in page.execute_script("return document.querySelector('.list').textContent")


def test_tables_sort_by_value_and_the_best_is_marked(page: Any) -> None:
    cells = "#table-0 tbody td:nth-child(5)"
    assert texts(page, cells) == ["12,346", "1.5", "7"]
    head = scroll_to(page, "#table-0 th:nth-child(5) button")
    head.click()
    assert texts(page, cells) == ["12,346", "7", "1.5"]
    head.click()
    assert texts(page, cells) == ["1.5", "7", "12,346"]
    assert texts(page, "#table-0 td:nth-child(5).best") == ["12,346"]


def test_curves_show_rows_tiers_and_published_speeds(browser: Any, tmp_path: Path) -> None:
    """Show two drawings with a point per row, a ring per tier of the best machines, and published speeds."""
    rows = with_best([row(WAFER, 1, 900, 50, tier="plain"), *(replace(r, machine=IMAGE) for r in GPU_ROWS)])
    public = PublicPoint(model=SCRIPT, system=IMAGE, tokens_per_s_per_user=450.0, by="vendor", date="2024", source="a")
    result = CurveResult(
        inputs={"prompt_len": 5, "new_tokens": 9, "plain_speed": 50.0},
        model=replace(RESULT.model, name=SCRIPT),
        wafer={},
        economics={},
        rows=rows,
        public=(public, replace(public, usd_per_million_tokens=2.0, tokens_per_s_per_user=80.0)),
        certainty=CurveCertainty(faster=1.0, cheaper=0.5, crossover="never", crossovers={"never": 1.0}, samples=4),
        verdict=("One.", "Two."),
    )
    file = tmp_path / "curve.html"
    file.write_bytes(curve_as_html(result))
    browser.get_log("browser")
    browser.get(file.as_uri())
    wait_for(browser, "return document.documentElement.dataset.usable")
    assert browser.get_log("browser") == []
    assert browser.execute_script("return window.owned") is None
    assert len(texts(browser, "#curves svg")) == 2
    assert len(texts(browser, "#curves .point")) == 2 * len(rows)
    assert len(texts(browser, "#curves .ring.plain")) == 2
    assert len(texts(browser, "#curves .public")) == 4
    assert "450 tokens/s of a user" in tooltip_of(browser, "#curves .public")
    assert IMAGE in tooltip_of(browser, "#curves .public")
