"""The numbers themselves: every field has one, with its unit, its grade and a public source."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from wse.hardware import spec as spec_module
from wse.hardware.load import known_software, known_wafers, load_software, load_wafer, provenance
from wse.hardware.number import GRADES, numeric_fields, unit_of
from wse.hardware.spec import GENERATIONS, SoftwareProfile, WaferSpec

UNITS = {
    "mesh_rows": "row",
    "mesh_cols": "col",
    "clock_hz": "Hz",
    "sram_bytes_per_pe": "byte/PE",
    "runtime_bytes_per_pe": "byte/PE",
    "task_table_bytes_per_pe": "byte/PE",
    "sram_bytes_per_cycle": "byte/cycle",
    "hop_cycles": "cycle",
    "ramp_cycles": "cycle",
    "stream_words_per_cycle": "word/cycle",
    "router_queue_words": "word",
    "switch_positions": "position",
    "microthreads": "thread",
    "colours": "colour",
    "reserved_colours": "colour",
    "mac_fp16_per_cycle": "element/cycle",
    "mac_fp16_fp32_per_cycle": "element/cycle",
    "mac_fp32_per_cycle": "element/cycle",
    "add_fp16_per_cycle": "element/cycle",
    "add_fp32_per_cycle": "element/cycle",
    "max_fp32_per_cycle": "element/cycle",
    "move_32bit_per_cycle": "element/cycle",
    "convert_per_cycle": "element/cycle",
    "logic_16bit_per_cycle": "element/cycle",
    "shift_16bit_per_cycle": "element/cycle",
    "wafer_link_bytes_per_s": "byte/s",
    "wafer_link_latency_s": "s",
    "host_bytes_per_s": "byte/s",
    "host_round_trip_s": "s",
    "code_bytes_per_pe": "byte/PE",
    "stack_bytes_per_pe": "byte/PE",
    "vector_issue_cycles": "cycle",
    "mapped_issue_cycles": "cycle",
    "bank_conflict_ratio": "1",
    "relay_cycles": "cycle",
    "transfer_sync_cycles": "cycle",
    "function_cycles": "cycle",
    "task_dispatch_cycles": "cycle",
    "reduce_gap_cycles": "cycle",
    "loop_cycles": "cycle",
    "route_rewrite_cycles": "cycle",
}

PRESET_FILES = Path(spec_module.__file__).parent

PRESETS: list[tuple[str, type[Any]]] = [
    *((name, WaferSpec) for name in known_wafers()),
    *((name, SoftwareProfile) for name in known_software()),
]


def test_the_presets_are_these() -> None:
    assert known_wafers() == ("wse2", "wse3")
    assert known_software() == ("academic", "production", "tuned")


@pytest.mark.parametrize(("name", "spec"), PRESETS)
def test_every_number_has_a_unit_a_grade_and_a_public_source(name: str, spec: type[Any]) -> None:
    numbers = provenance(name)
    assert {key.partition(".")[0] for key in numbers} == set(numeric_fields(spec))
    for key, number in numbers.items():
        field = key.partition(".")[0]
        assert number.unit == UNITS[field] == unit_of(field), field
        assert number.grade in GRADES, field
        assert number.grade != "U", field
        assert len(number.source) > 15, field
        assert not re.search(r"\[\d+\]|hardware\.md|/work|/home|shared/", number.source), field


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
    for field, given in tomllib.loads(path.read_text()).items():
        if field == "generation":
            assert given == path.stem
            continue
        for each in (given[g] for g in GENERATIONS) if GENERATIONS[0] in given else (given,):
            assert each.keys() == {"value", "unit", "grade", "source"}, field
            assert each["unit"] == UNITS[field], field


def test_the_visible_meshes_hold_the_published_sram() -> None:
    """rows × cols × 48 KiB, in GB, a little under the marketed 40 and 44."""
    for name, expected_pes, marketed in (("wse2", 745_500, 40e9), ("wse3", 883_350, 44e9)):
        wafer = load_wafer(name)
        assert wafer.mesh_rows * wafer.mesh_cols == expected_pes
        assert 0.9 < wafer.mesh_rows * wafer.mesh_cols * wafer.sram_bytes_per_pe / marketed < 1


def test_hops_and_streams_differ_by_generation() -> None:
    wse2, wse3 = load_wafer("wse2"), load_wafer("wse3")
    assert (wse2.hop_cycles, wse3.hop_cycles) == (1, 2)
    assert wse2.stream_words_per_cycle == 1.0
    assert wse3.stream_words_per_cycle == pytest.approx(8 / 9, abs=1e-4)
    assert (wse2.mac_fp16_per_cycle, wse3.mac_fp16_per_cycle) == (4, 8)


@pytest.mark.parametrize("software", known_software())
@pytest.mark.parametrize("wafer", known_wafers())
def test_software_leaves_room_on_the_pe(wafer: str, software: str) -> None:
    machine = load_wafer(wafer)
    costs = load_software(software, machine.generation)
    fixed = machine.runtime_bytes_per_pe + machine.task_table_bytes_per_pe
    assert fixed + costs.code_bytes_per_pe + costs.stack_bytes_per_pe < machine.sram_bytes_per_pe


def test_production_software_fits_what_its_vendor_disclosed() -> None:
    """70.55 G parameters of 16 bits on four CS-3, with cache left over."""
    machine, costs = load_wafer("wse3"), load_software("production", "wse3")
    weights_bytes_per_pe = 70_553_706_496 * 2 / (4 * machine.mesh_rows * machine.mesh_cols)
    fixed = machine.runtime_bytes_per_pe + machine.task_table_bytes_per_pe
    own = costs.code_bytes_per_pe + costs.stack_bytes_per_pe
    assert fixed + own + weights_bytes_per_pe < machine.sram_bytes_per_pe
