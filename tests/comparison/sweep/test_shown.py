"""Tests of the output of a sweep: the printed rows and their order, the plot, and the columns of the table file."""

import csv
import io
from pathlib import Path

import pytest

import wse
from tests.comparison.sweep.conftest import axes
from wse.errors import BadInput, UnknownName
from wse.reports.terminal import console_on
from wse.reports.terminal_table import print_table
from wse.studies.options import known_names
from wse.studies.sweep.plot import check_axis, figure_of
from wse.studies.sweep.row import JournalEntry
from wse.studies.sweep.shown import SHORT, SweepView, best_values, check_columns, shown_rows
from wse.studies.sweep.table import write_table
from wse.studies.sweep.tables import rows_table

REPORTS = [
    {"model_dtype": "fp8", "system_wafers": 1, "decode_tokens_per_s_per_user": 900.0}
    | {"latency_ttft_s": 0.08, "sram_fits": True},
    {"system_wafers": 2, "decode_tokens_per_s_per_user": 500.5, "latency_ttft_s": 0.02, "sram_fits": True},
    {
        "model_dtype": "mxfp4",
        "system_wafers": 4,
        "decode_tokens_per_s_per_user": 950.0,
        "latency_ttft_s": 0.2,
        "sram_fits": False,
    },
]
GRID = axes(batch=4, context=1)
QUICK_OPTIONS = {"mapping": "region", "schedule": "baseline", "prompt_len": 5, "new_tokens": 4}
ENTRIES = [
    *(JournalEntry(setting=at, row=report) for at, report in enumerate(REPORTS)),
    JournalEntry(setting=3, error="too\nlarge"),
]


def test_help_names_every_short_column() -> None:
    assert tuple(known_names.sweep_columns()) == tuple(SHORT)


def shown_batches(**view: object) -> list[float | str]:
    """Return the batch size of each shown row, in the order of the rows."""
    return [row.setting["batch"] for row in shown_rows(GRID, ENTRIES, SweepView(**view))]  # type: ignore[arg-type]


def test_rows_have_the_axes_with_several_values_and_seven_columns() -> None:
    first, *_, last = shown_rows(GRID, ENTRIES, SweepView())
    assert first.setting == {"batch": 1}
    assert first.values == {"dtype": "fp8", "wafers": 1, "user": 900.0, "ttft": 0.08, "fits": True}
    assert (last.error, last.values) == ("too\nlarge", {})


@pytest.mark.parametrize(
    ("sort", "want"),
    [
        (None, [1, 2, 3, 4]),
        ("user", [3, 1, 2, 4]),
        ("ttft", [2, 1, 3, 4]),
        ("ttft:down", [3, 1, 2, 4]),
        ("wafers", [1, 2, 3, 4]),
        ("batch:down", [4, 3, 2, 1]),
        ("dtype", [1, 3, 2, 4]),
        ("dtype:down", [3, 1, 2, 4]),
        ("latency_ttft_s", [2, 1, 3, 4]),
    ],
)
def test_rows_are_sorted_best_first_and_failed_settings_last(sort: str | None, want: list[int]) -> None:
    assert shown_batches(sort=sort) == want


def test_top_rows_are_the_first_in_the_order() -> None:
    assert shown_batches(top=2) == [3, 1]
    assert shown_batches(top=2, sort="wafers") == [1, 2]


@pytest.mark.parametrize("width", [40, 120])
def test_printed_table_marks_the_best_and_cuts_nothing(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    rows = shown_rows(GRID, ENTRIES, SweepView(top=4))
    stream = io.StringIO()
    print_table(console_on(stream), rows_table(rows, tuple(SHORT), 9, {}))
    printed = stream.getvalue()
    assert "950*" in printed
    assert "too\\nlarge" in " ".join(printed.split())
    assert "5 more settings" in " ".join(printed.split())
    assert "…" not in printed
    heading = next(line for line in printed.splitlines() if "batch" in line)
    assert ("type" in heading) == (width > 40) == ("omitted" not in printed)


def test_best_value_of_a_row_that_is_not_printed_is_not_marked() -> None:
    view = SweepView(top=2)
    table = rows_table(shown_rows(GRID, ENTRIES, view), view.columns, 4, best_values(GRID, ENTRIES, view.columns))
    best = {column.key: column.best for column in table.columns}
    assert (best["value user"], best["value ttft"]) == ("largest", "")
    assert table.footer[-1][1].endswith("Some have better values of TTFT: print them with --sort ttft")


def test_plot_has_a_line_for_each_setting_of_the_other_axes() -> None:
    grid = axes(batch=2, context=3)
    entries = [
        JournalEntry(setting=at, row={"decode_tokens_per_s_per_user": 100.0 + at, "latency_ttft_s": 0.1})
        for at in range(5)
    ]
    assert check_axis(grid, None) == "context"
    figure = figure_of(grid, [*entries, JournalEntry(setting=5, error="no")], "context")
    user, users, first, _ = figure.axes
    assert [first.yaxis.get_major_formatter()(value, 0) for value in (0, 0.0002, 0.05)] == ["0", "200 µs", "50 ms"]
    lines = [(line.get_label(), list(line.get_xdata()), list(line.get_ydata())) for line in user.lines]
    assert lines == [("batch 1", [1, 2, 3], [100, 101, 102]), ("batch 2", [1, 2], [103, 104])]
    assert [list(line.get_ydata()) for line in users.lines] == [[], []]


def test_sweep_in_which_all_settings_fail_is_an_error_with_a_table(config: Path, tmp_path: Path) -> None:
    grid = {"model": config, "mesh": ["1x1", "1x2"], "wafers": 1, **QUICK_OPTIONS}
    grid |= {"wafer.sram_bytes_per_pe": 9_000}
    with pytest.raises(BadInput, match=r"none of 2 settings has an answer; the first: .* does not fit on 1x1"):
        wse.sweep(grid, output=tmp_path / "t.csv", jobs=1)
    assert len((tmp_path / "t.csv").read_text().splitlines()) == 3
    assert not (tmp_path / "t.csv.partial").exists()


def test_column_that_equals_an_axis_is_shown_once() -> None:
    rows = shown_rows(
        axes(wafers=2), [JournalEntry(setting=at, row=report) for at, report in enumerate(REPORTS[:2])], SweepView()
    )
    assert [column.title for column in rows_table(rows, tuple(SHORT), 2, {}).columns].count("wafers") == 1
    other = JournalEntry(setting=1, row=REPORTS[2])  # 2 wafers were requested but the estimate needs 4
    rows = shown_rows(axes(wafers=2), [JournalEntry(setting=0, row=REPORTS[0]), other], SweepView())
    assert [column.title for column in rows_table(rows, tuple(SHORT), 2, {}).columns].count("wafers") == 2
    with pytest.raises(UnknownName, match=r"unknown column 'nope': known: .*\busers, wafers$"):
        check_columns(SweepView(columns=("nope",)), axes(wafers=2), REPORTS[0])


def test_table_has_grades_and_texts_only_with_every_column(tmp_path: Path) -> None:
    row = {"a_s": 1.0, "grades_a_s_grade": "M", "energy_assumptions": "long", "cost_grade": "I", "b_source": "x"}
    for every_column, want in ((False, ["batch", "error", "a_s"]), (True, ["batch", "error", *row])):
        write_table(
            axes(batch=1), lambda: [JournalEntry(setting=0, row=row)], tmp_path / "t.csv", every_column=every_column
        )
        with (tmp_path / "t.csv").open(newline="") as stream:
            assert next(csv.reader(stream)) == want


def test_axis_of_times_has_its_unit() -> None:
    entries = [JournalEntry(setting=at, row=REPORTS[0]) for at in range(2)]
    rows = shown_rows(axes(users=1, think_time=2), entries, SweepView())
    column = next(column for column in rows_table(rows, (), 1, {}).columns if column.key == "think_time")
    assert column.text({"think_time": 0.25}) == "250 ms"
