"""Tests of `wse pattern`: predicted costs, errors in user-defined patterns, and the HTML page in a real browser."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from placements import WSE2

import wse
from tests.inspect.page.conftest import browser, requested_urls, wait_for  # noqa: F401
from wse.backends.fabric.line.closed_forms import closed_form
from wse.errors import BadInput
from wse.hardware.load import load_wafer
from wse_mappings.patterns.chain import chain
from wse_mappings.schedule import Arrival, LineSchedule, uniform_schedule

PAIRS = Path(__file__).parents[3] / "docs" / "examples" / "package" / "wse_example" / "pairs.py"
WAFER = load_wafer("wse2")


def test_cases_have_the_numbers_of_their_models() -> None:
    result = wse.pattern("chain,star,multicast,gather", pes=[8], words=[16], wavelet=True, **WSE2)
    by_name = {case.pattern: case for case in result.cases}
    one = by_name["chain"]
    assert (one.collective, one.root, one.best, one.stalls) == ("reduce", 0, True, False)
    assert one.cycles == one.wavelet_cycles == one.form_cycles == closed_form("reduce", "chain", 1, 8, 16, WAFER)
    assert (one.links, one.busiest_link_words, one.hops, one.colours) == (7, 16, 7 * 16, 2)
    assert one.times_bound is not None
    assert one.times_bound >= 1
    star = by_name["star"]
    assert (star.busiest_link_words, star.hops, star.best) == (7 * 16, 28 * 16, False)
    assert (by_name["gather"].hops, by_name["gather"].cycles) == (28 * 16, by_name["gather"].bound_cycles)
    assert not by_name["multicast"].best  # nothing else does the same
    assert result.faults == ()
    assert [bound.collective for bound in result.bounds] == ["reduce", "broadcast", "gather"]


def test_numbers_of_the_machine_are_set() -> None:
    slow = wse.pattern("chain", pes=[64], words=[4], set="wafer.hop_cycles=x3", **WSE2)
    usual = wse.pattern("chain", words=[4], **WSE2)
    (case,), (as_it_is,) = slow.cases, usual.cases
    assert case.cycles == as_it_is.cycles + 2 * WAFER.hop_cycles * 63  # hops of the line
    assert (case.bound_cycles or 0) > (as_it_is.bound_cycles or 0)
    assert (slow.settings, usual.settings) == ({"wafer.hop_cycles": 3 * WAFER.hop_cycles}, {})
    assert "--set wafer.hop_cycles=3" in str(slow.tables()[0].note)


def test_pattern_of_a_file_and_a_function_are_timed_like_bundled_ones() -> None:
    def mine(length: int, lines: int, arrival: Arrival) -> LineSchedule:
        return chain(length, lines, arrival)

    result = wse.pattern([f"{PAIRS}:pairs", f"{PAIRS}:PATTERN", mine, "chain"], words=[64])
    pairs, pattern, own, bundled = (
        next(case for case in result.cases if case.pattern.endswith(name))
        for name in ("pairs", "PATTERN", "mine", "chain")
    )
    assert own.cycles == bundled.cycles
    assert own.form_cycles is None
    assert pairs.cycles == pattern.cycles
    assert pattern.form_cycles is not None


def lossy(length: int, lines: int, arrival: Arrival) -> LineSchedule:
    """Return a pattern that loses the words of PE 0."""
    return uniform_schedule("lossy", length, lines, [(pe, pe - 1, arrival) for pe in range(length - 1, 1, -1)], 2)


def crossed(length: int, lines: int, arrival: Arrival) -> LineSchedule:
    """Return a pattern that adds the words of PE 2 twice."""
    messages = [(2, 3, arrival), (1, 2, arrival), (3, 2, arrival), (2, 0, arrival)]
    return uniform_schedule("crossed", length, lines, messages, 3, message_colours=[0, 1, 2, 0])


def greedy(length: int, lines: int, arrival: Arrival) -> LineSchedule:
    """Return a pattern with fewer colours than its messages need."""
    return uniform_schedule("greedy", length, lines, [(pe, 0, arrival) for pe in range(length - 1, 0, -1)], 1)


@pytest.mark.parametrize(
    ("own", "fault"),
    [
        (lossy, "lossy on 4 PEs: the sum on PE 1 lacks the words of PE 0"),
        (crossed, "crossed on 4 PEs: the sum on PE 0 has the words of PE 2 more than once"),
        (greedy, "greedy on 4 PEs: its messages need 3 colours where they cross; colours = 1 is too few"),
    ],
)
def test_wrong_pattern_has_a_fault_and_no_cycles(own: Any, fault: str) -> None:
    result = wse.pattern([own, "chain"], pes=[4], words=[8])
    assert result.faults == (fault,)
    (case,) = [case for case in result.cases if case.fault]
    assert case.cycles is None
    assert not case.best
    assert [row.pattern for table in result.tables() for row in table.rows] == ["chain"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("mine = 3", "mine.py: mine: is of type int, not a pattern; give a function of (length, lines, arrival)"),
        ("def mine(length): ...", "mine.py: mine: is called with (length, lines, arrival), which it does not take"),
        ("def mine(*_):\n    return []", "mine.py: mine: returned an object of type list; give a function of"),
        ("def mine(*_):\n    return 1 / 0", "mine on 4 PEs: mine.py: line 2: ZeroDivisionError: division by zero"),
        ("import numpy\ndef mine(:", "mine.py: line 2: SyntaxError: invalid syntax; correct that line"),
        ("import no_such_module_of_anybody", "mine.py: line 1: ModuleNotFoundError: No module named"),
        (
            "from wse_mappings.patterns.chain import chain\ndef mine(*_):\n    return chain(3, 1, 1)",
            "mine.py: mine: made a pattern of 3 PEs instead of 4",
        ),
    ],
)
def test_errors_in_a_file_are_one_line_with_file_and_line(
    source: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(source, encoding="utf-8")
    with pytest.raises(BadInput) as error:
        wse.pattern("mine.py:mine", pes=[4])
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_page_has_tables_faults_and_the_wavelets_of_small_cases(tmp_path: Path) -> None:
    page = tmp_path / "patterns.html"
    result = wse.pattern(["chain", "chain_multicast", lossy], pes=[4, 300], words=[5], html=page)
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"https?://", text.replace("http://www.w3.org/2000/svg", ""))
    assert "lossy on 4 PEs: the sum on PE 1 lacks the words of PE 0" in text
    assert "2 cases of the tables not played: at most 128 PEs" in text
    data = json.loads(re.findall(r'id="data">(.*?)</script>', text, re.DOTALL)[0])
    assert [one["name"] for one in data["animations"]] == ["chain_multicast: 4 PEs, 5 words", "chain: 4 PEs, 5 words"]
    to_all, one = data["animations"]
    moves = [one["moves"][at : at + 5] for at in range(0, len(one["moves"]), 5)]
    case = next(case for case in result.cases if case.pattern == "chain" and case.pes == 4)
    assert sum(through != 0 for _, _, through, _, _ in moves) == case.hops == 15
    assert all(through == -1 for _, pe, through, _, _ in moves if through)
    assert max(one["operations"][2::3]) == one["cycles"] == case.cycles
    assert set(to_all["operations"][::3]) == {0, 1, 2, 3}


def test_number_after_at_sign_replaces_the_default() -> None:
    cycles = {case.pattern: case.cycles for case in wse.pattern("two_phase@8,two_phase@2,two_phase", words=[1]).cases}
    assert cycles["two_phase@8"] == cycles["two_phase"] != cycles["two_phase@2"]


MAX_STACKED = 8  # waiting words that the page draws at one side of a PE
COUNT_DRAWN_CIRCLES = """
const drawn = CanvasRenderingContext2D.prototype.arc;
window.circles = 0;
CanvasRenderingContext2D.prototype.arc = function (...all) {
  window.circles += this.canvas.id === "line";
  return drawn.apply(this, all);
};
"""
GO_TO_CYCLE = """
const place = document.getElementById("place");
place.value = arguments[0];
window.circles = 0;
place.dispatchEvent(new Event("input"));
return [window.circles, document.getElementById("cycle").textContent];
"""


def words_at(cycle: int, animation: dict[str, Any], hop_cycles: int, ramp_cycles: int) -> int:
    """Return how many words the page draws at a cycle: words in transit and words that wait in a router.

    A word is in transit while it is on a link or ramp. A word waits in a router from its arrival by a link until it
    leaves. A word that leaves through two ports leaves once. At most MAX_STACKED waiting words are drawn at one side
    of a PE.
    """
    moves = [tuple(animation["moves"][at : at + 5]) for at in range(0, len(animation["moves"]), 5)]
    moving = sum(0 <= cycle - start < (hop_cycles if through else ramp_cycles) for start, _, through, _, _ in moves)
    waiting: Counter[tuple[int, int]] = Counter()
    for start, pe, through, _, _ in moves:
        if through and start + hop_cycles <= cycle:
            waiting[pe + through, -through] += 1
    for start, pe, came, _ in {(start, pe, came, colour) for start, pe, _, came, colour in moves if came}:
        if start <= cycle:
            waiting[pe, came] -= 1
    assert min(waiting.values(), default=0) >= 0
    return moving + sum(min(count, MAX_STACKED) for count in waiting.values())


@pytest.mark.slow
def test_words_are_drawn_where_they_are_at_each_cycle(browser: Any, tmp_path: Path) -> None:  # noqa: F811
    page = tmp_path / "patterns.html"
    wse.pattern("star,ring_all_reduce,two_phase_both_sides_multicast", pes=[9], words=[5], html=page)
    (found,) = re.findall(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    data = json.loads(found)
    browser.get_log("browser"), browser.get_log("performance")
    browser.get(page.as_uri())
    wait_for(browser, "return document.getElementById('legend').textContent")
    assert browser.get_log("browser") == []
    assert [url for url in requested_urls(browser) if not url.startswith("data:")] == []
    browser.execute_script(COUNT_DRAWN_CIRCLES)
    waited = 0
    for index, animation in enumerate(data["animations"]):
        choose = (
            "const c = document.getElementById('case'); c.value = arguments[0]; c.dispatchEvent(new Event('change'))"
        )
        browser.execute_script(choose, str(index))
        cycles = animation["cycles"]
        for cycle in range(cycles + 1):
            circles, label = browser.execute_script(GO_TO_CYCLE, cycle)
            expected = words_at(cycle, animation, data["hop_cycles"], data["ramp_cycles"])
            assert (circles, label) == (expected, f"cycle {cycle} of {cycles}"), animation["name"]
            waited = max(waited, expected)
        assert circles == 0  # all have arrived
    assert waited > MAX_STACKED // 2
