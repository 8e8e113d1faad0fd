"""Regions of different rows: vectors are cut anew in transit, caches lie on as many rows as each region has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from dequantised import dequantised_tensors
from session import SOFTWARE, wafer
from tiny_model import tiny_spec
from wafer_runs import CHOICE, OPTIONS, wafer_run

from wse.backends.fabric.model import Fabric
from wse.backends.wavelet.phases.phase import phase_run
from wse.compiler.options import OPTIMIZED
from wse.compiler.pipeline import compile_choice
from wse.hardware.spec import WaferSpec
from wse.program.program import Program

PROMPTS = [(3, 7, 1, 5, 2), (4, 9)]


def compiled_on(mesh: tuple[int, int], wafers: int, per_band: int) -> tuple[Program, WaferSpec]:
    machine = wafer(*mesh, 1 << 20)
    options = replace(OPTIONS, mapping="pipeline", wafers=wafers, context=40, schedule=OPTIMIZED)
    return compile_choice(
        tiny_spec(layers=5), machine, SOFTWARE, options, replace(CHOICE, bands=2, per_band=per_band)
    ), machine


@pytest.mark.parametrize(
    ("mesh", "wafers", "per_band", "users"),
    [((12, 4), 1, 1, 1), ((13, 5), 1, 2, 1), ((11, 4), 2, 1, 1), ((11, 4), 2, 1, 2)],
)
def test_tokens_and_words_on_regions_of_unlike_rows(
    mesh: tuple[int, int], wafers: int, per_band: int, users: int
) -> None:
    held: dict[str, Any] = {"choice": {"bands": 2, "per_band": per_band}, "mapping": "pipeline", "schedule": OPTIMIZED}
    run = wafer_run(tiny_spec(layers=5), mesh, wafers, PROMPTS[:users], 9, **held)
    assert len({stage.rect.rows for stage in run.program.stages}) > 1
    run.check()


@pytest.mark.parametrize(("mesh", "layers"), [((11, 4), 3), ((19, 4), 3), ((23, 4), 2)])
def test_vectors_that_rows_cut_at_groups_are_cut_anew(mesh: tuple[int, int], layers: int) -> None:
    """64 features in two groups of int4: 11, 11 and 10 of each where there are six rows, 16 and 16 where five."""
    spec = tiny_spec(hidden=64, layers=layers)
    held: dict[str, Any] = {"dtype": "int4", "activations": "float32", "mapping": "pipeline", "schedule": OPTIMIZED}
    run = wafer_run(spec, mesh, 1, PROMPTS[:1], 5, dequantised_tensors(spec, "int4"), choice={"bands": 2}, **held)
    assert len({stage.rect.rows for stage in run.program.stages}) == 2
    gains = [part.inner for tile in run.program.tiles for part in tile.parts if part.tensor.endswith("norm")]
    assert all((index[:, 0] % 32 == 0).sum() == 2 for index in gains)
    run.check()


@pytest.mark.parametrize(("mesh", "wafers", "per_band"), [((12, 4), 1, 1), ((11, 6), 1, 2), ((11, 4), 2, 1)])
def test_wavelets_take_as_many_cycles_over_the_same_links(mesh: tuple[int, int], wafers: int, per_band: int) -> None:
    program, machine = compiled_on(mesh, wafers, per_band)
    fabric = Fabric(program, machine, SOFTWARE)
    for phase, cost, length in (
        (program.prefill[0], fabric.prefill_cost(0), 0),
        (program.decode, fabric.decode_cost(30), 30),
    ):
        run = phase_run(program, phase, [length], machine, SOFTWARE)
        on_mesh = cost.cycles - cost.cause("host") - cost.cause("crossing")
        np.testing.assert_array_equal(run.links, cost.links)
        assert run.cycles == pytest.approx(on_mesh, rel=0.1)
