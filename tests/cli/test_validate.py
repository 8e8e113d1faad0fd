"""Tests of ``wse validate`` and ``wse scenario``: text and JSON output, pages, plots and CSV files."""

import csv
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Wse
from tests.reference.test_json_keys import check_keys
from tests.support.measurement_rows import GOOD, file_of
from wse.studies.scenario.request import bundled_scenarios
from wse.studies.scenario.result import ScenarioResult, ScenariosResult
from wse.studies.validate.agreement import against_wavelet

UNKNOWN = {**GOOD, "kernel": "sort \x1b[31m", "algorithm": "<b>|[x](y)", "value": "1234567"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Write three measurements: one predicted exactly, one with an error of 10 %, and one of an unknown kernel."""
    path = tmp_path / "mine.csv"
    path.write_text(file_of(GOOD, {**GOOD, "value": "3475.6"}, UNKNOWN), newline="")
    return path


def test_validate_prints_errors_and_reasons_of_missing_predictions(wse: Wse, data: Path) -> None:
    outcome = wse("validate", "--data", data, "--rows", "predicted")
    assert outcome.code == 0, outcome
    assert outcome.err in ("", "predicting measurements...\n")  # progress is printed after one second
    assert max(len(line) for line in outcome.out.splitlines()) <= 80
    assert "-10.0 %" in outcome.out
    assert "this kernel is not modelled: sort \\x1b[31m" in outcome.out
    assert "1,234,567" not in outcome.out
    assert "\x1b" not in outcome.out


def test_validate_json_has_the_rows_of_all_files_in_order(wse: Wse, data: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text(file_of(GOOD), newline="")
    outcome = wse("validate", "--data", data, "--data", other, "--json")
    facts = json.loads(outcome.out)
    places = [(Path(row["file"]).name, row["line"]) for row in facts["rows"]]
    assert places == [("mine.csv", 2), ("mine.csv", 3), ("mine.csv", 4), ("other.csv", 2)]
    with data.open(newline="") as file:
        assert [row["input"] for row in facts["rows"][:3]] == list(csv.DictReader(file))
    first, _, unknown, _ = facts["rows"]
    expected = ("fabric model", "tuned", 0, None)
    assert (first["method"], first["software"], first["error_pct"], first["reason"]) == expected
    assert (unknown["predicted"], unknown["error_pct"]) == (None, None)
    assert facts["summary"]["rows"] == 4
    assert facts["summary"]["predicted"] == 3


def test_validate_summary_groups_errors_by_kind_and_platform(wse: Wse, tmp_path: Path) -> None:
    """Rows computed from a published formula are not measurements, so the summary leaves them out."""
    data = tmp_path / "mine.csv"
    formula = {**GOOD, "platform": "model (WSE-2 constants)", "value_kind": "derived-from-published-formula"}
    data.write_text(file_of(GOOD, {**GOOD, "value": "3475.6"}, formula), newline="")
    summary = json.loads(wse("validate", "--data", data, "--json").out)["summary"]
    kinds = [(kind["kind"], kind["where"], kind["predicted"], kind["fitted"]) for kind in summary["by_kind"]]
    assert kinds == [("reduces and broadcasts", "WSE-2 simulator", 2, 0)]
    assert round(summary["by_kind"][0]["worst_abs_error_pct"], 1) == 10.0


def test_validate_writes_page_plot_and_csv(wse: Wse, data: Path, tmp_path: Path) -> None:
    page, target = tmp_path / "page.md", tmp_path / "rows.csv"
    outcome = wse("validate", "--data", data, "--page", page, "--csv", target)
    assert outcome.code == 0, outcome
    text = page.read_text(encoding="utf-8")
    assert "![Errors of every row, a line for each kernel](page.png)" in text
    assert "| reduces and broadcasts | WSE-2 simulator | 2 |  | 5.0 % | 10.0 % |  |  |" in text
    assert "Of 3 rows, 2 are predicted. Constants were fitted on 0 of these." in text
    assert "the median of the absolute errors is 5.0 %, and the largest is 10.0 %." in text
    assert "| 1 | this kernel is not modelled: sort \\x1b\\[31m |" in text
    assert "\x1b" not in text
    assert page.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    with target.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["predicted"] for row in rows] == ["3128.0", "3128.0", ""]
    assert float(rows[1]["error_pct"]) == pytest.approx(-10.0, abs=0.01)
    assert rows[2]["reason"].startswith("this kernel is not modelled")


@pytest.mark.slow
def test_validate_against_the_wavelet_simulation_reports_errors(wse: Wse, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare two patterns instead of all, to save time."""
    few = {name: against_wavelet.samples()[name] for name in ("chain", "k_tree all-reduce")}
    monkeypatch.setattr(against_wavelet, "samples", lambda: few)
    monkeypatch.setattr(against_wavelet, "CONFIGURATIONS_PER_PATTERN", 1)
    facts = json.loads(wse("validate", "--against", "wavelet", "--json").out)
    assert facts["summary"]["rows"] == facts["summary"]["loads_equal"] == len(facts["rows"]) == 20
    patterns = [group["pattern"] for group in facts["summary"]["by_pattern"]]
    assert patterns == ["chain", "k_tree all-reduce", "decode layers", "prefill layers", "verify layers"]
    for row in facts["rows"]:
        error = 100 * (row["fast_cycles"] - row["wavelet_cycles"]) / row["wavelet_cycles"]
        assert row["error_pct"] == pytest.approx(error)
        assert (row["streams"] > 1) == (row["contention_cycles"] > 0)
    errors = [abs(row["error_pct"]) for row in facts["rows"] if row["wavelet_cycles"] > facts["judged_above_cycles"]]
    assert facts["summary"]["worst_abs_error_pct"] == max(errors)


SCENARIO = """
title = "The story model"
question = "Is it as fast as that?"
prompt_len = 32
new_tokens = 32

[[models]]
model = "story"

[[machines]]
wafer = "wse3"
mesh = "24x24"
mapping = "region"
schedule = "baseline"

[[drafts]]

[[drafts]]
draft = "0.9,0.8"

[[published]]
figure = "tokens_per_s_per_user"
value = 10_000
relation = "at_least"
evidence = "invented"
by = "independent"
source = "nowhere"
"""


def test_scenario_lists_the_bundled_scenarios(wse: Wse) -> None:
    shown = json.loads(wse("scenario", "--json").out)
    check_keys(shown, ScenariosResult)
    assert [row["name"] for row in shown["scenarios"]] == list(bundled_scenarios())
    text = wse("scenario").out
    assert all(name in text for name in bundled_scenarios())


def test_scenario_file_gives_result_page_and_plot(wse: Wse, empty: Path) -> None:
    (empty / "story.toml").write_text(SCENARIO, encoding="utf-8")
    answer = wse("scenario", "story.toml", "--json", "--html", "s.html", "--png", "s.png")
    assert answer.code == 0, answer.err
    result = json.loads(answer.out)
    check_keys(result, ScenarioResult)
    assert len(result["verdict"]) == 2
    assert [row["agreement"] for row in result["combinations"]] == ["consistent", "consistent"]
    assert result["verdict"][0] in (empty / "s.html").read_text(encoding="utf-8")
    assert (empty / "s.png").read_bytes().startswith(b"\x89PNG")
