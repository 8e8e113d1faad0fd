"""Examples of docs/examples that run as scripts compute what they say; `.ci/run` installs the package there."""

import re
import runpy
import sys
from pathlib import Path

import pytest

import wse

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"


def printed(capsys: pytest.CaptureFixture[str], example: str, *arguments: str) -> list[str]:
    """The lines that an example prints."""
    before, sys.argv = sys.argv, [example, *arguments]
    try:
        runpy.run_path(str(EXAMPLES / example), run_name="__main__")
    finally:
        sys.argv = before
    return capsys.readouterr().out.splitlines()


def test_pattern_is_timed_beside_its_closed_form_and_the_bound(capsys: pytest.CaptureFixture[str]) -> None:
    *timed, bound = [[float(x) for x in re.findall(r" (\d+)(?: |$)", row)] for row in printed(capsys, "pattern.py")]
    for cycles, form in timed:
        assert bound[0] <= cycles
        assert abs(cycles / form - 1) < 0.25


def test_trace_tells_where_the_cycles_are(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "read_trace.py", str(ROOT / "traces" / "golden" / "v1" / "story.h5"))
    cycles = [int(line.split()[1].replace(",", "")) for line in lines]
    assert len(lines) == 5
    assert cycles == sorted(cycles, reverse=True)


def test_kernel_gives_what_numpy_gives_and_has_a_cost(capsys: pytest.CaptureFixture[str]) -> None:
    call, difference, cost = printed(capsys, "kernel.py")
    assert call.startswith("gemv(x, w, out, ")
    assert float(difference.split()[-1]) < 1e-5
    assert [float(number) for number in re.findall(r"^\d+| \d+ ", cost)][1] == 16 * 8


@pytest.mark.slow
def test_regions_are_those_of_the_file_and_give_the_tokens_of_one_region() -> None:
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
