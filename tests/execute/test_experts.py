"""Tests of mixtures of experts, in the regions of their layers or in a region of their own: logits, words and bytes."""

from dataclasses import replace

import numpy as np
import pytest
from compiled import compile_model
from dequantised import dequantised_tensors
from plain_router import MIXTURES, mixture_spec
from session import SOFTWARE, Session, check_traffic, region_options, wafer
from tiers import slow_but
from tiny_model import tiny_spec
from tiny_run import tiny_session, worst_logit_error
from wafer_runs import CHOICE, OPTIONS, wafer_run

from wse.backends.fabric.expert_columns import ASSUMED
from wse.backends.fabric.model import Fabric
from wse.backends.fabric.phase_cost import PhaseCost
from wse.backends.wavelet.phases.mesh_state import check_size
from wse.backends.wavelet.phases.phase import phase_run
from wse.compiler.choice import Choice
from wse.compiler.options import BASELINE, OPTIMIZED, THIN_GEMM
from wse.compiler.passes.allocate import SramOverflow
from wse.compiler.pipeline import compile_choice
from wse.compiler.search.remedies import remedies
from wse.compiler.search.trials.trial_setup import Layout, TrialSetup
from wse.compiler.search.trials.try_layout import try_layout
from wse.errors import BadInput, BadMesh
from wse.hardware.spec import WaferSpec
from wse.program.memory_use import stage_bytes
from wse.program.program import Program
from wse.program.transfers.patterns import BetweenWafers
from wse.program.transfers.transfer_types import is_of_type
from wse.studies.results.sram import sram_result
from wse_mappings.cuts.expert_groups import DEDICATED, DISTRIBUTED, EXPERT_PLACEMENTS, expert_groups

PROMPT, FOLLOWING = [5, 17, 40, 9, 33, 21, 8], [60, 4, 29]


def expert_session(mesh: tuple[int, int], experts: str, mixture: str = "shared", wafers: int = 1) -> Session:
    """Return a session of a three-layer mixture with prompt chunks of 4 and 3 tokens."""
    spec = mixture_spec(MIXTURES[mixture], layers=3)
    return tiny_session(spec, mesh, THIN_GEMM, PROMPT, 3, chunk=4, wafers=wafers, experts=experts)


def costs_of_executed_passes(run: Session) -> list[PhaseCost]:
    """Execute the prompt and two tokens; return the fabric cost of each pass with the experts that were selected."""
    fabric, engine = run.fabric(), run.engine
    found = [fabric.prefill_cost(index, dict(engine.routing.pairs)) for index in engine.prefill(PROMPT)]
    for i, token in enumerate(FOLLOWING[:-1]):
        engine.decode([token])
        found.append(fabric.decode_cost(len(PROMPT) + i, expert_tokens=dict(engine.routing.pairs)))
    return found


PLACED = [(experts, mixture) for experts in EXPERT_PLACEMENTS for mixture in MIXTURES]
IN_GROUPS = [(experts, "shared") for experts in ("3", "grouped")]


@pytest.mark.parametrize(("experts", "mixture"), [*PLACED, *IN_GROUPS], ids=str)
def test_logits_are_those_of_the_plain_decoder(experts: str, mixture: str) -> None:
    spec = mixture_spec(MIXTURES[mixture])
    assert worst_logit_error(spec, (4, 5), prompt=7, new_tokens=3, chunk=4, experts=experts) < 1e-5


@pytest.mark.parametrize("experts", [*EXPERT_PLACEMENTS, "2"])
@pytest.mark.parametrize(
    ("mesh", "wafers"),
    [((3, 4), 2), ((3, 11), 1), ((9, 5), 1)],
    ids=["two wafers", "more columns", "rows that share activation"],
)
def test_link_words_are_those_of_the_selected_experts(mesh: tuple[int, int], wafers: int, experts: str) -> None:
    run = expert_session(mesh, experts, wafers=wafers)
    costs = costs_of_executed_passes(run)
    check_traffic(run.engine, costs)


@pytest.mark.parametrize("cols", [12, 18, 20])
def test_selected_experts_do_not_depend_on_the_schedule(cols: int) -> None:
    """The optimized schedule has two, three or four segments of columns; only the middle one selects experts."""
    pairs_by_token = []
    for schedule in (BASELINE, OPTIMIZED):
        spec = mixture_spec(MIXTURES["shared"], layers=3)
        run = tiny_session(spec, (4, cols), THIN_GEMM, PROMPT, 3, chunk=4, experts=DEDICATED, schedule=schedule)
        run.read()
        for token in FOLLOWING:
            run.engine.decode([token])
            pairs_by_token.append({layer: pairs.tolist() for layer, pairs in run.engine.routing.pairs.items()})
    assert pairs_by_token[: len(FOLLOWING)] == pairs_by_token[len(FOLLOWING) :]
    assert all(sum(pairs) == MIXTURES["shared"].active for layers in pairs_by_token for pairs in layers.values())


def test_column_with_more_pairs_needs_more_cycles_and_as_many_words() -> None:
    # Experts 0 and 1 are on the first column, 2 and 3 on the second, 4 on the third.
    run = expert_session((3, 3), DEDICATED)
    fabric, layers = run.fabric(), [1, 2]
    apart, together = (
        fabric.decode_cost(7, expert_tokens=dict.fromkeys(layers, np.array(pairs)))
        for pairs in ([1, 0, 1, 0, 0], [1, 1, 0, 0, 0])
    )
    assert together.cycles > apart.cycles
    assert together.links.sum() == apart.links.sum()
    assert fabric.decode_cost(7, expert_tokens=ASSUMED).cycles == apart.cycles


def test_cost_of_distributed_experts_does_not_depend_on_the_selection() -> None:
    run = expert_session((3, 3), DISTRIBUTED)
    fabric = run.fabric()
    skewed = fabric.decode_cost(7, expert_tokens={1: np.array([0, 0, 0, 1, 1]), 2: np.array([1, 1, 0, 0, 0])})
    assert skewed.cycles == fabric.decode_cost(7).cycles
    assert np.array_equal(skewed.links, fabric.decode_cost(7).links)


def test_wavelets_count_distributed_experts_and_refuse_dedicated_ones() -> None:
    run = expert_session((3, 4), DISTRIBUTED)
    decode = run.program.decode
    wavelet_run = phase_run(run.program, decode, [7], run.machine, SOFTWARE)
    cost = run.fabric().decode_cost(7)
    assert np.array_equal(wavelet_run.links, cost.links)
    dedicated = expert_session((3, 4), DEDICATED)
    with pytest.raises(BadInput, match=r"does not support experts on columns of their own.*use --experts distributed"):
        phase_run(dedicated.program, dedicated.program.decode, [7], dedicated.machine, SOFTWARE)
    with pytest.raises(BadInput, match=r"use --experts distributed"):
        check_size(dedicated.program, dedicated.machine)


def test_remedies_name_distributed_experts_if_only_these_fit() -> None:
    """With three experts on four columns, one expert is divided over two columns and the others have one each."""
    spec = mixture_spec(replace(MIXTURES["one expert, weighed on its way in"], ffn_size=120))
    options = region_options(context=8, prompt_tokens=(4,), experts=DEDICATED)

    def bytes_of(placement: str) -> int:
        choice = Choice(prefill=THIN_GEMM, prefill_chunk=1, head_chunk=16)
        chosen = replace(options, experts=placement, prompt_tokens=(1,))
        return compile_choice(spec, wafer(2, 4, 1 << 20), SOFTWARE, chosen, choice).stages[0].sram_top_byte

    machine = wafer(2, 4, (bytes_of(DISTRIBUTED) + bytes_of(DEDICATED)) // 2)
    assert "--experts distributed" in remedies(spec, machine, machine, SOFTWARE, options)
    assert "--experts distributed" not in remedies(
        spec, machine, machine, SOFTWARE, replace(options, experts=DISTRIBUTED)
    )


EXPERTS_APART_PROMPT = (5, 9, 31, 7, 12, 40, 2)
SPEC = mixture_spec(MIXTURES["shared"], layers=3)
EXPERT_OPTIONS = replace(OPTIONS, mapping="expert", logits_out="none")
LAYER = 1


def compiled(machine: WaferSpec, wafers: int = 2, experts: str = DISTRIBUTED) -> Program:
    """Return a Program of the mixture with `--mapping expert`."""
    return compile_choice(SPEC, machine, SOFTWARE, replace(EXPERT_OPTIONS, wafers=wafers, experts=experts), CHOICE)


@pytest.mark.parametrize("experts", EXPERT_PLACEMENTS)
@pytest.mark.parametrize("mixture", slow_but(MIXTURES, "shared", "softmax", "biased"))
def test_expert_mapping_logits_are_those_of_the_plain_decoder(mixture: str, experts: str) -> None:
    run = wafer_run(
        mixture_spec(MIXTURES[mixture], layers=2), (3, 4), 2, [EXPERTS_APART_PROMPT], mapping="expert", experts=experts
    )
    run.check()


def test_quantised_expert_mapping_logits_are_those_of_the_dequantised_weights() -> None:
    spec = replace(SPEC, hidden_size=64, dtype="float32")
    options = {"mapping": "expert", "dtype": "int8", "activations": "float32"}
    run = wafer_run(spec, (3, 4), 2, [EXPERTS_APART_PROMPT], source=dequantised_tensors(spec, "int8"), **options)
    run.check()


def test_vectors_cross_to_wafers_of_selected_experts_and_sums_return() -> None:
    """Three wafers have experts 0 and 1, 2 and 3, and 4. Layer 1 is on the first or the second wafer."""
    machine = wafer(4, 3, 1 << 20)
    program = compiled(machine, wafers=3)
    fabric, phase = Fabric(program, machine, SOFTWARE), program.decode
    home = next(stage.wafer for stage in program.stages if stage.first_layer <= LAYER < stage.last_layer)
    is_in_layer = np.array(program.op_layers)[phase.steps.op] == LAYER
    outward_step, return_step = np.flatnonzero(
        is_in_layer & is_of_type(phase.steps, BetweenWafers) & phase.steps.depends_on_experts
    ).tolist()
    for chosen, reached in (([0, 1], {0}), ([0, 3], {0, 1}), ([4, 1], {0, 2}), ([2, 4], {1, 2})):
        pairs = np.isin(np.arange(5), chosen).astype(np.int64)
        cost = fabric.decode_cost(7, expert_tokens={LAYER: pairs, 2: pairs})
        others = sorted(reached - {home})
        assert cost.used_crossings[outward_step] == tuple((home, other) for other in others)
        assert cost.used_crossings[return_step] == tuple((other, home) for other in others)
        hidden_bytes = 4 * SPEC.hidden_size
        assert cost.traffic.bytes[[outward_step, return_step]].tolist() == [len(others) * hidden_bytes] * 2
        seconds = machine.wafer_link_latency_s + len(others) * hidden_bytes / machine.wafer_link_bytes_per_s
        crossing = fabric.decode_cost(7, expert_tokens={LAYER: pairs, 2: pairs}).by_cause[
            [outward_step, return_step], 4
        ]
        expected = seconds * machine.clock_hz if others else 0.0
        assert crossing.tolist() == pytest.approx([expected] * 2, abs=1)


def test_experts_are_stored_above_the_layers_in_the_same_sram() -> None:
    machine = wafer(3, 4, 1 << 20)
    program = compiled(machine)
    *homes, experts = program.stages
    assert [stage.wafer for stage in homes] == [0, 1]
    assert (experts.wafers, experts.rect) == (range(2), homes[0].rect)
    assert experts.sram_base_byte >= max(stage.sram_top_byte for stage in homes)
    expert_weights = {
        buffer.name for buffer in program.buffers if buffer.use == "weights" and ".experts." in buffer.name
    }
    assert {b.stage for b in program.buffers if b.name in expert_weights} == {2}
    for stage in range(3):
        uses = stage_bytes(program, stage, machine.sram_bytes_per_pe)
        assert sum(uses.values()) == machine.sram_bytes_per_pe
        assert uses["code"] == program.buffers[0].bytes
        assert uses["weights"] >= sum(b.bytes for b in program.buffers if b.stage in {stage, 2} and b.use == "weights")
    result = sram_result(program, machine.sram_bytes_per_pe)
    assert result.kv_capacity_tokens > program.context, "a stage without a cache does not limit the capacity"


def test_overflow_message_counts_layers_and_experts_together() -> None:
    """The reported bytes are those of the order of buffers with the fewest bytes, and a Program of this size fits."""
    with pytest.raises(SramOverflow, match=r"of stage 2 .* needs [0-9,]+ of 27,000 bytes") as error:
        compiled(wafer(3, 4, 27_000))
    needed = int(str(error.value).partition(" needs ")[2].partition(" of ")[0].replace(",", ""))
    assert compiled(wafer(3, 4, needed)).stages[2].sram_top_byte == needed
    with pytest.raises(
        SramOverflow, match=rf"needs {needed:,} of {needed - 4:,} bytes, 4 too many: code, stack and runtime 19,968"
    ):
        compiled(wafer(3, 4, needed - 4))


@pytest.mark.parametrize("wafers", [2, 3])
def test_trial_on_a_reduced_model_needs_the_bytes_of_the_full_model(wafers: int) -> None:
    spec = mixture_spec(MIXTURES["shared"], layers=7)
    machine = wafer(3, 4, 1 << 20)
    setup = TrialSetup(
        spec=spec, wafer=machine, software=SOFTWARE, options=replace(EXPERT_OPTIONS, wafers=wafers), rewrites=()
    )
    layout = Layout("expert", 1, 1)
    options, choice = setup.smallest_choice(layout, CHOICE.prefill)
    full_program = compile_choice(spec, machine, SOFTWARE, options, choice)
    assert try_layout(setup, layout, CHOICE.prefill).needed_bytes == max(
        stage.sram_top_byte for stage in full_program.stages
    )


@pytest.mark.parametrize("count", [5, 8])
@pytest.mark.parametrize("placement", EXPERT_PLACEMENTS)
def test_every_expert_is_on_one_wafer(placement: str, count: int) -> None:
    for columns_per_wafer in range(1, 9):
        groups = expert_groups(columns_per_wafer * 3, count, 10, placement, 3)
        assert {first // columns_per_wafer for first, _ in groups.segments} == {0, 1, 2}
        assert all(
            first // columns_per_wafer == (first + columns - 1) // columns_per_wafer
            for first, columns in groups.segments
        )
        assert sorted(groups.rows[groups.rows >= 0].tolist()) == list(range(count * 10))


def test_models_without_experts_or_with_too_few_are_refused() -> None:
    machine = wafer(4, 4, 1 << 20)
    with pytest.raises(
        BadInput, match=r"--mapping expert: tiny has no experts to distribute over wafers; use --mapping"
    ):
        compile_model(tiny_spec(), machine, SOFTWARE, EXPERT_OPTIONS)
    with pytest.raises(BadMesh, match=r"--wafers 6: tiny has 5 experts .* choose at most 5"):
        compile_model(mixture_spec(MIXTURES["shared"], layers=7), machine, SOFTWARE, replace(EXPERT_OPTIONS, wafers=6))
