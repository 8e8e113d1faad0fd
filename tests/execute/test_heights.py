"""Regions of different rows: vectors are cut anew on their way, caches lie on as many rows as each region has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from session import SOFTWARE, wafer
from tiny_model import tiny_spec
from wafer_runs import CHOICE, OPTIONS, wafer_run

from wse.compiler.pipeline import compile_choice
from wse.fabric.model import Fabric
from wse.hardware.spec import WaferSpec
from wse.program.program import Program
from wse.wavelet.phase import phase_run

PROMPTS = [(3, 7, 1, 5, 2), (4, 9)]


def compiled_on(mesh: tuple[int, int], wafers: int, per_band: int) -> tuple[Program, WaferSpec]:
    machine = wafer(*mesh, 1 << 20)
    options = replace(OPTIONS, mapping="pipeline", wafers=wafers, context=40)
    return compile_choice(
        tiny_spec(layers=5), machine, SOFTWARE, options, replace(CHOICE, bands=2, per_band=per_band)
    ), machine


@pytest.mark.parametrize(
    ("mesh", "wafers", "per_band", "users"),
    [((12, 4), 1, 1, 1), ((13, 5), 1, 2, 1), ((11, 4), 2, 1, 1), ((11, 4), 2, 1, 2)],
)
def test_tokens_and_words_are_right_on_regions_of_different_rows(
    mesh: tuple[int, int], wafers: int, per_band: int, users: int
) -> None:
    choice = {"bands": 2, "per_band": per_band}
    run = wafer_run(tiny_spec(layers=5), mesh, wafers, PROMPTS[:users], 9, choice=choice, mapping="pipeline")
    assert len({stage.rect.rows for stage in run.program.stages}) > 1
    assert run.worst < 1e-5
    assert run.links_agree


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
