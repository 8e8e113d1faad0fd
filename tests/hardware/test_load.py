"""Tests of loading wafers and software profiles from TOML files, and of refused files."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.hardware.helpers import refusal, write_toml
from wse.errors import BadInput, BadWafer, UnknownName
from wse.files import TOML_LIMIT_BYTES
from wse.hardware.load import known_wafers, load_software, load_wafer, provenance
from wse.hardware.number import numeric_fields
from wse.hardware.spec import WaferSpec


def test_overrides_of_a_base_change_only_themselves(tmp_path: Path) -> None:
    path = write_toml(tmp_path, 'base = "wse3"\nhop_cycles = 1\nclock_hz = 1_100_000_000\n')
    wafer, base = load_wafer(str(path)), load_wafer("wse3")
    assert (wafer.name, wafer.hop_cycles, wafer.clock_hz) == ("mine", 1, 1.1e9)
    assert isinstance(wafer.clock_hz, float)
    assert wafer.mesh_rows == base.mesh_rows
    numbers = provenance(path)
    assert (numbers["hop_cycles"].grade, numbers["hop_cycles"].source) == ("U", f"set in {path}")
    assert numbers["ramp_cycles"] == provenance("wse3")["ramp_cycles"]


def test_a_table_may_carry_unit_grade_and_source(tmp_path: Path) -> None:
    path = write_toml(
        tmp_path,
        'name = "CS 9"\nbase = "wse2"\n[hop_cycles]\nvalue = 3\nunit = "cycle"\ngrade = "M"\nsource = "our lab"\n',
    )
    assert (load_wafer(path).name, load_wafer(path).hop_cycles) == ("CS 9", 3)
    number = provenance(path)["hop_cycles"]
    assert (number.value, number.unit, number.grade, number.source) == (3, "cycle", "M", "our lab")


def test_a_number_may_have_another_unit(tmp_path: Path) -> None:
    path = write_toml(
        tmp_path,
        'base = "wse3"\nsram_bytes_per_pe = "96KiB"\nwafer_link_latency_s = "200ns"\nhop_cycles = "2"\n'
        'clock_hz = { value = "1.1GHz", unit = "Hz", range = ["1GHz", 1_200_000_000] }\n'
        'host_round_trip_s = { value = 0.5, unit = "ms", range = ["200us", 1] }\n',
    )
    wafer = load_wafer(path)
    assert (wafer.sram_bytes_per_pe, wafer.wafer_link_latency_s, wafer.hop_cycles) == (98_304, 2e-7, 2)
    assert isinstance(wafer.sram_bytes_per_pe, int)
    assert provenance(path)["clock_hz"].low_value_high == (1e9, 1.1e9, 1.2e9)
    assert provenance(path)["host_round_trip_s"].low_value_high == (2e-4, 5e-4, 1e-3)
    software = load_software(write_toml(tmp_path, 'base = "tuned"\ncode_bytes_per_pe = "8KiB"\n'), "wse2")
    assert software.code_bytes_per_pe == 8_192


def test_a_full_file_needs_no_base(tmp_path: Path) -> None:
    numbers = {key: number.value for key, number in provenance("wse2").items()}
    text = 'generation = "wse3"\n' + "".join(f"{key} = {value}\n" for key, value in numbers.items())
    wafer = load_wafer(write_toml(tmp_path, text))
    assert {key: getattr(wafer, key) for key in numbers} == numbers
    path = write_toml(tmp_path, text.replace("hop_cycles = 1\n", ""))
    assert "has no hop_cycles" in refusal(BadWafer, load_wafer, path)
    path = write_toml(tmp_path, 'generation = "wse2"')
    assert "has no mesh_rows and 28 more keys" in refusal(BadWafer, load_wafer, path)


def test_software_files_are_loaded_like_wafer_files(tmp_path: Path) -> None:
    path = write_toml(tmp_path, 'base = "tuned"\nvector_issue_cycles = 9\n')
    mine = load_software(path, "wse2")
    assert (mine.vector_issue_cycles, mine.loop_cycles) == (9, 10)
    assert provenance(path)["vector_issue_cycles"].value == 9
    assert refusal(UnknownName, load_wafer, path) == (f"{path}: unknown base wafer 'tuned': known: cs4, wse2, wse3")


def test_wafer_may_be_marked_as_announced_only(tmp_path: Path) -> None:
    assert load_wafer(write_toml(tmp_path, 'base = "cs4"\nhop_cycles = 1\n')).announced
    assert not load_wafer(write_toml(tmp_path, 'base = "cs4"\nannounced = false\n')).announced
    assert not load_wafer(write_toml(tmp_path, 'base = "wse3"\n')).announced
    path = write_toml(tmp_path, 'base = "wse3"\nannounced = 2026\n')
    assert "announced = 2026: give true (nobody has measured such a wafer) or" in refusal(BadWafer, load_wafer, path)


def test_wafer_has_a_generation_for_software_costs(tmp_path: Path) -> None:
    path = write_toml(tmp_path, 'base = "wse3"\n')
    assert load_wafer(path).generation == "wse3"
    path = write_toml(tmp_path, 'base = "wse3"\ngeneration = "wse2"\n')
    assert load_wafer(path).generation == "wse2"
    path = write_toml(tmp_path, 'base = "wse3"\ngeneration = "cs"\n')
    assert refusal(UnknownName, load_wafer, path) == f"{path}: unknown generation 'cs': known: wse2, wse3"
    path = write_toml(tmp_path, "hop_cycles = 1\n")
    assert "has no generation" in refusal(BadWafer, load_wafer, path)


def test_a_cost_may_be_given_by_generation(tmp_path: Path) -> None:
    path = write_toml(tmp_path, 'base = "tuned"\nloop_cycles = { wse3 = 7 }\n')
    assert (load_software(path, "wse2").loop_cycles, load_software(path, "wse3").loop_cycles) == (10, 7)
    assert provenance(path)["loop_cycles.wse3"].value == 7
    path = write_toml(tmp_path, 'base = "academic"\nrelay_cycles = 3\n')
    assert (load_software(path, "wse2").relay_cycles, load_software(path, "wse3").relay_cycles) == (3, 3)
    path = write_toml(tmp_path, 'base = "tuned"\nloop_cycles = { wse3 = 7, cs = 5 }\n')
    assert "loop_cycles: unknown generation 'cs': known" in refusal(UnknownName, load_software, path, "wse2")
    path = write_toml(tmp_path, 'base = "tuned"\nloop_cycles = { wse3 = -7 }\n')
    assert refusal(BadWafer, load_software, path, "wse2").startswith(f"{path}: loop_cycles.wse3 = -7: give a number")


KNOWN = ", ".join(sorted([*numeric_fields(WaferSpec), "name", "base", "generation", "announced"]))


@pytest.mark.parametrize(
    ("line", "tail"),
    [
        ("mesh_rows = 0", "mesh_rows = 0: give a number from 1 to 10,000 (row)"),
        ("mesh_rows = 10_001", "mesh_rows = 10001: give a number from 1 to 10,000 (row)"),
        ("mesh_rows = 1.5", "mesh_rows = 1.5: give a whole number from 1 to 10,000"),
        ("clock_hz = nan", "clock_hz = nan: give a number from 1,000 to 1,000,000,000,000 (Hz)"),
        ("hop_cycles = 'two'", "hop_cycles = 'two': give a number (in cycle), or a table with value, unit, grade"),
        ("hop_cycles = '2.5'", "hop_cycles = 2.5: give a whole number from 1 to 10,000"),
        (
            "clock_hz = '1.1Ghz'",
            "clock_hz = '1.1Ghz': give a number (in Hz), or text with a unit in quotation marks (Hz, kHz, MHz or GHz), "
            "or a table",
        ),
        ("clock_hz = { value = 1e9, range = ['1Gz', 2] }", "clock_hz = range '1Gz': give a number (in Hz), or text"),
        ("clock_hz = { value = 1e9, range = [1e9] }", "clock_hz = range [1000000000.0]: List should have at least 2"),
        ("clock_hz = [1e9]", "clock_hz = [1000000000.0]: give a number (in Hz), or text"),
        (
            "sram_bytes_per_pe = { value = '48k' }",
            "sram_bytes_per_pe = value '48k': give a number (in byte/PE), or text",
        ),
        (
            "sram_bytes_per_pe = '2GiB'",
            "sram_bytes_per_pe = 2147483648: give a number from 1 to 1,073,741,824 (byte/PE)",
        ),
        ("hop_cycles = { value = 1, grade = 'Z' }", "hop_cycles = grade 'Z': Input should be 'M', 'V', 'D', 'I'"),
        ("hop_cycles = { value = 1, units = 'cycle' }", "hop_cycles = units 'cycle': Extra inputs are not permitted"),
        ("hop_cycles = { unit = 'cycle' }", "hop_cycles = value {'unit': 'cycle'}: Field required"),
        ("clock_hz = { value = 850, unit = 's' }", "clock_hz is given in 's': give it in Hz, kHz, MHz or GHz"),
        (
            "sram_bytes_per_pe = { value = 0x1" + "0" * 4_000 + ", unit = 'KiB' }",
            "sram_bytes_per_pe = an integer of 16,001 bits: give a number from 1 to 1,073,741,824 (byte/PE)",
        ),
        ("hop_cycles = { value = 1, unit = 'word' }", "hop_cycles is given in 'word': give it in cycle"),
        ("runtime_bytes_per_pe = 48_128", "runtime and task table take 49,152 bytes of sram_bytes_per_pe = 49,152"),
        ("reserved_colours = 24", "reserved_colours = 24 leaves none of colours = 24"),
        ("name = ''", "name = '': give a name of 1 to 64 printable characters"),
        ('name = "a\\nb"', "name = 'a\\\\nb': give a name of 1 to 64 printable characters"),
    ],
)
def test_a_bad_number_is_refused_with_its_range(tmp_path: Path, line: str, tail: str) -> None:
    path = write_toml(tmp_path, f'base = "wse2"\n{line}\n')
    assert refusal(BadWafer, load_wafer, path).startswith(f"{path}: {tail}".replace("\\\\", "\\"))


def test_unknown_key_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    path = write_toml(tmp_path, 'base = "wse2"\nhop_cycle = 2\n')
    assert refusal(UnknownName, load_wafer, path) == (
        f"{path}: unknown key 'hop_cycle': did you mean 'hop_cycles'? known: {KNOWN}"
    )


def test_missing_oversized_and_irregular_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "none.toml"
    remedy = "give the path of a TOML file"
    assert refusal(BadWafer, load_wafer, path) == f"{path}: does not exist; {remedy}"
    assert refusal(BadWafer, load_wafer, tmp_path) == f"{tmp_path}: is not a regular file; {remedy}"
    path.write_bytes(b"#" * (TOML_LIMIT_BYTES + 1))
    assert "is over 1,048,576 bytes, the most such a file may have" in refusal(BadWafer, load_wafer, path)
    assert refusal(BadWafer, load_wafer, str(tmp_path / ("x" * 400 + ".toml"))).endswith(
        "; check the path and its permissions"
    )


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    key=st.sampled_from([*numeric_fields(WaferSpec), "name", "base", "x"]),
    value=st.sampled_from(["0", "-1", "1e400", "nan", "''", "[]", "{}", "true", "1979-05-27", "9" * 30])
    | st.integers().map(str)
    | st.floats(allow_nan=False, allow_infinity=False).map(repr),
)
def test_any_value_is_read_or_refused(tmp_path: Path, key: str, value: str) -> None:
    path = write_toml(tmp_path, ('base = "wse2"\n' if key != "base" else "") + f"{key} = {value}\n")
    try:
        wafer = load_wafer(path)
    except BadInput as error:
        message = str(error)
    else:
        message = ""
        assert wafer.mesh_rows > 0
    assert message.isprintable()


def test_presets_take_precedence_over_files_of_their_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wse2").write_text("no TOML at all")
    assert load_wafer("wse2").name == "wse2"
    (tmp_path / "plain").write_text('base = "wse2"\n')
    assert load_wafer("plain").name == "plain"
    assert "plain" not in known_wafers()
