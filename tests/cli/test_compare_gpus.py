"""``wse compare MODEL --gpu``: wafers and GPUs in one table agree with the estimate of each."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

import pytest

from tests.cli.conftest import Wse
from wse.cli import main
from wse.errors import DoesNotFit
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


def test_number_of_gpus_without_room_for_a_user_is_passed_over() -> None:
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
