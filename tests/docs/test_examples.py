"""Tests of the scripts and the mapping file in docs/examples (`.ci/run` tests the example package)."""

import re
import runpy
import sys
from pathlib import Path

import pytest

import wse

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"


def output_lines(capsys: pytest.CaptureFixture[str], example: str, *arguments: str) -> list[str]:
    """Run an example as a script and return the lines that it prints."""
    before, sys.argv = sys.argv, [example, *arguments]
    try:
        runpy.run_path(str(EXAMPLES / example), run_name="__main__")
    finally:
        sys.argv = before
    return capsys.readouterr().out.splitlines()


def test_pattern_times_agree_with_the_closed_form_and_the_bound(capsys: pytest.CaptureFixture[str]) -> None:
    *timed, bound = [
        [float(x) for x in re.findall(r" (\d+)(?: |$)", row)] for row in output_lines(capsys, "pattern.py")
    ]
    for cycles, closed_form in timed:
        assert bound[0] <= cycles
        assert abs(cycles / closed_form - 1) < 0.25


def test_trace_script_prints_cycles_in_descending_order(capsys: pytest.CaptureFixture[str]) -> None:
    lines = output_lines(capsys, "read_trace.py", str(ROOT / "traces" / "golden" / "v1" / "story.h5"))
    cycles = [int(line.split()[1].replace(",", "")) for line in lines]
    assert len(lines) == 5
    assert cycles == sorted(cycles, reverse=True)


def test_kernel_agrees_with_numpy_and_has_the_expected_cost(capsys: pytest.CaptureFixture[str]) -> None:
    call, difference, cost = output_lines(capsys, "kernel.py")
    assert call.startswith("gemv(x, w, out, ")
    assert float(difference.split()[-1]) < 1e-5
    assert [float(number) for number in re.findall(r"^\d+| \d+ ", cost)][1] == 16 * 8


@pytest.mark.slow
def test_mapping_file_gives_its_regions_and_the_tokens_of_one_region() -> None:
    options = {
        "prompt": "One day",
        "new_tokens": 12,
        "mesh": "24x24",
        "dtype": "float32",
        "schedule": "baseline",
        "trace": None,
    }
    listed, whole = (wse.run(mapping=name, **options) for name in (EXAMPLES / "regions.toml", "region"))
    stages = [(stage.rows, stage.cols, stage.layers) for stage in listed.system.stages]
    assert stages == [(24, 12, (0, 1)), (10, 12, (2, 2)), (14, 12, (3, 4))]
    assert listed.system.mapping == "regions.toml"
    assert listed.text == whole.text
