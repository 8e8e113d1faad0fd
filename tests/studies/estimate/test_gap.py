"""What separates a token from its bound: the rows add up to it, and the bound counts against its own cause."""

from __future__ import annotations

import pytest

from wse.studies.estimate.bounds.bound_row import BoundName, BoundRow
from wse.studies.estimate.bounds.gap import gap_rows
from wse.studies.results.phases import CyclesBy


def row(by: CyclesBy, bounds: dict[BoundName, float], op: str | None = None) -> BoundRow:
    limit = max(bounds, key=lambda name: bounds[name])
    cycles = sum(by.values())
    ratio = cycles / bounds[limit] if bounds[limit] else None
    return BoundRow(
        op=op, cycles=cycles, cycles_by=by, bounds=bounds, source="measured", sources={}, ratio=ratio,
        limit=limit if ratio else None,
    )  # fmt: skip


def bounds(**of: float) -> dict[BoundName, float]:
    return {"sram": 0, "arithmetic": 0, "hops": 0, "crossing": 0} | of


def by(**of: float) -> CyclesBy:
    return {"hops": 0, "relays": 0, "compute": 0, "launch": 0, "crossing": 0, "host": 0} | of


QKV = row(by(hops=100, compute=300, launch=40), bounds(hops=80, arithmetic=250), "qkv")
DOWN = row(by(hops=400, compute=60, launch=60), bounds(hops=350, arithmetic=20), "down")


@pytest.mark.parametrize(
    ("limits", "first", "beyond"),
    [
        ({"hops": 430.0, "arithmetic": 270.0}, "compute", {"compute": 360, "launch": 100, "hops": 70}),
        ({"hops": 260.0, "arithmetic": 270.0}, "hops", {"hops": 500, "launch": 100, "compute": 90}),
        ({"hops": 200.0, "sram": 270.0}, "hops", {"hops": 500, "launch": 100, "compute": 90}),
    ],
)
def test_the_bound_is_taken_from_its_own_cause(limits: dict[str, float], first: str, beyond: dict[str, float]) -> None:
    token = row(by(hops=500, compute=360, launch=100), bounds(**limits))
    assert token.limit is not None
    gap = gap_rows(token, (QKV, DOWN))
    assert {line.cause: line.cycles for line in gap} == beyond
    assert gap[0].cause == first
    assert [line.cycles for line in gap] == sorted((line.cycles for line in gap), reverse=True)
    bound = token.bounds[token.limit]
    assert sum(line.cycles for line in gap) == token.cycles - bound
    assert sum(line.share for line in gap) == pytest.approx(1)
    for line in gap:
        assert line.ratio_without == pytest.approx((token.cycles - line.cycles) / bound)


def test_ops_are_named_by_their_cycles_beyond_the_bound() -> None:
    """Hops: qkv has 20 of 70 beyond what it has of the bound, down 50; launches have no bound."""
    gap = {line.cause: line for line in gap_rows(row(by(hops=500, launch=100), bounds(hops=430)), (QKV, DOWN))}
    assert gap["hops"].ops == {"down": pytest.approx(50 / 70), "qkv": pytest.approx(20 / 70)}
    assert list(gap["launch"].ops.items()) == [("down", 0.6), ("qkv", 0.4)]


def test_a_token_without_a_bound_has_no_gap() -> None:
    assert gap_rows(row(by(launch=10), bounds()), ()) == ()
