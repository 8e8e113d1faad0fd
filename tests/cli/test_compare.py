"""Tests of ``wse compare`` (rows, files, escaped names) and of ``--price`` in several commands."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Wse
from tests.models.helpers import write_model
from tests.reference.test_json_keys import RESULTS, check_keys
from wse.studies.compare.plan.result import COLUMNS as PLANNED_COLUMNS
from wse.tracing.query.two_traces.comparison_row import COLUMNS

SMALL = ("--mesh", "6x5", "--prompt-len", "5", "--new-tokens", "9", "--schedule", "baseline")
HOSTILE = "<script>alert(1)<&script> $\\frac{"
"""A model name that contains HTML tags and the math syntax of plots."""
GOLDEN = Path(__file__).parents[2] / "traces" / "golden" / "v1"
FILES = ("--csv", "c.csv", "--png", "c.png", "--html", "c.html")


def check_files(folder: Path) -> list[dict[str, str]]:
    """Return the rows of the CSV file. Check that the picture is a PNG and that the page has only its own scripts."""
    assert (folder / "c.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    page = (folder / "c.html").read_text(encoding="utf-8")
    assert page.count("<script") == page.count("</script>") == 2, "the data and the script of the page itself"
    assert "<img" not in page
    with (folder / "c.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_comparison_of_a_hostile_name_writes_the_same_rows_to_all_files(wse: Wse, tmp_path: Path, empty: Path) -> None:
    (tmp_path / HOSTILE).mkdir()
    model = write_model(tmp_path / HOSTILE)
    outcome = wse("compare", model, *SMALL, "--wafers", "2,3", "--mapping", "region", *FILES, "--json")
    assert outcome.code == 0, outcome.err
    report = json.loads(outcome.out)
    check_keys(report, RESULTS["compare"])
    fastest = [row for row in report["rows"] if row.get("objective") != "throughput"]
    assert [row["wafers"] for row in fastest] == [2, 2, 2, 3]
    assert "--wafers 3" in fastest[-1]["reason"]
    for row, line in zip(report["rows"], check_files(empty), strict=True):
        # texts that begin with a dash, such as reasons, are written after an apostrophe
        cells = {name: text.removeprefix("'") for name, text in line.items() if text}
        assert cells == {name: as_text(value) for name, value in row.items() if name in COLUMNS}


def as_text(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def test_comparison_of_two_traces_writes_its_files(wse: Wse, empty: Path) -> None:
    outcome = wse("compare", GOLDEN / "story.h5", GOLDEN / "story-two-wafers.h5", *FILES)
    assert outcome.code == 0, outcome.err
    assert "What changed in a generated token" in outcome.out
    assert [row["wafers"] for row in check_files(empty)] == ["1", "2"]


PLACED = ("story", "--mesh", "16x16", "--mapping", "region", "--schedule", "baseline", "--wafers", "1")


def test_rows_that_meet_targets_are_written_as_markdown_and_csv(wse: Wse, empty: Path) -> None:
    outcome = wse("compare", *PLACED, "--lengths", "8/8,16/4", "--tpot", "1ms", "--markdown", "--csv", "t.csv")
    assert outcome.code == 0
    assert "| lengths | machine | type | meets | users |" in outcome.out
    assert "\n- USD/Mtok: price of all machines per million output tokens" in outcome.out
    with (empty / "t.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = {(row["prompt_len"], row["new_tokens"], row["keeps"]) for row in rows}
    assert found == {("8", "8", "True"), ("16", "4", "True")}
    # columns without a value are left out: there are neither options of links nor users who pause
    assert tuple(rows[0]) == tuple(n for n in PLANNED_COLUMNS if not n.startswith("link_") and n != "in_flight")


LENGTHS = ("--prompt-len", "64", "--new-tokens", "64")
WAFER = (*PLACED, *LENGTHS)
GPU = ("story", "--gpu", "h100", "--gpus", "1", *LENGTHS)
TRACE = GOLDEN / "story-two-wafers.h5"
KEYS = ("usd_per_million_tokens_low", "usd_per_million_tokens", "usd_per_million_tokens_high")


def _json_of(wse: Wse, *arguments: object) -> Any:
    answer = wse(*arguments, "--json")
    assert answer.code == 0, answer.err
    return json.loads(answer.out)


def _cost_range(row: Any) -> tuple[float, ...]:
    """Return the low, central and high cost in USD per million tokens."""
    return tuple(row[key] for key in KEYS)


@pytest.mark.parametrize(
    ("machine", "price", "central", "range_"),
    [
        (WAFER, "WSE3=60,h100=2,cs4=3", 64.45, (41.96, 99.0)),
        (GPU, "h100=60,b200=2,wafer=3", 2.95, (1.99, 5.0)),
    ],
)
def test_cost_is_reported_at_three_prices_or_at_the_given_price(
    wse: Wse, machine: tuple[str, ...], price: str, central: float, range_: tuple[float, float]
) -> None:
    plain = _json_of(wse, "estimate", *machine)["cost"]
    low, value, high = _cost_range(plain)
    assert (low, high) == pytest.approx((value * range_[0] / central, value * range_[1] / central))
    assert plain["range"] == [low, high]
    given = _json_of(wse, "estimate", *machine, "--price", price)["cost"]
    assert _cost_range(given) == pytest.approx((60 / central * value,) * 3)
    assert given["grade"] == "U"
    assert given["assumptions"].endswith("60 USD/h: given")


def test_price_option_overrides_an_economics_file(wse: Wse, tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text("wafer_usd_per_hour = 30\nwafer_power_w = 11_500\n")
    result = _json_of(wse, "estimate", *WAFER, "--economics", file, "--price", "wafer=60")
    assert (result["cost"]["wafer_usd_per_hour"], result["energy"]["wafer_power_w"]) == (60, 11_500)


def test_price_option_applies_to_traces(wse: Wse) -> None:
    plain, given = (
        _json_of(wse, "compare", TRACE, TRACE, *price) for price in ((), ("--price", "wafer=60,b200=2,cs4=3"))
    )
    for before, after in zip(plain["rows"], given["rows"], strict=True):
        assert after["usd_per_million_tokens"] == pytest.approx(60 / 64.45 * before["usd_per_million_tokens"])
    assert given["prices"] == ["at 60 USD/h per wse2; given"]
