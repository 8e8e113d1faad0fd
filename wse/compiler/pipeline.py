"""The compiler pipeline: a sequence of passes over a `State` that is checked after each pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from wse.compiler.check import check
from wse.compiler.choice import Choice
from wse.compiler.options import Options, check_takes_drafts
from wse.compiler.passes.allocate import allocate
from wse.compiler.passes.emit import emit, padding_fraction, tiles_at
from wse.compiler.passes.lowering import lower_ops
from wse.compiler.passes.partition import partition
from wse.compiler.passes.place import place
from wse.compiler.passes.route import route
from wse.compiler.passes.shard import shard
from wse.compiler.state import State
from wse.hardware.spec import SoftwareProfile, WaferSpec, transposed_wafer
from wse.models.graph import op_graph
from wse.models.spec import ModelSpec
from wse.program.program import Program

Pass = Callable[[State], State]

PIPELINE: Final[tuple[Pass, ...]] = (partition, shard, place, lower_ops, route, allocate, emit)
"""All passes in order. Messages and arguments refer to a pass by its function name."""


def first_state(
    spec: ModelSpec, wafer: WaferSpec, software: SoftwareProfile, options: Options, choice: Choice
) -> State:
    """Return the initial state of a compilation, before the first pass.

    Args:
        spec: Model to compile.
        wafer: Wafer to compile for. Its mesh is transposed if the choice says so.
        software: Costs of the software on the wafer.
        options: The requested options.
        choice: The decisions of a search: layout, chunk sizes and rewrites.

    Raises:
        BadInput: The request has verification passes, which the model does not support.
    """
    if options.verify_tokens:
        check_takes_drafts(spec)
    mesh = transposed_wafer(wafer) if choice.is_transposed else wafer
    graph = op_graph(spec, options.scope)
    return State(spec=spec, wafer=mesh, software=software, options=options, choice=choice, graph=graph)


def compile_until(last: str, state: State, pipeline: tuple[Pass, ...] = PIPELINE, *, checked: bool = True) -> State:
    """Run the compiler passes that have not run yet, up to and including a given one.

    Args:
        last: Name of the last pass to run. If that pass has already run, the state is returned
            unchanged.
        state: State to continue from.
        pipeline: All passes in order.
        checked: True to check the state after each pass, which finds bugs of the compiler. False to
            save the time of these checks.

    Returns:
        The state after the pass ``last``.

    Raises:
        DoesNotFit, BadMesh: The model cannot be compiled with these options.
        WseBug: A check fails.
    """
    names = [step.__name__ for step in pipeline]
    first = names.index(state.last_pass) + 1 if state.last_pass else 0
    for step in pipeline[first : names.index(last) + 1]:
        state = replace(step(state), last_pass=step.__name__)
        if checked:
            check(state, pass_name=step.__name__)
    return state


def compile_choice(
    spec: ModelSpec,
    wafer: WaferSpec,
    software: SoftwareProfile,
    options: Options,
    choice: Choice,
    pipeline: tuple[Pass, ...] = PIPELINE,
) -> Program:
    """Compile a model with a given layout, chunk sizes and rewrites, without any search.

    Args:
        spec: Model to compile.
        wafer: Wafer to compile for.
        software: Costs of the software on the wafer.
        options: The requested options, such as the mapping, the number of wafers and the element
            types.
        choice: Layout, chunk sizes and rewrites, which a search would otherwise decide.
        pipeline: Compiler passes in order. The last one must create the Program.

    Raises:
        DoesNotFit: The model needs more SRAM or more colours than are available.
        BadMesh: The regions do not fit on the mesh.
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
    """Add the weight tiles to a Program that was compiled without them.

    Args:
        program: The Program, which a search may have compiled without tiles to save time.
        spec, wafer, software, options, choice: The arguments that the Program was compiled with.

    Returns:
        A copy of the Program with the tiles, and with the fraction of their elements that is
        padding.
    """
    state = compile_until("shard", first_state(spec, wafer, software, options, choice))
    tiles = tiles_at(state, program.stages, program.buffers)
    return replace(program, tiles=tiles, padding_fraction=padding_fraction(state))
