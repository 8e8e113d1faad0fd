"""Tests of the software profile epcc: its constants are the fit to microbenchmarks, and errors of other rows."""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest
from tiers import AT_REQUEST
from tool_scripts import import_script

import wse
from wse.errors import BadWafer, UnknownName
from wse.hardware import code_sizes, compute_engine
from wse.hardware.code_sizes import load_code_sizes
from wse.hardware.compute_engine import load_compute_engine, sourced_costs
from wse.hardware.load import load_wafer
from wse.studies.validate.measured.measurements import Measurement, read
from wse.studies.validate.predictors.predict import predict

FITTED_CONSTANTS, FITTED_ROWS = 14, 31
FIT = import_script("fit_compute_engine")
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "qwen3.md"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "prompt_len", "new_tokens", "measured_cycles"),
    [
        ("qwen3-1.7b", 256, 64, 459_335),
        pytest.param("qwen3-4b", 4096, 4096, 785_826, marks=AT_REQUEST),
    ],
)
def test_decode_steps_of_qwen3_are_within_8_percent_of_measurements(
    model: str, prompt_len: int, new_tokens: int, measured_cycles: int
) -> None:
    """The measured values are from EPCC on a WSE-3 (2026 working notes, rows D17-01 and CTX1-01)."""
    decode = wse.estimate(
        model, software="epcc", schedule="baseline", prompt_len=prompt_len, new_tokens=new_tokens
    ).decode
    assert decode.cycles_per_token == pytest.approx(measured_cycles, rel=0.08)
    assert f"| {measured_cycles:,} | {decode.cycles_per_token:,.0f} |" in PAGE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def epcc_rows(external_data: Path) -> list[Measurement]:
    """Return the measurements of Qwen3 on a WSE-3 at EPCC."""
    path = external_data / "reference" / "wse3_qwen3.csv"
    if not path.exists():
        pytest.skip(f"no shared measurements: {path} is missing")
    return read(path)


def test_profile_is_the_fit_to_microbenchmarks(epcc_rows: list[Measurement]) -> None:
    profile, costs = sourced_costs("epcc"), load_compute_engine("epcc")
    fits = FIT.fit_costs(epcc_rows, load_wafer("wse3"), costs)
    constants = [(name, value) for fit in fits for name, value in fit.values.items() if name != "ring_free_bytes"]
    rows = {row.text("id"): row for fit in fits for row in fit.rows}
    assert len(constants) == FITTED_CONSTANTS
    assert len(rows) == sum(len(fit.rows) for fit in fits) == FITTED_ROWS
    assert {row.text("group") for row in rows.values()} <= FIT.FIT_GROUPS
    for name, value in constants:
        assert profile[name].value == pytest.approx(value, rel=2e-3), name
        assert "fitted" in profile[name].source


def test_code_sizes_are_those_of_the_linker_rows_in_their_source(epcc_rows: list[Measurement]) -> None:
    by_id = {row.text("id"): row.measured for row in epcc_rows}
    path = code_sizes._FOLDER / "epcc.toml"
    entries = [entry for role in tomllib.loads(path.read_text()).values() for entry in role.values()]
    differences = 0
    for entry in entries:
        source = entry["source"].partition(";")[0]
        ids = re.findall(r"SRAM\w*-[0-9]+", source)
        values = [by_id[name] for name in ids]
        if source in ids:
            assert entry["value"] == values[0], source
        elif re.fullmatch(r"\S+ less \S+", source):
            differences += 1
            assert entry["value"] == values[0] - values[1], source
    assert differences == 8


@pytest.mark.parametrize(
    ("phases", "median_pct", "worst_pct"),
    [
        (("decode",), 5, 20),
        (("decode-pipelined",), 16, 20),
        (("attention-phase", "ffn-phase"), 7, 50),
        (("layer", "layer-attention", "layer-ffn"), 13, 45),
        (("prefill",), 3, 12),
        (("sram",), 1, 20),
    ],
)
def test_errors_of_rows_without_a_fit_are_below_their_limits(
    epcc_rows: list[Measurement], phases: tuple[str, ...], median_pct: float, worst_pct: float
) -> None:
    errors = []
    for m in epcc_rows:
        if m.text("phase") in phases and m.text("group") not in FIT.FIT_GROUPS and m.measured:
            value = predict(m).value
            if value is not None:
                errors.append(abs(100 * (value / m.measured - 1)))
    assert len(errors) > 5
    assert median(errors) < median_pct
    assert max(errors) < worst_pct


@pytest.mark.parametrize(("load", "module"), [(load_compute_engine, compute_engine), (load_code_sizes, code_sizes)])
def test_bad_profiles_are_refused(
    load: Callable[[str], object], module: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnknownName, match="epccc"):
        load("epccc")
    monkeypatch.setattr(module, "_FOLDER", tmp_path)
    (tmp_path / "odd.toml").write_text("operation_cycles = 3\n")
    (tmp_path / "other.toml").write_text("[role]\ncode_bytes = { value = 1.5 }\nsystem_bytes = 3\n")
    for name in ("odd", "other"):
        with pytest.raises((BadWafer, UnknownName)):
            load(name)
