"""Tests of the terminal output: numbers, bars, untrusted texts, streamed text, progress lines and strict JSON."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wse.errors import BadTrace
from wse.reports.number_text import (
    count,
    hertz,
    in_bytes,
    number_ranges,
    percent,
    seconds,
    short_number,
    three_figures,
)
from wse.reports.progress import COMPILING, progress_on
from wse.reports.result import as_json
from wse.reports.terminal import bar, console_on, lines, printable, stream_text


@pytest.mark.parametrize(
    ("function", "value", "text"),
    [
        (count, 12.34, "12.3"),
        (count, 0.0123, "0.012"),
        (percent, 0.0001, "<0.1 %"),
        (in_bytes, 1040128, "1.04 MB"),
        (in_bytes, 9.996e9, "10.0 GB"),
        (short_number, 9_996, "10.0k"),
        (short_number, 99_960, "100k"),
        (seconds, 40.3e-6, "40.3 µs"),
        (seconds, 2941.3, "2,941 s"),
        (three_figures, 0.01234, "0.0123"),
        (number_ranges, range(27), "0–26"),
        (number_ranges, (), ""),
        (seconds, 2e-9, "2 ns"),
        (hertz, 850e6, "850 MHz"),
    ],
)
def test_numbers_are_formatted_with_units(function: object, value: object, text: str) -> None:
    assert callable(function)
    assert function(value) == text


@given(fraction=st.floats(-1, 2, allow_nan=False), width=st.integers(1, 60))
def test_bar_has_its_width_and_is_visible_for_positive_fractions(fraction: float, width: int) -> None:
    text = bar(fraction, width).plain
    assert len(text) == width
    assert bool(text.strip()) == (fraction > 0)
    filled = sum("▏▎▍▌▋▊▉█".index(c) + 1 for c in text if c != " ") / 8
    assert abs(filled - max(0.0, min(1.0, fraction)) * width) <= 1 / 8


@given(text=st.text())
def test_untrusted_text_becomes_one_printable_line(text: str) -> None:
    assert printable(text).isprintable()
    if text.isprintable():
        assert printable(text) == text


class Terminal(io.StringIO):
    """A text stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("width", [16, 24, 40, 80])
def test_names_and_texts_are_not_truncated_at_any_width(width: int) -> None:
    stream = io.StringIO()
    console = console_on(stream)
    console.width = width
    rows = [("wafer", "1170x755 = 883,350 PEs of wse3"), ("between wafers and with the host", "12,345,678 B")]
    lines(console, rows)
    printed = stream.getvalue()
    assert "…" not in printed
    assert max(map(len, printed.splitlines())) <= width
    assert sorted("".join(printed.split())) == sorted("".join("".join(row) for row in rows).replace(" ", ""))
    assert width < 40 or "12,345,678 B" in printed


def test_streamed_text_is_escaped_on_terminals_only() -> None:
    terminal, file = Terminal(), io.StringIO()
    for stream in (terminal, file):
        with stream_text(stream) as write:
            write("a\x1b[2J\nb\tc")
    assert terminal.getvalue() == "a\\x1b[2J\nb\tc"
    assert file.getvalue() == "a\x1b[2J\nb\tc"


@pytest.mark.parametrize("error", [BadTrace("full"), KeyboardInterrupt()])
@pytest.mark.parametrize(("text", "expected"), [("", ""), ("a b", "a b\n"), ("a\n", "a\n")])
def test_error_after_streamed_text_begins_on_a_new_line(error: BaseException, text: str, expected: str) -> None:
    stream = io.StringIO()

    def end() -> None:
        with stream_text(stream) as write:
            write(text)
            raise error

    with pytest.raises(type(error)):
        end()
    assert stream.getvalue() == expected


def test_json_is_strict() -> None:
    text = as_json({"a": float("nan"), "b": [float("inf"), 1.5], "c": {"d": (1, 2)}})
    assert json.loads(text) == {"a": None, "b": [None, 1.5], "c": {"d": [1, 2]}}
    assert text.count("\n") == 1


def test_progress_prints_one_line_for_long_work(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(100))
    monkeypatch.setattr("time.perf_counter", lambda: next(times) * 0.8)
    stream = io.StringIO()
    with progress_on(stream, COMPILING) as report:
        for done in range(10):
            report(done, 9, "matmul")
    assert stream.getvalue().count("\n") == 1
    assert "compiling kernels" in stream.getvalue()


def test_progress_escapes_markup_and_control_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with progress_on(stream, COMPILING) as report:
        report(1, 2, "[red]x\x1b]0;title\x07")
        report(2, 2, "[red]x\x1b]0;title\x07")
    assert "[red]x" in stream.getvalue()
    assert "\x1b]0;" not in stream.getvalue()


def test_text_has_at_most_100_columns_and_no_trailing_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    stream = io.StringIO()
    console = console_on(stream)
    assert console.width == 100
    console.print("[bold]as it is[/bold]   ")
    assert stream.getvalue() == "[bold]as it is[/bold]\n"


def test_progress_prints_nothing_for_short_work() -> None:
    stream = io.StringIO()
    with progress_on(stream, COMPILING) as report:
        for done in range(4):
            report(done, 3, "matmul")
    assert stream.getvalue() == ""
