"""Tests that estimates, comparisons, scenarios and simulations of the same requests agree."""

import re
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest
from few_samples import few_samples
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import AT_REQUEST, slow_but

import wse
from wse.errors import BadInput
from wse.studies.compare.curve.study import curve_row
from wse.studies.compare.machine import prepared_gpus
from wse.studies.compare.plan.rows import rows_of_gpus
from wse.studies.compare.request import CompareRequest
from wse.studies.options.option import make_request

SMALL: Final[dict[str, Any]] = {"mesh": "16x16", "wafers": 1, "mapping": "pipeline", "schedule": "baseline"}
"""Options of a small wafer, for which layouts compile quickly."""
ONE_REGION: Final = SMALL | {"mesh": "14x14", "mapping": "region"}
"""Options for which there are fewer layouts, so that they are found more quickly."""
ON_WAFERS: Final = [
    {"prompt_len": prompt, "new_tokens": new, "users": users}
    for prompt, new, users in [(16, 48, 1), (300, 1, 4), (64, 128, 1), (64, 128, 2), (200, 100, 1), (16, 48, 2)]
]
MACHINES: Final = [("llama-3-8b", "h100", 1), ("llama-3.1-70b", "h200", 8), ("gpt-oss-120b", "b200", 2)]
LENGTHS: Final = [(200, 400), (1024, 1024), (4000, 300)]
USERS: Final = [1, 8, 12, 16, 32]
ON_GPUS: Final = [
    {"model": model, "gpu": gpu, "gpus": gpus, "prompt_len": prompt, "new_tokens": new, "users": users}
    for (model, gpu, gpus), (prompt, new), users in product(MACHINES, LENGTHS, USERS)
]
PAUSING: Final[list[dict[str, Any]]] = [
    {"model": "llama-3.1-70b", "gpu": "h200", "gpus": 8, "prompt_len": 4000, "new_tokens": 300, "think_time": 20},
    {"model": "llama-3-8b", "gpu": "h100", "prompt_len": 2000, "new_tokens": 100, "think_time": 5},
    {"model": "llama-3-8b", "gpu": "h100", "prompt_len": 200, "new_tokens": 400, "think_time": 2},
    {"model": "gpt-oss-120b", "gpu": "b200", "gpus": 2, "prompt_len": 1000, "new_tokens": 100, "think_time": 20},
]
PAUSING_USERS: Final = [options | {"users": users} for options, users in product(PAUSING, [20, 50, 100])]
SOME_ON_GPUS: Final = [ON_GPUS[3], ON_GPUS[12], ON_GPUS[20], ON_GPUS[44]]
"""Combinations that are tested without ``WSE_ALL_OUTPUTS``."""
ON_WHOLE_WAFERS: Final[list[dict[str, Any]]] = [
    {"model": model, "wafers": wafers, "prompt_len": prompt, "new_tokens": new, "users": users}
    for model, wafers, prompt, new, users in [
        ("llama-3-8b", 1, 1024, 1024, 1),
        ("llama-3-8b", 1, 1024, 1024, 2),
        ("llama-3-8b", 1, 200, 400, 4),
        ("llama-3-8b", 1, 4000, 300, 2),
        ("llama-3.1-70b", 4, 1024, 1024, 2),
        ("llama-3.1-70b", 8, 4000, 300, 3),
        ("llama-3.1-70b", 8, 4000, 300, 8),
    ]
]


def at_request_but(cases: list[Any], some: list[Any]) -> list[Any]:
    """Return test parameters: the first of ``some`` always runs, the rest is slow, all others run at request."""
    marks = [pytest.mark.slow, AT_REQUEST]
    return [
        case if case == some[0] else pytest.param(case, marks=marks[:1] if case in some else marks) for case in cases
    ]


def options_id(options: dict[str, Any] | tuple[Any, ...]) -> str:
    return "-".join(map(str, options.values() if isinstance(options, dict) else options))


def simulated(serving: Any, options: dict[str, Any], within: float = 0.03) -> Any:
    """Simulate requests in a closed loop, and return the result.

    Check that the throughput and the cost per token agree with an operating point of an estimate.

    Args:
        serving: The operating point.
        options: Options of the simulation, including the number of users.
        within: Maximum relative difference.
    """
    requests = max(1_000, 200 * options["users"])  # many, because fewer are in flight at the beginning and the end
    served = wse.serve_sim(**options, arrivals="constant", requests=requests).served
    assert served.tokens_per_s == pytest.approx(serving.tokens_per_s, rel=within)
    assert served.usd_per_million_tokens.value == pytest.approx(serving.usd_per_million_tokens, rel=within)
    return served


@pytest.mark.parametrize("options", at_request_but(ON_GPUS, SOME_ON_GPUS), ids=options_id)
def test_simulations_on_gpus_agree_with_estimates(options: dict[str, Any]) -> None:
    serving = wse.estimate(**options).serving
    assert serving.users == options["users"]
    latencies = simulated(serving, options).all
    assert latencies.tpot.mean == pytest.approx(serving.tpot_s, rel=0.02)
    assert latencies.ttft.mean == pytest.approx(serving.ttft_s, rel=0.02)


@pytest.mark.parametrize("options", at_request_but(PAUSING_USERS, [PAUSING_USERS[5]]), ids=options_id)
def test_simulations_of_users_who_pause_agree_with_estimates(options: dict[str, Any]) -> None:
    serving = wse.estimate(**options).serving
    latencies = simulated(serving, options).all
    assert latencies.tpot.mean == pytest.approx(serving.tpot_s, rel=0.04)
    assert latencies.ttft.mean == pytest.approx(serving.ttft_s, rel=0.08)


@pytest.mark.slow
@AT_REQUEST
@pytest.mark.parametrize("options", ON_WHOLE_WAFERS, ids=options_id)
def test_simulations_on_whole_wafers_agree_with_estimates(options: dict[str, Any]) -> None:
    serving = wse.estimate(**options).serving
    latencies = simulated(serving, options | {"objective": "latency"}).all
    assert latencies.tpot.mean == pytest.approx(serving.tpot_s, rel=0.03)
    assert latencies.ttft.mean == pytest.approx(serving.ttft_s, rel=0.03)


@pytest.mark.parametrize("options", ON_GPUS, ids=options_id)
def test_gpus_in_rankings_and_curves_equal_estimates(options: dict[str, Any]) -> None:
    """The rows are those of ``wse compare --users`` and ``wse compare --gpu``."""
    request = make_request(CompareRequest, **options | {"gpu": (options["gpu"],)})
    rows, _, _ = rows_of_gpus(request)
    ((machine,), _) = prepared_gpus(request)
    serving = wse.estimate(**options).serving
    ranked_row = next(row for row in rows if row.replicas == serving.replicas)
    for row in (ranked_row, curve_row(machine, [machine], serving.users)):
        for name in ("users", "ttft_s", "tokens_per_s_per_user", "tokens_per_s", "usd_per_million_tokens"):
            assert getattr(row, name) == pytest.approx(getattr(serving, name)), name


@pytest.mark.parametrize("machine", slow_but(MACHINES, MACHINES[0]), ids=options_id)
def test_rows_of_sweeps_equal_estimates(machine: tuple[str, str, int], tmp_path: Path) -> None:
    model, gpu, gpus = machine
    lengths = {"prompt_len": [200, 4000], "new_tokens": [300, 1024]}
    grid = {"model": model, "gpu": gpu, "gpus": gpus, **lengths, "users": USERS}
    rows = wse.sweep(grid, output=tmp_path / "t.csv", jobs=1).rows
    assert len(rows) == 4 * len(USERS)
    for row in rows:
        serving = wse.estimate(model, gpu=gpu, gpus=gpus, **row.setting).serving
        assert row.values["ttft"] == pytest.approx(serving.ttft_s)
        assert row.values["user"] == pytest.approx(serving.tokens_per_s_per_user)
        assert row.values["throughput"] == pytest.approx(serving.tokens_per_s)
        assert row.values["cost"] == pytest.approx(serving.usd_per_million_tokens)


@pytest.mark.parametrize("options", at_request_but(ON_WAFERS, ON_WAFERS[:2]), ids=options_id)
def test_simulations_on_wafers_agree_with_estimates(options: dict[str, Any]) -> None:
    serving = wse.estimate("story", **SMALL, **options).serving
    latencies = simulated(serving, {"model": "story", **SMALL, **options, "objective": "latency"}, within=0.045).all
    assert latencies.ttft.mean == pytest.approx(serving.ttft_s, rel=0.07)
    if options["users"] == 1 and serving.tpot_s is not None:
        assert latencies.tpot.mean == pytest.approx(serving.tpot_s, rel=0.03)


@pytest.mark.parametrize(
    "options",
    slow_but(
        [
            {"model": "llama-3-8b", "gpu": "h100", "prompt_len": 2000, "new_tokens": 300, "users": 8},
            {"model": "story", **SMALL, "prompt_len": 200, "new_tokens": 100, "users": 1},
        ]
    ),
    ids=options_id,
)
def test_simulations_with_a_shared_prefix_agree_with_estimates(options: dict[str, Any]) -> None:
    options = options | {"prefix_tokens": options["prompt_len"] // 2 - 8}
    serving, whole = (wse.estimate(**options | prefix).serving for prefix in ({}, {"prefix_tokens": 0}))
    on_wafers = {} if "gpu" in options else {"objective": "latency"}
    latencies = simulated(serving, options | on_wafers).all
    assert latencies.ttft.p50 == pytest.approx(serving.ttft_s, rel=0.03)  # the first request finds no prefix
    assert latencies.tpot.mean == pytest.approx(serving.tpot_s, rel=0.01)
    assert serving.ttft_s < 0.8 * whole.ttft_s
    assert serving.usd_per_million_tokens < whole.usd_per_million_tokens


def test_room_of_a_shared_prefix_agrees_with_simulations() -> None:
    options = {"model": "llama-3.1-8b", "gpu": "h100", "prompt_len": 30_000, "new_tokens": 100, "prefix_tokens": 20_000}
    users = wse.estimate(**options).serving.max_users
    assert users > 2 * wse.estimate(**options | {"prefix_tokens": 0}).serving.max_users
    served = simulated(wse.estimate(**options, users=users).serving, options | {"users": users})
    assert served.prefix_cache.hits >= served.all.requests - 2
    with pytest.raises(BadInput, match=r"\(20,000 of them shared\)"):
        wse.estimate(**options, users=users + 1)


def test_users_who_share_a_prefix_fit_in_a_compiled_layout() -> None:
    options = {"model": "story", **SMALL, "prompt_len": 200, "new_tokens": 20, "prefix_tokens": 199}
    with pytest.raises(BadInput, match="--users 272") as error:
        wse.estimate(**options, users=272)
    match = re.search(r"give --users (\d+)", str(error.value))
    assert match is not None
    assert wse.estimate(**options, most_users=True).serving.max_users_of_any_layout == int(match[1])
    with pytest.raises(BadInput, match="--users 50"):
        wse.serve_sim(**options, users=50, prefixes=50)


def test_simulation_of_a_prompt_that_does_not_divide_among_the_rows_agrees_with_an_estimate() -> None:
    """The estimate reads 100 tokens on 11 rows in one chunk. The simulation must not read them in two."""
    options = {"prompt_len": 100, "new_tokens": 100, "users": 1, **ONE_REGION, "mesh": "11x11"}
    serving = wse.estimate("story", **options).serving
    latencies = simulated(serving, {"model": "story", **options, "objective": "latency"}).all
    assert latencies.ttft.mean == pytest.approx(serving.ttft_s, rel=0.07)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"model": "story", **SMALL, "prompt_len": 100, "new_tokens": 100, "users": 12},
        {"model": "llama-3-8b", "gpu": "h100", "prompt_len": 2000, "new_tokens": 100, "users": 60},
    ],
    ids=options_id,
)
def test_simulations_of_saturated_machines_agree_with_estimates(options: dict[str, Any]) -> None:
    """With a saturated machine the throughput agrees more closely than TTFT.

    TTFT is then a small difference of two long times. All users have a request in the system.
    """
    serving = wse.estimate(**options).serving
    on_wafers = {} if "gpu" in options else {"objective": "latency"}
    served = simulated(serving, options | on_wafers)
    assert served.all.tpot.mean == pytest.approx(serving.tpot_s, rel=0.035)
    assert served.all.ttft.mean == pytest.approx(serving.ttft_s, rel=0.1)
    assert served.tokens_per_s == pytest.approx(serving.tokens_per_s, rel=0.01)
    assert served.little.in_system == pytest.approx(options["users"], rel=0.04)


@pytest.mark.parametrize(
    "options",
    slow_but(
        [
            {"model": "llama-3-8b", "gpu": "h100", "users": 32, "draft": "0.9,0.8"},
            {"model": "story", **ONE_REGION, "prompt_len": 64, "new_tokens": 128, "users": 4, "draft": "0.9,0.8"},
        ]
    ),
    ids=options_id,
)
def test_simulations_with_drafts_agree_with_estimates(options: dict[str, Any]) -> None:
    drafts = wse.estimate(**options).drafts
    on_wafers = {} if "gpu" in options else {"objective": "latency"}
    result = wse.serve_sim(**options, **on_wafers, arrivals="constant", requests=1_000)
    assert result.served is not None
    assert result.drafts.draft_tokens == drafts.draft_tokens
    served = result.served
    assert served.tokens_per_s == pytest.approx(drafts.tokens_per_s, rel=0.05)
    assert served.all.tpot.mean == pytest.approx(1 / drafts.tokens_per_s_per_user, rel=0.05)
    assert served.usd_per_million_tokens.value == pytest.approx(drafts.usd_per_million_tokens, rel=0.05)


@pytest.mark.slow
def test_commands_agree_on_users_who_pause() -> None:
    users: dict[str, Any] = {"prompt_len": 64, "new_tokens": 64, "users": 30, "think_time": 0.004, "replicas": 1}
    planned: Any = wse.compare("story", **ONE_REGION | {"wafers": [1]}, **users, gpu=["h100"], gpus=1, jobs=1)
    rows = {row.kind: row for row in planned.rows}
    for kind, machine in (("wafer", ONE_REGION), ("gpu", {"gpu": "h100", "gpus": 1})):
        options = {"model": "story", **machine, **users, "objective": "cost"}
        serving = wse.estimate(**options).serving
        assert 1 < serving.in_flight < 30
        assert rows[kind].in_flight == pytest.approx(serving.in_flight, rel=0.01)
        assert rows[kind].usd_per_million_tokens == pytest.approx(serving.usd_per_million_tokens, rel=0.01)
        served = simulated(serving, options)
        assert served.little.in_system == pytest.approx(serving.in_flight, rel=0.1)


@pytest.mark.slow
def test_scenarios_agree_with_estimates() -> None:
    users, machine = 8, {"wafer": "wse3", **ONE_REGION}
    scenario = {
        "title": "t",
        "question": "q",
        "models": [{"model": "story"}],
        "machines": [machine],
        "drafts": [{"name": "none"}, {"name": "head", "draft": "0.9,0.8"}],
        "users": users,
        "prompt_len": 64,
        "new_tokens": 64,
    }
    plain, drafted = (one.prediction for one in wse.scenario(scenario, jobs=1).combinations)
    estimate = wse.estimate("story", **ONE_REGION, prompt_len=64, new_tokens=64, users=users, draft="0.9,0.8")
    assert estimate.serving is not None
    assert estimate.drafts is not None
    for found, expected in ((plain, estimate.serving), (drafted, estimate.drafts)):
        assert found is not None
        for key in ("tokens_per_s_per_user", "tokens_per_s", "usd_per_million_tokens", "joules_per_token"):
            assert getattr(found, key) == pytest.approx(getattr(expected, key)), key


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["latency", "throughput"])
def test_commands_find_the_same_number_of_replicas(objective: str) -> None:
    options: dict[str, Any] = {"mesh": "11x11", "mapping": "region", "schedule": "baseline", "objective": objective}
    options |= {"prompt_len": 100, "new_tokens": 100, "users": 20}
    estimated = wse.estimate("story", wafers=1, replicas=None, **options).serving
    planned: Any = wse.compare("story", wafers=[1], top=1, jobs=1, **options).rows[0]
    served = wse.serve_sim("story", wafers=1, replicas=None, arrivals="constant", requests=1_000, **options)
    assert estimated.replicas == planned.replicas == served.replicas
    assert planned.usd_per_million_tokens == pytest.approx(estimated.usd_per_million_tokens, rel=0.01)


@pytest.mark.slow
def test_rows_of_comparisons_equal_points_of_estimates() -> None:
    lengths: dict[str, Any] = {"prompt_len": 16, "new_tokens": 48}
    region = SMALL | {"mesh": "11x11", "mapping": "region"}
    with few_samples():
        rows = wse.compare("story", **region | {"wafers": [1]}, **lengths, gpu=["h100"], gpus=1, jobs=1).rows
    of_wafers = wse.estimate("story", **region, **lengths).serving
    of_gpus = wse.estimate("story", gpu="h100", gpus=1, **lengths).serving
    for kind, serving in (("wafer", of_wafers), ("gpu", of_gpus)):
        points = {point.users: point for point in serving.points}
        compared: dict[int, Any] = {
            row.users: row
            for row in rows
            if row.kind == kind and "throughput" not in row.machine and ", layout for" not in row.machine
        }  # type: ignore[union-attr]
        assert len(points.keys() & compared.keys()) >= 2
        for users in points.keys() & compared.keys():
            for key in ("ttft_s", "tokens_per_s_per_user", "usd_per_million_tokens", "joules_per_token"):
                assert getattr(compared[users], key) == pytest.approx(getattr(points[users], key)), (kind, users, key)


@pytest.mark.slow
def test_users_wait_instead_of_getting_a_slower_layout() -> None:
    """Users wait if the fastest layout has no room for all of them, although another layout would have."""
    options: dict[str, Any] = SMALL | {"prompt_len": 100, "new_tokens": 56, "users": 25}
    crowded = wse.estimate("story", **options).serving
    assert crowded.max_users < 25
    full = wse.estimate("story", **options | {"users": crowded.max_users}).serving
    assert crowded.tokens_per_s == pytest.approx(full.tokens_per_s, rel=1e-6)
    assert crowded.ttft_s > full.ttft_s
    planned: Any = wse.compare("story", top=1, jobs=1, **options | {"wafers": [1]}).rows[0]
    assert planned.tokens_per_s == pytest.approx(crowded.tokens_per_s, rel=0.01)
    served = simulated(crowded, {"model": "story", **options, "objective": "latency"})
    assert served.all.ttft.mean == pytest.approx(crowded.ttft_s, rel=0.1)


def test_plan_for_one_user_equals_an_estimate() -> None:
    options = SMALL | {"prompt_len": 64, "new_tokens": 64, "prefix_tokens": 40, "wafers": 2}
    serving = wse.estimate("story", **options).serving
    planned: Any = wse.compare("story", users=1, objective="latency", jobs=1, **options | {"wafers": [2]}).rows[0]
    for key in ("ttft_s", "tokens_per_s_per_user", "max_users", "usd_per_million_tokens"):
        assert getattr(planned, key) == pytest.approx(getattr(serving, key), rel=1e-9), key


@pytest.mark.slow
def test_reserved_context_hardly_changes_speed_and_room() -> None:
    """A larger reserved context only enlarges the caches of the pass that is compiled."""
    options = SMALL | {"mapping": "auto", "prompt_len": 300, "new_tokens": 300}
    plain, reserved = (wse.estimate("story", **options, **reserve).serving for reserve in ({}, {"context": 640}))
    assert reserved.tpot_s == pytest.approx(plain.tpot_s, rel=0.03)
    assert reserved.tokens_per_s == pytest.approx(plain.tokens_per_s, rel=0.03)
    assert reserved.max_users == pytest.approx(plain.max_users, rel=0.2)


@pytest.mark.slow
@settings(max_examples=4, deadline=None)
@given(prompt_len=st.integers(8, 200), more=st.integers(1, 200), wafers=st.integers(1, 2))
def test_users_that_fit_do_not_rise_with_lengths_or_fall_with_wafers(prompt_len: int, more: int, wafers: int) -> None:
    def room(prompt_len: int, wafers: int) -> int:
        options = ONE_REGION | {"wafers": wafers, "prompt_len": prompt_len, "new_tokens": 16, "most_users": True}
        with few_samples():
            return wse.estimate("story", **options).serving.max_users_of_any_layout

    assert room(prompt_len + more, wafers) <= room(prompt_len, wafers) <= room(prompt_len, wafers + 1)
