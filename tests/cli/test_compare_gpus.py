"""``wse compare MODEL --gpu``: wafers and GPUs in one table, files of it, and what is refused on one line."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

import wse as api
from tests.cli.conftest import Wse
from wse.cli import main
from wse.errors import BadInput, DoesNotFit
from wse.studies.compare.curve.result import CurveResult
from wse.studies.compare.curve.row import COLUMNS
from wse.studies.compare.curve.study import curve
from wse.studies.compare.machine import prepared_gpus
from wse.studies.compare.request import CompareRequest
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import make_request, replace_options

LENGTHS = ("--prompt-len", "64", "--new-tokens", "64")
SMALL = ("story", "--mesh", "24x24", *LENGTHS, "--mapping", "bands", "--schedule", "baseline", "--wafers", "1")
H100 = ("--gpu", "h100", "--gpus", "1", "--stack", "vllm")


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A comparison, with its files."""
    folder = tmp_path_factory.mktemp("curve")
    files = [text for kind in ("csv", "png", "html") for text in (f"--{kind}", str(folder / f"c.{kind}"))]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(["compare", *SMALL, *H100, "--gpu", "a100", *files, "--json"]) == 0
    return json.loads(out.getvalue()), folder


def test_rows_of_wafers_and_gpus_as_the_estimates_have_them(beside: Any, wse: Wse) -> None:
    result, _ = beside
    assert [*dict.fromkeys((r["kind"], r["name"]) for r in result["rows"])] == [
        ("wafer", "wse3"),
        ("gpu", "h100"),
        ("gpu", "a100"),
    ]
    lengths = ("--prompt-len", 64, "--new-tokens", 64, "--json")
    on_gpus = json.loads(wse("estimate", "story", *H100, *lengths).out)
    on_wafers = json.loads(wse("estimate", *SMALL, "--json").out)
    keys = ("ttft_s", "tokens_per_s_per_user", "tokens_per_s", "usd_per_million_tokens", "joules_per_token")
    for name, estimate in (("h100", on_gpus), ("wse3", on_wafers)):
        points = {point["users"]: point for point in estimate["serving"]["points"]}
        own = {
            row["users"]: row
            for row in result["rows"]
            if row["name"] == name and not {"throughput", "fastest"} & {*row["machine"].split()}
        }
        assert len(points.keys() & own.keys()) >= 2
        for users in points.keys() & own.keys():
            for key in keys:
                assert own[users][key] == pytest.approx(points[users][key]), (name, users, key)


def test_several_users_are_as_fast_as_in_an_estimate_for_them(beside: Any, wse: Wse) -> None:
    result, _ = beside
    serving = json.loads(wse("estimate", *SMALL, "--users", "4", "--json").out)["serving"]
    rows = [row for row in result["rows"] if row["kind"] == "wafer" and row["users"] == 4]
    fastest = max(rows, key=lambda row: row["tokens_per_s_per_user"])
    assert fastest["tokens_per_s_per_user"] == pytest.approx(serving["tokens_per_s_per_user"], rel=0.02)


def test_three_sentences_and_sourced_assumptions(beside: Any) -> None:
    result, _ = beside
    assert len(result["verdict"]) == 3
    assert {"wafer_usd_per_hour", "gpu_usd_per_hour.h100", "gpu_power_w.a100"} <= result["economics"].keys()
    assert all(assumed["source"] for assumed in result["economics"].values())
    plain = {r["machine"]: r for r in result["rows"] if "plain" in r.get("tier", "")}
    assert plain.keys() == {r["machine"] for r in result["rows"]}
    assert all(r["tokens_per_s_per_user"] >= 50 for r in plain.values())


def test_files_have_the_rows_and_both_drawings(beside: Any) -> None:
    result, folder = beside
    rows = [*csv.DictReader((folder / "c.csv").read_text().splitlines())]
    assert [*rows[0]] == list(COLUMNS)
    assert [row["machine"] for row in rows] == [row["machine"] for row in result["rows"]]
    assert (folder / "c.png").read_bytes().startswith(b"\x89PNG")
    page = (folder / "c.html").read_text()
    assert result["verdict"][0] in page
    assert page.count('"across"') == 2


def test_tiers_follow_the_plain_speed(wse: Wse) -> None:
    """One user alone gets some 4,200 tokens/s on the GPU: too few for a fast tier of 5,000."""
    report = json.loads(wse("compare", *SMALL, *H100, "--plain-speed", "2000", "--json").out)
    speeds = {(row["kind"], tier): row for row in report["rows"] for tier in row.get("tier", "").split(", ") if tier}
    assert speeds.keys() == {("wafer", "plain"), ("wafer", "fast"), ("gpu", "plain")}
    for (kind, tier), row in speeds.items():
        least = {"plain": 2000, "fast": 5000}[tier]
        assert row["tokens_per_s_per_user"] >= least
        more = [one for one in report["rows"] if one["kind"] == kind and one["users"] > row["users"]]
        assert all(one["tokens_per_s_per_user"] < least for one in more)
    assert report["inputs"]["plain_speed"] == 2000


def test_the_verdict_comes_first(wse: Wse) -> None:
    answer = wse("compare", *SMALL, *H100)
    assert answer.code == 0, answer.err
    assert answer.out.index("One user is") < answer.out.index("A token is cheapest") < answer.out.index("Tiers")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--gpus", "8"), ("--gpus", "--gpu NAME")),
        (("--gpu", "h10"), ("h10", "h100")),
        (("--gpu", "h100", "--gpus", "16"), ("--gpus 16", "8 h100 are linked")),
        (("--gpu", "h100", "--stack", "vlm"), ("vlm", "vllm")),
        (("--gpu", "h100", "--question", "one-wafer-or-many"), ("--question", "leave out --question or --gpu")),
        (("--gpu", "h100", "--parallelism", "experts"), ("--parallelism experts", "no experts")),
        (("--gpu", "h100", "--plain-speed", "0"), ("--plain-speed 0", "from 0.1 to 1,000,000")),
        (("--gpu", "h100", "--plain-speed", "nan"), ("--plain-speed", "nan")),
    ],
)
def test_bad_input_is_one_line(wse: Wse, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    answer = wse("compare", *SMALL, *arguments)
    assert answer.code == 2
    assert answer.out == ""
    assert len(answer.err.strip().splitlines()) == 1
    assert all(word in answer.err for word in words), answer.err


def test_traces_take_no_gpus(wse: Wse) -> None:
    golden = Path(__file__).parents[2] / "traces" / "golden" / "v1" / "story-two-wafers.h5"
    answer = wse("compare", golden, golden, "--gpu", "h100")
    assert answer.code == 2
    assert "--gpu: applies to models" in answer.err


def test_a_gpu_that_nobody_prices_is_refused(wse: Wse, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('base = "h100"\nhbm_bytes_per_s = 4e12\n')
    answer = wse("compare", *SMALL, "--gpu", own)
    assert answer.code == 2
    assert "give --price own=USD" in answer.err


def test_a_number_of_gpus_without_room_for_a_user_is_passed_over() -> None:
    """Two H100 hold the weights of 70B, and not the cache of 101,000 tokens beside them: four have room."""
    base = make_request(EstimateRequest, model="llama-3.1-70b", prompt_len=100_000, new_tokens=1_000)
    serving, impossible = prepared_gpus(CompareRequest(base=base, gpu=("h100",)))
    assert [one.server.parallelism.gpus for one in serving] == [4, 8]
    (reason,) = impossible.values()
    assert impossible.keys() == {"2 h100, vllm"}
    assert reason.startswith("the KV cache of one sequence of 101,000 tokens does not fit; give a shorter --prompt-len")
    with pytest.raises(DoesNotFit, match=r"^2 h100, vllm: the KV cache of one sequence of 101,000 tokens") as error:
        curve(CompareRequest(base=replace_options(base, gpus=2), gpu=("h100",)), jobs=1)
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_from_python() -> None:
    lengths = {"mesh": "24x24", "prompt_len": 64, "new_tokens": 64, "wafers": [1]}
    lengths |= {"mapping": ["bands"], "schedule": "baseline"}
    result = api.compare("story", gpu=["h100"], gpus=1, stack="trtllm", **lengths)
    assert isinstance(result, CurveResult)
    assert result.rows[-1].software == "trtllm"
    with pytest.raises(BadInput, match="gpu"):
        api.compare("story", stack="vllm", **lengths)
