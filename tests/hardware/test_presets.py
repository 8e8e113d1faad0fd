"""The numbers themselves: every field has one, with its unit, its grade and a public source."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.hardware.helpers import check_bundled
from wse.hardware import spec as spec_module
from wse.hardware.generations import GENERATIONS
from wse.hardware.load import known_software, known_wafers, load_software, load_wafer, provenance
from wse.hardware.number import numeric_fields
from wse.hardware.spec import SoftwareProfile, WaferSpec

PRESET_FILES = Path(spec_module.__file__).parent

PRESETS: list[tuple[str, type[Any]]] = [
    *((name, WaferSpec) for name in known_wafers()),
    *((name, SoftwareProfile) for name in known_software()),
]


@pytest.mark.parametrize(("name", "spec"), PRESETS)
def test_every_number_has_a_unit_a_grade_and_a_public_source(name: str, spec: type[Any]) -> None:
    numbers = provenance(name)
    assert {key.partition(".")[0] for key in numbers} == set(numeric_fields(spec))
    check_bundled(numbers)


@pytest.mark.parametrize(("name", "spec"), PRESETS)
def test_the_spec_holds_the_numbers_of_its_file(name: str, spec: type[Any]) -> None:
    for generation in GENERATIONS:
        loaded = load_wafer(name) if spec is WaferSpec else load_software(name, generation)
        assert loaded.name == name
        numbers = provenance(name)
        for field, type_ in numeric_fields(spec).items():
            value = getattr(loaded, field)
            assert value == numbers.get(f"{field}.{generation}", numbers.get(field)).value
            assert type(value) is type_


@pytest.mark.parametrize("path", sorted(PRESET_FILES.glob("*/*.toml")), ids=lambda path: path.stem)
def test_preset_files_spell_everything_out(path: Path) -> None:
    """No base, no plain number: the file can be read without the code."""
    plain = {"value", "unit", "grade", "source"}
    for field, given in tomllib.loads(path.read_text()).items():
        if field == "generation":
            assert given in GENERATIONS
            continue
        if field == "announced":
            assert given is True
            continue
        for each in (given[g] for g in GENERATIONS) if GENERATIONS[0] in given else (given,):
            assert each.keys() in (plain, plain | {"range", "range_source"}), field


def test_the_presets_are_the_whole_usable_fabric() -> None:
    """The fabric less 7 columns and 2 rows (Cerebras SDK: dim_x >= width + 7, dim_y >= height + 2)."""
    for name, fabric_cols, fabric_rows in (("wse2", 757, 996), ("wse3", 762, 1172), ("cs4", 762, 1172)):
        wafer = load_wafer(name)
        assert (wafer.mesh_cols, wafer.mesh_rows) == (fabric_cols - 7, fabric_rows - 2), name


def test_cs4_is_as_announced_and_says_so() -> None:
    """A wafer: 250 PFLOPS with a factor 10 for sparsity, 43.2 PB/s of SRAM, 44 GB, 2.4 Tb/s, 2 us to another."""
    cs4, wse3 = load_wafer("cs4"), load_wafer("wse3")
    assert [name for name in known_wafers() if load_wafer(name).announced] == ["cs4"]
    fabric_pes, marketed_cores = 762 * 1172, 900_000
    assert 10 * fabric_pes * 2 * cs4.mac_fp16_per_cycle * cs4.clock_hz == pytest.approx(250e15, rel=0.002)
    marketed_clock_hz = 1e9 * cs4.clock_hz / wse3.clock_hz
    assert marketed_cores * cs4.sram_bytes_per_cycle * marketed_clock_hz == pytest.approx(43.2e15)
    assert fabric_pes * cs4.sram_bytes_per_pe == pytest.approx(44e9, rel=0.01)
    assert (cs4.wafer_link_bytes_per_s, cs4.wafer_link_latency_s) == (2.4e12 / 8, 2e-6)


def test_what_was_not_announced_is_carried_over_and_graded_so() -> None:
    ours, theirs = provenance("cs4"), provenance("wse3")
    for key, number in ours.items():
        if "carried over from WSE-3" in number.source:
            assert (number.value, number.grade) == (theirs[key].value, "I"), key
        else:
            assert "introduction of the CS-4" in number.source, key
    assert {key for key in ours if ours[key].value != theirs[key].value} == {
        *("clock_hz", "wafer_link_bytes_per_s", "wafer_link_latency_s", "host_bytes_per_s")
    }


@pytest.mark.parametrize("software", known_software())
@pytest.mark.parametrize("wafer", known_wafers())
def test_software_leaves_room_on_the_pe(wafer: str, software: str) -> None:
    machine = load_wafer(wafer)
    costs = load_software(software, machine.generation)
    fixed = machine.runtime_bytes_per_pe + machine.task_table_bytes_per_pe
    assert fixed + costs.code_bytes_per_pe + costs.stack_bytes_per_pe < machine.sram_bytes_per_pe
