"""Tests of result tables on narrow terminals: columns are left out instead of cutting or wrapping a number."""

import io
import re

import pytest
from few_samples import few_samples

import wse
from tests.comparison.scenario.scenarios import FIGURE, GPU, scenario
from tests.models.helpers import write_config
from wse.reports.result import Result
from wse.reports.table import Table
from wse.reports.terminal import console_on
from wse.reports.terminal_table import print_table, shown_columns
from wse.serving.goal import plain_speed_footer

WIDTHS = (40, 80, 120)
SMALL_RUN = {"mesh": "6x5", "prompt_len": 8, "new_tokens": 8, "mapping": "region", "schedule": "baseline"}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """Return one result per command for the tiny model, keyed by the command."""
    model, changed_wafer = write_config(tmp_path_factory.mktemp("model")), "wafer.clock_hz=x2"
    changes = [changed_wafer, "wafer.sram_bytes_per_pe=20000"]  # few numbers of users have room, each with a layout
    with few_samples():
        compared = wse.compare(model, **SMALL_RUN, wafers=[2], set=changes, gpu=["h100"], gpus=1, jobs=1)
    return {
        "estimate": wse.estimate(model, **SMALL_RUN, wafers=2, sensitivity=True, set=changed_wafer),
        "estimate --gpu": wse.estimate("llama-3-8b", gpu="h100", gpus=1, prompt_len=64, new_tokens=64),
        "what-if": wse.what_if(model, **SMALL_RUN, batch=2, changes="clock=x2,sram=64KiB", jobs=1),
        "compile": wse.compile(model, mesh="6x5", set=changed_wafer, mapping="region", schedule="baseline"),
        "compare": compared,
        "compare --users": wse.compare(
            model, **SMALL_RUN, wafers=[1], users=300, gpu=["h100"], ttft="1s", tpot="1ms", jobs=1
        ),
        "serve-sim": wse.serve_sim(model, **SMALL_RUN, requests=50, objective="latency", set=changed_wafer),
        "scenario": wse.scenario(
            scenario(
                models=[{"model": "llama-3-8b"}],
                machines=[GPU],
                tiers={},
                published=[FIGURE | {"figure": "fast_usd_per_million_tokens"}],
            ),
            jobs=1,
        ),
        "sweep": wse.sweep(
            {"model": "llama-3-8b", "gpu": ["h100", "h200"], "gpus": 1, "prompt_len": 64, "new_tokens": 64},
            output=tmp_path_factory.mktemp("sweep") / "table.csv",
            jobs=1,
        ),
    }


@pytest.mark.parametrize("width", WIDTHS)
def test_numbers_are_whole_at_any_width(
    width: int, results: dict[str, Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for name, result in results.items():
        for detail in (False, True):
            tables = result.tables(detail=detail, width=width)
            assert tables, name
            for table in tables:
                check_printed_table(table, width)


def test_tables_with_costs_state_both_ends_of_the_prices(results: dict[str, Result]) -> None:
    priced = {"Predicted against published"}
    for name, result in results.items():
        for table in result.tables():
            if table.title in priced or any("USD/Mtok" in column.title for column in table.columns):
                priced.add(name)
                ends = [
                    text for label, text in table.footer if label in ("price", "USD/Mtok") and " USD/h per " in text
                ]
                assert ends, (name, table.title)
                assert all(re.search(r"range \S+ to \S+: costs x \S+ to x ", text) for text in ends), ends
    assert priced >= {"estimate", "estimate --gpu", "what-if", "compare", "compare --users", "scenario", "sweep"}


def test_tables_of_tiers_state_the_reason_for_the_default_plain_speed(results: dict[str, Result]) -> None:
    footers = [
        dict(table.footer)
        for name in ("compare", "scenario")
        for table in results[name].tables()
        if table.title.startswith("Tiers")
    ]
    assert len(footers) == 2
    assert all("default: 50 tokens/s, because GPU services" in footer["plain tier"] for footer in footers)
    assert plain_speed_footer([32.0]) == plain_speed_footer([32.0, 50.0]) == plain_speed_footer([]) == []


def check_printed_table(table: Table, width: int) -> None:
    """Check that each shown cell is printed whole and that no line is longer than the terminal."""
    stream = io.StringIO()
    console = console_on(stream)
    print_table(console, table)
    printed = stream.getvalue()
    columns = shown_columns(console, table)
    assert columns[0] == table.columns[0]
    cells = [str(column.text(row)) for column in columns for row in table.rows]
    assert printed.count("…") == sum(cell.count("…") for cell in cells) + f"{table.title}{table.note}".count("…")
    if len(columns) > 1:
        whole = [str(column.text(row)) for column in columns if not column.wraps for row in table.rows]
        assert all(cell.strip() in printed for cell in whole), (table.title, width)
    longest_word = max((len(word) for cell in cells for word in re.split(r"\s", cell)), default=0)
    assert max(map(len, printed.splitlines()), default=0) <= max(width, longest_word)
