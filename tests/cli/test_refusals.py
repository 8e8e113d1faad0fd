"""Tests of refused commands: one line names the value and the remedy, also for hostile names; no file changes."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.cli.conftest import Wse, without_options
from tests.models.helpers import write_model
from wse.files import TOML_LIMIT_BYTES

TABLE = Path(__file__).parents[1] / "data" / "refusals.txt"


def rows_of_table() -> Iterator[Any]:
    """Yield each command of ``data/refusals.txt`` with the expected parts of its message.

    Commands under an empty heading, ``[]``, are also smoke tests.
    """
    start = ""
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            start = line.strip("[]")
        elif line and not line.startswith("#"):
            command, *parts = line.split(" | ")
            marks = [] if start else [pytest.mark.smoke]
            yield pytest.param(f"{without_options(start, command)} {command}", parts, marks=marks)


GRIDS: list[tuple[str, ...]] = [
    ("batch = [1, ", "grid.toml: not TOML", "correct that line"),
    ("batch = [[1]]", "batch = [1]", "give a whole number"),
    ("model = [1]", "model = 1", "give a text"),
    (f"model = '{'x' * 5000}'", "model = 'xxx", "give a text of 1 to 4,096 characters"),
    ("[wafer]\nhop_cycles = [{value = 1}]", "wafer.hop_cycles = {'value': 1}", "give a whole number"),
    ("'wafer.hop_cycles' = 1\n[wafer]\nhop_cycles = 2", "wafer.hop_cycles is given twice"),
    ("[grid]\nbatch = 1", "unknown setting 'grid'"),
    ("#" * (TOML_LIMIT_BYTES + 1), "grid.toml: is over 1,048,576 bytes"),
]
"""Contents of a file for ``wse sweep``, and the expected parts of the message."""


@pytest.fixture(scope="module")
def unchanged_files(files: Path) -> Iterator[Path]:
    """Return the folder `files`, and check after all tests that no file in it was added, removed or changed."""

    def contents() -> dict[Path, Any]:
        return {path: path.is_file() and (path.stat().st_size, path.stat().st_mtime_ns) for path in files.rglob("*")}

    before = contents()
    yield files
    assert contents() == before


@pytest.fixture
def unchanged(empty: Path, unchanged_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test in the folder `unchanged_files`."""
    monkeypatch.chdir(unchanged_files)


@pytest.mark.parametrize(
    ("command", "parts"), list(rows_of_table()), ids=lambda value: value[:60] if isinstance(value, str) else ""
)
@pytest.mark.usefixtures("unchanged")
def test_refusal_is_one_line_that_names_the_value_and_the_remedy(wse: Wse, command: str, parts: list[str]) -> None:
    line = wse(*shlex.split(command)).refusal()
    assert [part for part in parts if part not in line] == [], line


@pytest.mark.parametrize(("text", "parts"), [(row[0], row[1:]) for row in GRIDS], ids=[row[0][:20] for row in GRIDS])
def test_refusal_of_a_grid_names_the_place_and_the_value(
    wse: Wse, empty: Path, text: str, parts: tuple[str, ...]
) -> None:
    (empty / "grid.toml").write_text(text)
    line = wse("sweep", "grid.toml").refusal()
    assert [part for part in parts if part not in line] == [], line


def test_refusal_of_too_many_settings_states_their_number(wse: Wse, empty: Path) -> None:
    many = ",".join(map(str, range(1, 2000)))
    line = wse("sweep", "--set", f"batch={many}", "--set", f"context={many}").refusal()
    assert "1,999 batch × 1,999 context are 3,996,001 settings" in line


def test_refusal_precedes_compilation(wse: Wse, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("wse.studies.compile.choose.compile_program", fail)
    wse("run", tiny, "--prompt-ids", "1", "--trace", "none/run.h5").refusal()
    wse("run", tiny, "--prompt-ids", "99").refusal()


def test_refusal_of_invalid_utf8_and_of_a_too_long_name(wse: Wse, tiny: Path) -> None:
    assert "UTF-8" in wse("run", "--prompt", "a\udcffb").refusal()
    assert "too long" in wse("run", tiny, "--prompt-ids", "1", "--trace", f"{'n' * 300}.h5").refusal()
    assert "too long" in wse("compare", tiny, "--html", f"{'n' * 300}.html").refusal()
    assert "too long" in wse("inspect", "n" * 300).refusal()


CONTROLS = "\n\r\t\x1b[2J\x07\x08\x7f\x85\u2028\u2029\u202e\u200b\ufeff"
HOSTILE = st.text(st.sampled_from(CONTROLS + "a-é/.:'\"[]{}%\\ \udcff\U0001f600"), max_size=40)
QUICK = settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@QUICK
@given(text=HOSTILE)
@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "{}x"],
        ["run", "TINY", "--wafer", "{}"],
        ["run", "TINY", "--mapping", "{}"],
        ["run", "TINY", "--mesh", "{}"],
        ["run", "TINY", "--dtype", "{}"],
        ["run", "TINY", "--wafers", "{}"],
        ["run", "TINY", "--prompt-ids", "{}"],
        ["run", "TINY", "--seed", "{}"],
        ["run", "TINY", "--prompt-ids", "1", "--trace", "no/{}/x"],
        ["run", "TINY", "--x{}"],
        ["{}x"],
        ["inspect", "{}"],
        ["export", "{}", "--to", "csv"],
        ["export", "no.h5", "--to", "{}"],
        ["export", "no.h5", "--to", "csv", "--what", "{}"],
        ["view", "{}"],
        ["view", "{}.h5"],
    ],
    ids=lambda a: " ".join(a),
)
def test_refusal_of_hostile_text_is_one_line(wse: Wse, tiny: Path, arguments: list[str], text: str) -> None:
    assume(not is_number_list(text))  # some options accept number lists
    wse(*(str(tiny) if a == "TINY" else a.replace("{}", text) for a in arguments)).refusal()


def is_number_list(text: str) -> bool:
    """Return whether ``--seed``, ``--wafers`` or ``--prompt-ids`` would accept the text."""
    try:
        return all(int(part) >= 0 for part in text.split(","))
    except ValueError:
        return text == "auto"


@pytest.mark.skipif(sys.platform == "win32", reason="such names are not allowed")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("a\nb", marks=pytest.mark.smoke),
        "\x1b[31mred\x1b[0m",
        "\udcff\udcfe",
        "[bold]x",
    ],
)
def test_model_of_any_name_runs_and_is_inspected(wse: Wse, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "in" / name
    folder.mkdir(parents=True)
    write_model(folder)
    line = wse("run", folder, "--prompt-ids", "99").refusal()
    assert "outside the vocabulary" in line
    placed = ("--mesh", "2x2", "--mapping", "region", "--schedule", "baseline")
    run = wse("run", folder, "--prompt-ids", "1", "--new-tokens", "2", *placed, "--trace", f"{name}.h5")
    assert run.code == 0, run.err
    inspection = wse("inspect", f"{name}.h5")
    assert inspection.code == 0, inspection.err
    for out in (run.out, inspection.out):
        assert all(line.isprintable() for line in out.split("\n")), out
    if name.startswith("["):
        assert name in run.out
