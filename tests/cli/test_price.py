"""``--price`` on every command with costs: the given price is the one that counts, without a range."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Wse

LENGTHS = ("--prompt-len", "64", "--new-tokens", "64")
WAFER = ("story", "--mesh", "24x24", *LENGTHS, "--mapping", "bands", "--schedule", "baseline", "--wafers", "1")
GPU = ("story", "--gpu", "h100", "--gpus", "1", *LENGTHS)
TRACE = Path(__file__).parents[2] / "traces" / "golden" / "v1" / "story-two-wafers.h5"
KEYS = ("usd_per_million_tokens_low", "usd_per_million_tokens", "usd_per_million_tokens_high")


def _costs(wse: Wse, *arguments: object) -> Any:
    answer = wse(*arguments, "--json")
    assert answer.code == 0, answer.err
    return json.loads(answer.out)


def _ends(row: Any) -> tuple[float, ...]:
    return tuple(row[key] for key in KEYS)


@pytest.mark.parametrize(
    ("machine", "price", "central", "range_"),
    [
        (WAFER, "wafer=60,h100=2,cs4=3", 64.45, (41.96, 99.0)),
        (WAFER, "WSE3=60", 64.45, (41.96, 99.0)),
        (GPU, "h100=60,b200=2,wafer=3", 2.95, (1.99, 5.0)),
    ],
)
def test_cost_is_at_the_central_price_and_both_ends_or_at_the_given_price(
    wse: Wse, machine: tuple[str, ...], price: str, central: float, range_: tuple[float, float]
) -> None:
    plain = _costs(wse, "estimate", *machine)["cost"]
    low, value, high = _ends(plain)
    assert (low, high) == pytest.approx((value * range_[0] / central, value * range_[1] / central))
    assert plain["range"] == [low, high]
    given = _costs(wse, "estimate", *machine, "--price", price)["cost"]
    assert _ends(given) == pytest.approx((60 / central * value,) * 3)
    assert given["grade"] == "U"
    assert given["assumptions"].endswith("60 USD/h: given")


def test_price_wins_over_a_file(wse: Wse, tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text("wafer_usd_per_hour = 30\nwafer_power_w = 11_500\n")
    result = _costs(wse, "estimate", *WAFER, "--economics", file, "--price", "wafer=60")
    assert (result["cost"]["wafer_usd_per_hour"], result["energy"]["wafer_power_w"]) == (60, 11_500)


def test_comparisons_give_each_machine_its_price(wse: Wse) -> None:
    plain = _costs(wse, "compare", *WAFER, "--gpu", "h100", "--gpus", "1")
    given = _costs(wse, "compare", *WAFER, "--gpu", "h100", "--gpus", "1", "--price", "wafer=60,h100=2,b200=9")
    factors = {"wafer": 60 / 64.45, "gpu": 2 / 2.95}
    for before, after in zip(plain["rows"], given["rows"], strict=True):
        cost = factors[before["kind"]] * before["usd_per_million_tokens"]
        assert _ends(after) == pytest.approx((cost, cost, cost))
    assert given["economics"]["gpu_usd_per_hour.h100"]["source"] == "given"
    assert given["economics"]["wafer_usd_per_hour"]["value"] == 60


def test_traces_take_prices(wse: Wse) -> None:
    plain, given = (
        _costs(wse, "compare", TRACE, TRACE, *price) for price in ((), ("--price", "wafer=60,b200=2,cs4=3"))
    )
    for before, after in zip(plain["rows"], given["rows"], strict=True):
        assert after["usd_per_million_tokens"] == pytest.approx(60 / 64.45 * before["usd_per_million_tokens"])
    assert given["prices"] == ["at 60 USD/h per wse2; given"]
