"""Words are counted as they move: a plain reading of every message carries them, and the fabric model counts as many.

Execution computes the words of most messages from their pattern, by the formula of the fabric model. Here the oracle
carries each message as well, counts the words on every link as they cross it, and must leave in SRAM what the kernels
leave there: no word moves uncounted, and none is counted that did not move.
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
from wse.program.phase import Phase
from wse.program.steps import Slots
from wse.program.transfers.messages import LineMessages
from wse.program.transfers.transfer import Transfer
from wse.program.transfers.transfer_types import transfer_of

PROMPT, TOKENS = 7, 2
WAFERS, ROWS, COLS = 2, 6, 34
LINES = {"along_rows", "along_columns", "along_columns_in_place"}
EXCHANGES = {"exchange_along_rows", "exchange_along_columns"}


class CarriedTwice:
    """The calls of lines, each beside the oracle's, which counts the words.

    Attributes:
        kernels: The names of the kernels that were called.
        links: By stage, int64 ``[4, rows, cols]``: the words that left each PE and did not leave their wafer.
        worked_out: Those that execution adds for the same messages, in the same way.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kernels: set[str] = set()
        self.links: defaultdict[int, npt.NDArray[np.int64]] = defaultdict(lambda: np.zeros((4, ROWS, COLS), np.int64))
        self.worked_out = self.links.copy()
        made, ran = TransferCalls.calls, Engine.run

        def calls(moves: TransferCalls, phase: Phase, step: int, slots: Slots, turn: int, user: int) -> list[Call]:
            found = made(moves, phase, step, slots, turn, user)
            transfer = transfer_of(moves._program, phase, step, slots, phase.round_of(step, turn))
            if not isinstance(transfer.messages, LineMessages):
                return found
            return [(self.carry_twice, (moves, transfer, transfer.messages, found))]

        def run(engine: Engine, bound: BoundPhase) -> None:
            ran(engine, bound)
            for (stage, loads), times in bound.loads.items():
                loads.add(self.worked_out[stage][:, : engine.arenas[stage].rows, : engine.arenas[stage].cols], times)

        monkeypatch.setattr(TransferCalls, "calls", calls)
        monkeypatch.setattr(Engine, "run", run)

    def carry_twice(self, moves: TransferCalls, transfer: Transfer, messages: LineMessages, calls: list[Call]) -> None:
        arena, site = moves._arenas[transfer.site.stage], transfer.site
        element_type = moves._program.element_types[site.view]
        expected = memory_of(arena, element_type)
        words = carry(expected, element_type, transfer, messages)
        for function, arguments in calls:
            function(*arguments)
        self.kernels.add(calls[0][0].__name__)
        np.testing.assert_array_equal(memory_of(arena, element_type), expected)
        if not transfer.leaves_wafer:  # the others go to the edge, which `Streams` counts
            self.links[site.stage][:, : arena.rows, : arena.cols] += words


def run(mapping: str, choice: Choice) -> tuple[Engine, Any]:
    """A prompt, tokens and a pass over several, on two wafers; the words by link that the fabric model counts."""
    spec, machine = tiny_spec(layers=4), wafer(ROWS, COLS // WAFERS, 1 << 20)
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
        ("pipeline", Choice(per_band=2, prefill="thin-gemm", prefill_chunk=3, head_chunk=2), LINES),
        ("region", Choice(prefill="mesh-gemm", prefill_chunk=6, head_chunk=40), LINES | EXCHANGES),
        ("tensor", Choice(prefill="thin-gemm", prefill_chunk=3, head_chunk=40), LINES | {"along_rows_in_place"}),
    ],
    ids=["pipeline", "region", "tensor"],
)
def test_words_count_as_they_move(
    mapping: str, choice: Choice, kernels: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    carried = CarriedTwice(monkeypatch)
    engine, by_fabric = run(mapping, choice)
    assert carried.kernels == kernels
    assert set(carried.links) == set(engine.arenas) == set(carried.worked_out)
    for stage, links in carried.links.items():
        np.testing.assert_array_equal(carried.worked_out[stage], links)
    np.testing.assert_array_equal(engine.link_words(), by_fabric)
