"""Costs of passes on wafers, compiled: a grid of users and contexts for decoding, of tokens and contexts for prompts.

All are of the regions that were chosen for the request. Each number of users is a Program of its own, whose memory map
says how many tokens of cache there is room for beside what its passes take; a pass for more users at once takes fewer
cycles for each, and more SRAM for activations. Numbers are doubled as long as the model serves more tokens a second so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from wse.compiler.options import REPORT, THIN_GEMM, Choice, Options
from wse.compiler.pipeline import compile_choice
from wse.fabric.model import Fabric
from wse.hardware.spec import WaferSpec
from wse.program.program import Program
from wse.request.basis import Placeable
from wse.search.search import Compilation
from wse.serving.route import Route, alone_cycles, as_loop, slowest
from wse.serving.simulation.staged_costs import ChunkGrid, DecodeGrid, PassTime, StagedCosts
from wse.studies.estimate.stage_times import HOST_LINK, RouteReader
from wse.studies.results.sram import kv_capacity_tokens

CONTEXTS: Final = 9
"""Contexts of the grid, from none to the longest."""
LENGTH_FACTOR: Final = 4
"""Last chunks of prompts are compiled for lengths each as many times the one before."""
MOST_USERS_OF_PASS: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class _Passes:
    """Decode passes of a number of users, and the tokens of cache beside them."""

    users: int
    times: tuple[PassTime, ...]
    kv_tokens: int


def wafer_costs(prepared: Placeable, compilation: Compilation, streams: int | None) -> StagedCosts:
    """The costs of a request's passes, with at most so many ``streams`` in flight."""
    compilation = replace(compilation, choice=_choice(compilation))
    context = compilation.options.context
    contexts = tuple(sorted({round(at * (context - 1) / (CONTEXTS - 1)) for at in range(CONTEXTS)}))
    prefill = _chunk_grid(prepared, compilation)
    best, best_rate, passes = None, 0.0, list[_Passes]()
    users = 1
    while users <= MOST_USERS_OF_PASS:
        passes.append(_decode_passes(prepared, compilation, users, contexts))
        costs = _costs(prepared, compilation.program, contexts, passes, prefill, streams)
        rate = _full_rate(costs, prepared)
        if rate <= best_rate:
            break
        best, best_rate, users = costs, rate, 2 * users
    return best or _costs(prepared, compilation.program, contexts, passes[:1], prefill, streams)


def _choice(compilation: Compilation) -> Choice:
    """The choice of a compilation with chunks that prompts of any length can be read in.

    A product on the mesh gives all rows of a region an equal share of a whole chunk; a prompt that is one chunk need
    not have one.
    """
    choice, rows = compilation.choice, max(stage.rect.rows for stage in compilation.program.stages)
    if choice.prefill == THIN_GEMM:
        return choice
    return replace(choice, prefill_chunk=max(rows, choice.prefill_chunk // rows * rows))


def _costs(
    prepared: Placeable,
    program: Program,
    contexts: tuple[int, ...],
    passes: list[_Passes],
    prefill: ChunkGrid,
    streams: int | None,
) -> StagedCosts:
    block, room = _block_tokens(program), passes[-1].kv_tokens
    return StagedCosts(
        decode=DecodeGrid(
            users=tuple(of_users.users for of_users in passes),
            contexts=contexts,
            passes=tuple(of_users.times for of_users in passes),
        ),
        prefill=prefill,
        kv_capacity_tokens=room,
        kv_block_tokens=block,
        most_users=max(1, room // block),
        streams=streams,
        host_s=prepared.wafer.host_round_trip_s,
    )


def _full_rate(costs: StagedCosts, prepared: Placeable) -> float:
    """Tokens a second with as many users as caches have room for, in the middle of their answers."""
    lengths, block = prepared.options.prompt_tokens[0] + prepared.new_tokens, costs.kv_block_tokens
    users = costs.kv_capacity_tokens // (-(-lengths // block) * block)
    if not users or costs.kv_capacity_tokens < prepared.options.context:  # the longest request fits by itself
        return 0.0
    return users / costs.round_s(users, prepared.middle_context[0], ())


def _decode_passes(prepared: Placeable, compilation: Compilation, users: int, contexts: tuple[int, ...]) -> _Passes:
    chunk = compilation.choice.prefill_chunk
    longest = compilation.options.context - 1
    prompts = (longest, *(min(chunk, longest),) * (users - 1))  # one with all chunks, for what they take of SRAM
    fabric = _fabric(prepared, compilation, prompts)
    reader, program = RouteReader(fabric), fabric.program
    routes = [as_loop(reader.route(program.decode, fabric.decode_cost(*(tokens,) * users))) for tokens in contexts]
    return _Passes(
        users=users,
        times=tuple(pass_time(reader, prepared.wafer, route) for route in routes),
        kv_tokens=users * kv_capacity_tokens(program),
    )


def _chunk_grid(prepared: Placeable, compilation: Compilation) -> ChunkGrid:
    """Whole chunks up to the longest prompt; and last ones of several lengths, at its begin and at its end."""
    longest = compilation.options.context - 1
    chunk = min(compilation.choice.prefill_chunk, longest)
    before = (longest - 1) // chunk * chunk
    lengths = [1]
    while LENGTH_FACTOR * lengths[-1] < chunk:
        lengths.append(LENGTH_FACTOR * lengths[-1])
    lengths += [chunk] * (chunk > 1)

    def times(prompt: int) -> tuple[PassTime, ...]:
        """The chunks of a prompt."""
        fabric = _fabric(prepared, compilation, (prompt,))
        reader, phases = RouteReader(fabric), enumerate(fabric.program.prefill)
        routes = [reader.route(phase, fabric.prefill_cost(index)) for index, phase in phases]
        return tuple(pass_time(reader, prepared.wafer, route) for route in routes)

    ends = [times(before + length) for length in lengths]
    return ChunkGrid(
        chunk_tokens=chunk,
        chunks=ends[-1],
        last_tokens=tuple(lengths),
        lasts=tuple((times(length)[-1], end[-1]) for length, end in zip(lengths, ends, strict=True)),
    )


def _fabric(prepared: Placeable, compilation: Compilation, prompts: tuple[int, ...]) -> Fabric:
    """The fabric model of the same regions for other prompts; what it needs of SRAM is told, not refused."""
    options: Options = replace(compilation.options, prompt_tokens=prompts, capacity=REPORT)
    program = compile_choice(prepared.spec, prepared.wafer, prepared.software, options, compilation.choice)
    return Fabric(program, prepared.wafer, prepared.software, prepared.meshes)


def pass_time(reader: RouteReader, wafer: WaferSpec, route: Route) -> PassTime:
    """A pass without the host's round trip, which is told apart: no request waits for that of another."""
    trips = sum(visit.latency_cycles for visit in route if reader.servers[visit.server].kind == HOST_LINK)
    return PassTime((alone_cycles(route) - trips) / wafer.clock_hz, slowest(route)[1] / wafer.clock_hz)


def _block_tokens(program: Program) -> int:
    """Tokens of a slot of cache on all rows of a stage, where that is most."""
    cached = [stage.rect.rows for stage, (cache, _) in zip(program.stages, program.cache_bytes(), strict=True) if cache]
    return max(cached, default=1)
