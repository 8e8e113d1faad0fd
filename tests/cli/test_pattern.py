"""``wse pattern`` on the command line: JSON, and exit status 2 for a pattern that is wrong."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Wse

LOSSY = """
from wse_mappings.schedule import uniform_schedule

def mine(length, lines, arrival):
    return uniform_schedule("mine", length, lines, [(1, 0, arrival)], 1)
"""


def test_wrong_pattern_is_told_behind_the_others_with_status_2(wse: Wse, empty: Path) -> None:
    Path("mine.py").write_text(LOSSY, encoding="utf-8")
    shown = wse("pattern", "chain,mine.py:mine", "--pes", "8", "--words", "4,8", "--json")
    assert shown.code == 2
    assert shown.err == (
        "wse: mine.py:mine on 8 PEs: the sum on PE 0 lacks the words of PE 2, 3, 4, 5 and 2 more "
        "(and 1 more cases with a fault)\n"
    )
    cases = json.loads(shown.out)["cases"]
    assert [("fault" in case, "cycles" in case) for case in cases] == [(False, True), (True, False)] * 2
