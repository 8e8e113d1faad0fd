"""Tests of the load of experts: the report of a run, its trace, and the expert selections read from the trace."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from plain_router import MIXTURES, mixture_spec
from tiny_model import tensors

from tests.inspect.runs import inspect
from wse.compiler.options import Options
from wse.hardware.load import load_software, load_wafer
from wse.hardware.spec import mesh_on
from wse.studies.compile.choose import compile_program
from wse.studies.compile.compile import compile_result
from wse.studies.options.option import make_request
from wse.studies.options.routing import read_choices
from wse.studies.run.execute import RunFiles, execute
from wse.studies.run.prepare import PreparedRun
from wse.studies.run.request import RunRequest
from wse.studies.run.result import RunResult
from wse_mappings.cuts.expert_groups import EXPERT_PLACEMENTS
from wse_traces import open_trace

PROMPT, NEW = (5, 17, 40, 9, 33), 4
EXPERTS = MIXTURES["shared"]
EXPERT_LAYERS = [1, 2]


def prepared_for(experts: str) -> PreparedRun:
    """Return the prepared run of a model whose first layer has no experts and whose other two layers have some.

    Args:
        experts: Placement of the experts.
    """
    spec = mixture_spec(EXPERTS, layers=3)
    all_tensors, whole = tensors(spec), load_wafer("wse2")
    checkpoint: Any = SimpleNamespace(rows=all_tensors.__getitem__)
    loaded: Any = SimpleNamespace(spec=spec, checkpoint=checkpoint, tokenizer=None, path=Path("tiny"), note=None)
    options = Options(
        mapping="region",
        wafers=1,
        dtype="float32",
        accumulate="float32",
        context=len(PROMPT) + NEW,
        prompt_tokens=(len(PROMPT),),
        experts=experts,
    )
    return PreparedRun(
        request=make_request(RunRequest, new_tokens=NEW),
        loaded=loaded,
        whole=whole,
        wafer=mesh_on(whole, 3, 4),
        software=load_software("tuned", "wse2"),
        options=options,
        prompts=(PROMPT,),
        new_tokens=NEW,
        end_ids=(),
    )


@pytest.fixture(scope="module", params=EXPERT_PLACEMENTS)
def run_and_trace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[RunResult, Path]:
    """Run the model with experts; return the result and the path of the trace."""
    prepared = prepared_for(request.param)
    path = tmp_path_factory.mktemp("experts") / "run.h5"
    return execute(prepared, compile_program(prepared), RunFiles(trace=path)), path


def test_load_counts_the_active_experts_of_every_token(run_and_trace: tuple[RunResult, Path]) -> None:
    report = run_and_trace[0].to_dict()
    tokens = report["tokens"]
    load = report["experts"]["load"]
    assert [layer_load["layer"] for layer_load in load] == EXPERT_LAYERS
    for layer_load in load:
        assert len(layer_load["prompt"]) == len(layer_load["generated"]) == EXPERTS.count
        assert sum(layer_load["prompt"]) == len(PROMPT) * EXPERTS.active
        assert sum(layer_load["generated"]) == (len(tokens) - 1) * EXPERTS.active


def test_trace_contains_the_reported_load(run_and_trace: tuple[RunResult, Path]) -> None:
    path, load = run_and_trace[1], run_and_trace[0].to_dict()["experts"]["load"]
    assert inspect(path)["experts"]["load"] == load
    with open_trace(path) as trace:
        totals = trace.column("experts/tokens").reshape(len(EXPERT_LAYERS), EXPERTS.count)
        rows = trace.table("routed")
        last = rows["pass"] == trace.rows("pass") - 1
        assert rows["tokens"][last].sum() == EXPERTS.active * len(EXPERT_LAYERS)
    expected = [np.add(layer_load["prompt"], layer_load["generated"]) for layer_load in load]
    assert np.array_equal(totals, expected)


@pytest.mark.parametrize(("experts", "experts_per_column"), [("distributed", EXPERTS.count), ("dedicated", 2)])
def test_compile_report_has_the_number_of_experts_per_column(experts: str, experts_per_column: int) -> None:
    prepared = prepared_for(experts)
    report = compile_result(prepared, compile_program(prepared)).to_dict()
    assert report["system"]["experts"] == {
        "count": EXPERTS.count,
        "active": EXPERTS.active,
        "on_a_column": experts_per_column,
    }
    assert report["decode"]["routing"] == "even"


def test_selections_of_decode_passes_are_read_from_the_trace(run_and_trace: tuple[RunResult, Path]) -> None:
    load, spec = run_and_trace[0].to_dict()["experts"]["load"], prepared_for("distributed").spec
    routing = read_choices("--routing", str(run_and_trace[1]), spec)
    assert routing.layers == tuple(EXPERT_LAYERS)
    counts = [np.bincount(choices.ravel(), minlength=EXPERTS.count).tolist() for choices in routing.choices]
    assert counts == [list(each["generated"]) for each in load]


def test_selections_of_all_tokens_are_read_from_recorded_router_outputs(tmp_path: Path) -> None:
    prepared, path = prepared_for("dedicated"), tmp_path / "r.h5"
    program = compile_program(prepared)
    routers = [op for op, kind in enumerate(program.op_kinds) if kind == "router"]
    load = execute(prepared, program, RunFiles(trace=path, record=routers)).to_dict()["experts"]["load"]
    routing = read_choices("--place-experts", str(path), prepared.spec)
    counts = [np.bincount(choices.ravel(), minlength=EXPERTS.count) for choices in routing.choices]
    assert np.array_equal(counts, [np.add(each["prompt"], each["generated"]) for each in load])
    placed = replace(prepared, options=replace(prepared.options, placed_selections=routing))
    program = compile_program(placed)
    assert not np.array_equal(program.expert_order[1], np.arange(EXPERTS.count))
    assert execute(placed, program, RunFiles(trace=path, record=routers)).to_dict()["experts"]["load"] == load
    assert np.array_equal(read_choices("--routing", str(path), prepared.spec).choices, routing.choices)
