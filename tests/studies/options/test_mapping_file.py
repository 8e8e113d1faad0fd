"""Tests of mapping files: reading, refused files, and Programs that have the listed regions."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import wse
from tests.hardware.helpers import refusal
from wse.errors import BadInput, BadMapping, UnknownName
from wse.studies.compile.choose import compile_fastest
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.listed_regions import check_listed
from wse.studies.options.mapping_file import load_mapping
from wse.studies.options.option import make_request
from wse.studies.run.prepare import prepare
from wse.studies.run.request import RunRequest
from wse_mappings.mesh.placement import Rect
from wse_mappings.regions.demand import ListedRegion

Region = Mapping[str, Any]
LEFT: Region = {"row": 0, "col": 0, "rows": 16, "cols": 10, "layers": [0, 1]}
RIGHT: Region = {"row": 0, "col": 10, "rows": 6, "cols": 12, "layers": [2, 4]}
SHORT = {"prompt_len": 8, "new_tokens": 8}


def write(folder: Path, *regions: Region, name: str = "two.toml", head: str = "") -> Path:
    """Write a mapping file with these regions after the text `head`, and return its path."""
    path = folder / name
    tables = ["[[regions]]\n" + "".join(f"{key} = {value!r}\n" for key, value in region.items()) for region in regions]
    path.write_text(head + "\n".join(tables), encoding="utf-8")
    return path


def test_strategy_name_takes_precedence_over_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, LEFT, RIGHT, name="region")
    write(tmp_path, LEFT, RIGHT, name="regions")
    monkeypatch.chdir(tmp_path)
    assert load_mapping("region").file == ""
    assert load_mapping("regions").file == "regions"


def test_layer_ranges_are_inclusive_and_the_default_wafer_is_0(tmp_path: Path) -> None:
    table_alone = {"wafer": 1, "row": 3, "col": 0, "rows": 2, "cols": 2, "layers": []}
    mapping = load_mapping(write(tmp_path, LEFT, {**RIGHT, "wafer": 1}, table_alone))
    assert mapping == (
        "pipeline",
        "two.toml",
        (
            ListedRegion(0, Rect(0, 0, 16, 10), 0, 2),
            ListedRegion(1, Rect(0, 10, 6, 12), 2, 5),
            ListedRegion(1, Rect(3, 0, 2, 2), 5, 5),
        ),
        False,
    )
    assert mapping.wafers == 2


INVALID_FILES: dict[str, tuple[tuple[Region, ...], str]] = {
    "overlap": (
        ({**LEFT, "cols": 12, "layers": [0, 1]}, {**RIGHT, "row": 5, "rows": 20}),
        "regions 0 and 1 overlap in rows 5 to 15 and columns 10 to 11 of wafer 0",
    ),
    "no region": ((), "lists no regions; give each as [[regions]]"),
    "unknown key": (({**LEFT, "layer": [0, 1]},), "region 0: unknown key 'layer': did you mean 'layers'?"),
    "missing key": (
        (LEFT, {key: value for key, value in RIGHT.items() if key != "cols"}),
        "region 1: has no cols; give wafer, row, col",
    ),
    "type": (({**LEFT, "rows": 1.5},), "region 0: rows = 1.5: give a whole number from 1 to 10,000"),
    "layers backwards": (({**LEFT, "layers": [1, 0]},), "region 0: layers = [1, 0]: give the first"),
    "layer twice": ((LEFT, {**RIGHT, "layers": [1, 4]}), "region 1: layers = [1, 4]: layer 1 is in a region before it"),
    "layer missing": (
        (LEFT, {**RIGHT, "layers": [3, 4]}),
        "region 1: layers = [3, 4]: layer 3 comes after layer 2, not held yet",
    ),
    "parts beyond a layer": (({**LEFT, "parts": [2, 9]},), "region 0: parts = [2, 9]: give the part"),
    "parts that are no list": (({**LEFT, "parts": 1},), "region 0: parts = 1: give the part"),
    "parts of a table": (
        ({**LEFT, "layers": [], "parts": [0, 2]},),
        "region 0: parts = [0, 2], for a table alone leave it out",
    ),
    "part twice": (
        ({**LEFT, "parts": [0, 2]}, {**RIGHT, "layers": [1, 4], "parts": [2, 8]}),
        "region 1: begins with part 2 of layer 1, where part 3 is next",
    ),
    "part missing": (
        ({**LEFT, "parts": [0, 2]}, RIGHT),
        "region 1: layers = [2, 4]: layer 2 comes after layer 1, not held yet",
    ),
    "nothing in the middle": (
        (LEFT, {**RIGHT, "layers": []}, {**RIGHT, "row": 6, "layers": [2, 4]}),
        "region 1: layers = []: only the first and the last region may have no layers",
    ),
    "wafer left out": ((LEFT, {**RIGHT, "wafer": 2}), "region 1: wafer = 2, after a region on wafer 0"),
    "first wafer": (({**LEFT, "wafer": 1},), "region 0: wafer = 1, of the first: give 0"),
}


@pytest.mark.parametrize("name", INVALID_FILES)
def test_invalid_file_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    regions, message = INVALID_FILES[name]
    path = write(tmp_path, *regions)
    error = UnknownName if "unknown" in message else BadMapping
    assert refusal(error, load_mapping, path).startswith(f"{path}: {message}")


def test_file_without_a_list_of_regions_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, LEFT, head="region = 3\n")
    assert "unknown key 'region'" in refusal(UnknownName, load_mapping, path)
    path.write_text("[[regions]\n", encoding="utf-8")
    assert refusal(BadMapping, load_mapping, path).startswith(f"{path}: not TOML: ")
    path.write_text("regions = [3]\n", encoding="utf-8")
    assert "region 0: region = 3: give a table" in refusal(BadMapping, load_mapping, path)
    assert "does not exist" in refusal(BadMapping, load_mapping, tmp_path / "no.toml")
    assert "printable" in refusal(BadMapping, load_mapping, write(tmp_path, LEFT, name="a\nb.toml"))


UNSUITABLE_REQUESTS: dict[str, tuple[tuple[Region, ...], dict[str, Any], str]] = {
    "wafers": ((LEFT, {**RIGHT, "wafer": 1}), {"wafers": 1}, "two.toml: its regions are on 2 wafers"),
    "leaves the mesh": ((LEFT, RIGHT), {"mesh": "16x20"}, "two.toml: region 1 has rows 0 to 5 and columns 10 to 21"),
    "layers too few": ((LEFT, {**RIGHT, "layers": [2, 3]}), {}, "two.toml: its regions end with layer 3"),
    "layers too many": ((LEFT, {**RIGHT, "layers": [2, 8]}), {}, "two.toml: its regions end with layer 8"),
    "ends inside a layer": ((LEFT, {**RIGHT, "parts": [0, 2]}), {}, "two.toml: region 1: ends with part 2"),
    "shape stated twice": ((LEFT, RIGHT), {"region": "8x8"}, "--region 8x8: two.toml lists regions"),
    "no table left for the head": (
        (LEFT, RIGHT, {**RIGHT, "row": 6, "layers": []}),
        {},
        "two.toml: region 2: layers = []: the head",
    ),
}


@pytest.mark.parametrize("name", UNSUITABLE_REQUESTS)
def test_file_that_contradicts_the_request_is_refused(tmp_path: Path, name: str) -> None:
    regions, options, message = UNSUITABLE_REQUESTS[name]
    request = make_request(EstimateRequest, model="story", mapping=write(tmp_path, *regions), **SHORT, **options)
    assert refusal(BadInput, prepare_estimate, request).startswith(message)


def test_region_on_rows_lost_to_dead_pes_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path, {**LEFT, "rows": 20, "layers": [0, 4]})
    dead = tmp_path / "dead.csv"
    dead.write_text("row,col\n3,4\n", encoding="utf-8")
    request = make_request(EstimateRequest, model="story", mapping=file, mesh="20x10", defects=dead, **SHORT)
    message = refusal(BadInput, prepare_estimate, request)
    assert message.startswith("two.toml: region 0 has rows 0 to 19 and columns 0 to 9, beyond the ")
    assert "live PEs of wse3" in message


def test_transposed_regions_use_rows_of_the_transposed_mesh(tmp_path: Path) -> None:
    path = write(tmp_path, LEFT, RIGHT, head="transposed = true\n")
    options: dict[str, Any] = {"mapping": path, "prompt": "One day", "new_tokens": 4}
    prepared = prepare(make_request(RunRequest, **options))
    assert (prepared.wafer.mesh_rows, prepared.wafer.mesh_cols) == (22, 16)
    message = refusal(BadInput, prepare, make_request(RunRequest, **options, mesh="20x16"))
    assert "beyond the 16x20 PEs, transposed, of wse3" in message
    path.write_text("transposed = 1\n", encoding="utf-8")
    assert refusal(BadMapping, load_mapping, path) == f"{path}: transposed = 1: give true or false"


def test_written_file_gives_the_same_program(tmp_path: Path) -> None:
    first, second = tmp_path / "first.toml", tmp_path / "second.toml"
    write(tmp_path, LEFT, {**RIGHT, "wafer": 1}, name=first.name, head="transposed = true\n")
    options: dict[str, Any] = {**SHORT, "schedule": "baseline", "wafers": 2}
    result = wse.compile("story", mapping=first, **options)
    assert result.system.transposed is True
    second.write_text(result.system.mapping_file(), encoding="utf-8")
    assert load_mapping(second) == load_mapping(first)._replace(file=second.name)
    reread = wse.compile("story", mapping=second, **options)
    assert reread.system.stages == result.system.stages
    assert reread.decode == result.decode


def test_regions_that_share_a_layer_are_written_and_read(tmp_path: Path) -> None:
    first, second = tmp_path / "first.toml", tmp_path / "second.toml"
    write(tmp_path, {**LEFT, "parts": [0, 2]}, {**RIGHT, "layers": [1, 4], "parts": [3, 8]}, name=first.name)
    assert [tuple(region.layers) for region in load_mapping(first).listed] == [(0, 2, 0, 3), (1, 5, 3, 9)]
    result = wse.compile("story", mapping=first, schedule="baseline", **SHORT)
    assert [(stage.layers, stage.parts) for stage in result.system.stages] == [((0, 1), (0, 2)), ((1, 4), (3, 8))]
    second.write_text(result.system.mapping_file(), encoding="utf-8")
    assert load_mapping(second) == load_mapping(first)._replace(file=second.name)


@pytest.mark.parametrize(("part", "fits"), [(1, True), (2, False)])
def test_block_with_a_norm_of_its_output_is_not_divided(tmp_path: Path, part: int, fits: bool) -> None:  # noqa: FBT001
    file = write(tmp_path, {**LEFT, "parts": [0, part - 1]}, {**RIGHT, "layers": [1, 4], "parts": [part, 8]})
    prepared = prepare_estimate(make_request(EstimateRequest, model="story", mapping=file, **SHORT))
    spec = replace(prepared.spec, post_norms=True)
    if fits:
        check_listed(prepared.options, spec, prepared.wafer, live=False)
    else:
        message = refusal(BadInput, partial(check_listed, live=False), prepared.options, spec, prepared.wafer)
        assert (
            "region 1: parts = [2, 8]: the output of a feed-forward block of story is normalised as a whole" in message
        )


def test_run_uses_the_smallest_mesh_with_all_regions(tmp_path: Path) -> None:
    prepared = prepare(make_request(RunRequest, mapping=write(tmp_path, LEFT, RIGHT), prompt="One day", new_tokens=4))
    assert (prepared.wafer.mesh_rows, prepared.wafer.mesh_cols) == (16, 22)


@pytest.mark.parametrize(("rows", "product"), [(12, "mesh-gemm"), (10, "thin-gemm")])
def test_mesh_gemm_needs_square_regions_of_one_size(tmp_path: Path, rows: int, product: str) -> None:
    square = {"row": 0, "col": 0, "rows": 12, "cols": 12, "layers": [0, 2]}
    path = write(tmp_path, square, {**square, "col": 12, "rows": rows, "layers": [3, 4]})
    request = make_request(
        EstimateRequest, model="story", mapping=path, schedule="baseline", prompt_len=96, new_tokens=1
    )
    assert compile_fastest(prepare_estimate(request)).program.prefill_name == product
