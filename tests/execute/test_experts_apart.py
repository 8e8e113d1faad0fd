"""Experts on all wafers, apart from their layers: the same logits, and bytes to the wafers of chosen experts alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from compiled import compile_model
from dequantised import dequantised_tensors
from plain_router import MIXTURES, mixture_spec
from session import SOFTWARE, wafer
from tiny_model import tiny_spec
from wafer_runs import CHOICE, OPTIONS, wafer_run

from wse.backends.fabric.model import Fabric
from wse.compiler.passes.allocate import SramOverflow
from wse.compiler.pipeline import compile_choice
from wse.compiler.search.trial_setup import Layout, TrialSetup
from wse.compiler.search.trials import try_layout
from wse.errors import BadInput, BadMesh
from wse.hardware.spec import WaferSpec
from wse.program.memory_use import stage_bytes
from wse.program.program import Program
from wse.program.transfers.patterns import BetweenWafers
from wse.program.transfers.transfer_types import is_of_type
from wse.studies.results.sram import sram_result
from wse_mappings.cuts.expert_groups import DEDICATED, DISTRIBUTED, EXPERT_PLACEMENTS, expert_groups

PROMPT = (5, 9, 31, 7, 12, 40, 2)
SPEC = mixture_spec(MIXTURES["shared"], layers=3)
APART = replace(OPTIONS, mapping="expert", logits_out="none")
LAYER = 1


def compiled(machine: WaferSpec, wafers: int = 2, experts: str = DISTRIBUTED) -> Program:
    return compile_choice(SPEC, machine, SOFTWARE, replace(APART, wafers=wafers, experts=experts), CHOICE)


@pytest.mark.parametrize("experts", EXPERT_PLACEMENTS)
@pytest.mark.parametrize("mixture", MIXTURES)
def test_logits_are_those_of_a_plain_decoder_and_every_word_is_counted(mixture: str, experts: str) -> None:
    run = wafer_run(mixture_spec(MIXTURES[mixture], layers=2), (3, 4), 2, [PROMPT], mapping="expert", experts=experts)
    run.check()


@pytest.mark.parametrize("prompts", [[PROMPT], [PROMPT, (3, 8)]], ids=["one user", "two users"])
def test_three_wafers_agree_as_well(prompts: list[tuple[int, ...]]) -> None:
    run = wafer_run(SPEC, (4, 3), 3, prompts, mapping="expert", experts=DEDICATED)
    run.check()


def test_quantised_experts_answer_as_what_their_codes_stand_for() -> None:
    spec = replace(SPEC, hidden_size=64, dtype="float32")
    options = {"mapping": "expert", "dtype": "int8", "activations": "float32"}
    run = wafer_run(spec, (3, 4), 2, [PROMPT], source=dequantised_tensors(spec, "int8"), **options)
    run.check()


def test_vectors_cross_to_wafers_of_chosen_experts_and_sums_come_back() -> None:
    """Five experts on three wafers: 0 and 1, 2 and 3, 4. The layer is on the first or the second."""
    machine = wafer(4, 3, 1 << 20)
    program = compiled(machine, wafers=3)
    fabric, phase = Fabric(program, machine, SOFTWARE), program.decode
    home = next(stage.wafer for stage in program.stages if stage.first_layer <= LAYER < stage.last_layer)
    of_layer = np.array(program.op_layers)[phase.steps.op] == LAYER
    there, back = np.flatnonzero(
        of_layer & is_of_type(phase.steps, BetweenWafers) & phase.steps.depends_on_experts
    ).tolist()
    for chosen, reached in (([0, 1], {0}), ([0, 3], {0, 1}), ([4, 1], {0, 2}), ([2, 4], {1, 2})):
        pairs = np.isin(np.arange(5), chosen).astype(np.int64)
        cost = fabric.decode_cost(7, pairs={LAYER: pairs, 2: pairs})
        others = sorted(reached - {home})
        assert cost.used_crossings[there] == tuple((home, other) for other in others)
        assert cost.used_crossings[back] == tuple((other, home) for other in others)
        hidden_bytes = 4 * SPEC.hidden_size
        assert cost.traffic.bytes[[there, back]].tolist() == [len(others) * hidden_bytes] * 2
        seconds = machine.wafer_link_latency_s + len(others) * hidden_bytes / machine.wafer_link_bytes_per_s
        crossing = fabric.decode_cost(7, pairs={LAYER: pairs, 2: pairs}).by_cause[[there, back], 4]
        expected = seconds * machine.clock_hz if others else 0.0
        assert crossing.tolist() == pytest.approx([expected] * 2, abs=1)


def test_experts_stand_above_the_layers_in_the_same_sram() -> None:
    machine = wafer(3, 4, 1 << 20)
    program = compiled(machine)
    *homes, experts = program.stages
    assert [stage.wafer for stage in homes] == [0, 1]
    assert (experts.wafers, experts.rect) == (range(2), homes[0].rect)
    assert experts.sram_base_byte >= max(stage.sram_top_byte for stage in homes)
    held = {buffer.name for buffer in program.buffers if buffer.use == "weights" and ".experts." in buffer.name}
    assert {b.stage for b in program.buffers if b.name in held} == {2}
    for stage in range(3):
        uses = stage_bytes(program, stage, machine.sram_bytes_per_pe)
        assert sum(uses.values()) == machine.sram_bytes_per_pe
        assert uses["code"] == program.buffers[0].bytes
        assert uses["weights"] >= sum(b.bytes for b in program.buffers if b.stage in {stage, 2} and b.use == "weights")
    result = sram_result(program, machine.sram_bytes_per_pe)
    assert result.kv_capacity_tokens > program.context, "a stage without a cache has room for any"


def test_what_is_too_large_is_told_with_layers_and_experts_together() -> None:
    """What it needs is reported for the order of buffers with the fewest bytes, and fits."""
    with pytest.raises(SramOverflow, match=r"of stage 2 .* needs [0-9,]+ of 27,000 bytes") as told:
        compiled(wafer(3, 4, 27_000))
    needed = int(str(told.value).partition(" needs ")[2].partition(" of ")[0].replace(",", ""))
    assert compiled(wafer(3, 4, needed)).stages[2].sram_top_byte == needed
    with pytest.raises(SramOverflow, match=rf"needs {needed:,} of {needed - 4:,} bytes, 4 too many: code 19,968"):
        compiled(wafer(3, 4, needed - 4))


@pytest.mark.parametrize("wafers", [2, 3])
def test_a_trial_in_small_needs_the_bytes_of_the_whole(wafers: int) -> None:
    spec = mixture_spec(MIXTURES["shared"], layers=7)
    machine = wafer(3, 4, 1 << 20)
    setup = TrialSetup(spec=spec, wafer=machine, software=SOFTWARE, options=replace(APART, wafers=wafers), rewrites=())
    layout = Layout("expert", 1, 1)
    options, choice = setup.least_choice(layout, CHOICE.prefill)
    whole = compile_choice(spec, machine, SOFTWARE, options, choice)
    assert try_layout(setup, layout, CHOICE.prefill).needed_bytes == max(stage.sram_top_byte for stage in whole.stages)


@pytest.mark.parametrize("count", [5, 8])
@pytest.mark.parametrize("placement", EXPERT_PLACEMENTS)
def test_an_expert_is_on_one_wafer(placement: str, count: int) -> None:
    for each in range(1, 9):
        groups = expert_groups(each * 3, count, 10, placement, 3)
        assert {first // each for first, _ in groups.segments} == {0, 1, 2}
        assert all(first // each == (first + columns - 1) // each for first, columns in groups.segments)
        assert sorted(groups.rows[groups.rows >= 0].tolist()) == list(range(count * 10))


def test_models_without_experts_or_with_too_few_are_refused() -> None:
    machine = wafer(4, 4, 1 << 20)
    with pytest.raises(
        BadInput, match=r"--mapping expert: tiny has no experts to distribute over wafers; use --mapping"
    ):
        compile_model(tiny_spec(), machine, SOFTWARE, APART)
    with pytest.raises(BadMesh, match=r"--wafers 6: tiny has 5 experts .* choose at most 5"):
        compile_model(mixture_spec(MIXTURES["shared"], layers=7), machine, SOFTWARE, replace(APART, wafers=6))
