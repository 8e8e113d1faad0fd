"""Tests of the report of ``wse compile``: SRAM use, buffers that share addresses, and contention on links."""

from itertools import combinations, pairwise
from typing import Any

import pytest
from placements import ONE_REGION

from tests.models.helpers import write_config, write_model
from wse.backends.fabric.model import Fabric
from wse.program.program import Program
from wse.studies.compile.choose import compile_program
from wse.studies.compile.compile import compile_result
from wse.studies.options.option import make_request
from wse.studies.run.prepare import prepare
from wse.studies.run.request import RunRequest

REQUESTS: list[dict[str, Any]] = [
    {"mesh": "3x5"},
    {"mesh": "6x6", "region": "3x3", "mapping": "pipeline", "context": 32, "schedule": "baseline"},
    {"mesh": "2x2", "wafers": 2, "dtype": "float16"},
    {"wafers": None, "schedule": "baseline"},
]


@pytest.fixture(scope="module", params=REQUESTS, ids=str)
def placed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Any, Program, dict[str, Any]]:
    """Return the prepared run of a request, its Program, and the report of the compilation."""
    model = write_model(tmp_path_factory.mktemp("model"))
    write_config(model, "eos_token_id")
    prepared = prepare(make_request(RunRequest, model=str(model), prompt_ids=(1, 2, 3), **(ONE_REGION | request.param)))
    program = compile_program(prepared)
    return prepared, program, compile_result(prepared, program).to_dict()


def test_sram_of_every_pe_is_counted_once(placed: tuple[Any, Program, dict[str, Any]]) -> None:
    _, program, report = placed
    histogram = report["sram"]["histogram"]
    assert sum(row["pes"] for row in histogram) == program.wafers * program.wafer_rows * program.wafer_cols
    inside = sum(s.rect.rows * s.rect.cols for s in program.stages)
    assert sum(row["pes"] for row in histogram[1:]) == inside
    for low, high in pairwise(histogram):
        assert low["to_bytes"] == high["from_bytes"]
    assert histogram[-1]["to_bytes"] == 49152
    stages = report["sram"]["stages"]
    assert [sum(uses.values()) for uses in stages] == [49152] * len(program.stages)
    assert min(uses["free"] for uses in stages) == report["sram"]["bytes_per_pe"]["free"]


def test_buffers_that_overlap_have_disjoint_lifetimes(placed: tuple[Any, Program, dict[str, Any]]) -> None:
    """The step that reads a buffer for the last time may write the other one at the same address."""
    buffers = placed[2]["sram"]["map"]["buffers"]
    assert [b["address"] for b in buffers] == sorted(b["address"] for b in buffers)
    for a, b in combinations(buffers, 2):
        overlap = a["address"] < b["address"] + b["bytes"] and b["address"] < a["address"] + a["bytes"]
        assert overlap == (b["name"] in a["shares_with"]) == (a["name"] in b["shares_with"])
        if overlap:
            assert a["live"]
            assert b["live"]
            for x in a["live"]:
                for y in b["live"]:
                    gap = max(x["first_step"], y["first_step"]) - min(x["last_step"], y["last_step"])
                    is_disjoint = gap > 0 or (gap == 0 and a["address"] == b["address"])
                    assert x["chunk"] != y["chunk"] or is_disjoint, (a, b)


def test_contention_equals_that_of_the_fabric_model(placed: tuple[Any, Program, dict[str, Any]]) -> None:
    prepared, program, report = placed
    rows, fabric = report["fabric"]["contention"], Fabric(program, prepared.wafer, prepared.software)
    costs = [fabric.prefill_cost(i) for i in range(len(program.prefill))]
    costs.append(fabric.decode_cost(*prepared.middle_context))
    assert sum(row["cycles"] for row in rows) == pytest.approx(sum(cost.contention.sum() for cost in costs))
    assert sum(row["steps"] for row in rows) == sum(int((cost.contention > 0).sum()) for cost in costs)
    assert max([row["messages_on_one_link"] for row in rows], default=1) == max(int(c.streams.max()) for c in costs)
    assert rows == sorted(rows, key=lambda row: -row["cycles"])
