"""Tests of regions that span wafers, and of engines that run the wafers of a Program separately."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from compiled import compile_model
from dequantised import dequantised_tensors
from plain_router import MIXTURES, mixture_spec
from session import SOFTWARE, wafer
from tiers import slow_but
from tiny_model import latent_spec, tensors, tiny_spec
from trait_specs import POSITIONS, norms_spec
from wafer_runs import CHOICE, OPTIONS, wafer_run

from wse.backends.execute.calls.segments import may_overlap, segments
from wse.backends.execute.engine import Engine, chunk_of
from wse.backends.execute.engine_part import EnginePart
from wse.backends.fabric.model import Fabric
from wse.backends.wavelet.phases.phase import phase_run
from wse.compiler.lowering import sums
from wse.compiler.options import MESH_GEMM
from wse.compiler.pipeline import compile_choice
from wse.errors import BadInput, WseBug
from wse.models.spec import ModelSpec
from wse.program.program import Program
from wse.program.steps import HOST
from wse.program.transfers.patterns import BetweenWafers
from wse.program.transfers.transfer_types import crossings_of, is_of_type, transfer_of

PROMPT = (5, 9, 31, 7, 12, 40, 2)
NORMS = norms_spec(kv_heads=1)
CASES: dict[str, tuple[Any, tuple[int, int], int, dict[str, Any]]] = {
    "heads of whole wafers": (tiny_spec(kv_heads=3), (4, 3), 2, {}),
    "more wafers than heads": (tiny_spec(), (4, 3), 3, {}),
    "more heads than columns": (tiny_spec(heads=10, kv_heads=5), (3, 2), 2, {}),
    "untied": (tiny_spec(tied=False), (1, 5), 3, {}),
    "one column": (tiny_spec(), (3, 1), 3, {}),
    "drawn by the host": (tiny_spec(), (4, 3), 2, {"sampling": "host"}),
    "biases and positions": (POSITIONS, (4, 5), 3, {}),
    "one kv head, normalised": (NORMS, (3, 4), 2, {}),
    "latent": (latent_spec(), (4, 3), 3, {}),
    "experts": (mixture_spec(MIXTURES["shared"]), (3, 3), 2, {}),
    "dedicated experts": (mixture_spec(MIXTURES["biased"]), (3, 3), 2, {"experts": "dedicated"}),
}


@pytest.mark.parametrize("name", CASES)
def test_logits_are_those_of_the_plain_decoder_and_every_word_is_counted(name: str) -> None:
    spec, mesh, wafers, options = CASES[name]
    run = wafer_run(spec, mesh, wafers, [PROMPT], **options)
    run.check()
    assert len(run.program.stages) == 1
    assert {cost.links.any(axis=(1, 2, 3)).all() for cost in run.costs} == {True}, "every wafer moves words"


def between_wafers(program: Program) -> list[BetweenWafers]:
    """Return the transfers between wafers of a decoded token."""
    phase = program.decode
    steps = np.flatnonzero(is_of_type(phase.steps, BetweenWafers)).tolist()
    transfers = [transfer_of(program, phase, step, program.cache_slots(9)) for step in steps]
    return [transfer for transfer in transfers if isinstance(transfer, BetweenWafers)]


def test_batch_crosses_wafers_in_the_same_steps() -> None:
    """Two users send twice the bytes of one user in the same number of steps."""
    two, one = (wafer_run(tiny_spec(), (4, 3), 2, prompts) for prompts in ([PROMPT, (3, 8)], [PROMPT]))
    two.check()
    decoded = [run.costs[-1].traffic.bytes[is_of_type(run.program.decode.steps, BetweenWafers)] for run in (two, one)]
    assert decoded[0].tolist() == (2 * decoded[1]).tolist()


@pytest.mark.parametrize("coding", ["int8", "int4"])
def test_quantised_logits_are_those_of_the_dequantised_weights(coding: str) -> None:
    spec = tiny_spec(hidden=72, heads=6, kv_heads=2, head_size=12, ffn=100)
    run = wafer_run(
        spec, (3, 3), 2, [PROMPT], source=dequantised_tensors(spec, coding), dtype=coding, activations="float32"
    )
    run.check()


def test_bytes_that_cross_are_those_of_megatron_tensor_parallelism() -> None:
    """Each layer has two all-reduces of a hidden vector, the embedding one, and the largest logit one of a pair."""
    spec = tiny_spec(layers=3)
    run = wafer_run(spec, (4, 3), 2, [PROMPT], steps=1)
    hidden_bytes, pair_bytes = 4 * spec.hidden_size, 8
    one_way = (2 * spec.layer_count + 1) * hidden_bytes + pair_bytes
    crossings = run.costs[-1].traffic.bytes[is_of_type(run.program.decode.steps, BetweenWafers)]
    assert int(crossings.sum()) == 2 * one_way
    seconds = len(crossings) * run.machine.wafer_link_latency_s + one_way / run.machine.wafer_link_bytes_per_s
    assert run.costs[-1].cause("crossing") == pytest.approx(seconds * run.machine.clock_hz, abs=len(crossings))


@pytest.mark.parametrize(
    ("constants", "rounds"),
    [
        ({}, 1),
        ({"wafer_link_latency_s": 0.0}, 2),
        ({"wafer_link_latency_s": 0.0, "hop_cycles": 400}, 1),
        ({"wafer_link_latency_s": 0.0, "mesh_cols": 400}, 2),
    ],
    ids=["latency", "no latency", "slow hops", "region narrower than the wafer"],
)
@pytest.mark.parametrize("wafers", [2, 3, 5])
def test_sums_between_wafers_use_the_fastest_exchange(
    wafers: int, constants: dict[str, float], rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two rounds of 1 / wafers of the elements are used only if the pass is then faster than with one round."""
    machine = replace(wafer(3, 3, 1 << 20), **constants)

    def fastest_pass() -> tuple[float, list[int]]:
        options = replace(OPTIONS, wafers=wafers, region=(3, 3))
        program = compile_choice(tiny_spec(hidden=60), machine, SOFTWARE, options, CHOICE)
        step = next(step for step in between_wafers(program) if step.site.rows == 3)
        return Fabric(program, machine, SOFTWARE).decode_cost(9).by_cause.sum(), [step.rounds, step.part, step.bytes]

    cycles, exchange = fastest_pass()
    assert exchange == ([1, 20, 240] if rounds == 1 else [2, -(-20 // wafers), 2 * 4 * -(-60 // wafers)])
    monkeypatch.setattr(sums, "_exchange_cycles", lambda c, element_bytes, tried, *rest: tried == rounds)
    assert fastest_pass()[0] > cycles


def test_words_of_sums_in_two_rounds_are_counted() -> None:
    without_latency = {"wafer_link_latency_s": 0.0}
    run = wafer_run(tiny_spec(), (4, 3), 3, [PROMPT], machine=without_latency)
    assert any(step.rounds == 2 for step in between_wafers(run.program))
    run.check()


@pytest.mark.parametrize(("name", "spec"), [("tensor", tiny_spec()), ("expert", mixture_spec(MIXTURES["shared"]))])
def test_mappings_over_wafers_equal_the_region_mapping_on_one_wafer(name: str, spec: ModelSpec) -> None:
    region, other = (
        compile_choice(spec, wafer(4, 5, 1 << 20), SOFTWARE, replace(OPTIONS, wafers=1, mapping=mapping), CHOICE)
        for mapping in ("region", name)
    )
    assert other.digest() == replace(region, mapping_name=name).digest()


def test_region_over_wafers_refuses_mesh_gemm_and_wavelets() -> None:
    machine = wafer(4, 4, 1 << 20)
    with pytest.raises(
        BadInput, match=r"mesh-gemm does not support --mapping tensor on several wafers, which tiny has"
    ):
        compile_model(tiny_spec(), machine, SOFTWARE, replace(OPTIONS, prefill=MESH_GEMM))
    program = compile_choice(tiny_spec(), machine, SOFTWARE, OPTIONS, CHOICE)
    with pytest.raises(BadInput, match=r"does not support a region that spans wafers: use --mapping region"):
        phase_run(program, program.decode, [7], machine, SOFTWARE)


def test_more_wafers_than_layers_are_accepted() -> None:
    program = compile_model(tiny_spec(layers=1), wafer(4, 4, 1 << 20), SOFTWARE, replace(OPTIONS, wafers=3))
    assert program.stages[0].span == 3
    crossings = {pair for _, pairs in crossings_of(program, program.decode) for pair in pairs}
    assert crossings >= {(a, b) for a in range(3) for b in range(3) if a != b} | {(0, HOST)}


def test_logits_leave_all_wafers_at_the_same_time() -> None:
    """Each wafer has its own link to the host, so three wafers need about a third of the time of one."""
    spec = tiny_spec(vocab=72)
    slow = replace(wafer(4, 3, 1 << 20), host_bytes_per_s=1e5)
    waits = []
    for wafers in (1, 3):
        program = compile_choice(spec, slow, SOFTWARE, replace(OPTIONS, wafers=wafers), replace(CHOICE, head_chunk=24))
        waits.append(Fabric(program, slow, SOFTWARE).decode_cost(7).cause("host"))
    assert waits[1] == pytest.approx(waits[0] / 3, rel=0.01)


PROMPTS = ((5, 9, 31, 7, 12, 40, 2), (3, 11))
ENGINE_PART_CASES: dict[str, tuple[ModelSpec, tuple[int, int], int, dict[str, Any]]] = {
    "ring": (tiny_spec(), (4, 3), 2, {}),
    "untied": (tiny_spec(tied=False, layers=3), (4, 3), 3, {}),
    "several blocks a row": (tiny_spec(), (2, 140), 2, {}),
    "one row": (tiny_spec(), (1, 5), 2, {}),
    "latent": (latent_spec(layers=2), (4, 3), 2, {}),
    "experts": (mixture_spec(MIXTURES["shared"]), (3, 3), 2, {}),
    "drawn": (tiny_spec(), (4, 3), 2, {"sampling": "host", "verify_tokens": 0}),
}


def compiled(spec: ModelSpec, mesh: tuple[int, int], wafers: int, **changes: Any) -> Program:
    """Return a Program of the two prompts, with one token per verification pass unless changed."""
    changed_options = {"mapping": "region", "verify_tokens": 1} | changes
    lengths = tuple(map(len, PROMPTS))
    options = replace(OPTIONS, wafers=wafers, prompt_tokens=lengths, context=20, **changed_options)
    return compile_choice(spec, wafer(*mesh, 1 << 20), SOFTWARE, options, CHOICE)


class Host:
    """Host of the engine parts: it runs the segments of each phase in order, and stores the returned ids and logits."""

    def __init__(self, program: Program, spec: ModelSpec) -> None:
        weights_of = tensors(spec).__getitem__
        self.program = program
        self.parts = [EnginePart(program, spec, weights_of, wafer_index) for wafer_index in range(program.wafers)]
        self.tokens = np.full(program.batch + program.verify_tokens, -1)
        self.logits = np.zeros((len(self.tokens), program.vocab_size), np.float32)

    def run(self, index: int, ids: Sequence[int]) -> None:
        """Run the phase with an index; ``ids`` are the prompt tokens of its chunk."""
        phase, crossing = self.program.phases[index], dict[int, npt.NDArray[Any]]()
        places = self.program.host_places(phase)
        for segment_index, segment in enumerate(segments(self.program, phase.steps)):
            if segment.draws:
                self.tokens[places] = self.logits[places].argmax(axis=1)
            received = [crossing.pop(step) for step in segment.receives]
            report, *sent = self.parts[segment.wafer].run(index, segment_index, ids, self.tokens.tolist(), *received)
            crossing |= dict(zip(segment.sends, sent, strict=True))
            if report.tokens is not None:
                self.tokens[places] = report.tokens
            if report.logits is not None:
                self.logits[places] = report.logits
        assert not crossing


@pytest.mark.parametrize("name", slow_but(ENGINE_PART_CASES, "ring", "untied", "several blocks a row", "drawn"))
def test_engine_parts_equal_one_engine(name: str) -> None:
    spec, mesh, wafers, options = ENGINE_PART_CASES[name]
    program = compiled(spec, mesh, wafers, **options)
    draws = [lambda logits: int(logits.argmax())] * len(PROMPTS) if "drawn" in name else []
    one_engine, host = Engine(program, spec, tensors(spec).__getitem__, draws), Host(program, spec)
    users = range(program.batch)

    def check(*, verified: bool = False) -> None:
        """Check that both runs have the same logits, those of a verification pass if ``verified``."""
        places, logits = (slice(2, None), one_engine.verified_logits) if verified else (slice(2), one_engine.logits)
        np.testing.assert_array_equal(host.logits[places], logits)

    for index in one_engine.prefill(*PROMPTS):
        host.run(index, chunk_of(program.phases[index], PROMPTS))
    for _ in range(3):
        check()
        assert host.tokens[:2].tolist() == one_engine.tokens
        one_engine.decode()
        host.run(program.decode_index, ())
    latest = one_engine.tokens
    for user in [*users, *users] if program.verify_tokens else ():
        ids = one_engine.verify(latest[user : user + 1], user)
        host.run(program.phases.index(program.verify[user]), latest[user : user + 1])
        check(verified=True)
        one_engine.keep(1, user)
        for part in host.parts:
            part.keep(user, 1, ids[0])
        latest[user] = ids[0]
    engines = [part.engine for part in host.parts]
    np.testing.assert_array_equal(np.concatenate([engine.link_words() for engine in engines]), one_engine.link_words())
    assert sum((engine.streams.crossed for engine in engines), Counter()) == one_engine.streams.crossed
    assert [set(engine.arenas) for engine in engines] == [
        {i for i, stage in enumerate(program.stages) if stage.wafer == wafer_index} for wafer_index in range(wafers)
    ], "each part has only the SRAM of its wafer"


def test_passes_may_overlap_if_only_the_head_returns_to_the_first_wafer() -> None:
    """Passes may not overlap if layers return to the first wafer, or if a buffer is in use in two segments."""
    program = compiled(tiny_spec(layers=4), (4, 3), 2)
    found = segments(program, program.decode.steps)
    assert [segment.wafer for segment in found] == [0, 1, 0]
    assert may_overlap(program, program.decode.steps, found)
    with_layers_last = replace(program, op_layers=tuple(max(layer, 0) for layer in program.op_layers))
    assert not may_overlap(with_layers_last, with_layers_last.decode.steps, found)
    live_buffer = replace(program.buffers[0], stage=0, live=((program.decode_index, 0, len(program.decode.steps) - 1),))
    with_live_buffer = replace(program, buffers=(*program.buffers, live_buffer))
    assert not may_overlap(with_live_buffer, with_live_buffer.decode.steps, found)


def test_region_over_wafers_has_no_segments() -> None:
    program = compiled(tiny_spec(), (4, 3), 2, mapping="tensor")
    with pytest.raises(WseBug, match="spans wafers"):
        segments(program, program.decode.steps)
