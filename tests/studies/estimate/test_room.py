"""What choices that take SRAM for speed cost in users, and save in cycles: Programs are compiled without them."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from wse.backends.fabric.model import Fabric
from wse.compiler.options import WIDE_UNPACKING
from wse.compiler.pipeline import compile_choice
from wse.compiler.search.search import Candidate, Compilation
from wse.reports.terminal_table import print_result
from wse.studies.compile.choose import compile_fastest
from wse.studies.estimate.layouts.choose_layout import ChosenLayout
from wse.studies.estimate.layouts.room import CHOSEN, cache_room
from wse.studies.estimate.layouts.variants import ALL_COLUMNS, FEW_CODES, variants_of
from wse.studies.estimate.prepare import PreparedEstimate, prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.estimate.study import estimate
from wse.studies.options.option import make_request, replace_options
from wse.studies.results.sram import users_at

REQUEST = make_request(EstimateRequest, model="story", dtype="int4", mesh="14x14", prompt_len=16, new_tokens=16)


def with_narrow_attention() -> tuple[PreparedEstimate, Compilation]:
    """The request compiled with attention on 8 of 14 columns."""
    prepared = prepare_estimate(REQUEST)
    found = compile_fastest(prepared)
    choice = replace(found.choice, attention_cols=8)
    program = compile_choice(prepared.spec, prepared.wafer, prepared.software, found.options, choice)
    return prepared, replace(found, choice=choice, program=program)


def test_rows_are_those_of_programs_without_what_takes_room() -> None:
    prepared, compilation = with_narrow_attention()
    candidate = Candidate(compilation.program, compilation.options, compilation.choice)
    variants = variants_of(prepared, candidate)
    rows = cache_room(ChosenLayout(prepared=prepared, compilation=compilation, variants=variants))
    choice = compilation.choice
    narrow = replace(choice, rewrites=tuple(one for one in choice.rewrites if one[0] != WIDE_UNPACKING))
    others = {
        CHOSEN: choice,
        ALL_COLUMNS: replace(choice, attention_cols=0),
        FEW_CODES: narrow,
        f"{ALL_COLUMNS}, {FEW_CODES}": replace(narrow, attention_cols=0),
    }
    users: dict[str, tuple[int, float]] = {}
    for name, other in others.items():
        program = compile_choice(prepared.spec, prepared.wafer, prepared.software, compilation.options, other)
        cycles = Fabric(program, prepared.wafer, prepared.software).decode_cost(*prepared.middle_context).cycles
        users[name] = users_at(program, 32), cycles
    told = {row.choice: (row.users, row.token_cycles) for row in rows}
    assert told.items() <= users.items()
    assert next(iter(told)) == CHOSEN
    assert {ALL_COLUMNS, FEW_CODES} & set(told) == {
        name for name in (ALL_COLUMNS, FEW_CODES) if users[name][0] > users[CHOSEN][0]
    }
    assert max(told.values())[0] == max(users.values())[0] > users[CHOSEN][0]


def test_an_estimate_tells_what_its_speed_takes_of_the_room() -> None:
    result = estimate(REQUEST)
    assert result.sram.room[0].users == {row.context: row.users for row in result.sram.users}[32]
    out = io.StringIO()
    print_result(result, out)
    assert "SRAM used for speed and not for KV caches" in out.getvalue()


@pytest.mark.parametrize("changes", [{"schedule": "baseline"}, {"dtype": "float32", "mesh": "30x30"}])
def test_there_is_nothing_to_tell_where_nothing_takes_room(changes: dict[str, str]) -> None:
    assert estimate(replace_options(REQUEST, **changes)).sram.room is None
