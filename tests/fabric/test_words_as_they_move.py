"""Tests of link word counts: every message along a line is also executed by the oracle, which counts word by word.

Execution computes the words of most messages from their pattern, with the formula of the fabric model. In these tests,
the oracle executes each message as well. It must leave the same bytes in SRAM as the kernels, and its count of words
on every link must equal the counts of the execution backend and of the fabric model.
"""

from collections import defaultdict
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from carried_lines import carry, memory_of
from session import SOFTWARE, region_options, wafer
from tiny_model import tensors, tiny_spec

from wse.backends.execute.calls.bind import BoundPhase
from wse.backends.execute.calls.streams import Call
from wse.backends.execute.calls.transfer_calls import TransferCalls
from wse.backends.execute.engine import Engine
from wse.backends.fabric.model import Fabric
from wse.compiler.choice import Choice
from wse.compiler.pipeline import compile_choice
from wse.program.steps import Phase, Slots
from wse.program.transfers.messages import LineMessages
from wse.program.transfers.transfer import Transfer
from wse.program.transfers.transfer_types import transfer_of

PROMPT, TOKENS = 7, 1
WAFERS, ROWS, COLS = 2, 6, 34
LINES = {"along_rows", "along_columns", "along_columns_in_place"}
EXCHANGES = {"exchange_along_rows", "exchange_along_columns"}


class OracleComparison:
    """Patches the execution backend so that the oracle also executes every message along a line and counts its words.

    Attributes:
        kernels: Names of the kernels that were called.
        links: For each stage, int64 ``[4, rows, cols]``: the oracle's count of words on the four outgoing links of
            each PE, without messages that leave the wafer.
        executed_links: The counts that the execution backend adds for the same messages, same keys and shapes.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kernels: set[str] = set()
        self.links: defaultdict[int, npt.NDArray[np.int64]] = defaultdict(lambda: np.zeros((4, ROWS, COLS), np.int64))
        self.executed_links = self.links.copy()
        original_calls, original_run = TransferCalls.calls, Engine.run

        def calls(moves: TransferCalls, phase: Phase, step: int, slots: Slots, turn: int, user: int) -> list[Call]:
            found = original_calls(moves, phase, step, slots, turn, user)
            transfer = transfer_of(moves._program, phase, step, slots, phase.round_of(step, turn))
            if not isinstance(transfer.messages, LineMessages):
                return found
            return [(self.run_both, (moves, transfer, transfer.messages, found))]

        def run(engine: Engine, bound: BoundPhase) -> None:
            original_run(engine, bound)
            for (stage, loads), times in bound.loads.items():
                loads.add(
                    self.executed_links[stage][:, : engine.arenas[stage].rows, : engine.arenas[stage].cols], times
                )

        monkeypatch.setattr(TransferCalls, "calls", calls)
        monkeypatch.setattr(Engine, "run", run)

    def run_both(self, moves: TransferCalls, transfer: Transfer, messages: LineMessages, calls: list[Call]) -> None:
        arena, site = moves._arenas[transfer.site.stage], transfer.site
        element_type = moves._program.element_types[site.view]
        expected = memory_of(arena, element_type)
        words = carry(expected, element_type, transfer, messages)
        for function, arguments in calls:
            function(*arguments)
        self.kernels.add(calls[0][0].__name__)
        np.testing.assert_array_equal(memory_of(arena, element_type), expected)
        if not transfer.leaves_wafer:  # `Streams` counts messages to the edge of the wafer
            self.links[site.stage][:, : arena.rows, : arena.cols] += words


def run(mapping: str, choice: Choice) -> tuple[Engine, Any]:
    """Execute prefill, decode and a verification pass on two wafers.

    Returns:
        The engine, and the words on every link that the fabric model counts, int64 ``[wafers, 4, rows, cols]``.
    """
    spec, machine = tiny_spec(), wafer(ROWS, COLS // WAFERS, 1 << 20)
    options = region_options(
        mapping=mapping,
        wafers=WAFERS,
        dtype="float16",
        context=30,
        prompt_tokens=(PROMPT,),
        logits_out="all",
        verify_tokens=3,
    )
    program = compile_choice(spec, machine, SOFTWARE, options, choice)
    engine = Engine(program, spec, tensors(spec).__getitem__)
    list(engine.prefill(range(3, 3 + PROMPT)))
    for _ in range(TOKENS):
        engine.decode()
    engine.verify([4, 5, 6])
    fabric = Fabric(program, machine, SOFTWARE)
    costs = [fabric.prefill_cost(i) for i in range(len(program.prefill))]
    costs += [fabric.decode_cost(PROMPT + i) for i in range(TOKENS)] + [fabric.verify_cost(PROMPT + TOKENS)]
    return engine, sum(cost.links for cost in costs)


@pytest.mark.parametrize(
    ("mapping", "choice", "kernels"),
    [
        ("region", Choice(prefill="mesh-gemm", prefill_chunk=6, head_chunk=40), LINES | EXCHANGES),
        ("tensor", Choice(prefill="thin-gemm", prefill_chunk=3, head_chunk=40), LINES | {"along_rows_in_place"}),
    ],
    ids=["region", "tensor"],
)
def test_link_words_equal_those_of_the_oracle_and_the_fabric_model(
    mapping: str, choice: Choice, kernels: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    comparison = OracleComparison(monkeypatch)
    engine, fabric_words = run(mapping, choice)
    assert comparison.kernels == kernels
    assert set(comparison.links) == set(engine.arenas) == set(comparison.executed_links)
    for stage, links in comparison.links.items():
        np.testing.assert_array_equal(comparison.executed_links[stage], links)
    np.testing.assert_array_equal(engine.link_words(), fabric_words)
