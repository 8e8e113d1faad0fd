"""Layouts for the most throughput: with mapping auto no single mapping serves more tokens."""

from __future__ import annotations

import re
from typing import Any

import pytest

import wse
from wse.errors import BadInput
from wse.studies.compile.choose import compile_program
from wse.studies.estimate.layouts.choose_layout import choose_layout
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import make_request

LENGTHS: dict[str, Any] = {"prompt_len": 16, "new_tokens": 48}
MESH_PROMPTS: dict[str, Any] = {"mesh": "11x11", "mapping": "region", "prompt_len": 500, "new_tokens": 10}
EVERY_MAPPING = "auto,bands,pipeline,region"


def throughput(model: str, **options: Any) -> float:
    """Return the tokens/s of all users of an estimate for the most throughput."""
    serving = wse.estimate(model, objective="throughput", **options).serving
    return serving.tokens_per_s


@pytest.mark.slow
@pytest.mark.parametrize("machine", [("16x16", 1), ("12x12", 1), ("16x16", 2)], ids=str)
def test_no_row_of_a_comparison_has_much_more_throughput(machine: tuple[str, int]) -> None:
    """A search for one mapping compiles layouts that one for all leaves out: reduced models are not exact."""
    mesh, wafers = machine
    options: dict[str, Any] = {"mesh": mesh, **LENGTHS}
    rows = wse.compare("story", wafers=[wafers], mapping=EVERY_MAPPING, jobs=1, **options).rows
    most = max(row.tokens_per_s or 0.0 for row in rows)  # type: ignore[union-attr]
    assert throughput("story", wafers=wafers, **options) >= 0.85 * most


def test_a_batch_gets_the_layout_of_as_many_users() -> None:
    options: dict[str, Any] = {"mesh": "16x16", "wafers": 1, "mapping": "region", "batch": 4, **LENGTHS}
    batch, users = (wse.estimate("story", users=users, **options).serving for users in (None, 4))
    assert batch.users == 4
    assert batch.tokens_per_s == users.tokens_per_s


@pytest.mark.slow
def test_users_that_fit_do_not_rise_with_prompts() -> None:
    options: dict[str, Any] = {"mesh": "16x16", "wafers": 1, "objective": "throughput", "new_tokens": 100}
    rooms = [wse.estimate("story", prompt_len=prompt_len, **options).serving for prompt_len in (100, 200, 300, 400)]
    users = [room.max_users for room in rooms if room is not None]
    assert users == sorted(users, reverse=True)


def test_chunks_of_a_product_on_the_mesh_fill_its_rows() -> None:
    """Halves of 500 tokens are chunks that 11 rows cannot share; a Program with them would be refused as a bug."""
    program = compile_program(prepare_estimate(make_request(EstimateRequest, model="story", **MESH_PROMPTS)))
    chosen = choose_layout(
        prepare_estimate(make_request(EstimateRequest, model="story", objective="throughput", **MESH_PROMPTS))
    )
    chunk = chosen.compilation.choice.prefill_chunk
    assert program.stages[0].rect.rows == 11
    assert chunk == 500 or chunk % 11 == 0


@pytest.mark.slow
def test_four_wafers_hold_the_caches_of_several_users() -> None:
    """Only layouts with layers in parts have room for four caches; a search for one user does not need them."""
    serving = wse.estimate("llama-3.1-70b", wafers=4, users=4).serving
    assert serving.users == 4


@pytest.mark.slow
def test_replicas_chosen_freely_cost_no_more_than_one_replica() -> None:
    """One wafer has room for 5 sequences only with shorter chunks; with replicas to choose these must be tried too."""
    options: dict[str, Any] = {"prompt_len": 1748, "new_tokens": 300, "users": 5, "objective": "cost"}
    one, auto = (wse.estimate("llama-2-13b", replicas=replicas, **options).serving for replicas in (1, "auto"))
    assert auto.replicas == 1
    assert auto.usd_per_million_tokens == one.usd_per_million_tokens


@pytest.mark.slow
def test_highest_throughput_is_not_surpassed_with_more_users() -> None:
    """The fastest layouts have room for 2 users; only a search for the room of 3 finds a layout for them."""
    options: dict[str, Any] = {"wafers": 1, "prompt_len": 3700, "new_tokens": 300, "objective": "throughput"}
    best = wse.estimate("llama-2-13b", **options).serving
    assert best.users == 3
    assert best.tokens_per_s == wse.estimate("llama-2-13b", users=3, **options).serving.tokens_per_s
    with pytest.raises(BadInput):
        wse.estimate("llama-2-13b", users=4, **options)


@pytest.mark.slow
def test_the_roomiest_layout_holds_as_many_users_as_the_refusal_says() -> None:
    """The layouts with the fastest tokens hold 12 users; with wafers divided for all caches, more fit."""
    options: dict[str, Any] = {"mesh": "96x80", "wafers": 1, "prompt_len": 64, "new_tokens": 64}
    with pytest.raises(BadInput) as error:
        wse.estimate("smollm2-135m", users=22, **options)
    room = re.search(r"give --users (\d+)", str(error.value))
    assert room is not None
    users = int(room[1])
    assert wse.estimate("smollm2-135m", objective="throughput", **options).serving.max_users < users < 22
    assert wse.estimate("smollm2-135m", users=users, **options).serving.max_users >= users
    with pytest.raises(BadInput):
        wse.estimate("smollm2-135m", users=users + 1, **options)
