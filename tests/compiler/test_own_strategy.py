"""Test a mapping strategy in a user's file: used like a bundled one, with errors in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

import wse
from wse.compiler.strategies import strategy
from wse.errors import BadInput

HALVES = Path(__file__).parents[2] / "docs" / "examples" / "package" / "wse_example" / "halves.py"
SIZES = {"mesh": "24x24", "wafers": 1, "prompt_len": 8, "new_tokens": 8, "schedule": "baseline"}
WRONG = """
class Lost(Halves):
    def partition(self, demand, layout):
        return list(super().partition(demand, layout))[1:]

class Short(Halves):
    def partition(self, demand, layout):
        return list(super().partition(demand, layout))[:-1]

class Foreign(Halves):
    def layouts(self, demand, others):
        return [Layout("halves", bands=2, per_band=1)]

class Broken(Halves):
    def layouts(self, demand, others):
        return [Layout(self.name, bands=2 // 0, per_band=1)]

class Bare:
    name = "bare"

number = 3
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(HALVES.read_text(encoding="utf-8") + WRONG, encoding="utf-8")
    return tmp_path / "mine.py"


def test_a_strategy_or_its_class_places_a_model_under_the_name_that_was_given(mine: Path) -> None:
    for name in ("mine.py:STRATEGY", "mine.py:Halves", f"{mine}:STRATEGY"):
        result = wse.estimate("story", mapping=name, **SIZES)
        assert result.system.regions == 2
        assert result.system.mapping == name


def test_a_strategy_is_made_once_and_anew_when_its_file_was_changed(mine: Path) -> None:
    first = strategy("mine.py:STRATEGY")
    assert strategy("mine.py:STRATEGY") is first
    source = mine.read_text(encoding="utf-8")
    mine.write_text(source.replace("bands=2, per_band=1", "bands=1, per_band=1", 1), encoding="utf-8")
    assert strategy("mine.py:STRATEGY") is not first
    other_sizes = SIZES | {"new_tokens": 7}  # tests keep what was compiled of a request
    assert wse.estimate("story", mapping="mine.py:STRATEGY", **other_sizes).system.regions == 1


def test_compare_takes_one_beside_others(mine: Path) -> None:
    sizes = {"mesh": "24x24", "prompt_len": 8, "new_tokens": 8, "schedule": "baseline"}
    result = wse.compare("story", mapping=["region", "mine.py:STRATEGY"], wafers=[1], jobs=1, **sizes)
    assert {row.mapping for row in result.possible} == {"region", "mine.py:STRATEGY"}


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Lost", "mine.py:Lost: partition: region 0 begins with layer 2, where layer 0 is next"),
        ("Short", "mine.py:Short: partition: its regions end before layer 2, of 5"),
        ("Foreign", "mine.py:Foreign: layouts: Layout(mapping='halves'"),
        ("Broken", "mine.py:Broken: mine.py: line 41: ZeroDivisionError: integer division or modulo by zero"),
        ("Bare", "mine.py:Bare: not a mapping strategy: 'Bare' object has no attribute 'summary'"),
        ("number", "mine.py:number: not a mapping strategy: 'int' object has no attribute 'name'"),
        ("Halvs", "mine.py: unknown object 'Halvs': did you mean 'Halves'?"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(name: str, told: str, mine: Path) -> None:
    with pytest.raises(BadInput) as error:
        wse.estimate("story", mapping=f"mine.py:{name}", **SIZES)
    assert str(error.value).startswith(told)
    assert "\n" not in str(error.value)
