"""Tests of the traces that estimates and runs write: their tables agree, and word and byte counts add up."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from plain_router import MIXTURES, mixture_spec
from tiers import slow_but

from tests.inspect.test_expert_load import prepared_for
from tests.models.helpers import write_config, write_model
from tests.studies.estimate.test_estimate import mixture_options
from wse.compiler.pipeline import compile_choice
from wse.hardware.load import load_software, load_wafer
from wse.hardware.spec import mesh_on
from wse.serving.economics import load_economics
from wse.serving.network import load_network
from wse.studies.compile.choose import compile_fastest, compile_program
from wse.studies.estimate.prepare import PreparedEstimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.study import estimate, result_of, time_run
from wse.studies.options.option import make_request, replace_options
from wse.studies.run.execute import RunFiles, execute
from wse.studies.run.prepare import prepare
from wse.studies.run.request import RunRequest
from wse.tracing.query.request import inspect_trace
from wse.tracing.record.estimate import write_estimate
from wse.tracing.requests import InspectRequest
from wse_mappings.cuts.expert_groups import DEDICATED
from wse_traces import Trace, open_trace, problems, schema
from wse_traces.reader.planes import layer_link_words
from wse_traces.schema import PHASES

PROMPT, NEW = 5, 26
EQUAL_TABLES = ("op", "edge", "stage", "buffer", "route", "name", "links/words", "pe/busy_cycles", "sram/bytes_per_pe")
REQUESTS: dict[str, dict[str, Any]] = {
    "two wafers, two users": {"mesh": "6x5", "wafers": 2, "batch": 2},
    "regions": {"mesh": "12x10", "mapping": "pipeline", "schedule": "baseline", "region": "6x5", "batch": 2},
    "a region over wafers": {"mesh": "6x5", "mapping": "tensor", "schedule": "baseline", "wafers": 2},
    "dead PEs": {"mesh": "8x8", "schedule": "baseline", "defects": "0.03", "defects_seed": 3},
}


@pytest.fixture(scope="module", params=slow_but(REQUESTS, "two wafers, two users"))
def run_and_estimate(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the paths of the traces of a run and of an estimate with the same options."""
    folder = tmp_path_factory.mktemp("traces")
    write_model(folder)
    write_config(folder, "eos_token_id")
    placement = {"mapping": "region"} | REQUESTS[request.param]
    batch = placement.pop("batch", 1)
    ids = tuple(range(3, 3 + PROMPT))
    prompt: dict[str, Any] = {"prompt_ids": ids} if batch == 1 else {"prompt_ids": (ids,) * batch}
    prepared = prepare(
        make_request(RunRequest, model=str(folder), new_tokens=NEW, context=PROMPT + NEW, **placement, **prompt)
    )
    execute(prepared, compile_program(prepared), RunFiles(trace=folder / "run.h5"))
    sizes = {"prompt_len": PROMPT, "new_tokens": NEW, "batch": batch}
    estimate_request = make_request(
        EstimateRequest, model=str(folder / "config.json"), context=PROMPT + NEW, **sizes, **placement
    )
    estimate(replace_options(estimate_request, trace=folder / "estimate.h5"))
    return folder / "run.h5", folder / "estimate.h5"


def totals_by_op(trace: Trace) -> dict[str, Any]:
    """Return for each op the sums over the run: cycles, words, hops, and cycles by cause (index of the cause)."""
    steps = trace.steps()
    ops = trace.rows("op")
    found = {name: np.bincount(steps["op"], steps[name], ops) for name in ("cycles", "words", "hops")}
    return found | {str(i): np.bincount(steps["op"], by, ops) for i, by in enumerate(steps["cycles_by"].T)}


def test_estimate_and_run_have_equal_placement_and_totals(run_and_estimate: tuple[Path, Path]) -> None:
    assert [problems(path) for path in run_and_estimate] == [[], []]
    with open_trace(run_and_estimate[0]) as executed, open_trace(run_and_estimate[1]) as estimated:
        assert estimated.complete
        assert estimated.header.program_digest == executed.header.program_digest
        for table in EQUAL_TABLES:
            a, b = executed.table(table), estimated.table(table)
            assert all(np.array_equal(a[name], b[name]) for name in a), table
        a, b = totals_by_op(executed), totals_by_op(estimated)
        assert all(np.array_equal(a[name], b[name]) for name in a)
        assert (a["hops"] > 0).any()


def test_estimate_and_run_have_equal_passes_and_tokens(run_and_estimate: tuple[Path, Path]) -> None:
    with open_trace(run_and_estimate[0]) as executed, open_trace(run_and_estimate[1]) as estimated:
        for trace in (executed, estimated):
            ends = (
                trace.column("passes/start_cycle") + trace.column("schedules/cycles")[trace.column("passes/schedule")]
            )
            assert np.abs(ends[:-1] - trace.column("passes/start_cycle")[1:]).max() <= 1
        a, b = (trace.column("schedules/phase")[trace.column("passes/schedule")] for trace in (executed, estimated))
        assert np.array_equal(a, b)
        assert np.abs(executed.column("passes/start_cycle") - estimated.column("passes/start_cycle")).max() <= 1
        a, b = executed.table("crossing"), estimated.table("crossing")
        assert all(np.array_equal(a[name], b[name]) for name in a)
        a, b = (tokens_by_sequence(trace) for trace in (executed, estimated))
        for name in ("sequence", "position", "is_prompt", "pass"):
            assert np.array_equal(a[name], b[name]), name
        assert np.abs(a["cycles"] - b["cycles"]).max() <= 1
        assert set(b["id"]) == {-1}
        assert not any(estimated.token_bytes())


def tokens_by_sequence(trace: Trace) -> dict[str, Any]:
    """Return the token table, sorted by sequence and position."""
    tokens = trace.table("token")
    order = np.lexsort((tokens["position"], tokens["sequence"]))
    return {name: column[order] for name, column in tokens.items()}


def test_estimate_trace_of_a_mixture_counts_all_token_expert_pairs(tmp_path: Path) -> None:
    whole, spec = load_wafer("wse2"), mixture_spec(MIXTURES["shared"], layers=3)
    loaded: Any = SimpleNamespace(spec=spec, checkpoint=None, tokenizer=None, path=tmp_path, note=None)
    prepared = PreparedEstimate(
        request=make_request(EstimateRequest, prompt_len=PROMPT, new_tokens=6),
        loaded=loaded,
        whole=whole,
        wafer=mesh_on(whole, 3, 4),
        software=load_software("tuned", "wse2"),
        options=mixture_options("expert", "dedicated", PROMPT, 6),
        new_tokens=6,
        economics=load_economics(whole),
        network=load_network(),
    )
    program = compile_program(prepared)
    run_totals = time_run(prepared, program)
    write_estimate(
        tmp_path / "t.h5", prepared, program, run_totals, result_of(prepared, program, run_totals).result.to_dict()
    )
    # This checks also that the words of layers and experts add up to the words on links.
    assert problems(tmp_path / "t.h5") == []
    experts = spec.experts
    with open_trace(tmp_path / "t.h5") as trace:
        load = trace.table("expert_load")
        layers = {int(layer): load["tokens"][load["layer"] == layer] for layer in load["layer"]}
        assert len(layers) == sum(layer.experts for layer in spec.layers)
        for tokens in layers.values():
            assert tokens.sum() == (PROMPT + 5) * experts.active
        assert trace.rows("routed") == 0
        assert trace.column("links/words").sum() == trace.steps()["hops"].sum()


def test_free_bytes_are_negative_if_the_model_does_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    options: dict[str, Any] = {"mesh": "4x4", "wafers": 1, "mapping": "region", "schedule": "baseline"}
    request = make_request(EstimateRequest, model="story", prompt_len=4, new_tokens=4, capacity="report", **options)
    report = estimate(replace_options(request, trace=path)).to_dict()
    assert problems(path) == []
    with open_trace(path) as trace:
        free = trace.column("sram/bytes_per_pe")[:, schema.USES.index("free")]
        assert free.min() == free.max() == report["sram"]["bytes_per_pe"]["free"] < 0


def test_words_and_bytes_of_a_run_add_up(tmp_path: Path) -> None:
    """The words of the layers add up to those on links. The crossings have the reported bytes per token."""
    expert_run = prepared_for(DEDICATED)
    options = replace(expert_run.options, mapping="expert", wafers=3)
    prepared = replace(expert_run, options=options, wafer=mesh_on(expert_run.whole, 6, 6))
    path = tmp_path / "run.h5"
    report = execute(prepared, compile_program(prepared), RunFiles(trace=path)).to_dict()
    assert problems(path) == []
    with open_trace(path) as trace:
        for wafer in range(3):
            words = trace.column("links/words", wafer, wafer + 1)[0]
            assert words.any()
            assert np.array_equal(layer_link_words(trace, wafer=wafer), words)
        phases = trace.column("schedules/phase")[trace.column("passes/schedule")]
        crossings = trace.table("crossing")
        decoded = phases[crossings["pass"]] == phases.max()
        between = decoded & (crossings["src_wafer"] >= 0) & (crossings["dst_wafer"] >= 0)
        tokens = (phases == phases.max()).sum()
        reported_bytes = report["crossing"]["bytes_per_token"] * tokens
        assert crossings["bytes"][between].sum() == pytest.approx(reported_bytes)
    assert inspect_trace(InspectRequest(trace=path)).to_dict()["system"]["mapping"] == "expert"


@pytest.mark.parametrize(("columns", "expected"), [(3, [2, 4]), pytest.param(0, [0, 6], marks=pytest.mark.slow)])
def test_trace_stores_the_columns_of_attention(columns: int, expected: list[int], tmp_path: Path) -> None:
    model, path = str(write_model(tmp_path)), tmp_path / "run.h5"
    options: dict[str, Any] = {"wafers": 2, "mesh": "3x7", "mapping": "region", "schedule": "baseline"}
    prepared = prepare(make_request(RunRequest, model=model, prompt_ids=(1, 2, 3), new_tokens=2, **options))
    found = compile_fastest(prepared)
    choice = replace(found.choice, attention_cols=columns)
    program = compile_choice(prepared.spec, prepared.wafer, prepared.software, found.options, choice)
    execute(prepared, program, RunFiles(trace=path))
    assert problems(path) == []
    stages = inspect_trace(InspectRequest(trace=path)).to_dict()["system"]["stages"]
    assert [list(stage["attention"]) for stage in stages] == [expected] * 2


VERIFY = PHASES.index("verify")
TOKENS = 3


@pytest.mark.slow
def test_verification_pass_is_the_last_pass_of_an_estimate(tmp_path: Path) -> None:
    request = make_request(
        EstimateRequest,
        model="story",
        mesh="24x24",
        mapping="region",
        schedule="baseline",
        prompt_len=16,
        new_tokens=8,
        trace=tmp_path / "e.h5",
    )
    result = estimate(replace_options(request, verify_tokens=TOKENS))
    assert problems(tmp_path / "e.h5") == []
    with open_trace(tmp_path / "e.h5") as trace:
        schedules = trace.column("passes/schedule")
        phases = trace.column("schedules/phase")[schedules].tolist()
        assert (phases.count(VERIFY), phases[-1]) == (1, VERIFY)
        assert trace.column("schedules/cycles")[schedules[-1]] == int(result.verify.cycles)
        assert len(phases) - 1 not in trace.column("tokens/pass")
