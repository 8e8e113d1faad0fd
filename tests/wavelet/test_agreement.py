"""The fabric model against the wavelets: link loads exactly, cycles exactly or within a few percent.

Where streams take turns on a link or a ramp the fabric model says what that comes to, not which word goes when: the
queues between two routers hold a few words each, and while they fill and empty the turns are not even.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
import pytest
from tiers import slow_but

from wse.compiler.options import OPTIMIZED
from wse.hardware.generations import GENERATIONS
from wse.hardware.load import load_software, load_wafer
from wse.studies.validate.agreement.against_wavelet import (
    JUDGED_CYCLES,
    PROFILES,
    cases,
    compare,
    compare_layers,
    samples,
)
from wse.studies.validate.agreement.layers import KINDS, layers, prefill_layers, verify_layers
from wse.studies.validate.agreement.result import AgreementRow
from wse_mappings.patterns.point_to_point import point_to_point
from wse_mappings.patterns.sampling import Case, PlacedPattern

CASES_PER_PATTERN = 1
FIRST = "chain"
"""The pattern that the smoke tests look at."""

EXACT = {
    "chain", "star", "ring_all_reduce", "cache_shift", "edge_stream", "multicast", "diagonal_multicast",
    "diagonal_stream", "gather", "gather in segments", "ring_shift", "ring_align", "snake",
}  # fmt: skip
MEDIAN_PCT, WORST_PCT, LAYERS_PCT = 1.0, 5.0, 2.0


def told(row: AgreementRow) -> str:
    what = f"{row.pattern} on {row.rows}x{row.cols}, {row.words} words, {row.detail}, {row.wafer} {row.software}"
    return f"{what}: wavelets {row.wavelet_cycles}, fast {row.fast_cycles:.1f}, {row.error_pct:+.2f} %"


def check_layers(title: str, wanted: Iterable[Any], wafer: str, profile: str) -> None:
    machine = load_wafer(wafer)
    for one in wanted:
        row = compare_layers(title, one, machine, load_software(profile, machine.generation))
        assert row.loads_equal, told(row)
        assert abs(row.error_pct) <= LAYERS_PCT, told(row)


@cache
def compared(pattern: str) -> list[AgreementRow]:
    found = []
    for i, wafer in enumerate(GENERATIONS):
        machine = load_wafer(wafer)
        for j, profile in enumerate(PROFILES):
            software = load_software(profile, machine.generation)
            found += [compare(case, machine, software) for case in cases(pattern, CASES_PER_PATTERN, 100 + 2 * i + j)]
    return found


def with_smoke(patterns: Iterable[str]) -> list[Any]:
    """The patterns as parameters, `FIRST` a smoke test."""
    return [pytest.param(name, marks=[pytest.mark.smoke] if name == FIRST else []) for name in patterns]


@pytest.mark.parametrize("pattern", with_smoke(samples()))
def test_link_loads_are_equal_and_cycles_where_no_streams_take_turns(pattern: str) -> None:
    """And cycles are close where they do."""
    rows = compared(pattern)
    for row in rows:
        assert row.loads_equal, told(row)
        if pattern in EXACT:
            assert row.fast_cycles == row.wavelet_cycles, told(row)
        else:
            assert abs(row.error_pct) <= WORST_PCT or row.wavelet_cycles <= JUDGED_CYCLES, told(row)
    judged = [abs(row.error_pct) for row in rows if row.wavelet_cycles > JUDGED_CYCLES]
    assert pattern in EXACT or np.median(judged) <= MEDIAN_PCT


def test_short_configurations_are_a_few_cycles_apart_at_most() -> None:
    """Words that wait in the queues of a root: those of a queue and its ramp, for each colour that comes to it."""
    for pattern in samples():
        for row in compared(pattern):
            if row.wavelet_cycles <= JUDGED_CYCLES:
                assert abs(row.fast_cycles - row.wavelet_cycles) <= 9, told(row)


@pytest.mark.parametrize("wafer", GENERATIONS)
@pytest.mark.parametrize(
    ("streams", "worst_pct"),
    [
        (((42, 28), (39, 37), (62, 10), (79, 9)), 3.0),
        (((24, 40), (4, 53), (23, 28), (27, 32)), 6.0),  # a stream meets three, of which two come at once
        (((42, 28), (39, 37), (62, 10)), 3.0),
    ],
    ids=str,
)
def test_a_stream_finds_more_turns_before_it(
    streams: tuple[tuple[int, int], ...], worst_pct: float, wafer: str
) -> None:
    """Two that take turns last twice as long, so that a third and a fourth find more of them than if they did not."""
    machine, schedule = load_wafer(wafer), point_to_point(83, 1, streams)
    laid = PlacedPattern(schedule=schedule, lines=((0, tuple((0, col) for col in range(83))),), words=90)
    case = Case(pattern="point_to_point", rows=1, cols=83, words=90, detail=str(streams), groups=((laid,),))
    row = compare(case, machine, load_software("tuned", machine.generation))
    assert row.loads_equal, told(row)
    assert row.wavelet_cycles > JUDGED_CYCLES
    assert abs(row.error_pct) <= worst_pct, told(row)


@pytest.mark.parametrize(("wafer", "profile"), [*zip(GENERATIONS, PROFILES, strict=False)])
def test_a_decode_layer_is_the_sum_of_such_steps(wafer: str, profile: str) -> None:
    """One layer with the baseline schedule, and three with the fused one, one after another on two regions."""
    drawn = [*layers(4, 7 + PROFILES.index(profile))]
    check_layers("decode layers", (drawn[0], drawn[3]), wafer, profile)


@pytest.mark.parametrize("kind", slow_but(KINDS, "latent attention", "experts and a block beside them"))
def test_so_is_a_rewritten_one_of_each_kind_with_attention_on_some_columns(kind: str) -> None:
    wanted = next(
        one for one in layers(1000, 5) if (one.kind, one.schedule) == (kind, OPTIMIZED) and one.attention_cols
    )
    check_layers("decode layers", [wanted], "wse3", "tuned")


@pytest.mark.parametrize(
    ("wafer", "profile"), [("wse3", "tuned"), pytest.param("wse2", "academic", marks=pytest.mark.slow)]
)
def test_a_prefill_layer_has_rounds_that_overlap(wafer: str, profile: str) -> None:
    check_layers("prefill layers", prefill_layers(3, 11 + PROFILES.index(profile)), wafer, profile)


@pytest.mark.parametrize(("wafer", "profile"), [*zip(GENERATIONS, PROFILES, strict=False)])
def test_a_pass_over_several_tokens_is_the_sum_of_such_steps(wafer: str, profile: str) -> None:
    """One layer with the baseline schedule, and three with the fused one, one after another on two regions."""
    drawn = [*verify_layers(4, 7 + PROFILES.index(profile))]
    check_layers("verify layers", (drawn[0], drawn[3]), wafer, profile)
