"""Every example of docs/examples runs, and the package there is found by its entry points.

The lane of `.ci/run` that installs a wheel installs the package beside it; here it is on the path of a process.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import wse

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
PACKAGE = EXAMPLES / "package"
USE_PACKAGE = """
import json, sys
import wse
from wse.backends.fabric.line.closed_forms import closed_form
from wse.hardware.load import load_software, load_wafer
from wse.serving.gpus.load import load_gpu, load_stack
from wse.studies import catalogue
from wse.studies.validate.agreement.against_wavelet import compare
from wse.studies.validate.agreement.against_wavelet import cases

short = {"prompt_len": 8, "new_tokens": 8, "schedule": "baseline"}
wafer = load_wafer("wse2")
software = load_software("tuned", wafer.generation)
rows = [compare(case, wafer, software) for case in cases("pairs", 3, 1)]
models = [wse.estimate(file, mesh="16x16", context=64, **short) for file in sys.argv[1:]]
json.dump({
    "mappings": [mapping.name for mapping in catalogue.mappings().mappings],
    "regions": wse.estimate("story", mesh="24x24", mapping="halves", **short).to_dict()["system"]["regions"],
    "loads_equal": [row.loads_equal for row in rows],
    "error_pct": [row.error_pct for row in rows],
    "form_cycles": closed_form("reduce", "pairs", 1, 16, 8, wafer),
    "presets": [load_wafer("quarter").mesh_rows, load_software("compact", "wse3").code_bytes_per_pe,
                load_gpu("slow-memory").hbm_bytes_per_s, load_stack("eager", "hopper").layer_s],
    "parameters": [model.to_dict()["model"]["parameters"] for model in models],
}, sys.stdout)
"""


def printed(capsys: pytest.CaptureFixture[str], example: str, *arguments: str) -> list[str]:
    """The lines that an example prints."""
    before, sys.argv = sys.argv, [example, *arguments]
    try:
        runpy.run_path(str(EXAMPLES / example), run_name="__main__")
    finally:
        sys.argv = before
    return capsys.readouterr().out.splitlines()


def test_the_pattern_is_timed_beside_its_closed_form_and_the_bound(capsys: pytest.CaptureFixture[str]) -> None:
    *timed, bound = [[float(x) for x in re.findall(r" (\d+)(?: |$)", row)] for row in printed(capsys, "pattern.py")]
    for cycles, form in timed:
        assert bound[0] <= cycles
        assert abs(cycles / form - 1) < 0.25


def test_the_mapping_holds_every_layer_once(capsys: pytest.CaptureFixture[str]) -> None:
    layers = [re.findall(r"layers (\d+) to (\d+)", line) for line in printed(capsys, "mapping.py")]
    covered = [layer for ((first, last),) in filter(None, layers) for layer in range(int(first), int(last) + 1)]
    assert covered == list(range(12))


def test_the_trace_tells_where_the_cycles_are(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "read_trace.py", str(ROOT / "traces" / "golden" / "v1" / "story.h5"))
    cycles = [int(line.split()[1].replace(",", "")) for line in lines]
    assert len(lines) == 5
    assert cycles == sorted(cycles, reverse=True)


def test_the_kernel_gives_what_numpy_gives_and_has_a_cost(capsys: pytest.CaptureFixture[str]) -> None:
    call, difference, cost = printed(capsys, "kernel.py")
    assert call.startswith("gemv(x, w, out, ")
    assert float(difference.split()[-1]) < 1e-5
    assert [float(number) for number in re.findall(r"^\d+| \d+ ", cost)][1] == 16 * 8


@pytest.mark.slow
def test_the_wafer_is_used_where_a_file_is_named() -> None:
    result = wse.estimate(
        "story", wafer=str(EXAMPLES / "small-wafer.toml"), prompt_len=8, new_tokens=8, schedule="baseline"
    )
    used = result.to_dict()["wafer"]
    assert (used["rows"], used["cols"], used["clock_hz"]) == (48, 48, 500_000_000)


@pytest.mark.slow
def test_the_regions_are_those_of_the_file_and_give_the_tokens_of_one_region() -> None:
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


@pytest.fixture(scope="module")
def with_package(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `USE_PACKAGE` finds in a process whose path has the package as if it were installed."""
    site = tmp_path_factory.mktemp("site")
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    metadata = site / f"wse_example-{project['version']}.dist-info"
    metadata.mkdir()
    head = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (metadata / "METADATA").write_text(head, encoding="utf-8")
    lines: list[str] = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = json.loads((PACKAGE / "config.json").read_text(encoding="utf-8"))
    plain = site / "config.json"
    plain.write_text(json.dumps(config | {"biased": False}), encoding="utf-8")
    roots = [site, PACKAGE, *(ROOT / name for name in ("", "kernels", "mappings", "traces"))]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, roots))}
    command = [sys.executable, "-c", USE_PACKAGE, str(plain), str(PACKAGE / "config.json")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results: dict[str, Any] = json.loads(done.stdout)
    return results


@pytest.mark.slow
def test_the_strategy_of_the_package_places_a_model(with_package: dict[str, Any]) -> None:
    assert "halves" in with_package["mappings"]
    assert with_package["regions"] == 2


@pytest.mark.slow
def test_the_pattern_of_the_package_agrees_with_the_wavelets(with_package: dict[str, Any]) -> None:
    assert all(with_package["loads_equal"])
    assert max(map(abs, with_package["error_pct"])) < 10
    assert with_package["form_cycles"] > 0


@pytest.mark.slow
def test_the_family_of_the_package_is_read(with_package: dict[str, Any]) -> None:
    plain, biased = with_package["parameters"]
    assert biased - plain == 2 * 3 * 64  # queries, keys and values of two layers


@pytest.mark.slow
def test_the_presets_of_the_package_are_read(with_package: dict[str, Any]) -> None:
    assert with_package["presets"] == [585, 8192, 1.675e12, 2e-4]
