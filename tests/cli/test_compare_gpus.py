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
from wse.comparison.compare.curve.result import CurveResult
from wse.comparison.compare.curve.row import COLUMNS
from wse.errors import BadInput

LENGTHS = ("--prompt-len", "64", "--new-tokens", "64")
SMALL = ("story", "--mesh", "24x24", *LENGTHS, "--mapping", "bands", "--schedule", "released", "--wafers", "1")
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
    own = [r for r in result["rows"] if r["name"] == "h100"]
    for row, batch in zip(own, on_gpus["batches"], strict=True):
        for key in ("users", "tokens_per_s_per_user", "tokens_per_s", "usd_per_million_tokens", "joules_per_token"):
            assert row[key] == pytest.approx(batch[key]), key
    on_wafers = json.loads(wse("estimate", *SMALL, "--json").out)
    alone = result["rows"][0]
    assert alone["users"] == 1
    assert alone["tokens_per_s_per_user"] == pytest.approx(on_wafers["decode"]["tokens_per_s_per_user"])
    streams = {row["users"]: row for row in on_wafers["schedule"]["rows"]}
    for row in result["rows"]:
        if row["kind"] == "wafer" and row["users"] in streams:
            at_most = streams[row["users"]]["tokens_per_s_with_prompts_at_most"]
            assert row["tokens_per_s"] == pytest.approx(at_most, rel=0.02)


def test_two_sentences_and_sourced_assumptions(beside: Any) -> None:
    result, _ = beside
    assert len(result["verdict"]) == 2
    assert {"wafer_usd_per_hour", "gpu_usd_per_hour.h100", "gpu_power_w.a100"} <= result["economics"].keys()
    assert all(assumed["source"] for assumed in result["economics"].values())
    assert {r["machine"] for r in result["rows"] if r.get("tier") == "plain"} == {r["machine"] for r in result["rows"]}


def test_files_have_the_rows_and_both_drawings(beside: Any) -> None:
    result, folder = beside
    rows = [*csv.DictReader((folder / "c.csv").read_text().splitlines())]
    assert [*rows[0]] == list(COLUMNS)
    assert [row["machine"] for row in rows] == [row["machine"] for row in result["rows"]]
    assert (folder / "c.png").read_bytes().startswith(b"\x89PNG")
    page = (folder / "c.html").read_text()
    assert result["verdict"][0] in page
    assert page.count('"across"') == 2


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
        (("--gpu", "h100", "--question", "one-wafer-or-many"), ("--question", "leave out --gpu")),
        (("--gpu", "h100", "--parallelism", "experts"), ("--parallelism experts", "no experts")),
    ],
)
def test_bad_input_is_one_line(wse: Wse, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    answer = wse("compare", *SMALL, *arguments)
    assert answer.code == 2
    assert answer.out == ""
    assert len(answer.err.strip().splitlines()) == 1
    assert all(word in answer.err for word in words), answer.err


def test_traces_take_no_gpus(wse: Wse) -> None:
    golden = Path(__file__).parents[2] / "traces" / "golden" / "v2" / "story-two-wafers.h5"
    answer = wse("compare", golden, golden, "--gpu", "h100")
    assert answer.code == 2
    assert "--gpu: is of models" in answer.err


def test_a_gpu_that_nobody_prices_is_refused(wse: Wse, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('base = "h100"\nhbm_bytes_per_s = 4e12\n')
    answer = wse("compare", *SMALL, "--gpu", own)
    assert answer.code == 2
    assert "gpu_usd_per_hour" in answer.err


def test_from_python() -> None:
    lengths = {"mesh": "24x24", "prompt_len": 64, "new_tokens": 64, "wafers": [1]}
    lengths |= {"mapping": ["bands"], "schedule": "released"}
    result = api.compare("story", gpu=["h100"], gpus=1, stack="trtllm", **lengths)
    assert isinstance(result, CurveResult)
    assert result.rows[-1].software == "trtllm"
    with pytest.raises(BadInput, match="gpu"):
        api.compare("story", stack="vllm", **lengths)
