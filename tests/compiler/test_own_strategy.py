"""Tests of mapping strategies and reduce patterns that are loaded from files of users."""

from pathlib import Path
from typing import Any

import pytest

import wse
from wse.compiler.strategies import strategy
from wse.errors import BadInput, UnknownName

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

class Listed(Halves):
    block_parts = [1]

number = 3
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write `mine.py` with the example strategy and faulty ones to an empty working directory; return its path."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(HALVES.read_text(encoding="utf-8") + WRONG, encoding="utf-8")
    return tmp_path / "mine.py"


def test_strategy_or_class_from_a_file_is_reported_by_the_given_name(mine: Path) -> None:
    for name in ("mine.py:Halves", f"{mine}:STRATEGY"):
        result = wse.estimate("story", mapping=name, **SIZES)
        assert result.system.regions == 2
        assert result.system.mapping == name


def test_strategy_is_created_once_and_again_after_its_file_changed(mine: Path) -> None:
    first = strategy("mine.py:STRATEGY")
    assert strategy("mine.py:STRATEGY") is first
    source = mine.read_text(encoding="utf-8")
    mine.write_text(source.replace("bands=2, per_band=1", "bands=1, per_band=1", 1), encoding="utf-8")
    assert strategy("mine.py:STRATEGY") is not first
    other_sizes = SIZES | {"new_tokens": 7}  # tests cache the Program of each request
    assert wse.estimate("story", mapping="mine.py:STRATEGY", **other_sizes).system.regions == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Lost", "mine.py:Lost: partition: region 0 begins with layer 2, where layer 0 is next"),
        ("Short", "mine.py:Short: partition: its regions end before layer 2, of 5"),
        ("Foreign", "mine.py:Foreign: layouts: Layout(mapping='halves'"),
        ("Broken", "mine.py:Broken: mine.py: line 41: ZeroDivisionError: integer division or modulo by zero"),
        ("Bare", "mine.py:Bare: not a mapping strategy: 'Bare' object has no attribute 'summary'"),
        ("Listed", "mine.py:Listed: not a mapping strategy: [1] is not a tuple"),
        ("number", "mine.py:number: not a mapping strategy: 'int' object has no attribute 'name'"),
        ("Halvs", "mine.py: unknown object 'Halvs': did you mean 'Halves'?"),
    ],
)
def test_faulty_strategies_are_reported_in_one_line(name: str, message: str, mine: Path) -> None:
    with pytest.raises(BadInput) as error:
        wse.estimate("story", mapping=f"mine.py:{name}", **SIZES)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


OPTIONS: dict[str, Any] = {"mesh": "16x16", "wafer": "wse2", "software": "tuned", "prompt_len": 8, "new_tokens": 8}


def estimate(**more: Any) -> Any:
    """Estimate the bundled model on 16x16 PEs of a WSE-2."""
    return wse.estimate("story", **OPTIONS, **{"schedule": "baseline"} | more)


def test_named_chain_changes_relay_cycles_but_not_compute_cycles() -> None:
    default, named = estimate(mapping="region"), estimate(mapping="region", all_reduce="chain")
    assert named.decode.cycles_by["relays"] > 2 * default.decode.cycles_by["relays"]
    assert named.decode.cycles_by["compute"] == default.decode.cycles_by["compute"]
    assert named.fabric.wavelet_hops_per_token < default.fabric.wavelet_hops_per_token


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("multicast", "--all-reduce multicast: on 16 PEs it computes a broadcast, not a sum; `wse pattern` shows"),
        ("ring_all_reduce", "--all-reduce ring_all_reduce: on 16 PEs it cuts words into parts"),
        ("chian", "unknown pattern 'chian': did you mean 'chain'?"),
        ("no.py:mine", "no.py: does not exist"),
    ],
)
def test_patterns_that_compute_no_sum_are_refused(name: str, message: str) -> None:
    with pytest.raises(BadInput) as error:
        estimate(all_reduce=name)
    assert str(error.value).startswith(message)
    assert isinstance(error.value, UnknownName) == ("unknown" in message)
