"""Estimates against executed runs of the same model, and verification passes."""

from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from plain_router import MIXTURES, mixture_spec
from session import SOFTWARE, region_options
from tiny_model import tensors

from tests.models.helpers import write_config, write_model
from wse.backends.fabric.expert_columns import Pairs
from wse.backends.fabric.model import Fabric
from wse.compiler.options import BASELINE, OPTIMIZED, Options
from wse.hardware.load import load_software, load_wafer
from wse.hardware.mesh import mesh_on
from wse.serving.economics import load_economics
from wse.serving.network import load_network
from wse.studies.compile.choose import compile_fastest, compile_program
from wse.studies.estimate.prepare import PreparedEstimate, prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.study import Routing, estimate, estimate_of
from wse.studies.options.option import make_request, replace_options
from wse.studies.run.execute import execute
from wse.studies.run.prepare import PreparedRun, prepare
from wse.studies.run.request import RunRequest
from wse_mappings.cuts.expert_groups import EXPERT_PLACEMENTS
from wse_traces.reader.read import Trace, open_trace

SAME = ("batch", "model", "system", "sram", "prefill", "decode", "fabric", "crossing")


def same(executed: dict[str, Any], estimated: dict[str, Any]) -> None:
    """Every number that a run reports is that of the estimate."""
    for section in SAME:
        want, got = executed[section], estimated[section]
        if isinstance(want, dict):
            got = {key: got[key] for key in want}
        assert got == want, section
    assert executed["wafer"].items() <= estimated["wafer"].items()


@pytest.mark.parametrize(
    ("mapping", "wafers", "batch", "schedule"),
    [
        ("region", 1, 1, OPTIMIZED),
        ("region", 2, 2, BASELINE),
        ("pipeline", 1, 2, BASELINE),
        ("pipeline", 2, 1, OPTIMIZED),
        ("tensor", 2, 2, BASELINE),
    ],
)
def test_a_model_estimated_and_executed(tmp_path: Path, mapping: str, wafers: int, batch: int, schedule: str) -> None:
    write_model(tmp_path)
    write_config(tmp_path, "eos_token_id")
    prompt, new = (3, 5, 7, 9, 11), 20
    placed = {"mesh": "6x5", "mapping": mapping, "wafers": wafers, "context": 27, "schedule": schedule}
    asked = {"prompt_ids": prompt} if batch == 1 else {"prompt_ids": (prompt, prompt[::-1])}
    prepared = prepare(make_request(RunRequest, model=str(tmp_path), new_tokens=new, **placed, **asked))
    executed = execute(prepared, compile_program(prepared)).to_dict()
    assert [len(user["tokens"]) for user in executed["users"]] == [new] * batch
    request = make_request(
        EstimateRequest,
        model=str(tmp_path / "config.json"),
        prompt_len=len(prompt),
        new_tokens=new,
        batch=batch,
        **placed,
    )
    estimated = estimate(request).to_dict()
    same(executed, estimated)
    assert (executed["crossing"]["bytes_per_token"] > 0) == (wafers == 2)
    assert estimated["inputs"]["prompt_len"] == len(prompt)


def mixture_options(mapping: str, experts: str, prompt: int, new: int) -> Options:
    return region_options(
        mapping=mapping,
        wafers=2 if mapping == "expert" else 1,
        context=prompt + new,
        prompt_tokens=(prompt,),
        experts=experts,
    )


def routing_in(trace: Trace) -> Routing:
    """Which experts each pass of a run chose, as its trace has it."""
    rows, phases = trace.table("routed"), trace.column("schedules/phase")[trace.column("passes/schedule")]
    passes: list[dict[int, Any]] = [defaultdict(lambda: np.zeros(5, np.int64)) for _ in phases]
    for at, layer, expert, tokens in zip(*(rows[n] for n in ("pass", "layer", "expert", "tokens")), strict=True):
        passes[at][int(layer)][expert] += tokens
    parts: list[list[Pairs]] = [[p for p, phase in zip(passes, phases, strict=True) if phase == i] for i in (0, 1)]
    return Routing(prefill=parts[0], decode=parts[1])


@pytest.mark.parametrize(
    ("mapping", "experts"), [*(("region", each) for each in EXPERT_PLACEMENTS), ("expert", "dedicated")]
)
def test_a_mixture_with_the_routing_of_the_executed_run(mapping: str, experts: str, tmp_path: Path) -> None:
    spec = mixture_spec(MIXTURES["shared"], layers=3)
    prompt, new, whole = (5, 17, 40, 9, 33), 6, load_wafer("wse2")
    loaded: Any = SimpleNamespace(
        spec=spec, checkpoint=SimpleNamespace(rows=tensors(spec).__getitem__), tokenizer=None, path=tmp_path, note=None
    )
    common: dict[str, Any] = {
        "loaded": loaded,
        "whole": whole,
        "wafer": mesh_on(whole, 3, 4),
        "software": load_software("tuned", "wse2"),
        "options": mixture_options(mapping, experts, len(prompt), new),
        "new_tokens": new,
    }
    prepared = PreparedRun(request=make_request(RunRequest, new_tokens=new), prompts=(prompt,), end_ids=(), **common)
    program = compile_program(prepared)
    executed = execute(prepared, program, trace=tmp_path / "run.h5").to_dict()
    with open_trace(tmp_path / "run.h5") as trace:
        routing = routing_in(trace)
    wanted = make_request(EstimateRequest, model="tiny", prompt_len=len(prompt), new_tokens=new)
    prepared_estimate = PreparedEstimate(
        request=wanted, economics=load_economics(whole), network=load_network(), **common
    )
    estimated = estimate_of(prepared_estimate, program, routing).to_dict()
    same(executed, estimated)
    assert estimated["routing"] == "given"
    evenly = estimate_of(prepared_estimate, program).to_dict()
    assert evenly["routing"] == "even"
    assert (evenly["fabric"] != estimated["fabric"]) == (
        experts == "dedicated"
    )  # spread over all columns all are alike


REQUEST = make_request(
    EstimateRequest,
    model="story",
    wafer="wse2",
    mesh="24x24",
    mapping="region",
    prompt_len=16,
    new_tokens=16,
    software="tuned",
    verify_tokens=4,
)


def test_a_pass_is_that_of_the_program_after_half_of_the_answer() -> None:
    request = replace_options(REQUEST, schedule=BASELINE)
    result, prepared = estimate(request), prepare_estimate(request)
    fabric = Fabric(compile_fastest(prepared).program, prepared.wafer, SOFTWARE)
    verify = result.verify
    assert (verify.tokens, verify.after_tokens) == (4, 24)
    assert verify.cycles == pytest.approx(fabric.verify_cost(24).cycles)
    assert verify.cycles == pytest.approx(sum(verify.cycles_by.values()))
    assert verify.s == pytest.approx(verify.cycles / result.wafer.clock_hz)
    assert verify.ratio_to_decode == pytest.approx(verify.cycles / fabric.decode_cost(24).cycles)
    assert verify.cycles_by["host"] < 0.01 * verify.cycles  # nobody waits for the ids
    assert result.grades["verify.s"].grade == result.grades["decode.tokens_per_s"].grade


def test_a_pass_in_the_last_tokens_of_the_context_ends_with_it() -> None:
    verify = estimate(replace_options(REQUEST, verify_tokens=16, schedule=BASELINE)).verify
    assert verify.after_tokens == 16


def test_rewrites_are_those_that_pay_in_the_pass() -> None:
    """With four tokens there are four times as many exponentials; there is no shift of the cache to hide."""
    result = estimate(REQUEST)
    used = {one.name for one in result.verify.rewrites if one.used}
    assert "early-shift" not in used
    assert all(one.saved_cycles is not None and one.saved_cycles > 0 for one in result.verify.rewrites if one.used)
    baseline = estimate(replace_options(REQUEST, schedule=BASELINE)).verify
    assert baseline.rewrites is None
    assert result.verify.cycles < baseline.cycles
