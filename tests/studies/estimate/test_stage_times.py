"""Stages of a Program as routes, and the pipelining section of a report."""

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
from wse.studies.estimate.timing.pipelining import PipeliningResult, pipelining_result
from wse.studies.estimate.timing.servers import HOST_LINK, LINK, REGION, WAFER_LINK, Server, StageTimes
from wse.studies.estimate.timing.stage_times import stage_times

OPTIONS = Options(mapping="pipeline", wafers=2, dtype="float32", accumulate="float32", context=60, prompt_tokens=(9,))
CHOICE = Choice(per_band=2, prefill="thin-gemm", prefill_chunk=4, head_chunk=20)
MACHINE = replace(wafer(6, 10, 1 << 20), host_round_trip_s=1e-3)
CLOCK = MACHINE.clock_hz
Placed = tuple[Program, Fabric, list[PhaseCost], PhaseCost]


def placed(*, tied: bool = True, choice: Choice = CHOICE, **options: Any) -> Placed:
    """Four layers on two wafers; the costs of the prompt's chunks and of the next token."""
    asked = replace(OPTIONS, **options)
    program = compile_choice(tiny_spec(tied=tied, layers=4), MACHINE, SOFTWARE, asked, choice)
    return costs(program, Fabric(program, MACHINE, SOFTWARE), asked.prompt_tokens)


def costs(program: Program, fabric: Fabric, lengths: tuple[int, ...]) -> Placed:
    return program, fabric, [fabric.prefill_cost(i) for i in range(len(program.prefill))], fabric.decode_cost(*lengths)


def kinds(times: StageTimes, route: tuple[Visit, ...]) -> list[Server]:
    return [times.servers[visit.server] for visit in route]


CASES: list[dict[str, Any]] = [
    {},
    {"tied": False},
    {"choice": replace(CHOICE, per_band=1)},
    {"tied": False, "sampling": "host", "logits_out": "all"},
    {"prompt_tokens": (9, 5)},
    {"wafers": 1, "choice": replace(CHOICE, per_band=1)},
]


def test_a_stage_that_clears_a_place_for_words_is_visited_when_they_come() -> None:
    """Bands of 5 and 3 rows, whose last the hidden features do not fill: it is cleared before they are sent."""
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
def test_all_visits_together_are_the_cycles_of_the_phase(case: dict[str, Any]) -> None:
    program, fabric, prefill, decode = placed(**case)
    times = stage_times(fabric, prefill, decode)
    assert [alone_cycles(route) for route in times.prefill] == [cost.cycles for cost in prefill]
    assert alone_cycles(times.decode) == decode.cycles
    assert len(times.servers_of_kind(REGION)) == len(program.stages)
    assert all(visit.busy_cycles >= 0 and visit.latency_cycles >= 0 for visit in times.decode)


@pytest.mark.parametrize("tied", [True, False])
def test_a_stage_works_for_its_own_steps_and_launches_what_leaves_it(*, tied: bool) -> None:
    program, fabric, prefill, decode = placed(tied=tied)
    times, phase = stage_times(fabric, prefill, decode), program.decode
    moves = is_of_type(phase.steps, StageTransfer, Crossing)
    launch = decode.by_cause[:, CAUSES.index("launch")]
    mine = np.where(moves, launch, decode.by_cause.sum(axis=1))
    work = busy_cycles([times.decode])
    for number in range(4):
        assert times.servers[number] == Server(REGION, number // 2, (number,))
        assert work[number] == mine[phase.steps.stage == number].sum()


def test_a_token_goes_from_stage_to_stage_and_the_id_comes_back() -> None:
    _, fabric, prefill, decode = placed(tied=False)
    times = stage_times(fabric, prefill, decode)
    there = [(server.kind, server.stages) for server in kinds(times, times.decode)]
    on_wafers = [(REGION, (0,)), (LINK, (0, 1)), (REGION, (1,)), (WAFER_LINK, ())]
    on_wafers += [(REGION, (2,)), (LINK, (2, 3)), (REGION, (3,)), (WAFER_LINK, ()), (REGION, (0,))]
    assert there == on_wafers
    assert [server.wafer for server in kinds(times, times.decode) if server.kind == WAFER_LINK] == [0, 1]
    assert [server.kind for server in kinds(times, times.prefill[0])][:2] == [HOST_LINK, REGION]
    assert visits_once(as_loop(times.decode))


def test_a_tied_table_leaves_one_visit_to_each_server() -> None:
    """The head and the next token's embedding are at one stage, which goes on with the same stream."""
    _, fabric, prefill, decode = placed()
    times = stage_times(fabric, prefill, decode)
    assert not visits_once(times.decode)
    assert visits_once(as_loop(times.decode))


def test_a_crossing_keeps_the_link_for_its_bytes_and_its_latency_is_the_rest() -> None:
    machine = replace(MACHINE, wafer_link_bytes_per_s=1e9)
    program = compile_choice(tiny_spec(layers=4), machine, SOFTWARE, OPTIONS, CHOICE)
    _, fabric, prefill, decode = costs(program, Fabric(program, machine, SOFTWARE), (9,))
    times = stage_times(fabric, prefill, decode)
    crossing = next(v for v in times.decode if times.servers[v.server].kind == WAFER_LINK)
    assert crossing.busy_cycles == ceil(40 * 4 / 1e9 * machine.clock_hz)
    ends = 2 * machine.ramp_cycles + 1
    words = ceil(40 / 6)  # of a row; one column sends them
    latency = machine.wafer_link_latency_s * machine.clock_hz
    together = ceil(latency + 40 * 4 / 1e9 * machine.clock_hz)
    assert crossing.latency_cycles == ends + words + together - crossing.busy_cycles


def test_a_stage_transfer_keeps_its_links_for_the_words_of_the_busiest() -> None:
    """Two regions side by side: one column sends ceil(40 / 6) words a row, one hop east."""
    _, fabric, prefill, decode = placed()
    times = stage_times(fabric, prefill, decode)
    link = next(v for v in times.decode if times.servers[v.server].kind == LINK)
    assert link == Visit(link.server, 7.0, 2 * MACHINE.ramp_cycles + 1 + MACHINE.hop_cycles)


def test_the_hosts_round_trip_is_latency() -> None:
    _, fabric, prefill, decode = placed(tied=False, sampling="host")
    times = stage_times(fabric, prefill, decode)
    drawn = next(v for v in times.decode if times.servers[v.server].kind == HOST_LINK)
    assert drawn.busy_cycles == 1.0
    trip = ceil((MACHINE.host_round_trip_s + 4 / MACHINE.host_bytes_per_s) * MACHINE.clock_hz)
    assert drawn.latency_cycles == trip - 1


def test_stages_on_the_same_pes_are_one_server() -> None:
    program, *_ = placed(wafers=1)
    shared = tuple(replace(stage, rect=program.stages[0].rect) for stage in program.stages)
    program = replace(program, stages=shared)
    _, fabric, prefill, decode = costs(program, Fabric(program, MACHINE, SOFTWARE), (9,))
    times = stage_times(fabric, prefill, decode)
    assert times.servers[0] == Server(REGION, 0, (0, 1))
    assert times.decode == (Visit(0, decode.cycles),)


def facts(*, sram: int = 1 << 20, tied: bool = False, **options: Any) -> tuple[PipeliningResult, Fabric, float]:
    """The section, the model of fabric, and the cycles of a token."""
    program, *_ = placed(tied=tied, **options)
    program = replace(program, sram_bytes_per_pe=sram)
    lengths = replace(OPTIONS, **options).prompt_tokens
    _, fabric, prefill, decode = costs(program, Fabric(program, MACHINE, SOFTWARE), lengths)
    return pipelining_result(fabric, prefill, decode, decode.cycles), fabric, decode.cycles


def held(fabric: Fabric) -> tuple[int, int]:
    """Bytes of SRAM in use on the fullest PE, and those of its cache."""
    program = fabric.program
    fullest = max(range(4), key=lambda stage: program.stages[stage].sram_top_byte)
    kv = sum(b.bytes for b in program.buffers if b.stage == fullest and b.use == "kv")
    return program.stages[fullest].sram_top_byte, kv


def test_one_stream_is_the_decoded_token_of_the_fabric_model() -> None:
    section, _, cycles = facts()
    assert section.single_stream_tpot_s == cycles / CLOCK
    assert section.rows[0].streams == 1
    assert section.rows[0].tokens_per_s == CLOCK / cycles == section.rows[0].tokens_per_s_per_user
    assert section.rows[0].limited_by == "latency"
    json.dumps(section.to_dict())


def test_rows_end_where_the_slowest_stage_is_busy_all_the_time() -> None:
    section, *_ = facts()
    enough, most = section.streams_to_saturate, 1 / section.slowest_stage_s
    rows = {row.streams: row for row in section.rows}
    assert section.tokens_per_s_at_saturation == pytest.approx(most)
    assert list(rows) == sorted({*(n for n in (1, 2, 4, 8) if n <= enough), enough, section.kv_limited_streams})
    for streams, row in rows.items():
        rate = min(streams / section.single_stream_tpot_s, most)
        assert row.tokens_per_s == pytest.approx(rate)
        assert row.limited_by == ("latency" if streams < enough else section.limited_by)
        busy = sum(server.decode_busy_s for server in section.servers if server.kind == "region")
        assert row.bubble_fraction == pytest.approx(1 - rate * busy / 4)
        assert row.fill_and_drain_bubble_fraction > row.bubble_fraction - 1e-12
    assert section.slowest_link_s < section.slowest_stage_s
    assert section.limited_by.startswith("stage ")


def test_the_event_run_agrees_with_the_closed_form() -> None:
    for options in ({}, {"tied": True}, {"prompt_tokens": (9, 5)}):
        section, *_ = facts(**options)
        found = section.by_events
        assert found.streams == section.streams_to_saturate > 1
        assert found.tokens_per_s == pytest.approx(found.closed_form_tokens_per_s, rel=1e-12)


def test_a_stream_of_two_users_makes_two_tokens_a_pass() -> None:
    section, _, cycles = facts(prompt_tokens=(9, 5))
    assert section.users_per_stream == 2
    assert section.rows[1].users == 4
    assert section.rows[0].tokens_per_s == 2 * CLOCK / cycles
    assert section.rows[0].tokens_per_s_per_user == CLOCK / cycles


def test_full_caches_limit_the_streams() -> None:
    _, fabric, _ = facts()
    top, kv = held(fabric)
    section, *_ = facts(sram=top + kv)
    assert section.kv_limited_streams == 2 < section.streams_to_saturate
    assert section.limited_by == "KV cache"
    assert [row.streams for row in section.rows] == [1, 2]
    assert section.tokens_per_s_at_kv_limit == section.rows[1].tokens_per_s
    section, *_ = facts(sram=top - kv)
    assert section.kv_limited_streams == 0 == len(section.rows)
    assert not {"tokens_per_s_at_kv_limit", "by_events", "bubble_fraction"} & set(section.to_dict())


def test_chunks_of_a_prompt_follow_each_other_through_the_stages() -> None:
    section, fabric, _ = facts()
    prefill = [fabric.prefill_cost(i) for i in range(3)]
    found = section.prefill
    assert found.chunks == 3
    assert found.sequential_s == sum(cost.cycles for cost in prefill) / CLOCK
    routes = stage_times(fabric, prefill, fabric.decode_cost(9)).prefill
    assert (found.pipelined_s, found.pipelined_by) == (run(chunks(routes))[-1] / CLOCK, "closed form")
    assert max(map(alone_cycles, routes)) / CLOCK < found.pipelined_s < found.sequential_s
    assert section.ttft_s == found.pipelined_s + 5e-4
    assert section.ttft_sequential_s == found.sequential_s + 5e-4


def test_prompts_of_several_users_are_gone_through_event_by_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first user's last chunk comes back to the first stage, where the second user's chunks are."""
    section, *_ = facts(prompt_tokens=(9, 5))
    found = section.prefill
    assert found.pipelined_by == "discrete-event run"
    assert found.pipelined_s < found.sequential_s
    for each in (module, first_token):
        monkeypatch.setattr(each, "MOST_VISITS", 10)
    section, *_ = facts(prompt_tokens=(9, 5))
    assert section.prefill.pipelined_by == "lower bound"
    assert section.prefill.pipelined_s <= found.pipelined_s
    assert section.by_events.streams == 1


def test_a_host_that_draws_ids_between_leaves_a_bound() -> None:
    section, *_ = facts(tied=True, sampling="host")
    assert [row.exact for row in section.rows] == [row.streams == 1 for row in section.rows]
    found = section.by_events
    assert found.tokens_per_s <= found.closed_form_tokens_per_s * (1 + 1e-12)
