"""Test sums by a pattern that the request names: the same tokens, and the cycles of the pattern."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import wse
from wse.errors import BadInput, UnknownName

OPTIONS: dict[str, Any] = {"mesh": "16x16", "wafer": "wse2", "software": "tuned", "prompt_len": 8, "new_tokens": 8}
MINE = """
from wse_mappings.patterns.{0} import {0} as mine
"""


def estimate(**more: Any) -> Any:
    return wse.estimate("story", **OPTIONS, **{"schedule": "baseline"} | more)


def test_the_tree_by_its_name_is_the_tree_of_the_compiler() -> None:
    own, named = estimate(), estimate(all_reduce="k_tree_all_reduce")
    assert named.decode.cycles_by == own.decode.cycles_by
    assert named.fabric == own.fabric


def test_another_pattern_takes_other_cycles_on_its_way() -> None:
    own, named = estimate(mapping="region"), estimate(mapping="region", all_reduce="chain")
    assert named.decode.cycles_by["relays"] > 2 * own.decode.cycles_by["relays"]
    assert named.decode.cycles_by["compute"] == own.decode.cycles_by["compute"]
    assert named.fabric.wavelet_hops_per_token < own.fabric.wavelet_hops_per_token


@pytest.mark.parametrize("schedule", ["baseline", pytest.param("optimized", marks=pytest.mark.slow)])
def test_tokens_are_the_same_by_a_files_pattern(schedule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE.format("two_phase"), encoding="utf-8")
    options: dict[str, Any] = {"mesh": "16x16", "dtype": "float32", "new_tokens": 12, "trace": None}
    own, named = (wse.run(all_reduce=name, schedule=schedule, **options) for name in (None, "mine.py:mine"))
    assert named.tokens == own.tokens
    assert named.decode.cycles_per_token != own.decode.cycles_per_token
    Path("mine.py").write_text(MINE.format("star"), encoding="utf-8")
    changed = wse.run(all_reduce="mine.py:mine", schedule=schedule, **options | {"new_tokens": 11})
    assert changed.decode.cycles_per_token != named.decode.cycles_per_token


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("multicast", "--all-reduce multicast: on 16 PEs it computes a broadcast, not a sum; `wse pattern` shows"),
        ("ring_all_reduce", "--all-reduce ring_all_reduce: on 16 PEs it cuts words into parts"),
        ("chian", "unknown pattern 'chian': did you mean 'chain'?"),
        ("no.py:mine", "no.py: does not exist"),
    ],
)
def test_what_is_no_sum_is_told(name: str, told: str) -> None:
    with pytest.raises(BadInput) as error:
        estimate(all_reduce=name)
    assert str(error.value).startswith(told)
    assert isinstance(error.value, UnknownName) == ("unknown" in told)
