"""Numbers that take the place of a wafer's or of a profile's: checked as a file's, graded as the user's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wse.errors import BadWafer, UnknownName
from wse.hardware.generations import GENERATIONS
from wse.hardware.load import check_value, load_software, load_wafer, provenance
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.studies.estimate.grades import Grades


def test_a_wafer_with_other_numbers() -> None:
    values = (("hop_cycles", 9), ("clock_hz", 10**9))
    assert load_wafer("wse2", values) == replace(load_wafer("wse2"), hop_cycles=9, clock_hz=1e9)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_software_with_another_cost_on_every_generation(generation: str) -> None:
    values = (("relay_cycles", 77),)
    want = replace(load_software("academic", generation), relay_cycles=77)
    assert load_software("academic", generation, values) == want != load_software("academic", generation)


def test_they_count_as_the_users_own() -> None:
    for name, key in (("wse2", "hop_cycles"), ("academic", "relay_cycles")):
        before, after = provenance(name), provenance(name, ((key, 3),))
        assert (after[key].value, after[key].grade) == (3, "U")
        assert {k: v for k, v in before.items() if k.partition(".")[0] != key}.items() <= after.items()
        assert not [k for k in after if k.startswith(f"{key}.")]
    assert Grades("wse2", "tuned", "wse2").bound_grade("hops") != "U"
    assert Grades("wse2", "tuned", "wse2", wafer_values=(("hop_cycles", 3),)).bound_grade("hops") == "U"


def test_what_cannot_be_is_one_line() -> None:
    with pytest.raises(UnknownName, match=r"wafer wse2: unknown key 'hop_cycle': did you mean 'hop_cycles'"):
        load_wafer("wse2", (("hop_cycle", 1),))
    with pytest.raises(BadWafer, match=r"software profile tuned: relay_cycles = -1: give a number from 0"):
        load_software("tuned", "wse2", (("relay_cycles", -1),))
    with pytest.raises(BadWafer, match=r"runtime and task table take .* of sram_bytes_per_pe = 8"):
        load_wafer("wse2", (("sram_bytes_per_pe", 8),))
    for spec, key in ((WaferSpec, "hop_cycles"), (SoftwareProfile, "relay_cycles")):
        check_value(spec, "here", key, 4)
        with pytest.raises(BadWafer, match=rf"here: {key} = 1.5: give a whole number from"):
            check_value(spec, "here", key, 1.5)
