"""Tests of estimates against executed runs of the same model, and of the verification pass in an estimate."""

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
from wse.backends.fabric.expert_columns import ExpertTokens
from wse.backends.fabric.model import Fabric
from wse.backends.fabric.run_totals import RunTotals
from wse.compiler.options import BASELINE, OPTIMIZED, Options
from wse.hardware.load import load_software, load_wafer
from wse.hardware.spec import mesh_on
from wse.serving.economics import load_economics
from wse.serving.network import load_network
from wse.studies.compile.choose import compile_fastest, compile_program
from wse.studies.estimate.prepare import PreparedEstimate, prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.study import estimate, estimate_of
from wse.studies.options.option import make_request, replace_options
from wse.studies.results.phases import decode_result, fabric_result
from wse.studies.run.execute import RunFiles, execute
from wse.studies.run.prepare import PreparedRun, prepare
from wse.studies.run.request import RunRequest
from wse_mappings.cuts.expert_groups import EXPERT_PLACEMENTS
from wse_traces.reader.read import Trace, open_trace

COMPARED_SECTIONS = ("batch", "model", "system", "sram", "prefill", "decode", "fabric", "crossing")


def check_equal(
    executed: dict[str, Any], estimated: dict[str, Any], sections: tuple[str, ...] = COMPARED_SECTIONS
) -> None:
    """Check that the figures in the report of a run equal those of the estimate."""
    for section in sections:
        expected, found = executed[section], estimated[section]
        if isinstance(expected, dict):
            found = {key: found[key] for key in expected}
        assert found == expected, section
    assert executed["wafer"].items() <= estimated["wafer"].items()


@pytest.mark.parametrize(
    ("mapping", "wafers", "batch", "schedule"),
    [
        ("region", 1, 1, OPTIMIZED),
        ("pipeline", 2, 2, BASELINE),
        ("tensor", 2, 1, OPTIMIZED),
    ],
)
def test_estimate_equals_the_executed_run(tmp_path: Path, mapping: str, wafers: int, batch: int, schedule: str) -> None:
    write_model(tmp_path)
    write_config(tmp_path, "eos_token_id")
    prompt, new = (3, 5, 7, 9, 11), 20
    placed = {"mesh": "6x5", "mapping": mapping, "wafers": wafers, "context": 27, "schedule": schedule}
    prompts = {"prompt_ids": prompt} if batch == 1 else {"prompt_ids": (prompt, prompt[::-1])}
    prepared = prepare(make_request(RunRequest, model=str(tmp_path), new_tokens=new, **placed, **prompts))
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
    check_equal(executed, estimated)
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


def routing_in(trace: Trace) -> list[ExpertTokens]:
    """Return the number of tokens that each pass of a run sent to each expert of each layer, from its trace.

    Prefill chunks come before decode passes.
    """
    rows = trace.table("routed")
    passes: list[dict[int, Any]] = [defaultdict(lambda: np.zeros(5, np.int64)) for _ in trace.column("passes/schedule")]
    for index, layer, expert, tokens in zip(*(rows[n] for n in ("pass", "layer", "expert", "tokens")), strict=True):
        passes[index][int(layer)][expert] += tokens
    return list(passes)


@pytest.mark.parametrize(
    ("mapping", "experts"), [*(("region", experts) for experts in EXPERT_PLACEMENTS), ("expert", "dedicated")]
)
def test_fabric_model_of_a_mixture_equals_the_executed_run_with_its_routing(
    mapping: str, experts: str, tmp_path: Path
) -> None:
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
    executed = execute(prepared, program, RunFiles(trace=tmp_path / "run.h5")).to_dict()
    with open_trace(tmp_path / "run.h5") as trace:
        routing = routing_in(trace)
    totals = RunTotals(Fabric(program, prepared.wafer, prepared.software, prepared.meshes))
    chunks = len(program.prefill)
    for index, expert_tokens in enumerate(routing[:chunks]):
        totals.prefill_chunk(index, expert_tokens)
    for expert_tokens in routing[chunks:]:
        totals.decode_token(expert_tokens=expert_tokens)
    decode = decode_result(totals.decode, spec.layer_count, prepared.wafer.clock_hz, program.batch)
    fabric = fabric_result(program, totals.decode).to_dict()
    assert totals.prefill.cycles == executed["prefill"]["cycles"]
    assert (decode.to_dict(), fabric) == (executed["decode"], executed["fabric"])
    request = make_request(EstimateRequest, model="tiny", prompt_len=len(prompt), new_tokens=new)
    prepared_estimate = PreparedEstimate(
        request=request, economics=load_economics(whole), network=load_network(), **common
    )
    evenly = estimate_of(prepared_estimate, program).to_dict()
    check_equal(executed, evenly, ("batch", "model", "system", "sram"))
    assert evenly["routing"] == "even"
    # the loads of the columns depend on the routing only if experts have dedicated columns
    assert (evenly["fabric"] != fabric) == (experts == "dedicated")


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


def test_verification_pass_is_timed_halfway_through_the_answer() -> None:
    request = replace_options(REQUEST, schedule=BASELINE)
    result, prepared = estimate(request), prepare_estimate(request)
    fabric = Fabric(compile_fastest(prepared).program, prepared.wafer, SOFTWARE)
    verify = result.verify
    assert (verify.tokens, verify.after_tokens) == (4, 24)
    assert verify.cycles == pytest.approx(fabric.verify_cost(24).cycles)
    assert verify.cycles == pytest.approx(sum(verify.cycles_by.values()))
    assert verify.s == pytest.approx(verify.cycles / result.wafer.clock_hz)
    assert verify.ratio_to_decode == pytest.approx(verify.cycles / fabric.decode_cost(24).cycles)
    assert verify.cycles_by["host"] < 0.01 * verify.cycles  # the next pass does not wait for the ids on the host
    assert result.grades["verify.s"].grade == result.grades["decode.tokens_per_s"].grade


def test_verification_pass_ends_within_the_context() -> None:
    verify = estimate(replace_options(REQUEST, verify_tokens=16, schedule=BASELINE)).verify
    assert verify.after_tokens == 16


def test_verification_pass_uses_only_rewrites_that_save_cycles() -> None:
    """A pass over four tokens has four times as many exponentials as decoding, and no cache shift to overlap."""
    result = estimate(REQUEST)
    used = {one.name for one in result.verify.rewrites if one.used}
    assert "early-shift" not in used
    assert all(one.saved_cycles is not None and one.saved_cycles > 0 for one in result.verify.rewrites if one.used)
    baseline = estimate(replace_options(REQUEST, schedule=BASELINE)).verify
    assert baseline.rewrites is None
    assert result.verify.cycles < baseline.cycles
