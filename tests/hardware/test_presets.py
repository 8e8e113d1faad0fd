"""Tests of presets of wafers and software: sources, values, overrides, and no names of wafers in other packages."""

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.hardware.helpers import check_bundled
from wse.hardware import spec as spec_module
from wse.hardware.generations import GENERATIONS
from wse.hardware.load import (
    bundled_wafers,
    known_software,
    known_wafers,
    load_software,
    load_wafer,
    provenance,
)
from wse.hardware.number import numeric_fields
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.studies.estimate.grades import Grades
from wse.studies.options.placement import MachineOptions

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
def test_spec_has_the_numbers_of_its_file(name: str, spec: type[Any]) -> None:
    for generation in GENERATIONS:
        loaded = load_wafer(name) if spec is WaferSpec else load_software(name, generation)
        assert loaded.name == name
        numbers = provenance(name)
        for field, type_ in numeric_fields(spec).items():
            value = getattr(loaded, field)
            assert value == numbers.get(f"{field}.{generation}", numbers.get(field)).value
            assert type(value) is type_


@pytest.mark.parametrize("path", sorted(PRESET_FILES.glob("*/*.toml")), ids=lambda path: path.stem)
def test_preset_files_are_complete(path: Path) -> None:
    """Preset files have no base and no bare number, so they can be read without the code."""
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


def test_presets_have_the_whole_usable_fabric() -> None:
    """The mesh is the fabric minus 7 columns and 2 rows (Cerebras SDK: dim_x >= width + 7, dim_y >= height + 2)."""
    for name, fabric_cols, fabric_rows in (("wse2", 757, 996), ("wse3", 762, 1172), ("cs4", 762, 1172)):
        wafer = load_wafer(name)
        assert (wafer.mesh_cols, wafer.mesh_rows) == (fabric_cols - 7, fabric_rows - 2), name


def test_cs4_has_the_announced_numbers_and_is_marked_as_announced() -> None:
    """The announced numbers of a wafer are 250 PFLOPS with a factor of 10 for sparsity, 43.2 PB/s of SRAM, and 44 GB.

    Links between wafers have 2.4 Tb/s and 2 us.
    """
    cs4, wse3 = load_wafer("cs4"), load_wafer("wse3")
    assert [name for name in known_wafers() if load_wafer(name).announced] == ["cs4"]
    fabric_pes, marketed_cores = 762 * 1172, 900_000
    assert 10 * fabric_pes * 2 * cs4.mac_fp16_per_cycle * cs4.clock_hz == pytest.approx(250e15, rel=0.002)
    marketed_clock_hz = 1e9 * cs4.clock_hz / wse3.clock_hz
    assert marketed_cores * cs4.sram_bytes_per_cycle * marketed_clock_hz == pytest.approx(43.2e15)
    assert fabric_pes * cs4.sram_bytes_per_pe == pytest.approx(44e9, rel=0.01)
    assert (cs4.wafer_link_bytes_per_s, cs4.wafer_link_latency_s) == (2.4e12 / 8, 2e-6)


def test_numbers_of_cs4_that_were_not_announced_are_those_of_wse3() -> None:
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


ROOT = Path(__file__).parents[2]


def code_strings(tree: ast.Module) -> Iterator[str]:
    """Yield the texts of a module, except docstrings."""
    described = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in described:
            yield node.value


def test_code_outside_hardware_names_no_wafer() -> None:
    sources = [file for folder in ("wse", "kernels", "mappings", "traces") for file in (ROOT / folder).rglob("*.py")]
    assert len(sources) > 400
    outside = [file for file in sources if (ROOT / "wse" / "hardware") not in file.parents]
    texts = {file: file.read_text(encoding="utf-8") for file in outside}
    named = {file: text for file, text in texts.items() if any(name in text for name in bundled_wafers())}
    assert not [str(file) for file, text in named.items() if {*code_strings(ast.parse(text))} & {*bundled_wafers()}]


def test_overridden_numbers_are_graded_as_the_users() -> None:
    for name, key in (("wse2", "hop_cycles"), ("academic", "relay_cycles")):
        before, after = provenance(name), provenance(name, ((key, 3),))
        assert (after[key].value, after[key].grade) == (3, "U")
        assert {k: v for k, v in before.items() if k.partition(".")[0] != key}.items() <= after.items()
        assert not [k for k in after if k.startswith(f"{key}.")]
    machine = MachineOptions(wafer="wse2", software="tuned")
    assert Grades(machine, "wse2").bound_grade("hops") != "U"
    assert Grades(replace(machine, wafer_values=(("hop_cycles", 3),)), "wse2").bound_grade("hops") == "U"
