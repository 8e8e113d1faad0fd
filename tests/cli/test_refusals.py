"""Every bad command: one line that names the thing, the value and the remedy; exit 2; no file written or changed.

What a file contains is tested beside its reader; here each kind of bad file has one case.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Wse
from wse.files import TOML_LIMIT_BYTES

TABLE = Path(__file__).parents[1] / "data" / "refusals.txt"


def rows_of_table() -> Iterator[Any]:
    """Yield each command of the table with the parts of its refusal; whole commands are smoke tests."""
    start = ""
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            start = line.strip("[]")
        elif line and not line.startswith("#"):
            command, *says = line.split(" | ")
            yield pytest.param(f"{start} {command}", says, marks=[] if start else [pytest.mark.smoke])


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
"""Contents of a file for ``wse sweep``."""


@pytest.fixture
def unchanged(empty: Path, files: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stand in the folder, not in an empty one, and check afterwards that no file in it came, went or changed."""

    def contents() -> dict[Path, Any]:
        return {path: path.is_file() and (path.stat().st_size, path.stat().st_mtime_ns) for path in files.rglob("*")}

    monkeypatch.chdir(files)
    before = contents()
    yield
    assert contents() == before


@pytest.mark.parametrize(
    ("command", "says"), list(rows_of_table()), ids=lambda value: value[:60] if isinstance(value, str) else ""
)
@pytest.mark.usefixtures("unchanged")
def test_refusal_is_one_line_that_names_the_value_and_the_remedy(wse: Wse, command: str, says: list[str]) -> None:
    line = wse(*shlex.split(command)).refusal()
    assert [part for part in says if part not in line] == [], line


@pytest.mark.parametrize("option", ["--wafers", "--prompt-len", "--new-tokens", "--batch", "--context"])
@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "1.5", "", "9" * 40, "1e3", "-" + "9" * 40])
@pytest.mark.usefixtures("unchanged")
def test_refusal_of_a_count_names_its_option_and_value(wse: Wse, option: str, value: str) -> None:
    line = wse("estimate", "four.json", "--mesh", "8x8", option, value).refusal()
    assert option in line
    assert value[:9] in line
    assert any(remedy in line for remedy in ("give", "choose", "--help")), line


@pytest.mark.parametrize(("text", "parts"), [(row[0], row[1:]) for row in GRIDS], ids=[row[0][:20] for row in GRIDS])
def test_refusal_of_a_grid_names_the_place_and_the_value(
    wse: Wse, empty: Path, text: str, parts: tuple[str, ...]
) -> None:
    (empty / "grid.toml").write_text(text)
    line = wse("sweep", "grid.toml").refusal()
    assert [part for part in parts if part not in line] == [], line


def test_refusal_of_too_many_settings_has_the_product(wse: Wse, empty: Path) -> None:
    many = ",".join(map(str, range(1, 2000)))
    line = wse("sweep", "--set", f"batch={many}", "--set", f"context={many}").refusal()
    assert "1,999 batch × 1,999 context are 3,996,001 settings" in line


def test_refusal_comes_before_anything_is_compiled(wse: Wse, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("wse.studies.compile.choose.compile_program", never)
    wse("run", tiny, "--prompt-ids", "1", "--trace", "none/run.h5").refusal()
    wse("run", tiny, "--prompt-ids", "99").refusal()


def test_refusal_of_a_name_that_is_no_text_or_too_long(wse: Wse, tiny: Path) -> None:
    assert "UTF-8" in wse("run", "--prompt", "a\udcffb").refusal()
    assert "too long" in wse("run", tiny, "--prompt-ids", "1", "--trace", f"{'n' * 300}.h5").refusal()
