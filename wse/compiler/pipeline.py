"""The compiler: a tuple of passes over one State, checked after each that places, routes or addresses anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from wse.compiler.allocate import allocate
from wse.compiler.check import check
from wse.compiler.emit import emit
from wse.compiler.options import MODEL, Choice, Options
from wse.compiler.partition import partition
from wse.compiler.place import place
from wse.compiler.route import route
from wse.compiler.schedule import schedule
from wse.compiler.shard import shard
from wse.compiler.state import State
from wse.graph import op_graph
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.models.spec import ModelSpec
from wse.program import Program

Pass = Callable[[State], State]

PIPELINE: Final[tuple[Pass, ...]] = (partition, shard, place, schedule, route, allocate, emit)


def compile_choice(
    spec: ModelSpec,
    wafer: WaferSpec,
    software: SoftwareProfile,
    options: Options,
    choice: Choice,
    pipeline: tuple[Pass, ...] = PIPELINE,
) -> Program:
    """One compilation with every choice made. Raises DoesNotFit or BadMesh when it cannot be."""
    graph = op_graph(spec, ends=options.scope == MODEL)
    state = State(spec=spec, wafer=wafer, software=software, options=options, choice=choice, graph=graph)
    for step in pipeline:
        state = step(state)
        check(state, after=step.__name__)
    assert state.program is not None
    return state.program
