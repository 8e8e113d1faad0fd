"""``wse explore`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Wse, files_below


def test_page_beside_its_table(wse: Wse, empty: Path) -> None:
    (empty / "t.csv").write_text("a,b\n1,2\n3,4\n")
    outcome = wse("explore", "t.csv", "--json")
    assert outcome.code == 0
    size = (empty / "t.html").stat().st_size
    told = json.loads(outcome.out)
    assert told == {"table": "t.csv", "page": "t.html", "page_bytes": size, "rows": 2, "columns": 2}
    assert "t.html" in wse("explore", "t.csv", "-o", "t.html").out
    assert files_below(empty) == {"t.csv", "t.html"}
