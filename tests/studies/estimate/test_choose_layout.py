"""Tests of the layouts that estimates choose: throughput, room for users, layers on two wafers, SRAM for speed."""

import io
import math
import re
import statistics
from dataclasses import replace
from typing import Any

import pytest

import wse
from tests.models.helpers import write_config
from wse.backends.fabric.model import Fabric
from wse.compiler.options import WIDE_UNPACKING
from wse.compiler.pipeline import compile_choice
from wse.compiler.search.search import Candidate, Compilation
from wse.compiler.search.trees import with_refitted_trees
from wse.errors import BadInput
from wse.reports.terminal_table import print_result
from wse.studies.compile.choose import compile_fastest, compile_program
from wse.studies.compile.layout_changes import ALL_COLUMNS, FEW_CODES
from wse.studies.compile.request_time import timing_of
from wse.studies.estimate import study as cut_estimate
from wse.studies.estimate.answer import wafer_answer_tables
from wse.studies.estimate.layouts.choose_layout import ChosenLayout, choose_layout, choose_layout_by_capacity
from wse.studies.estimate.layouts.layout_versions import variants_of
from wse.studies.estimate.layouts.result import layout_text
from wse.studies.estimate.layouts.room import CHOSEN, cache_room
from wse.studies.estimate.layouts.searches import max_users_with_room, search_for_room, trial_with_room
from wse.studies.estimate.prepare import PreparedEstimate, prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.study import estimate
from wse.studies.options.option import make_request, replace_options
from wse.studies.results.sram import users_at
from wse_mappings.strategies.catalogue import bundled_strategies

LENGTHS: dict[str, Any] = {"prompt_len": 16, "new_tokens": 48}
MESH_PROMPTS: dict[str, Any] = {
    "mesh": "11x11",
    "mapping": "region",
    "schedule": "baseline",
    "prompt_len": 500,
    "new_tokens": 10,
}


def test_batch_gets_the_layout_of_the_same_number_of_users() -> None:
    options: dict[str, Any] = {
        "mesh": "16x16",
        "wafers": 1,
        "mapping": "region",
        "batch": 4,
        **LENGTHS,
        "schedule": "baseline",
    }
    batch, users = (wse.estimate("story", users=users, **options).serving for users in (None, 4))
    assert batch.users == 4
    assert batch.tokens_per_s == users.tokens_per_s


def test_chunks_of_mesh_products_divide_among_the_rows() -> None:
    """Chunks shorter than the prompt must divide evenly among the 11 rows. Halves of 500 tokens would not."""
    program = compile_program(prepare_estimate(make_request(EstimateRequest, model="story", **MESH_PROMPTS)))
    chosen = choose_layout(
        prepare_estimate(make_request(EstimateRequest, model="story", objective="throughput", **MESH_PROMPTS))
    )
    chunk = chosen.compilation.choice.prefill_chunk
    assert program.stages[0].rect.rows == 11
    assert chunk == 500 or chunk % 11 == 0


FEW_USERS: dict[str, Any] = {
    "mesh": "11x11",
    "mapping": "region",
    "schedule": "baseline",
    "batch": 1,
    "prompt_len": 200,
    "new_tokens": 56,
}
"""Options for which the fastest layout has room for the KV caches of 4 users, and another layout for 6."""


def test_max_users_of_any_layout_are_reported_and_enforced() -> None:
    result = wse.estimate("story", most_users=True, **FEW_USERS)
    serving, layout = result.serving, result.roomiest_layout
    assert (serving.users, serving.max_users, serving.max_users_of_any_layout) == (1, 5, 6)
    assert (layout.mapping, layout.fits, layout.chosen) == ("region", True, False)
    assert str(layout.regions_per_band) in layout_text(layout)
    with pytest.raises(BadInput, match=r"--users 7: .* 6 sequences .* give --users 6,"):
        wse.estimate("story", users=7, wafers=1, **FEW_USERS)


def test_estimate_says_how_many_users_have_no_room_in_the_chosen_layout() -> None:
    sentences = {}
    for users in (4, 5):
        summary, _ = wafer_answer_tables(wse.estimate("story", users=users, **FEW_USERS), detail=False)
        sentences[users] = [row["text"] for row in summary.rows if "fit at once" in row["text"]]
    assert sentences[4] == []
    assert [re.findall(r"\d+", text) for text in sentences[5]] == [["4", "5"]]


def test_users_have_room_only_if_a_compiled_layout_has_it_with_a_context_longer_than_the_request() -> None:
    """Each user then has whole rows of cache entries, which are longer than the tokens of the request."""
    request = {"model": "story", "wafer": "wse2", "mesh": "11x11", "mapping": "region", "schedule": "baseline"}
    lengths = {"prompt_len": 12, "new_tokens": 4, "context": 1024}
    prepared = prepare_estimate(make_request(EstimateRequest, **request, **lengths))
    room = max_users_with_room(prepared, 1, 1000)
    assert search_for_room(prepared, room)
    assert not search_for_room(prepared, room + 1)
    trial = trial_with_room(prepared, room)
    assert trial is not None
    assert trial.fits
    assert trial_with_room(prepared, room + 1) is None


@pytest.mark.slow
def test_throughput_is_at_least_that_of_the_best_fixed_batch() -> None:
    """Passes over more users need other layouts and longer prompt chunks than passes over one user."""
    options: dict[str, Any] = {"mesh": "16x16", "wafers": 2, "mapping": "pipeline", "schedule": "baseline"}
    options |= {"objective": "throughput", "users": 12, "prompt_len": 100, "new_tokens": 30}
    chosen, one_user, eight_users = (wse.estimate("story", batch=batch, **options).serving for batch in (None, 1, 8))
    assert chosen.users_per_pass > 1
    assert chosen.tokens_per_s >= max(one_user.tokens_per_s, eight_users.tokens_per_s)


def test_highest_throughput_is_not_surpassed_with_more_users() -> None:
    """The fastest layout has room for 4 users. Another one has room for 5 and the highest throughput; a sixth waits."""
    best, *others = (
        wse.estimate("story", wafers=1, **FEW_USERS | {"batch": None} | changes).serving
        for changes in ({"objective": "throughput"}, {"users": 5}, {"users": 6})
    )
    assert best.users == 5
    assert best.tokens_per_s == others[0].tokens_per_s == others[1].tokens_per_s


def test_replicas_chosen_freely_cost_no_more_than_one_replica() -> None:
    options = FEW_USERS | {"batch": None, "users": 5, "objective": "cost"}
    one, auto = (wse.estimate("story", replicas=replicas, **options).serving for replicas in (1, "auto"))
    assert auto.replicas == 1
    assert auto.usd_per_million_tokens == one.usd_per_million_tokens


def test_number_of_wafers_is_the_minimum_with_room_for_all_users() -> None:
    """One wafer has room for 6 users, so 7 users need two wafers, or two replicas of one wafer."""
    wafers = {
        (users, replicas): choose_layout(
            prepare_estimate(make_request(EstimateRequest, model="story", users=users, replicas=replicas, **FEW_USERS))
        ).compilation.program.wafers
        for users, replicas in ((7, 1), (7, 2))
    }
    assert wafers == {(7, 1): 2, (7, 2): 1}


def test_model_fits_if_only_a_layout_with_a_higher_byte_forecast_has_room() -> None:
    """Several layouts of five bands have the lowest forecasts and do not fit; a layout of one band fits."""
    prepared = prepare_estimate(make_request(EstimateRequest, model="qwen3-14b", context=37_000))
    assert prepared.options.wafers == 1


@pytest.fixture(scope="module")
def cut_request(tmp_path_factory: pytest.TempPathFactory) -> EstimateRequest:
    """Return a request of three layers on two wafers, each with SRAM for one and a half layers."""
    config = write_config(
        tmp_path_factory.mktemp("model"), max_position_embeddings=512, num_hidden_layers=3, intermediate_size=160
    )
    small_sram = (("sram_bytes_per_pe", 9_200),)
    return make_request(
        EstimateRequest,
        model=str(config),
        mesh="4x4",
        wafers=2,
        mapping="bands",
        prompt_len=8,
        new_tokens=8,
        wafer_values=small_sram,
    )


def test_sensitivity_reports_the_wafers_for_whole_layers(
    cut_request: EstimateRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundled_strategies()["bands"], "block_parts", (2, 4))
    monkeypatch.setattr(cut_estimate, "changed_requests", lambda prepared: {})
    names: list[str] = []
    cut = estimate(replace(cut_request, sensitivity=True), on_progress=lambda done, of_all, name: names.append(name))
    whole = estimate(replace(cut_request, wafers=3))
    (row,) = cut.sensitivity
    assert (row.change, row.wafers) == ("no layer cut", 3)
    assert row.tokens_per_s == whole.decode.tokens_per_s
    assert whole.cuts is None
    assert cut.to_dict()["cuts"] == {"layers": 1, "between_wafers": 1, "wafers_for_whole_layers": 3}
    assert "no layer cut" in names


def test_cuts_within_a_wafer_are_not_counted_between_wafers(
    cut_request: EstimateRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a longer prompt each wafer has two regions that share layers, which are not cuts between wafers."""
    monkeypatch.setattr(bundled_strategies()["bands"], "block_parts", (2, 4))
    small_sram = (("sram_bytes_per_pe", 9_000),)
    result = estimate(replace_options(cut_request, wafer_values=small_sram, prompt_len=16, new_tokens=2))
    assert (result.cuts.layers, result.cuts.between_wafers) == (3, 1)


@pytest.mark.slow
def test_layers_are_cut_if_the_caches_of_the_users_have_no_room_otherwise(
    cut_request: EstimateRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One user does not need a layout that divides layers into parts."""
    monkeypatch.setattr(bundled_strategies()["bands"], "block_parts", (2, 4))
    request = replace_options(cut_request, wafer_values=(("sram_bytes_per_pe", 10_000),))
    one, four = (estimate(replace_options(request, users=users)) for users in (1, 4))
    assert one.cuts is None
    assert four.cuts.layers == 1
    assert four.serving.users == 4


REQUEST = make_request(EstimateRequest, model="story", dtype="int4", mesh="14x14", prompt_len=16, new_tokens=16)


def with_narrow_attention() -> tuple[PreparedEstimate, Compilation]:
    """Compile REQUEST with attention on 8 of the 14 columns."""
    prepared = prepare_estimate(REQUEST)
    found = compile_fastest(prepared)
    choice = replace(found.choice, attention_cols=8)
    program = compile_choice(prepared.spec, prepared.wafer, prepared.software, found.options, choice)
    return prepared, replace(found, choice=choice, program=program)


def test_rows_of_cache_room_are_variants_with_room_for_more_users() -> None:
    prepared, compilation = with_narrow_attention()
    candidate = Candidate(compilation.program, compilation.options, compilation.choice)
    variants = variants_of(prepared, candidate)
    rows = cache_room(ChosenLayout(searched=prepared, prepared=prepared, compilation=compilation, variants=variants))
    choice = compilation.choice
    choices = {
        CHOSEN: choice,
        ALL_COLUMNS: replace(choice, attention_cols=0),
        FEW_CODES: choice.without_rewrite(WIDE_UNPACKING),
        f"{ALL_COLUMNS}, {FEW_CODES}": replace(choice.without_rewrite(WIDE_UNPACKING), attention_cols=0),
    }
    expected: dict[str, tuple[int, float]] = {}
    for name, changed_choice in choices.items():
        inputs = prepared.spec, prepared.wafer, prepared.software, compilation.options
        refitted = choice if name == CHOSEN else with_refitted_trees(*inputs, changed_choice, timing_of(prepared))
        program = compile_choice(*inputs, refitted)
        fabric = Fabric(program, prepared.wafer, prepared.software)
        cycles = statistics.fmean(fabric.decode_cost(length).cycles for length in range(16, 31))  # 15 decoded tokens
        expected[name] = users_at(program, 32), cycles
    found = {row.choice: (row.users, row.token_cycles) for row in rows}
    assert {name: row[0] for name, row in found.items()}.items() <= {
        name: row[0] for name, row in expected.items()
    }.items()
    assert all(cycles == pytest.approx(expected[name][1]) for name, (_, cycles) in found.items())
    assert next(iter(found)) == CHOSEN
    assert {ALL_COLUMNS, FEW_CODES} & set(found) == {
        name for name in (ALL_COLUMNS, FEW_CODES) if expected[name][0] > expected[CHOSEN][0]
    }
    assert max(found.values())[0] == max(expected.values())[0] > expected[CHOSEN][0]


def test_users_at_longer_contexts_are_counted_with_the_buffers_of_that_context() -> None:
    layout = choose_layout(prepare_estimate(REQUEST))
    prepared, compiled = layout.prepared, layout.compilation
    options = replace(compiled.options, context=1024)
    program = compile_choice(prepared.spec, prepared.wafer, prepared.software, options, compiled.choice)
    users = {row.context: row.users for row in estimate(REQUEST).sram.users}
    assert users == {32: users_at(compiled.program, 32), 1024: users_at(program, 1024)}
    assert 0 < users[1024] < users_at(compiled.program, 1024)  # which ignores that buffers grow


def test_estimate_reports_the_sram_used_for_speed() -> None:
    result = estimate(REQUEST)
    assert result.sram.room[0].token_cycles == pytest.approx(result.decode.cycles_per_token)
    assert result.schedule.single_stream_tpot_s == pytest.approx(result.serving.tpot_s)
    assert result.sram.room[0].users == {row.context: row.users for row in result.sram.users}[32]
    out = io.StringIO()
    print_result(result, out)
    assert "Variants with more room for KV caches" in out.getvalue()


@pytest.mark.parametrize(
    "changes", [{"schedule": "baseline"}, pytest.param({"dtype": "float32", "mesh": "30x30"}, marks=pytest.mark.slow)]
)
def test_estimate_without_roomier_variants_has_no_such_table(changes: dict[str, str]) -> None:
    assert estimate(replace_options(REQUEST, **changes)).sram.room is None


def test_capacity_is_simulated_for_layouts_that_may_have_a_higher_one() -> None:
    options: dict[str, Any] = {"mesh": "16x16", "wafers": 1, "mapping": "region", "schedule": "baseline", **LENGTHS}
    prepared_estimate = prepare_estimate(
        make_request(EstimateRequest, model="story", objective="throughput", **options)
    )
    tried: list[ChosenLayout] = []

    def rising(layout: ChosenLayout) -> float:
        """Return a low capacity that rises with each layout."""
        tried.append(layout)
        return len(tried) / 1e9

    assert choose_layout_by_capacity(prepared_estimate, rising) is tried[-1]
    assert len({layout.compilation.options.batch for layout in tried}) > 1
    tried.clear()
    falling = choose_layout_by_capacity(prepared_estimate, lambda layout: tried.append(layout) or 1e-9 / len(tried))
    assert falling is tried[0]
    tried.clear()
    first = choose_layout_by_capacity(prepared_estimate, lambda layout: tried.append(layout) or math.inf)
    assert tried == [first]
