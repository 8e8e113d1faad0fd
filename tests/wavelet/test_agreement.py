"""Tests of the fabric model against the wavelet simulator: equal link loads, cycles equal or within a few percent.

Where several streams share a link or a ramp, the fabric model computes the total delay, not the order of the words.
In the simulator, the queues between routers fill and drain, and meanwhile the streams do not alternate evenly.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
import pytest

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
from wse.studies.validate.agreement.layers import layers, prefill_layers, verify_layers
from wse.studies.validate.agreement.result import AgreementRow
from wse_mappings.patterns.sampling import Case, PlacedPattern
from wse_mappings.patterns.streams import point_to_point

CASES_PER_PATTERN = 1
FIRST = "chain"
"""The pattern that the smoke tests compare."""

EXACT = {
    "chain", "star", "ring_all_reduce", "cache_shift", "edge_stream", "multicast", "diagonal_multicast",
    "diagonal_stream", "gather", "gather in segments", "ring_shift", "ring_align", "snake",
}  # fmt: skip
MEDIAN_PCT, WORST_PCT, LAYERS_PCT = 1.0, 5.0, 2.0


def describe(row: AgreementRow) -> str:
    """Return a message with the case and the cycles of both models."""
    what = f"{row.pattern} on {row.rows}x{row.cols}, {row.words} words, {row.detail}, {row.wafer} {row.software}"
    return f"{what}: wavelets {row.wavelet_cycles}, fabric model {row.fast_cycles:.1f}, {row.error_pct:+.2f} %"


def check_layers(title: str, all_layers: Iterable[Any], wafer: str, profile: str) -> None:
    """Check that both models count the same words for each layer, and that cycles differ by at most `LAYERS_PCT`."""
    machine = load_wafer(wafer)
    for layer in all_layers:
        row = compare_layers(title, layer, machine, load_software(profile, machine.generation))
        assert row.loads_equal, describe(row)
        assert abs(row.error_pct) <= LAYERS_PCT, describe(row)


@cache
def compare_samples(pattern: str) -> list[AgreementRow]:
    """Compare both models on random cases of a pattern, on every wafer and with every software profile."""
    found = []
    for i, wafer in enumerate(GENERATIONS):
        machine = load_wafer(wafer)
        for j, profile in enumerate(PROFILES):
            software = load_software(profile, machine.generation)
            found += [compare(case, machine, software) for case in cases(pattern, CASES_PER_PATTERN, 100 + 2 * i + j)]
    return found


def with_smoke(patterns: Iterable[str]) -> list[Any]:
    """Return the patterns as parameters; `FIRST` is marked as a smoke test."""
    return [pytest.param(name, marks=[pytest.mark.smoke] if name == FIRST else []) for name in patterns]


@pytest.mark.parametrize("pattern", with_smoke(samples()))
def test_link_loads_are_equal_and_cycles_are_equal_or_close(pattern: str) -> None:
    """Cycles are equal for the patterns in `EXACT`, whose streams do not alternate on a link, and otherwise close."""
    rows = compare_samples(pattern)
    for row in rows:
        assert row.loads_equal, describe(row)
        if pattern in EXACT:
            assert row.fast_cycles == row.wavelet_cycles, describe(row)
        else:
            assert abs(row.error_pct) <= WORST_PCT or row.wavelet_cycles <= JUDGED_CYCLES, describe(row)
    judged = [abs(row.error_pct) for row in rows if row.wavelet_cycles > JUDGED_CYCLES]
    assert pattern in EXACT or np.median(judged) <= MEDIAN_PCT


def test_short_cases_differ_by_few_cycles() -> None:
    """The difference comes from words in the queues of a root: one queue and one ramp per colour."""
    for pattern in samples():
        for row in compare_samples(pattern):
            if row.wavelet_cycles <= JUDGED_CYCLES:
                assert abs(row.fast_cycles - row.wavelet_cycles) <= 9, describe(row)


@pytest.mark.parametrize(
    ("streams", "worst_pct", "wafer"),
    [
        (((42, 28), (39, 37), (62, 10), (79, 9)), 3.0, "wse2"),
        # One stream shares links with three others, with two of them at the same time.
        (((24, 40), (4, 53), (23, 28), (27, 32)), 6.0, "wse3"),
    ],
    ids=str,
)
def test_cycles_of_overlapping_streams_are_close(
    streams: tuple[tuple[int, int], ...], worst_pct: float, wafer: str
) -> None:
    """Two streams that share a link last longer, so that they also delay the third and the fourth stream for longer."""
    machine, schedule = load_wafer(wafer), point_to_point(83, 1, streams)
    placed = PlacedPattern(schedule=schedule, lines=((0, tuple((0, col) for col in range(83))),), words=90)
    case = Case(pattern="point_to_point", rows=1, cols=83, words=90, detail=str(streams), groups=((placed,),))
    row = compare(case, machine, load_software("tuned", machine.generation))
    assert row.loads_equal, describe(row)
    assert row.wavelet_cycles > JUDGED_CYCLES
    assert abs(row.error_pct) <= worst_pct, describe(row)


@pytest.mark.parametrize(("wafer", "profile"), [*zip(GENERATIONS, PROFILES, strict=False)])
def test_cycles_of_decode_layers_are_close(wafer: str, profile: str) -> None:
    """The first case is one layer with the baseline schedule. The second is three fused layers on two regions."""
    drawn = [*layers(4, 7 + PROFILES.index(profile))]
    check_layers("decode layers", (drawn[0], drawn[3]), wafer, profile)


@pytest.mark.parametrize("kind", ["latent attention", "experts and a block beside them"])
def test_cycles_of_rewritten_layers_of_each_kind_are_close(kind: str) -> None:
    """In the selected layers, attention uses some of the columns."""
    layer = next(one for one in layers(1000, 5) if (one.kind, one.schedule) == (kind, OPTIMIZED) and one.attention_cols)
    check_layers("decode layers", [layer], "wse3", "tuned")


def test_cycles_of_prefill_layers_are_close() -> None:
    check_layers("prefill layers", prefill_layers(2, 11 + PROFILES.index("tuned")), "wse3", "tuned")


def test_cycles_of_verify_layers_are_close() -> None:
    """The first case is one layer with the baseline schedule. The second is three fused layers on two regions."""
    drawn = [*verify_layers(4, 7 + PROFILES.index("academic"))]
    check_layers("verify layers", (drawn[0], drawn[3]), "wse3", "academic")
