"""Tests of the times of pipeline stages: routes of tokens over stages and links, and the pipelining report."""

import json
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
import pytest
from session import SOFTWARE, wafer
from tiny_model import tiny_spec

from wse.backends.fabric.causes import CAUSES
from wse.backends.fabric.model import Fabric
from wse.backends.fabric.phase_cost import PhaseCost
from wse.compiler.choice import Choice
from wse.compiler.options import OPTIMIZED, Options
from wse.compiler.pipeline import compile_choice
from wse.program.isa.instructions import KERNELS
from wse.program.program import Program
from wse.program.steps import StepKind
from wse.program.transfers.stage_streams import Crossing, StageTransfer
from wse.program.transfers.transfer_types import is_of_type
from wse.serving.events import chunks, run
from wse.serving.route import Visit, alone_cycles, as_loop, busy_cycles, visits_once
from wse.studies.estimate.timing import first_token
from wse.studies.estimate.timing import pipelining as module
from wse.studies.estimate.timing.pipelining import Pipelining, PipeliningResult
from wse.studies.estimate.timing.servers import HOST_LINK, LINK, REGION, WAFER_LINK, Server
from wse.studies.estimate.timing.stage_times import RouteReader

OPTIONS = Options(mapping="pipeline", wafers=2, dtype="float32", accumulate="float32", context=60, prompt_tokens=(9,))
CHOICE = Choice(per_band=2, prefill="thin-gemm", prefill_chunk=4, head_chunk=20)
MACHINE = replace(wafer(6, 10, 1 << 20), host_round_trip_s=1e-3)
CLOCK = MACHINE.clock_hz
Placed = tuple[Program, Fabric, list[PhaseCost], PhaseCost]
"""A Program, its timing model, the costs of its prompt chunks, and the cost of a decoded token."""


def placed(*, tied: bool = True, choice: Choice = CHOICE, **options: Any) -> Placed:
    """Compile and time a model of four layers, by default on two wafers."""
    all_options = replace(OPTIONS, **options)
    program = compile_choice(tiny_spec(tied=tied, layers=4), MACHINE, SOFTWARE, all_options, choice)
    return costs(program, Fabric(program, MACHINE, SOFTWARE), all_options.prompt_tokens)


def costs(program: Program, fabric: Fabric, lengths: tuple[int, ...]) -> Placed:
    """Time all prompt chunks, and a decoded token after prompts of these lengths."""
    return program, fabric, [fabric.prefill_cost(i) for i in range(len(program.prefill))], fabric.decode_cost(*lengths)


def servers_on(times: Pipelining, route: tuple[Visit, ...]) -> list[Server]:
    """Return the servers that a route visits, in order."""
    return [times.servers[visit.server] for visit in route]


def stage_times(fabric: Fabric, prefill: list[PhaseCost], decode: PhaseCost) -> Pipelining:
    """Return the routes of prompt chunks and of a decoded token, whose cycles are not scaled."""
    times = Pipelining(fabric, prefill, decode, decode.cycles)
    reader, program = RouteReader(fabric), fabric.program
    times.prefill = [reader.route(phase, cost) for phase, cost in zip(program.prefill, prefill, strict=True)]
    times.decode, times.servers = reader.route(program.decode, decode), reader.servers
    return times


CASES: list[dict[str, Any]] = [
    {},
    {"tied": False},
    {"choice": replace(CHOICE, per_band=1)},
    {"tied": False, "sampling": "host", "logits_out": "all"},
    {"prompt_tokens": (9, 5)},
    {"wafers": 1, "choice": replace(CHOICE, per_band=1)},
]


def test_clearing_a_buffer_for_arriving_words_is_no_extra_visit() -> None:
    """The hidden features do not fill the last of the bands of 5 and 3 rows, so it is cleared before they arrive.

    The clearing step must be part of the visit in which the words arrive. Otherwise the route visits the stage twice.
    """
    spec = tiny_spec(tied=False, layers=3)
    program = compile_choice(
        spec,
        wafer(8, 5, 1 << 20),
        SOFTWARE,
        replace(OPTIONS, wafers=1, schedule=OPTIMIZED),
        replace(CHOICE, bands=2, per_band=1),
    )
    _, fabric, prefill, decode = costs(program, Fabric(program, wafer(8, 5, 1 << 20), SOFTWARE), (9,))
    codes = [KERNELS[code].name for code in program.decode.steps.code[program.decode.steps.kind == StepKind.COMPUTE]]
    times = stage_times(fabric, prefill, decode)
    assert "clear" in codes
    assert all(visits_once(route) for route in times.prefill[:-1])
    assert alone_cycles(times.decode) == decode.cycles


@pytest.mark.parametrize("case", CASES, ids=str)
def test_visits_add_up_to_the_cycles_of_the_phase(case: dict[str, Any]) -> None:
    program, fabric, prefill, decode = placed(**case)
    times = stage_times(fabric, prefill, decode)
    assert [alone_cycles(route) for route in times.prefill] == [cost.cycles for cost in prefill]
    assert alone_cycles(times.decode) == decode.cycles
    assert len(times.servers_of_kind(REGION)) == len(program.stages)
    assert all(visit.busy_cycles >= 0 and visit.latency_cycles >= 0 for visit in times.decode)


@pytest.mark.parametrize("tied", [True, False])
def test_stage_is_busy_with_its_steps_and_the_launches_of_its_transfers(*, tied: bool) -> None:
    program, fabric, prefill, decode = placed(tied=tied)
    times, phase = stage_times(fabric, prefill, decode), program.decode
    moves = is_of_type(phase.steps, StageTransfer, Crossing)
    launch = decode.by_cause[:, CAUSES.index("launch")]
    cycles_of_stage = np.where(moves, launch, decode.by_cause.sum(axis=1))
    work = busy_cycles([times.decode])
    for stage in range(4):
        assert times.servers[stage] == Server(REGION, stage // 2, (stage,))
        assert work[stage] == cycles_of_stage[phase.steps.stage == stage].sum()


def test_token_visits_all_stages_and_its_id_returns_to_the_first() -> None:
    _, fabric, prefill, decode = placed(tied=False)
    times = stage_times(fabric, prefill, decode)
    visited = [(server.kind, server.stages) for server in servers_on(times, times.decode)]
    expected = [(REGION, (0,)), (LINK, (0, 1)), (REGION, (1,)), (WAFER_LINK, ())]
    expected += [(REGION, (2,)), (LINK, (2, 3)), (REGION, (3,)), (WAFER_LINK, ()), (REGION, (0,))]
    assert visited == expected
    assert [server.wafer for server in servers_on(times, times.decode) if server.kind == WAFER_LINK] == [0, 1]
    assert [server.kind for server in servers_on(times, times.prefill[0])][:2] == [HOST_LINK, REGION]
    assert visits_once(as_loop(times.decode))


def test_tied_embedding_gives_one_visit_per_server_in_a_loop() -> None:
    """The head and the next token's embedding are on one stage. In a loop their two visits are merged into one."""
    _, fabric, prefill, decode = placed()
    times = stage_times(fabric, prefill, decode)
    assert not visits_once(times.decode)
    assert visits_once(as_loop(times.decode))


def test_crossing_keeps_the_wafer_link_busy_for_its_bytes_only() -> None:
    machine = replace(MACHINE, wafer_link_bytes_per_s=1e9)
    program = compile_choice(tiny_spec(layers=4), machine, SOFTWARE, OPTIONS, CHOICE)
    _, fabric, prefill, decode = costs(program, Fabric(program, machine, SOFTWARE), (9,))
    times = stage_times(fabric, prefill, decode)
    crossing = next(v for v in times.decode if times.servers[v.server].kind == WAFER_LINK)
    assert crossing.busy_cycles == ceil(40 * 4 / 1e9 * machine.clock_hz)
    ends = 2 * machine.ramp_cycles + 1
    words = ceil(40 / 6)  # per row, because one column of 6 PEs sends them
    latency = machine.wafer_link_latency_s * machine.clock_hz
    latency_and_bytes = ceil(latency + 40 * 4 / 1e9 * machine.clock_hz)
    assert crossing.latency_cycles == ends + words + latency_and_bytes - crossing.busy_cycles


def test_stage_transfer_keeps_its_links_busy_for_the_words_of_the_busiest() -> None:
    """The regions are neighbours: one column of 6 PEs sends ceil(40 / 6) words per row, one hop east."""
    _, fabric, prefill, decode = placed()
    times = stage_times(fabric, prefill, decode)
    link = next(v for v in times.decode if times.servers[v.server].kind == LINK)
    assert link == Visit(link.server, 7.0, 2 * MACHINE.ramp_cycles + 1 + MACHINE.hop_cycles)


def test_round_trip_to_the_host_is_latency() -> None:
    _, fabric, prefill, decode = placed(tied=False, sampling="host")
    times = stage_times(fabric, prefill, decode)
    host_visit = next(v for v in times.decode if times.servers[v.server].kind == HOST_LINK)
    assert host_visit.busy_cycles == 1.0
    trip = ceil((MACHINE.host_round_trip_s + 4 / MACHINE.host_bytes_per_s) * MACHINE.clock_hz)
    assert host_visit.latency_cycles == trip - 1


def test_stages_on_the_same_pes_are_one_server() -> None:
    program, *_ = placed(wafers=1)
    shared = tuple(replace(stage, rect=program.stages[0].rect) for stage in program.stages)
    program = replace(program, stages=shared)
    _, fabric, prefill, decode = costs(program, Fabric(program, MACHINE, SOFTWARE), (9,))
    times = stage_times(fabric, prefill, decode)
    assert times.servers[0] == Server(REGION, 0, (0, 1))
    assert times.decode == (Visit(0, decode.cycles),)


def section_of(*, sram: int = 1 << 20, tied: bool = False, **options: Any) -> tuple[PipeliningResult, Fabric, float]:
    """Return the pipelining section of a report, the timing model, and the cycles of a decoded token."""
    program, *_ = placed(tied=tied, **options)
    program = replace(program, sram_bytes_per_pe=sram)
    lengths = replace(OPTIONS, **options).prompt_tokens
    _, fabric, prefill, decode = costs(program, Fabric(program, MACHINE, SOFTWARE), lengths)
    return stage_times(fabric, prefill, decode).result(), fabric, decode.cycles


def used_bytes(fabric: Fabric) -> tuple[int, int]:
    """Return the bytes of SRAM in use on the fullest PE, and the bytes of its KV cache."""
    program = fabric.program
    fullest = max(range(4), key=lambda stage: program.stages[stage].sram_top_byte)
    kv = sum(b.bytes for b in program.buffers if b.stage == fullest and b.use == "kv")
    return program.stages[fullest].sram_top_byte, kv


def test_one_stream_has_the_rate_of_a_decoded_token() -> None:
    section, _, cycles = section_of()
    assert section.single_stream_tpot_s == cycles / CLOCK
    assert section.rows[0].streams == 1
    assert section.rows[0].tokens_per_s == CLOCK / cycles == section.rows[0].tokens_per_s_per_user
    assert section.rows[0].limited_by == "latency"
    json.dumps(section.to_dict())


def test_rows_follow_the_closed_form_up_to_saturation() -> None:
    section, *_ = section_of()
    saturating, max_rate = section.streams_to_saturate, 1 / section.slowest_stage_s
    rows = {row.streams: row for row in section.rows}
    assert section.tokens_per_s_at_saturation == pytest.approx(max_rate)
    assert list(rows) == sorted({*(n for n in (1, 2, 4, 8) if n <= saturating), saturating, section.kv_limited_streams})
    for streams, row in rows.items():
        rate = min(streams / section.single_stream_tpot_s, max_rate)
        assert row.tokens_per_s == pytest.approx(rate)
        assert row.limited_by == ("latency" if streams < saturating else section.limited_by)
        busy = sum(server.decode_busy_s for server in section.servers if server.kind == "region")
        assert row.bubble_fraction == pytest.approx(1 - rate * busy / 4)
        assert row.fill_and_drain_bubble_fraction > row.bubble_fraction - 1e-12
    assert section.slowest_link_s < section.slowest_stage_s
    assert section.limited_by.startswith("stage ")


def test_event_simulation_agrees_with_the_closed_form() -> None:
    for options in ({}, {"tied": True}, {"prompt_tokens": (9, 5)}):
        section, *_ = section_of(**options)
        found = section.by_events
        assert found.streams == section.streams_to_saturate > 1
        assert found.tokens_per_s == pytest.approx(found.closed_form_tokens_per_s, rel=1e-12)


def test_stream_of_two_users_generates_two_tokens_per_pass() -> None:
    section, _, cycles = section_of(prompt_tokens=(9, 5))
    assert section.users_per_stream == 2
    assert section.rows[1].users == 4
    assert section.rows[0].tokens_per_s == 2 * CLOCK / cycles
    assert section.rows[0].tokens_per_s_per_user == CLOCK / cycles


def test_room_for_kv_caches_limits_the_streams() -> None:
    _, fabric, _ = section_of()
    top, kv = used_bytes(fabric)
    section, *_ = section_of(sram=top + kv)
    assert section.kv_limited_streams == 2 < section.streams_to_saturate
    assert section.limited_by == "KV cache"
    assert [row.streams for row in section.rows] == [1, 2]
    assert section.tokens_per_s_at_kv_limit == section.rows[1].tokens_per_s
    section, *_ = section_of(sram=top - kv)
    assert section.kv_limited_streams == 0 == len(section.rows)
    assert not {"tokens_per_s_at_kv_limit", "by_events", "bubble_fraction"} & set(section.to_dict())


def test_prompt_chunks_are_pipelined_through_the_stages() -> None:
    section, fabric, _ = section_of()
    prefill = [fabric.prefill_cost(i) for i in range(3)]
    found = section.prefill
    assert found.chunks == 3
    assert found.sequential_s == sum(cost.cycles for cost in prefill) / CLOCK
    routes = stage_times(fabric, prefill, fabric.decode_cost(9)).prefill
    assert (found.pipelined_s, found.pipelined_by) == (run(chunks(routes))[-1] / CLOCK, "closed form")
    assert max(map(alone_cycles, routes)) / CLOCK < found.pipelined_s < found.sequential_s
    assert section.ttft_s == found.pipelined_s + 5e-4
    assert section.ttft_sequential_s == found.sequential_s + 5e-4


def test_prompts_of_several_users_are_timed_by_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last chunk of the first user returns to the first stage, where chunks of the second user are waiting."""
    section, *_ = section_of(prompt_tokens=(9, 5))
    found = section.prefill
    assert found.pipelined_by == "discrete-event run"
    assert found.pipelined_s < found.sequential_s
    for patched_module in (module, first_token):
        monkeypatch.setattr(patched_module, "MAX_VISITS", 10)
    section, *_ = section_of(prompt_tokens=(9, 5))
    assert section.prefill.pipelined_by == "lower bound"
    assert section.prefill.pipelined_s <= found.pipelined_s
    assert section.by_events.streams == 1


def test_sampling_on_the_host_gives_a_bound() -> None:
    section, *_ = section_of(tied=True, sampling="host")
    assert [row.exact for row in section.rows] == [row.streams == 1 for row in section.rows]
    found = section.by_events
    assert found.tokens_per_s <= found.closed_form_tokens_per_s * (1 + 1e-12)
