"""The compiler: a tuple of passes over one State, checked after each that places, routes or addresses anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from wse.compiler.check import check
from wse.compiler.options import Choice, Options
from wse.compiler.passes.allocate import allocate
from wse.compiler.passes.emit import emit, padding_fraction, tiles_at
from wse.compiler.passes.lowering import lower_ops
from wse.compiler.passes.partition import partition
from wse.compiler.passes.place import place
from wse.compiler.passes.route import route
from wse.compiler.passes.shard import shard
from wse.compiler.state import State
from wse.hardware.mesh import turned_wafer
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.models.graph import op_graph
from wse.models.spec import ModelSpec
from wse.program.program import Program

Pass = Callable[[State], State]

PLACING: Final[tuple[Pass, ...]] = (shard, place)
"""The passes that cut a partitioned model and place it, which do not go by the choice of rewrites."""

PIPELINE: Final[tuple[Pass, ...]] = (partition, *PLACING, lower_ops, route, allocate, emit)


def first_state(
    spec: ModelSpec, wafer: WaferSpec, software: SoftwareProfile, options: Options, choice: Choice
) -> State:
    """The state that the first pass starts from."""
    mesh = turned_wafer(wafer) if choice.turned else wafer
    graph = op_graph(spec, options.scope)
    return State(spec=spec, wafer=mesh, software=software, options=options, choice=choice, graph=graph)


def compile_choice(
    spec: ModelSpec,
    wafer: WaferSpec,
    software: SoftwareProfile,
    options: Options,
    choice: Choice,
    pipeline: tuple[Pass, ...] = PIPELINE,
) -> Program:
    """Compile with every choice made. Raises DoesNotFit or BadMesh when it cannot be."""
    state = first_state(spec, wafer, software, options, choice)
    for step in pipeline:
        state = step(state)
        check(state, after=step.__name__)
    assert state.program is not None
    return state.program


def with_tiles(
    program: Program,
    spec: ModelSpec,
    wafer: WaferSpec,
    software: SoftwareProfile,
    options: Options,
    choice: Choice,
) -> Program:
    """A Program that was compiled without its tiles, with them."""
    state = shard(partition(first_state(spec, wafer, software, options, choice)))
    check(state, after=shard.__name__)
    tiles = tiles_at(state, program.stages, program.buffers)
    return replace(program, tiles=tiles, padding_fraction=padding_fraction(state))
