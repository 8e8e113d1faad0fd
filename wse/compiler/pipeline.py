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

PIPELINE: Final[tuple[Pass, ...]] = (partition, shard, place, lower_ops, route, allocate, emit)
"""All passes in order. Messages and arguments name a pass by its function."""


def first_state(
    spec: ModelSpec, wafer: WaferSpec, software: SoftwareProfile, options: Options, choice: Choice
) -> State:
    """Return the state from which the first pass starts."""
    mesh = turned_wafer(wafer) if choice.turned else wafer
    graph = op_graph(spec, options.scope)
    return State(spec=spec, wafer=mesh, software=software, options=options, choice=choice, graph=graph)


def compile_until(last: str, state: State, pipeline: tuple[Pass, ...] = PIPELINE, *, checked: bool = True) -> State:
    """Run the passes that a state has not been through, up to a named one.

    Args:
        last: Name of the last pass to run. If the state has been through it, it is returned as it is.
        state: The state to continue from, which knows the last pass that it has been through.
        pipeline: The passes to choose from.
        checked: Whether the state is checked after each pass.

    Raises:
        DoesNotFit, BadMesh: a pass finds that the model cannot be compiled so.
        WseBug: a check fails.
    """
    names = [step.__name__ for step in pipeline]
    first = names.index(state.last_pass) + 1 if state.last_pass else 0
    for step in pipeline[first : names.index(last) + 1]:
        state = replace(step(state), last_pass=step.__name__)
        if checked:
            check(state, after=step.__name__)
    return state


def compile_choice(
    spec: ModelSpec,
    wafer: WaferSpec,
    software: SoftwareProfile,
    options: Options,
    choice: Choice,
    pipeline: tuple[Pass, ...] = PIPELINE,
) -> Program:
    """Compile with all choices given.

    Raises DoesNotFit or BadMesh where that is impossible.
    """
    state = compile_until(pipeline[-1].__name__, first_state(spec, wafer, software, options, choice), pipeline)
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
    """Return a Program that was compiled without its tiles, with them."""
    state = compile_until("shard", first_state(spec, wafer, software, options, choice))
    tiles = tiles_at(state, program.stages, program.buffers)
    return replace(program, tiles=tiles, padding_fraction=padding_fraction(state))
