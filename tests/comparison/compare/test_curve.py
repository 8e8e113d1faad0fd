"""Tests of cost-speed curves of wafers and GPUs: rows, tiers, frontiers, crossovers and the verdict.

Most tests use synthetic machines whose crossovers are known in closed form.
"""

import math

import numpy as np
import pytest
from few_samples import few_samples
from hypothesis import given
from hypothesis import strategies as st
from one_process import ONE_PROCESS

import wse
from tests.comparison.compare.synthetic import POWER_W, gpu, usd, wafer
from wse.errors import DoesNotFit
from wse.models.load import load_model
from wse.reports.intervals import SAMPLED_ON_WAFERS
from wse.reports.progress import ignore
from wse.studies.compare.curve.certainty import certainty_of, crossover_of
from wse.studies.compare.curve.crossover import Interval, cheaper_speeds, cheapest_token
from wse.studies.compare.curve.row import FAST, PLAIN, CurveRow, frontier, with_best
from wse.studies.compare.curve.samples import sampled_machines
from wse.studies.compare.curve.study import curve, curve_rows
from wse.studies.compare.curve.tables import curve_tables
from wse.studies.compare.curve.verdict import curve_verdict
from wse.studies.compare.machine import GPU, WAFER, Kind, Machine, prepared_gpus
from wse.studies.compare.request import CompareRequest
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import make_request, replace_options
from wse.studies.results.published import BY_TEXTS, PublicPoint, public_points

MACHINES = st.builds(
    gpu, st.floats(1e-4, 0.1), st.floats(1e-6, 1e-2), room=st.integers(1, 3_000), usd_per_hour=st.floats(0.5, 500)
)


def row(kind: Kind, users: int, speed: float, usd_per_million: float, tier: str | None = None) -> CurveRow:
    """Return a row of 4 wafers or 4 GPUs whose cost has a range of a factor of 1.1."""
    machine = "4 wse3 (bands)" if kind == WAFER else "8 h200 (trtllm)"
    return CurveRow(
        machine=machine,
        kind=kind,
        name=machine.split()[1].rstrip(","),
        chips=4,
        dtype="fp8",
        software="",
        users=users,
        ttft_s=0.1,
        tokens_per_s_per_user=speed,
        tokens_per_s=users * speed,
        usd_per_million_tokens=usd_per_million,
        usd_per_million_tokens_low=usd_per_million / 1.1,
        usd_per_million_tokens_high=usd_per_million * 1.1,
        joules_per_token=usd_per_million,
        joules_per_token_low=usd_per_million,
        joules_per_token_high=usd_per_million,
        tier=tier,
    )


def rows_of(machine: Machine, plain_speed: float) -> tuple[CurveRow, ...]:
    """Return the rows of a machine, without other machines to compare with."""
    return curve_rows(machine, sampled_machines(machine), plain_speed)


WAFER_ROWS = (row(WAFER, 1, 1000, 50), row(WAFER, 20, 900, 4))
GPU_ROWS = (row(GPU, 1, 120, 100), row(GPU, 16, 90, 8), row(GPU, 64, 50, 3), row(GPU, 512, 10, 1))


def test_rows_have_the_operating_points_of_their_machine() -> None:
    rows = rows_of(gpu(0.004, 0.0001, room=150, usd_per_hour=2, ends=(1, 5)), 50)
    assert [one.users for one in rows] == [1, 2, 4, 8, 16, 32, 40, 64, 128, 150]
    for one in rows:
        tpot_s = 0.004 + one.users * 0.0001
        cost = usd(0.004, 0.0001, one.users)
        assert one.tokens_per_s_per_user == pytest.approx(1 / tpot_s)
        assert one.ttft_s == pytest.approx(tpot_s)
        assert one.tokens_per_s == pytest.approx(one.users / tpot_s)
        assert one.usd_per_million_tokens == pytest.approx(2 * cost)
        assert (one.usd_per_million_tokens_low, one.usd_per_million_tokens_high) == pytest.approx((cost, 5 * cost))
        assert one.joules_per_token == pytest.approx(POWER_W * tpot_s / one.users)
        assert (one.machine, one.kind, one.chips, one.dtype) == ("1 h200 (vllm)", GPU, 1, "fp8")


def test_rows_end_at_the_first_saturated_number_of_users() -> None:
    assert [one.users for one in rows_of(gpu(0.004, room=150, saturated_from=21), 50)] == [1, 2, 4, 8, 16, 21]


@pytest.mark.parametrize(
    ("plain_speed", "room", "tiers"),
    [
        (50.0, 1_000, {PLAIN: 160, FAST: 40}),  # 1/50 s = 4 ms + 160 * 0.1 ms; 1/125 s = 4 ms + 40 * 0.1 ms
        (40.0, 1_000, {PLAIN: 210, FAST: 60}),
        (100.0, 1_000, {PLAIN: 60}),  # one user alone gets 243.9 tokens/s, less than 250
        (50.0, 12, {PLAIN: 12, FAST: 12}),
        (300.0, 12, {}),
    ],
)
def test_tiers_are_at_the_largest_number_of_users_with_that_speed(
    plain_speed: float, room: int, tiers: dict[str, int]
) -> None:
    rows = rows_of(gpu(0.004, 0.0001 * (1 - 1e-9), room=room), plain_speed)
    assert {tier: one.users for one in rows for tier in one.tiers} == tiers


def test_frontier_leaves_out_what_is_slower_and_no_cheaper() -> None:
    worse = row(WAFER, 2, 950, 60)
    assert frontier([*WAFER_ROWS, worse]) == list(WAFER_ROWS)
    marked = with_best([*WAFER_ROWS, worse, *GPU_ROWS])
    assert [r.best for r in marked] == [True, True, False, True, True, True, True]


def test_cheapest_token_is_at_the_largest_number_of_users_with_the_speed() -> None:
    slow, quick = gpu(0.01, 0.001, room=100), gpu(0.002, 0.001, room=5, usd_per_hour=1)
    assert cheapest_token([slow, quick], 21) == pytest.approx(usd(0.01, 0.001, 37))  # 1/21 = 10 ms + 37.6 ms
    assert cheapest_token([slow, quick], 95) == pytest.approx(usd(0.002, 0.001, 5))
    assert cheapest_token([slow, quick], 500) == math.inf


def test_wafers_are_cheaper_at_two_ranges_of_speed() -> None:
    """Slow wafers are cheapest up to 10 tokens/s and GPUs up to 100; above that, only the fast wafer is fast enough."""
    machines = [wafer(0.1, room=100), wafer(0.001, usd_per_hour=10)]
    first, second = cheaper_speeds(machines, [gpu(0.01, room=5)])
    assert first.to_speed == pytest.approx(10, rel=1e-5)
    assert second == Interval(pytest.approx(100, rel=1e-5), math.inf)


@given(st.lists(MACHINES, min_size=1, max_size=3), st.lists(MACHINES, min_size=1, max_size=3))
def test_at_each_end_of_an_interval_the_cheaper_group_changes(
    first_group: list[Machine], second_group: list[Machine]
) -> None:
    def is_cheaper(speed: float) -> bool:
        return cheapest_token(first_group, speed) < cheapest_token(second_group, speed)

    for low, high in cheaper_speeds(first_group, second_group):
        assert low < high
        if low > 1:
            assert is_cheaper(low)
            assert not is_cheaper(low * (1 - 1e-5))
        if not math.isinf(high):
            assert not is_cheaper(high)
            assert is_cheaper(high * (1 - 1e-5))


def verdict_of(*machines: Machine) -> tuple[str, ...]:
    """Return the sentences of the verdict on several machines."""
    samples = {machine: sampled_machines(machine) for machine in machines}
    return curve_verdict(samples, certainty_of(samples, machines))


def test_verdict_has_the_figures_of_the_machines() -> None:
    wafers, gpus = wafer(0.001, usd_per_hour=10), gpu(0.019, 0.001, room=31, usd_per_hour=0.1)
    assert verdict_of(wafers, gpus) == (
        "Compared: wse3 (1 wafer), h200 (1 GPU). Other numbers of wafers or GPUs (--wafers, --gpus) may be cheaper.",
        "After the first token, one user is 20 times as fast on 1 wse3 (bands) as on 1 h200 (vllm): 1,000 tokens/s "
        "against 50 tokens/s.",
        "A token is cheapest on 1 h200 (vllm), 0.0448 USD per million with "
        "31 users of 20 tokens/s, against 2.78 USD per million on 1 wse3 (bands).",
        "At equal speed per user, tokens are cheaper on these wafers only where GPUs are too slow. The GPUs compared "
        "reach at most 50 tokens/s per user.",
        f"Of 4 samples of the uncertain inputs ({SAMPLED_ON_WAFERS}), one user is "
        "faster on 1 wse3 (bands) than on 1 h200 (vllm) in 100 % of them. A token is cheaper "
        "on 1 h200 (vllm) than on 1 wse3 (bands) in 100 % of them, if each machine serves the users with which its "
        "tokens are cheapest. At equal speed per user, tokens are cheaper on the compared wafers only where GPUs are "
        "too slow in 100 % of them.",
    )


def test_verdict_is_decided_for_each_sample() -> None:
    """Each statement of the verdict has the fraction of samples in which it is true.

    The expected crossovers use that a wafer that is twice as fast has the cost per token of one at half the price.
    """
    ratios = (0.5, 1.0, 2.0, 100.0)  # the wafer is slower than the GPU in the last sample
    wafers = wafer(0.001, usd_per_hour=10, time_ratios=ratios)
    gpus = gpu(0.009, 0.001, room=31, usd_per_hour=3.6)
    samples = {machine: sampled_machines(machine) for machine in (wafers, gpus)}
    certainty = certainty_of(samples, [wafers, gpus])
    assert (certainty.faster, certainty.cheaper, certainty.samples) == (0.75, 1.0, 4)
    assert certainty.crossovers == {"above": 0.75, "never": 0.25}
    assert certainty.crossover == "above"
    low, stated, high = (_first_cheaper(usd_per_hour) for usd_per_hour in (5, 10, 20))
    assert certainty.tokens_per_s is not None
    assert certainty.tokens_per_s.value == pytest.approx(stated, rel=1e-5)
    assert certainty.tokens_per_s.low == pytest.approx(low + 0.1 * (stated - low), rel=1e-4)  # 5 % of three samples
    assert certainty.tokens_per_s.high == pytest.approx(high - 0.1 * (high - stated), rel=1e-4)
    interval = curve_rows(wafers, samples[wafers], 50)[0].ranges["tokens_per_s_per_user"]  # type: ignore[index]  # it has ranges
    assert (interval.value, interval.samples) == (pytest.approx(1_000), 4)
    assert (interval.low, interval.high) == pytest.approx(np.quantile(1_000 / np.array(ratios), (0.05, 0.95)))


@pytest.mark.parametrize(
    ("intervals", "crossover"),
    [
        ((), "never"),
        ((Interval(1.0, math.inf),), "always"),
        ((Interval(20.0, math.inf),), "above"),
        ((Interval(100.0, math.inf),), "alone"),
        ((Interval(1.0, 20.0),), "other"),
        ((Interval(1.0, 20.0), Interval(50.0, math.inf)), "other"),
    ],
)
def test_kinds_of_crossover(intervals: tuple[Interval, ...], crossover: str) -> None:
    assert crossover_of(intervals, fastest_gpu_speed=100.0) == crossover


def _first_cheaper(usd_per_hour: float) -> float:
    """Return the speed from which one user on a wafer is cheaper than the GPUs.

    It is the speed on the GPUs at the smallest number of users whose token there is at most as expensive.
    """
    cost = usd(0.001, 0.0, 1, usd_per_hour)
    users = next(users for users in range(1, 32) if usd(0.009, 0.001, users, 3.6) <= cost)
    return 1 / (0.009 + users * 0.001)


def test_number_of_gpus_without_room_for_a_user_is_left_out() -> None:
    """Two H100 have room for the weights of 70B but not for a cache of 101,000 tokens as well. Four have room."""
    base = make_request(EstimateRequest, model="llama-3.1-70b", prompt_len=100_000, new_tokens=1_000)
    serving, impossible = prepared_gpus(CompareRequest(base=base, gpu=("h100",)))
    assert [one.server.parallelism.gpus for one in serving.values()] == [4, 8]
    assert impossible.keys() == {"2 h100 (vllm)"}
    with pytest.raises(DoesNotFit, match=r"^2 h100 \(vllm\): .* of one sequence of 101,000 tokens does not fit"):
        curve(CompareRequest(base=replace_options(base, gpus=2), gpu=("h100",)), ignore, ONE_PROCESS)


def test_gpus_serve_the_requested_choice_of_experts() -> None:
    base = make_request(EstimateRequest, model="qwen3-30b-a3b", routing="zipf:1.2", gpus=1)
    serving, _ = prepared_gpus(CompareRequest(base=base, gpu=("h200",)))
    (prepared,) = serving.values()
    assert prepared.server.routing.name == "zipf:1.2"


def test_best_gpu_rows_are_the_frontier_over_all_numbers_of_gpus_in_a_node() -> None:
    """The attention heads of the model can be divided over 1, 2 and 4 GPUs, and more GPUs are faster for one user."""
    placement = {"mesh": "8x8", "mapping": "region", "schedule": "baseline", "wafers": [1]}
    with few_samples():
        result = wse.compare("story", **placement, prompt_len=8, new_tokens=8, gpu=["h100"], jobs=1)
    gpus = [row for row in result.rows if row.kind == GPU]
    assert (result.inputs["gpu"], result.inputs["gpus"]) == (["h100"], sorted({row.chips for row in gpus}))
    assert len(result.inputs["gpus"]) > 1
    for row in gpus:
        is_beaten = any(
            r is not row
            and r.tokens_per_s_per_user >= row.tokens_per_s_per_user
            and r.usd_per_million_tokens <= row.usd_per_million_tokens
            for r in gpus
        )
        assert row.best != is_beaten


def test_published_speeds_are_those_of_models_with_the_same_layers() -> None:
    points = public_points(load_model("llama-3.1-70b", with_weights=False).spec)
    assert {point.model for point in points} >= {"Llama-3.1-70B", "Llama-3.3-70B"}
    assert all("70B" in point.model for point in points)
    assert [p.tokens_per_s_per_user for p in points] == sorted((p.tokens_per_s_per_user for p in points), reverse=True)
    (deepseek,) = public_points(load_model("deepseek-v3", with_weights=False).spec)
    assert deepseek.usd_per_million_tokens == pytest.approx(8 * 2.0 / 3600 / 14_800 * 1e6, rel=1e-3)
    assert deepseek.price_source == deepseek.source


def test_tables_explain_only_their_columns_and_state_ratios_of_all_tiers() -> None:
    rows = [row(WAFER, 20, 900, 4, "plain, fast"), row(GPU, 16, 130, 8, FAST), row(GPU, 64, 52, 4, PLAIN)]
    point = PublicPoint(model="m", system="s", tokens_per_s_per_user=1.0, by="independent", date="2024", source="a")
    tiers, users, published = curve_tables(rows, [point], 50.0, detail=True, footer=[], tier_footer=[])
    ratios = {column.title: [str(column.text(one)) for one in tiers.rows] for column in tiers.columns}
    assert ratios["speed / plain"] == ["1 x", "2.5 x", "1 x"]
    assert ratios["cost / plain"] == ["1 x", "2 x", "1 x"]
    assert all(str(cell) in tiers.note for cell in ratios["tier"])
    assert {label for label, _ in users.footer} <= {column.title for column in users.columns}
    (stated_by,) = [column for column in published.columns if column.title == "stated by"]
    assert stated_by.text(point) == BY_TEXTS["independent"]
