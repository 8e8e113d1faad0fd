"""Tests of `wse what-if`: each change is compared with an estimate of the changed machine, largest effect first."""

from typing import Any

import pytest

import wse
from wse.studies.what_if.result import WhatIfResult

SMALL = {"mesh": "24x24", "mapping": "region", "schedule": "baseline", "prompt_len": 16, "new_tokens": 16}


@pytest.fixture(scope="module")
def result() -> WhatIfResult:
    """Return the effects of five changes, one of which is impossible."""
    return wse.what_if("story", **SMALL, changes=["hop=x0.3", "sram=x2", "hop=1", "clock=x2", "clock=x0.8"], jobs=1)


def test_each_row_is_the_estimate_of_the_changed_machine(result: WhatIfResult) -> None:
    plain = wse.estimate("story", **SMALL)
    assert result.base.tokens_per_s_per_user == plain.serving.tokens_per_s_per_user
    for row, setting in (("clock", "wafer.clock_hz=x2"), ("hop", "wafer.hop_cycles=1")):
        changed_estimate = wse.estimate("story", **SMALL, set=setting)
        (found,) = (r for r in result.changes if r.change == row and r.value in ("x2", "1"))
        assert found.tokens_per_s_per_user == changed_estimate.serving.tokens_per_s_per_user
        assert found.ttft_s == changed_estimate.serving.ttft_s
        assert found.wafers == changed_estimate.system.wafers
        ratio = changed_estimate.serving.tokens_per_s_per_user / plain.serving.tokens_per_s_per_user
        assert found.factors["tokens_per_s_per_user"] == pytest.approx(ratio)
    assert result.changes[0].numbers == {"wafer.clock_hz": (875e6, 1750e6)}
    (more_sram,) = (row for row in result.changes if row.change == "sram")
    assert more_sram.has_effect
    assert more_sram.max_users > result.base.max_users == plain.serving.max_users


def test_inputs_and_numbers_of_the_base_are_those_of_an_estimate() -> None:
    options: dict[str, Any] = {"users": 8, "replicas": 2}
    found = wse.what_if("story", **SMALL, **options, changes=["clock=x2"], jobs=1)
    plain = wse.estimate("story", **SMALL, **options)
    assert found.inputs == plain.inputs
    assert found.inputs["batch"] == found.base.batch == plain.batch == 2
    assert (found.base.users, found.base.replicas) == (plain.serving.users, plain.serving.replicas) == (8, 2)
    for key in ("ttft_s", "tokens_per_s_per_user", "tokens_per_s", "usd_per_million_tokens"):
        assert getattr(found.base, key) == getattr(plain.serving, key)


def test_changes_are_sorted_by_effect_with_impossible_ones_last(result: WhatIfResult) -> None:
    assert [(row.change, row.value) for row in result.changes] == [
        ("clock", "x2"), ("clock", "x0.8"), ("hop", "1"), ("sram", "x2"), ("hop", "x0.3")
    ]  # fmt: skip
    assert "is not a whole number" in str(result.changes[-1].reason)
    assert result.changes[-1].tokens_per_s_per_user is None


def test_changes_without_an_effect_share_a_line() -> None:
    result = wse.what_if("story", **SMALL, changes="clock=x2,latency=x0.5,bandwidth=x2,hop=x0.3,host=x0.5", jobs=1)
    (table,) = result.tables()
    assert [row.change for row in table.rows] == ["", "clock", "host"]  # one wafer uses no link between wafers
    host = next(row for row in result.changes if row.change == "host")
    assert host.factors["ttft_s"] < 1  # the prompt is read from the host
    footer = dict(table.footer)
    assert footer["no effect"] == "latency x0.5, bandwidth x2: less than 0.5 % on each number"
    assert "is not a whole number" in footer["hop x0.3"]
    assert {row.change for row in result.changes} == {"clock", "host", "latency", "bandwidth", "hop"}


def test_more_sram_needs_fewer_wafers() -> None:
    options: dict[str, Any] = {"mesh": "4x4", "mapping": "pipeline", "schedule": "baseline", "wafer": "wse2"}
    result = wse.what_if("story", **options, prompt_len=8, new_tokens=8, changes="sram=x4", jobs=1)
    (row,) = result.changes
    assert row.wafers < result.base.wafers
    assert row.factors["wafers"] == row.wafers / result.base.wafers


def test_changes_apply_to_the_machine_with_set_values() -> None:
    result = wse.what_if("story", **SMALL, set="wafer.clock_hz=x2", changes="clock=x2,hop=1", jobs=1)
    assert {row.change: row.numbers for row in result.changes}["clock"] == {"wafer.clock_hz": (1.75e9, 3.5e9)}
    assert "--set wafer.clock_hz=1750000000" in result.title


def test_replicas_have_a_column_if_a_change_needs_fewer() -> None:
    options = {**SMALL, "users": 300, "replicas": "auto"}
    found = wse.what_if("story", **options, changes="sram=x2", jobs=1)
    more_sram = next(row for row in found.changes if row.change == "sram")
    assert more_sram.replicas == wse.estimate("story", **options, set="wafer.sram_bytes_per_pe=x2").serving.replicas
    assert more_sram.replicas < found.base.replicas
    titles = [column.title for column in found.tables()[0].columns]
    assert "replicas" in titles
    assert "users" not in titles
