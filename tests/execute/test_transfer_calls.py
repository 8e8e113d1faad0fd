"""The choice among kernels of a line's messages: the one that is taken leaves what the messages leave."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from carried_lines import carry, memory_of
from session import SOFTWARE, wafer
from tiny_model import tensors, tiny_spec

from wse.backends.execute.engine import Engine
from wse.compiler.choice import Choice
from wse.compiler.options import Options
from wse.compiler.pipeline import compile_choice
from wse.program.program import Program
from wse.program.steps import COLUMNS, ROWS
from wse.program.transfers.messages import LineMessages
from wse.program.transfers.patterns import AlongLine
from wse.program.transfers.transfer import Transfer
from wse.program.transfers.transfer_types import is_of_type, transfer_of
from wse_mappings.schedule import Arrival, LineSchedule, varied_schedule

SIDE, ELEMENTS = 17, 21
ADD, REPLACE, MAX, MULTICAST = Arrival.ADD, Arrival.REPLACE, Arrival.MAX, Arrival.MULTICAST
SHIFTS = [[(i, (i + by) % SIDE, REPLACE) for i in range(SIDE)] for by in (1, 3)]
SUMS = [[*((i, i + 1, ADD) for i in range(by)), (by, 0, MULTICAST)] for by in (5, SIDE - 1)]


@cache
def engine() -> tuple[Engine, Program]:
    """A tiny model on a region of 17 x 17 PEs."""
    spec, choice = tiny_spec(), Choice(prefill="thin-gemm", prefill_chunk=3, head_chunk=2)
    options = Options(mapping="region", wafers=1, dtype="float16", accumulate="float32", context=9, prompt_tokens=(3,))
    program = compile_choice(spec, wafer(SIDE, SIDE), SOFTWARE, options, choice)
    return Engine(program, spec, tensors(spec).__getitem__), program


def pattern(groups: list[list[tuple[int, int, Arrival]]], parts: int = 1) -> LineSchedule:
    """Variants of messages, of which neighbouring lines have others; of so many parts, one after another."""
    messages = [[message for _ in range(parts) for message in group] for group in groups]
    schedule = varied_schedule("any", SIDE, messages, np.arange(SIDE, dtype=np.int32)[None] % len(groups), colours=1)
    if parts == 1:
        return schedule
    part = [np.repeat(np.arange(parts), len(group)) for group in groups]
    return replace(schedule, parts=parts, part=np.concatenate(part).astype(np.int32))


def line(schedule: LineSchedule, axis: int, source: int, target: int) -> tuple[Transfer, LineMessages]:
    """A transfer of activations by a pattern, from one address to another, on all lines of the region."""
    program = engine()[1]
    step = int(np.flatnonzero(is_of_type(program.decode.steps, AlongLine))[0])
    found = transfer_of(program, program.decode, step, program.cache_slots(0))
    view = program.element_types.index("float16")
    site = replace(found.site, pattern=schedule, axis=axis, view=view, first_row=0, rows=SIDE)
    made = replace(found, site=site, source=source, target=target, elements=ELEMENTS)
    assert isinstance(made.messages, LineMessages)
    return made, made.messages


@pytest.mark.parametrize(
    ("schedule", "axis", "addresses", "kernel"),
    [
        (pattern(SHIFTS), ROWS, (3, 3 + ELEMENTS), "exchange_along_rows"),
        (pattern(SHIFTS), ROWS, (3, 3), "along_rows"),
        (pattern(SHIFTS, 2), ROWS, (3, 3 + ELEMENTS), "along_rows"),
        (pattern(SHIFTS), COLUMNS, (3, 3 + ELEMENTS), "exchange_along_columns"),
        (pattern(SHIFTS), COLUMNS, (3, 3), "along_columns"),
        (pattern(SHIFTS[:1]), COLUMNS, (3, 3 + ELEMENTS), "along_columns"),
        (pattern(SUMS), ROWS, (3, 3), "along_rows_in_place"),
        (pattern(SUMS), ROWS, (3, 3 + ELEMENTS), "along_rows"),
        (pattern(SUMS, 2), ROWS, (3, 3), "along_rows"),
        (pattern([[*SUMS[0], (4, 2, MAX)], SUMS[1]]), ROWS, (3, 3), "along_rows"),
        (pattern(SUMS[:1], 3), COLUMNS, (3, 3), "along_columns"),
        (pattern(SUMS), COLUMNS, (3, 3), "along_columns"),
        (pattern(SUMS[:1]), COLUMNS, (3, 3), "along_columns_in_place"),
    ],
)
def test_kernels_are_their_messages(schedule: LineSchedule, axis: int, addresses: tuple[int, int], kernel: str) -> None:
    """Exchanges where what is sent is not where anything arrives, sums in place where messages are whole."""
    transfer, messages = line(schedule, axis, *addresses)
    (run, _), (arena, *_) = engine(), engine()[0].arenas.values()
    values = np.random.default_rng(1).normal(size=arena.view("float16").shape)
    arena.view("float16")[...] = values.astype(np.float16).view(np.uint16)
    expected = memory_of(arena, "float16")
    carry(expected, "float16", transfer, messages)
    function, arguments = run._binder._moves._lines.call(transfer, messages)
    assert function.__name__ == kernel
    function(*arguments)
    np.testing.assert_array_equal(memory_of(arena, "float16"), expected)


@pytest.mark.parametrize("axis", [ROWS, COLUMNS])
def test_words_that_arrive_among_those_that_are_sent_are_refused(axis: int) -> None:
    """Kernels move some elements at once, so that words of one message would be lost."""
    transfer, messages = line(pattern(SUMS[:1]), axis, 3, 2 + ELEMENTS)
    with pytest.raises(AssertionError, match="among those that are sent"):
        engine()[0]._binder._moves._lines.call(transfer, messages)
