"""The page of a table in a browser: its Pareto front is that of a plain search, under filters and either way."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import wse
from tests.inspect.page.conftest import browser, wait_for  # noqa: F401

ROWS = [(random.Random(at).randrange(12), random.Random(~at).randrange(12), at % 5) for at in range(80)]
COLUMNS = ("across", "up", "batch")


def front_of(rows: list[tuple[int, int, int]], *, x_less: bool, y_less: bool) -> list[tuple[int, int]]:
    points = [(-x if x_less else x, -y if y_less else y) for x, y, _ in rows]
    return sorted(
        row[:2]
        for row, point in zip(rows, points, strict=True)
        if not any(o[0] >= point[0] and o[1] >= point[1] and o != point for o in points)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("x_less", "y_less", "batches"), [(False, False, (0, 4)), (True, False, (2, 3)), (True, True, (0, 4))]
)
def test_front_is_that_of_a_plain_search(
    browser: Any,  # noqa: F811
    tmp_path: Path,
    x_less: bool,  # noqa: FBT001
    y_less: bool,  # noqa: FBT001
    batches: tuple[int, int],
) -> None:
    table = tmp_path / "t.csv"
    table.write_text("\n".join([",".join(COLUMNS), *(",".join(map(str, row)) for row in ROWS)]))
    page = Path(wse.explore(table).page)
    state = {"x": 0, "y": 1, "xless": x_less, "yless": y_less, "filters": [2], "ranges": {"2": batches}}
    browser.get(f"{page.as_uri()}#{quote(json.dumps(state))}")
    kept = [row for row in ROWS if batches[0] <= row[2] <= batches[1]]
    wanted = front_of(kept, x_less=x_less, y_less=y_less)
    count = wait_for(browser, "return document.getElementById('count').textContent")
    assert count == f"{len(kept)} of {len(ROWS)} rows, {len(wanted)} on the Pareto front"
    script = "return [...document.querySelectorAll('#front tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
    shown = sorted((int(cells[0]), int(cells[1])) for cells in browser.execute_script(script))
    assert shown == wanted
