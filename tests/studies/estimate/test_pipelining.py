"""``schedule`` of a report: against the fabric's cycles, the event run, and the sentence that it prints."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from session import SOFTWARE, wafer
from tiny_model import tiny_spec

from wse.backends.fabric.model import Fabric
from wse.compiler.choice import Choice
from wse.compiler.options import Options
from wse.compiler.pipeline import compile_choice
from wse.serving.events import chunks, run
from wse.serving.route import alone_cycles
from wse.studies.estimate.timing import first_token
from wse.studies.estimate.timing import pipelining as module
from wse.studies.estimate.timing.pipelining import PipeliningResult, pipelining_result, pipelining_tables
from wse.studies.estimate.timing.stage_times import stage_times

OPTIONS = Options(mapping="pipeline", wafers=2, dtype="float32", accumulate="float32", context=60, prompt_tokens=(9,))
CHOICE = Choice(per_band=2, prefill="thin-gemm", prefill_chunk=4, head_chunk=20)
MACHINE = replace(wafer(6, 10), host_round_trip_s=1e-3)
CLOCK = MACHINE.clock_hz


def facts(*, sram: int = 1 << 20, tied: bool = False, **options: Any) -> tuple[PipeliningResult, Fabric, float]:
    """The section, the model of fabric, and the cycles of a token."""
    asked = replace(OPTIONS, **options)
    program = compile_choice(
        tiny_spec(tied=tied, layers=4), replace(MACHINE, sram_bytes_per_pe=1 << 20), SOFTWARE, asked, CHOICE
    )
    program = replace(program, sram_bytes_per_pe=sram)
    fabric = Fabric(program, MACHINE, SOFTWARE)
    prefill = [fabric.prefill_cost(i) for i in range(len(program.prefill))]
    decode = fabric.decode_cost(*asked.prompt_tokens)
    return pipelining_result(fabric, prefill, decode), fabric, decode.cycles


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


def test_decode_alone_has_no_prompt() -> None:
    section, *_ = facts(phases=("decode",))
    assert not {"prefill", "ttft_s"} & set(section.to_dict())
    assert "first token" not in str(pipelining_tables(section))
